//! The sending half: bytes written by the application, and the segments made from them.
//!
//! Bytes are numbered late, when a transmission window is loaded, so that urgent data can overtake
//! waiting data. A numbered segment never changes its bounds. Memory is bounded by the send
//! buffer: a segment is held until the peer has acknowledged it.

mod abandon;
mod datagrams;
mod flows;
mod free;
mod ready;
mod segment;
mod stream;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use tributary_types::{DataSeq, Instant, StreamId, SubflowId};

use crate::content::ContentClass;
use crate::numbers::NumberSet;
use crate::wire::{DeclaredLimits, MAX_OUTSTANDING, MAX_SEGMENT, SegmentHead, SegmentKind};
use crate::work::step;
pub(crate) use datagrams::FlowQueue;
use free::UNNUMBERED_PER_STREAM;
use ready::ReadyStreams;
pub(crate) use segment::Segment;
pub use segment::SegmentCopy;
use stream::Numbered;
pub(crate) use stream::SendStream;

/// Limit on bytes of higher priority that are numbered ahead of waiting lower ones. Each byte of the lowest
/// priority allows three more, so that no stream starves and the lowest priority gets at least a quarter.
const MOST_AHEAD_OF_LOWER: u64 = 256 << 10;
const SHARE: u64 = 3;

/// Bytes of the peer's credit and of the send buffer that are reserved for streams with a priority, or a sixteenth
/// of them if that is less. Otherwise bulk that waits for one lost segment would use up all of it.
const RESERVED: u64 = 256 << 10;

/// Everything this side sends.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    pub streams: BTreeMap<StreamId, SendStream>,
    ready: ReadyStreams,
    segments: VecDeque<Segment>,
    /// Numbers that the peer has acknowledged.
    acknowledged: NumberSet,
    /// Number of the first segment of `segments`.
    base: u64,
    /// Control segments and orphans, oldest first: sent before anything else.
    urgent: VecDeque<DataSeq>,
    /// Segments that were numbered before their stream got a priority, and not sent then; those of a stream in order. What was sent
    /// since leaves the front with the next segment that a subflow takes.
    raised: VecDeque<DataSeq>,
    /// Payload numbered so far, and the peer's limit.
    numbered: u64,
    max_data: u64,
    /// The peer's settings.
    told: DeclaredLimits,
    /// Payload held: unnumbered, and numbered but unacknowledged.
    unnumbered: usize,
    unacknowledged: usize,
    /// Numbered payload that no subflow has taken, of all streams.
    untaken: usize,
    /// Unnumbered payload of all streams that may stay for ever (`free.rs`).
    untrusted: usize,
    /// Payload numbered for streams that were abandoned before it was acknowledged.
    abandoned: u64,
    /// Payload held at most.
    pub limit: usize,
    /// A writer was refused because of the limit. The reader of this field clears it.
    pub refused: bool,
    /// Limit on a stream's bytes that have no number.
    unnumbered_limit: usize,
    /// Limit on a stream's bytes that no subflow has taken.
    unsent_limit: usize,
    /// Bytes of higher priority numbered lately while lower ones waited.
    ahead: u64,
    /// Streams with messages that expire, and when the first one may.
    expiring: BTreeSet<(Instant, StreamId)>,
    /// Some stream has had a priority, so credit and buffer are reserved for such streams.
    has_priorities: bool,
}

impl SendBuffer {
    pub fn new(limit: usize, max_data: u64) -> Self {
        Self {
            streams: BTreeMap::new(),
            ready: ReadyStreams::default(),
            segments: VecDeque::new(),
            acknowledged: NumberSet::default(),
            base: 0,
            urgent: VecDeque::new(),
            raised: VecDeque::new(),
            numbered: 0,
            max_data,
            told: DeclaredLimits { max_data, stream_credit: 0, max_streams: 0 },
            unnumbered: 0,
            unacknowledged: 0,
            untaken: 0,
            untrusted: 0,
            abandoned: 0,
            limit,
            refused: false,
            unnumbered_limit: UNNUMBERED_PER_STREAM,
            unsent_limit: usize::MAX,
            ahead: 0,
            expiring: BTreeSet::new(),
            has_priorities: false,
        }
    }

    /// The same with a transmission window of this many bytes. The next window is written while this one is sent, so a
    /// stream may hold a whole one that has no number.
    pub fn with_window(self, window: usize) -> Self {
        Self { unnumbered_limit: window.max(UNNUMBERED_PER_STREAM), ..self }
    }

    /// Payload that the peer has acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.numbered - self.abandoned - self.unacknowledged as u64
    }

    /// Numbered segments that are held.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Limit on a stream's bytes that no subflow has taken.
    pub fn set_unsent_limit(&mut self, limit: usize) {
        self.unsent_limit = limit;
    }

    // ---- what the peer allows

    pub fn allow_data(&mut self, max_data: u64) {
        self.max_data = self.max_data.max(max_data);
    }

    /// The peer's credit for one stream.
    pub fn allow_stream(&mut self, id: StreamId, limit: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.limit = stream.limit.max(limit);
            self.settle(id);
        }
    }

    /// The peer's settings: credit of the session, and of every stream without being given any.
    pub fn allow_unsolicited(&mut self, settings: DeclaredLimits) {
        self.allow_data(settings.max_data);
        let raised = settings.stream_credit > self.told.stream_credit;
        self.told = settings;
        let ids: Vec<_> = self.streams.keys().copied().filter(|_| raised).collect();
        for id in ids {
            step();
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.unsolicited = stream.unsolicited.max(settings.stream_credit);
            }
            self.settle(id);
        }
    }

    // ---- what the application writes

    /// Adds a new stream.
    pub fn open(&mut self, id: StreamId, stream: SendStream) {
        self.has_priorities |= stream.priority > 0;
        self.streams.insert(id, stream);
    }

    /// Part of the credit or of the buffer that bulk leaves to streams with a priority.
    fn reserved(&self, of: u64) -> u64 {
        if self.has_priorities { RESERVED.min(of / 16) } else { 0 }
    }

    /// A segment is being handed to a subflow.
    pub fn taken(&mut self, stream: StreamId, bytes: usize) {
        while let Some(seq) = self.raised.front()
            && !self.is_unsent(*seq)
        {
            self.raised.pop_front();
        }
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.untaken -= bytes;
            self.untaken -= bytes;
        }
    }

    pub fn push(&mut self, id: StreamId, bytes: Bytes) {
        let stream = self.streams.get_mut(&id).expect("the caller looked the stream up");
        self.unnumbered += bytes.len();
        stream.push(bytes);
        self.settle(id);
    }

    pub fn push_slice(&mut self, id: StreamId, bytes: &[u8]) {
        let stream = self.streams.get_mut(&id).expect("the caller looked the stream up");
        self.unnumbered += bytes.len();
        stream.push_slice(bytes);
        self.settle(id);
    }

    /// Adds a message that is dropped as a whole if it has not begun to be numbered by the deadline.
    pub fn push_until(&mut self, id: StreamId, bytes: Bytes, deadline: Instant) {
        let stream = self.streams.get_mut(&id).expect("the caller looked the stream up");
        self.unnumbered += bytes.len();
        let before = stream.expires();
        stream.push_until(bytes, Some(deadline));
        let first = stream.expires();
        self.expires_first(id, before, first);
        self.settle(id);
    }

    /// When the first message of a stream may expire, before a change and after it.
    fn expires_first(&mut self, id: StreamId, before: Option<Instant>, first: Option<Instant>) {
        let Some(first) = first.filter(|first| before != Some(*first)) else { return };
        if let Some(before) = before {
            self.expiring.remove(&(before, id));
        }
        self.expiring.insert((first, id));
    }

    /// Drops messages whose deadline has passed; `each` gets the stream, the number of messages and their bytes.
    pub fn expire(&mut self, now: Instant, mut each: impl FnMut(StreamId, u32, usize)) {
        while let Some(&(at, id)) = self.expiring.first().filter(|(at, _)| *at <= now) {
            step();
            self.expiring.remove(&(at, id));
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let (messages, bytes) = stream.expire(now);
            self.unnumbered -= bytes;
            if let Some(next) = stream.expires() {
                self.expiring.insert((next, id));
            }
            let of_datagrams = stream.flow.is_some();
            if messages > 0 && !of_datagrams {
                each(id, messages, bytes);
            }
            self.settle(id); // Only the end of the stream may be left to send.
            self.reprioritise(id);
        }
    }

    /// Changes a stream's priority. Numbered segments keep theirs when it falls; when it rises those that were not sent get it, too:
    /// otherwise the stream's later bytes would overtake them for as long as more are written.
    pub fn set_priority(&mut self, id: StreamId, priority: u8) {
        let open = self.open_credit();
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let before = std::mem::replace(&mut stream.priority, priority);
        self.has_priorities |= priority > 0;
        self.ready.requeue(id, stream, open);
        if priority > before {
            self.raise(id, priority);
        }
    }

    fn raise(&mut self, id: StreamId, priority: u8) {
        let mut next = self.streams.get(&id).and_then(|stream| stream.newest);
        let mut raised = Vec::new();
        while let Some(segment) = next.and_then(|seq| self.segment_mut(seq)) {
            next = segment.previous;
            let is_late = segment.is_unsent() && matches!(segment.head.kind, SegmentKind::Data { .. });
            if is_late && std::mem::replace(&mut segment.priority, priority) == 0 {
                segment.raised = true;
                raised.push(segment.head.seq);
            }
        }
        self.raised.extend(raised.into_iter().rev());
    }

    /// Whether no subflow has taken the segment, and the peer does not have it.
    pub fn is_unsent(&self, seq: DataSeq) -> bool {
        self.segment(seq).is_some_and(Segment::is_unsent)
    }

    /// The first segment that got a priority after it was numbered, and was not sent.
    pub fn raised(&self) -> Option<DataSeq> {
        self.raised.iter().copied().find(|seq| self.is_unsent(*seq))
    }

    /// Changes what a stream needs of a subflow; numbered segments keep theirs.
    pub fn set_content(&mut self, id: StreamId, content: ContentClass) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.content = content;
        }
    }

    /// Sends what is numbered from now on, on every subflow or on one; numbered segments stay as they are.
    pub fn set_redundant(&mut self, id: StreamId, redundant: bool) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.redundant = redundant;
        }
    }

    /// Ends a stream after the bytes written so far.
    pub fn finish(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.fin_wanted = true;
            self.settle(id);
        }
    }

    /// Updates a stream's place in the queue and the sums over all streams after a change.
    fn settle(&mut self, id: StreamId) {
        let open = self.open_credit();
        if let Some(stream) = self.streams.get_mut(&id) {
            self.ready.settle(id, stream, open);
            let untrusted = stream.without_credit();
            self.untrusted = self.untrusted - std::mem::replace(&mut stream.untrusted, untrusted) + untrusted;
        }
    }

    // ---- numbering

    /// Bytes that could be numbered now: written, and within session and stream credit.
    pub fn available(&self) -> u64 {
        if self.numbers_exhausted() {
            return 0;
        }
        let (first, bulk) = self.ready.bytes();
        (first + bulk.min(self.bulk_credit())).min(self.credit())
    }

    /// The part of [`Self::available`] that belongs to streams with a priority and may go first now.
    pub fn available_prioritised(&self) -> u64 {
        if self.numbers_exhausted() {
            return 0;
        }
        let (bytes, _) = self.ready.bytes();
        let bulk_waits = self.ready.lowest() == Some(0);
        let most = if bulk_waits { MOST_AHEAD_OF_LOWER.saturating_sub(self.ahead) } else { u64::MAX };
        bytes.min(most).min(self.credit())
    }

    /// Payload that may still be numbered within the peer's session credit.
    pub fn credit(&self) -> u64 {
        self.max_data.saturating_sub(self.numbered)
    }

    /// The part of it that bulk may use.
    fn bulk_credit(&self) -> u64 {
        // Of the peer's window: all credit that it has given so far grows without end.
        self.credit().saturating_sub(self.reserved(self.max_data.min(self.told.max_data)))
    }

    /// Whether a load would number anything, including an empty end of a stream.
    pub fn has_loadable(&self) -> bool {
        !self.numbers_exhausted() && (self.available() > 0 || self.ready.first_end().is_some())
    }

    fn numbers_exhausted(&self) -> bool {
        self.segments.len() as u64 >= MAX_OUTSTANDING
    }

    /// Numbers up to `bytes` of payload in segments of at most `segment` bytes, one of each stream after the other.
    /// Returns the range of numbers, empty when there was nothing, and the bytes.
    pub fn load(&mut self, bytes: u64, segment: usize) -> (DataSeq, DataSeq, u64) {
        let first = self.end();
        let mut left = bytes.min(self.credit());
        let loaded_before = self.numbered;
        let segment = segment.clamp(1, MAX_SEGMENT);
        while !self.numbers_exhausted()
            && let Some(id) = self.ready.first_end()
        {
            self.number(id, 0);
        }
        // Each pass numbers one segment of the first stream and moves the stream behind the others.
        while left > 0
            && !self.numbers_exhausted()
            && let Some(id) = self.next_queued()
        {
            // What a stream may use of its initial credit may be less now than when it was queued.
            self.settle(id);
            if self.streams.get(&id).is_none_or(|stream| stream.queued.is_none()) {
                continue;
            }
            let priority = stream_priority(&self.streams, id);
            let most = if priority > 0 { left } else { left.min(self.bulk_credit()) };
            if self.streams.get(&id).is_some_and(|stream| stream.first_datagram() as u64 > self.credit()) {
                break; // A datagram is not divided; credit comes.
            }
            let bytes = self.number(id, segment.min(usize::try_from(most).unwrap_or(usize::MAX)));
            left = left.saturating_sub(bytes); // A datagram may be longer.
            self.share(priority, bytes);
        }
        (first, self.end(), self.numbered - loaded_before)
    }

    /// Numbers a segment of a stream, which then goes behind the others of its priority. Returns the bytes.
    fn number(&mut self, id: StreamId, most: usize) -> u64 {
        step();
        let open = self.open_credit();
        let stream = self.streams.get_mut(&id).expect("a stream in the queue is held");
        let priority = stream.priority;
        let numbered = stream.number(most, open);
        stream.reprioritise();
        self.ready.requeue(id, stream, open);
        let Numbered { kind, payload, deadline } =
            numbered.expect("a stream in the queue has bytes and credit, or an end");
        let length = payload.len() as u64;
        self.numbered += length;
        self.unnumbered -= payload.len();
        self.settle(id);
        self.append(id, kind, payload);
        let segment = self.segments.back_mut().expect("it was just appended");
        (segment.deadline, segment.priority) = (deadline, priority);
        length
    }

    /// The first stream, or the first one of the lowest priority when others had more than their share. Bulk without
    /// credit is passed over.
    fn next_queued(&self) -> Option<StreamId> {
        let bulk_may = self.bulk_credit() > 0;
        if self.ahead >= MOST_AHEAD_OF_LOWER && (bulk_may || self.ready.lowest()? > 0) {
            return self.ready.first_of_lowest();
        }
        self.ready.first().filter(|_| bulk_may || self.ready.highest() > Some(0))
    }

    /// Bytes of this priority were numbered.
    fn share(&mut self, priority: u8, bytes: u64) {
        self.ahead = match self.ready.lowest() {
            Some(lowest) if lowest < priority => self.ahead + bytes,
            Some(lowest) if lowest >= priority && self.ahead > 0 => self.ahead.saturating_sub(SHARE * bytes),
            _ => 0, // No other stream waits.
        };
    }

    /// Numbers a control segment, which is urgent and uses no credit.
    pub fn number_control(&mut self, stream: StreamId, kind: SegmentKind) {
        let seq = self.append(stream, kind, Bytes::new());
        self.urgent.push_back(seq);
    }

    fn append(&mut self, stream: StreamId, kind: SegmentKind, payload: Bytes) -> DataSeq {
        let seq = self.end();
        self.unacknowledged += payload.len();
        let mut segment = Segment::new(SegmentHead { seq, stream, kind }, payload);
        if let Some(s) = self.streams.get_mut(&stream) {
            s.unacknowledged += 1;
            segment.previous = s.newest.replace(seq);
            s.untaken += segment.payload.len();
            self.untaken += segment.payload.len();
            segment.priority = s.priority;
            segment.content = s.content;
            segment.redundant = s.redundant;
        }
        self.segments.push_back(segment);
        seq
    }

    // ---- segments

    /// The lowest number that is not acknowledged.
    pub fn first(&self) -> DataSeq {
        DataSeq(self.base)
    }

    /// The number the next segment will get.
    pub fn end(&self) -> DataSeq {
        DataSeq(self.base + self.segments.len() as u64)
    }

    /// The segment; `None` if it was acknowledged and removed, or never numbered.
    pub fn segment(&self, seq: DataSeq) -> Option<&Segment> {
        self.segments.get(usize::try_from(seq.0.checked_sub(self.base)?).ok()?)
    }

    pub fn segment_mut(&mut self, seq: DataSeq) -> Option<&mut Segment> {
        self.segments.get_mut(usize::try_from(seq.0.checked_sub(self.base)?).ok()?)
    }

    /// Marks `start..end` acknowledged and calls `on_stream` with the stream of each newly acknowledged
    /// segment. Returns false when the peer acknowledges a segment that was never sent.
    #[must_use]
    pub fn acknowledge(&mut self, start: DataSeq, end: DataSeq, mut on_stream: impl FnMut(StreamId)) -> bool {
        if end > self.end() {
            return false;
        }
        let (segments, streams, base) = (&mut self.segments, &mut self.streams, self.base);
        let (mut freed, mut unsent) = (0, false);
        self.acknowledged.add(start, end, |from, to| {
            for seq in from.0..to.0 {
                step();
                let segment = &mut segments[(seq - base) as usize];
                unsent |= segment.sends == 0;
                segment.acknowledged = true;
                freed += std::mem::take(&mut segment.payload).len();
                let id = segment.head.stream;
                if let Some(stream) = streams.get_mut(&id) {
                    stream.unacknowledged -= 1;
                    if let (SegmentKind::Datagrams { offset: 0, .. }, Some(flow)) =
                        (segment.head.kind, &mut stream.flow)
                    {
                        flow.begun = true;
                    }
                    on_stream(id);
                }
            }
        });
        self.unacknowledged -= freed;
        if unsent {
            return false;
        }
        while self.segments.front().is_some_and(|s| s.acknowledged) {
            self.segments.pop_front();
            self.base += 1;
        }
        true
    }

    // ---- urgent segments

    /// Segments with a copy on this subflow that the peer has not acknowledged.
    pub fn unacknowledged_on(&self, subflow: SubflowId) -> impl Iterator<Item = DataSeq> + '_ {
        let open =
            self.segments.iter().filter(move |segment| !segment.acknowledged && segment.is_on(subflow));
        open.map(|segment| segment.head.seq)
    }

    /// Queues a segment whose subflow was lost in front of everything else.
    pub fn orphan(&mut self, seq: DataSeq) {
        self.urgent.push_back(seq);
    }

    /// Whether urgent segments are queued.
    pub fn has_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// The next urgent segment that still needs sending.
    pub fn next_urgent(&mut self) -> Option<DataSeq> {
        while let Some(&seq) = self.urgent.front() {
            if self.segment(seq).is_some_and(|s| !s.acknowledged) {
                return Some(seq);
            }
            self.urgent.pop_front();
        }
        None
    }

    /// The segment [`Self::next_urgent`] named was sent.
    pub fn urgent_sent(&mut self) {
        self.urgent.pop_front();
    }

    // ---- state

    /// Everything written was acknowledged.
    pub fn is_flushed(&self) -> bool {
        self.segments.is_empty() && self.unnumbered == 0 && !self.has_loadable()
    }

    /// Whether more could be numbered if a stream with credit had it.
    pub fn could_number_more(&self) -> bool {
        self.credit() > 0 && !self.numbers_exhausted()
    }

    /// Payload bytes numbered that no subflow has taken.
    pub fn untaken(&self) -> usize {
        debug_assert_eq!(self.untaken, self.streams.values().map(|stream| stream.untaken).sum::<usize>());
        self.untaken
    }

    /// Payload bytes held.
    pub fn held(&self) -> usize {
        self.unnumbered + self.unacknowledged
    }

    /// Payload bytes numbered but not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.unacknowledged
    }
}

fn stream_priority(streams: &BTreeMap<StreamId, SendStream>, id: StreamId) -> u8 {
    streams.get(&id).map_or(0, |stream| stream.priority)
}

#[cfg(test)]
mod tests;
