//! The workload protocol: fixed headers of 32 bytes, big-endian, each followed by the bytes it announces.
//!
//! | offset | request | answer |
//! |---|---|---|
//! | 0 | `TRBQ` | `TRBA` |
//! | 4 | version, 1 | version, 1 |
//! | 5 | kind | kind of the request |
//! | 6 | zero, 16 bits | status, 16 bits |
//! | 8 | first argument, 64 bits | length of what follows in bytes; for a live start the GoP duration in µs |
//! | 16 | second argument | for a GoP its age in µs; for a live start the number of representations |
//! | 24 | zero | for a GoP its index |
//!
//! A live start is followed by one 64-bit bitrate per representation. A bulk answer has no length: it ends
//! with the stream. The byte stream below provides order and reliability.

use thiserror::Error;

/// Size of every header in bytes.
pub const HEADER: usize = 32;
/// The longest bulk transfer that a server grants, in milliseconds.
pub const MAX_BULK_MILLIS: u64 = 3_600_000;
/// The largest object that a server grants, and the largest GoP that a client accepts, in bytes.
pub const MAX_OBJECT: u64 = 1 << 30;
/// The largest number of representations in a live start.
pub const MAX_REPRESENTATIONS: u64 = 64;

const VERSION: u8 = 1;

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Bytes as fast as possible for this many milliseconds, then the end of the stream.
    Bulk {
        /// Duration, in milliseconds.
        millis: u64,
    },
    /// An object.
    Object {
        /// Size in bytes.
        size: u64,
    },
    /// The start of a live stream: GoP 0 is complete at once, and one more after every GoP duration.
    LiveStart,
    /// One GoP, sent when it has been produced.
    Gop {
        /// Number of the GoP from the live start, from zero.
        index: u64,
        /// Index of the representation.
        representation: u64,
    },
}

/// Whether the server grants a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The bytes follow.
    Granted,
    /// The request is beyond a limit or out of order.
    Refused,
    /// This server has no video.
    NoVideo,
}

/// A server's answer; the meaning of its numbers depends on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the bytes follow.
    pub status: Status,
    /// Length in bytes, or the GoP duration in microseconds.
    pub first: u64,
    /// Age in microseconds, or the number of representations.
    pub second: u64,
    /// Index of the GoP.
    pub third: u64,
}

/// Why a header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// Not a header of this protocol.
    #[error("these bytes are not a header of the workload protocol")]
    Magic,
    /// Another version.
    #[error("the peer speaks version {0} of the workload protocol, this program version {VERSION}")]
    Version(u8),
    /// Unknown kind.
    #[error("unknown request kind {0}")]
    Kind(u8),
    /// Unknown status.
    #[error("unknown answer status {0}")]
    Status(u16),
}

fn header(magic: [u8; 4], kind: u8, short: u16, words: [u64; 3]) -> [u8; HEADER] {
    let mut out = [0; HEADER];
    out[..4].copy_from_slice(&magic);
    (out[4], out[5]) = (VERSION, kind);
    out[6..8].copy_from_slice(&short.to_be_bytes());
    for (place, word) in out[8..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    out
}

fn parse(bytes: &[u8; HEADER], magic: [u8; 4]) -> Result<(u8, u16, [u64; 3]), WireError> {
    let [m0, m1, m2, m3, version, kind, s0, s1, words @ ..] = *bytes;
    if [m0, m1, m2, m3] != magic {
        return Err(WireError::Magic);
    }
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    let word = |i: usize| words[8 * i..8 * i + 8].iter().fold(0_u64, |w, b| w << 8 | u64::from(*b));
    Ok((kind, u16::from_be_bytes([s0, s1]), [word(0), word(1), word(2)]))
}

impl Request {
    /// The header of this request.
    #[must_use]
    pub fn encode(self) -> [u8; HEADER] {
        let (kind, first, second) = match self {
            Self::Bulk { millis } => (1, millis, 0),
            Self::Object { size } => (2, size, 0),
            Self::LiveStart => (3, 0, 0),
            Self::Gop { index, representation } => (4, index, representation),
        };
        header(*b"TRBQ", kind, 0, [first, second, 0])
    }

    /// The request in a header.
    ///
    /// # Errors
    /// When the bytes are not a request of this version.
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Self, WireError> {
        let (kind, _, [first, second, _]) = parse(bytes, *b"TRBQ")?;
        match kind {
            1 => Ok(Self::Bulk { millis: first }),
            2 => Ok(Self::Object { size: first }),
            3 => Ok(Self::LiveStart),
            4 => Ok(Self::Gop { index: first, representation: second }),
            other => Err(WireError::Kind(other)),
        }
    }
}

impl Answer {
    /// A granted answer with these numbers.
    #[must_use]
    pub fn granted(first: u64, second: u64, third: u64) -> Self {
        Self { status: Status::Granted, first, second, third }
    }

    /// An answer without a body.
    #[must_use]
    pub fn denied(status: Status) -> Self {
        Self { status, first: 0, second: 0, third: 0 }
    }

    /// The header of this answer.
    #[must_use]
    pub fn encode(self) -> [u8; HEADER] {
        let status = match self.status {
            Status::Granted => 0,
            Status::Refused => 1,
            Status::NoVideo => 2,
        };
        header(*b"TRBA", 0, status, [self.first, self.second, self.third])
    }

    /// The answer in a header.
    ///
    /// # Errors
    /// When the bytes are not an answer of this version.
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Self, WireError> {
        let (_, status, [first, second, third]) = parse(bytes, *b"TRBA")?;
        let status = match status {
            0 => Status::Granted,
            1 => Status::Refused,
            2 => Status::NoVideo,
            other => return Err(WireError::Status(other)),
        };
        Ok(Self { status, first, second, third })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        for request in [
            Request::Bulk { millis: 20_000 },
            Request::Object { size: 102_400 },
            Request::LiveStart,
            Request::Gop { index: u64::MAX, representation: 7 },
        ] {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
        for status in [Status::Granted, Status::Refused, Status::NoVideo] {
            let answer = Answer { status, first: 1, second: u64::MAX, third: 3 };
            assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }
    }

    #[test]
    fn every_single_byte_change_gives_an_error_or_another_header() {
        let good = Request::Gop { index: 1, representation: 2 }.encode();
        for place in 0..HEADER {
            for value in 0..=255 {
                let mut bytes = good;
                bytes[place] = value;
                let _ = (Request::decode(&bytes), Answer::decode(&bytes));
            }
        }
        assert_eq!(Request::decode(&[0; HEADER]), Err(WireError::Magic));
        let mut newer = good;
        newer[4] = 9;
        assert_eq!(Request::decode(&newer), Err(WireError::Version(9)));
    }
}
