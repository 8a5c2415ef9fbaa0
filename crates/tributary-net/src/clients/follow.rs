//! Notices that the file with the list of clients has changed.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use tokio::io::unix::AsyncFd;

use crate::sockopt::readiness;

/// Waits for changes of one file. Its directory is watched, because editors replace files. Not noticed: that the
/// directory itself is replaced, or that a link's target in another directory changes.
#[derive(Debug)]
pub struct FileChanges {
    queue: AsyncFd<OwnedFd>,
    name: OsString,
}

impl FileChanges {
    /// Begins to watch. Needs a tokio runtime.
    ///
    /// # Errors
    /// The system's, for example when the directory may not be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        inotify::add_watch(&queue, directory, WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO)?;
        Ok(Self { queue: readiness::register(queue)?, name })
    }

    /// Waits until a program has written the file, or put another one in its place.
    ///
    /// Cancellation: safe.
    ///
    /// # Errors
    /// The system's.
    pub async fn next(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.queue.readable().await?;
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = Reader::new(self.queue.get_ref(), &mut buffer);
            let mut is_it = false;
            loop {
                match reader.next() {
                    Ok(event) => {
                        is_it |=
                            event.file_name().is_some_and(|name| name.to_bytes() == self.name.as_bytes());
                    }
                    Err(rustix::io::Errno::WOULDBLOCK) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            ready.clear_ready();
            if is_it {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_testing::HANG;

    use super::*;

    #[tokio::test]
    async fn a_file_that_is_written_or_replaced_is_noticed_and_others_are_not() {
        let directory = std::env::temp_dir().join(format!("tributary-follow-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("clients.toml");
        std::fs::write(&file, "").unwrap();
        let mut changes = FileChanges::of(&file).unwrap();
        let mut noticed = async || tokio::time::timeout(HANG, changes.next()).await.unwrap().unwrap();
        std::fs::write(&file, "a").unwrap();
        noticed().await;
        std::fs::write(directory.join("other"), "a").unwrap();
        std::fs::write(directory.join("new"), "b").unwrap();
        std::fs::rename(directory.join("new"), &file).unwrap();
        noticed().await;
        let rest = nothing_waits(&mut changes);
        assert!(rest, "nothing else has changed");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    /// Whether no change waits.
    fn nothing_waits(changes: &mut FileChanges) -> bool {
        let next = std::pin::pin!(changes.next());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        next.poll(&mut context).is_pending()
    }
}
