//! The file to which complete segments are saved.

use std::io::{self, Write};
use std::path::PathBuf;

use super::ClientError;

/// File for complete segments.
#[derive(Debug)]
pub(super) struct Sink {
    file: Option<(PathBuf, io::BufWriter<std::fs::File>)>,
    /// Number of complete segments.
    pub(super) count: usize,
    /// Quality and initialisation segment of the last one.
    last: Option<(usize, Vec<u8>)>,
}

impl Sink {
    pub(super) fn create(path: Option<PathBuf>) -> Result<Self, ClientError> {
        let open = |path: PathBuf| match std::fs::File::create(&path) {
            Ok(file) => Ok((path, io::BufWriter::new(file))),
            Err(source) => Err(ClientError::Save { path, source }),
        };
        Ok(Self { file: path.map(open).transpose()?, count: 0, last: None })
    }

    pub(super) fn take(
        &mut self,
        quality: usize,
        initialization: &[u8],
        media: &[u8],
    ) -> Result<(), ClientError> {
        self.count += 1;
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        // The same quality of another period has an initialisation segment of its own.
        let one = Some((quality, initialization.to_vec()));
        let changed = self.last != one;
        self.last = one;
        let written = if changed { file.write_all(initialization) } else { Ok(()) };
        let written = written.and_then(|()| file.write_all(media)).and_then(|()| file.flush());
        written.map_err(|source| ClientError::Save { path: path.clone(), source })
    }
}
