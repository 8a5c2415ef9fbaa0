//! Calls of ffmpeg and ffprobe for a ladder.

use super::cache::file_name;
use super::{FRAME_RATE, LadderError, LadderSettings, Source};
use crate::scene::Scene;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use tributary_tiles::program::{self, complaint, hear, name_of, start};
use tributary_tiles::source::{self, Eyes, Upright, Use};

/// Width of the rendered scene if none is set.
const SCENE_WIDTH: u32 = 2048;

/// The picture to encode.
pub(super) struct Picture {
    width: u32,
    height: u32,
    /// Whether the content is shorter than one GoP and must be repeated to fill it.
    repeat: bool,
    /// Filters that make the stored pictures upright.
    upright: Vec<String>,
    /// What is converted, for the user.
    pub(super) notes: Vec<String>,
}

/// Rounds to an even number of at least 16, because 4:2:0 pictures have even sizes.
fn even(pixels: u32) -> u32 {
    (pixels & !1).max(16)
}

pub(super) fn scene_picture(settings: &LadderSettings) -> Picture {
    let width = even(settings.width.unwrap_or(SCENE_WIDTH)) & !3;
    Picture { width, height: width / 2, repeat: false, upright: Vec::new(), notes: Vec::new() }
}

/// Probes a file: its upright picture, whether it is a 360° video, duration.
pub(super) fn probe(path: &Path, settings: &LadderSettings) -> Result<Picture, LadderError> {
    let of = if settings.any_aspect { Use::Flat } else { Use::Sphere(Eyes::Left) };
    let upright = source::upright(path, of)?;
    let (width, height) = (upright.size.0 as u32, upright.size.1 as u32);
    // One per cent of tolerance: it accepts 3840×1906 (cropped at the poles) and rejects 1920×1080 (flat).
    if !settings.any_aspect && width.abs_diff(height.saturating_mul(2)) > width / 50 {
        return Err(LadderError::Aspect { path: path.to_owned(), width, height });
    }
    let (width, height) = match settings.width {
        Some(asked) => (asked, (u64::from(asked) * u64::from(height) / u64::from(width)).min(8192) as u32),
        None => (width, height),
    };
    let repeat = upright.duration_s.is_some_and(|seconds| seconds < 1.05);
    let Upright { filters, notes, .. } = upright;
    Ok(Picture { width: even(width), height: even(height), repeat, upright: filters, notes })
}

/// The arguments of one ffmpeg process that decodes once and encodes every representation.
fn arguments(source: &Source, picture: &Picture, settings: &LadderSettings, into: &Path) -> Vec<OsString> {
    let Picture { width, height, repeat, .. } = *picture;
    let mut all: Vec<OsString> = Vec::new();
    let mut add = |items: &[&str]| all.extend(items.iter().map(OsString::from));
    add(&["-nostdin", "-v", "error", "-y", "-progress", "pipe:1", "-protocol_whitelist", "file,pipe"]);
    match source {
        Source::Scene => {
            let (size, rate) = (format!("{width}x{height}"), FRAME_RATE.to_string());
            add(&["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", &size, "-r", &rate, "-i", "pipe:0"]);
        }
        Source::File(path) => {
            if repeat {
                add(&["-stream_loop", "-1"]);
            }
            add(&["-noautorotate", "-i"]);
            all.push(name_of(path));
        }
    }
    let count = settings.rates.len();
    let outputs: String = (0..count).map(|i| format!("[v{i}]")).collect();
    let upright: String = picture.upright.iter().map(|filter| format!("{filter},")).collect();
    let filter = format!(
        "[0:V:0]{upright}fps={FRAME_RATE},scale={width}:{height}:flags=bilinear,setsar=1,format=yuv420p,split={count}{outputs}"
    );
    all.extend(["-filter_complex".into(), filter.into()]);
    let frames = (FRAME_RATE * if repeat { 1 } else { settings.seconds }).to_string();
    for (number, rate) in settings.rates.iter().enumerate() {
        // A buffer of a quarter of a second keeps each GoP within a few per cent of its nominal size.
        let (rate, buffer) = (rate.as_bps().to_string(), (rate.as_bps() / 4).to_string());
        let x264 = format!(
            "nal-hrd=cbr:keyint={FRAME_RATE}:min-keyint={FRAME_RATE}:scenecut=0:open-gop=0:bframes=0:\
             repeat-headers=1:qpmin=0"
        );
        let map = format!("[v{number}]");
        let options = ["-map", &map, "-an", "-frames:v", &frames, "-c:v", "libx264", "-preset", "superfast"];
        all.extend(options.map(OsString::from));
        let options =
            ["-b:v", &rate, "-maxrate", &rate, "-bufsize", &buffer, "-x264-params", &x264, "-f", "h264"];
        all.extend(options.map(OsString::from));
        all.push(name_of(&into.join(file_name(number))));
    }
    all
}

/// Encodes all representations into the directory `into`.
pub(super) fn encode(
    source: &Source,
    picture: &Picture,
    settings: &LadderSettings,
    (into, progress): (&Path, &mut dyn FnMut(f64)),
) -> Result<(), LadderError> {
    let mut command = Command::new("ffmpeg");
    command.args(arguments(source, picture, settings, into));
    let rendered = *source == Source::Scene;
    command.stdin(if rendered { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start("ffmpeg", &mut command)?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let complaints = hear(child.stderr.take());
    let frames = f64::from(FRAME_RATE * settings.seconds);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let Some(mut input) = input else { return };
            let scene = Scene::new(picture.width, picture.height);
            let mut frame = scene.frame();
            for number in 0..FRAME_RATE * settings.seconds {
                scene.render(number, &mut frame);
                // When ffmpeg fails, its standard error has the reason.
                if input.write_all(&frame).is_err() {
                    return;
                }
            }
        });
        for line in output.into_iter().flat_map(|o| BufReader::new(o).lines()).map_while(Result::ok) {
            if let Some(done) = line.strip_prefix("frame=").and_then(|n| n.trim().parse::<f64>().ok()) {
                progress((done / frames).clamp(0.0, 0.99));
            }
        }
    });
    let errors = complaints.join().unwrap_or_default();
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(LadderError::Encoder(complaint(&errors))) }
}

/// The first picture of `gop` as a JPEG.
pub(super) fn still(gop: &[u8], width: u32) -> Result<Vec<u8>, LadderError> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-protocol_whitelist", "pipe", "-f", "h264", "-i", "pipe:0"]);
    let scale = format!("scale='min({},iw)':-2", even(width));
    command.args(["-frames:v", "1", "-vf", &scale, "-q:v", "4", "-f", "mjpeg", "pipe:1"]);
    let picture = program::run("ffmpeg", &mut command, gop)?;
    if picture.is_empty() {
        return Err(LadderError::Encoder("it returned no picture".to_owned()));
    }
    Ok(picture)
}
