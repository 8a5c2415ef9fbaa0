//! What a node tells the node before it, and the numbers of the datagrams between them, as in the envelope of the real
//! hops: the receiver counts the losses by these numbers.

use core::time::Duration;

use bytes::Bytes;
use tributary_types::Bitrate;

/// First byte, as in the feedback of the real nodes.
const KIND: u8 = 1;
const SIZE: usize = 29;
/// Bytes of a datagram's number.
const NUMBER: usize = 8;
/// Rate before the first feedback.
const UNKNOWN: Bitrate = Bitrate::from_mbps(1000);

/// A datagram with its number.
pub(super) fn numbered(number: u64, bytes: &[u8]) -> Bytes {
    let mut datagram = Vec::with_capacity(NUMBER + bytes.len());
    datagram.extend_from_slice(&number.to_be_bytes());
    datagram.extend_from_slice(bytes);
    datagram.into()
}

/// The number and the contents of a datagram; `None` if it is too short.
pub(super) fn unnumbered(datagram: &Bytes) -> Option<(u64, Bytes)> {
    let number = datagram.first_chunk().map(|number| u64::from_be_bytes(*number))?;
    Some((number, datagram.slice(NUMBER..)))
}

/// What an access point or the device tells the node before it. Of the device's feedback only `loss` is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Feedback {
    /// Packets received so far from the node before.
    pub received: u64,
    /// Packets waiting.
    pub waiting: u32,
    /// Present rate of the radio.
    pub rate: Bitrate,
    /// Share of packets that are lost on the way to the device, once known.
    pub loss: Option<f64>,
}

impl Default for Feedback {
    fn default() -> Self {
        Self { received: 0, waiting: 0, rate: UNKNOWN, loss: None }
    }
}

impl Feedback {
    pub fn encode(self) -> Bytes {
        let mut bytes = Vec::with_capacity(SIZE);
        bytes.push(KIND);
        bytes.extend_from_slice(&self.received.to_be_bytes());
        bytes.extend_from_slice(&self.waiting.to_be_bytes());
        bytes.extend_from_slice(&self.rate.as_bps().to_be_bytes());
        bytes.extend_from_slice(&self.loss.unwrap_or(f64::NAN).to_be_bytes());
        bytes.into()
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; SIZE] = bytes.try_into().ok().filter(|bytes: &&[u8; SIZE]| bytes[0] == KIND)?;
        let long = |at: usize| u64::from_be_bytes(core::array::from_fn(|i| bytes[at + i]));
        let waiting = u32::from_be_bytes(core::array::from_fn(|i| bytes[9 + i]));
        let loss = Some(f64::from_bits(long(21))).filter(|loss| !loss.is_nan());
        Some(Self { received: long(1), waiting, rate: Bitrate::from_bps(long(13)), loss })
    }

    /// Time until a packet of `bytes` that is sent now has left the radio, if the gateway has sent `sent`
    /// packets of this size so far.
    pub fn wait(self, sent: u64, bytes: u32) -> Duration {
        let before = sent.saturating_sub(self.received) + u64::from(self.waiting) + 1;
        let work = u128::from(before) * u128::from(bytes) * 8_000_000_000;
        Duration::from_nanos((work / u128::from(self.rate.as_bps().max(1))).min(1 << 62) as u64)
    }
}
