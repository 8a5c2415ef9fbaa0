//! The source's pictures at the size and rate of the tiled video, lossless, one file per GoP.
//!
//! H.264 at QP 0 with libx264's fastest preset: smaller than FFV1 and twice as fast to decode, on 2K video.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use super::IngestError;
use super::recipe::Recipe;
use super::watch::Meter;
use super::work::{REFERENCE as NOTE, Reference, Sums, Work};
use crate::gop;
use crate::layout;
use crate::program::{self, ProgramError, name_of};

/// Decodes the source, up to the recipe's limit, unless an earlier run has done so.
pub(super) fn make(
    source: &Path,
    (recipe, jobs): (&Recipe, usize),
    work: &Work,
    meter: &Meter<'_>,
) -> Result<Reference, IngestError> {
    if let Some(made) = work.load_whole(NOTE) {
        return Ok(made);
    }
    let mut command = command(source, recipe, jobs);
    program::apart(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = program::start("ffmpeg", &mut command)?;
    let complaints = program::hear(running.stderr.take());
    let mut gops = Gops { recipe, work, meter, sums: Sums::new(), written: 0, left: 0 };
    if let Some(mut output) = running.stdout.take() {
        gops.read(&mut output)?;
    }
    let complaints = complaints.join().unwrap_or_default();
    if !running.wait()?.success() {
        let reason = program::complaint(&complaints);
        return Err(ProgramError::Failed { program: "ffmpeg", reason }.into());
    }
    let made = gops.finish(source, &complaints)?;
    work.save(NOTE, &made)?;
    Ok(made)
}

fn command(source: &Path, recipe: &Recipe, jobs: usize) -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe", "-noautorotate", "-i"]);
    command.arg(name_of(source));
    command.args(["-map", "0:V:0", "-an", "-sn", "-vf", &filter(recipe), "-fps_mode", "passthrough"]);
    if let Some(limit) = recipe.limit {
        command.args(["-frames:v", &limit.to_string()]);
    }
    command.args(encoder(recipe, jobs)).arg("pipe:1");
    command
}

/// The filters that convert the source to upright pictures of the recipe's rate and size. The input is not rotated by
/// ffmpeg itself.
pub(super) fn filter(recipe: &Recipe) -> String {
    let (width, height) = recipe.size;
    let upright: String = recipe.upright.iter().map(|filter| format!("{filter},")).collect();
    let resample = if recipe.resample { format!("fps={},", recipe.rate) } else { String::new() };
    format!("{upright}{resample}scale={width}:{height}:flags=bicubic,setsar=1,format=yuv420p")
}

/// Arguments of the lossless output, without its name.
pub(super) fn encoder(recipe: &Recipe, threads: usize) -> Vec<String> {
    let gop = recipe.pictures_per_gop;
    let x264 = format!("keyint={gop}:min-keyint={gop}:scenecut=0:open-gop=0:bframes=0:repeat-headers=1");
    let all = ["-c:v", "libx264", "-preset", "ultrafast", "-qp", "0", "-threads", &threads.to_string()];
    all.iter().chain(&["-x264-params", &x264, "-f", "h264"]).map(ToString::to_string).collect()
}

/// Extracts complete GoPs from the stream.
struct Gops<'a> {
    recipe: &'a Recipe,
    work: &'a Work,
    meter: &'a Meter<'a>,
    sums: Sums,
    written: usize,
    /// Pictures of an incomplete last GoP.
    left: usize,
}

impl Gops<'_> {
    fn read(&mut self, output: &mut impl Read) -> Result<(), IngestError> {
        let failed = |e: std::io::Error| ProgramError::Failed { program: "ffmpeg", reason: e.to_string() };
        let mut stream = Vec::new();
        loop {
            // Doubles the amount each time, so that a long GoP is not searched repeatedly.
            let more = (stream.len() as u64).max(1 << 20);
            let read = output.by_ref().take(more).read_to_end(&mut stream).map_err(failed)?;
            self.meter.tick(0)?;
            let mut found = gop::split(&stream);
            let last = if read == 0 { None } else { found.pop() };
            for gop in &found {
                self.take(&stream[gop.bytes.clone()], gop)?;
            }
            if read == 0 {
                return Ok(());
            }
            stream.drain(..last.map_or(0, |gop| gop.bytes.start));
        }
    }

    fn take(&mut self, bytes: &[u8], gop: &gop::Gop) -> Result<(), IngestError> {
        let (pictures, expected) = (gop.pictures as usize, self.recipe.pictures_per_gop);
        if pictures != expected || !gop.closed {
            self.left += pictures;
            return Ok(());
        }
        self.work.write(layout::reference(self.written), bytes, &mut self.sums)?;
        self.written += 1;
        Ok(self.meter.tick(pictures * self.meter.source_picture())?)
    }

    fn finish(self, source: &Path, complaints: &[u8]) -> Result<Reference, IngestError> {
        let Self { recipe, sums, written: gops, left, .. } = self;
        let (path, needed) = (source.to_owned(), recipe.pictures_per_gop);
        let found = gops * needed + left;
        if gops == 0 {
            return Err(IngestError::TooShort { path, found, needed });
        }
        // For a resampled file the number of pictures was an estimate.
        if gops + usize::from(recipe.resample) < recipe.gops {
            let announced = recipe.gops * needed;
            return Err(IngestError::Truncated { path, announced, found, seconds: gops });
        }
        let mut notes = recipe.notes.clone();
        if left > 0 {
            notes.push(format!("the last {left} pictures make no whole second and are left out"));
        }
        if !complaints.is_empty() {
            notes.push(format!("the source's decoder complained: {}", program::complaint(complaints)));
        }
        Ok(Reference { gops, notes, sums })
    }
}
