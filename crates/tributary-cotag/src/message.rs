//! The messages between nodes inside a hop's envelope. The first byte is the kind:
//!
//! | first byte | message | direction |
//! |---|---|---|
//! | 1 | feedback: newest number received (8), age of it in µs (4), room in bytes (4), capacity in bytes (4), loss (2) | both |
//! | 2 | numbered packet: start (4), number (8), then an IP packet | device to gateway |
//! | 3 | ping: asks for feedback | both |
//! | 4 | a COTAG packet that its radio could not deliver | access point to gateway |
//! | 0xc1 | a COTAG packet, see `docs/models/cotag.md` | gateway to device; reports the other way |
//! | 0x45… or 0x6… | an IP packet that is not coded | gateway to device |

/// Bytes of a numbered packet before the IP packet.
const NUMBERED: usize = 13;
const FEEDBACK: usize = 23;

/// Feedback of a hop's receiver to its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Newest packet number received.
    pub newest: u64,
    /// Age of `newest`, µs.
    pub age: u32,
    /// Bytes that may be sent after `newest`.
    pub room: u32,
    /// The room if the receiver holds nothing.
    pub capacity: u32,
    /// Share of the packets that are lost on the way to the device.
    pub loss: Loss,
}

/// A share of lost packets in 1/65535 of all, or unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss(Option<u16>);

impl Loss {
    const UNKNOWN: u16 = u16::MAX;

    /// This share of all packets, 0 to 1; `None`: unknown.
    #[must_use]
    pub fn new(share: Option<f64>) -> Self {
        Self(share.map(|share| (share * 65_535.0).clamp(0.0, 65_534.0) as u16))
    }

    /// The share, 0 to 1, if it is known.
    #[must_use]
    pub fn share(self) -> Option<f64> {
        self.0.map(|share| f64::from(share) / 65_535.0)
    }

    fn read(value: u16) -> Self {
        Self(Some(value).filter(|value| *value != Self::UNKNOWN))
    }

    fn written(self) -> u16 {
        self.0.unwrap_or(Self::UNKNOWN)
    }
}

/// A message from one node to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopMessage<'a> {
    /// What has arrived, and what may be sent.
    Feedback(Feedback),
    /// A packet from the device: number of the device's start, packet number, IP packet.
    Numbered(u32, u64, &'a [u8]),
    /// Asks for feedback.
    Ping,
    /// A COTAG packet given back to the gateway.
    Returned(&'a [u8]),
    /// A COTAG packet.
    Coded(&'a [u8]),
    /// An IP packet that is not coded.
    Plain(&'a [u8]),
}

impl<'a> HopMessage<'a> {
    /// Parses a message; `None` when it is invalid.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
        let short = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
        match bytes.first()? {
            1 if bytes.len() == FEEDBACK => Some(Self::Feedback(Feedback {
                newest: long(1)?,
                age: short(9)?,
                room: short(13)?,
                capacity: short(17)?,
                loss: Loss::read(u16::from_be_bytes([bytes[21], bytes[22]])),
            })),
            2 if bytes.len() > NUMBERED => Some(Self::Numbered(short(1)?, long(5)?, &bytes[NUMBERED..])),
            3 if bytes.len() == 1 => Some(Self::Ping),
            4 if bytes.get(1) == Some(&0xc1) => Some(Self::Returned(&bytes[1..])),
            0xc1 => Some(Self::Coded(bytes)),
            first if matches!(first >> 4, 4 | 6) => Some(Self::Plain(bytes)),
            _ => None,
        }
    }

    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Feedback(feedback) => {
                out.push(1);
                out.extend_from_slice(&feedback.newest.to_be_bytes());
                for value in [feedback.age, feedback.room, feedback.capacity] {
                    out.extend_from_slice(&value.to_be_bytes());
                }
                out.extend_from_slice(&feedback.loss.written().to_be_bytes());
            }
            Self::Numbered(start, number, packet) => {
                out.push(2);
                out.extend_from_slice(&start.to_be_bytes());
                out.extend_from_slice(&number.to_be_bytes());
                out.extend_from_slice(packet);
            }
            Self::Ping => out.push(3),
            Self::Returned(packet) => {
                out.push(4);
                out.extend_from_slice(packet);
            }
            Self::Coded(bytes) | Self::Plain(bytes) => out.extend_from_slice(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parsed_messages_are_written_back_unchanged(bytes in prop::collection::vec(any::<u8>(), 0..60), first in 0..6_u8) {
            let mut bytes = bytes;
            if let Some(place) = bytes.first_mut() {
                *place = [1, 2, 3, 4, 0xc1, 0x45][usize::from(first)];
            }
            if let Some(message) = HopMessage::read(&bytes) {
                let mut again = Vec::new();
                message.write(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn messages_round_trip() {
        let feedback =
            Feedback { newest: u64::MAX, age: 7, room: 8, capacity: 9, loss: Loss::new(Some(0.25)) };
        let returned = HopMessage::Returned(b"\xc1");
        for message in
            [HopMessage::Feedback(feedback), HopMessage::Numbered(1, 2, b"E"), HopMessage::Ping, returned]
        {
            let mut bytes = Vec::new();
            message.write(&mut bytes);
            assert_eq!(HopMessage::read(&bytes), Some(message));
        }
        assert!((feedback.loss.share().expect("known") - 0.25).abs() < 1e-4);
        assert_eq!((Loss::new(None).share(), Loss::new(Some(7.0)).share().is_some()), (None, true));
        assert_eq!(HopMessage::read(&[]), None);
        assert_eq!((HopMessage::read(&[9]), HopMessage::read(&[4, 9])), (None, None));
    }
}
