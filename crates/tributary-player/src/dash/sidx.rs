//! The segment index box: byte ranges and durations of a file's media segments. Source: ISO/IEC 14496-12 §8.16.3.

use core::time::Duration;

use thiserror::Error;

use super::mpd::{ByteRange, Span};

/// Largest number of boxes skipped before the index.
const MAX_BOXES: usize = 64;

/// Why a segment index cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SidxError {
    /// The data contains no index.
    #[error("no `sidx` box in the bytes of the index range")]
    Missing,
    /// The data ends early: `indexRange` is too short, or the file is damaged.
    #[error("the segment index ends after {0} bytes; the MPD's indexRange or the file is damaged")]
    Truncated(usize),
    /// Its timescale is zero.
    #[error("the segment index has a timescale of 0")]
    Timescale,
    /// It refers to further indexes.
    #[error("entry {0} of the segment index points to another index; only one level is supported")]
    Nested(usize),
    /// Offsets or times do not fit 64 bits, or a segment is empty.
    #[error("entry {0} of the segment index is empty or beyond 64 bits")]
    Range(usize),
}

/// A media segment of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its byte range.
    pub range: ByteRange,
    /// When it plays, counted from the first segment of the index.
    pub span: Span,
}

/// A segment index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Media time of the first segment.
    pub earliest: Duration,
    /// The segments.
    pub entries: Vec<Entry>,
}

/// Reads the index from `bytes`, which were fetched from `offset` of the file.
///
/// # Errors
/// [`SidxError`].
pub fn read(bytes: &[u8], offset: u64) -> Result<Index, SidxError> {
    let mut input = Input { bytes, at: 0 };
    for _ in 0..MAX_BOXES {
        if input.at == bytes.len() {
            break;
        }
        let begin = input.at;
        let mut size = u64::from(input.u32()?);
        let kind = input.u32()?;
        if size == 1 {
            size = input.u64()?;
        }
        let to_end = size == 0;
        let end = if to_end { bytes.len() as u64 } else { (begin as u64).saturating_add(size) };
        if kind == u32::from_be_bytes(*b"sidx") {
            let after = offset.checked_add(end).ok_or(SidxError::Range(0))?;
            return index(&mut input, after);
        }
        input.at = usize::try_from(end)
            .ok()
            .filter(|end| (input.at..=bytes.len()).contains(end))
            .ok_or(SidxError::Missing)?;
    }
    Err(SidxError::Missing)
}

/// Reads the box after its header; `after` is the file offset of the first byte after the box.
fn index(input: &mut Input<'_>, after: u64) -> Result<Index, SidxError> {
    let version = input.u32()? >> 24;
    input.u32()?; // reference_ID
    let timescale = u128::from(input.u32()?);
    if timescale == 0 {
        return Err(SidxError::Timescale);
    }
    let (earliest, first) = if version == 0 {
        (u64::from(input.u32()?), u64::from(input.u32()?))
    } else {
        (input.u64()?, input.u64()?)
    };
    let count = usize::from((input.u32()? & 0xffff) as u16);
    let mut at = after.checked_add(first).ok_or(SidxError::Range(0))?;
    let mut units = 0_u128;
    let time = |units: u128| {
        Duration::from_nanos(u64::try_from(units * 1_000_000_000 / timescale).unwrap_or(u64::MAX))
    };
    let mut entries = Vec::with_capacity(count.min(input.bytes.len() / 12));
    for entry in 0..count {
        let reference = input.u32()?;
        let duration = u128::from(input.u32()?);
        input.u32()?; // stream access point
        if reference >> 31 == 1 {
            return Err(SidxError::Nested(entry));
        }
        let size = u64::from(reference);
        let end = at.checked_add(size).filter(|_| size > 0).ok_or(SidxError::Range(entry))?;
        let start = time(units);
        units += duration;
        entries.push(Entry {
            range: ByteRange { first: at, last: Some(end - 1) },
            span: Span { start, duration: time(units) - start },
        });
        at = end;
    }
    Ok(Index { earliest: time(u128::from(earliest)), entries })
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn u32(&mut self) -> Result<u32, SidxError> {
        let four = self.bytes.get(self.at..self.at + 4).ok_or(SidxError::Truncated(self.bytes.len()))?;
        self.at += 4;
        Ok(u32::from_be_bytes(four.try_into().expect("four bytes were taken")))
    }

    fn u64(&mut self) -> Result<u64, SidxError> {
        Ok(u64::from(self.u32()?) << 32 | u64::from(self.u32()?))
    }
}

#[cfg(test)]
mod tests;
