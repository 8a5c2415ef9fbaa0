//! The cap of one subflow: what either side wants, and what its view shows.
//!
//! Not here: the bucket ([`crate::cap`]).

use tributary_types::{Bitrate, Instant};

use crate::cap::Cap;
use crate::scheduler::SubflowView;

/// State of one subflow. Without a cap it changes nothing.
#[derive(Debug, Default)]
pub(crate) struct Capped {
    /// Set at this side, for the path.
    own: Option<Bitrate>,
    /// What the peer asks for.
    asked: Option<Bitrate>,
    /// The lower of the two.
    cap: Option<Cap>,
    /// Until when there is no room, as of the last view or frame.
    held_until: Option<Instant>,
    /// The peer must be told the own cap.
    pub due: bool,
}

impl Capped {
    /// This side sets the path's cap.
    pub fn set(&mut self, now: Instant, own: Option<Bitrate>) {
        self.own = own;
        self.settle(now);
    }

    /// The peer asks for a cap.
    pub fn ask(&mut self, now: Instant, asked: Option<Bitrate>) {
        self.asked = asked;
        self.settle(now);
    }

    fn settle(&mut self, now: Instant) {
        let wanted = self.own.into_iter().chain(self.asked).min();
        self.cap = wanted.map(|rate| self.cap.map_or_else(|| Cap::new(rate), |cap| cap.with_rate(now, rate)));
    }

    /// This side's cap.
    pub fn own(&self) -> Option<Bitrate> {
        self.own
    }

    /// The cap that counts.
    pub fn rate(&self) -> Option<Bitrate> {
        self.cap.map(|cap| cap.rate())
    }

    /// Whether there is a cap.
    pub fn is_set(&self) -> bool {
        self.cap.is_some()
    }

    /// Whether the cap leaves no room.
    pub fn is_held(&self, now: Instant) -> bool {
        self.held_until.is_some_and(|until| until > now)
    }

    /// Whether there was no room and is now.
    pub fn opens(&self, now: Instant) -> bool {
        self.held_until.is_some_and(|until| until <= now)
    }

    /// When there is room again.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.held_until
    }

    /// A frame is handed over. Control frames pass without room, and are not paid for then: otherwise they could keep data from the path.
    pub fn pay(&mut self, now: Instant, bytes: usize, is_segment: bool) {
        let Some(cap) = &mut self.cap else { return };
        if is_segment || cap.held_until(now).is_none() {
            cap.take(now, bytes);
            self.held_until = cap.held_until(now);
        }
    }

    /// A rate, or the cap if that is lower.
    pub fn limited(&self, rate: Option<Bitrate>) -> Option<Bitrate> {
        rate.map(|rate| self.cap.map_or(rate, |cap| rate.min(cap.rate())))
    }

    /// Limits a view to that of a link with the cap as its rate, in whose queue the bytes wait that are not paid for.
    pub fn limit(&mut self, now: Instant, view: SubflowView) -> SubflowView {
        let Some(cap) = &self.cap else {
            self.held_until = None;
            return view;
        };
        self.held_until = cap.held_until(now);
        SubflowView {
            room: view.room.min(cap.room(now)),
            cwnd: view.cwnd.min(cap.rate().size_in(view.srtt).as_bytes()),
            in_flight: view.in_flight.max(cap.debt(now)),
            rate: self.limited(view.rate),
            long_rate: self.limited(view.long_rate),
            sustained_rate: self.limited(view.sustained_rate),
            ..view
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: fn(u64) -> Option<Bitrate> = |mbit| Some(Bitrate::from_mbps(mbit));

    #[test]
    fn the_lower_of_both_sides_caps_counts() {
        let (mut capped, at) = (Capped::default(), Instant::from_millis(1000));
        assert_eq!(capped.limited(MBIT(90)), MBIT(90));
        capped.ask(at, MBIT(20));
        capped.set(at, MBIT(30));
        assert_eq!(capped.limited(MBIT(90)), MBIT(20));
        capped.set(at, MBIT(10));
        assert_eq!(
            (capped.limited(MBIT(90)), capped.limited(MBIT(5)), capped.limited(None)),
            (MBIT(10), MBIT(5), None)
        );
        capped.set(at, None);
        assert_eq!(capped.limited(MBIT(90)), MBIT(20));
        capped.ask(at, None);
        assert!(capped.limited(MBIT(90)) == MBIT(90) && !capped.is_set());
    }

    #[test]
    fn control_frames_are_paid_for_only_while_there_is_room() {
        let (mut capped, at) = (Capped::default(), Instant::from_millis(1000));
        capped.pay(at, 1 << 20, true);
        assert!(!capped.is_held(at), "no cap");
        capped.set(at, MBIT(8));
        capped.pay(at, 30_000, false);
        // 20 ms of the cap were unused.
        let until = Instant::from_millis(1010);
        assert_eq!((capped.is_held(at), capped.poll_timeout()), (true, Some(until)));
        capped.pay(at, 1 << 20, false);
        assert_eq!(capped.poll_timeout(), Some(until));
        capped.pay(at, 1000, true);
        assert_eq!(capped.poll_timeout(), Some(Instant::from_millis(1011)));
        assert!(capped.opens(Instant::from_millis(1011)) && !capped.opens(until));
    }
}
