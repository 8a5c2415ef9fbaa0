//! The datagrams of one flow that are queued and not numbered yet.
//!
//! A flow has three lanes, sent in this order: its first datagram, which can say what the flow is for; in a flow of RTP the packets of
//! key frames, which are dropped last; and everything else. Not here: whether a datagram is queued ([`crate::flow`]), and the bytes of a
//! lane (`lane.rs`).

mod lane;

use bytes::Bytes;
use tributary_types::Instant;

use crate::flow::{Classifier, FlowConfig, FlowStats, Form, Gate, KeyFrames, Treatment};
use crate::wire::{Ecn, MAX_PREFIX};
use lane::Lane;

/// What is sent of one flow.
#[derive(Debug)]
pub(crate) struct FlowQueue {
    pub config: FlowConfig,
    pub classifier: Classifier,
    pub treatment: Treatment,
    pub gate: Gate,
    pub stats: FlowStats,
    /// The peer has the first segment. Until then the others are in order, so that the first datagram is delivered first and
    /// can say what the flow is for.
    pub begun: bool,
    /// Recognises key frames, if it is a flow of RTP.
    frames: Option<KeyFrames>,
    /// Whether the flow's first datagram has been queued.
    has_head: bool,
    /// By [`HEAD`], [`KEYS`] and [`OTHERS`].
    lanes: [Lane; 3],
}

const HEAD: usize = 0;
const KEYS: usize = 1;
const OTHERS: usize = 2;

impl FlowQueue {
    /// Bytes that a datagram takes besides its own, at most.
    pub const OVERHEAD: usize = MAX_PREFIX;

    pub fn new(now: Instant, config: FlowConfig) -> Self {
        let classifier = Classifier::new(now);
        let treatment = config.treat(classifier.traffic());
        Self {
            config,
            classifier,
            treatment,
            gate: Gate::default(),
            stats: FlowStats::default(),
            begun: false,
            frames: config.rtp.map(KeyFrames::new),
            has_head: false,
            lanes: Default::default(),
        }
    }

    /// Changes how it is sent. Datagrams that are queued keep their lanes and deadlines.
    pub fn configure(&mut self, config: FlowConfig) {
        if config.rtp != self.config.rtp {
            self.frames = config.rtp.map(KeyFrames::new);
        }
        self.config = config;
    }

    /// Whether a datagram that is about to be queued belongs to a key frame.
    pub fn is_key(&mut self, datagram: &[u8]) -> bool {
        self.frames.as_mut().is_some_and(|frames| frames.observe(datagram))
    }

    /// Whether its datagrams are delivered in order.
    pub fn in_order(&self) -> bool {
        self.treatment.form == Form::InOrder || !self.begun
    }

    /// Its priority now: that of its treatment, or the next higher one while key frames wait.
    pub fn priority(&self) -> u8 {
        self.treatment.priority.saturating_add(u8::from(!self.lanes[KEYS].is_empty()))
    }

    /// Bytes of the first datagram, with its length; 0 if there is none.
    pub fn first(&self) -> usize {
        self.lanes.iter().find(|lane| !lane.is_empty()).map_or(0, Lane::first)
    }

    /// Bytes that are sent after a key frame that is queued now.
    pub fn behind_keys(&self) -> usize {
        self.lanes[OTHERS].bytes()
    }

    /// When the first datagram of a lane has its deadline, whichever is sooner.
    pub fn expires(&self) -> Option<Instant> {
        self.lanes.iter().filter_map(Lane::expires).min()
    }

    /// Adds a datagram; returns its bytes, with its length.
    pub fn push(&mut self, datagram: (&[u8], Ecn), is_key: bool, deadline: Instant) -> usize {
        let lane = match std::mem::replace(&mut self.has_head, true) {
            false => HEAD,
            true if is_key => KEYS,
            true => OTHERS,
        };
        self.lanes[lane].push(datagram, deadline)
    }

    /// Takes the first datagrams for a segment, at most `most` bytes unless the first one is longer. Returns them and the
    /// earliest deadline.
    pub fn take(&mut self, most: usize) -> Option<(Bytes, Instant)> {
        let lane = self.lanes.iter_mut().find(|lane| !lane.is_empty())?;
        let (segment, deadline, count) = lane.take(most)?;
        self.stats.sent += count;
        Some((segment, deadline))
    }

    /// Drops the oldest datagram to make room for another one: of key frames only `for_key` and if there is no other, and never the
    /// flow's first. Returns its bytes, 0 if none was dropped.
    pub fn drop_first(&mut self, for_key: bool) -> usize {
        match self.lanes[OTHERS].drop_first() {
            0 if for_key => self.lanes[KEYS].drop_first(),
            bytes => bytes,
        }
    }

    /// Drops the first datagrams whose deadline has passed. Returns their number and bytes.
    pub fn expire(&mut self, now: Instant) -> (u32, usize) {
        let expired = self.lanes.iter_mut().map(|lane| lane.expire(now));
        let (count, bytes) = expired.fold((0, 0), |sum, lane| (sum.0 + lane.0, sum.1 + lane.1));
        self.stats.expired += u64::from(count);
        (count, bytes)
    }

    pub fn clear(&mut self) {
        self.lanes = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::RtpFormat;
    use crate::wire::next_datagram;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// The first byte of each datagram of a segment.
    fn contents((mut segment, _): (Bytes, Instant)) -> Vec<u8> {
        std::iter::from_fn(|| next_datagram(&mut segment)).map(|(datagram, _)| datagram[0]).collect()
    }

    #[test]
    fn key_frames_are_taken_first_and_dropped_last() {
        let config = FlowConfig { rtp: Some(RtpFormat::H264), ..FlowConfig::default() };
        let mut queue = FlowQueue::new(at(0), config);
        let base = queue.priority();
        let push = |queue: &mut FlowQueue, n: u8, is_key: bool, deadline| {
            queue.push((&[n; 100], Ecn::NotCapable), is_key, at(deadline));
        };
        // The flow's first datagram is neither overtaken nor dropped.
        push(&mut queue, 7, false, 1000);
        push(&mut queue, 10, true, 400);
        assert_eq!((queue.drop_first(false), queue.first()), (0, 102));
        assert_eq!(contents(queue.take(1 << 16).unwrap()), [7]);
        for n in 0..3 {
            push(&mut queue, n, false, 100);
            if n > 0 {
                push(&mut queue, 10 + n, true, 400);
            }
        }
        assert_eq!((queue.priority(), queue.behind_keys(), queue.expires()), (base + 1, 306, Some(at(100))));
        assert_eq!(queue.drop_first(true), 102);
        assert_eq!(contents(queue.take(1 << 16).unwrap()), [10, 11, 12]);
        assert_eq!((queue.priority(), queue.first()), (base, 102));
        push(&mut queue, 13, true, 400);
        assert_eq!((queue.expire(at(100)), queue.stats.expired), ((2, 204), 2));
        assert_eq!((queue.drop_first(false), queue.expires()), (0, Some(at(400))));
        assert_eq!(queue.drop_first(true), 102);
        assert_eq!(
            (queue.first(), queue.drop_first(true), queue.expires(), queue.stats.sent),
            (0, 0, None, 4)
        );
    }

    #[test]
    fn another_format_begins_anew_and_the_same_one_goes_on() {
        let rtp = |payload: &[u8]| [&[0x80, 96, 0, 1, 0, 0, 0, 9, 0, 0, 0, 7][..], payload].concat();
        let config = |rtp| FlowConfig { rtp: Some(rtp), ..FlowConfig::default() };
        let mut queue = FlowQueue::new(at(0), config(RtpFormat::Vp8));
        let (first, rest) = (rtp(&[0x10, 0]), rtp(&[0, 1]));
        assert!(queue.is_key(&first) && queue.is_key(&rest));
        queue.configure(FlowConfig { priority: Some(3), ..config(RtpFormat::Vp8) });
        assert!(queue.is_key(&rest));
        queue.configure(config(RtpFormat::Av1));
        assert!(!queue.is_key(&rest));
        queue.configure(FlowConfig::default());
        assert!(!queue.is_key(&first));
    }
}
