//! Cache of finished ladders: one directory per content and settings, complete or absent.
//!
//! An encoding writes to a sibling directory and renames it at the end. An interrupted or
//! concurrent run therefore never leaves an incomplete ladder under its final name.

use super::{LadderError, LadderSettings, Source};
use aws_lc_rs::digest::{Context, SHA256};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Version of the encoding. Change it with the encoder's arguments and with the rendered scene.
const RECIPE: &str = "annex-b cbr superfast 30 scene-1";

/// Prefix of the names of working directories.
const WORK: &str = ".work-";
/// A working directory older than this belongs to a run that was killed; no encoding takes this long.
const ABANDONED: Duration = Duration::from_secs(6 * 3600);

/// The directory of this content with these settings.
pub(super) fn place(source: &Source, settings: &LadderSettings) -> Result<PathBuf, LadderError> {
    let mut digest = Context::new(&SHA256);
    digest.update(RECIPE.as_bytes());
    digest.update(
        format!("{:?} {} {:?} {} ", settings.rates, settings.seconds, settings.width, settings.any_aspect)
            .as_bytes(),
    );
    match source {
        Source::Scene => digest.update(b"scene"),
        Source::File(path) => {
            // The conversion of stored to upright pictures is a part of the recipe.
            digest.update(b"upright-1");
            let unreadable = |source| LadderError::Unreadable { path: path.clone(), source };
            hash_file(path, &mut digest).map_err(unreadable)?;
        }
    }
    let name: String = digest.finish().as_ref()[..16].iter().map(|b| format!("{b:02x}")).collect();
    Ok(settings.cache.join(name))
}

fn hash_file(path: &Path, digest: &mut Context) -> io::Result<()> {
    // Opening a FIFO would block until it has a writer.
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

/// A working directory, removed unless it is kept.
pub(super) struct Work {
    directory: TempDir,
}

impl Work {
    pub(super) fn new(cache: &Path) -> Result<Self, LadderError> {
        let fail = |source| LadderError::Cache { path: cache.to_owned(), source };
        fs::create_dir_all(cache).map_err(fail)?;
        remove_abandoned(cache);
        // The name does not contain the process id: ids repeat across namespaces that share a cache.
        let directory = tempfile::Builder::new().prefix(WORK).tempdir_in(cache).map_err(fail)?;
        Ok(Self { directory })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Moves the work to `place`, replacing a broken or equal ladder there.
    pub(super) fn keep(self, place: &Path) -> Result<(), LadderError> {
        let fail = |source| LadderError::Cache { path: place.to_owned(), source };
        if place.exists() {
            fs::remove_dir_all(place).map_err(fail)?;
        }
        fs::rename(self.path(), place).map_err(fail)?;
        // The directory has been renamed, so there is nothing to remove.
        let _ = self.directory.keep();
        Ok(())
    }
}

/// Removes working directories of runs that were killed.
fn remove_abandoned(cache: &Path) {
    let Ok(entries) = fs::read_dir(cache) else { return };
    for entry in entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(WORK)) {
        let modified = entry.metadata().and_then(|m| m.modified()).ok();
        if modified.and_then(|m| m.elapsed().ok()).is_some_and(|age| age > ABANDONED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
