//! The files of the served directory: opened below it, and cached in memory if they are small.
//!
//! Many players fetch the same segments at the same time, so a file up to [`KEPT_FILE`] is read once and
//! shared. [`KEPT`] bounds the memory, including responses in progress. Files that do not fit are read from
//! disk in pieces (`body`). A file that changes gets another modification time or length and is read again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

/// Largest file that is kept in memory.
const KEPT_FILE: u64 = 4 << 20;
/// Bytes of all files in memory.
const KEPT: usize = 64 << 20;
/// Unit of the memory budget.
const UNIT: u64 = 4 << 10;

/// One version of one file: device, inode, modification time in ns, length.
type Identity = (u64, u64, i128, u64);

/// A file as it was when it was opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) length: u64,
    /// Entity tag, with its quotation marks.
    pub(super) tag: String,
    /// Modification time in whole seconds, as in HTTP dates.
    pub(super) modified: SystemTime,
    identity: Identity,
}

/// Bytes in memory with their share of the budget.
struct Kept {
    bytes: Vec<u8>,
    _share: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A file's contents once they have been read; `None` if reading failed.
type Slot = Arc<OnceCell<Option<Bytes>>>;

#[derive(Debug, Default)]
struct Cache {
    files: BTreeMap<Identity, (Slot, u64)>,
    /// Counter of uses, for least-recently-used eviction.
    uses: u64,
}

/// The served directory.
#[derive(Debug)]
pub(super) struct Store {
    root: OwnedFd,
    cache: Mutex<Cache>,
    budget: Arc<Semaphore>,
}

impl Store {
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let root = rustix::fs::open(directory, flags, Mode::empty())?;
        Ok(Self { root, cache: Mutex::default(), budget: Arc::new(Semaphore::new(KEPT / UNIT as usize)) })
    }

    /// Opens a regular file by its path below the directory. The kernel refuses links that lead out of it.
    pub(super) fn file(&self, path: &str) -> io::Result<Opened> {
        // Opening a pipe without a writer would block; with this flag it opens, and is refused below.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = File::from(rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve)?);
        let stat = rustix::fs::fstat(&file)?;
        if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let length = u64::try_from(stat.st_size).unwrap_or_default();
        let nanos = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
        let seconds = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or_default());
        Ok(Opened {
            file,
            length,
            tag: format!("\"{length:x}-{nanos:x}\""),
            modified: SystemTime::UNIX_EPOCH + seconds,
            identity: (stat.st_dev, stat.st_ino, nanos, length),
        })
    }

    /// The contents of a small file; `None` for a large one, and while responses in progress use all the
    /// memory.
    pub(super) async fn contents(&self, opened: &Opened) -> Option<Bytes> {
        if opened.length > KEPT_FILE {
            return None;
        }
        let slot = self.slot(opened.identity);
        let contents = slot.get_or_init(|| self.read(opened)).await.clone();
        if contents.is_none() {
            // The next request tries again.
            self.forget(opened.identity, &slot);
        }
        contents
    }

    fn slot(&self, identity: Identity) -> Slot {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.uses += 1;
        let uses = cache.uses;
        let (slot, used) = cache.files.entry(identity).or_default();
        *used = uses;
        slot.clone()
    }

    fn forget(&self, identity: Identity, slot: &Slot) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.files.get(&identity).is_some_and(|(held, _)| Arc::ptr_eq(held, slot)) {
            cache.files.remove(&identity);
        }
    }

    /// Reads a whole file, within the budget.
    async fn read(&self, opened: &Opened) -> Option<Bytes> {
        let share = self.share(opened.length)?;
        let (file, length) = (opened.file.try_clone().ok()?, opened.length as usize);
        let reading = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; length];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).map(|()| bytes)
        });
        let bytes = reading.await.ok()?.ok()?;
        Some(Bytes::from_owner(Kept { bytes, _share: share }))
    }

    /// Reserves memory, evicting the least recently used files.
    fn share(&self, length: u64) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(length.div_ceil(UNIT).max(1)).ok()?;
        loop {
            if let Ok(share) = self.budget.clone().try_acquire_many_owned(units) {
                return Some(share);
            }
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            let read = cache.files.iter().filter(|(_, (slot, _))| slot.initialized());
            let oldest = *read.min_by_key(|(_, (_, used))| *used)?.0;
            cache.files.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn memory_stays_within_its_budget_and_a_changed_file_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let most = KEPT / KEPT_FILE as usize;
        let mut held = Vec::new();
        for number in 0..=most {
            let name = format!("{number}");
            std::fs::write(directory.path().join(&name), vec![number as u8; KEPT_FILE as usize]).unwrap();
            held.push(store.contents(&store.file(&name).unwrap()).await);
        }
        // Responses hold all the memory: the last file has to come from disk.
        assert_eq!(held.iter().filter(|contents| contents.is_some()).count(), most);
        assert!(held[most].is_none());
        held.clear();
        let contents = store.contents(&store.file("3").unwrap()).await.expect("there is room again");
        assert!(contents.iter().all(|byte| *byte == 3));
        std::fs::write(directory.path().join("3"), b"new").unwrap();
        assert_eq!(store.contents(&store.file("3").unwrap()).await.unwrap(), b"new".as_slice());
        std::fs::write(directory.path().join("large"), vec![0; KEPT_FILE as usize + 1]).unwrap();
        assert!(store.contents(&store.file("large").unwrap()).await.is_none());
    }

    #[test]
    fn only_regular_files_below_the_directory_are_opened() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), b"secret").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("sub")).unwrap();
        std::fs::write(at("sub/file"), b"seen").unwrap();
        std::os::unix::fs::symlink("sub/file", at("inside")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), at("absolute")).unwrap();
        std::os::unix::fs::symlink("../../../../etc/passwd", at("relative")).unwrap();
        let pipe =
            rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0);
        pipe.unwrap();
        let store = Store::open(directory.path()).unwrap();
        assert_eq!(store.file("inside").unwrap().length, 4);
        for path in ["absolute", "relative", "pipe", "sub", "none", "../x", "/etc/passwd", ""] {
            assert!(store.file(path).is_err(), "{path}");
        }
    }
}
