//! Datagrams of a flow: delivered as they arrive, or once everything before them has.
//!
//! Segments are stored as they are, and cut into datagrams when they are read.

use bytes::Bytes;
use tributary_types::DataSeq;

use super::pins::Pins;
use super::stream::{Held, RecvStream};
use crate::flow::Datagram;
use crate::wire::next_datagram;
use crate::work::step;

/// A segment of datagrams.
pub(crate) struct Segment {
    pub offset: u64,
    pub bytes: Bytes,
    pub in_order: bool,
    /// The bytes were put together from pieces, so they are in no receive block.
    pub copied: bool,
}

impl RecvStream {
    /// Takes a whole segment, which the caller has checked. Returns whether there is more to read, or `None` if the
    /// flow's bytes have arrived before with another number.
    pub fn insert_datagrams(&mut self, segment: Segment, pins: &mut Pins) -> Option<bool> {
        let Segment { offset, bytes, in_order, copied } = segment;
        let waiting = in_order && offset > self.next;
        if !self.arrive(offset, bytes.len() as u64) {
            return None;
        }
        let held = if copied { Held { bytes, pin: None } } else { self.hold(bytes, pins) };
        if waiting {
            self.ahead.insert(offset, held);
        } else {
            self.ready.push_back(held);
        }
        self.release_in_order();
        Some(!waiting || offset < self.next)
    }

    /// The peer does not send these bytes any more. Returns whether there is more to read, or `None` as above.
    pub fn skip(&mut self, offset: u64, length: u32) -> Option<bool> {
        if !self.arrive(offset, u64::from(length)) {
            return None;
        }
        self.consumed += u64::from(length);
        let before = self.ready.len();
        self.release_in_order();
        Some(self.ready.len() > before)
    }

    /// Notes that bytes have arrived. False if some of them had before.
    fn arrive(&mut self, offset: u64, length: u64) -> bool {
        let mut new = 0;
        let range = (DataSeq(offset), DataSeq(offset + length));
        self.arrived.add(range.0, range.1, |from, to| new += to.0 - from.0);
        self.counted += new;
        self.next = self.arrived.next().0;
        new == length
    }

    fn release_in_order(&mut self) {
        while let Some(first) = self.ahead.first_entry()
            && *first.key() < self.next
        {
            step();
            self.ready.push_back(first.remove());
        }
    }

    /// The next datagram, and the bytes that it took in its segment.
    pub fn read_datagram(&mut self, pins: &mut Pins) -> Option<(Datagram, u64)> {
        let front = self.ready.front_mut()?;
        let before = front.bytes.len();
        let (bytes, ecn) = next_datagram(&mut front.bytes).expect("a segment is checked when it arrives");
        let took = (before - front.bytes.len()) as u64;
        if front.bytes.is_empty()
            && let Some(pin) = self.ready.pop_front().and_then(|held| held.pin)
        {
            pins.release(pin);
        }
        self.consumed += took;
        Some((Datagram { bytes, ecn }, took))
    }
}
