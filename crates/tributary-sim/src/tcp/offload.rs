//! Bursts as with segmentation offload: new data waits until about a millisecond of it, or a third of the
//! window, can be sent at once. Linux's `tcp_tso_autosize` and `tcp_tso_should_defer`.

use tributary_types::Instant;

/// Largest burst: one super-frame.
pub(super) const MOST_BURST: u64 = 65_536;
/// A sender that was idle for longer does not wait, nanoseconds.
const RECENT: u64 = 1_000_000;

/// Inputs of the decision, in bytes and nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct OffloadView {
    pub now: Instant,
    /// Bytes that the windows allow now.
    pub allowance: u64,
    pub window: u64,
    pub unsent: u64,
    pub srtt: u64,
    /// When the oldest segment in flight was sent.
    pub oldest: Option<Instant>,
    pub recovering: bool,
}

/// The state of one sender.
#[derive(Debug)]
pub(super) struct Offload {
    mss: u64,
    burst: u64,
    /// Rest of the current burst.
    left: u64,
    last: Option<Instant>,
    waits: bool,
}

impl Offload {
    pub fn new(mss: u64) -> Self {
        Self { mss, burst: 2 * mss, left: 0, last: None, waits: false }
    }

    /// Sets the burst size for a flow of `bytes_per_second`: 1/1024 s of data, more over very short paths.
    pub fn resize(&mut self, bytes_per_second: u64, min_rtt: u64) {
        let near = (min_rtt / 1000) >> 9;
        let bonus = if near < 32 { MOST_BURST >> near } else { 0 };
        let bytes = ((bytes_per_second >> 10) + bonus).min(MOST_BURST);
        self.burst = (bytes / self.mss).max(2) * self.mss;
    }

    /// Whether a new segment of `bytes` may be sent now.
    pub fn may_send(&mut self, view: OffloadView, bytes: u64) -> bool {
        if self.left == 0 {
            self.waits = self.defers(view);
            if self.waits {
                return false;
            }
            self.left = view.allowance.min(self.burst);
        }
        self.left = self.left.saturating_sub(bytes);
        self.last = Some(view.now);
        true
    }

    fn defers(&self, view: OffloadView) -> bool {
        let since = |at: Instant| view.now.saturating_since(at).as_nanos() as u64;
        let recent = self.last.is_some_and(|last| since(last) <= RECENT);
        // The next acknowledgement is at least half a round trip away: too late to wait for.
        let soon = view.oldest.is_some_and(|oldest| since(oldest) >= view.srtt / 2);
        let enough = view.allowance >= self.burst.min(view.window / 3).min(view.unsent);
        // Deviates: a slow flow does not wait for a second segment. With Linux's rule the model would lose a
        // tenth of its goodput under random loss, which Linux in the emulator does not
        // (docs/models/validation-linux.md).
        let pays = self.burst > 2 * self.mss;
        recent && soon && pays && !enough && !view.recovering
    }

    /// Nothing more is sent now. Returns whether a segment waits for a larger burst.
    pub fn pause(&mut self) -> bool {
        self.left = 0;
        core::mem::take(&mut self.waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(allowance: u64) -> OffloadView {
        OffloadView {
            now: Instant::from_millis(100),
            allowance,
            window: 300_000,
            unsent: 1 << 30,
            srtt: 50_000_000,
            oldest: Some(Instant::from_millis(50)),
            recovering: false,
        }
    }

    #[test]
    fn segments_wait_for_a_burst_of_a_millisecond_and_leave_together() {
        let mut offload = Offload::new(1000);
        offload.resize(10_240_000, 50_000_000);
        assert!(offload.may_send(view(1000), 1000), "the first never waits");
        offload.pause();
        assert!(!offload.may_send(view(9000), 1000));
        assert!(offload.pause());
        let sent = (0..10).take_while(|_| offload.may_send(view(10_000), 1000)).count();
        assert_eq!(sent, 10);
        assert!(!offload.pause());
    }

    #[test]
    fn a_slow_flow_does_not_wait() {
        let mut offload = Offload::new(1000);
        offload.resize(1_000_000, 50_000_000);
        assert!(offload.may_send(view(1000), 1000));
        offload.pause();
        assert!(offload.may_send(view(1000), 1000));
    }

    #[test]
    fn nothing_waits_in_recovery_or_when_no_acknowledgement_is_near() {
        let mut offload = Offload::new(1000);
        offload.resize(10_240_000, 50_000_000);
        offload.last = Some(Instant::from_millis(100));
        let recovering = OffloadView { recovering: true, ..view(1000) };
        let young = OffloadView { oldest: Some(Instant::from_millis(90)), ..view(1000) };
        for view in [recovering, young, OffloadView { unsent: 1000, ..view(1000) }] {
            assert!(offload.may_send(view, 1000));
            offload.pause();
        }
        assert!(!offload.may_send(view(1000), 1000));
    }
}
