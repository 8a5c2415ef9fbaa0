//! An access point's report to the gateway: its progress and the rate of its radio.

use core::time::Duration;

use bytes::Bytes;
use tributary_types::Bitrate;

/// First byte, as in the feedback of the real nodes.
const KIND: u8 = 1;
const SIZE: usize = 21;
/// Rate before the first report.
const UNKNOWN: Bitrate = Bitrate::from_mbps(1000);

/// State of an access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Packets received from the gateway so far.
    pub received: u64,
    /// Packets waiting.
    pub waiting: u32,
    /// Present rate of the radio.
    pub rate: Bitrate,
}

impl Default for Room {
    fn default() -> Self {
        Self { received: 0, waiting: 0, rate: UNKNOWN }
    }
}

impl Room {
    pub fn encode(self) -> Bytes {
        let mut bytes = Vec::with_capacity(SIZE);
        bytes.push(KIND);
        bytes.extend_from_slice(&self.received.to_be_bytes());
        bytes.extend_from_slice(&self.waiting.to_be_bytes());
        bytes.extend_from_slice(&self.rate.as_bps().to_be_bytes());
        bytes.into()
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; SIZE] = bytes.try_into().ok().filter(|bytes: &&[u8; SIZE]| bytes[0] == KIND)?;
        let long = |at: usize| u64::from_be_bytes(core::array::from_fn(|i| bytes[at + i]));
        let waiting = u32::from_be_bytes(core::array::from_fn(|i| bytes[9 + i]));
        Some(Self { received: long(1), waiting, rate: Bitrate::from_bps(long(13)) })
    }

    /// Time until a packet of `bytes` that is sent now has left the radio, if the gateway has sent `sent`
    /// packets of this size so far.
    pub fn wait(self, sent: u64, bytes: u32) -> Duration {
        let before = sent.saturating_sub(self.received) + u64::from(self.waiting) + 1;
        let work = u128::from(before) * u128::from(bytes) * 8_000_000_000;
        Duration::from_nanos((work / u128::from(self.rate.as_bps().max(1))).min(1 << 62) as u64)
    }
}
