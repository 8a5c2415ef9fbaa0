//! Reads a file with ffprobe: picture size, number of pictures, and their times.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::IngestError;
use crate::program::{self, ProgramError, name_of};
use crate::rate::FrameRate;

/// A file's video track.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Probe {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Pictures announced by the header.
    pub(super) announced: Option<usize>,
    /// Pictures in the file.
    pub(super) found: usize,
    /// Picture rate, and whether all intervals are equal.
    pub(super) rate: Option<FrameRate>,
    pub(super) constant: bool,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    streams: Vec<Stream>,
    format: Option<Format>,
}

#[derive(Deserialize)]
struct Stream {
    codec_type: Option<String>,
    width: Option<usize>,
    height: Option<usize>,
    avg_frame_rate: Option<String>,
    r_frame_rate: Option<String>,
    nb_frames: Option<String>,
    duration: Option<String>,
    disposition: Option<Disposition>,
}

#[derive(Deserialize)]
struct Disposition {
    attached_pic: Option<u8>,
}

#[derive(Deserialize)]
struct Format {
    duration: Option<String>,
}

/// Inspects a file: reads all packets without decoding.
pub(super) fn probe(path: &Path) -> Result<Probe, IngestError> {
    let unreadable = |source| IngestError::Unreadable { path: path.to_owned(), source };
    let metadata = fs::metadata(path).and_then(|m| fs::File::open(path).map(|_| m)).map_err(unreadable)?;
    // Opening a FIFO would block until it has a writer.
    if !metadata.is_file() {
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
    }
    let entries = "stream=codec_type,width,height,avg_frame_rate,r_frame_rate,nb_frames,duration:\
                   stream_disposition=attached_pic:format=duration";
    let answer = ask(path, &["-show_entries", entries, "-of", "json"])?;
    let not_video = |reason: String| IngestError::NotVideo { path: path.to_owned(), reason };
    let answer: Answer = serde_json::from_slice(&answer).map_err(|e| not_video(e.to_string()))?;
    // A cover picture in a sound file is not a video.
    let moving = |s: &&Stream| {
        s.codec_type.as_deref() == Some("video")
            && s.disposition.as_ref().and_then(|d| d.attached_pic).unwrap_or(0) == 0
    };
    let Some(stream) = answer.streams.iter().find(moving) else {
        return Err(IngestError::NoPicture { path: path.to_owned() });
    };
    let (Some(width @ 1..), Some(height @ 1..)) = (stream.width, stream.height) else {
        return Err(not_video("its pictures have no size".to_owned()));
    };
    let (times, hidden) = times(&ask(
        path,
        &["-select_streams", "V:0", "-show_entries", "packet=pts_time,flags", "-of", "csv=p=0"],
    )?);
    let found = times.len();
    let (rate, constant) = rate_of(stream, &times);
    let seconds = [&stream.duration, &answer.format.and_then(|f| f.duration)]
        .into_iter()
        .find_map(|d| d.as_ref()?.parse::<f64>().ok());
    let counted = stream.nb_frames.as_ref().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
    let estimate = || Some((seconds? * rate?.as_f64()).round() as usize);
    let counted = counted.map(|n: usize| n.saturating_sub(hidden));
    let announced = counted.or_else(|| if constant { estimate() } else { None });
    Ok(Probe { width, height, announced, found, rate, constant })
}

fn ask(path: &Path, what: &[&str]) -> Result<Vec<u8>, IngestError> {
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-protocol_whitelist", "file,pipe"]).args(what).arg("-i").arg(name_of(path));
    program::run("ffprobe", &mut command, b"").map_err(|error| match error {
        ProgramError::Failed { reason, .. } => IngestError::NotVideo { path: path.to_owned(), reason },
        other => other.into(),
    })
}

/// The presentation time of each picture in seconds, ascending, NaN if the file has none; and the number of
/// pictures hidden by an edit list.
fn times(text: &[u8]) -> (Vec<f64>, usize) {
    let text = String::from_utf8_lossy(text);
    let (mut times, mut hidden) = (Vec::new(), 0);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (time, flags) = line.split_once(',').unwrap_or((line, ""));
        // ffprobe's flags: key picture, discarded.
        if flags.contains('D') {
            hidden += 1;
        } else {
            times.push(time.trim().parse().unwrap_or(f64::NAN));
        }
    }
    times.sort_by(f64::total_cmp);
    (times, hidden)
}

/// The rate of a track, and whether all intervals between pictures are equal.
fn rate_of(stream: &Stream, times: &[f64]) -> (Option<FrameRate>, bool) {
    let told = |text: &Option<String>| text.as_ref().and_then(|t| t.parse::<FrameRate>().ok());
    let (average, base) = (told(&stream.avg_frame_rate), told(&stream.r_frame_rate));
    let mut steps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.sort_by(f64::total_cmp);
    let Some(step) = steps.get(steps.len() / 2).copied().filter(|_| times.iter().all(|t| t.is_finite()))
    else {
        // A raw stream has no times: only the header's rate is known.
        return (average.or(base), true);
    };
    // Containers round times, Matroska to a millisecond.
    let even = |other: &f64| (other - step).abs() <= (0.25 * step).max(0.002);
    let constant = steps.iter().all(even);
    let near = |rate: &FrameRate| (rate.as_f64() * step - 1.0).abs() < 0.05;
    let measured = || format!("{:.3}", 1.0 / step).parse().ok();
    (average.filter(near).or(base.filter(near)).or_else(measured), constant)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(average: &str, base: &str) -> Stream {
        Stream {
            codec_type: None,
            width: None,
            height: None,
            avg_frame_rate: Some(average.to_owned()),
            r_frame_rate: Some(base.to_owned()),
            nb_frames: None,
            duration: None,
            disposition: None,
        }
    }

    fn shown(stream: &Stream, times: &[f64]) -> (String, bool) {
        let (rate, constant) = rate_of(stream, times);
        (rate.map_or("none".to_owned(), |rate| rate.to_string()), constant)
    }

    #[test]
    fn times_rounded_to_milliseconds_are_still_constant() {
        let times: Vec<f64> = (0..90).map(|n| (f64::from(n) * 1001.0 / 30.0).round() / 1000.0).collect();
        assert_eq!(shown(&stream("30000/1001", "30000/1001"), &times), ("30000/1001".to_owned(), true));
    }

    #[test]
    fn a_gap_or_a_change_of_rate_is_variable() {
        let gap: Vec<f64> = (0..90).filter(|n| *n != 40).map(|n| f64::from(n) / 25.0).collect();
        assert_eq!(shown(&stream("24/1", "25/1"), &gap), ("24/1".to_owned(), false));
        let change = (0..60).map(|n| f64::from(n) / 60.0).chain((0..30).map(|n| 1.0 + f64::from(n) / 30.0));
        assert_eq!(shown(&stream("45/1", "120/1"), &change.collect::<Vec<_>>()), ("60/1".to_owned(), false));
    }

    #[test]
    fn without_timestamps_the_header_is_used() {
        assert_eq!(shown(&stream("25/1", "50/1"), &[f64::NAN; 9]), ("25/1".to_owned(), true));
        assert_eq!(shown(&stream("0/0", "0/0"), &[0.0]), ("none".to_owned(), true));
        let (times, hidden) = times(b"-0.04,KD\n0.04,_\n\n0.00,__,\nN/A,K_\n");
        assert_eq!((times.len(), &times[..2], hidden), (3, &[0.0, 0.04][..], 1));
    }
}
