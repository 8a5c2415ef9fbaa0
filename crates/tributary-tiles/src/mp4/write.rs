//! Writes segments: `ftyp` and `moov` once per representation, `moof` and `mdat` once per GoP.

use thiserror::Error;

use super::boxes::{put, put_full};
use crate::gop::units;
use crate::rate::FrameRate;

const SEQUENCE_PARAMETERS: u8 = 7;
const PICTURE_PARAMETERS: u8 = 8;
const IDR_SLICE: u8 = 5;
const NON_IDR_SLICE: u8 = 1;
/// `sample_flags` (ISO/IEC 14496-12 §8.8.3.1): depends on no other picture, and others depend on it.
pub(super) const SYNC: u32 = 0x0200_0000;
/// Depends on other pictures, so decoding cannot begin at it.
const DEPENDENT: u32 = 0x0101_0000;
const UNITY: [u32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

/// The parameter sets of an H.264 stream, without start codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// The sequence parameter set.
    pub sequence: Vec<u8>,
    /// The picture parameter set.
    pub picture: Vec<u8>,
}

/// The stream cannot be put into segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the encoder's stream has no {0}")]
pub struct InitError(&'static str);

impl Parameters {
    /// Finds the parameter sets in a byte stream.
    ///
    /// # Errors
    /// There are no parameter sets, or an MP4 file cannot hold them.
    pub fn of(stream: &[u8]) -> Result<Self, InitError> {
        let first = |kind: u8| {
            units(stream)
                .find(|u| u[0] & 0x1f == kind && u.len() <= usize::from(u16::MAX))
                .map(<[u8]>::to_vec)
        };
        let sequence = first(SEQUENCE_PARAMETERS).filter(|s| s.len() >= 4);
        let sequence = sequence.ok_or(InitError("sequence parameters"))?;
        let picture = first(PICTURE_PARAMETERS).ok_or(InitError("picture parameters"))?;
        Ok(Self { sequence, picture })
    }

    /// The codec's name in an MPD (RFC 6381 §3.3), such as `avc1.64000d`.
    #[must_use]
    pub fn codec(&self) -> String {
        self.sequence[1..4].iter().fold("avc1.".to_owned(), |name, byte| format!("{name}{byte:02x}"))
    }
}

/// The time scale of a representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Ticks per second.
    pub timescale: u32,
    /// Ticks per picture.
    pub picture: u32,
}

impl Timing {
    /// A time scale fine enough for players, in which a picture lasts a whole number of ticks.
    #[must_use]
    pub fn of(rate: FrameRate) -> Self {
        let finer = (10_000 / rate.numerator()).max(1);
        Self { timescale: rate.numerator() * finer, picture: rate.denominator() * finer }
    }
}

/// The initialisation segment of a track of `width` × `height` pixels.
#[must_use]
pub fn init_segment(parameters: &Parameters, (width, height): (u16, u16), timing: Timing) -> Vec<u8> {
    initialisation(&Track {
        timescale: timing.timescale,
        sample: (timing.picture, DEPENDENT),
        volume: 0,
        size: (width, height),
        skipped: 0,
        handler: b"vide\0\0\0\0\0\0\0\0\0\0\0\0video\0",
        media_header: &|b| put_full(b, b"vmhd", (0, 1), |b| words(b, &[0, 0])),
        entry: &|b| put(b, b"avc1", |b| sample_entry(b, parameters, (width, height))),
    })
}

/// What differs between the tracks of pictures and of sound.
pub(super) struct Track<'a> {
    /// Ticks per second.
    pub(super) timescale: u32,
    /// Default duration in ticks, and flags, of a sample.
    pub(super) sample: (u32, u32),
    /// 16 bits with eight behind the point.
    pub(super) volume: u32,
    /// Width and height of the pictures.
    pub(super) size: (u16, u16),
    /// Ticks at the beginning that are decoded and not presented.
    pub(super) skipped: u32,
    /// `hdlr` behind its first four bytes.
    pub(super) handler: &'a [u8],
    /// Writes `vmhd` or `smhd`.
    pub(super) media_header: &'a dyn Fn(&mut Vec<u8>),
    /// Writes the sample entry.
    pub(super) entry: &'a dyn Fn(&mut Vec<u8>),
}

/// The initialisation segment of a track.
pub(super) fn initialisation(of: &Track<'_>) -> Vec<u8> {
    let mut file = Vec::with_capacity(700);
    put(&mut file, b"ftyp", |b| {
        b.extend(b"iso6\0\0\0\0iso6dashmp41");
    });
    put(&mut file, b"moov", |b| {
        put_full(b, b"mvhd", (0, 0), |b| {
            words(b, &[0, 0, of.timescale, 0, 0x1_0000, 0x0100_0000, 0, 0]);
            words(b, &UNITY);
            // Six zero words, and the next track's number.
            words(b, &[0, 0, 0, 0, 0, 0, 2]);
        });
        put(b, b"trak", |b| track(b, of));
        put(b, b"mvex", |b| {
            let (duration, flags) = of.sample;
            put_full(b, b"trex", (0, 0), |b| words(b, &[1, 1, duration, 0, flags]));
        });
    });
    file
}

fn track(b: &mut Vec<u8>, of: &Track<'_>) {
    // Flags: enabled, in the movie.
    put_full(b, b"tkhd", (0, 3), |b| {
        words(b, &[0, 0, 1, 0, 0, 0, 0, 0, of.volume << 16]);
        words(b, &UNITY);
        words(b, &[u32::from(of.size.0) << 16, u32::from(of.size.1) << 16]);
    });
    if of.skipped > 0 {
        put(b, b"edts", |b| {
            // One edit: all of the track from this time on, at its own rate.
            put_full(b, b"elst", (0, 0), |b| words(b, &[1, 0, of.skipped, 0x1_0000]));
        });
    }
    put(b, b"mdia", |b| {
        // Language `und`.
        put_full(b, b"mdhd", (0, 0), |b| words(b, &[0, 0, of.timescale, 0, 0x55c4_0000]));
        put_full(b, b"hdlr", (0, 0), |b| {
            b.extend([0; 4]);
            b.extend(of.handler);
        });
        put(b, b"minf", |b| {
            (of.media_header)(b);
            put(b, b"dinf", |b| {
                put_full(b, b"dref", (0, 0), |b| {
                    words(b, &[1]);
                    // Flag: the media is in this file.
                    put_full(b, b"url ", (0, 1), |_| {});
                });
            });
            put(b, b"stbl", |b| {
                put_full(b, b"stsd", (0, 0), |b| {
                    words(b, &[1]);
                    (of.entry)(b);
                });
                for table in [b"stts", b"stsc", b"stco"] {
                    put_full(b, table, (0, 0), |b| words(b, &[0]));
                }
                put_full(b, b"stsz", (0, 0), |b| words(b, &[0, 0]));
            });
        });
    });
}

fn sample_entry(b: &mut Vec<u8>, parameters: &Parameters, (width, height): (u16, u16)) {
    // Reserved, data reference 1, sixteen zero bytes.
    words(b, &[0, 1, 0, 0, 0, 0]);
    words(b, &[u32::from(width) << 16 | u32::from(height), 0x48_0000, 0x48_0000, 0]);
    // One picture per sample, no name, 24 bits deep, -1.
    b.extend([0, 1]);
    b.extend([0; 32]);
    b.extend([0, 0x18, 0xff, 0xff]);
    put(b, b"avcC", |b| {
        let Parameters { sequence, picture } = parameters;
        // ISO/IEC 14496-15 §5.3.3.1: version, profile, compatibility, level, lengths of four bytes, one set.
        b.extend([1, sequence[1], sequence[2], sequence[3], 0xff, 0xe1]);
        b.extend((sequence.len() as u16).to_be_bytes());
        b.extend(sequence);
        b.push(1);
        b.extend((picture.len() as u16).to_be_bytes());
        b.extend(picture);
        if !matches!(sequence[1], 66 | 77 | 88) {
            // High profiles: 4:2:0, eight bits of luma and chroma, no extensions.
            b.extend([0xfd, 0xf8, 0xf8, 0]);
        }
    });
}

/// The media segment of a GoP: `number` counts from 1, `before` is the number of pictures before it.
///
/// Only slices of `stream` are kept: parameters are in the initialisation segment, and players do not need
/// the encoder's description of itself.
///
/// # Errors
/// There is no picture in the stream, or the first does not decode independently.
pub fn media_segment(
    stream: &[u8],
    (number, before): (u32, u64),
    timing: Timing,
) -> Result<Vec<u8>, InitError> {
    let mut data = Vec::with_capacity(stream.len());
    let mut sizes: Vec<u32> = Vec::new();
    for unit in units(stream).filter(|u| matches!(u[0] & 0x1f, IDR_SLICE | NON_IDR_SLICE)) {
        // first_mb_in_slice is ue(v): its first bit is set exactly when it is 0, a new picture.
        if unit.get(1).is_some_and(|b| b & 0x80 != 0) {
            if sizes.is_empty() && unit[0] & 0x1f != IDR_SLICE {
                return Err(InitError("picture at its beginning that decodes by itself"));
            }
            sizes.push(0);
        }
        let size = sizes.last_mut().ok_or(InitError("beginning of a picture"))?;
        *size += unit.len() as u32 + 4;
        data.extend((unit.len() as u32).to_be_bytes());
        data.extend(unit);
    }
    if sizes.is_empty() {
        return Err(InitError("picture"));
    }
    Ok(fragment((number, before * u64::from(timing.picture)), &sizes, &data))
}

/// One `moof` and one `mdat` with samples of these sizes, the first of which begins at `time`, in ticks.
pub(super) fn fragment((number, time): (u32, u64), sizes: &[u32], data: &[u8]) -> Vec<u8> {
    let mut segment = Vec::with_capacity(data.len() + 4 * sizes.len() + 128);
    put(&mut segment, b"moof", |b| {
        put_full(b, b"mfhd", (0, 0), |b| words(b, &[number]));
        put(b, b"traf", |b| {
            // Flag: offsets are relative to the beginning of `moof`.
            put_full(b, b"tfhd", (0, 0x2_0000), |b| words(b, &[1]));
            put_full(b, b"tfdt", (1, 0), |b| b.extend(time.to_be_bytes()));
            // Flags: data offset, flags of the first sample, sizes.
            put_full(b, b"trun", (0, 0x205), |b| {
                let count = sizes.len() as u32;
                // moof 8, mfhd 16, traf 8, tfhd 16, tfdt 20, trun 24 and its sizes, mdat's own 8.
                words(b, &[count, 92 + 4 * count + 8, SYNC]);
                words(b, sizes);
            });
        });
    });
    put(&mut segment, b"mdat", |b| b.extend(data));
    segment
}

pub(super) fn words(into: &mut Vec<u8>, words: &[u32]) {
    into.extend(words.iter().flat_map(|word| word.to_be_bytes()));
}
