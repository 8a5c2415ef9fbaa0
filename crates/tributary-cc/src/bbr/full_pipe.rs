//! Whether startup has filled the path: three rounds in which the bandwidth rose by less than a quarter
//! (draft-cardwell-iccrg-bbr-congestion-control-00 §4.3.2.2).

use super::bandwidth::Update;

/// Rounds without growth.
const ROUNDS: u32 = 3;
/// What counts as growth.
const GROWTH: f64 = 1.25;

/// The rounds so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    bandwidth: f64,
    rounds: u32,
    reached: bool,
}

impl FullPipe {
    pub fn reached(&self) -> bool {
        self.reached
    }

    pub fn on_ack(&mut self, update: Update, bandwidth: f64) {
        if self.reached || !update.round_started || update.limited {
            return;
        }
        if bandwidth >= self.bandwidth * GROWTH {
            (self.bandwidth, self.rounds) = (bandwidth, 0);
            return;
        }
        self.rounds += 1;
        self.reached = self.rounds >= ROUNDS;
    }

    /// After a timeout growth is measured again; a full path stays full.
    pub fn forget_bandwidth(&mut self) {
        self.bandwidth = 0.0;
    }

    /// The loss was spurious, and so was the slow-down before it.
    pub fn forget_rounds(&mut self) {
        (self.bandwidth, self.rounds) = (0.0, 0);
    }
}
