//! What a video file says about its pictures, read once for everything that encodes them: how the stored pictures become
//! upright pictures of one view with square pixels and ordinary colours, and when they are shown.
//!
//! A file can say in many ways that the picture is not as stored. Each is honoured with an ffmpeg filter and a note, or
//! refused with what to do; none is ignored in silence. Not here: encoding. Sources: ISO/IEC 14496-12 §8.3.2 (matrix) and
//! §12.1.4 (pixel shape, clean aperture), Google's Spherical Video V2 (stereo, projection), ITU-T H.273 (colours).

mod colour;
mod container;
mod ffprobe;
#[doc(hidden)]
pub mod fuzz;
mod layout;
mod refusal;
mod times;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::program::ProgramError;
use crate::rate::FrameRate;

pub use layout::View;

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The file does not exist or cannot be read.
    #[error("cannot read the video {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's message.
        source: io::Error,
    },
    /// ffmpeg cannot read the file.
    #[error("{path} is not a video that ffmpeg can read: {reason}")]
    NotVideo {
        /// The file.
        path: PathBuf,
        /// ffmpeg's message.
        reason: String,
    },
    /// The file has no video track.
    #[error("{path} has no video track, only sound or data; give the file that has the pictures")]
    NoPicture {
        /// The file.
        path: PathBuf,
    },
    /// The pictures are stored in a way that is not converted.
    #[error("{path}: {problem}; convert it first: {way}")]
    Stored {
        /// The file.
        path: PathBuf,
        /// How the pictures are stored.
        problem: String,
        /// A command.
        way: String,
    },
    /// A program is missing or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// What the pictures are used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Shown as they are.
    Flat,
    /// The whole sphere in an equirectangular picture.
    Sphere(Eyes),
}

/// The eyes whose pictures are taken of a stereo video.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Eyes {
    /// The left one.
    #[default]
    Left,
    /// Both, the left eye's picture above the right eye's. A file that does not say that it is stereo has one picture.
    Both,
    /// Both; whatever the file says, the left eye's picture is above the right eye's.
    TopBottom,
}

/// How stored pictures become upright ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Upright {
    /// Width and height as stored, pixels.
    pub stored: (usize, usize),
    /// Width and height of the upright picture with square pixels. A last `scale` filter must give it this or another
    /// size, because `filters` do not change the pixels' shape.
    pub size: (usize, usize),
    /// ffmpeg filters, in order; the input needs `-noautorotate`. Empty if the pictures are stored upright.
    pub filters: Vec<String>,
    /// The only view that is taken of a stereo picture.
    pub view: Option<View>,
    /// Number of views, one above the other.
    pub eyes: usize,
    /// What is converted, for the user.
    pub notes: Vec<String>,
    /// Duration in seconds, if the file states it.
    pub duration_s: Option<f64>,
}

/// The pictures of a file over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    /// Pictures announced by the header.
    pub announced: Option<usize>,
    /// Pictures in the file.
    pub found: usize,
    /// Picture rate. Of uneven times it is the measured one, never a time base such as 1000 a second.
    pub rate: Option<FrameRate>,
    /// Whether all intervals are equal.
    pub constant: bool,
}

/// How the pictures of a file are stored. Reads its header and decodes one picture.
///
/// # Errors
/// [`SourceError`].
pub fn upright(path: &Path, of: Use) -> Result<Upright, SourceError> {
    layout::upright(path, &ffprobe::stream(path)?, of)
}

/// How the pictures of a file are stored, and their times. Reads all packets of the file, without decoding them.
///
/// # Errors
/// [`SourceError`].
pub fn probe(path: &Path, of: Use) -> Result<(Upright, Times), SourceError> {
    let stream = ffprobe::stream(path)?;
    let upright = layout::upright(path, &stream, of)?;
    Ok((upright, times::times(&stream, &ffprobe::packets(path)?)))
}

/// The first track of sound of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Sound {
    /// Number of channels.
    pub channels: u32,
    /// Whether the channels are spherical harmonics (ambisonics), of which the first is what a microphone without direction
    /// records.
    pub ambisonic: bool,
    /// Time from the file's beginning to its first picture, seconds.
    pub before_pictures_s: f64,
}

/// The first track of sound of a file; `None` if it has none, or ffmpeg does not know its codec.
///
/// # Errors
/// [`SourceError`].
pub fn sound(path: &Path) -> Result<Option<Sound>, SourceError> {
    let Some((stream, before_pictures_s)) = ffprobe::sound(path)? else { return Ok(None) };
    let known = stream.codec_name.as_deref().is_some_and(|name| !matches!(name, "none" | "unknown"));
    let channels = stream.channels.filter(|channels| known && *channels > 0);
    let ambisonic = stream.channel_layout.is_some_and(|layout| layout.starts_with("ambisonic"));
    Ok(channels.map(|channels| Sound { channels, ambisonic, before_pictures_s }))
}

/// Opening a FIFO would block until it has a writer.
fn check_regular(path: &Path) -> Result<(), SourceError> {
    let unreadable = |source| SourceError::Unreadable { path: path.to_owned(), source };
    let metadata = fs::metadata(path).and_then(|m| fs::File::open(path).map(|_| m)).map_err(unreadable)?;
    if metadata.is_file() {
        return Ok(());
    }
    Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")))
}

#[cfg(test)]
mod tests;
