//! A live video: its GoPs exist one after the other, and the server says when.
//!
//! The viewing begins with the newest whole GoP. Slot *i* is planned half a GoP after that GoP was announced, plus *i*
//! GoPs, so that a GoP that comes a little later than the one before it is still there in time. If one is not, the slots
//! that follow are shown as much later as it came late. A player that has fallen behind leaves GoPs out.

use core::time::Duration;

use tributary_types::Instant;

use super::plans::Due;
use super::{MENUS_KEPT, PlayError, Player};

/// Share of a GoP by which the announcement of a GoP may be late without a delay.
const MARGIN: f64 = 0.5;
/// A player that would plan a GoP this much older than the newest goes on with the newest.
const BEHIND: u32 = 3;
/// Longest time until the player is called again while it waits for a GoP.
const LONG: Duration = Duration::from_secs(3600);

/// What is known of a live video.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// The GoP of the first slot.
    first: u32,
    /// The newest GoP.
    newest: u32,
    /// The last GoP, once the source has ended.
    last: Option<u32>,
    /// Whether a slot waits for its GoP.
    waiting: bool,
    /// By how much later than first planned slots are shown.
    waited: Duration,
}

impl Player {
    /// Whether the video is made while it is sent.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.video.as_ref().is_some_and(super::Video::is_live)
    }

    /// The time by which slots are shown later than was planned at first, because GoPs of a live video came late.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.live.waited
    }

    /// A GoP of the live video is there.
    pub(super) fn live_menu(&mut self, now: Instant, gop: u32) -> Result<(), PlayError> {
        while self.menus.len() > MENUS_KEPT {
            self.menus.pop_first();
        }
        self.sounds.retain(|known, _| self.menus.contains_key(known));
        if self.origin.is_none() {
            (self.live.first, self.live.newest) = (gop, gop);
            self.set_out(now, now + self.gop().mul_f64(MARGIN));
        }
        self.live.newest = self.live.newest.max(gop);
        self.handle_timeout(now)
    }

    /// The source has ended with this GoP.
    pub(super) fn last(&mut self, gop: u32) {
        self.live.last = Some(gop);
        self.end_with_last();
    }

    /// The slot whose plan has the last GoP is the last one.
    pub(super) fn end_with_last(&mut self) {
        let planned = self.slots.last().map(|slot| slot.gop);
        if self.live.last.zip(planned).is_some_and(|(last, planned)| planned >= last) {
            self.to_play = self.to_play.min(self.slots.next());
        }
    }

    /// The server has nothing more of this GoP.
    pub(super) fn gone(&mut self, now: Instant, gop: u32) {
        if self.slots.last().is_some_and(|slot| slot.gop == gop) {
            self.outstanding.clear();
            if let Some(meter) = &mut self.meter {
                meter.rest(now);
            }
        }
    }

    /// The GoP of a slot that is planned, or of the next slot.
    pub(super) fn gop_of(&self, slot: u32) -> u32 {
        if let Some(record) = self.slots.get(slot) {
            return record.gop;
        }
        if !self.is_live() {
            return slot % self.video.as_ref().map_or(1, |video| video.gops);
        }
        let next = self.slots.last().map_or(self.live.first, |before| before.gop + 1);
        if self.live.newest >= next.saturating_add(BEHIND) { self.live.newest } else { next }
    }

    /// Whether the GoP of the next slot does not exist yet.
    pub(super) fn lacks_gop(&self) -> bool {
        self.is_live() && self.gop_of(self.slots.next()) > self.live.newest
    }

    /// When the plan of the next slot would be due.
    fn next_at(&self) -> Option<Instant> {
        Some(self.origin? + self.gop() * self.slots.next())
    }

    /// While the GoP of the next slot does not exist: when to look again.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        let at = self.next_at().filter(|_| self.has_next() && self.lacks_gop())?;
        Some(if self.live.waiting { at + LONG } else { at })
    }

    fn has_next(&self) -> bool {
        self.slots.next() < self.to_play
    }

    /// Begins to wait if the next slot's GoP should be there. Waiting says nothing about the paths: nothing is outstanding.
    pub(super) fn wait(&mut self, now: Instant) {
        let due = self.next_at().is_some_and(|at| at <= now);
        if self.live.waiting || !due || !self.has_next() || !self.lacks_gop() {
            return;
        }
        self.live.waiting = true;
        if let Some(meter) = &mut self.meter {
            meter.rest(now);
        }
    }

    /// The GoP of the next slot is there. If it had to be waited for, this slot and the later ones are shown later.
    pub(super) fn go_on(&mut self, now: Instant, due: Due) {
        if std::mem::take(&mut self.live.waiting) {
            let late = now.saturating_since(due.at);
            self.live.waited += late;
            self.origin = self.origin.map(|origin| origin + late);
            self.playback.delay(late);
        }
    }
}
