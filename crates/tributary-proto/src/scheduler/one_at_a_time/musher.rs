//! `musher`: two subflows in a fixed ratio, searched when the channel changes.
//!
//! Source: MuSher (Saha et al., MobiCom 2019) as in its public code: of every hundred segments
//! r go to the first subflow and the rest to the second; a subflow at its quota waits for the
//! other. Deviates: the thresholds of 200 and 5 Mbit/s are scaled by the ratio of the largest sum of rates seen to
//! the testbed's 2 Gbit/s (the 75 kB of the queues are not); the paper's blockage recovery is not in the
//! public code, so ours leaves a silent subflow out and returns to the ratio when it delivers again; further
//! subflows are used only while the first two are both silent.

use core::time::Duration;

use tributary_types::{Bitrate, Instant, SubflowId};

use super::{Pick, SubflowView, WindowView, open};

const QUOTA: u32 = 100;
const STEP: u32 = 5;
const SAMPLE: Duration = Duration::from_millis(100);
const SEARCH_SAMPLE: Duration = Duration::from_millis(200);
const REST: Duration = Duration::from_secs(3);
/// Samples of a trend.
const TREND: usize = 5;
/// Thresholds at the testbed's rate.
const TESTBED_MBPS: f64 = 2000.0;
const RATE_CHANGE_MBPS: f64 = 200.0;
const GAIN_MBPS: f64 = 5.0;
/// Bytes, not scaled.
const QUEUE_CHANGE: f64 = 75_000.0;

/// The ratio and the search for it.
#[derive(Debug)]
pub(crate) struct MuSher {
    /// Percent of segments for the first subflow.
    ratio: u32,
    used: [u32; 2],
    sampled_at: Instant,
    searched_at: Instant,
    rates: Vec<f64>,
    queues: Vec<f64>,
    /// The largest sum of rates seen, Mbit/s.
    most_rate: f64,
    search: Option<Search>,
}

/// A search under way: the direction tried and the rate before the last step.
#[derive(Clone, Copy, Debug)]
struct Search {
    up: bool,
    /// Successful steps in this direction.
    gained: bool,
    before: f64,
}

impl Default for MuSher {
    fn default() -> Self {
        Self {
            ratio: 50,
            used: [0; 2],
            sampled_at: Instant::ZERO,
            searched_at: Instant::ZERO,
            rates: Vec::new(),
            queues: Vec::new(),
            most_rate: 0.0,
            search: None,
        }
    }
}

fn step(ratio: u32, up: bool) -> Option<u32> {
    if up { Some(ratio + STEP).filter(|r| *r <= 95) } else { ratio.checked_sub(STEP).filter(|r| *r >= 5) }
}

impl MuSher {
    fn sample(&mut self, now: Instant, pair: &[Option<SubflowView>; 2]) {
        let period = if self.search.is_some() { SEARCH_SAMPLE } else { SAMPLE };
        if now.saturating_since(self.sampled_at) < period {
            return;
        }
        self.sampled_at = now;
        let pair = || pair.iter().flatten();
        let rate: f64 = pair().filter_map(|s| s.rate).map(Bitrate::as_mbps_f64).sum();
        let queue: f64 = pair().map(|s| s.in_flight as f64).sum();
        self.most_rate = self.most_rate.max(rate);
        let scale = self.most_rate / TESTBED_MBPS;
        if let Some(search) = self.search {
            self.advance(now, search, rate, GAIN_MBPS * scale);
            return;
        }
        self.rates.push(rate);
        self.queues.push(queue);
        if self.rates.len() <= TREND {
            return;
        }
        self.rates.remove(0);
        self.queues.remove(0);
        let changed =
            (rate - self.rates[0]).abs() > RATE_CHANGE_MBPS * scale || queue - self.queues[0] < -QUEUE_CHANGE;
        if changed && now.saturating_since(self.searched_at) >= REST {
            self.begin(Search { up: true, gained: false, before: rate });
        }
    }

    fn begin(&mut self, search: Search) {
        match step(self.ratio, search.up) {
            Some(ratio) => (self.ratio, self.search) = (ratio, Some(search)),
            None if search.up => self.begin(Search { up: false, ..search }),
            None => self.search = None,
        }
    }

    fn advance(&mut self, now: Instant, search: Search, rate: f64, gain: f64) {
        if rate > search.before + gain {
            let next = Search { gained: true, before: rate, ..search };
            if let Some(ratio) = step(self.ratio, search.up) {
                (self.ratio, self.search) = (ratio, Some(next));
                return;
            }
        } else {
            // The step did not help: take it back, and try the other direction unless this one had gained before.
            self.ratio = step(self.ratio, !search.up).unwrap_or(self.ratio);
            if search.up && !search.gained {
                self.begin(Search { up: false, ..search });
                return;
            }
        }
        self.search = None;
        self.searched_at = now;
        self.rates.clear();
        self.queues.clear();
    }
}

impl Pick for MuSher {
    const NAME: &'static str = "musher";

    fn pick(
        &mut self,
        now: Instant,
        _window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<SubflowId> {
        let mut pair = [None, None];
        let mut ordered: Vec<_> = subflows.iter().collect();
        ordered.sort_by_key(|s| s.id);
        for (slot, subflow) in pair.iter_mut().zip(&ordered) {
            *slot = Some(**subflow);
        }
        self.sample(now, &pair);
        let (first, Some(second)) = (pair[0]?, pair[1]) else {
            return pair[0].filter(|s| s.room > 0).map(|s| s.id);
        };
        if first.silent && second.silent && ordered.iter().any(|s| !s.silent) {
            return open(subflows).min_by_key(|s| (s.srtt, s.id)).map(|s| s.id);
        }
        if first.silent != second.silent {
            let moving = if first.silent { second } else { first };
            return (moving.room > 0).then_some(moving.id);
        }
        if self.used[0] + self.used[1] >= QUOTA {
            self.used = [0; 2];
        }
        let quotas = [self.ratio, QUOTA - self.ratio];
        let open = [first, second].into_iter().zip(quotas).zip(self.used);
        let at = open.into_iter().position(|((s, quota), used)| s.room > 0 && used < quota)?;
        self.used[at] += 1;
        Some(ordered[at].id)
    }
}
