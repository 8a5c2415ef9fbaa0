//! Free bytes of the send buffer: how much each stream may write, so that streams whose peer does not read leave enough
//! to the others.
//!
//! Numbered payload leaves the buffer when it has arrived, whether it is read or not. Bytes that cannot be numbered,
//! because the stream lacks credit, may stay for ever. They are *untrusted*: all streams together hold at most half of
//! the buffer of them, each stream a small part of what is left of that half, and a few bytes in any case.

use super::{SendBuffer, SendStream};

/// Bytes of one stream that may wait unnumbered, unless a transmission window is larger.
pub(super) const UNNUMBERED_PER_STREAM: usize = 4 << 20;
/// Bytes that a stream may hold beyond its credit, so that there is something to send as soon as the peer gives more.
const LEAD: usize = 128 << 10;
/// The same as a part of what is left for untrusted bytes; and the part of a stream that the peer has given no credit
/// yet beside the initial one.
const LEAD_PART: usize = 16;
const UNSOLICITED_PART: usize = 8;
/// The part of the buffer that a stream may hold in any case, and its largest value.
const LEAST_PART: usize = 4096;
const MOST_LEAST: usize = 16 << 10;
/// The part of the peer's credit, beyond the half that is kept for streams that are read, that a stream may use of
/// its initial credit.
const OPEN_PART: u64 = 8;

impl SendBuffer {
    /// Bytes that a new stream may send before the peer has given it credit of its own, if its initial credit allows
    /// it. Half of the session's credit is kept for streams that are read, and the least share of each stream.
    pub(super) fn open_credit(&self) -> u64 {
        let left = self.credit().saturating_sub(self.told.max_data / 2);
        (left / OPEN_PART).max(self.told.least_share())
    }

    /// Bytes that the limits of a stream and of the buffer allow to add, whatever the stream's credit.
    pub fn free_in_limits(&self, stream: &SendStream) -> usize {
        self.free_in_session(stream).min(self.unnumbered_limit.saturating_sub(stream.unnumbered()))
    }

    /// Bytes that a write to a stream may add now.
    pub fn free_to_write(&self, stream: &SendStream) -> usize {
        let free = (self.limit / 2).saturating_sub(self.untrusted);
        let lead = if stream.is_granted() { LEAD.min(free / LEAD_PART) } else { free / UNSOLICITED_PART };
        let lead = lead.max(MOST_LEAST.min(self.limit / LEAST_PART)).saturating_sub(stream.untrusted);
        self.free_in_limits(stream).min(self.part(stream)).min(stream.credit_left().saturating_add(lead))
    }

    /// Whether a message fits. Its bytes are written at once, so a stream that holds nothing else may exceed its credit.
    pub fn fits_message(&self, stream: &SendStream, bytes: usize) -> bool {
        let alone = stream.unnumbered() == 0 && self.untrusted + bytes <= self.limit - self.limit / 5;
        bytes <= self.free_to_write(stream) || (alone && bytes <= self.free_in_limits(stream))
    }

    /// Bytes that the limit of all streams leaves to one: as many as stay free, so that another stream finds as many.
    pub fn part(&self, stream: &SendStream) -> usize {
        let free = self.free_in_session(stream);
        if self.streams.len() == 1 { free } else { free.saturating_sub(stream.unnumbered()).div_ceil(2) }
    }

    /// How many bytes the limit of all streams leaves to one.
    pub fn free_in_session(&self, stream: &SendStream) -> usize {
        self.free_for_priority(stream.priority)
    }

    /// How many bytes the limit of all streams leaves to streams of this priority.
    pub fn free_for_priority(&self, priority: u8) -> usize {
        let bulk = priority == 0;
        let reserved = if bulk { self.reserved(self.limit as u64) as usize } else { 0 };
        self.limit.saturating_sub(self.held() + reserved)
    }

    /// How many bytes more a stream may hold that no subflow has taken.
    pub fn free_unsent(&self, stream: &SendStream) -> usize {
        self.unsent_limit.saturating_sub(stream.unsent())
    }

    /// Whether enough of a stream's limit is free to wake its writer.
    pub fn wants_writer(&self, stream: &SendStream) -> bool {
        self.free_unsent(stream) >= self.unsent_limit / 2
    }

    /// Whether a blocked writer may write enough now. Little is enough for a stream that has nothing to send: credit
    /// comes in pieces that are worth a write.
    pub fn wakes_writer(&self, stream: &SendStream, enough: usize) -> bool {
        let free = self.free_to_write(stream);
        free >= enough || (free > 0 && stream.unnumbered() == 0)
    }

    /// Checks the sum of untrusted bytes.
    #[cfg(test)]
    pub fn check_sums(&self) {
        assert_eq!(self.untrusted, self.streams.values().map(|stream| stream.untrusted).sum::<usize>());
    }
}
