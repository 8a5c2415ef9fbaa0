//! A DASH playback as the input of ITU-T P.1203's reference implementation (itu-p1203), mode 0: bitrate, frame rate, resolution
//! and duration of every segment that was shown, start-up and stalls.
//!
//! The playback is what `tributary dash play --json` prints. It does not say how long segments are and what their pictures look
//! like, so the caller does. There is no audio (I11 is empty): the implementation then takes constant quality of audio.
//! Source: ITU-T P.1203 (10/2017), clause 7; the format of github.com/itu-p1203/itu-p1203.

use core::time::Duration;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Resolution and bitrate are those of one stream.
const STREAM: u32 = 1;

/// What the playback does not say.
#[derive(Clone, Debug, PartialEq)]
pub struct Video {
    /// Length of a segment.
    pub segment: Duration,
    /// Resolution of each quality, the lowest first: `1280x720`.
    pub resolutions: Vec<String>,
    /// Frames a second.
    pub fps: f64,
    /// `h264`; the implementation's extensions know others.
    pub codec: String,
    /// Where it is watched: `pc` or `mobile`.
    pub device: String,
    /// Resolution of the display.
    pub display: String,
    /// Distance of the viewer, as the implementation writes it: `150cm`.
    pub distance: String,
}

/// Why there is no input.
#[derive(Debug, Error)]
pub enum P1203Error {
    /// The text is no playback.
    #[error("line {line}, column {column}: {problem}; give what `tributary dash play --json` prints")]
    NoPlayback {
        /// Counted from one.
        line: usize,
        /// Counted from one.
        column: usize,
        /// The reason.
        problem: String,
    },
    /// A quality has no resolution.
    #[error(
        "the playback has quality {quality} (from 0), and {given} resolutions are given: give one for each of its {qualities}"
    )]
    Resolution {
        /// The quality.
        quality: usize,
        /// Resolutions given.
        given: usize,
        /// Qualities of the title.
        qualities: usize,
    },
    /// Nothing was shown.
    #[error("nothing was shown, so there is nothing to judge")]
    Nothing,
    /// A resolution cannot be read.
    #[error("`{0}` is no resolution; write it as 1280x720")]
    Malformed(String),
}

#[derive(Deserialize)]
struct Playback {
    ladder_bps: Vec<u64>,
    #[serde(default)]
    later_ladders: Vec<Later>,
    qoe: Qoe,
    events: Vec<Entry>,
}

/// Another ladder from a segment on.
#[derive(Deserialize)]
struct Later {
    from: usize,
    bps: Vec<u64>,
}

#[derive(Deserialize)]
struct Qoe {
    start_up_s: Option<f64>,
    played_s: f64,
    segments: Vec<Loaded>,
}

#[derive(Deserialize)]
struct Loaded {
    segment: usize,
    quality: usize,
}

#[derive(Deserialize)]
struct Entry {
    at_s: f64,
    event: Option<String>,
}

/// The reference implementation's input.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Input {
    /// Audio.
    #[serde(rename = "I11")]
    pub audio: Segments,
    /// Video.
    #[serde(rename = "I13")]
    pub video: Segments,
    /// Start-up and stalls.
    #[serde(rename = "I23")]
    pub stalling: Stalling,
    /// The viewer.
    #[serde(rename = "IGen")]
    pub general: General,
}

/// Segments of a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Segments {
    /// In order.
    pub segments: Vec<Segment>,
    /// Number of the stream.
    pub stream_id: u32,
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Segment {
    /// kbit/s.
    pub bitrate: f64,
    /// Codec.
    pub codec: String,
    /// Seconds.
    pub duration: f64,
    /// Frames a second.
    pub fps: f64,
    /// Width and height.
    pub resolution: String,
    /// Seconds of media before it.
    pub start: f64,
}

/// Stalls.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stalling {
    /// Seconds of media before each stall, and its length in seconds; the first one, at zero, is the start-up.
    pub stalling: Vec<(f64, f64)>,
    /// Number of the stream.
    pub stream_id: u32,
}

/// The viewer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct General {
    /// `pc` or `mobile`.
    pub device: String,
    /// Resolution of the display.
    pub display_size: String,
    /// Distance.
    pub viewing_distance: String,
}

impl Input {
    /// From the JSON of a playback.
    ///
    /// # Errors
    /// [`P1203Error`] names line and column of the JSON, or what is missing.
    pub fn new(json: &str, video: &Video) -> Result<Self, P1203Error> {
        for resolution in video.resolutions.iter().chain([&video.display]) {
            let number = |text: &str| text.parse::<u32>().is_ok_and(|number| number > 0);
            if !resolution.split_once('x').is_some_and(|(width, height)| number(width) && number(height)) {
                return Err(P1203Error::Malformed(resolution.clone()));
            }
        }
        let mut playback: Playback = serde_json::from_str(json).map_err(|error| P1203Error::NoPlayback {
            line: error.line(),
            column: error.column(),
            problem: error.to_string(),
        })?;
        playback.qoe.segments.sort_by_key(|loaded| loaded.segment);
        let segments = playback.shown(video)?;
        if segments.is_empty() {
            return Err(P1203Error::Nothing);
        }
        let (codec, display_size, viewing_distance) =
            (video.device.clone(), video.display.clone(), video.distance.clone());
        Ok(Self {
            audio: Segments { segments: Vec::new(), stream_id: STREAM },
            video: Segments { segments, stream_id: STREAM },
            stalling: Stalling { stalling: playback.stalls(), stream_id: STREAM },
            general: General { device: codec, display_size, viewing_distance },
        })
    }
}

impl Playback {
    /// The segments that were shown; the last one as far as it was.
    fn shown(&self, video: &Video) -> Result<Vec<Segment>, P1203Error> {
        let length = video.segment.as_secs_f64();
        let (mut segments, mut start) = (Vec::new(), 0.0);
        for loaded in &self.qoe.segments {
            let duration = length.min(self.qoe.played_s - start);
            if duration <= 0.0 {
                break;
            }
            let later = self.later_ladders.iter().rev().find(|ladder| ladder.from <= loaded.segment);
            let ladder = later.map_or(&self.ladder_bps, |ladder| &ladder.bps);
            let missing = || P1203Error::Resolution {
                quality: loaded.quality,
                given: video.resolutions.len(),
                qualities: ladder.len(),
            };
            let bps = ladder.get(loaded.quality).ok_or_else(missing)?;
            segments.push(Segment {
                bitrate: *bps as f64 / 1e3,
                codec: video.codec.clone(),
                duration,
                fps: video.fps,
                resolution: video.resolutions.get(loaded.quality).ok_or_else(missing)?.clone(),
                start,
            });
            start += duration;
        }
        Ok(segments)
    }

    /// Start-up and stalls. A stall that lasts to the end of the log has the length up to there.
    fn stalls(&self) -> Vec<(f64, f64)> {
        let mut stalls: Vec<(f64, f64)> =
            self.qoe.start_up_s.map(|length| (0.0, length)).into_iter().collect();
        let (mut began, mut waited, mut stopped) = (None, 0.0, None);
        let end = self.events.iter().map(|entry| entry.at_s).fold(0.0, f64::max);
        for entry in &self.events {
            match (entry.event.as_deref(), began, stopped) {
                (Some("started"), ..) => began = Some(entry.at_s),
                (Some("stalled"), Some(_), None) => stopped = Some(entry.at_s),
                (Some("resumed"), Some(began), Some(at)) => {
                    stalls.push((at - began - waited, entry.at_s - at));
                    waited += entry.at_s - at;
                    stopped = None;
                }
                _ => {}
            }
        }
        stalls.extend(began.zip(stopped).map(|(began, at)| (at - began - waited, end - at)));
        stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAYBACK: &str = r#"{"transports":["session"],"rule":"bola","ladder_bps":[500000,2000000],
        "qoe":{"start_up_s":0.8,"played_s":5.0,"segments":[
            {"segment":1,"quality":1,"bytes":500000},{"segment":0,"quality":0,"bytes":125000},
            {"segment":2,"quality":1,"bytes":500000},{"segment":3,"quality":1,"bytes":500000}]},
        "events":[{"at_s":0.1,"notice":"hello"},{"at_s":1.0,"event":"started"},{"at_s":3.5,"event":"stalled"},
            {"at_s":4.0,"event":"resumed"},{"at_s":5.5,"event":"stalled"},{"at_s":5.75,"event":"resumed"}]}"#;

    fn video(resolutions: &[&str]) -> Video {
        Video {
            segment: Duration::from_secs(2),
            resolutions: resolutions.iter().map(|text| (*text).to_owned()).collect(),
            fps: 25.0,
            codec: "h264".to_owned(),
            device: "pc".to_owned(),
            display: "1920x1080".to_owned(),
            distance: "150cm".to_owned(),
        }
    }

    #[test]
    fn segments_that_were_shown_and_stalls_in_media_time() {
        let input = Input::new(PLAYBACK, &video(&["640x360", "1280x720"])).unwrap();
        let segments: Vec<(f64, f64, f64, &str)> = input
            .video
            .segments
            .iter()
            .map(|segment| (segment.start, segment.duration, segment.bitrate, segment.resolution.as_str()))
            .collect();
        assert_eq!(
            segments,
            [(0.0, 2.0, 500.0, "640x360"), (2.0, 2.0, 2000.0, "1280x720"), (4.0, 1.0, 2000.0, "1280x720")]
        );
        assert_eq!(input.stalling.stalling, [(0.0, 0.8), (2.5, 0.5), (4.0, 0.25)]);
        let json = serde_json::to_value(&input).unwrap();
        assert_eq!(json["I13"]["streamId"], 1);
        assert_eq!(json["IGen"]["displaySize"], "1920x1080");
        assert_eq!(
            (&json["I23"]["stalling"][1][0], json["I11"]["segments"].as_array().unwrap().len()),
            (&2.5.into(), 0)
        );
    }

    #[test]
    fn what_is_missing_or_broken_is_named() {
        let of =
            |json: &str, resolutions: &[&str]| Input::new(json, &video(resolutions)).unwrap_err().to_string();
        let error = of(PLAYBACK, &["640x360"]);
        assert!(error.contains("quality 1") && error.contains("each of its 2"), "{error}");
        assert!(of(PLAYBACK, &["640", "1x1"]).contains("`640` is no resolution"));
        let broken = PLAYBACK.replace("\"played_s\":5.0", "\"played_s\":\"x\"");
        let error = of(&broken, &["1x1", "1x1"]);
        assert!(
            error.starts_with("line 2, column ") && error.contains("tributary dash play --json"),
            "{error}"
        );
        let nothing = PLAYBACK.replace("\"played_s\":5.0", "\"played_s\":0.0");
        assert!(of(&nothing, &["1x1", "1x1"]).contains("nothing was shown"));
        assert!(of("", &[]).starts_with("line 1, column 0"));
    }
}
