//! The body of a response: nothing, bytes in memory, or a part of a file, read piece by piece or sent by the kernel.

use std::future::Future;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use rustix::io::ReadWriteFlags;
use tokio::task::JoinHandle;

use super::files::Opened;
use super::sendfile::{self, Outgoing};

/// Bytes read from a file at once; a response holds at most one piece while another is sent.
const PIECE: u64 = 128 << 10;

/// The body of a response.
#[derive(Debug)]
pub(super) enum Content {
    /// Bytes in memory; taken with the first frame.
    Memory(Bytes),
    /// A part of a file.
    Disk(Disk),
}

/// A part of a file that is read as it is sent, by this process or by the kernel.
#[derive(Debug)]
pub(super) struct Disk {
    opened: Arc<Opened>,
    left: Range<u64>,
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
    /// Where the kernel sends the part.
    kernel: Option<Outgoing>,
    /// The part is among those that the kernel sends.
    announced: bool,
}

impl Content {
    /// A part of a file; sent by the kernel where there is an `Outgoing`.
    pub(super) fn disk(opened: Arc<Opened>, range: Range<u64>, kernel: Option<Outgoing>) -> Self {
        Self::Disk(Disk { opened, left: range, reading: None, kernel, announced: false })
    }
}

impl Disk {
    /// Returns a stand-in for up to `most` of the next bytes, which the kernel sends.
    fn stand_in(&mut self, most: u64) -> Option<Bytes> {
        let outgoing = self.kernel.as_ref()?;
        if !self.announced {
            outgoing.push(self.opened.clone(), self.left.clone());
            self.announced = true;
        }
        let stand_in = sendfile::stand_in(most.min(self.left.end - self.left.start));
        self.left.start += stand_in.len() as u64;
        Some(stand_in)
    }

    /// Whether the first and the last of the next `length` bytes are in the page cache; usually all of them are
    /// then. Otherwise `sendfile` would block this thread until the disk has been read.
    fn is_cached(&self, length: u64) -> bool {
        let (file, whole) = (&self.opened.file, self.opened.length);
        let there = |at: u64| {
            let (mut byte, flags) = ([0], ReadWriteFlags::NOWAIT);
            let read = rustix::io::preadv2(file, &mut [io::IoSliceMut::new(&mut byte)], at, flags);
            // If the file system does not support this query, the bytes count as cached.
            read != Err(rustix::io::Errno::AGAIN)
        };
        if whole <= sendfile::MOST {
            // The file is shared for a second only, so one check is enough for the responses that share it.
            let resident = &self.opened.resident;
            let found = resident.load(Ordering::Relaxed) || (there(0) && there(whole - 1));
            resident.store(found, Ordering::Relaxed);
            return found;
        }
        let length = length.min(self.left.end - self.left.start);
        there(self.left.start) && there(self.left.start + length - 1)
    }

    /// Starts reading the next piece on a blocking thread.
    fn next(&self) -> JoinHandle<io::Result<Vec<u8>>> {
        let (opened, from) = (self.opened.clone(), self.left.start);
        let length = PIECE.min(self.left.end - from) as usize;
        tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; length];
            // A file that has become shorter ends the response with an error, and with it the connection.
            opened.file.read_exact_at(&mut piece, from).map(|()| piece)
        })
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let disk = match self.get_mut() {
            Self::Memory(bytes) => {
                let bytes = std::mem::take(bytes);
                return Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))));
            }
            Self::Disk(disk) => disk,
        };
        if disk.left.is_empty() {
            return Poll::Ready(None);
        }
        if disk.reading.is_none() {
            if disk.kernel.is_some() && disk.is_cached(sendfile::MOST) {
                return Poll::Ready(disk.stand_in(sendfile::MOST).map(|bytes| Ok(Frame::data(bytes))));
            }
            disk.reading = Some(disk.next());
        }
        let Some(reading) = disk.reading.as_mut() else { return Poll::Ready(None) };
        let outcome = ready!(Pin::new(reading).poll(cx));
        disk.reading = None;
        let piece = outcome.unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
        Poll::Ready(Some(piece.map(|piece| {
            // The bytes that were read are in the page cache, so the kernel can send them.
            let bytes = disk.stand_in(piece.len() as u64).unwrap_or_else(|| {
                disk.left.start += piece.len() as u64;
                piece.into()
            });
            Frame::data(bytes)
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Disk(disk) => disk.left.end - disk.left.start,
        })
    }
}
