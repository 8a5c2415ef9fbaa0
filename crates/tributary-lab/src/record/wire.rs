//! The messages of a recording, each one UDP datagram. Integers are big-endian, times nanoseconds since 1970.
//!
//! An answer to somebody who has not proved address and key is not longer than the question.

use core::time::Duration;

/// First bytes of every message; the last one is the version.
const MAGIC: [u8; 4] = *b"TRr2";
/// Bytes of a message that is not part of a train.
pub const SMALL: usize = 200;
/// Bytes of a packet of a train: 1400 with IPv4 and UDP headers, which fits into every path that carries IPv6 in a tunnel.
pub const LARGE: usize = 1372;
/// Most packets of a train.
pub const MOST: u16 = 256;
/// Most trains in a reply; each is repeated in so many replies, because replies may be lost.
pub const TRAINS: usize = 6;
/// Bytes of a cookie and of a tag.
pub const COOKIE: usize = 8;
pub const TAG: usize = 16;

/// Shows that the sender received the server's cookie and has the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    pub cookie: [u8; COOKIE],
    pub tag: [u8; TAG],
}

/// What became of one train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Train {
    /// Its slot.
    pub slot: u32,
    /// When its first packet arrived, by the receiver's clock.
    pub first: Duration,
    /// bit/s; 0: too few packets.
    pub rate: u64,
    /// Packets of which it is known whether they were lost at random, and how many of them were.
    pub counted: u16,
    pub lost: u16,
    /// Packets up to the last one that arrived, if the queue had no room for the rest; else 0.
    pub room: u16,
}

/// Answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The request's slot.
    pub slot: u32,
    /// When the request arrived and when this was sent, by the server's clock.
    pub received: Duration,
    pub sent: Duration,
    /// The server's clock; see [`super::auth::Credentials::clock`].
    pub clock: u64,
    /// The client's last trains, at most [`TRAINS`].
    pub trains: Vec<Train>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Client: who is there?
    Hello,
    /// Server: show this.
    Cookie([u8; COOKIE]),
    /// Server: another key is needed.
    Refused,
    /// Client: answer at once, then send a train of so many packets.
    Request { proof: Proof, slot: u32, packets: u16 },
    /// Server.
    Reply(Reply),
    /// A packet of a train; the proof is the client's.
    Packet { proof: Proof, slot: u32, index: u16, packets: u16 },
}

impl Message {
    /// The datagram.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LARGE);
        bytes.extend(MAGIC);
        let mut length = SMALL;
        match self {
            Self::Hello => bytes.push(1),
            Self::Cookie(cookie) => {
                bytes.push(2);
                bytes.extend(cookie);
            }
            Self::Refused => bytes.push(3),
            Self::Request { proof, slot, packets } => {
                bytes.push(4);
                bytes.extend([&proof.cookie[..], &proof.tag[..]].concat());
                bytes.extend(slot.to_be_bytes());
                bytes.extend(packets.to_be_bytes());
            }
            Self::Reply(reply) => {
                bytes.push(5);
                bytes.extend(reply.slot.to_be_bytes());
                bytes.extend(nanos(reply.received).to_be_bytes());
                bytes.extend(nanos(reply.sent).to_be_bytes());
                bytes.extend(reply.clock.to_be_bytes());
                bytes.push(reply.trains.len().min(TRAINS) as u8);
                for train in reply.trains.iter().take(TRAINS) {
                    bytes.extend(train.slot.to_be_bytes());
                    bytes.extend(nanos(train.first).to_be_bytes());
                    bytes.extend(train.rate.to_be_bytes());
                    bytes.extend(train.counted.to_be_bytes());
                    bytes.extend(train.lost.to_be_bytes());
                    bytes.extend(train.room.to_be_bytes());
                }
            }
            Self::Packet { proof, slot, index, packets } => {
                bytes.push(6);
                bytes.extend([&proof.cookie[..], &proof.tag[..]].concat());
                bytes.extend(slot.to_be_bytes());
                bytes.extend(index.to_be_bytes());
                bytes.extend(packets.to_be_bytes());
                length = LARGE;
            }
        }
        bytes.resize(length, 0);
        bytes
    }

    /// The message in a datagram; `None` if it is none, or too short to be answered.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        if datagram.len() < SMALL {
            return None;
        }
        let mut rest = Rest(datagram.strip_prefix(&MAGIC)?);
        Some(match rest.bytes()? {
            [1] => Self::Hello,
            [2] => Self::Cookie(rest.bytes()?),
            [3] => Self::Refused,
            [4] => Self::Request { proof: rest.proof()?, slot: rest.u32()?, packets: rest.u16()?.min(MOST) },
            [5] => {
                let (slot, received, sent) = (rest.u32()?, rest.time()?, rest.time()?);
                let (clock, [trains]) = (rest.u64()?, rest.bytes()?);
                let train = |_| {
                    Some(Train {
                        slot: rest.u32()?,
                        first: rest.time()?,
                        rate: rest.u64()?,
                        counted: rest.u16()?,
                        lost: rest.u16()?,
                        room: rest.u16()?,
                    })
                };
                let trains = (0..usize::from(trains).min(TRAINS)).map(train).collect::<Option<_>>()?;
                Self::Reply(Reply { slot, received, sent, clock, trains })
            }
            [6] => Self::Packet {
                proof: rest.proof()?,
                slot: rest.u32()?,
                index: rest.u16()?,
                packets: rest.u16()?,
            },
            _ => return None,
        })
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What is left of a datagram.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (value, after) = self.0.split_first_chunk::<N>()?;
        self.0 = after;
        Some(*value)
    }

    fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_be_bytes)
    }

    fn time(&mut self) -> Option<Duration> {
        self.u64().map(Duration::from_nanos)
    }

    fn proof(&mut self) -> Option<Proof> {
        Some(Proof { cookie: self.bytes()?, tag: self.bytes()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_back_and_nothing_else_is() {
        let proof = Proof { cookie: [7; COOKIE], tag: [9; TAG] };
        let at = Duration::from_nanos(1_700_000_000_123_456_789);
        let train = Train { slot: 8, first: at, rate: 47_000_000, counted: 40, lost: 3, room: 0 };
        let reply = Reply { slot: 9, received: at, sent: at, clock: 5, trains: vec![train; TRAINS] };
        let all = [
            Message::Hello,
            Message::Cookie([1; COOKIE]),
            Message::Refused,
            Message::Request { proof, slot: 3, packets: 256 },
            Message::Reply(reply.clone()),
            Message::Packet { proof, slot: u32::MAX, index: 255, packets: 256 },
        ];
        for message in all {
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes), Some(message));
            assert!(bytes.len() == SMALL || bytes.len() == LARGE);
            for length in 0..SMALL {
                assert_eq!(Message::decode(&bytes[..length]), None);
            }
            for at in 0..5 {
                let mut other = bytes.clone();
                other[at] ^= 0x40;
                assert_eq!(Message::decode(&other), None);
            }
        }
        let greedy = Message::Request { proof, slot: 1, packets: u16::MAX }.encode();
        assert_eq!(Message::decode(&greedy), Some(Message::Request { proof, slot: 1, packets: MOST }));
        let many = Message::Reply(Reply { trains: vec![train; 50], ..reply.clone() }).encode();
        assert_eq!(Message::decode(&many), Some(Message::Reply(reply)));
    }
}
