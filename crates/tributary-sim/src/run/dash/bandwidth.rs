//! Path control by bandwidth: which paths MPTCP uses under [`Bandwidth`].
//!
//! The bandwidth of a path is the mean of its congestion window over its round-trip time, of the last five looks.

use std::collections::VecDeque;

use tributary_types::Instant;

use crate::workload::dash::Bandwidth;

/// Looks in the mean.
const WINDOW: usize = 5;

#[derive(Debug, Default)]
struct Seen {
    rates: VecDeque<f64>,
    /// When it left.
    out: Option<Instant>,
}

impl Seen {
    fn rate(&self) -> Option<f64> {
        (self.rates.len() == WINDOW).then(|| self.rates.iter().sum::<f64>() / WINDOW as f64)
    }
}

/// The rule's state.
#[derive(Debug)]
pub(super) struct Threshold {
    settings: Bandwidth,
    paths: Vec<Seen>,
}

impl Threshold {
    pub fn new(settings: Bandwidth, paths: usize) -> Self {
        Self { settings, paths: (0..paths).map(|_| Seen::default()).collect() }
    }

    /// `rates` are bit/s of the paths in use. Returns the paths that leave and those that join.
    pub fn look(&mut self, now: Instant, rates: &[(u8, f64)]) -> Vec<(u8, bool)> {
        for (path, rate) in rates {
            let Some(seen) = self.paths.get_mut(usize::from(*path)) else { continue };
            seen.rates.push_back(*rate);
            if seen.rates.len() > WINDOW {
                seen.rates.pop_front();
            }
        }
        let best = self.paths.iter().filter(|seen| seen.out.is_none()).filter_map(Seen::rate);
        let best = best.fold(0.0, f64::max);
        let Bandwidth { ratio, rest } = self.settings;
        let mut changes = Vec::new();
        for (path, seen) in self.paths.iter_mut().enumerate() {
            if let Some(out) = seen.out {
                if now.saturating_since(out) >= rest {
                    seen.out = None;
                    changes.push((path as u8, true));
                }
            } else if seen.rate().is_some_and(|rate| best > ratio * rate) {
                // The best path is not among these, so one always stays.
                *seen = Seen { rates: VecDeque::new(), out: Some(now) };
                changes.push((path as u8, false));
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(1000 * seconds)
    }

    #[test]
    fn a_path_far_below_the_best_leaves_and_is_tried_again() {
        let mut threshold = Threshold::new(Bandwidth::default(), 2);
        for second in 0..4 {
            assert_eq!(threshold.look(at(second), &[(0, 1e6), (1, 1e5)]), []);
        }
        assert_eq!(threshold.look(at(4), &[(0, 1e6), (1, 1e5)]), [(1, false)], "the mean of five looks");
        assert_eq!(threshold.look(at(13), &[(0, 1e6)]), []);
        assert_eq!(threshold.look(at(14), &[(0, 1e6)]), [(1, true)]);
        assert_eq!(threshold.look(at(15), &[(0, 1e6), (1, 1e5)]), [], "its rate is measured again");
    }

    #[test]
    fn paths_within_the_ratio_stay() {
        let mut threshold = Threshold::new(Bandwidth::default(), 2);
        assert!((0..100).all(|second| threshold.look(at(second), &[(0, 9e5), (1, 1e5)]).is_empty()));
    }
}
