//! The ffmpeg and ffprobe commands for a title.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use tributary_tiles::FrameRate;
use tributary_tiles::program::{ProgramError, complaint, hear, name_of, start};
use tributary_tiles::source::{self, Upright, Use};

use super::{PackageError, Representation, SEGMENT, Settings};

/// (highest bitrate in kbit/s, height of the picture); still higher bitrates get the last height.
const HEIGHTS: [(u32, u32); 5] = [(128, 240), (369, 360), (779, 480), (1700, 720), (u32::MAX, 1080)];

/// The video to be packaged.
pub(super) struct Source {
    upright: Upright,
    rate: FrameRate,
}

impl Source {
    /// What was converted, for the user.
    pub(super) fn notes(&self) -> Vec<String> {
        self.upright.notes.clone()
    }
}

/// Inspects the file.
pub(super) fn probe(path: &Path) -> Result<Source, PackageError> {
    let (mut upright, times) = source::probe(path, Use::Flat)?;
    let not_video =
        |reason: &str| PackageError::NotVideo { path: path.to_owned(), reason: reason.to_owned() };
    let (width, height) = upright.size;
    if !(16..=16_384).contains(&width) || !(16..=16_384).contains(&height) {
        return Err(not_video("it has no pictures of 16 to 16384 pixels a side"));
    }
    let no_rate =
        "it does not say how many pictures it has a second; say it with ffmpeg -r RATE -i IN -c copy OUT";
    let rate = times.rate.ok_or_else(|| not_video(no_rate))?;
    if !times.constant {
        upright.notes.push(format!("resampled from a variable rate to {rate} pictures a second"));
    }
    Ok(Source { upright, rate })
}

/// The representations of a ladder. The bitrate determines the height, which is never above the source's.
fn representations(source: &Source, ladder: &[u32]) -> Vec<Representation> {
    let even = |pixels: u32| (pixels & !1).max(16);
    let (whole_width, whole_height) = (source.upright.size.0 as u64, source.upright.size.1 as u32);
    let of = |(at, kbps): (usize, &u32)| {
        let allowed = HEIGHTS.iter().find(|(most, _)| kbps <= most).map_or(1080, |(_, height)| *height);
        let height = even(whole_height.min(allowed));
        let width = whole_width * u64::from(height) / u64::from(whole_height);
        Representation {
            id: (at + 1).to_string(),
            nominal_bps: u64::from(*kbps) * 1000,
            actual_bps: 0,
            width: even(width as u32),
            height,
            codecs: String::new(),
        }
    };
    ladder.iter().enumerate().map(of).collect()
}

/// The arguments of one ffmpeg process, which decodes once and encodes every representation, with key pictures at the
/// same times.
fn arguments(
    (video, source): (&Path, &Source),
    of: &[Representation],
    settings: &Settings,
    into: &Path,
) -> Vec<OsString> {
    let mut all: Vec<OsString> = Vec::new();
    let mut add = |items: &[&str]| all.extend(items.iter().map(OsString::from));
    add(&["-nostdin", "-v", "error", "-y", "-progress", "pipe:1", "-stats_period", "0.2"]);
    add(&["-protocol_whitelist", "file,pipe"]);
    if let Some(seconds) = settings.seconds {
        add(&["-t", &seconds.to_string()]);
    }
    add(&["-noautorotate", "-i"]);
    all.push(name_of(video));
    let upright: String = source.upright.filters.iter().map(|filter| format!("{filter},")).collect();
    // Times may begin anywhere, and the rate of the filters' output would be the time base of an uneven input.
    let mut filter =
        format!("[0:V:0]{upright}setpts=PTS-STARTPTS,fps={},format=yuv420p,split={}", source.rate, of.len());
    for at in 0..of.len() {
        filter.push_str(&format!("[s{at}]"));
    }
    for (at, Representation { width, height, .. }) in of.iter().enumerate() {
        filter.push_str(&format!(";[s{at}]scale={width}:{height}:flags=bicubic,setsar=1[v{at}]"));
    }
    all.extend(["-filter_complex".into(), filter.into()]);
    let key = format!("expr:gte(t,n_forced*{SEGMENT})");
    for (at, one) in of.iter().enumerate() {
        let (rate, buffer) = (one.nominal_bps.to_string(), (2 * one.nominal_bps).to_string());
        let map = format!("[v{at}]");
        // No B-pictures: the first picture of a segment is then the first shown.
        let options =
            ["-map", &map, "-fps_mode", "cfr", "-c:v", "libx264", "-preset", &settings.preset, "-bf", "0"];
        all.extend(options.map(OsString::from));
        let options = ["-b:v", &rate, "-maxrate", &rate, "-bufsize", &buffer, "-force_key_frames", &key];
        all.extend(options.map(OsString::from));
        let x264 = "scenecut=0:keyint=infinite:open-gop=0";
        let mp4 = "+frag_keyframe+empty_moov+default_base_moof+dash+global_sidx";
        let options = ["-x264-params", x264, "-movflags", mp4, "-map_metadata", "-1", "-f", "mp4"];
        all.extend(options.map(OsString::from));
        all.push(name_of(&into.join(format!("{}.mp4", one.id))));
    }
    all
}

/// Encodes all representations into the directory `into`.
pub(super) fn encode(
    video: &Path,
    source: &Source,
    settings: &Settings,
    (into, progress, stop): (&Path, &mut dyn FnMut(f64), &dyn Fn() -> bool),
) -> Result<Vec<Representation>, PackageError> {
    let representations = representations(source, &settings.ladder);
    let mut command = Command::new("ffmpeg");
    command.args(arguments((video, source), &representations, settings, into));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Killed when it goes out of scope, also when `Stopped` is returned.
    let mut child = start("ffmpeg", &mut command)?;
    let output = child.stdout.take();
    let complaints = hear(child.stderr.take());
    let asked = settings.seconds.map(f64::from);
    let total =
        source.upright.duration_s.map_or(asked, |all| Some(asked.map_or(all, |asked| asked.min(all))));
    for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()).map_while(Result::ok) {
        if stop() {
            return Err(PackageError::Stopped);
        }
        let done = line.strip_prefix("out_time_us=").and_then(|time| time.trim().parse::<f64>().ok());
        if let (Some(done), Some(total)) = (done, total) {
            progress((done / 1e6 / total).clamp(0.0, 0.99));
        }
    }
    let status = child.wait()?;
    if stop() {
        return Err(PackageError::Stopped);
    }
    let errors = complaints.join().unwrap_or_default();
    if status.success() {
        return Ok(representations);
    }
    Err(ProgramError::Failed { program: "ffmpeg", reason: complaint(&errors) }.into())
}
