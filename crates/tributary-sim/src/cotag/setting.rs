//! The setting of a run: the radios, what the flows send, and what follows from both: rates and capacity.
//!
//! Source: the COTAG paper, §5.3.1.

use core::time::Duration;

use tributary_link::{
    CotagChannel, DelaySpec, LinkConfig, LinkSpec, LossSpec, QueueSpec, RateProcess, RateSpec,
};
use tributary_types::{Bitrate, Instant, Rng};

use super::scheme::Scheme;
use crate::tcp::LossDetection;

/// COTAG §5.3.1: ten flows, together 6 Gbit/s and 20 Gbit/s in the burst.
pub const FLOWS: usize = 10;
const CALM: Bitrate = Bitrate::from_mbps(6000);
const BURST: Bitrate = Bitrate::from_mbps(20_000);
/// Amount of data whose delivery time is measured: 5 Gbit.
const GOAL: u64 = 5_000_000_000 / 8;
/// Probability that the first radio changes its state in a step. Not given in the paper.
pub const CHANGE: f64 = 0.1;
/// Most packets queued in front of a radio in the paper's network. Not given in the paper.
pub const QUEUE: u64 = 1024;
/// When the flows begin: the chains have forgotten their initial state. The burst follows.
pub(super) const BEGIN: Duration = Duration::from_secs(2);
/// Duration of the time before the burst.
const CALM_FOR: Duration = Duration::from_secs(1);
/// A burst that is not delivered after this time counts with this time.
pub(super) const LONGEST: Duration = Duration::from_secs(8);
pub(super) const RADIO_DELAY: Duration = Duration::from_micros(100);

/// The radios, and the quantities that scale with them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Radio {
    /// Number of access points, one radio each. Each pair has its own chain.
    pub count: usize,
    /// Long-run correlation of the two radios' states, −1 to 1.
    pub correlation: f64,
    /// Divides the paper's radio rates (10 and 3 Gbit/s) and flow rates (600 and 2000 Mbit/s).
    pub divisor: u64,
    /// Each radio has its mean rate during the burst all the time.
    pub steady: bool,
    /// Probability that the first radio changes its state in a step of the chain.
    pub change: f64,
    /// Probability that a radio loses a packet.
    pub loss: f64,
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Transport of the flows and rule of the gateway.
    pub scheme: Scheme,
    /// The radios.
    pub radio: Radio,
    /// Number of flows, which together send the same whatever their number.
    pub flows: usize,
    /// Size of a full inner packet in bytes.
    pub packet: u32,
    /// Base round-trip time between servers and gateway.
    pub rtt: Duration,
    /// Most packets queued in front of a radio, with and without coding.
    pub queue: u64,
    /// The nodes' interval T; `None`: the default of the real nodes.
    pub interval: Option<Duration>,
    /// The nodes' limit of redundant packets per 1000 packets; `None`: the default of the real nodes.
    pub redundancy: Option<u32>,
    /// How TCP detects losses.
    pub loss_detection: LossDetection,
    /// Duration of the throughput measurement.
    pub burst: Duration,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// What the flows send, scaled by the radios' divisor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Number of flows.
    pub flows: usize,
    /// Rate of each flow before the burst, and for how long.
    pub calm: Bitrate,
    /// Duration of the time before the burst.
    pub calm_for: Duration,
    /// Rate of each flow in the burst.
    pub burst: Bitrate,
    /// Bytes of all flows whose delivery time is measured, from the beginning of the burst.
    pub goal: u64,
    /// A goal that is not reached after this time counts with this time.
    pub longest: Duration,
}

impl Setting {
    /// What the flows send.
    #[must_use]
    pub fn load(&self) -> Load {
        Load {
            flows: self.flows,
            calm: self.of_flow(CALM),
            calm_for: CALM_FOR,
            burst: self.of_flow(BURST),
            goal: GOAL / self.radio.divisor,
            longest: LONGEST,
        }
    }

    /// What all radios can carry during the measurement, Mbit/s.
    #[must_use]
    pub fn capacity_mbps(&self) -> f64 {
        let (from, to) = (self.burst_from(), self.burst_from() + self.burst);
        let bytes: u64 = (0..self.radio.count).map(|at| self.radio(at).capacity(from, to).as_bytes()).sum();
        bytes as f64 * 8e-6 / self.burst.as_secs_f64()
    }

    /// The rate of every radio from the first byte of the flows on, for runs of the same setting elsewhere. Covers the whole run.
    #[must_use]
    pub fn radio_rates(&self) -> Vec<RateSpec> {
        let begin = Instant::ZERO + BEGIN;
        let end = begin + CALM_FOR + LONGEST + Duration::from_secs(1);
        let steps = |config: LinkConfig| {
            let mut process = RateProcess::new(config.spec.rate, config.rate_rng);
            let (mut at, mut steps) = (begin, Vec::new());
            while at < end {
                process.advance_to(at);
                steps.push((at.saturating_since(begin), process.span().rate));
                at = process.span().until;
            }
            RateSpec::Steps(steps)
        };
        (0..self.radio.count).map(|at| steps(self.radio(at))).collect()
    }

    /// When the burst begins.
    pub(super) fn burst_from(&self) -> Instant {
        Instant::ZERO + BEGIN + CALM_FOR
    }

    fn divided(&self, rate: Bitrate) -> Bitrate {
        Bitrate::from_bps(rate.as_bps() / self.radio.divisor)
    }

    fn of_flow(&self, rate: Bitrate) -> Bitrate {
        Bitrate::from_bps(self.divided(rate).as_bps() / self.flows.max(1) as u64)
    }

    /// The downward link of radio `at`.
    pub(super) fn radio(&self, at: usize) -> LinkConfig {
        let paper = CotagChannel::paper(self.radio.change, f64::midpoint(self.radio.correlation, 1.0));
        let scaled = |(mean, deviation)| (self.divided(mean), self.divided(deviation));
        let channel = CotagChannel { high: scaled(paper.high), low: scaled(paper.low), ..paper };
        let mut spec = LinkSpec::with_rate(channel.rate(at as u32 % 2 + 1));
        spec.loss = if self.radio.loss > 0.0 { LossSpec::Bernoulli(self.radio.loss) } else { LossSpec::None };
        spec.queue = QueueSpec::Packets(self.queue);
        spec.delay = DelaySpec::fixed(RADIO_DELAY);
        let rng = Rng::new(self.seed).child("radios");
        let mut config = LinkConfig::new(spec, rng.child(&at.to_string()).next_u64());
        // Both radios of a pair use the same states.
        config.rate_rng = rng.child(&format!("pair {}", at / 2));
        if self.radio.steady {
            let (from, burst) = (self.burst_from(), self.burst);
            let mean = Bitrate::of(config.capacity(from, from + burst), burst);
            config.spec.rate = RateSpec::Constant(mean.unwrap_or(Bitrate::ZERO));
        }
        config
    }
}
