//! `musher`: two subflows in a fixed ratio, searched again when the channel changes.
//!
//! Source: MuSher (Saha et al., "MuSher: An Agile Multipath-TCP Scheduler for Dual-Band 802.11ad/ac Wireless LANs",
//! MobiCom 2019), by the rules of its public code: of every hundred TCP segments r go to the first subflow and the
//! rest to the second; a subflow at its quota waits for the other. The first subflow is that of the lowest path.
//! When to search for another r, and how: [`split`]. What is measured: [`meter`].
//!
//! Deviates: the paper's blockage recovery is not in the public code, so ours leaves a silent subflow out and returns
//! to the ratio when it delivers again; a path's new subflow takes the place of its silent one; further paths are used
//! only while the first two are both silent. Segments here are up to 64 KiB long, so quotas are counted in bytes: a
//! round is 100 × 1448 bytes, and what a segment takes beyond its quota is taken off the next one.

mod meter;
mod split;

use tributary_types::{Instant, SubflowId};

use super::{MSS, Pick, SubflowView, WindowView, open};
use meter::Meter;
use split::Split;

/// The ratio, its quotas, and what the search for it needs.
#[derive(Debug, Default)]
pub(crate) struct MuSher {
    split: Split,
    meter: Meter,
    /// Bytes of this round on the first and the second subflow.
    used: [u64; 2],
    /// Whether the picked segment counts for the first or the second subflow; `None` for other subflows.
    counted: Option<usize>,
}

/// The first subflow and the second: on each path the subflow that delivers, or the oldest one if none does.
fn pair(subflows: &[SubflowView]) -> [Option<SubflowView>; 2] {
    let best = |beside: Option<SubflowView>| {
        let others = subflows.iter().filter(|s| beside.is_none_or(|first| s.id != first.id));
        let key = |s: &&SubflowView| {
            let shares_path = beside.is_some_and(|first| s.path == first.path);
            (shares_path, s.path, s.silent, s.id)
        };
        others.min_by_key(key).copied()
    };
    let first = best(None);
    [first, first.and_then(|_| best(first))]
}

impl MuSher {
    /// Which of the two carries the next segment; `None`: wait.
    fn turn(&mut self, pair: [&SubflowView; 2]) -> Option<usize> {
        let first = 100 * MSS * u64::from(self.split.ratio()) / 100;
        let quotas = [first, 100 * MSS - first];
        while (0..2).all(|at| self.used[at] >= quotas[at]) {
            (0..2).for_each(|at| self.used[at] -= quotas[at]);
        }
        (0..2).find(|&at| pair[at].room > 0 && self.used[at] < quotas[at])
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
        self.counted = None;
        if let Some(sample) = self.meter.look(now, self.split.period(), subflows) {
            self.split.handle_sample(now, sample);
        }
        let pair = pair(subflows);
        let (first, Some(second)) = (pair[0]?, pair[1]) else {
            return pair[0].filter(|s| s.room > 0).map(|s| s.id);
        };
        if first.silent && second.silent && subflows.iter().any(|s| !s.silent) {
            return open(subflows).min_by_key(|s| (s.srtt, s.id)).map(|s| s.id);
        }
        if first.silent != second.silent {
            let moving = if first.silent { second } else { first };
            return (moving.room > 0).then_some(moving.id);
        }
        let at = self.turn([&first, &second])?;
        self.counted = Some(at);
        Some([first.id, second.id][at])
    }

    fn assigned(&mut self, _subflow: SubflowId, bytes: u64) {
        if let Some(at) = self.counted {
            self.used[at] += bytes;
        }
    }
}
