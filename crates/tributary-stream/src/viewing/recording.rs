//! The view as video for reports: every picture that a viewer saw, and several viewings side by side.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use tempfile::NamedTempFile;
use tributary_report::Media;
use tributary_tiles::program::{self, ProgramError, Running};
use tributary_video::picture::Picture;

use super::StillError;

/// Width of each view in the video of a report, pixels.
const WIDTH: u32 = 560;
/// Space between two views, pixels.
const GAP: u32 = 8;

/// A viewing that is being recorded into a temporary file. Nearly without loss, because it is encoded again for the page.
#[derive(Debug)]
pub(super) struct Recorder {
    ffmpeg: Running,
    complaints: JoinHandle<Vec<u8>>,
    file: NamedTempFile,
}

impl Recorder {
    /// Starts to record pictures of `size` (width, height), `rate` a second.
    pub(super) fn start((width, height): (usize, usize), rate: f64) -> Result<Self, StillError> {
        let file = NamedTempFile::new()?;
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-y", "-protocol_whitelist", "file,pipe"]);
        command.args(["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", &format!("{width}x{height}")]);
        command.args(["-framerate", &rate.to_string(), "-i", "pipe:0"]);
        command.args(["-c:v", "libx264", "-preset", "ultrafast", "-crf", "10", "-f", "matroska"]);
        command.arg(program::name_of(file.path()));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut ffmpeg = program::start("ffmpeg", program::apart(&mut command))?;
        let complaints = program::hear(ffmpeg.stderr.take());
        Ok(Self { ffmpeg, complaints, file })
    }

    /// Adds a picture.
    pub(super) fn push(&mut self, seen: &Picture) -> Result<(), StillError> {
        // When ffmpeg has ended, `finish` says why.
        let written = self.ffmpeg.stdin.as_mut().map(|stdin| stdin.write_all(seen.samples()));
        match written {
            Some(Err(error)) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Ends the recording.
    pub(super) fn finish(mut self) -> Result<Recording, StillError> {
        drop(self.ffmpeg.stdin.take());
        let status = self.ffmpeg.wait()?;
        if !status.success() {
            let reason = program::complaint(&self.complaints.join().unwrap_or_default());
            return Err(ProgramError::Failed { program: "ffmpeg", reason }.into());
        }
        Ok(Recording(self.file))
    }
}

/// Every picture of a viewing, in a temporary file.
#[derive(Debug)]
pub struct Recording(NamedTempFile);

/// The recordings beside each other as one MP4 (H.264, without sound), the first one on the left, with a caption that
/// names them. All begin with their first slot. `None` without recordings.
///
/// # Errors
/// ffmpeg is missing or fails.
pub fn side_by_side(recordings: &[(&Recording, String)]) -> Result<Option<Media>, StillError> {
    let caption = match recordings {
        [] => return Ok(None),
        [(_, only)] => only.clone(),
        [(_, left), others @ ..] => {
            let others: Vec<&str> = others.iter().map(|(_, name)| name.as_str()).collect();
            format!("Left: {left}. Right: {}.", others.join("; "))
        }
    };
    let mut output = NamedTempFile::new()?;
    let files: Vec<&Path> = recordings.iter().map(|(recording, _)| recording.0.path()).collect();
    let mut command = encoder(&files);
    command.arg(program::name_of(output.path()));
    program::run("ffmpeg", program::apart(&mut command), &[])?;
    let mut bytes = Vec::new();
    output.as_file_mut().read_to_end(&mut bytes)?;
    let alt = format!("What the viewers saw. {caption}");
    Ok(Some(Media { media_type: "video/mp4", bytes, alt, caption }))
}

/// ffmpeg without the name of its output.
fn encoder(files: &[&Path]) -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-y", "-protocol_whitelist", "file,pipe"]);
    let mut filter = String::new();
    for (at, file) in files.iter().enumerate() {
        command.arg("-i").arg(program::name_of(file));
        let gap = if at + 1 < files.len() { GAP } else { 0 };
        filter += &format!("[{at}:v]scale={WIDTH}:-2,pad=iw+{gap}:ih:0:0:white[v{at}];");
    }
    filter += &(0..files.len()).map(|at| format!("[v{at}]")).collect::<String>();
    filter += &match files.len() {
        1 => "copy".to_owned(),
        several => format!("hstack=inputs={several}"),
    };
    command.args(["-filter_complex", &filter, "-c:v", "libx264", "-preset", "veryfast", "-crf", "27"]);
    command.args(["-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(shade: u8) -> Recording {
        let mut recorder = Recorder::start((64, 48), 25.0).unwrap();
        let samples = vec![shade; 64 * 48 * 3 / 2];
        let picture = Picture::from_samples(64, 48, samples).unwrap();
        (0..25).for_each(|_| recorder.push(&picture).unwrap());
        recorder.finish().unwrap()
    }

    /// The pictures of an MP4, as luma of `size`.
    fn luma(video: &Media, (width, height): (usize, usize)) -> Vec<Vec<u8>> {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &video.bytes).unwrap();
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-i"]).arg(file.path());
        command.args(["-f", "rawvideo", "-pix_fmt", "yuv420p", "pipe:1"]);
        let samples = program::run("ffmpeg", &mut command, &[]).unwrap();
        samples.chunks(width * height * 3 / 2).map(|picture| picture[..width * height].to_vec()).collect()
    }

    #[test]
    fn viewings_play_beside_each_other_in_their_order() {
        let (dark, bright) = (recorded(40), recorded(200));
        let both = [(&dark, "ours".to_owned()), (&bright, "theirs".to_owned())];
        let video = side_by_side(&both).unwrap().unwrap();
        assert_eq!(video.caption, "Left: ours. Right: theirs.");
        let size = ((2 * WIDTH + GAP) as usize, 420);
        let pictures = luma(&video, size);
        assert_eq!(pictures.len(), 25);
        let near = |x: usize, shade: u8| pictures[12][210 * size.0 + x].abs_diff(shade) < 8;
        assert!(near(WIDTH as usize / 2, 40) && near((WIDTH + GAP + WIDTH / 2) as usize, 200));
    }

    #[test]
    fn nothing_recorded_is_no_video() {
        assert!(side_by_side(&[]).unwrap().is_none());
    }

    #[test]
    fn an_encoder_that_refuses_says_why() {
        let mut recorder = Recorder::start((63, 47), 25.0).unwrap();
        let picture = Picture::black(64, 48).unwrap();
        // Odd sizes have no 4:2:0.
        (0..200).for_each(|_| recorder.push(&picture).unwrap());
        let error = recorder.finish().map(drop).unwrap_err().to_string();
        assert!(error.starts_with("ffmpeg failed: "), "{error}");
    }
}
