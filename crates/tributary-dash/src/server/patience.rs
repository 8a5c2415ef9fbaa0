//! A byte stream with an idle timeout, so that a peer that neither reads nor writes cannot hold a connection
//! for ever.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream with a limit on the time between two bytes in either direction.
pub(super) struct Patient<S> {
    stream: S,
    limit: Duration,
    moved: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        let moved = Instant::now();
        Self { stream, limit, moved, timer: Box::pin(tokio::time::sleep_until(moved + limit)) }
    }

    /// Checks the result of a read or write: `Pending` becomes an error once the limit has passed.
    fn judge<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
        moves: bool,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            if moves {
                self.moved = Instant::now();
            }
            return outcome;
        }
        // The timer is reset only when it fires, not with every byte.
        while self.timer.as_mut().poll(cx).is_ready() {
            let due = self.moved + self.limit;
            if due <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.judge(cx, outcome, true)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, data);
        self.judge(cx, outcome, true)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.judge(cx, outcome, true)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(cx, outcome, false)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judge(cx, outcome, false)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_ends_a_read_and_a_full_pipe_ends_a_write() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut ours = Patient::new(ours, LIMIT);
        let began = Instant::now();
        let error = ours.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), LIMIT);
        let error = ours.write_all(&[0; 17]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), 2 * LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_that_moves_is_waited_for() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut ours = Patient::new(ours, LIMIT);
        let slow = async {
            for byte in 0..4 {
                tokio::time::sleep(LIMIT - Duration::from_secs(1)).await;
                theirs.write_u8(byte).await.unwrap();
            }
        };
        let mut read = [0; 4];
        let (read, ()) = tokio::join!(ours.read_exact(&mut read), slow);
        assert_eq!(read.unwrap(), 4);
    }
}
