//! CoDel: decides whether a packet at the head of the queue is dropped instead of sent.
//!
//! The state machine of RFC 8289 §5, called for each packet. It holds no packets; the link does. IEEE 754 square
//! roots are exact, so a run gives the same result on every machine.

use core::time::Duration;
use tributary_types::Instant;

#[cfg(test)]
mod tests;

/// The state of one queue.
#[derive(Clone, Debug)]
pub(crate) struct Codel {
    target: Duration,
    interval: Duration,
    /// When the waiting time has been above the target for a whole interval; `None` while it is below the target.
    first_above: Option<Instant>,
    /// Time of the next drop in the dropping state.
    drop_next: Instant,
    /// Packets dropped since the dropping state was entered.
    count: u32,
    /// `count` when the dropping state was entered.
    last_count: u32,
    dropping: bool,
    /// A packet was dropped; `drop_next` advances if the next one may be dropped too.
    just_dropped: bool,
    /// Largest packet seen: the RFC's MAXPACKET.
    largest: u64,
}

impl Codel {
    pub(crate) fn new(target: Duration, interval: Duration) -> Self {
        Self {
            target,
            interval,
            first_above: None,
            drop_next: Instant::ZERO,
            count: 0,
            last_count: 0,
            dropping: false,
            just_dropped: false,
            largest: 0,
        }
    }

    /// Whether to drop the packet of `bytes` taken from the head at `now` after it `waited`, with `behind`
    /// bytes left in the queue. If so, call again for the next packet.
    pub(crate) fn drops(&mut self, now: Instant, waited: Duration, bytes: u64, behind: u64) -> bool {
        self.largest = self.largest.max(bytes);
        let may_drop = self.may_drop(now, waited, behind);
        if self.dropping {
            // RFC 8289 §5.5: the first half of deque().
            if !may_drop {
                self.leave();
                return false;
            }
            if core::mem::take(&mut self.just_dropped) {
                self.drop_next = self.control_law(self.drop_next);
            }
            if now < self.drop_next {
                return false;
            }
            self.count = self.count.saturating_add(1);
            self.just_dropped = true;
            return true;
        }
        if may_drop {
            self.enter(now);
        }
        may_drop
    }

    /// The server was ready for a packet, but the queue was empty.
    pub(crate) fn found_empty(&mut self) {
        self.first_above = None;
        self.leave();
    }

    fn leave(&mut self) {
        self.dropping = false;
        self.just_dropped = false;
    }

    /// RFC 8289 §5.5: the dropping state resumes at about its last drop rate.
    fn enter(&mut self, now: Instant) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.saturating_since(self.drop_next) < self.interval * 16;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.control_law(now);
        self.last_count = self.count;
    }

    /// RFC 8289 §5.6, dodequeue(): the waiting time has been above the target for an interval.
    fn may_drop(&mut self, now: Instant, waited: Duration, behind: u64) -> bool {
        if waited < self.target || behind <= self.largest {
            self.first_above = None;
            return false;
        }
        let first_above = *self.first_above.get_or_insert(now + self.interval);
        now >= first_above
    }

    /// RFC 8289 §5.3: the drop rate grows with the square root of the number of drops.
    fn control_law(&self, at: Instant) -> Instant {
        let nanos = self.interval.as_nanos() as f64 / f64::from(self.count.max(1)).sqrt();
        at + Duration::from_nanos(nanos as u64)
    }
}
