//! HyStart as Linux's CUBIC has it: leaves slow start when the acknowledgements of one round arrive in
//! a train as long as the path, or when the round-trip time rises (Ha and Rhee, "Taming the elephants").
//!
//! It is not RFC 9406's HyStart++, which has no train and a conservative phase after the delay.

use core::time::Duration;

use tributary_types::Instant;

use super::super::Ack;

/// Below this window, segments, slow start goes on whatever happens.
const LOW_WINDOW: f64 = 16.0;
/// Acknowledgements no further apart than this belong to one train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// Round-trip samples of a round before its least one counts.
const SAMPLES: u32 = 8;
/// Bounds of the rise that counts: an eighth of the least round-trip time within them.
const RISE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));

/// One round of slow start.
#[derive(Clone, Debug)]
pub(super) struct HyStart {
    trains: bool,
    round: Option<Round>,
    found: bool,
}

#[derive(Clone, Debug)]
struct Round {
    start: Instant,
    /// Last acknowledgement of the train.
    train: Instant,
    least: Duration,
    samples: u32,
}

impl HyStart {
    /// Looking at trains, or at the round-trip time alone.
    pub fn new(trains: bool) -> Self {
        Self { trains, round: None, found: false }
    }

    /// Slow start begins again.
    pub fn restart(&mut self) {
        *self = Self::new(self.trains);
    }

    /// Whether slow start ends at this acknowledgement, with `window` segments.
    pub fn on_ack(&mut self, ack: &Ack, window: f64) -> bool {
        if self.found || window < LOW_WINDOW {
            return false;
        }
        if ack.round_ended || self.round.is_none() {
            self.round = Some(Round { start: ack.now, train: ack.now, least: Duration::MAX, samples: 0 });
        }
        let Some(round) = &mut self.round else { return false };
        self.found = self.trains && round.train_is_long(ack) || round.delay_has_risen(ack);
        self.found
    }
}

impl Round {
    /// Half the least round trip: without pacing a window leaves as one burst, and a train of half a
    /// round trip means that the window is as large as the path.
    /// Deviates: Linux adds the time its largest offloaded burst takes; here segments leave singly.
    fn train_is_long(&mut self, ack: &Ack) -> bool {
        if ack.now.saturating_since(self.train) > TRAIN_GAP {
            return false;
        }
        self.train = ack.now;
        ack.now.saturating_since(self.start) > ack.min_rtt / 2
    }

    fn delay_has_risen(&mut self, ack: &Ack) -> bool {
        let Some(rtt) = ack.rtt else { return false };
        self.least = self.least.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        self.least > ack.min_rtt.saturating_add((ack.min_rtt / 8).clamp(RISE.0, RISE.1))
    }
}
