//! Data written on a connection and not yet read: records, handshake messages, frames.
//!
//! TCP carries numbers of bytes; the bytes themselves are here, shared by both ends of a connection. With
//! protection, a record arrives complete or not at all, as in TLS 1.3; without it, bytes arrive as they are.
//! Not here: encryption. Only a record's length is modelled.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use tributary_proto::handshakes::Failure;
use tributary_proto::wire::Head;
use tributary_types::SubflowId;

/// Most plaintext in one record (RFC 8446 §5.1).
pub(super) const RECORD: u64 = 16_384;
/// Overhead of a record in bytes: head, inner content type and tag (RFC 8446 §5.2).
const RECORD_OVERHEAD: u64 = 22;
/// Frame heads are cut from blocks of this size.
const HEAD_BLOCK: usize = 64 * 1024;

/// Handshake messages. Lengths are the runtime's (docs/wire-handshake.md); those of TLS are typical.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeMessage {
    /// TLS: the client's first flight, with its ticket.
    ClientHello,
    /// TLS: the server's flight, with its certificate and its proof.
    ServerFlight,
    /// TLS: the client's second flight.
    ClientFinished,
    /// Plaintext: the client's first bytes.
    Ticket,
    /// Plaintext: the challenge, and the server's proof.
    Challenge,
    /// Opens a session, as the client's attempt of this number to do so, or joins one with this subflow.
    Hello { opens: Option<u32>, subflow: SubflowId, metered: bool },
    /// The server's answer.
    Reply { refused: Option<Failure> },
}

impl HandshakeMessage {
    /// Bytes on the wire.
    fn length(self, protected: bool) -> u64 {
        let record = if protected { RECORD_OVERHEAD } else { 0 };
        match self {
            // 240 without the ticket, which takes 72 bytes and an ALPN extension (7 more, RFC 7301 §3.1).
            Self::ClientHello => 240 + 79,
            // 900 without the second entry of the certificate list: 32 bytes and 5 more (RFC 8446 §4.4.2).
            Self::ServerFlight => 900 + 37,
            Self::ClientFinished => 64,
            // The eight bytes before the ticket contain the protocol's name and version.
            Self::Ticket => 8 + 72,
            Self::Challenge => 40 + 32,
            Self::Hello { .. } => 112 + record,
            Self::Reply { .. } => 56 + record,
        }
    }
}

/// Something that arrived.
#[derive(Debug)]
pub(super) enum Delivery {
    Message(HandshakeMessage),
    Bytes(Bytes),
}

#[derive(Debug)]
enum Content {
    Message(HandshakeMessage),
    /// Frame bytes of a record, which arrive together.
    Record(u64),
    /// Frame bytes without records.
    Plain,
}

#[derive(Debug)]
struct Unit {
    /// Bytes on the wire that have not arrived.
    left: u64,
    content: Content,
}

#[derive(Debug, Default)]
struct Queue {
    units: VecDeque<Unit>,
    frames: VecDeque<Bytes>,
}

/// One direction of a connection, shared by both ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Wire {
    queue: Rc<RefCell<Queue>>,
}

/// The writing end of a wire.
#[derive(Debug)]
pub(super) struct Writer {
    wire: Wire,
    protected: bool,
    heads: BytesMut,
    /// Frame bytes that are in no record yet.
    open: u64,
}

impl Writer {
    pub fn new(wire: Wire, protected: bool) -> Self {
        Self { wire, protected, heads: BytesMut::new(), open: 0 }
    }

    /// Sends a handshake message; returns its bytes on the wire.
    pub fn say(&mut self, message: HandshakeMessage) -> u64 {
        let left = message.length(self.protected);
        self.wire.queue.borrow_mut().units.push_back(Unit { left, content: Content::Message(message) });
        left
    }

    /// Adds a frame; returns the bytes on the wire that are now complete.
    pub fn push(&mut self, head: &Head, payload: Bytes) -> u64 {
        let head = head.as_slice();
        self.open += (head.len() + payload.len()) as u64;
        let mut queue = self.wire.queue.borrow_mut();
        if !head.is_empty() {
            if self.heads.capacity() < head.len() {
                self.heads.reserve(HEAD_BLOCK);
            }
            self.heads.extend_from_slice(head);
            queue.frames.push_back(self.heads.split().freeze());
        }
        if !payload.is_empty() {
            queue.frames.push_back(payload);
        }
        drop(queue);
        let mut complete = 0;
        while self.protected && self.open >= RECORD {
            complete += self.seal(RECORD);
        }
        complete
    }

    /// Completes the current record; returns its bytes on the wire.
    pub fn finish(&mut self) -> u64 {
        if self.open == 0 { 0 } else { self.seal(self.open) }
    }

    /// Bytes pushed that are in no complete record.
    pub fn open(&self) -> u64 {
        self.open
    }

    fn seal(&mut self, bytes: u64) -> u64 {
        self.open -= bytes;
        let (left, content) = if self.protected {
            (bytes + RECORD_OVERHEAD, Content::Record(bytes))
        } else {
            (bytes, Content::Plain)
        };
        self.wire.queue.borrow_mut().units.push_back(Unit { left, content });
        left
    }
}

impl Wire {
    /// `bytes` more have arrived in order; adds what they complete to `arrived`.
    pub fn advance(&self, mut bytes: u64, arrived: &mut VecDeque<Delivery>) {
        let mut queue = self.queue.borrow_mut();
        while bytes > 0 {
            let unit = queue.units.front_mut().expect("TCP delivers only what was written");
            let part = bytes.min(unit.left);
            unit.left -= part;
            bytes -= part;
            let whole = unit.left == 0;
            let frames = match unit.content {
                Content::Plain => part,
                Content::Record(length) if whole => length,
                Content::Message(message) if whole => {
                    arrived.push_back(Delivery::Message(message));
                    0
                }
                Content::Record(_) | Content::Message(_) => 0,
            };
            if whole {
                queue.units.pop_front();
            }
            queue.take(frames, arrived);
        }
    }
}

impl Queue {
    fn take(&mut self, bytes: u64, arrived: &mut VecDeque<Delivery>) {
        let mut left = bytes as usize;
        while left > 0 {
            let front = self.frames.front_mut().expect("a record holds what was pushed before it");
            let piece = if front.len() <= left {
                self.frames.pop_front().expect("the front was just seen")
            } else {
                front.split_to(left)
            };
            left -= piece.len();
            arrived.push_back(Delivery::Bytes(piece));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(arrived: &mut VecDeque<Delivery>) -> usize {
        arrived.drain(..).map(|d| if let Delivery::Bytes(b) = d { b.len() } else { 0 }).sum()
    }

    #[test]
    fn a_record_arrives_whole_and_costs_22_bytes() {
        let wire = Wire::default();
        let mut writer = Writer::new(wire.clone(), true);
        let mut arrived = VecDeque::new();
        let complete = writer.push(&Head::default(), Bytes::from_static(&[0; 20_000]));
        assert_eq!((complete, writer.open()), (16_406, 20_000 - 16_384));
        assert_eq!(writer.finish(), 3_616 + 22);
        wire.advance(16_405, &mut arrived);
        assert_eq!(bytes(&mut arrived), 0);
        wire.advance(1, &mut arrived);
        assert_eq!(bytes(&mut arrived), 16_384);
        wire.advance(3_638, &mut arrived);
        assert_eq!(bytes(&mut arrived), 3_616);
    }

    #[test]
    fn without_tls_bytes_follow_the_handshake_messages_unchanged() {
        let wire = Wire::default();
        let mut writer = Writer::new(wire.clone(), false);
        let mut arrived = VecDeque::new();
        assert_eq!(writer.say(HandshakeMessage::Challenge), 72);
        writer.push(&Head::default(), Bytes::from_static(&[0; 1000]));
        assert_eq!(writer.finish(), 1000);
        wire.advance(71, &mut arrived);
        assert!(arrived.is_empty());
        wire.advance(101, &mut arrived);
        assert!(matches!(arrived.pop_front(), Some(Delivery::Message(HandshakeMessage::Challenge))));
        assert_eq!(bytes(&mut arrived), 100);
    }
}
