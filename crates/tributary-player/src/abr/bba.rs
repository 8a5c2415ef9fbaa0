//! BBA-0: chooses quality from the buffer level alone. A line goes from the lowest bitrate at the reservoir to the
//! highest bitrate at the end of the cushion. Source: Huang et al., "A Buffer-Based Approach to Rate
//! Adaptation" (SIGCOMM 2014) §5.

use super::{Decision, Rule, View};

/// Reservoir: share of the buffer that is filled at the lowest bitrate (90 s of 240 s in the paper).
const RESERVOIR: f64 = 90.0 / 240.0;
/// Share of the buffer at which the highest bitrate is reached (reservoir and cushion, 216 s of 240 s).
const CUSHION_END: f64 = 216.0 / 240.0;

/// BBA-0.
#[derive(Clone, Debug, Default)]
pub struct Bba {
    last: usize,
}

impl Rule for Bba {
    fn choose(&mut self, view: &View<'_>) -> Decision {
        let ladder = view.ladder;
        let (low, high) = (ladder.bitrate(0), ladder.bitrate(ladder.top()));
        let capacity = view.capacity.as_secs_f64().max(f64::MIN_POSITIVE);
        let position = (view.level.as_secs_f64() / capacity - RESERVOIR) / (CUSHION_END - RESERVOIR);
        let allowed = low + (high - low) * position.clamp(0.0, 1.0);
        let above = (self.last + 1).min(ladder.top());
        let below = self.last.saturating_sub(1);
        // The quality stays while the rate on the line is between the bitrates of the two neighbouring qualities.
        if position <= 0.0 {
            self.last = 0;
        } else if position >= 1.0 {
            self.last = ladder.top();
        } else if allowed >= ladder.bitrate(above) {
            self.last = (0..ladder.len()).rev().find(|q| ladder.bitrate(*q) < allowed).unwrap_or(0);
        } else if allowed <= ladder.bitrate(below) {
            self.last = (0..ladder.len()).find(|q| ladder.bitrate(*q) > allowed).unwrap_or(self.last);
        }
        Decision::at_once(self.last)
    }

    fn new_ladder(&mut self) {
        self.last = 0;
    }
}
