//! BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00, as Linux 6 behaves): paces at the
//! greatest delivery rate of ten rounds and keeps about two bandwidth-delay products in flight.
//!
//! Not implemented: delayed-ACK flags on round-trip samples. Siblings are not used. Losses matter only for a round of
//! packet conservation, after timeouts, and when they are so heavy that the path looks policed.

mod aggregation;
mod bandwidth;
mod full_pipe;
mod long_term;

use core::time::Duration;

use tributary_types::{Bitrate, Instant, Rng};

use super::cwnd::{MAX_WINDOW, nanos, seconds, segment_size};
use super::{Ack, CongestionController, Loss, LossKind, Setup, SiblingView, Siblings};
use aggregation::{Aggregation, Limits};
use bandwidth::{Bandwidth, Update};
use full_pipe::FullPipe;
use long_term::{LongTerm, Sight};

/// 2/ln 2, the smallest gain that doubles the rate each round, rounded up to 256ths as in Linux.
const HIGH_GAIN: f64 = 739.0 / 256.0;
const DRAIN_GAIN: f64 = 1.0 / HIGH_GAIN;
/// Window while probing for bandwidth, in bandwidth-delay products.
const WINDOW_GAIN: f64 = 2.0;
/// Draft §4.3.4.1: probe, drain the queue of the probe, cruise.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Linux paces 1 % below, so that no standing queue builds up.
const PACING_MARGIN: f64 = 0.99;
/// How long a minimum round-trip time is valid.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// How long the window is reduced to measure it again.
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// The smallest window, segments.
const LEAST_SEGMENTS: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

/// State of one subflow.
#[derive(Clone, Debug)]
pub(super) struct Bbr {
    mss: u64,
    pairs_per_byte: f64,
    initial_window: u64,
    rng: Rng,
    mode: Mode,
    window: u64,
    threshold: u64,
    /// Bytes a second.
    pacing: f64,
    has_rtt: bool,
    srtt: Duration,
    /// Smallest sample of the last ten seconds, and its time.
    min_rtt: Option<(Duration, Instant)>,
    bandwidth: Bandwidth,
    full: FullPipe,
    aggregation: Aggregation,
    long_term: LongTerm,
    phase: usize,
    phase_since: Instant,
    probe_rtt_until: Option<Instant>,
    probe_rtt_round: bool,
    /// Window to return to after recovery or after probing the round-trip time.
    prior_window: u64,
    recovering: Option<LossKind>,
    /// Until the round ends, one byte is sent for each that arrives.
    conserving: bool,
    idle_restart: bool,
    /// A loss was reported since the last acknowledgement.
    lost: bool,
}

impl Bbr {
    pub fn new(setup: Setup) -> Self {
        let mss = segment_size(setup);
        let initial_window = setup.initial_window.clamp(mss, MAX_WINDOW);
        Self {
            mss,
            pairs_per_byte: 0.5 / mss as f64,
            initial_window,
            rng: Rng::new(setup.seed),
            mode: Mode::Startup,
            window: initial_window,
            threshold: u64::MAX,
            // Draft §4.2.1: as if the round-trip time were a millisecond, until there is one.
            pacing: HIGH_GAIN * PACING_MARGIN * initial_window as f64 * 1e3,
            has_rtt: false,
            srtt: Duration::ZERO,
            min_rtt: None,
            bandwidth: Bandwidth::default(),
            full: FullPipe::default(),
            aggregation: Aggregation::default(),
            long_term: LongTerm::default(),
            phase: 0,
            phase_since: Instant::ZERO,
            probe_rtt_until: None,
            probe_rtt_round: false,
            prior_window: 0,
            recovering: None,
            conserving: false,
            idle_restart: false,
            lost: false,
        }
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBandwidth if self.long_term.rate().is_some() => 1.0,
            Mode::ProbeBandwidth => CYCLE[self.phase],
            Mode::ProbeRtt => 1.0,
        }
    }

    fn window_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBandwidth => WINDOW_GAIN,
            Mode::ProbeRtt => 1.0,
        }
    }

    /// The estimated rate of the path, bytes per second (Linux's `bbr_bw`).
    fn rate(&self) -> f64 {
        self.long_term.rate().unwrap_or_else(|| self.bandwidth.max())
    }

    fn least_window(&self) -> u64 {
        LEAST_SEGMENTS * self.mss
    }

    /// Draft §4.2.2: bytes that may be sent in one burst at the present pacing rate.
    fn send_quantum(&self) -> u64 {
        let bits = self.pacing * 8.0;
        if bits < 1.2e6 {
            self.mss
        } else if bits < 24e6 {
            2 * self.mss
        } else {
            ((self.pacing * 1e-3) as u64).min(64 << 10).max(2 * self.mss)
        }
    }

    /// `gain` bandwidth-delay products plus the allowance for bursts and delayed acknowledgements (draft
    /// §4.2.3.2), in whole pairs of segments.
    fn in_flight_target(&self, gain: f64) -> u64 {
        let product = match self.min_rtt {
            Some((rtt, _)) => gain * self.rate() * seconds(nanos(rtt)),
            None => self.initial_window as f64,
        };
        let bytes = product.min(MAX_WINDOW as f64) + (3 * self.send_quantum()) as f64;
        let pairs = bytes * self.pairs_per_byte;
        let probing = self.mode == Mode::ProbeBandwidth && self.phase == 0;
        (round_up(pairs) + u64::from(probing)) * 2 * self.mss
    }

    fn aggregate(&mut self, ack: &Ack, update: Update) {
        if update.round_started {
            self.aggregation.start_round();
        }
        if ack.bytes > 0 && ack.rate.is_some() {
            let limits = Limits { mss: self.mss, window: self.window };
            self.aggregation.on_ack(ack.now, ack.bytes, self.rate(), limits);
        }
    }

    fn look_for_policer(&mut self, ack: &Ack, update: Update, lost: u64) {
        let Some(sample) = ack.rate else { return };
        let over = self.long_term.on_ack(Sight {
            now: ack.now,
            delivered: sample.delivered,
            lost,
            limited: sample.app_limited,
            round_started: update.round_started,
            probing: self.mode == Mode::ProbeBandwidth,
        });
        if over {
            self.probe_bandwidth(ack.now);
        }
    }

    /// Draft §4.3.4.2 and §4.3.4.3: the next phase after a round-trip time. Probing lasts until the path is
    /// as full as intended, draining only until the queue is empty.
    fn advance_phase(&mut self, ack: &Ack, lost: bool) {
        if self.mode != Mode::ProbeBandwidth {
            return;
        }
        let gain = CYCLE[self.phase];
        let rtt = self.min_rtt.map_or(Duration::ZERO, |(rtt, _)| rtt);
        let long_enough = ack.now.saturating_since(self.phase_since) > rtt;
        let over = if gain > 1.0 {
            long_enough && (lost || ack.in_flight_before >= self.in_flight_target(gain))
        } else if gain < 1.0 {
            long_enough || ack.in_flight_before <= self.in_flight_target(1.0)
        } else {
            long_enough
        };
        if over {
            (self.phase, self.phase_since) = ((self.phase + 1) % CYCLE.len(), ack.now);
        }
    }

    fn probe_bandwidth(&mut self, now: Instant) {
        self.mode = Mode::ProbeBandwidth;
        // Draft §4.3.4.2: any phase but the draining one.
        let drawn = self.rng.below(CYCLE.len() as u64 - 1) as usize;
        self.phase = if drawn == 0 { 0 } else { drawn + 1 };
        self.phase_since = now;
    }

    /// Draft §4.3.2 and §4.3.3.
    fn check_drain(&mut self, ack: &Ack) {
        if self.mode == Mode::Startup && self.full.reached() {
            self.mode = Mode::Drain;
            self.threshold = self.in_flight_target(1.0);
        }
        if self.mode == Mode::Drain && ack.in_flight <= self.in_flight_target(1.0) {
            self.probe_bandwidth(ack.now);
        }
    }

    /// Draft §4.1.2 and §4.3.5.
    fn update_min_rtt(&mut self, ack: &Ack, update: Update) {
        let now = ack.now;
        let expired = self.min_rtt.is_some_and(|(_, at)| now.saturating_since(at) > MIN_RTT_WINDOW);
        if let Some(rtt) = ack.rtt
            && (expired || self.min_rtt.is_none_or(|(least, _)| rtt < least))
        {
            self.min_rtt = Some((rtt, now));
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_window();
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_until = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.bandwidth.limit(ack.in_flight);
            if self.probe_rtt_until.is_none() && ack.in_flight <= self.least_window() {
                self.probe_rtt_until = Some(now + PROBE_RTT_TIME);
                self.probe_rtt_round = false;
                self.bandwidth.start_round();
            } else if self.probe_rtt_until.is_some() {
                self.probe_rtt_round |= update.round_started;
                if self.probe_rtt_round {
                    self.leave_probe_rtt(now);
                }
            }
        }
        if ack.bytes > 0 {
            self.idle_restart = false;
        }
    }

    fn leave_probe_rtt(&mut self, now: Instant) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        if let Some((_, at)) = &mut self.min_rtt {
            *at = now;
        }
        self.window = self.window.max(self.prior_window);
        if self.full.reached() {
            self.probe_bandwidth(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// Draft §4.2.1. Until the path is full the rate only increases.
    fn pace(&mut self, gain: f64) {
        if !self.has_rtt && !self.srtt.is_zero() {
            self.has_rtt = true;
            let window = self.initial_window as f64;
            self.pacing = HIGH_GAIN * PACING_MARGIN * window / self.srtt.as_secs_f64();
        }
        let rate = gain * self.rate() * PACING_MARGIN;
        if self.full.reached() || rate > self.pacing {
            self.pacing = rate;
        }
    }

    /// Draft §4.2.3.
    fn size_window(&mut self, ack: &Ack, lost: u64) {
        if ack.bytes > 0 {
            if self.recovering.is_some() {
                self.window = self.window.saturating_sub(lost).max(self.mss);
            }
            if self.conserving {
                self.window = self.window.max(ack.in_flight.saturating_add(ack.bytes));
            } else {
                let allowance = if self.full.reached() { self.aggregation.allowance(self.rate()) } else { 0 };
                let target = self.in_flight_target(self.window_gain()).saturating_add(allowance);
                let grown = self.window.saturating_add(ack.bytes);
                if self.full.reached() {
                    self.window = grown.min(target);
                } else if self.window < target || self.bandwidth.delivered() < self.initial_window {
                    self.window = grown;
                }
                self.window = self.window.max(self.least_window());
            }
        }
        self.bound_window();
    }

    fn bound_window(&mut self) {
        let most = if self.mode == Mode::ProbeRtt { self.least_window() } else { MAX_WINDOW };
        self.window = self.window.clamp(self.mss, most);
    }

    fn save_window(&mut self) {
        self.prior_window = if self.recovering.is_none() && self.mode != Mode::ProbeRtt {
            self.window
        } else {
            self.prior_window.max(self.window)
        };
    }

    fn end_recovery(&mut self) {
        if self.recovering.take().is_some() {
            self.conserving = false;
            self.window = self.window.max(self.prior_window);
            self.bound_window();
        }
    }
}

/// Rounds up; up to a quarter of a millionth above an integer counts as rounding error.
fn round_up(value: f64) -> u64 {
    let whole = value as u64;
    whole + u64::from(value - whole as f64 > 2.5e-7)
}

impl CongestionController for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn slow_start_threshold(&self) -> u64 {
        self.threshold
    }

    /// At least one segment a second, so that a path without bandwidth is still tried.
    fn pacing_rate(&self) -> Option<Bitrate> {
        Some(Bitrate::from_bps((8.0 * self.pacing.max(self.mss as f64)) as u64))
    }

    fn view(&self) -> SiblingView {
        SiblingView {
            window: self.window,
            mss: self.mss,
            srtt: self.srtt,
            base_rtt: self.min_rtt.map_or(Duration::ZERO, |(rtt, _)| rtt),
            ..SiblingView::default()
        }
    }

    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        if in_flight > bytes {
            return;
        }
        // Draft §4.3.4.4: after an idle time at the path's rate, without a probe's burst.
        self.idle_restart = true;
        self.aggregation.restart(now);
        match self.mode {
            Mode::ProbeBandwidth => self.pace(1.0),
            Mode::ProbeRtt => self.leave_probe_rtt(now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn on_ack(&mut self, ack: &Ack, _: Siblings<'_>) {
        self.srtt = ack.srtt;
        let lost = ack.in_flight_before.saturating_sub(ack.in_flight).saturating_sub(ack.bytes);
        if self.recovering == Some(LossKind::Fast) && !ack.in_recovery && ack.bytes > 0 {
            self.end_recovery();
        }
        let update = self.bandwidth.on_ack(ack);
        if update.round_started {
            self.conserving = false;
        }
        self.look_for_policer(ack, update, lost);
        self.aggregate(ack, update);
        self.advance_phase(ack, self.lost || lost > 0);
        self.full.on_ack(update, self.bandwidth.max());
        self.check_drain(ack);
        self.update_min_rtt(ack, update);
        self.pace(self.pacing_gain());
        self.size_window(ack, lost);
        self.lost = false;
    }

    fn on_loss(&mut self, loss: &Loss, _: Siblings<'_>) {
        self.save_window();
        self.lost = true;
        self.recovering = Some(loss.kind);
        match loss.kind {
            LossKind::Fast => {
                // Draft §4.2.3.4: packet conservation for a round.
                self.conserving = true;
                self.bandwidth.start_round();
                let left = loss.in_flight.saturating_sub(loss.bytes);
                self.window = left.saturating_add(self.mss);
            }
            LossKind::Timeout => {
                self.conserving = false;
                self.full.forget_bandwidth();
                self.window = self.mss;
            }
        }
        self.bound_window();
    }

    fn on_recovery_end(&mut self, _: Instant) {
        self.end_recovery();
    }

    fn on_spurious_loss(&mut self, _: Instant) {
        self.full.forget_rounds();
        self.long_term.reset();
        self.end_recovery();
    }

    fn on_penalty(&mut self, _: Instant) {
        self.window = (self.window / 2).max(self.mss);
    }

    fn owns_recovery(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
