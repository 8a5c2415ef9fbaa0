//! The client's half of workloads with requests: a long transfer, objects, requests of a browser.

use core::time::Duration;
use tributary_link::WorkloadSpec;
use tributary_types::{Instant, Rng};

use super::{Completion, FlowRecord, Terms};

/// What to ask for, and when to ask next.
#[derive(Debug)]
pub(super) struct Pull {
    spec: WorkloadSpec,
    rng: Rng,
    /// When to ask next.
    next: Option<Instant>,
    asked: u64,
    under_way: Option<UnderWay>,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    since: Instant,
    first_byte: Option<Duration>,
    /// Bytes to receive; `None` is a transfer without end.
    size: Option<u64>,
    received: u64,
}

impl Pull {
    /// `None` for workloads in which the server pushes.
    pub fn new(spec: &WorkloadSpec, rng: Rng) -> Option<Self> {
        use WorkloadSpec::{Bulk, Object, Request};
        matches!(spec, Bulk { .. } | Object { .. } | Request { .. }).then(|| Self {
            spec: spec.clone(),
            rng,
            next: None,
            asked: 0,
            under_way: None,
        })
    }

    /// The connection is up.
    pub fn connected(&mut self, now: Instant, terms: &Terms) {
        self.next = Some(now.max(terms.from));
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// The next request if it is due: `Some(None)` is a transfer without end.
    pub fn poll(&mut self, now: Instant, record: &mut FlowRecord) -> Option<Option<u64>> {
        self.next.take_if(|next| *next <= now)?;
        let size = match &self.spec {
            WorkloadSpec::Bulk { size } => size.map(|size| size.as_bytes()),
            WorkloadSpec::Object { size, .. } => Some(size.as_bytes()),
            WorkloadSpec::Request { sizes, .. } => {
                let total: f64 = sizes.iter().map(|(_, weight)| weight).sum();
                let mut mark = self.rng.uniform() * total;
                let drawn = sizes.iter().find(|(_, weight)| {
                    mark -= weight;
                    mark < 0.0
                });
                drawn.or(sizes.last()).map(|(size, _)| size.as_bytes())
            }
            _ => return None,
        };
        self.asked += 1;
        self.under_way = Some(UnderWay { since: now, first_byte: None, size, received: 0 });
        if size.is_some() {
            record.arrivals.expect(now);
        }
        Some(size)
    }

    /// Bytes of the answer arrived.
    pub fn arrived(&mut self, now: Instant, bytes: u64, record: &mut FlowRecord) {
        record.arrivals.bytes(now, bytes);
        let Some(under_way) = &mut self.under_way else { return };
        under_way.received += bytes;
        let since = under_way.since;
        let first_byte = *under_way.first_byte.get_or_insert(now.saturating_since(since));
        record.first_byte.get_or_insert(first_byte);
        let Some(size) = under_way.size else {
            record.arrivals.expect(now); // after the first byte, data is always outstanding
            return;
        };
        if under_way.received >= size {
            record.arrivals.rest();
            record.completions.push(Completion { size, first_byte, took: now.saturating_since(since) });
            self.under_way = None;
            self.next = self.pause().map(|pause| now + pause);
        }
    }

    /// Pause after an answer; `None` when it was the last answer.
    fn pause(&mut self) -> Option<Duration> {
        match &self.spec {
            WorkloadSpec::Object { count, pause, .. } => (self.asked < *count).then_some(*pause),
            WorkloadSpec::Request { think, .. } => {
                let nanos = self.rng.exponential(think.as_nanos() as f64);
                Some(Duration::from_nanos(nanos as u64))
            }
            _ => None,
        }
    }

    /// Completes the record at `end`.
    pub fn finish(&self, end: Instant, record: &mut FlowRecord) {
        let sized = self.under_way.filter(|under_way| under_way.size.is_some());
        record.pending = sized.map(|under_way| end.saturating_since(under_way.since));
        record.unfinished = match &self.spec {
            WorkloadSpec::Object { count, .. } => count.saturating_sub(record.completions.len() as u64),
            WorkloadSpec::Bulk { size: None } => 0,
            WorkloadSpec::Bulk { .. } => 1_u64.saturating_sub(record.completions.len() as u64),
            _ => u64::from(sized.is_some()),
        };
    }
}
