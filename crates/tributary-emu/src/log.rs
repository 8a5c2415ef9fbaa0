//! Time series of every link for plots: bytes delivered, dropped and queued, ten times a second.

use core::time::Duration;
use serde::Serialize;
use tributary_link::{Direction, LinkConfig, LinkStats, Scenario};
use tributary_types::Instant;

/// Time between two samples.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// Raw samples: counters of all links over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkLog {
    samples: Vec<(Instant, Vec<LinkStats>)>,
}

/// One link in the interval between two samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkSample {
    /// Name of the path.
    pub path: String,
    /// Direction of the link.
    pub direction: Direction,
    /// Scenario time at the end of the interval, seconds.
    pub seconds: f64,
    /// The link's capacity in the interval, bytes.
    pub capacity_bytes: u64,
    /// Bytes that arrived at the link.
    pub offered_bytes: u64,
    /// Bytes that the link delivered.
    pub delivered_bytes: u64,
    /// Segments dropped by the full queue, by random loss and by a dead path.
    pub dropped: u64,
    /// Bytes queued at the end of the interval.
    pub queue_bytes: u64,
}

/// The direction of the link with this index, by the order of the forwarding thread's lanes.
pub(crate) fn direction_of(lane: usize) -> Direction {
    if lane.is_multiple_of(2) { Direction::Down } else { Direction::Up }
}

impl LinkLog {
    pub(crate) fn push(&mut self, now: Instant, stats: impl Iterator<Item = LinkStats>) {
        self.samples.push((now, stats.collect()));
    }

    /// The samples as differences, sorted by time, path and direction.
    pub(crate) fn series(&self, scenario: &Scenario, configs: &[LinkConfig]) -> Vec<LinkSample> {
        let mut out = Vec::new();
        for pair in self.samples.windows(2) {
            let ((from, before), (to, after)) = (&pair[0], &pair[1]);
            for (i, (a, b)) in before.iter().zip(after).enumerate() {
                let direction = direction_of(i);
                let gone = |s: &LinkStats| {
                    s.overflowed.packets + s.managed.packets + s.lost.packets + s.dead.packets
                };
                out.push(LinkSample {
                    path: scenario.paths[i / 2].name.clone(),
                    direction,
                    seconds: to.as_secs_f64(),
                    capacity_bytes: configs[i].capacity(*from, *to).as_bytes(),
                    offered_bytes: b.offered.bytes - a.offered.bytes,
                    delivered_bytes: b.delivered.bytes - a.delivered.bytes,
                    dropped: gone(b) - gone(a),
                    queue_bytes: b.queued.bytes,
                });
            }
        }
        out
    }

    /// Bytes delivered, and the link's capacity, over all intervals in which the queue never ran empty. Their ratio
    /// gives the link's rate error.
    pub(crate) fn busy(&self, config: &LinkConfig, lane: usize) -> (u64, u64) {
        let served = |s: &LinkStats| s.offered.bytes - s.overflowed.bytes - s.managed.bytes - s.queued.bytes;
        let mut sums = (0, 0);
        for pair in self.samples.windows(2) {
            let (a, b) = (&pair[0].1[lane], &pair[1].1[lane]);
            let held = |s: &LinkStats| s.queued.packets >= 2;
            if held(a) && held(b) && a.emptied == b.emptied && a.dead == b.dead {
                sums.0 += served(b) - served(a);
                sums.1 += config.capacity(pair[0].0, pair[1].0).as_bytes();
            }
        }
        sums
    }
}
