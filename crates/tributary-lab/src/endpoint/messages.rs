//! Both ends of a flow of messages, over any byte stream.

use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::messages::{MessageFlow, MessageRecord, STAMP};

/// Maximum number of recorded latencies of a flow: ten minutes at a thousand per second.
const MOST: usize = 600_000;

/// Nanoseconds of the machine's monotonic clock.
pub(super) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The times at which messages of a flow are due, from now on.
pub(super) struct Ticks {
    interval: Interval,
    began: (Instant, u64),
}

pub(super) fn ticks(flow: &MessageFlow) -> Ticks {
    let mut interval = interval(Duration::from_secs(1) / flow.per_second);
    // Late messages are sent at once and keep their due time.
    interval.set_missed_tick_behavior(MissedTickBehavior::Burst);
    Ticks { interval, began: (Instant::now(), monotonic()) }
}

impl Ticks {
    /// Waits for the next one; nanoseconds of the machine's monotonic clock.
    pub async fn next(&mut self) -> u64 {
        let (began, at) = self.began;
        at + self.interval.tick().await.saturating_duration_since(began).as_nanos() as u64
    }
}

/// Server: sends messages, from the next byte that arrives until the stream ends.
pub(super) async fn push<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, flow: MessageFlow) {
    if stream.read_u8().await.is_err() {
        return;
    }
    let mut message = vec![0; flow.size];
    let mut ticks = ticks(&flow);
    loop {
        let made = ticks.next().await;
        message[..STAMP].copy_from_slice(&made.to_be_bytes());
        if stream.write_all(&message).await.is_err() {
            return;
        }
    }
}

/// A client's measurements of a flow.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// When the client told the server to begin, nanoseconds.
    began: u64,
    /// Latency of each message, milliseconds.
    latencies_ms: Vec<f64>,
    /// One more than the highest number of a datagram.
    numbered: u64,
}

impl Received {
    /// The client tells the server to begin.
    pub fn begin(&mut self) {
        self.began = monotonic();
    }

    /// A datagram arrives that was made at this time, nanoseconds.
    pub fn datagram(&mut self, made: u64, number: u64) {
        self.numbered = self.numbered.max(number.saturating_add(1));
        if self.latencies_ms.len() < MOST {
            self.latencies_ms.push(monotonic().saturating_sub(made) as f64 * 1e-6);
        }
    }

    /// Datagrams that have not arrived although a later one has, or a second after they were due.
    fn lost(&self, flow: &MessageFlow, end: u64) -> usize {
        let due = end.saturating_sub(self.began).saturating_sub(1_000_000_000);
        let due = due * u64::from(flow.per_second) / 1_000_000_000;
        (self.numbered.max(due) as usize).min(MOST).saturating_sub(self.latencies_ms.len())
    }

    /// Its state at the end of the run.
    pub fn record(&self, flow: &MessageFlow) -> MessageRecord {
        if flow.datagrams {
            return MessageRecord::with_lost(&flow.name, &self.latencies_ms, self.lost(flow, monotonic()));
        }
        MessageRecord::new(&flow.name, &self.latencies_ms, &self.ages_ms(flow, monotonic()))
    }

    /// Ages in milliseconds of the messages that were due before `end` and have not arrived. Messages arrive in the
    /// order in which they were sent.
    fn ages_ms(&self, flow: &MessageFlow, end: u64) -> Vec<f64> {
        let most = MOST.saturating_sub(self.latencies_ms.len());
        let due = |number: usize| {
            self.began.saturating_add(number as u64 * 1_000_000_000 / u64::from(flow.per_second))
        };
        let missing = (self.latencies_ms.len()..).map(due).take_while(|due| *due < end).take(most);
        missing.map(|due| (end - due) as f64 * 1e-6).collect()
    }
}

/// Client: tells the server to begin, and records the latency of each message, until dropped.
pub(super) async fn receive<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    flow: &MessageFlow,
    received: &mut Received,
) {
    let mut message = vec![0; flow.size];
    received.begin();
    let latencies_ms = &mut received.latencies_ms;
    if stream.write_all(b"b").await.is_ok() {
        while stream.read_exact(&mut message).await.is_ok() {
            let stamp = message.first_chunk::<STAMP>().expect("messages are at least as long as a stamp");
            let took = monotonic().saturating_sub(u64::from_be_bytes(*stamp));
            if latencies_ms.len() < MOST {
                latencies_ms.push(took as f64 * 1e-6);
            }
        }
    }
    // The connection has ended, so no more messages arrive; the run continues.
    core::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn latencies_of_messages_are_recorded() {
        let flow = MessageFlow { size: 100, per_second: 2000, ..MessageFlow::imu() };
        let (mut near, far) = tokio::io::duplex(1 << 16);
        let pushing = tokio::spawn(push(far, flow.clone()));
        let mut took = Received::default();
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
        let took = took.latencies_ms;
        assert!(!took.is_empty() && took.iter().all(|ms| ms.is_finite() && *ms >= 0.0), "{took:?}");
    }

    #[test]
    fn messages_that_have_not_arrived_count_with_their_age() {
        let flow = MessageFlow::audio(); // One every 20 ms.
        let received = Received { began: 5_000_000_000, latencies_ms: vec![1.0; 3], numbered: 0 };
        assert_eq!(received.ages_ms(&flow, 5_105_000_000), [45.0, 25.0, 5.0]);
        assert!(received.ages_ms(&flow, 5_060_000_000).is_empty());
        let full = Received { began: 0, latencies_ms: vec![1.0; MOST], numbered: 0 };
        assert!(full.ages_ms(&flow, u64::MAX).is_empty());
    }

    #[test]
    fn datagrams_that_were_overtaken_or_are_a_second_late_are_lost() {
        let flow = MessageFlow { per_second: 10, ..MessageFlow::game() };
        let second = 1_000_000_000;
        let mut received = Received { began: 5 * second, ..Received::default() };
        [0, 1, 3].into_iter().for_each(|number| received.datagram(5 * second, number));
        assert_eq!(received.lost(&flow, 5 * second + second / 2), 1, "the third");
        assert_eq!(received.lost(&flow, 7 * second), 10 - 3, "those of the first second");
        received.datagram(5 * second, 2);
        assert_eq!(received.lost(&flow, 6 * second), 0);
        assert_eq!(received.record(&flow).arrived, 4);
    }
}
