//! A video as a DASH title: a ladder of H.264 representations in segments of equal length, with a manifest.
//!
//! ffmpeg encodes every representation into one fragmented MP4 file with a segment index. The manifest
//! addresses the file by byte ranges (`SegmentBase`), or the file is split into one file per segment
//! (`SegmentTemplate`). Not here: sound, live sources, other codecs. Source: ISO/IEC 23009-1:2022, ISO/IEC
//! 14496-12.

mod encode;
#[doc(hidden)]
pub mod fuzz;
mod manifest;
mod mp4;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;
pub use tributary_player::dash::LADDER;
use tributary_player::dash::sidx::SidxError;
use tributary_tiles::program::ProgramError;
use tributary_tiles::source::SourceError;

/// Name of the manifest in the directory.
pub const MANIFEST: &str = "manifest.mpd";
/// Duration of a media segment in seconds.
pub const SEGMENT: u32 = 4;

/// How the manifest addresses media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A file for each segment (`SegmentTemplate`).
    Segments,
    /// A file for each representation, read by byte ranges (`SegmentBase`).
    SingleFile,
}

/// Settings of the packager.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bitrates in kbit/s, ascending.
    pub ladder: Vec<u32>,
    /// Seconds to package, from the beginning; `None`: all.
    pub seconds: Option<u32>,
    /// libx264's preset.
    pub preset: String,
    /// How the manifest addresses media.
    pub layout: Layout,
}

impl Default for Settings {
    fn default() -> Self {
        let preset = "veryfast".to_owned();
        Self { ladder: LADDER.to_vec(), seconds: None, preset, layout: Layout::Segments }
    }
}

/// The packaged title.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Package {
    /// The manifest.
    pub manifest: PathBuf,
    /// Duration of the title.
    pub duration_s: f64,
    /// Media segments of each representation.
    pub segments: usize,
    /// The representations, lowest bitrate first.
    pub representations: Vec<Representation>,
    /// What was converted because the source's pictures are not stored as they are shown.
    pub notes: Vec<String>,
}

/// One quality.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Representation {
    /// Its `id` in the manifest.
    pub id: String,
    /// Target bitrate of the encoder, bit/s.
    pub nominal_bps: u64,
    /// Actual bitrate of the media, bit/s.
    pub actual_bps: u64,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// RFC 6381 codec string.
    pub codecs: String,
}

impl Package {
    /// The directory of the manifest.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.manifest.parent().unwrap_or(Path::new("."))
    }
}

/// Why packaging failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PackageError {
    /// A file or directory could not be used.
    #[error("cannot {doing} {}: {source}", .path.display())]
    File {
        /// The operation.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The output directory is not empty.
    #[error("{} is not empty; name a new directory with --out, or remove it", .0.display())]
    NotEmpty(PathBuf),
    /// The bitrates are invalid.
    #[error("the ladder must have 1 to 64 ascending bitrates from 10 to 100000 kbit/s: {0}")]
    Ladder(String),
    /// The file is not a video.
    #[error("{} is not a video that ffmpeg can read: {reason}", .path.display())]
    NotVideo {
        /// The file.
        path: PathBuf,
        /// ffmpeg's reason.
        reason: String,
    },
    /// The pictures are stored in a way that is not converted, or the file cannot be read.
    #[error(transparent)]
    Source(SourceError),
    /// A program is missing or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The encoder's output is not as requested.
    #[error("representation {id}: the encoder's file is damaged: {reason}")]
    Output {
        /// The representation.
        id: String,
        /// The reason.
        reason: String,
    },
    /// Stopped by the user.
    #[error("stopped; all files were removed")]
    Stopped,
}

impl From<SourceError> for PackageError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::NotVideo { path, reason } => Self::NotVideo { path, reason },
            SourceError::Program(error) => Self::Program(error),
            other => Self::Source(other),
        }
    }
}

fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PackageError {
    let path = path.to_owned();
    move |source| PackageError::File { doing, path, source }
}

/// Packages `video` into the new directory `out`. `progress` receives the completed share; `stop` aborts. The
/// directory is created only when everything is complete.
///
/// # Errors
/// [`PackageError`].
pub fn package(
    video: &Path,
    out: &Path,
    settings: &Settings,
    (progress, stop): (&mut dyn FnMut(f64), &dyn Fn() -> bool),
) -> Result<Package, PackageError> {
    check(&settings.ladder)?;
    if out.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(PackageError::NotEmpty(out.to_owned()));
    }
    let source = encode::probe(video)?;
    let parent = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let work = tempfile::Builder::new().prefix(".dash-").tempdir_in(parent);
    let work = work.map_err(file("make a directory in", parent))?;
    let mut representations = encode::encode(video, &source, settings, (work.path(), progress, stop))?;
    let mut indices = Vec::new();
    for representation in &mut representations {
        let path = work.path().join(format!("{}.mp4", representation.id));
        mp4::set_upright(&path).map_err(|reason| damaged(&representation.id, reason))?;
        let made = mp4::read(&path).map_err(|reason| damaged(&representation.id, reason))?;
        representation.codecs.clone_from(&made.codecs);
        representation.actual_bps = made.bits_per_second();
        if settings.layout == Layout::Segments {
            mp4::cut(&path, &made).map_err(file("cut", &path))?;
        }
        indices.push(made);
    }
    let package = Package {
        manifest: out.join(MANIFEST),
        duration_s: indices[0].duration().as_secs_f64(),
        segments: indices[0].entries.len(),
        representations,
        notes: source.notes(),
    };
    let text = manifest::write(&package.representations, &indices, settings.layout);
    let path = work.path().join(MANIFEST);
    std::fs::write(&path, text).map_err(file("write", &path))?;
    publish(work, out)?;
    Ok(package)
}

/// Gives the finished directory its name and lets other users read it.
fn publish(work: tempfile::TempDir, out: &Path) -> Result<(), PackageError> {
    use std::os::unix::fs::PermissionsExt;
    let readable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(work.path(), readable).map_err(file("open up", work.path()))?;
    // An empty directory of that name is replaced.
    std::fs::rename(work.path(), out).map_err(file("make", out))?;
    // It has been renamed, so the temporary directory must not be removed.
    let _ = work.keep();
    Ok(())
}

fn check(ladder: &[u32]) -> Result<(), PackageError> {
    let rising = ladder.windows(2).all(|pair| pair[0] < pair[1]);
    let within = ladder.iter().all(|kbps| (10..=100_000).contains(kbps));
    if rising && within && (1..=64).contains(&ladder.len()) {
        return Ok(());
    }
    Err(PackageError::Ladder(ladder.iter().map(u32::to_string).collect::<Vec<_>>().join(",")))
}

fn damaged(id: &str, reason: mp4::Mp4Error) -> PackageError {
    PackageError::Output { id: id.to_owned(), reason: reason.to_string() }
}

impl From<SidxError> for mp4::Mp4Error {
    fn from(error: SidxError) -> Self {
        Self::Index(error)
    }
}

impl mp4::Made {
    fn duration(&self) -> Duration {
        self.entries.last().map_or(Duration::ZERO, |last| last.span.start + last.span.duration)
    }

    fn bits_per_second(&self) -> u64 {
        let bytes: u64 = self.entries.iter().filter_map(|entry| entry.range.length()).sum();
        (bytes as f64 * 8.0 / self.duration().as_secs_f64().max(0.001)) as u64
    }
}

#[cfg(test)]
mod tests;
