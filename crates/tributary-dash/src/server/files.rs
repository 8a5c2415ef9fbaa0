//! The files of the served directory: opened below it, and cached in memory if they are small.
//!
//! Many players fetch the same segments at the same time, so a file up to [`KEPT_FILE`] is read once and
//! shared. [`KEPT`] bounds the memory, including responses in progress. Files that do not fit are read from
//! disk in pieces (`body`). A file that changes gets another modification time or length and is read again.
//!
//! Responses in progress share the open file: for a second, further requests for it need one system call (`fstat`)
//! instead of three. A file that is replaced by another (renamed) is found after that second at the latest.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::HeaderValue;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

/// Largest file that is kept in memory.
const KEPT_FILE: u64 = 4 << 20;
/// Bytes of all files in memory.
const KEPT: usize = 64 << 20;
/// Unit of the memory budget.
const UNIT: u64 = 4 << 10;

/// Time for which an open file is shared.
const SHARED: Duration = Duration::from_secs(1);
/// Paths of open files; when there are more, those that no response uses are removed.
const PATHS: usize = 1024;

/// One version of one file: device, inode, modification time in ns, length.
type Identity = (u64, u64, i128, u64);

/// An open file, as it was when it was opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) length: u64,
    /// Entity tag, with its quotation marks.
    pub(super) tag: String,
    /// Modification time in whole seconds, as in HTTP dates.
    pub(super) modified: SystemTime,
    /// The same two as values of headers.
    pub(super) headers: (HeaderValue, HeaderValue),
    /// A response has found all of it in the page cache.
    pub(super) resident: AtomicBool,
    identity: Identity,
    at: Instant,
}

impl Opened {
    fn new(file: File) -> io::Result<Self> {
        let (identity, regular) = identify(&file)?;
        if !regular {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (.., nanos, length) = identity;
        let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or_default();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let tag = format!("\"{length:x}-{nanos:x}\"");
        let value = |text: &str| HeaderValue::from_str(text).map_err(io::Error::other);
        let headers = (value(&tag)?, value(&httpdate::fmt_http_date(modified))?);
        let (resident, at) = (AtomicBool::new(false), Instant::now());
        Ok(Self { file, length, tag, modified, headers, resident, identity, at })
    }

    /// Whether it may be shared: it was opened a short time ago, and has not changed since.
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < SHARED
            && identify(&self.file).is_ok_and(|(identity, _)| identity == self.identity)
    }
}

/// The version of a file, and whether it is a regular file.
fn identify(file: impl AsFd) -> io::Result<(Identity, bool)> {
    let stat = rustix::fs::fstat(file)?;
    let length = u64::try_from(stat.st_size).unwrap_or_default();
    let nanos = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
    let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
    Ok(((stat.st_dev, stat.st_ino, nanos, length), regular))
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
    /// Files that responses use, by path.
    open: Mutex<HashMap<String, Weak<Opened>>>,
    cache: Mutex<Cache>,
    budget: Arc<Semaphore>,
}

impl Store {
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let root = rustix::fs::open(directory, flags, Mode::empty())?;
        let budget = Arc::new(Semaphore::new(KEPT / UNIT as usize));
        Ok(Self { root, open: Mutex::default(), cache: Mutex::default(), budget })
    }

    /// A regular file by its path below the directory.
    pub(super) fn file(&self, path: &str) -> io::Result<Arc<Opened>> {
        let shared = self.lock_open().get(path).and_then(Weak::upgrade);
        if let Some(shared) = shared.filter(|opened| opened.is_fresh()) {
            return Ok(shared);
        }
        let opened = Arc::new(self.open_file(path)?);
        let mut open = self.lock_open();
        if open.len() >= PATHS {
            open.retain(|_, opened| opened.strong_count() > 0);
        }
        open.insert(path.to_owned(), Arc::downgrade(&opened));
        Ok(opened)
    }

    fn lock_open(&self) -> MutexGuard<'_, HashMap<String, Weak<Opened>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a file. The kernel refuses links that lead out of the directory.
    fn open_file(&self, path: &str) -> io::Result<Opened> {
        // Opening a pipe without a writer would block; with this flag it opens, and is refused below.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        Opened::new(File::from(rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve)?))
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
    fn responses_share_an_open_file_until_it_changes() {
        let directory = tempfile::tempdir().unwrap();
        let (at, other) = (directory.path().join("a"), directory.path().join("b"));
        std::fs::write(&at, b"one").unwrap();
        let store = Store::open(directory.path()).unwrap();
        let first = store.file("a").unwrap();
        assert!(Arc::ptr_eq(&first, &store.file("a").unwrap()));
        std::fs::write(&at, b"longer").unwrap();
        let second = store.file("a").unwrap();
        assert_eq!((second.length, first.length), (6, 3));
        std::fs::write(&other, b"another file").unwrap();
        std::fs::rename(&other, &at).unwrap();
        // No response uses it any more.
        drop((first, second));
        assert_eq!(store.file("a").unwrap().length, 12);
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
