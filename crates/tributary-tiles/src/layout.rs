//! File layout of a tiled-video directory. Paths use `/` and are relative to the directory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};

/// Written last: a directory without it does not contain a complete video.
pub const RECORD: &str = "ingest.json";
/// The table of measured sizes and errors.
pub const TABLE: &str = "table.json";
/// The media presentation description.
pub const MANIFEST: &str = "manifest.mpd";
/// SHA-256 of every file except itself and the record, in the format of `sha256sum`.
pub const SUMS: &str = "SHA256SUMS";
/// The source's pictures.
pub const SOURCE: &str = "source";
/// State of an unfinished ingest; removed at its end.
pub const WORK: &str = "work";

/// Name of the representation of tile `tile` at `qp`, unique in the video.
#[must_use]
pub fn representation(tile: usize, qp: u8) -> String {
    format!("t{tile:02}q{qp:02}")
}

/// Its initialisation segment.
#[must_use]
pub fn init(tile: usize, qp: u8) -> String {
    format!("tiles/{}/init.mp4", representation(tile, qp))
}

/// Its media segment of GoP `gop`.
#[must_use]
pub fn segment(gop: usize, tile: usize, qp: u8) -> String {
    format!("tiles/{}/{gop:05}.m4s", representation(tile, qp))
}

/// The low-resolution stream: a directory like this one, of a single tile in one quality for each eye.
pub const LOW: &str = "low";

/// The initialisation segment of the sound.
pub const SOUND_INIT: &str = "sound/init.mp4";

/// The media segment of the sound of GoP `gop`.
#[must_use]
pub fn sound(gop: usize) -> String {
    format!("sound/{gop:05}.m4s")
}

/// The source's pictures of GoP `gop` without loss, as a byte stream of H.264.
#[must_use]
pub fn reference(gop: usize) -> String {
    format!("{SOURCE}/{gop:05}.h264")
}

/// The SHA-256 of `bytes`.
#[must_use]
pub fn sum(bytes: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest(&SHA256, bytes).as_ref());
    sum
}

/// As hexadecimal digits.
#[must_use]
pub fn hex(sum: &[u8]) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a file atomically: after an interruption it is either complete or absent.
///
/// # Errors
/// The system's; nothing is left behind.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = directory.join(format!(".{name}.part"));
    let written = File::create(&beside).and_then(|mut file| file.write_all(bytes));
    // Remove the incomplete file, which would only use space.
    written.and_then(|()| fs::rename(&beside, path)).inspect_err(|_| drop(fs::remove_file(&beside)))
}
