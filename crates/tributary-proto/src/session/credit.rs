//! Credit given to the peer: the receive window of each stream, and its share of the session's.
//!
//! A stream's window follows its reader as TCP's receive buffer does ([`crate::bound`]). It doubles when a quarter of it
//! was read within a round trip and everything that had arrived was read, or when the peer has used half of it and
//! waits only because earlier bytes are missing. A reader that is slower than the paths and goes on gets a reserve of some
//! seconds. A window falls when less than a quarter of it is read in 4 s.
//!
//! The session's window is shared by dynamic thresholds (Choudhury and Hahne, 1998). *Committed* is what a stream holds
//! unread or may still be sent within the credit that it was told of. What others have not committed is *spare*:
//!
//! - A stream that has been read without a stop for [`PROVEN`] bytes gets at most half of the spare credit.
//! - Any other stream gets at most a quarter of it, times the square of the spare part of the window, or a sixteenth of
//!   it if that is more. So the more credit streams have taken that then stopped reading, the less do new ones get: eight
//!   streams, each with the largest window it can get, leave two fifths of the session's window.
//! - Every stream gets [`DeclaredLimits::least_share`](crate::wire::DeclaredLimits::least_share), which counts as committed from its
//!   beginning.
//!
//! A stream whose reader has stopped gets nothing more. The session credit bounds all streams together, so the session
//! never holds more than its window, whatever the peer sends.

use core::time::Duration;

use tributary_types::{Instant, StreamId};

use super::{INITIAL, Session};
use crate::receive::RecvStream;
use crate::wire::SegmentKind;

/// A window doubles when a quarter of it was read within a round trip and this time, which covers a driver's turns.
const PACE: Duration = Duration::from_millis(10);
/// A reader that is slower than the paths gets a reserve against silent paths: its window doubles when a quarter was read within
/// this time, although bytes wait, up to this part of the session's window. Example: a player that reads 5 Mbit/s has
/// 2 to 4 MiB, so that 4 to 6 s pass before an interruption reaches it; TCP's receive buffer does as much.
const RESERVE_PACE: Duration = Duration::from_secs(1);
const RESERVE_PART: u64 = 16;
/// A stream is proven when so many bytes were read without a stop: more than the socket buffers of a kernel take behind
/// a proxy. With a small session window it is four times that window.
const PROVEN: u64 = 16 << 20;
const PROVEN_WINDOWS: u64 = 4;
/// A stream that is not proven gets at most this part of the spare credit.
pub const UNPROVEN_PART: u64 = 4;
/// A reader that leaves bytes in order unread for this time has stopped.
const STOPPED: Duration = Duration::from_secs(1);
/// Initial credit of a stream: this part of the session credit, and its largest value.
const INITIAL_PART: u64 = 32;
const MOST_INITIAL: u64 = 512 << 10;

/// Credit of a new stream in a session whose credit is `max_data`.
pub(super) fn initial(max_data: u64) -> u64 {
    (max_data / INITIAL_PART).clamp(INITIAL.stream_credit, MOST_INITIAL)
}

impl Session {
    /// Payload was read or discarded, so the peer may send more.
    pub(super) fn consumed(&mut self, bytes: u64) {
        self.granted.consumed += bytes;
        let window = self.granted.window;
        let gain = (self.granted.consumed + window).saturating_sub(self.granted.max_data);
        let left = self.granted.max_data.saturating_sub(self.granted.used);
        // Send an acknowledgement at once when a quarter of the window has become free, or as much as the peer has left.
        if gain >= window / 4 || (gain >= left && gain >= self.granted.settings.least_share()) {
            self.offer_credit();
            self.ack_at = Some(Instant::ZERO);
        }
    }

    /// The next acknowledgement tells the peer all credit that it may have.
    pub(super) fn offer_credit(&mut self) {
        let most = self.granted.consumed + self.granted.window;
        self.granted.max_data = self.granted.max_data.max(most);
    }

    /// Payload of a stream has arrived. Its window grows when it is used up although the reader keeps up.
    pub(super) fn has_arrived(&mut self, id: StreamId) {
        let Some(stream) = self.receive.get_mut(&id) else { return };
        if stream.is_unread() {
            stream.unread_since.get_or_insert(self.clock);
        }
        let window = stream.window.limit;
        if !stream.waits_for_order() || self.share_of(id) <= window {
            return self.commit(id);
        }
        if let Some(stream) = self.receive.get_mut(&id) {
            stream.window.stretch();
        }
        self.grant(id);
    }

    /// The application has read bytes of a stream: measures its reader, and gives the peer more credit.
    pub(super) fn was_read(&mut self, id: StreamId) {
        let now = self.clock;
        let srtt = self.subflows.values().map(|subflow| subflow.info.srtt).max().unwrap_or_default();
        let Some(stream) = self.receive.get_mut(&id) else { return };
        let since = stream.unread_since.take();
        let waited = since.is_some_and(|since| now > since);
        if since.is_some_and(|since| now >= since + STOPPED) {
            stream.went_on_at = stream.consumed;
        }
        let unread = stream.is_unread();
        if unread {
            stream.unread_since = Some(now);
        }
        // A count that ends while bytes wait is not over: the rest may be read in time.
        let mut grew = false;
        if (!unread || stream.window.is_late(now, srtt + PACE))
            && let Some(limit) = stream.window.observe(now, stream.consumed, srtt + PACE, !unread)
        {
            stream.window.limit = limit;
            grew = true;
        }
        let goes_on = stream.window.take_quarter().is_some_and(|quarter| quarter <= RESERVE_PACE);
        if waited && unread && goes_on && stream.window.limit <= self.granted.window / RESERVE_PART / 2 {
            stream.window.stretch();
        }
        // Asked for once for each growth, because it may be refused.
        if self.grant(id) && grew {
            self.wants_share = Some(id);
        }
    }

    /// The largest window that a stream may have now.
    fn share_of(&self, id: StreamId) -> u64 {
        let Some(stream) = self.receive.get(&id) else { return 0 };
        let (window, least) = (self.granted.window, self.granted.settings.least_share());
        let spare = window.saturating_sub(self.granted.committed - stream.committed);
        let proven = PROVEN.min(PROVEN_WINDOWS * window);
        let share = if stream.consumed - stream.went_on_at >= proven {
            spare / 2
        } else {
            let part = (spare << 10) / window.max(1);
            ((spare / UNPROVEN_PART * part * part) >> 20).max(spare / 16)
        };
        share.max(least)
    }

    /// Tells the peer how far it may send on a stream that is read. Returns whether the stream would have a larger window
    /// if the session had one.
    pub(super) fn grant(&mut self, id: StreamId) -> bool {
        let (most, least) = (self.share_of(id), self.granted.settings.least_share());
        let Some(stream) = self.receive.get_mut(&id) else { return false };
        let over = stream.end.is_some() || stream.stopped || stream.reset.is_some();
        // A peer that has not been told of credit may always send the least share.
        if over || (stream.told == 0 && stream.consumed < least.div_ceil(2)) {
            self.commit(id);
            return false;
        }
        let short = stream.window.limit > most;
        let window = stream.window.limit.min(most);
        let limit = stream.consumed + window;
        if limit >= stream.told + (window / 4).max(1) {
            stream.told = limit;
            stream.limit = stream.limit.max(limit);
            self.send.number_control(id, SegmentKind::Credit { limit });
        }
        self.commit(id);
        short
    }

    /// Brings a stream's part of the committed credit up to date.
    pub(super) fn commit(&mut self, id: StreamId) {
        let least = self.granted.settings.least_share();
        let Some(stream) = self.receive.get_mut(&id) else { return };
        let now = stream.commits(least);
        let before = std::mem::replace(&mut stream.committed, now);
        self.granted.committed = self.granted.committed - before + now;
    }

    /// Forgets a stream's receiving half.
    pub(super) fn forget_receiver(&mut self, id: StreamId) {
        if let Some(RecvStream { committed, .. }) = self.receive.remove(&id) {
            self.granted.committed -= committed;
        }
    }
}
