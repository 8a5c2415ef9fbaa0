//! Pictures of a source as ffmpeg delivers them: YUV4MPEG2, whose first line says size and rate. So the size of a stream
//! is known without opening it twice, which a sender that connects by itself does not allow.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use tributary_video::picture::Picture;

use super::{Input, Live, LiveError, Shape, Stop};
use crate::program;
use crate::rate::FrameRate;

/// Longest line of the format, bytes.
const LONGEST_LINE: u64 = 1024;

/// Size, pixels, and rate of a source's pictures.
type Head = ((usize, usize), FrameRate);

/// A source that is open.
pub(super) struct Pictures {
    input: Input,
    output: BufReader<ChildStdout>,
    complaints: Option<JoinHandle<Vec<u8>>>,
}

impl Pictures {
    /// Starts ffmpeg. A source that comes again gets the `shape` it had.
    pub(super) fn open(live: &Live, shape: Option<Shape>, stop: &Stop) -> Result<Self, LiveError> {
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error"]).args(live.input.arguments());
        command.args(["-map", "0:V:0", "-an", "-sn", "-vf", &filter(live, shape)]);
        command.args(["-fps_mode", "cfr", "-flush_packets", "1", "-f", "yuv4mpegpipe", "pipe:1"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = program::start("ffmpeg", program::apart(&mut command))?;
        let complaints = Some(program::hear(running.stderr.take()));
        let output = running.stdout.take().expect("its output is a pipe");
        stop.keep(running);
        Ok(Self { input: live.input.clone(), output: BufReader::new(output), complaints })
    }

    fn line(&mut self) -> Result<Option<String>, LiveError> {
        let mut line = Vec::new();
        self.output.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(|e| self.broken(e))?;
        Ok(line.ends_with(b"\n").then(|| String::from_utf8_lossy(&line).trim_end().to_owned()))
    }

    fn broken(&self, error: impl ToString) -> LiveError {
        LiveError::Failed { input: self.input.to_string(), reason: error.to_string() }
    }

    /// Size and rate; `None` if the source has no picture.
    pub(super) fn head(&mut self) -> Result<Option<Head>, LiveError> {
        let Some(line) = self.line()? else { return Ok(None) };
        let field = |mark: char| line.split(' ').skip(1).find_map(|word| word.strip_prefix(mark));
        let ratio = |text: &str| {
            let (a, b) = text.split_once(':')?;
            Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?))
        };
        let side = |mark| field(mark).and_then(|text| text.parse::<usize>().ok());
        let rate = field('F').and_then(ratio).and_then(|(n, d)| FrameRate::new(n, d).ok());
        let (Some(width), Some(height), Some(rate)) = (side('W'), side('H'), rate) else {
            return Err(self.broken(format!("ffmpeg describes its pictures as `{line}`")));
        };
        match field('A').and_then(ratio) {
            Some((across, down)) if across != down && across > 0 && down > 0 => Err(LiveError::Pictures {
                input: self.input.to_string(),
                problem: format!("its pixels are {across}:{down} and not square"),
                way: "say the pictures' size with --size",
            }),
            _ => Ok(Some(((width, height), rate))),
        }
    }

    /// Reads GoP after GoP for as long as `take` wants more; an incomplete last one is left out.
    pub(super) fn gops(
        &mut self,
        shape: Shape,
        mut take: impl FnMut(Vec<Picture>) -> bool,
    ) -> Result<(), LiveError> {
        loop {
            let mut gop = Vec::with_capacity(shape.pictures_per_gop);
            while gop.len() < shape.pictures_per_gop {
                let Some(line) = self.line()? else { return Ok(()) };
                if !line.starts_with("FRAME") {
                    return Err(self.broken("ffmpeg's pictures have no head"));
                }
                let mut picture = Picture::black(shape.size.0, shape.size.1)?;
                match self.output.read_exact(picture.samples_mut()) {
                    Ok(()) => gop.push(picture),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                    Err(error) => return Err(self.broken(error)),
                }
            }
            if !take(gop) {
                return Ok(());
            }
        }
    }

    /// How ffmpeg ended. It is stopped if it still runs and its pictures are no longer read.
    pub(super) fn end(mut self, stop: &Stop) -> Result<(), LiveError> {
        let Some(mut running) = stop.take() else { return Ok(()) };
        drop(self.output);
        let status = running.wait()?;
        let text = self.complaints.take().map(|c| c.join().unwrap_or_default()).unwrap_or_default();
        if status.success() {
            return Ok(());
        }
        let reason = self.input.without_secrets(&program::complaint(&text));
        let input = self.input.to_string();
        if reason.contains("matches no streams") {
            return Err(LiveError::NoPicture { input });
        }
        Err(LiveError::Failed { input, reason })
    }
}

/// The filters up to upright pictures of the right size, rate and range.
fn filter(live: &Live, shape: Option<Shape>) -> String {
    let mut filters = match &live.upright {
        Some(upright) => upright.filters.clone(),
        // What a stream says about its lines is known only picture by picture.
        None => vec!["bwdif=mode=send_frame:deint=interlaced".to_owned()],
    };
    if let Some(rate) = shape.map(|shape| shape.rate).or(live.settings.rate) {
        filters.push(format!("fps={rate}"));
    }
    match shape.map(|shape| shape.size).or(live.settings.size) {
        Some((width, height)) => {
            filters.push(format!("scale={width}:{height}:flags=bicubic:out_range=tv,setsar=1"));
        }
        None => filters.push("scale=out_range=tv".to_owned()),
    }
    filters.push("format=yuv420p".to_owned());
    filters.join(",")
}
