//! Common to the client's three workloads: sending requests, reading answers, and the ways a run can end.

use crate::wire::{Answer, HEADER, Request, Status, WireError};
use std::io;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};
pub use tributary_player::tiled::End;

/// Bytes per read of the stream.
pub(crate) const READ: usize = 512 * 1024;

/// Why there is no measurement.
#[derive(Debug, Error)]
pub enum FetchError {
    /// The answer does not follow the workload protocol.
    #[error("invalid answer from the server: {0}")]
    Wire(#[from] WireError),
    /// The server does not grant the request.
    #[error("the server refused {0}")]
    Refused(&'static str),
    /// The server streams no video.
    #[error("the server has no video to stream: start it with a video or the rendered scene")]
    NoVideo,
    /// An answer announces a number beyond the limits.
    #[error("the server announces {what} of {value}, more than this client accepts")]
    Excess {
        /// Name of the number.
        what: &'static str,
        /// Its value.
        value: u64,
    },
}

/// Why an exchange stopped; callers turn the second variant into [`End`].
pub(crate) enum Stop {
    Fatal(FetchError),
    End(End),
}

impl From<FetchError> for Stop {
    fn from(error: FetchError) -> Self {
        Self::Fatal(error)
    }
}

impl From<WireError> for Stop {
    fn from(error: WireError) -> Self {
        Self::Fatal(error.into())
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::End(End::Failed(match error.kind() {
            io::ErrorKind::UnexpectedEof => "the server closed the stream before the end".to_owned(),
            _ => error.to_string(),
        }))
    }
}

impl From<tokio::time::error::Elapsed> for Stop {
    fn from(_: tokio::time::error::Elapsed) -> Self {
        Self::End(End::TimedOut)
    }
}

/// Sends `request`, no later than `until`.
pub(crate) async fn ask<S: AsyncWrite + Unpin>(
    stream: &mut S,
    request: Request,
    until: Instant,
) -> Result<(), Stop> {
    timeout_at(until, async {
        stream.write_all(&request.encode()).await?;
        stream.flush().await
    })
    .await??;
    Ok(())
}

/// Reads an answer and fails unless the request is granted.
pub(crate) async fn answer<S: AsyncRead + Unpin>(
    stream: &mut S,
    what: &'static str,
    until: Instant,
) -> Result<Answer, Stop> {
    let mut header = [0; HEADER];
    timeout_at(until, stream.read_exact(&mut header)).await??;
    let answer = Answer::decode(&header)?;
    match answer.status {
        Status::Granted => Ok(answer),
        Status::Refused => Err(FetchError::Refused(what).into()),
        Status::NoVideo => Err(FetchError::NoVideo.into()),
    }
}

/// Reads up to `length` more bytes of a body into `buffer`. The end of the stream is an error here.
pub(crate) async fn some<'a, S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &'a mut [u8],
    left: u64,
    until: Instant,
) -> Result<&'a [u8], Stop> {
    let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
    let count = timeout_at(until, stream.read(&mut buffer[..most])).await??;
    if count == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(&buffer[..count])
}

/// Ends the client's direction, so that the server ends too; failures are ignored.
pub(crate) async fn leave<S: AsyncWrite + Unpin>(stream: &mut S) {
    let _ = tokio::time::timeout(core::time::Duration::from_secs(1), stream.shutdown()).await;
}
