//! The decision engine's thresholds. The paper's are [`Settings::paper`]; the decisions are in the module above.

use core::time::Duration;

/// Thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// A path is unusable above this ratio of its RTT to the lowest one (the paper's `rttThres`).
    pub rtt_ratio: f64,
    /// RTTs below this are raised to it before ratios are computed, because such short RTTs are mostly scheduling
    /// delay of the hosts. Example: 0.9 ms beside 0.1 ms has the ratio 9 with zero here, and 1 with 1 ms.
    pub least_rtt: Duration,
    /// A path is unusable when its retransmissions exceed those of the highest-RTT path in use by this share (the
    /// paper's `retransThres`).
    pub retransmission_excess: f64,
    /// No path is removed for retransmissions up to this number. 2 against 1 is already an excess of 100 %, and the
    /// end of slow start loses tens of packets at once.
    pub least_retransmissions: u64,
    /// The excess must be larger than this many standard deviations; a count of n has a standard deviation of √n.
    /// Example: beside a path with 100 retransmissions, another path is removed at 111 with 0 deviations, and at 200
    /// with 5.
    pub certainty: f64,
    /// A path is removed for retransmissions only while the play buffer holds less than this. With more, the delay
    /// that they cause does not stall playback.
    pub lossy_below: Duration,
    /// Before an unused path may join, the least RTTs of the paths are compared, too, because the queue that playback
    /// itself fills is no property of a path. Example: 40 ms beside 400 ms; under load the first one shows 240 ms, a
    /// ratio of 1.7, and the second must not join. The least is that of the last [`RTT_MEMORY`], or of the time in use.
    /// The paper compares the present RTTs.
    pub least_recent: bool,
    /// A path is unusable when its loss exceeds that of the best other path in use by this, and by `certainty` standard
    /// deviations of a share of [`LOSS_SAMPLES`] probes. The other's loss is the larger of the present one and its mean over
    /// [`LOSS_MEMORY`]. Example: with 0.04 a path leaves above 4 % beside a lossless one, and above 16 % beside one with 5 %.
    /// Up to four of fifty probes may be the first ones of a queue that has just become full.
    /// `f64::INFINITY`: loss of probes does not count.
    pub loss_excess: f64,
    /// A path stays in spite of retransmissions and loss while TCP could carry this multiple of an equal share of the
    /// present throughput on it: 1.22 segments a round trip, over the root of the loss (Mathis et al. 1997). Such a path
    /// does its part. Example with 1: of 2 Mbit/s over two paths, one that could carry 1 Mbit/s stays.
    /// `None`: it does not stay, as in the paper.
    pub worth: Option<f64>,
    /// A path removed for retransmissions or loss is tried again when its probes have shown less than half of the
    /// loss that removes it, by excess and by worth, for this time, or, without probes, after this time. It doubles with every further
    /// removal, up to eight times. `None`: it is used again only when no other path is left.
    pub probation: Option<Duration>,
    /// A removed path rejoins when its RTT ratio is below this share of `rtt_ratio`. Example: with 9 and 0.8 a path
    /// is removed above 9 and rejoins below 7.2.
    pub hysteresis: f64,
    /// Least time between two changes of the same path. A path must also be unreachable or too distant for this time before it is
    /// removed, unless the play buffer is below `critical`: the transport survives shorter outages by itself.
    ///
    /// A removed path waits for n of these times before it may join again. n is the number of removals in a row with less than
    /// [`REMOVALS_APART`] in use between them, six at most. After an outage it is one less, so a path joins at the end of its
    /// first outage.
    pub dwell: Duration,
    /// Play buffer below which a session on its last path moves to QUIC.
    pub critical: Duration,
    /// It moves with any play buffer after this time on its last path. `None`: it does not.
    pub alone: Option<Duration>,
    /// Whether a playback on QUIC goes on being controlled: it moves to another path when its own cannot be reached,
    /// and to several paths as soon as there are several. The paper's stays on QUIC for good.
    pub leaves_quic: bool,
    /// What runs over several paths.
    pub several: Several,
}

/// Transport over several paths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Several {
    /// MPTCP, as in the paper.
    Mptcp,
    /// MPTCP without loss; where packets are lost, multipath QUIC or a session.
    Any {
        /// Mean loss of the paths in use over [`LOSS_MEMORY`] above which MPTCP is left.
        lossy: f64,
        /// Loss of the best path in use above which a session replaces multipath QUIC. Without UDP it does so anyway.
        session: f64,
    },
}

/// Probes in a report's loss, as the controller measures it (`probes.toml`): each way of a probe counts.
pub const LOSS_SAMPLES: f64 = 100.0;
/// Time over which the least RTT of a path is taken; at most twice as long.
pub const RTT_MEMORY: Duration = Duration::from_secs(30);
/// Removals of a path after at least this time in use count as single ones.
pub const REMOVALS_APART: Duration = Duration::from_secs(20);
/// Bits of a full TCP segment.
pub const SEGMENT_BITS: f64 = 8.0 * 1448.0;

/// Time over which the mean of a path's loss is taken; the mean is exponential.
pub const LOSS_MEMORY: Duration = Duration::from_secs(30);

impl Default for Settings {
    fn default() -> Self {
        Self {
            rtt_ratio: 9.0,
            least_rtt: Duration::from_millis(1),
            retransmission_excess: 0.10,
            least_retransmissions: 50,
            certainty: 5.0,
            lossy_below: Duration::from_secs(8),
            least_recent: true,
            loss_excess: 0.04,
            worth: Some(1.0),
            probation: Some(Duration::from_secs(15)),
            hysteresis: 0.8,
            dwell: Duration::from_secs(5),
            critical: Duration::from_secs(4),
            alone: Some(Duration::from_secs(5)),
            leaves_quic: true,
            several: Several::Mptcp,
        }
    }
}

impl Settings {
    /// The paper's algorithm: no least RTT, no hysteresis, no dwell time, every excess of retransmissions counts, loss of
    /// probes does not, and QUIC is for good.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            least_rtt: Duration::ZERO,
            least_retransmissions: 0,
            certainty: 0.0,
            lossy_below: Duration::MAX,
            least_recent: false,
            loss_excess: f64::INFINITY,
            worth: None,
            probation: None,
            hysteresis: 1.0,
            dwell: Duration::ZERO,
            alone: None,
            leaves_quic: false,
            ..Self::default()
        }
    }

    /// An RTT relative to the lowest one.
    pub(super) fn ratio(&self, rtt: Duration, lowest: Duration) -> f64 {
        let [rtt, lowest] = [rtt, lowest].map(|rtt| rtt.max(self.least_rtt).as_secs_f64());
        rtt / lowest.max(1e-6)
    }

    /// Loss above which a path is unusable beside one with this loss.
    pub(super) fn most_loss(&self, other: f64) -> f64 {
        let chance = self.certainty * libm::sqrt(other * (1.0 - other) / LOSS_SAMPLES);
        other + chance.max(self.loss_excess)
    }

    /// Whether a path retransmits too much beside another one.
    pub(super) fn exceeds(&self, own: u64, other: u64) -> bool {
        let most = 1.0 + self.retransmission_excess;
        let (count, other) = (own as f64, other as f64);
        let chance = self.certainty * libm::sqrt(count + most * most * other);
        own > self.least_retransmissions && count - most * other > chance
    }
}
