//! Workloads in which the server pushes at fixed times: bursts, packets at a constant rate, messages.

use core::time::Duration;
use tributary_link::WorkloadSpec;
use tributary_types::{Bitrate, DataSize, Instant};

use super::FlowRecord;
use super::exchange::Exchange;

/// Most latencies that are recorded.
const MOST_KEPT: usize = 2_000_000;

/// The server's half: when the next message is due, and how large it is.
#[derive(Debug)]
pub(super) struct Clock {
    size: u64,
    pace: Pace,
    /// Higher goes first.
    pub priority: u8,
    since: Option<Instant>,
    made: u64,
}

#[derive(Clone, Copy, Debug)]
enum Pace {
    Every(Duration),
    Rate(Bitrate),
}

impl Clock {
    /// `None` for workloads in which the client sends requests.
    pub fn new(spec: &WorkloadSpec) -> Option<Self> {
        let (size, pace, priority) = match spec {
            WorkloadSpec::Burst { size, every } => (size, Pace::Every(*every), 0),
            WorkloadSpec::Constant { rate, packet } => (packet, Pace::Rate(*rate), 0),
            WorkloadSpec::Messages { per_second, size, priority, .. } => {
                (size, Pace::Every(Duration::from_secs_f64(1.0 / per_second.max(1e-6))), *priority)
            }
            _ => return None,
        };
        Some(Self { size: size.as_bytes(), pace, priority, since: None, made: 0 })
    }

    /// Starts the clock: the first message is due at `since`.
    pub fn start(&mut self, since: Instant) {
        self.since = Some(since);
    }

    /// When the next message is due. Computed from the first message's time, so that rounding errors do not add
    /// up.
    pub fn due(&self) -> Option<Instant> {
        let after = match self.pace {
            Pace::Every(every) => {
                let nanos = (every.as_nanos() as u64).max(1).saturating_mul(self.made);
                Duration::from_nanos(nanos)
            }
            Pace::Rate(rate) => {
                let bytes = DataSize::from_bytes(self.size.saturating_mul(self.made));
                rate.time_for(bytes).unwrap_or(Duration::MAX)
            }
        };
        self.since.map(|since| since + after)
    }

    /// The next message that is due by `now`: when it was made and its size.
    pub fn poll(&mut self, now: Instant) -> Option<(Instant, u64)> {
        let due = self.due().filter(|due| *due <= now)?;
        self.made += 1;
        Some((due, self.size))
    }
}

/// The client's half: which messages are complete, and when.
#[derive(Debug)]
pub(super) struct Watch {
    deadline: Option<Duration>,
    since: Instant,
    last: Instant,
    received: u64,
}

impl Watch {
    /// For a workload that pushes.
    pub fn new(spec: &WorkloadSpec) -> Self {
        let deadline = match spec {
            WorkloadSpec::Messages { deadline, .. } => *deadline,
            _ => None,
        };
        Self { deadline, since: Instant::ZERO, last: Instant::ZERO, received: 0 }
    }

    /// The connection is up.
    pub fn connected(&mut self, now: Instant) {
        self.since = now;
    }

    /// Bytes of workload `index` arrived.
    pub fn arrived(
        &mut self,
        now: Instant,
        bytes: u64,
        (exchange, index): (&Exchange, usize),
        record: &mut FlowRecord,
    ) {
        record.first_byte.get_or_insert(now.saturating_since(self.since));
        if let Some(oldest) = exchange.oldest(index) {
            record.arrivals.expect(oldest.made.max(self.last));
        }
        record.arrivals.bytes(now, bytes);
        record.arrivals.rest();
        self.last = now;
        self.received += bytes;
        while let Some(message) = exchange.oldest(index).filter(|message| message.end <= self.received) {
            exchange.arrived(index);
            let latency = now.saturating_since(message.made);
            record.late += u64::from(self.deadline.is_some_and(|deadline| latency > deadline));
            if record.latencies.len() < MOST_KEPT {
                record.latencies.push(latency);
            }
        }
    }

    /// Completes the record at `end`.
    pub fn finish(&self, end: Instant, (exchange, index): (&Exchange, usize), record: &mut FlowRecord) {
        record.made = exchange.made(index);
        let outstanding = exchange.outstanding(index);
        record.unfinished = outstanding.len() as u64;
        if let Some(oldest) = outstanding.first() {
            record.arrivals.expect((*oldest).max(self.last));
        }
        if let Some(deadline) = self.deadline {
            let passed = |made: &&Instant| end.saturating_since(**made) > deadline;
            record.late += outstanding.iter().filter(passed).count() as u64;
        }
    }
}
