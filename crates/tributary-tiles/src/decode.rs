//! Decodes H.264 into pictures with ffmpeg.
//!
//! All tiles have the same size, so the GoPs of many tiles, one after the other, form one byte stream: one
//! process decodes the tiles of a whole panorama. Starting a process per tile would take longer than
//! decoding.

use core::ops::Range;
use std::io::{ErrorKind, Read, Write};
use std::process::{ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use thiserror::Error;
use tributary_video::picture::{Picture, PictureError, sample_count};

use crate::mp4::{self, Mp4Error};
use crate::program::{self, ProgramError, Running};

/// One tile of one GoP as it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileData<'a> {
    /// The initialisation segment of its representation.
    pub init: &'a [u8],
    /// The media segment.
    pub segment: &'a [u8],
}

/// Why decoding failed.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// The container cannot be read.
    #[error("tile {tile} of those given is not a segment of H.264: {source}")]
    Container {
        /// Index of the tile, from 0.
        tile: usize,
        /// What is wrong.
        source: Mp4Error,
    },
    /// The number of pictures is wrong, or there are none.
    #[error("tile {tile} of those given does not decode: {reason}")]
    Tile {
        /// Index of the tile, from 0.
        tile: usize,
        /// The decoder's message.
        reason: String,
    },
    /// The stream ended in the middle of a picture.
    #[error("the pictures end in the middle of one")]
    Cut,
    /// The size is not valid.
    #[error(transparent)]
    Size(#[from] PictureError),
    /// The decoder is missing or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// Decodes one tile of a GoP: `width` × `height` pixels, `pictures` of them.
///
/// # Errors
/// As [`tiles`].
pub fn tile(data: TileData<'_>, size: (usize, usize), pictures: usize) -> Result<Vec<Picture>, DecodeError> {
    Ok(tiles(&[data], size, pictures)?.pop().unwrap_or_default())
}

/// Decodes many tiles with the same size (pixels) and number of pictures, in one process; the result has the
/// given order. Blocks, for about the time of decoding one picture with the pixels of all tiles.
///
/// # Errors
/// The first tile that does not decode to exactly this many pictures of that size; ffmpeg is missing.
pub fn tiles(
    data: &[TileData<'_>],
    size: (usize, usize),
    pictures: usize,
) -> Result<Vec<Vec<Picture>>, DecodeError> {
    let mut streams = Vec::with_capacity(data.len());
    for (tile, TileData { init, segment }) in data.iter().enumerate() {
        let container = |source| DecodeError::Container { tile, source };
        let (width, height) = mp4::picture_size(init).map_err(container)?;
        if (usize::from(width), usize::from(height)) != size {
            let reason = format!("its pictures are {width}×{height}, not {}×{}", size.0, size.1);
            return Err(DecodeError::Tile { tile, reason });
        }
        streams.push(mp4::to_annex_b(init, segment).map_err(container)?);
    }
    if streams.is_empty() {
        return Ok(Vec::new());
    }
    match batch(streams.concat(), size, pictures * streams.len()) {
        Ok(all) => {
            let mut all = all.into_iter();
            Ok(streams.iter().map(|_| all.by_ref().take(pictures).collect()).collect())
        }
        Err(DecodeError::Program(error @ (ProgramError::Missing(_) | ProgramError::Start { .. }))) => {
            Err(error.into())
        }
        Err(_) => Err(first_bad(streams.len(), |tiles| {
            let expected = pictures * tiles.len();
            batch(streams[tiles].concat(), size, expected).map(drop)
        })),
    }
}

/// Finds the first of `tiles` that does not decode, by bisection: 32 tiles take six calls of `decode`, not 32. Returns
/// its error.
fn first_bad(tiles: usize, mut decode: impl FnMut(Range<usize>) -> Result<(), DecodeError>) -> DecodeError {
    // The first `good` tiles decode; the first `bad` do not.
    let (mut good, mut bad) = (0, tiles);
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        if decode(good..middle).is_ok() { good = middle } else { bad = middle }
    }
    let reason = match decode(good..bad) {
        Err(error) => error.to_string(),
        Ok(()) => "not together with the tiles before it".to_owned(),
    };
    DecodeError::Tile { tile: good, reason }
}

fn batch(stream: Vec<u8>, size: (usize, usize), expected: usize) -> Result<Vec<Picture>, DecodeError> {
    let mut all = Vec::with_capacity(expected);
    for picture in Pictures::of_stream(stream, size)?.take(expected + 1) {
        all.push(picture?);
    }
    if all.len() == expected {
        return Ok(all);
    }
    let reason = format!("{} pictures came out, {expected} expected", all.len());
    Err(ProgramError::Failed { program: "ffmpeg", reason }.into())
}

/// Decoded pictures, one after the other; dropping this ends the decoder.
#[derive(Debug)]
pub struct Pictures {
    decoder: Running,
    output: Option<ChildStdout>,
    complaints: Option<JoinHandle<Vec<u8>>>,
    size: (usize, usize),
}

impl Pictures {
    /// Decodes a byte stream of H.264, pictures of `width` × `height` pixels.
    ///
    /// # Errors
    /// ffmpeg is missing, or the size is invalid.
    pub fn of_stream(stream: Vec<u8>, (width, height): (usize, usize)) -> Result<Self, DecodeError> {
        let mut command = Command::new("ffmpeg");
        // A stream that announces much larger pictures would need much memory. ffmpeg counts padding, too.
        let pixels = ((width + 128) * (height + 128)).to_string();
        command.args(["-nostdin", "-v", "error", "-xerror", "-protocol_whitelist", "pipe"]);
        command.args(["-threads", "1", "-err_detect", "explode", "-max_pixels", &pixels]);
        command.args(["-f", "h264", "-i", "pipe:0", "-autoscale", "0", "-fps_mode", "passthrough"]);
        command.args(["-pix_fmt", "yuv420p", "-f", "rawvideo", "pipe:1"]);
        command.stdin(Stdio::piped());
        let mut pictures = Self::of_command(program::apart(&mut command), (width, height))?;
        if let Some(mut input) = pictures.decoder.stdin.take() {
            // The thread ends with the stream or with the decoder.
            std::thread::spawn(move || input.write_all(&stream));
        }
        Ok(pictures)
    }

    /// Reads the raw 4:2:0 pictures of `size` that an ffmpeg `command` writes to its output.
    pub(crate) fn of_command(command: &mut Command, size: (usize, usize)) -> Result<Self, DecodeError> {
        // Check the size before starting the process.
        Picture::black(size.0, size.1)?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut decoder = program::start("ffmpeg", command)?;
        let output = decoder.stdout.take();
        let complaints = Some(program::hear(decoder.stderr.take()));
        Ok(Self { decoder, output, complaints, size })
    }

    /// Reads the next picture into `picture`, reusing its memory; returns false at the end.
    ///
    /// # Errors
    /// The decoder failed, or stopped in the middle of a picture.
    ///
    /// # Panics
    /// `picture` has another size.
    pub fn read_into(&mut self, picture: &mut Picture) -> Result<bool, DecodeError> {
        assert_eq!((picture.width(), picture.height()), self.size, "pictures of one size");
        let Some(output) = self.output.as_mut() else { return Ok(false) };
        let mut missing = picture.samples_mut();
        let whole = missing.len();
        while !missing.is_empty() {
            match output.read(missing) {
                Ok(0) => {
                    let clean = missing.len() == whole;
                    return self.end().and(if clean { Ok(false) } else { Err(DecodeError::Cut) });
                }
                Ok(count) => missing = &mut missing[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let reason = error.to_string();
                    return Err(ProgramError::Failed { program: "ffmpeg", reason }.into());
                }
            }
        }
        Ok(true)
    }

    fn end(&mut self) -> Result<(), DecodeError> {
        self.output = None;
        let status = self.decoder.wait()?;
        let text = self.complaints.take().map(|c| c.join().unwrap_or_default()).unwrap_or_default();
        if status.success() {
            return Ok(());
        }
        let reason = program::complaint(&text);
        Err(ProgramError::Failed { program: "ffmpeg", reason }.into())
    }
}

impl Iterator for Pictures {
    type Item = Result<Picture, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.output.as_ref()?;
        let (width, height) = self.size;
        let samples = vec![0; sample_count(width, height)];
        let mut picture = match Picture::from_samples(width, height, samples) {
            Ok(picture) => picture,
            Err(error) => return Some(Err(error.into())),
        };
        match self.read_into(&mut picture) {
            Ok(true) => Some(Ok(picture)),
            Ok(false) => None,
            Err(error) => {
                self.output = None;
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests;
