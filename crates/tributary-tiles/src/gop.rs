//! Splits H.264 byte streams (ITU-T H.264 Annex B) into GoPs that decode independently.
//!
//! Annex B, not MPEG-TS or fragmented MP4: GoPs can be separated without a container, have no multiplexing
//! overhead that would distort their bitrate, and can be concatenated to a playable file. Does not decode:
//! NAL unit types and the first bit of slice headers are enough.

use core::ops::Range;

const NON_IDR_SLICE: u8 = 1;
const IDR_SLICE: u8 = 5;
const SEQUENCE_PARAMETERS: u8 = 7;
const PICTURE_PARAMETERS: u8 = 8;
const DELIMITER: u8 = 9;
const FILLER: u8 = 12;

/// One GoP found in a byte stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gop {
    /// Its bytes in the stream.
    pub bytes: Range<usize>,
    /// Number of its pictures.
    pub pictures: u32,
    /// Bytes of filler data, which pad a simple scene to a constant bitrate.
    pub filler: usize,
    /// Whether it begins with sequence and picture parameters and an IDR picture, so that it decodes without
    /// earlier data.
    pub closed: bool,
}

/// The start codes in `stream`: where each begins, and where its NAL unit begins.
fn start_codes(stream: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    core::iter::from_fn(move || {
        while at + 3 < stream.len() {
            // The third byte decides how far to advance: a value above 1 cannot be part of a start code.
            match stream[at + 2] {
                0 => at += 1,
                1 if stream[at] == 0 && stream[at + 1] == 0 => {
                    let code = if at > 0 && stream[at - 1] == 0 { at - 1 } else { at };
                    at += 3;
                    return Some((code, at));
                }
                _ => at += 3,
            }
        }
        None
    })
}

/// The NAL units in `stream`, without start codes; none is empty.
pub fn units(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut codes = start_codes(stream).peekable();
    core::iter::from_fn(move || {
        let (_, unit) = codes.next()?;
        let end = codes.peek().map_or(stream.len(), |(next, _)| *next);
        // Zeros after a unit are not part of it (ITU-T H.264 B.1.1); no unit ends with a zero.
        let kept = stream[unit..end].iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
        Some(&stream[unit..unit + kept])
    })
}

/// Splits `stream` at its sequence parameters. Bytes before the first are not part of any GoP.
#[must_use]
pub fn split(stream: &[u8]) -> Vec<Gop> {
    let mut gops: Vec<Gop> = Vec::new();
    let mut delimiter: Option<usize> = None;
    let (mut parameters, mut pending_filler) = (false, None::<usize>);
    for (code, unit) in start_codes(stream) {
        if let (Some(from), Some(gop)) = (pending_filler.take(), gops.last_mut()) {
            gop.filler += code - from;
        }
        let kind = stream[unit] & 0x1f;
        if kind == SEQUENCE_PARAMETERS {
            let begin = delimiter.unwrap_or(code);
            if let Some(last) = gops.last_mut() {
                last.bytes.end = begin;
            }
            gops.push(Gop { bytes: begin..stream.len(), ..Gop::default() });
            parameters = false;
        }
        delimiter = (kind == DELIMITER).then_some(code);
        let Some(gop) = gops.last_mut() else { continue };
        match kind {
            PICTURE_PARAMETERS => parameters = true,
            FILLER => pending_filler = Some(code),
            // first_mb_in_slice is ue(v): its first bit is set exactly when it is 0, a new picture.
            IDR_SLICE | NON_IDR_SLICE if stream.get(unit + 1).is_some_and(|b| b & 0x80 != 0) => {
                if gop.pictures == 0 {
                    gop.closed = kind == IDR_SLICE && parameters;
                }
                gop.pictures += 1;
            }
            _ => {}
        }
    }
    if let (Some(from), Some(gop)) = (pending_filler, gops.last_mut()) {
        gop.filler += stream.len() - from;
    }
    gops
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(units: &[(u8, &[u8])]) -> Vec<u8> {
        units.iter().flat_map(|(kind, rest)| [&[0, 0, 0, 1, *kind | 0x60], *rest].concat()).collect()
    }

    const FIRST: &[u8] = &[0x80, 9, 9];
    const LATER: &[u8] = &[0x40, 9, 9];

    #[test]
    fn two_gops_with_filler_and_slices() {
        let first =
            stream(&[(7, &[1]), (8, &[2]), (5, FIRST), (5, LATER), (1, FIRST), (12, &[255, 255, 0x80])]);
        let second = stream(&[(9, &[3]), (7, &[1]), (8, &[2]), (5, FIRST)]);
        let gops = split(&[first.clone(), second.clone()].concat());
        let expected = [
            Gop { bytes: 0..first.len(), pictures: 2, filler: 8, closed: true },
            Gop { bytes: first.len()..first.len() + second.len(), pictures: 1, filler: 0, closed: true },
        ];
        assert_eq!(gops, expected);
    }

    #[test]
    fn a_gop_that_opens_without_idr_or_parameters_is_not_closed() {
        assert!(!split(&stream(&[(7, &[1]), (8, &[2]), (1, FIRST), (5, FIRST)]))[0].closed);
        assert!(!split(&stream(&[(7, &[1]), (5, FIRST)]))[0].closed);
    }

    #[test]
    fn units_come_without_codes_and_padding() {
        let padded = [&stream(&[(7, &[1]), (5, FIRST)])[..], &[0, 0, 0, 0, 1, 0x41, 3]].concat();
        let found: Vec<&[u8]> = units(&padded).collect();
        assert_eq!(found, [&[0x67, 1][..], &[0x65, 0x80, 9, 9], &[0x41, 3]]);
        assert_eq!(units(&[0, 0, 1, 0, 0, 0, 0, 0, 1, 7]).collect::<Vec<_>>(), [&[0][..], &[7]]);
    }

    #[test]
    fn garbage_and_every_truncation_are_harmless() {
        assert!(split(&[0; 100]).is_empty());
        assert!(split(b"not a video at all").is_empty());
        let whole = stream(&[(7, &[1]), (8, &[2]), (5, FIRST), (12, &[255])]);
        for length in 0..whole.len() {
            let gops = split(&whole[..length]);
            assert!(gops.iter().all(|g| g.bytes.end <= length && g.filler <= length));
        }
    }
}
