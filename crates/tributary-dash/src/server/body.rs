//! The body of a response: nothing, bytes in memory, or a part of a file read piece by piece.

use std::fs::File;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;

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

/// A part of a file that is read as it is sent.
#[derive(Debug)]
pub(super) struct Disk {
    file: Arc<File>,
    left: Range<u64>,
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

impl Content {
    pub(super) fn disk(file: File, range: Range<u64>) -> Self {
        Self::Disk(Disk { file: Arc::new(file), left: range, reading: None })
    }
}

impl Disk {
    /// Starts reading the next piece on a blocking thread.
    fn next(&self) -> JoinHandle<io::Result<Vec<u8>>> {
        let (file, from) = (self.file.clone(), self.left.start);
        let length = PIECE.min(self.left.end - from) as usize;
        tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; length];
            // If the file has become shorter, the response and its connection end with an error.
            file.read_exact_at(&mut piece, from).map(|()| piece)
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
            disk.reading = Some(disk.next());
        }
        let Some(reading) = disk.reading.as_mut() else { return Poll::Ready(None) };
        let outcome = ready!(Pin::new(reading).poll(cx));
        disk.reading = None;
        let piece = outcome.unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
        Poll::Ready(Some(piece.map(|piece| {
            disk.left.start += piece.len() as u64;
            Frame::data(piece.into())
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
