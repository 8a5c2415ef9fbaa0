//! Reads segments made by this crate, or similar ones, back into a byte stream.

use thiserror::Error;

use super::boxes::walk;

/// Fixed fields of an `avc1` sample entry before its boxes (ISO/IEC 14496-12 §12.1.3), bytes.
const SAMPLE_ENTRY: usize = 78;
const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// Why bytes are not a segment of H.264.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Mp4Error {
    /// A box extends beyond its parent.
    #[error("a box is cut short")]
    Box,
    /// A required box is missing.
    #[error("there is no `{0}` box")]
    Missing(&'static str),
    /// The parameters of the stream cannot be read.
    #[error("the decoder's configuration (`avcC`) is cut short")]
    Configuration,
    /// A NAL unit is longer than the remaining bytes.
    #[error("a unit of the stream is cut short")]
    Unit,
}

/// The byte stream (ITU-T H.264 Annex B) of a media segment, with its parameters in front, so that it decodes
/// alone.
///
/// # Errors
/// `init` or `segment` is not valid.
pub fn to_annex_b(init: &[u8], segment: &[u8]) -> Result<Vec<u8>, Mp4Error> {
    let (length, mut stream) = configuration(init)?;
    let mut any = false;
    for found in walk(segment) {
        let (kind, mut units) = found.ok_or(Mp4Error::Box)?;
        if &kind != b"mdat" {
            continue;
        }
        any = true;
        while !units.is_empty() {
            let (size, rest) = units.split_at_checked(length).ok_or(Mp4Error::Unit)?;
            let size = size.iter().fold(0usize, |size, byte| size << 8 | usize::from(*byte));
            let (unit, rest) = rest.split_at_checked(size).ok_or(Mp4Error::Unit)?;
            stream.extend(START_CODE);
            stream.extend(unit);
            units = rest;
        }
    }
    if any { Ok(stream) } else { Err(Mp4Error::Missing("mdat")) }
}

/// Width and height of the pictures that `init` announces, pixels.
///
/// # Errors
/// `init` is not valid.
pub fn picture_size(init: &[u8]) -> Result<(u16, u16), Mp4Error> {
    // After reserved bytes, the data reference and sixteen zero bytes.
    let sides = sample_entry(init)?.get(24..28).ok_or(Mp4Error::Box)?;
    Ok((u16::from_be_bytes([sides[0], sides[1]]), u16::from_be_bytes([sides[2], sides[3]])))
}

fn sample_entry(init: &[u8]) -> Result<&[u8], Mp4Error> {
    let mut content = init;
    for name in ["moov", "trak", "mdia", "minf", "stbl", "stsd"] {
        content = child(content, name)?;
    }
    // Version, flags, number of entries.
    child(content.get(8..).ok_or(Mp4Error::Box)?, "avc1")
}

/// Size of the NAL units' length fields in bytes, and the parameter sets as a byte stream.
fn configuration(init: &[u8]) -> Result<(usize, Vec<u8>), Mp4Error> {
    let boxes = sample_entry(init)?.get(SAMPLE_ENTRY..).ok_or(Mp4Error::Box)?;
    let (fixed, mut sets) = child(boxes, "avcC")?.split_at_checked(5).ok_or(Mp4Error::Configuration)?;
    let length = usize::from(fixed[4] & 3) + 1;
    let mut stream = Vec::new();
    for mask in [0x1f, 0xff] {
        let (count, rest) = sets.split_first().ok_or(Mp4Error::Configuration)?;
        sets = rest;
        for _ in 0..count & mask {
            let (size, rest) = sets.split_first_chunk::<2>().ok_or(Mp4Error::Configuration)?;
            let size = usize::from(u16::from_be_bytes(*size));
            let (set, rest) = rest.split_at_checked(size).ok_or(Mp4Error::Configuration)?;
            stream.extend(START_CODE);
            stream.extend(set);
            sets = rest;
        }
    }
    Ok((length, stream))
}

fn child<'a>(bytes: &'a [u8], name: &'static str) -> Result<&'a [u8], Mp4Error> {
    for found in walk(bytes) {
        let (kind, content) = found.ok_or(Mp4Error::Box)?;
        if kind == name.as_bytes() {
            return Ok(content);
        }
    }
    Err(Mp4Error::Missing(name))
}
