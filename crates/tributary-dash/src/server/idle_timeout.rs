//! A byte stream with an idle timeout and a least rate, so that a peer that neither reads nor writes, or reads a few
//! bytes at a time, cannot hold a connection for ever.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::slots::Activity;

/// Least bytes per second that a peer reads while this end waits for it.
const LEAST_RATE: f64 = 500.0;

/// A stream with a limit on the time between two bytes in either direction, and a least rate of what is written.
pub(super) struct IdleTimeout<S> {
    stream: S,
    limit: Duration,
    moved: Instant,
    timer: Pin<Box<Sleep>>,
    activity: Activity,
    slow: Slow,
}

/// How long writes had to wait for the peer, and what it took meanwhile.
#[derive(Debug, Default)]
struct Slow {
    since: Option<Instant>,
    waited: Duration,
    written: u64,
}

impl Slow {
    /// Counts a write. Returns whether the peer is too slow: it kept this end waiting for `limit` in all.
    fn count(&mut self, now: Instant, outcome: &Poll<io::Result<usize>>, limit: Duration) -> bool {
        match outcome {
            Poll::Pending => _ = self.since.get_or_insert(now),
            Poll::Ready(Ok(bytes)) => {
                self.waited += self.since.take().map_or(Duration::ZERO, |since| now.duration_since(since));
                self.written += *bytes as u64;
            }
            Poll::Ready(Err(_)) => {}
        }
        if self.waited < limit {
            return false;
        }
        let too_slow = (self.written as f64) < LEAST_RATE * self.waited.as_secs_f64();
        *self = Self { since: self.since, ..Self::default() };
        too_slow
    }
}

impl<S> IdleTimeout<S> {
    pub(super) fn new(stream: S, limit: Duration, activity: Activity) -> Self {
        let moved = Instant::now();
        let timer = Box::pin(tokio::time::sleep_until(moved + limit));
        Self { stream, limit, moved, timer, activity, slow: Slow::default() }
    }

    /// As [`Self::judge`] for a write, with the least rate.
    fn judge_write(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.slow.count(Instant::now(), &outcome, self.limit) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.judge(cx, outcome, true)
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
                self.activity.touch(self.moved);
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

impl<S: AsyncRead + Unpin> AsyncRead for IdleTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.judge(cx, outcome, true)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for IdleTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, data);
        self.judge_write(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.judge_write(cx, outcome)
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
        let mut ours = IdleTimeout::new(ours, LIMIT, Activity::new());
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
        let mut ours = IdleTimeout::new(ours, LIMIT, Activity::new());
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

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_a_few_bytes_at_a_time_is_not_waited_for_for_ever() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut ours = IdleTimeout::new(ours, LIMIT, Activity::new());
        let reading = tokio::spawn(async move {
            let mut some = [0; 16];
            loop {
                tokio::time::sleep(LIMIT / 2).await;
                if theirs.read(&mut some).await.unwrap_or(0) == 0 {
                    break;
                }
            }
        });
        let began = Instant::now();
        let error = ours.write_all(&[0; 1 << 20]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
        reading.abort();
    }
}
