//! The directory while it is being filled: one process at a time, with records of finished pieces.
//!
//! Every file appears complete under its name, and the record of a piece only after its files. After any
//! interruption a piece is therefore either finished or absent.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::IngestError;
use super::recipe::Recipe;
use super::track::Track;
use crate::layout;
use crate::video::TiledVideo;

const PLAN: &str = "plan.json";
/// The record of the decoded source.
pub(super) const REFERENCE: &str = "source.json";

/// SHA-256 of files, by their names in the directory.
pub(super) type Sums = BTreeMap<String, String>;

/// A record that lists the files of a finished piece.
pub(super) trait Note: Serialize + DeserializeOwned {
    fn sums(&self) -> &Sums;
}

/// The record of the source's pictures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reference {
    pub(super) gops: usize,
    pub(super) notes: Vec<String>,
    pub(super) sums: Sums,
}

impl Note for Reference {
    fn sums(&self) -> &Sums {
        &self.sums
    }
}

/// The directory, locked.
pub(super) struct Work {
    directory: PathBuf,
    /// Held while a file is written that several pieces write.
    shared: Mutex<()>,
    pub(super) _lock: Lock,
}

/// A locked file; the kernel unlocks it when the process ends for any reason.
///
/// Closing alone does not unlock: a child process that another thread is starting holds a copy of the
/// descriptor until it executes its program.
pub(super) struct Lock(pub(super) File);

impl Lock {
    /// Creates and locks a file; `None` while another holder has it.
    fn take(path: &Path) -> io::Result<Option<Self>> {
        let file = File::create(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // If this fails, closing the last copy unlocks it.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// The video in `directory`, if it exists and was made by `recipe`.
pub(super) fn finished(directory: &Path, recipe: &Recipe) -> Result<Option<TiledVideo>, IngestError> {
    if !directory.join(layout::RECORD).exists() {
        return Ok(None);
    }
    let video = TiledVideo::open(directory)?;
    let gops = if recipe.resample { video.gops() } else { recipe.gops };
    let same = video.source() == &recipe.source
        && (video.grid(), video.size(), video.frame_rate()) == (recipe.grid, recipe.size, recipe.rate)
        && (video.qps(), video.gops()) == (&recipe.qps[..], gops)
        && video.record().sound == recipe.sound.as_ref().map(Track::info)
        && video.record().encoder == recipe.encoder().description();
    if same {
        return Ok(Some(video));
    }
    let what = "holds a tiled video of another source or other settings";
    Err(IngestError::Occupied { directory: directory.to_owned(), what })
}

impl Work {
    /// Starts in `directory`, or resumes a stopped ingest with the same recipe.
    pub(super) fn begin(directory: &Path, recipe: &Recipe) -> Result<Self, IngestError> {
        let occupied = |what| Err(IngestError::Occupied { directory: directory.to_owned(), what });
        let at = directory.join(layout::WORK);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| IngestError::Write { path, source }
        };
        if foreign(directory).map_err(failed(directory))? && !at.join(PLAN).exists() {
            return occupied("is not empty and holds no ingest");
        }
        fs::create_dir_all(&at).map_err(failed(&at))?;
        let Some(lock) = Lock::take(&at.join("lock")).map_err(failed(&at))? else {
            return Err(IngestError::Busy(directory.to_owned()));
        };
        let work = Self { directory: directory.to_owned(), shared: Mutex::default(), _lock: lock };
        work.sweep().map_err(failed(&at))?;
        match fs::read(at.join(PLAN)) {
            Ok(bytes) => match serde_json::from_slice::<Recipe>(&bytes) {
                Ok(begun) if begun == *recipe => {}
                _ => return occupied("holds an unfinished ingest of another source or other settings"),
            },
            Err(_) => work.save(PLAN, recipe)?,
        }
        Ok(work)
    }

    /// Removes temporary data of a killed ingest: records are files, temporary data is in directories.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.path(layout::WORK))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// Cleans up after a stop: without a complete reference nothing is kept. Returns whether anything is
    /// kept.
    pub(super) fn stop(&self) -> Result<bool, IngestError> {
        if self.path(layout::WORK).join(REFERENCE).exists() {
            return Ok(true);
        }
        let source = self.path(layout::SOURCE);
        let removed = match fs::remove_dir_all(&source) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        removed.map_err(|error| IngestError::Write { path: source, source: error })?;
        self.end()?;
        // If this fails, the directory existed before.
        let _ = fs::remove_dir(&self.directory);
        Ok(false)
    }

    /// Path of a file of the video.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// A directory for temporary files.
    pub(super) fn scratch(&self) -> Result<tempfile::TempDir, IngestError> {
        let path = self.path(layout::WORK);
        tempfile::tempdir_in(&path).map_err(|source| IngestError::Write { path, source })
    }

    /// Writes a file of the video and records its SHA-256.
    pub(super) fn write(&self, name: String, bytes: &[u8], sums: &mut Sums) -> Result<(), IngestError> {
        let path = self.path(&name);
        layout::write_whole(&path, bytes).map_err(|source| IngestError::Write { path, source })?;
        sums.insert(name, layout::hex(&layout::sum(bytes)));
        Ok(())
    }

    /// The same for a file that several pieces write, with the same content, perhaps at the same time.
    pub(super) fn write_shared(
        &self,
        name: String,
        bytes: &[u8],
        sums: &mut Sums,
    ) -> Result<(), IngestError> {
        let _one = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if fs::read(self.path(&name)).is_ok_and(|there| there == bytes) {
            sums.insert(name, layout::hex(&layout::sum(bytes)));
            return Ok(());
        }
        self.write(name, bytes, sums)
    }

    /// Writes the record of a finished piece.
    pub(super) fn save(&self, name: &str, note: &impl Serialize) -> Result<(), IngestError> {
        let path = self.directory.join(layout::WORK).join(name);
        let failed = |source| IngestError::Write { path: path.clone(), source };
        let bytes = serde_json::to_vec(note).map_err(|e| failed(io::Error::other(e)))?;
        layout::write_whole(&path, &bytes).map_err(failed)
    }

    /// The record of a finished piece, if it exists.
    pub(super) fn load<N: DeserializeOwned>(&self, name: &str) -> Option<N> {
        let bytes = fs::read(self.directory.join(layout::WORK).join(name)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// The record of a finished piece, if all its files still match their checksums.
    pub(super) fn load_whole<N: Note>(&self, name: &str) -> Option<N> {
        let note: N = self.load(name)?;
        let whole = note.sums().iter().all(|(name, sum)| {
            fs::read(self.path(name)).is_ok_and(|bytes| layout::hex(&layout::sum(&bytes)) == *sum)
        });
        whole.then_some(note)
    }

    /// Removes the records; the video is complete.
    pub(super) fn end(&self) -> Result<(), IngestError> {
        let path = self.path(layout::WORK);
        fs::remove_dir_all(&path).map_err(|source| IngestError::Write { path, source })
    }
}

/// Whether a directory contains anything but a working directory.
fn foreign(directory: &Path) -> io::Result<bool> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(entries.flatten().any(|entry| entry.file_name() != layout::WORK)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
