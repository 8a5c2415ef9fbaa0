//! Pictures for reports: the middle picture of every slot as seen, beside the original.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::process::Command;

use thiserror::Error;
use tributary_report::Media;
use tributary_tiles::program::{self, ProgramError};
use tributary_video::picture::{Picture, PictureError, sample_count};

/// The pictures of all slots, in a temporary file.
#[derive(Debug)]
pub struct Stills {
    file: BufWriter<File>,
    size: (usize, usize),
    count: u64,
}

/// Why a picture cannot be made.
#[derive(Debug, Error)]
pub enum StillError {
    /// The file cannot be read or written.
    #[error("cannot write or read a stored picture: {0}")]
    Io(#[from] io::Error),
    /// The file's content is invalid.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// ffmpeg, which writes JPEG.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

impl Stills {
    pub(super) fn new(size: (usize, usize)) -> io::Result<Self> {
        Ok(Self { file: BufWriter::new(tempfile::tempfile()?), size, count: 0 })
    }

    pub(super) fn push(&mut self, seen: &Picture, original: &Picture) -> io::Result<()> {
        self.file.write_all(seen.samples())?;
        self.file.write_all(original.samples())?;
        self.count += 1;
        Ok(())
    }

    /// The middle picture of a slot as seen, and the original; `None` if the slot was not played.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn at(&mut self, slot: u32) -> Result<Option<(Picture, Picture)>, StillError> {
        if u64::from(slot) >= self.count {
            return Ok(None);
        }
        let (width, height) = self.size;
        let bytes = sample_count(width, height);
        self.file.flush()?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(u64::from(slot) * 2 * bytes as u64))?;
        let mut pictures = [vec![0; bytes], vec![0; bytes]];
        for samples in &mut pictures {
            file.read_exact(samples)?;
        }
        file.seek(SeekFrom::End(0))?;
        let [seen, original] = pictures;
        Ok(Some((
            Picture::from_samples(width, height, seen)?,
            Picture::from_samples(width, height, original)?,
        )))
    }
}

/// Encodes pictures with captions for a report.
///
/// # Errors
/// ffmpeg is missing or fails.
pub fn pictures(captioned: &[(&Picture, String)]) -> Result<Vec<Media>, StillError> {
    let image = |(picture, caption): &(&Picture, String)| {
        Ok(Media {
            media_type: "image/jpeg",
            bytes: jpeg(picture)?,
            alt: caption.clone(),
            caption: caption.clone(),
        })
    };
    captioned.iter().map(image).collect()
}

fn jpeg(picture: &Picture) -> Result<Vec<u8>, StillError> {
    let size = format!("{}x{}", picture.width(), picture.height());
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-f", "rawvideo", "-pix_fmt", "yuv420p"]);
    command.args(["-s", &size, "-i", "pipe:0", "-frames:v", "1", "-q:v", "3", "-f", "mjpeg", "pipe:1"]);
    Ok(program::run("ffmpeg", &mut command, picture.samples())?)
}
