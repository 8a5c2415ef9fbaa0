//! The encoder's fragmented MP4 files: position of the header, the segment index and the segments. Source:
//! ISO/IEC 14496-12 §8 and ISO/IEC 14496-15 §5.3.3 (`avcC`).

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use thiserror::Error;
use tributary_player::dash::mpd::ByteRange;
use tributary_player::dash::sidx::{self, Entry, SidxError};

/// Largest header; a larger one is an error.
const HEADER: u64 = 4 << 20;

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub(super) enum Mp4Error {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error("{0}")]
    Index(SidxError),
    #[error("no `{0}` box in its header")]
    Missing(&'static str),
}

/// The layout of one representation's file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Made {
    /// RFC 6381 codec string.
    pub(super) codecs: String,
    /// `ftyp` and `moov`.
    pub(super) initialization: ByteRange,
    /// `sidx`.
    pub(super) index: ByteRange,
    /// The segments.
    pub(super) entries: Vec<Entry>,
}

/// Reads a file's header.
pub(super) fn read(path: &Path) -> Result<Made, Mp4Error> {
    let mut header = Vec::new();
    File::open(path)?.take(HEADER).read_to_end(&mut header)?;
    header_of(&header)
}

/// Removes rotation and mirrors from the display matrix of the only track (ISO/IEC 14496-12 §8.3.2). Its pictures are
/// upright, but some versions of ffmpeg copy the source's matrix.
pub(super) fn set_upright(path: &Path) -> Result<(), Mp4Error> {
    let file = File::options().read(true).write(true).open(path)?;
    let mut header = Vec::new();
    (&file).take(HEADER).read_to_end(&mut header)?;
    let at = header.windows(4).position(|name| name == b"tkhd").ok_or(Mp4Error::Missing("tkhd"))?;
    // Version 1 has three times of 64 bits before the matrix.
    let matrix = at + if header.get(at + 4) == Some(&1) { 56 } else { 44 };
    if matrix + 36 > header.len() {
        return Err(Mp4Error::Missing("tkhd"));
    }
    let upright = [1_u32 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30].map(u32::to_be_bytes).concat();
    Ok(file.write_all_at(&upright, matrix as u64)?)
}

/// The layout that a header describes.
pub(super) fn header_of(header: &[u8]) -> Result<Made, Mp4Error> {
    let (mut at, mut moov) = (0, None);
    while let Some(start) = header.get(at..at + 8) {
        let size = u32::from_be_bytes([start[0], start[1], start[2], start[3]]) as usize;
        let end = at.checked_add(size).filter(|end| size >= 8 && *end <= header.len());
        let Some(end) = end else { break };
        match &start[4..] {
            b"moov" => moov = Some(end),
            b"sidx" => {
                let moov = moov.ok_or(Mp4Error::Missing("moov"))?;
                let range =
                    |first: usize, end: usize| ByteRange { first: first as u64, last: Some(end as u64 - 1) };
                return Ok(Made {
                    codecs: codecs(&header[..moov]).ok_or(Mp4Error::Missing("avcC"))?,
                    initialization: range(0, moov),
                    index: range(at, end),
                    entries: sidx::read(&header[at..end], at as u64).map_err(Mp4Error::Index)?.entries,
                });
            }
            _ => {}
        }
        at = end;
    }
    Err(Mp4Error::Missing("sidx"))
}

/// `avc1.` with profile, constraints and level from the decoder configuration.
fn codecs(header: &[u8]) -> Option<String> {
    let at = header.windows(4).position(|name| name == b"avcC")?;
    let [_, profile, constraints, level] = header.get(at + 4..at + 8)? else { return None };
    Some(format!("avc1.{profile:02x}{constraints:02x}{level:02x}"))
}

/// Splits `N.mp4` into the directory `N` (`init.mp4`, `1.m4s`, `2.m4s`, …) and removes the file.
pub(super) fn cut(path: &Path, made: &Made) -> io::Result<()> {
    let file = File::open(path)?;
    let directory = path.with_extension("");
    std::fs::create_dir(&directory)?;
    let part = |range: ByteRange, name: String| {
        let length = range.length().and_then(|length| usize::try_from(length).ok());
        let mut bytes = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
        file.read_exact_at(&mut bytes, range.first)?;
        std::fs::write(directory.join(name), bytes)
    };
    part(made.initialization, "init.mp4".to_owned())?;
    for (at, entry) in made.entries.iter().enumerate() {
        part(entry.range, format!("{}.m4s", at + 1))?;
    }
    std::fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_header_is_refused() {
        let boxed = |name: &[u8; 4], body: &[u8]| {
            let mut bytes = (body.len() as u32 + 8).to_be_bytes().to_vec();
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(body);
            bytes
        };
        let moov = boxed(b"moov", b"....avcC\x01\x64\x00\x1f");
        let short = boxed(b"sidx", &[0; 4]);
        for (bytes, expected) in [
            (Vec::new(), "no `sidx`"),
            (vec![0; 100], "no `sidx`"),
            (vec![0xff; 100], "no `sidx`"),
            (short.clone(), "no `moov`"),
            ([boxed(b"moov", b"nothing"), short.clone()].concat(), "no `avcC`"),
            ([moov, short].concat(), "ends after"),
        ] {
            let error = header_of(&bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
