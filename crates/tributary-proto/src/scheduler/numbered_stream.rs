//! One ordered stream of bytes, numbered in segments, for transports other than a session that use the schedulers.
//!
//! The simulator's MPTCP numbers its data with it, so that the same schedulers run there. It carries
//! counts of bytes, not contents. Not here: reassembly, subflows and when to send.

use tributary_types::{DataSeq, Instant, StreamId, SubflowId};

use super::{Load, WindowView};
use crate::send::{SendBuffer, SendStream};
use crate::wire::{MAX_SEGMENT, SegmentKind};

const STREAM: StreamId = StreamId(0);
/// Larger than any offset of a stream.
const UNLIMITED: u64 = u64::MAX / 2;
/// Placeholder for the contents.
static ZEROS: [u8; MAX_SEGMENT] = [0; MAX_SEGMENT];

/// The bytes written, their segments, and the copies of each that are in flight.
#[derive(Debug)]
pub struct NumberedStream {
    send: SendBuffer,
    /// One in this many segments is prioritised.
    prioritise_every: Option<u64>,
    loaded: u64,
}

impl NumberedStream {
    /// An empty stream that holds at most `limit` unacknowledged bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let mut send = SendBuffer::new(limit, 0);
        let mut stream = SendStream::new(0, UNLIMITED);
        stream.equal_blocks = true;
        send.streams.insert(STREAM, stream);
        Self { send, prioritise_every: None, loaded: 0 }
    }

    /// From this call on, one segment in `every` is prioritised; zero: none.
    pub fn prioritise_every(&mut self, every: u64) {
        self.prioritise_every = (every > 0).then_some(every);
    }

    /// Sets the priority of bytes written after this call; zero is bulk.
    pub fn prioritise(&mut self, priority: u8) {
        self.send.set_priority(STREAM, priority);
    }

    /// The view for schedulers; `window` is the transmission window in bytes.
    #[must_use]
    pub fn view(&self, window: usize) -> WindowView<'_> {
        WindowView::new(&self.send, window)
    }

    /// Changes the limit of unacknowledged bytes; bytes already held stay.
    pub fn set_limit(&mut self, limit: usize) {
        self.send.limit = limit;
    }

    /// Bytes a write may add now.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.send.free_in_limits(&self.send.streams[&STREAM]) as u64
    }

    /// Adds up to `bytes` and returns how many were taken.
    pub fn write(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.free());
        let mut left = taken as usize;
        while left > 0 {
            let part = left.min(ZEROS.len());
            // Copied into common blocks, so that segments do not depend on the sizes of the writes.
            self.send.push_slice(STREAM, &ZEROS[..part]);
            left -= part;
        }
        taken
    }

    /// The peer accepts bytes below this offset. A smaller offset than before is ignored.
    pub fn allow(&mut self, offset: u64) {
        self.send.allow_data(offset);
    }

    /// Numbers the bytes that a scheduler requested, in segments of at most `most` bytes. Returns the range of
    /// numbers.
    pub fn load(&mut self, load: Load, most: usize) -> (DataSeq, DataSeq) {
        let segment = load.segment.min(most);
        // Loads whole segments, so that not every load ends with a short one when `most` is small.
        let bytes = (load.bytes / segment as u64).max(1) * segment as u64;
        let (first, end, _) = self.send.load(bytes, segment);
        for seq in first.0..end.0 {
            self.loaded += 1;
            if self.prioritise_every.is_some_and(|every| self.loaded.is_multiple_of(every))
                && let Some(segment) = self.send.segment_mut(DataSeq(seq))
            {
                segment.priority = 1;
            }
        }
        (first, end)
    }

    /// First byte and length of a segment that is not acknowledged; `None` for any other.
    #[must_use]
    pub fn extent(&self, seq: DataSeq) -> Option<(u64, u32)> {
        let segment = self.send.segment(seq).filter(|s| !s.acknowledged)?;
        match segment.head.kind {
            SegmentKind::Data { offset, length, .. } => Some((offset, length)),
            _ => None,
        }
    }

    /// A copy of a segment was handed to a subflow; `position` counts its bytes up to and with it.
    /// Returns whether it was the first.
    ///
    /// # Panics
    /// If the segment is not held. Schedulers assign only segments that the view has shown them.
    pub fn sent(&mut self, now: Instant, seq: DataSeq, onto: SubflowId, position: u64) -> bool {
        let segment = self.send.segment_mut(seq).expect("schedulers assign segments that are held");
        segment.sent(onto, now, position);
        segment.sends == 1
    }

    /// The peer has everything below this offset. Returns whether this acknowledged any segment.
    pub fn acknowledge(&mut self, offset: u64) -> bool {
        let first = self.send.first();
        let mut end = first;
        while let Some(segment) = self.send.segment(end)
            && let SegmentKind::Data { offset: from, length, .. } = segment.head.kind
            && from + u64::from(length) <= offset
            && segment.sends > 0
        {
            end = end.next();
        }
        end > first && self.send.acknowledge(first, end, |_| {})
    }

    /// A copy of the segment will arrive late or never: the segment is sent again before anything else.
    pub fn reinject(&mut self, seq: DataSeq) {
        if self.extent(seq).is_some() {
            self.send.orphan(seq);
        }
    }

    /// A subflow has ended, and its copy of this segment is lost. If it was the only copy, the segment is sent again.
    pub fn lose(&mut self, seq: DataSeq, subflow: SubflowId) {
        if self.send.segment_mut(seq).is_some_and(|s| !s.acknowledged && s.forget(subflow)) {
            self.send.orphan(seq);
        }
    }

    /// The next segment that must be sent before anything else.
    pub fn next_urgent(&mut self) -> Option<DataSeq> {
        self.send.next_urgent()
    }

    /// The segment that [`Self::next_urgent`] returned was sent, or does not need sending any more.
    pub fn urgent_sent(&mut self) {
        self.send.urgent_sent();
    }

    /// Whether a load would number anything.
    #[must_use]
    pub fn has_loadable(&self) -> bool {
        self.send.has_loadable()
    }

    /// Bytes written and not numbered.
    #[must_use]
    pub fn unnumbered(&self) -> u64 {
        (self.send.held() - self.send.unacknowledged()) as u64
    }

    /// Everything written was acknowledged.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.send.is_flushed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [SubflowId; 2] = [SubflowId(0), SubflowId(1)];

    fn loaded(bytes: u64) -> (NumberedStream, DataSeq, DataSeq) {
        let mut stream = NumberedStream::new(1 << 20);
        stream.allow(1 << 20);
        assert_eq!(stream.write(bytes), bytes);
        let (first, end) = stream.load(Load { bytes: 16 << 10, segment: 16 << 10 }, 1000);
        (stream, first, end)
    }

    #[test]
    fn loads_are_whole_segments_and_offsets_follow_one_another() {
        let (stream, first, end) = loaded(100_000);
        assert_eq!(end.distance_from(first), 16);
        let extents: Vec<_> = (first.0..end.0).map(|s| stream.extent(DataSeq(s)).unwrap()).collect();
        assert!(extents.iter().enumerate().all(|(i, e)| *e == (i as u64 * 1000, 1000)));
    }

    #[test]
    fn credit_and_memory_bound_what_is_numbered_and_written() {
        let mut stream = NumberedStream::new(50_000);
        assert_eq!(stream.write(80_000), 50_000);
        assert!(!stream.has_loadable(), "the peer has allowed nothing yet");
        stream.allow(3_000);
        let (first, end) = stream.load(Load { bytes: 16 << 10, segment: 16 << 10 }, 1000);
        assert_eq!(end.distance_from(first), 3);
        assert_eq!((stream.unnumbered(), stream.view(1 << 20).credit()), (47_000, 0));
        stream.set_limit(60_000);
        assert_eq!(stream.free(), 10_000);
        stream.set_limit(10_000);
        assert_eq!(stream.free(), 0);
    }

    #[test]
    fn acknowledgement_is_by_bytes_and_losing_the_last_copy_makes_a_segment_urgent() {
        let (mut stream, first, _) = loaded(4_000);
        let now = Instant::ZERO;
        assert!(stream.sent(now, first, PATHS[0], 1000));
        assert!(!stream.sent(now, first, PATHS[1], 1000));
        assert!(stream.sent(now, first.next(), PATHS[1], 2000));
        stream.lose(first, PATHS[1]);
        assert_eq!(stream.next_urgent(), None, "a copy is still under way");
        stream.lose(first.next(), PATHS[1]);
        assert_eq!(stream.next_urgent(), Some(first.next()));
        assert!(!stream.acknowledge(999), "a part of a segment is not acknowledged");
        assert!(stream.acknowledge(2_500));
        assert_eq!(stream.extent(first.next()), None);
        assert_eq!(stream.next_urgent(), None);
        assert!(!stream.acknowledge(9_000), "what was never sent cannot have arrived");
    }
}
