//! Common parts of all loss-based controllers for one subflow's window: slow start, reduction, undo, penalty
//! and the restart after idle time (RFC 5681, RFC 9438 §4.9, RFC 2861).
//!
//! The owner decides how the window grows in congestion avoidance and how much it is reduced.

use core::time::Duration;

use tributary_types::Instant;

use super::{Ack, Loss, LossKind, Setup, SiblingView};

/// The largest window: 1 TiB. Far above any path, and small enough that no sum overflows.
pub(super) const MAX_WINDOW: u64 = 1 << 40;

/// Linux's smallest retransmission timeout, nanoseconds (RFC 6298 §2.4 recommends more).
const MIN_RTO: u64 = 200_000_000;

/// Retransmission timeout before the first round-trip sample (RFC 6298 §2.1), nanoseconds.
const FIRST_RTO: u64 = 1_000_000_000;

/// A recovery episode.
#[derive(Clone, Copy, Debug)]
struct Episode {
    kind: LossKind,
    /// Whether something has been acknowledged since it began.
    progressed: bool,
}

/// Window, threshold and history of one subflow.
#[derive(Clone, Debug)]
pub(super) struct Cwnd {
    mss: u64,
    segments_per_byte: f64,
    /// Lower bound of the window after idle time; `None`: the window does not decay.
    restart_window: Option<u64>,
    window: u64,
    threshold: u64,
    /// Fraction of a byte gained or lost and not yet in the window: within (−1, 1).
    fraction: f64,
    srtt: Duration,
    base_rtt: Duration,
    /// Mean deviation of the round-trip time, nanoseconds (RFC 6298 §2).
    deviation: u64,
    last_sent: Option<Instant>,
    since_loss: u64,
    between_losses: u64,
    /// Window and threshold before the last episode.
    before: Option<(u64, u64)>,
    episode: Option<Episode>,
}

impl Cwnd {
    pub fn new(setup: Setup) -> Self {
        let mss = segment_size(setup);
        let initial = setup.initial_window.clamp(mss, MAX_WINDOW);
        Self {
            mss,
            segments_per_byte: 1.0 / mss as f64,
            restart_window: setup.idle_restart.then_some(initial),
            window: initial,
            threshold: u64::MAX,
            fraction: 0.0,
            srtt: Duration::ZERO,
            base_rtt: Duration::ZERO,
            deviation: 0,
            last_sent: None,
            since_loss: 0,
            between_losses: 0,
            before: None,
            episode: None,
        }
    }

    pub fn mss(&self) -> u64 {
        self.mss
    }

    pub fn window(&self) -> u64 {
        self.window
    }

    /// The window in segments.
    pub fn segments(&self) -> f64 {
        self.in_segments(self.window as f64 + self.fraction)
    }

    /// `bytes` in segments.
    pub fn in_segments(&self, bytes: f64) -> f64 {
        bytes * self.segments_per_byte
    }

    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    pub fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    pub fn view(&self) -> SiblingView {
        SiblingView {
            window: self.window,
            mss: self.mss,
            srtt: self.srtt,
            base_rtt: self.base_rtt,
            since_loss: self.since_loss,
            between_losses: self.between_losses,
        }
    }

    /// Processes an acknowledgement; returns whether the window may grow by it.
    pub fn acknowledge(&mut self, ack: &Ack) -> bool {
        if let Some(rtt) = ack.rtt.map(nanos) {
            // RFC 6298 §2.2 and §2.3.
            self.deviation = match nanos(self.srtt) {
                0 => rtt / 2,
                srtt => self.deviation / 4 * 3 + rtt.abs_diff(srtt) / 4,
            };
        }
        (self.srtt, self.base_rtt) = (ack.srtt, ack.min_rtt);
        self.since_loss = self.since_loss.saturating_add(ack.bytes);
        if ack.bytes > 0 {
            if let Some(episode) = &mut self.episode {
                episode.progressed = true;
            }
            if !ack.in_recovery {
                self.episode = None;
            }
        }
        ack.cwnd_limited && ack.bytes > 0 && !ack.in_recovery
    }

    /// Slow start with `bytes` acknowledged; returns the rest for congestion avoidance. Grows up to the
    /// threshold and not beyond (RFC 5681 §3.1). No limit L per acknowledgement (RFC 3465 §2.2 has two
    /// segments): as in Linux, pacing and recovery keep bursts small.
    pub fn slow_start(&mut self, bytes: u64) -> u64 {
        let grown = bytes.min(self.threshold.saturating_sub(self.window));
        self.set(self.window.saturating_add(grown));
        bytes - grown
    }

    /// Ends slow start (HyStart, wVegas).
    pub fn end_slow_start(&mut self) {
        self.threshold = self.threshold.min(self.window);
    }

    /// Raises the threshold to at least three quarters of the window. When the window shrinks for another reason than
    /// loss, slow start then returns to this value quickly (Linux's tcp_current_ssthresh).
    pub fn remember(&mut self) {
        self.threshold = self.threshold.max(self.window / 4 * 3);
    }

    /// Adds `bytes`, which may be negative or a fraction. The window does not fall below two segments, or
    /// below its present value if that is less.
    pub fn grow(&mut self, bytes: f64) {
        let sum = (self.fraction + bytes).clamp(-(MAX_WINDOW as f64), MAX_WINDOW as f64);
        let whole = sum as i64;
        self.fraction = sum - whole as f64;
        let floor = (2 * self.mss).min(self.window);
        self.set(self.window.saturating_add_signed(whole).max(floor));
    }

    /// Sets the window, limited to one segment to [`MAX_WINDOW`].
    pub fn set(&mut self, bytes: u64) {
        self.window = bytes.clamp(self.mss, MAX_WINDOW);
    }

    /// Reduces to `target` bytes, at least two segments (RFC 5681 §3.1 (4)). This is the window after a fast
    /// retransmission; after a timeout it is the threshold, and the window becomes one segment.
    ///
    /// As in Linux, the window is the base of the reduction, where RFC 5681 uses the flight size. A timeout
    /// within an episode does not change the threshold until something has been acknowledged (RFC 5681 §3.1,
    /// Linux). Returns whether an episode began.
    pub fn reduce(&mut self, loss: &Loss, target: u64) -> bool {
        let again = loss.kind == LossKind::Timeout
            && self.episode.is_some_and(|at| at.kind == LossKind::Fast || !at.progressed);
        if !again {
            // Linux's tcp_current_ssthresh: the threshold to which an undo returns.
            self.before = Some((self.window, self.threshold.max(self.window / 4 * 3)));
            self.threshold = target.clamp(2 * self.mss, MAX_WINDOW);
        }
        if self.since_loss > 0 {
            (self.between_losses, self.since_loss) = (self.since_loss, 0);
        }
        self.fraction = 0.0;
        self.episode = Some(Episode { kind: loss.kind, progressed: false });
        self.set(match loss.kind {
            LossKind::Fast => self.threshold,
            LossKind::Timeout => self.mss,
        });
        !again
    }

    pub fn end_recovery(&mut self) {
        self.episode = None;
    }

    /// Returns to the state before the last episode (Linux's tcp_undo_cwnd_reduction). Returns whether there
    /// was one.
    pub fn undo(&mut self) -> bool {
        let Some((window, threshold)) = self.before.take() else { return false };
        self.window = self.window.max(window);
        self.threshold = self.threshold.max(threshold);
        self.episode = None;
        true
    }

    /// Halves the window, and the threshold too if slow start is over (multipath-tcp.org).
    pub fn penalise(&mut self) {
        if !self.in_slow_start() {
            self.threshold = (self.threshold / 2).max(2 * self.mss);
        }
        self.set(self.window / 2);
    }

    /// Bytes are sent. After an idle time of more than a retransmission timeout the window decays towards the
    /// initial window, by half for each timeout (RFC 2861 §3.2, Linux's tcp_slow_start_after_idle); the
    /// threshold keeps three quarters. Returns whether it decayed.
    pub fn sent(&mut self, now: Instant, bytes: u64, in_flight: u64) -> bool {
        let idle = match self.last_sent.replace(now) {
            Some(last) if in_flight <= bytes => nanos(now.saturating_since(last)),
            _ => return false,
        };
        let rto = self.retransmission_timeout();
        let Some(restart) = self.restart_window.filter(|_| idle > rto) else { return false };
        let floor = restart.min(self.window);
        self.remember();
        let halvings = (idle / rto).min(63) as u32;
        self.set((self.window >> halvings).max(floor));
        self.fraction = 0.0;
        true
    }

    /// As in Linux: `srtt + max(200 ms, 4·deviation)`, nanoseconds.
    fn retransmission_timeout(&self) -> u64 {
        match nanos(self.srtt) {
            0 => FIRST_RTO,
            srtt => srtt.saturating_add(self.deviation.saturating_mul(4).max(MIN_RTO)),
        }
    }
}

/// The segment size that a controller uses: between a byte and a mebibyte.
pub(super) fn segment_size(setup: Setup) -> u64 {
    setup.mss.clamp(1, 1 << 20)
}

/// Nanoseconds, at most `u64::MAX`.
pub(super) fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(time.subsec_nanos()))
}

/// `nanos` nanoseconds in seconds.
pub(super) fn seconds(nanos: u64) -> f64 {
    nanos as f64 * 1e-9
}

#[cfg(test)]
mod tests;
