//! The track of sound that an ingest takes, and how it becomes one or two channels that begin with the first picture.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::IngestError;
use crate::mp4::sound::TIMESCALE;
use crate::record::SoundInfo;
use crate::source;

/// Mean bitrate for each channel, kbit/s: music without audible loss, and a GoP of one second fits into one message of a tile.
const KBPS: u32 = 48;

/// The track to take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Track {
    /// Channels of the output.
    pub(super) channels: u8,
    /// Whether only the first of the source's channels is taken.
    first: bool,
    /// What is cut from its beginning, which comes before the first picture, microseconds.
    cut_us: u64,
}

impl Track {
    /// The first track of sound of a file, if it has any.
    pub(super) fn of(path: &Path, notes: &mut Vec<String>) -> Result<Option<Self>, IngestError> {
        let Some(sound) = source::sound(path)? else { return Ok(None) };
        let from = sound.channels;
        let (channels, first) = match from {
            _ if sound.ambisonic => (1, true),
            1 => (1, false),
            _ => (2, false),
        };
        if first {
            notes.push(format!("of {from} channels of sound for all directions only the first is taken"));
        } else if from > 2 {
            notes.push(format!("{from} channels of sound are mixed down to 2"));
        }
        let cut_us = (sound.before_pictures_s * 1e6).round() as u64;
        Ok(Some(Self { channels, first, cut_us }))
    }

    /// For the record.
    pub(super) fn info(&self) -> SoundInfo {
        let channels = self.channels;
        SoundInfo { codec: "opus".to_owned(), rate_hz: TIMESCALE, channels, kbps: KBPS * u32::from(channels) }
    }

    /// Time 0 of the output is the first picture; what is missing there or between is silence.
    pub(super) fn filter(&self) -> String {
        let cut = match self.cut_us {
            0 => String::new(),
            us => format!("atrim=start={us}us,asetpts=PTS-{us}/1000000/TB,"),
        };
        let first = if self.first { "pan=mono|c0=c0," } else { "" };
        format!("{cut}{first}aresample={TIMESCALE}:async=1:first_pts=0")
    }
}
