//! What ffprobe does not tell of a container: cropping (`clap` of MP4, `PixelCrop…` of Matroska; ffmpeg before 7.1) and
//! meshes (`mshp`). Sources: ISO/IEC 14496-12 §12.1.4, RFC 9559 §5.1.4.1.28, Spherical Video V2.
//!
//! A file that is not understood has none of them.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Largest `moov` box, and largest part of a Matroska file before its tracks, that is read.
const MOST_BYTES: u64 = 64 << 20;
const MATROSKA_BYTES: u64 = 1 << 20;
/// Most boxes at the top of a file; a fragmented one has many, but `moov` before them.
const MOST_BOXES: usize = 10_000;
/// Length of a visual sample entry before its boxes (ISO/IEC 14496-12 §12.1.3).
const SAMPLE_ENTRY: usize = 78;

/// The part of the stored pictures that is to be shown: x, y, width, height; `None` for all of it.
pub(super) fn shown_part(path: &Path, stored: (usize, usize)) -> Option<[usize; 4]> {
    part_of(&mut File::open(path).ok()?, stored)
}

/// The same for a file that is open.
pub(super) fn part_of(file: &mut (impl Read + Seek), stored: (usize, usize)) -> Option<[usize; 4]> {
    let part = match sample_entry(file) {
        Some(entry) => clean_aperture(find(&entry, b"clap")?, stored)?,
        None => matroska_part(file, stored)?,
    };
    (part != [0, 0, stored.0, stored.1]).then_some(part)
}

/// Whether the first video track is projected onto a mesh.
pub(super) fn has_mesh(path: &Path) -> bool {
    File::open(path).is_ok_and(|mut file| shows_mesh(&mut file))
}

/// The same for a file that is open.
pub(super) fn shows_mesh(file: &mut (impl Read + Seek)) -> bool {
    let mesh = |entry: Vec<u8>| {
        let projection = find(find(&entry, b"sv3d")?, b"proj")?;
        find(projection, b"mshp").or_else(|| find(projection, b"ytmp")).map(drop)
    };
    sample_entry(file).and_then(mesh).is_some()
}

/// The boxes in the first video track's sample entry of an MP4 file.
fn sample_entry(file: &mut (impl Read + Seek)) -> Option<Vec<u8>> {
    let moov = moov(file)?;
    let track = boxes(&moov).filter(|(name, _)| name == b"trak").find_map(|(_, track)| {
        let media = find(track, b"mdia")?;
        // A handler box has version, flags and four bytes before its kind.
        (find(media, b"hdlr")?.get(8..12)? == b"vide").then_some(media)
    })?;
    let table = find(find(track, b"minf")?, b"stbl")?;
    // A sample description has version, flags and a count before its entries.
    let (_, entry) = boxes(find(table, b"stsd")?.get(8..)?).next()?;
    entry.get(SAMPLE_ENTRY..).map(<[u8]>::to_vec)
}

fn moov(file: &mut (impl Read + Seek)) -> Option<Vec<u8>> {
    let mut at = 0_u64;
    for number in 0..MOST_BOXES {
        file.seek(SeekFrom::Start(at)).ok()?;
        let mut head = [0; 16];
        file.read_exact(&mut head[..8]).ok()?;
        let name = [head[4], head[5], head[6], head[7]];
        if number == 0 && !matches!(&name, b"ftyp" | b"moov" | b"wide" | b"free" | b"skip" | b"mdat") {
            return None;
        }
        let mut size = u64::from(u32::from_be_bytes([head[0], head[1], head[2], head[3]]));
        let mut header = 8;
        if size == 1 {
            file.read_exact(&mut head[8..]).ok()?;
            size = u64::from_be_bytes(head[8..].try_into().ok()?);
            header = 16;
        }
        if &name == b"moov" {
            let length = size.checked_sub(header).filter(|length| *length <= MOST_BYTES)?;
            let mut moov = Vec::new();
            file.take(length).read_to_end(&mut moov).ok()?;
            return Some(moov);
        }
        at = at.checked_add(size.max(header)).filter(|_| size > 0)?;
    }
    None
}

/// The boxes in `bytes`, each with its name; stops at what is not a box.
fn boxes(mut bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let [a, b, c, d, name @ ..] = *head;
        let length = (u32::from_be_bytes([a, b, c, d]) as usize).checked_sub(8)?;
        let (body, after) = rest.split_at_checked(length)?;
        bytes = after;
        Some((name, body))
    })
}

fn find<'a>(bytes: &'a [u8], name: &[u8; 4]) -> Option<&'a [u8]> {
    boxes(bytes).find(|(found, _)| found == name).map(|(_, body)| body)
}

/// Width, height and the offset of the middle, each as a fraction.
fn clean_aperture(body: &[u8], stored: (usize, usize)) -> Option<[usize; 4]> {
    let number = |at: usize| Some(i32::from_be_bytes(body.get(at * 4..at * 4 + 4)?.try_into().ok()?));
    let fraction = |at: usize| Some(f64::from(number(2 * at)?) / f64::from(number(2 * at + 1)?));
    let [width, height, right, down] = [fraction(0)?, fraction(1)?, fraction(2)?, fraction(3)?];
    let start = |stored: usize, shown: f64, offset: f64| ((stored as f64 - shown) / 2.0 + offset).round();
    let part = [start(stored.0, width, right), start(stored.1, height, down), width.round(), height.round()];
    let inside = part.iter().all(|n| n.is_finite() && *n >= 0.0)
        && part[0] + part[2] <= stored.0 as f64
        && part[1] + part[3] <= stored.1 as f64;
    inside.then(|| part.map(|n| n as usize))
}

const SEGMENT: u64 = 0x1853_8067;
const TRACKS: u64 = 0x1654_AE6B;
const TRACK: u64 = 0xAE;
const VIDEO: u64 = 0xE0;
/// Pixels to remove at the bottom, the top, the left and the right.
const CROP: [u64; 4] = [0x54AA, 0x54BB, 0x54CC, 0x54DD];

fn matroska_part(file: &mut (impl Read + Seek), stored: (usize, usize)) -> Option<[usize; 4]> {
    let mut bytes = Vec::new();
    file.rewind().ok()?;
    file.take(MATROSKA_BYTES).read_to_end(&mut bytes).ok()?;
    bytes.starts_with(&[0x1A, 0x45, 0xDF, 0xA3]).then_some(())?;
    let child = |bytes, wanted| elements(bytes).find(|(id, _)| *id == wanted).map(|(_, body)| body);
    let tracks = child(child(&bytes, SEGMENT)?, TRACKS)?;
    let is_track = |(id, body)| if id == TRACK { child(body, VIDEO) } else { None };
    let video = elements(tracks).find_map(is_track)?;
    let [bottom, top, left, right] = CROP.map(|id| {
        let body = child(video, id).unwrap_or_default();
        body.iter().fold(0_usize, |sum, byte| sum.wrapping_shl(8) | usize::from(*byte))
    });
    let width = stored.0.checked_sub(left.checked_add(right)?)?;
    let height = stored.1.checked_sub(top.checked_add(bottom)?)?;
    Some([left, top, width, height])
}

/// The EBML elements in `bytes`; one that is cut off or of unknown length has all that is there.
fn elements(mut bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        let (id, rest) = number(bytes, false)?;
        let (size, rest) = number(rest, true)?;
        let length = usize::try_from(size).unwrap_or(usize::MAX).min(rest.len());
        let (body, after) = rest.split_at(length);
        bytes = after;
        Some((id, body))
    })
}

/// A number of variable length, with or without its marker. A size of ones means that it is unknown.
fn number(bytes: &[u8], size: bool) -> Option<(u64, &[u8])> {
    let length = bytes.first()?.leading_zeros() as usize + 1;
    let (all, rest) = bytes.split_at_checked(length).filter(|_| length <= 8)?;
    let value = all.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let without = value & !(1 << (7 * length));
    let unknown = without == (1 << (7 * length)) - 1;
    Some((
        if !size {
            value
        } else if unknown {
            u64::MAX
        } else {
            without
        },
        rest,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_aperture_is_a_part_of_the_picture() {
        let clap = |numbers: [i32; 8]| numbers.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<_>>();
        let of = |numbers| clean_aperture(&clap(numbers), (320, 160));
        assert_eq!(of([300, 1, 150, 1, 0, 1, 0, 1]), Some([10, 5, 300, 150]));
        assert_eq!(of([600, 2, 150, 1, -5, 1, 5, 1]), Some([5, 10, 300, 150]));
        for odd in [[300, 0, 150, 1, 0, 1, 0, 1], [400, 1, 150, 1, 0, 1, 0, 1], [300, 1, 150, 1, 99, 1, 0, 1]]
        {
            assert_eq!(of(odd), None, "{odd:?}");
        }
        assert_eq!(clean_aperture(&[0; 31], (320, 160)), None);
    }

    #[test]
    fn a_matroska_track_is_cropped_on_four_sides() {
        let element = |id: &[u8], body: &[u8]| [id, &[0x80 | body.len() as u8], body].concat();
        let crop = [element(&[0x54, 0xBB], &[10]), element(&[0x54, 0xDD], &[0, 20])].concat();
        let track = element(&[0xAE], &[element(&[0xD7], &[1]), element(&[0xE0], &crop)].concat());
        let tracks = element(&[0x16, 0x54, 0xAE, 0x6B], &track);
        // A segment of unknown length, as live recorders write it.
        let segment =
            [&[0x18, 0x53, 0x80, 0x67, 0x01, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF][..], &tracks].concat();
        let file = [element(&[0x1A, 0x45, 0xDF, 0xA3], &[]), segment].concat();
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("cropped.mkv");
        std::fs::write(&path, file).expect("written");
        assert_eq!(shown_part(&path, (320, 160)), Some([0, 10, 300, 150]));
    }

    #[test]
    fn bytes_that_are_no_container_have_nothing_and_do_no_harm() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let ebml = [&[0x1A, 0x45, 0xDF, 0xA3, 0x80, 0x18, 0x53, 0x80, 0x67][..], &[0xFF; 40]].concat();
        let moov = [&[0, 0, 0, 8][..], b"ftyp", &[0, 0, 0, 40], b"moov", &[0, 0, 0, 200], b"trak"].concat();
        let endless = [&[0, 0, 0, 1][..], b"ftyp", &[0; 8]].concat();
        for bytes in [Vec::new(), vec![0; 99], vec![0xFF; 99], ebml, moov, endless, b"\0\0\0\0ftyp".to_vec()]
        {
            std::fs::write(&path, &bytes).expect("written");
            assert_eq!((shown_part(&path, (320, 160)), has_mesh(&path)), (None, false), "{bytes:?}");
        }
    }
}
