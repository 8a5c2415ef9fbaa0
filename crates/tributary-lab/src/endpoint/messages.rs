//! Both ends of a flow of messages, over any byte stream.

use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::messages::{MessageFlow, STAMP};

/// Latencies kept of one flow at most: ten minutes of a thousand a second.
const MOST: usize = 600_000;

/// Nanoseconds of the machine's monotonic clock.
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Server: makes messages from the second byte that arrives until the stream ends.
pub(super) async fn push<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, flow: MessageFlow) {
    let mut words = [0; 2];
    if stream.read_exact(&mut words).await.is_err() {
        return;
    }
    let mut message = vec![0; flow.size];
    let (began, at) = (Instant::now(), monotonic());
    let mut ticks = interval(Duration::from_secs(1) / flow.per_second);
    // What is late is made up for: it was due when it was due.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        let made = at + ticks.tick().await.saturating_duration_since(began).as_nanos() as u64;
        message[..STAMP].copy_from_slice(&made.to_be_bytes());
        if stream.write_all(&message).await.is_err() {
            return;
        }
    }
}

/// Client: says that the connection is there, so that a kernel that joins paths after the first byte does.
pub(super) async fn introduce<S: AsyncWrite + Unpin>(stream: &mut S) -> std::io::Result<()> {
    stream.write_all(b"c").await
}

/// Client: lets the server begin, and notes how long each message took, in milliseconds, until dropped.
pub(super) async fn receive<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    flow: &MessageFlow,
    latencies_ms: &mut Vec<f64>,
) {
    let mut message = vec![0; flow.size];
    if stream.write_all(b"b").await.is_ok() {
        while stream.read_exact(&mut message).await.is_ok() {
            let stamp = message.first_chunk::<STAMP>().expect("messages are at least as long as a stamp");
            let took = monotonic().saturating_sub(u64::from_be_bytes(*stamp));
            if latencies_ms.len() < MOST {
                latencies_ms.push(took as f64 * 1e-6);
            }
        }
    }
    // A connection that has ended brings no more; the run goes on.
    core::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_arrive_with_the_time_they_took() {
        let flow = MessageFlow { size: 100, per_second: 2000, ..MessageFlow::imu() };
        let (mut near, far) = tokio::io::duplex(1 << 16);
        let pushing = tokio::spawn(push(far, flow.clone()));
        introduce(&mut near).await.unwrap();
        let mut took = Vec::new();
        let enough = async {
            let mut interval = interval(Duration::from_millis(100));
            interval.tick().await;
            interval.tick().await;
        };
        tokio::select! {
            () = receive(&mut near, &flow, &mut took) => {}
            () = enough => {}
        }
        drop(near);
        pushing.await.unwrap();
        assert!(!took.is_empty() && took.iter().all(|ms| ms.is_finite() && *ms >= 0.0), "{took:?}");
    }
}
