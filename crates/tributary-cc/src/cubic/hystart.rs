//! HyStart as in Linux's CUBIC: leaves slow start when the acknowledgements of one round form a train as long
//! as the path, or when the round-trip time increases (Ha and Rhee, "Taming the elephants").
//!
//! Not RFC 9406's HyStart++, which has no trains and a conservative phase after a delay increase.

use core::time::Duration;

use tributary_types::Instant;

use super::super::Ack;

/// Below this window, in segments, slow start never ends early.
const LOW_WINDOW: f64 = 16.0;
/// Acknowledgements at most this far apart belong to one train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// Time that offloaded bursts may add to a train: that of four of the largest at slow start's pace of two
/// windows per round trip, at most a millisecond (Linux's `hystart_ack_delay`).
const BURSTS: (u128, Duration) = (4 * 65_536, Duration::from_millis(1));
/// Samples of a round before its minimum round-trip time counts.
const SAMPLES: u32 = 8;
/// Bounds of the increase that counts, which is an eighth of the minimum round-trip time.
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
    /// Uses trains and the round-trip time, or the round-trip time alone.
    pub fn new(trains: bool) -> Self {
        Self { trains, round: None, found: false }
    }

    /// Slow start begins again.
    pub fn restart(&mut self) {
        *self = Self::new(self.trains);
    }

    /// Whether slow start ends at this acknowledgement, with `window` segments of `mss` bytes.
    pub fn on_ack(&mut self, ack: &Ack, window: f64, mss: u64) -> bool {
        if self.found {
            return false;
        }
        if ack.round_ended || self.round.is_none() {
            self.round = Some(Round { start: ack.now, train: ack.now, least: Duration::MAX, samples: 0 });
        }
        let Some(round) = self.round.as_mut().filter(|_| window >= LOW_WINDOW) else { return false };
        let bursts = bursts((window as u64).saturating_mul(mss), ack.srtt);
        self.found = self.trains && round.train_is_long(ack, bursts) || round.delay_has_risen(ack);
        self.found
    }
}

/// See [`BURSTS`].
fn bursts(window: u64, srtt: Duration) -> Duration {
    let (bytes, most) = BURSTS;
    let nanos = bytes * srtt.as_nanos() / u128::from(window.max(1)) / 2;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(most)
}

impl Round {
    /// Half the minimum round trip: without pacing a window is sent as one burst, and a train of half a round
    /// trip means that the window is as large as the path.
    fn train_is_long(&mut self, ack: &Ack, bursts: Duration) -> bool {
        if ack.now.saturating_since(self.train) > TRAIN_GAP {
            return false;
        }
        self.train = ack.now;
        ack.now.saturating_since(self.start) > ack.min_rtt.saturating_add(bursts) / 2
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
