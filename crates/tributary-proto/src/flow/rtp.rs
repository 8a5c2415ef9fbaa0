//! Which RTP packets belong to key frames: those without which a decoder can show nothing that follows.
//!
//! Sources: RTP (RFC 3550 §5.1), beside RTCP on one port (RFC 5761 §4); H.264 (RFC 6184), H.265 (RFC 7798), VP8 (RFC 7741), AV1 (RTP
//! Payload Format For AV1, Alliance for Open Media, §4.4). H.264 and H.265 name the kind of data in every packet. In VP8 and AV1 only
//! the first packet of a key frame shows it, so the others are recognised by its timestamp. A datagram that is no RTP packet, or is
//! damaged, belongs to none. Encrypted payload (SRTP) shows nothing. Not here: what is done with the packets (`send/datagrams.rs`).

use core::fmt;
use core::str::FromStr;

/// Payload format of a flow's RTP packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtpFormat {
    /// RFC 6184.
    H264,
    /// RFC 7798, without decoding order numbers (`sprop-max-don-diff=0`).
    H265,
    /// RFC 7741.
    Vp8,
    /// The Alliance for Open Media's.
    Av1,
}

impl RtpFormat {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::H264, Self::H265, Self::Vp8, Self::Av1];
}

impl fmt::Display for RtpFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::H264 => "rtp-h264",
            Self::H265 => "rtp-h265",
            Self::Vp8 => "rtp-vp8",
            Self::Av1 => "rtp-av1",
        })
    }
}

/// The name is that of no format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFormat;

impl FromStr for RtpFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.to_string() == name).ok_or(UnknownFormat)
    }
}

/// A source and its time: the same for all packets of a frame.
type FrameOf = (u32, u32);

/// Recognises the packets of key frames in a flow.
#[derive(Clone, Copy, Debug)]
pub struct KeyFrames {
    format: RtpFormat,
    /// VP8, AV1: the newest frame that began as a key frame.
    key: Option<FrameOf>,
}

impl KeyFrames {
    /// For a flow of this format.
    #[must_use]
    pub fn new(format: RtpFormat) -> Self {
        Self { format, key: None }
    }

    /// Whether a datagram belongs to a key frame, or to the parameters that one needs.
    pub fn observe(&mut self, datagram: &[u8]) -> bool {
        let Some((frame, payload)) = rtp(datagram) else { return false };
        let begins = match self.format {
            RtpFormat::H264 => return h264(payload).unwrap_or(false),
            RtpFormat::H265 => return h265(payload).unwrap_or(false),
            RtpFormat::Vp8 => vp8(payload),
            RtpFormat::Av1 => av1(payload),
        };
        match begins {
            Begins::Key => self.key = Some(frame),
            Begins::Other if self.key == Some(frame) => self.key = None,
            Begins::Other | Begins::Nothing => {}
        }
        self.key == Some(frame)
    }
}

/// What begins in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    Key,
    Other,
    /// No frame, or it cannot be read.
    Nothing,
}

/// The frame that an RTP packet belongs to, and its payload without padding. `None`: it is no RTP packet.
fn rtp(datagram: &[u8]) -> Option<(FrameOf, &[u8])> {
    let (head, mut rest) = datagram.split_first_chunk::<12>()?;
    // RFC 5761 §4: payload types 64 to 95 with the marker are RTCP's.
    if head[0] >> 6 != 2 || (192..=223).contains(&head[1]) {
        return None;
    }
    rest = rest.get(4 * usize::from(head[0] & 15)..)?;
    if head[0] & 0x10 != 0 {
        let (extension, after) = rest.split_first_chunk::<4>()?;
        rest = after.get(4 * usize::from(u16::from_be_bytes([extension[2], extension[3]]))..)?;
    }
    if head[0] & 0x20 != 0 {
        let padding = usize::from(*rest.last()?);
        rest = rest.get(..rest.len().checked_sub(padding.max(1))?)?;
    }
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    Some(((word(8), word(4)), rest))
}

/// RFC 6184 §5.2: a NAL unit, several, or a part of one. `None`: it is cut short.
fn h264(payload: &[u8]) -> Option<bool> {
    // RFC 6184 §1.3: an IDR picture, and its sequence and picture parameter sets.
    let is_key = |nal: u8| matches!(nal & 31, 5 | 7 | 8);
    let (head, rest) = payload.split_first()?;
    // Bytes of the decoding order number behind the head (§5.7), and between size and unit: its offset and that of the time (§5.7.2).
    let (order, between) = match head & 31 {
        24 => (0, 0),                                   // STAP-A
        25 => (2, 0),                                   // STAP-B
        26 => (2, 3),                                   // MTAP16
        27 => (2, 4),                                   // MTAP24
        28 | 29 => return Some(is_key(*rest.first()?)), // FU-A, FU-B
        _ => return Some(is_key(*head)),
    };
    any_unit(rest.get(order..)?, between, |unit| unit.first().is_some_and(|nal| is_key(*nal)))
}

/// RFC 7798 §4.4.
fn h265(payload: &[u8]) -> Option<bool> {
    // H.265 §7.4.2.2: pictures that can be decoded without others (IRAP), and parameter sets.
    let is_key = |kind: u8| matches!(kind, 16..=23 | 32..=34);
    let kind = |head: u8| head >> 1 & 63;
    let (head, rest) = payload.split_first_chunk::<2>()?;
    let (kind_of_packet, rest) = match kind(head[0]) {
        50 => {
            // PACI (§4.4.4): the type and the length of the extension, then what is carried.
            let (fields, rest) = rest.split_first_chunk::<2>()?;
            let extension = usize::from(u16::from_be_bytes(*fields) >> 4 & 31);
            (kind(fields[0]), rest.get(extension..)?)
        }
        other => (other, rest),
    };
    match kind_of_packet {
        48 => any_unit(rest, 0, |unit| unit.first().is_some_and(|head| is_key(kind(*head)))),
        49 => Some(is_key(*rest.first()? & 63)),
        single => Some(is_key(single)),
    }
}

/// Whether any of the units behind each other is one: each has its size in front of it, and `between` bytes behind the size.
fn any_unit(mut units: &[u8], between: usize, is_one: impl Fn(&[u8]) -> bool) -> Option<bool> {
    while let Some((size, rest)) = units.split_first_chunk::<2>() {
        let unit = rest.get(between..)?.get(..usize::from(u16::from_be_bytes(*size)))?;
        if is_one(unit) {
            return Some(true);
        }
        units = &rest[between + unit.len()..];
    }
    Some(false)
}

/// RFC 7741 §4.2 and §4.3.
fn vp8(payload: &[u8]) -> Begins {
    let begins = || {
        let (head, mut rest) = payload.split_first()?;
        if head & 0x80 != 0 {
            let (has, after) = rest.split_first()?;
            rest = after;
            if has & 0x80 != 0 {
                rest = rest.get(if rest.first()? & 0x80 != 0 { 2 } else { 1 }..)?;
            }
            let others = usize::from(has & 0x40 != 0) + usize::from(has & 0x30 != 0);
            rest = rest.get(others..)?;
        }
        // The head of the frame is in the first packet of its first partition.
        if head & 0x17 != 0x10 {
            return None;
        }
        Some(if rest.first()? & 1 == 0 { Begins::Key } else { Begins::Other })
    };
    begins().unwrap_or(Begins::Nothing)
}

/// AV1 §4.4: the aggregation header. N: a coded video sequence begins, and it begins with a key frame; Z then is 0.
fn av1(payload: &[u8]) -> Begins {
    match payload.first() {
        Some(head) if head & 0x88 == 0x08 => Begins::Key,
        _ => Begins::Nothing,
    }
}

#[cfg(test)]
mod tests;
