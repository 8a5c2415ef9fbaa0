//! Where finished ladders are kept: one directory a content and settings, complete or absent.
//!
//! Work happens in a sibling directory that is renamed when it is done, so that an interrupted or
//! concurrent run never leaves half a ladder behind under its final name.

use super::{LadderError, LadderSettings, Source};
use ring::digest::{Context, SHA256};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Changes whenever the encoder's arguments or the rendered scene do.
const RECIPE: &str = "annex-b cbr superfast 30 scene-1";

/// The directory of this content with these settings.
pub(super) fn place(source: &Source, settings: &LadderSettings) -> Result<PathBuf, LadderError> {
    let mut digest = Context::new(&SHA256);
    digest.update(RECIPE.as_bytes());
    digest.update(format!("{:?} {} {:?} ", settings.rates, settings.seconds, settings.width).as_bytes());
    match source {
        Source::Scene => digest.update(b"scene"),
        Source::File(path) => hash_file(path, &mut digest)
            .map_err(|source| LadderError::Unreadable { path: path.clone(), source })?,
    }
    let name: String = digest.finish().as_ref()[..16].iter().map(|b| format!("{b:02x}")).collect();
    Ok(settings.cache.join(name))
}

fn hash_file(path: &Path, digest: &mut Context) -> io::Result<()> {
    // Opening a FIFO would wait for its writer for ever.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut file = fs::File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            count => digest.update(&buffer[..count]),
        }
    }
}

/// Name of the byte stream of representation `number`.
pub(super) fn file_name(number: usize) -> String {
    format!("{number}.h264")
}

/// The byte streams in `directory`; `None` when one is missing.
pub(super) fn load(directory: &Path, count: usize) -> Option<Vec<Vec<u8>>> {
    (0..count).map(|n| fs::read(directory.join(file_name(n))).ok()).collect()
}

/// A directory to work in, removed unless it is kept.
pub(super) struct Work {
    path: PathBuf,
}

impl Work {
    pub(super) fn new(cache: &Path) -> Result<Self, LadderError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = cache.join(format!(".work-{}-{number}", std::process::id()));
        // A killed run with our process id may have left its work behind.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(|source| LadderError::Cache { path: path.clone(), source })?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the work to `place`, over a broken or equal ladder that is there.
    pub(super) fn keep(self, place: &Path) -> Result<(), LadderError> {
        if place.exists() {
            fs::remove_dir_all(place)
                .map_err(|source| LadderError::Cache { path: place.to_owned(), source })?;
        }
        fs::rename(&self.path, place).map_err(|source| LadderError::Cache { path: place.to_owned(), source })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // After `keep` the path is gone and this does nothing.
        let _ = fs::remove_dir_all(&self.path);
    }
}
