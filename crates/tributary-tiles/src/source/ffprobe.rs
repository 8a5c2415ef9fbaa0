//! ffprobe's answers.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::{SourceError, check_regular};
use crate::program::{self, ProgramError, name_of};

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    streams: Vec<Stream>,
    #[serde(default)]
    frames: Vec<Frame>,
    format: Option<Format>,
}

/// A video track. Names and texts are ffprobe's.
#[derive(Deserialize, Default)]
pub(super) struct Stream {
    pub(super) codec_type: Option<String>,
    pub(super) codec_name: Option<String>,
    /// Of sound.
    pub(super) channels: Option<u32>,
    pub(super) channel_layout: Option<String>,
    /// Seconds.
    pub(super) start_time: Option<String>,
    pub(super) width: Option<usize>,
    pub(super) height: Option<usize>,
    pub(super) sample_aspect_ratio: Option<String>,
    pub(super) field_order: Option<String>,
    pub(super) color_range: Option<String>,
    pub(super) color_space: Option<String>,
    pub(super) color_transfer: Option<String>,
    pub(super) color_primaries: Option<String>,
    pub(super) avg_frame_rate: Option<String>,
    pub(super) r_frame_rate: Option<String>,
    pub(super) nb_frames: Option<String>,
    /// Of the track, or else of the file.
    pub(super) duration: Option<String>,
    pub(super) disposition: Option<Disposition>,
    #[serde(default)]
    pub(super) tags: Tags,
    #[serde(default)]
    pub(super) side_data_list: Vec<SideData>,
    /// What the first picture says beside the track.
    #[serde(skip)]
    pub(super) picture: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Disposition {
    attached_pic: Option<u8>,
}

#[derive(Deserialize, Default)]
pub(super) struct Tags {
    pub(super) stereo_mode: Option<String>,
    pub(super) rotate: Option<String>,
}

/// Data beside the pictures; `side_data_type` says which fields are given.
#[derive(Deserialize, Default, Clone)]
pub(super) struct SideData {
    #[serde(default)]
    pub(super) side_data_type: String,
    pub(super) displaymatrix: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) inverted: Option<u8>,
    pub(super) projection: Option<String>,
    pub(super) yaw: Option<f64>,
    pub(super) pitch: Option<f64>,
    pub(super) roll: Option<f64>,
    pub(super) bound_left: Option<u64>,
    pub(super) bound_top: Option<u64>,
    pub(super) bound_right: Option<u64>,
    pub(super) bound_bottom: Option<u64>,
    pub(super) dv_profile: Option<u32>,
}

#[derive(Deserialize)]
struct Frame {
    #[serde(default)]
    side_data_list: Vec<SideData>,
}

#[derive(Deserialize)]
struct Format {
    duration: Option<String>,
    start_time: Option<String>,
}

impl Stream {
    /// Duration in seconds.
    pub(super) fn duration_s(&self) -> Option<f64> {
        let seconds = self.duration.as_ref()?.parse().ok();
        seconds.filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0)
    }

    /// The side data of this type.
    pub(super) fn side(&self, kind: &str) -> Option<&SideData> {
        self.side_data_list.iter().find(|data| data.side_data_type == kind)
    }
}

/// The first video track of a file.
pub(super) fn stream(path: &Path) -> Result<Stream, SourceError> {
    check_regular(path)?;
    let answer = json(path, &["-show_streams", "-show_format"])?;
    let Some(mut stream) = answer.streams.into_iter().find(is_moving) else {
        return Err(SourceError::NoPicture { path: path.to_owned() });
    };
    // Stereo and orientation messages are in the coded pictures. A picture that cannot be decoded is reported by the
    // encoder.
    let first = ["-select_streams", "V:0", "-show_frames", "-read_intervals", "%+#1"];
    if let Ok(Answer { frames, .. }) = json(path, &first) {
        let data = frames.into_iter().flat_map(|frame| frame.side_data_list);
        stream.picture = data.map(|data| data.side_data_type).collect();
    }
    stream.duration = stream.duration.or(answer.format.and_then(|format| format.duration));
    Ok(stream)
}

/// A cover picture in a sound file is not a video.
fn is_moving(stream: &Stream) -> bool {
    stream.codec_type.as_deref() == Some("video")
        && stream.disposition.as_ref().and_then(|d| d.attached_pic).unwrap_or(0) == 0
}

/// The first track of sound of a file, and how many seconds after the file's beginning the first picture comes.
pub(super) fn sound(path: &Path) -> Result<Option<(Stream, f64)>, SourceError> {
    let answer = json(path, &["-show_streams", "-show_format"])?;
    let seconds =
        |text: Option<&String>| text.and_then(|text| text.parse().ok()).filter(|s: &f64| s.is_finite());
    let begins = seconds(answer.format.as_ref().and_then(|format| format.start_time.as_ref())).unwrap_or(0.0);
    let pictures = answer.streams.iter().find(|stream| is_moving(stream));
    let first = seconds(pictures.and_then(|stream| stream.start_time.as_ref())).unwrap_or(begins);
    let sound = answer.streams.into_iter().find(|stream| stream.codec_type.as_deref() == Some("audio"));
    Ok(sound.map(|stream| (stream, (first - begins).max(0.0))))
}

/// A line for each packet of the first video track: time in seconds, flags.
pub(super) fn packets(path: &Path) -> Result<Vec<u8>, SourceError> {
    let entries = ["-select_streams", "V:0", "-show_entries", "packet=pts_time,flags", "-of", "csv=p=0"];
    ask(path, &entries)
}

fn json(path: &Path, what: &[&str]) -> Result<Answer, SourceError> {
    let answer = ask(path, &[what, &["-of", "json"]].concat())?;
    serde_json::from_slice(&answer)
        .map_err(|error| SourceError::NotVideo { path: path.to_owned(), reason: error.to_string() })
}

fn ask(path: &Path, what: &[&str]) -> Result<Vec<u8>, SourceError> {
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-protocol_whitelist", "file,pipe"]).args(what).arg("-i").arg(name_of(path));
    program::run("ffprobe", &mut command, b"").map_err(|error| match error {
        ProgramError::Failed { reason, .. } => SourceError::NotVideo { path: path.to_owned(), reason },
        other => other.into(),
    })
}
