//! The recipe of an ingest, decided before any work: settings checked with the file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use tributary_video::tiles::TileGrid;

use super::track::Track;
use super::{IngestError, PRESETS, Settings};
use crate::encode::Encoder;
use crate::layout::hex;
use crate::rate::FrameRate;
use crate::record::SourceInfo;
use crate::source::{self, Eyes, Times, Upright, Use};

/// The longest side of a picture that libx264 accepts, pixels.
const LONGEST_SIDE: usize = 16_384;
/// The smallest side of a tile: a macroblock.
pub(super) const SMALLEST_TILE: usize = 16;

/// What is made; equal recipes produce equal bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recipe {
    pub(super) source: SourceInfo,
    pub(super) grid: TileGrid,
    pub(super) qps: Vec<u8>,
    /// Of the whole picture, both eyes' if it has two.
    pub(super) size: (usize, usize),
    /// Filters that make the stored pictures upright.
    #[serde(default)]
    pub(super) upright: Vec<String>,
    pub(super) rate: FrameRate,
    pub(super) pictures_per_gop: usize,
    /// Expected number of GoPs; an estimate for a resampled file.
    pub(super) gops: usize,
    /// Most pictures to take.
    pub(super) limit: Option<usize>,
    /// Whether pictures are dropped and repeated to get a constant rate.
    pub(super) resample: bool,
    pub(super) preset: String,
    /// The sound to take.
    #[serde(default)]
    pub(super) sound: Option<Track>,
    pub(super) notes: Vec<String>,
}

impl Recipe {
    /// Checks `settings` with the file.
    pub(super) fn of(path: &Path, settings: &Settings) -> Result<Self, IngestError> {
        let (upright, times) = source::probe(path, Use::Sphere(settings.eyes))?;
        let mut notes = upright.notes.clone();
        let grid = grid(&upright, settings)?;
        let size = size(path, &upright, settings)?;
        if size != upright.size {
            let (width, height) = size;
            notes.push(format!("scaled from {}×{} to {width}×{height}", upright.size.0, upright.size.1));
        }
        let no_rate = || IngestError::Setting {
            name: "--rate",
            reason: "the file does not say how many pictures it has a second; say it".to_owned(),
        };
        let rate = settings.rate.or(times.rate).ok_or_else(no_rate)?;
        let resample = !times.constant || times.rate.is_some_and(|own| own != rate);
        if resample {
            let what = if times.constant { "another" } else { "a variable" };
            notes.push(format!("resampled from {what} rate to {rate} pictures a second"));
        }
        let sound = if settings.sound { Track::of(path, &mut notes)? } else { None };
        let pictures_per_gop = rate.pictures_per_second();
        let limit = settings.seconds.map(|seconds| seconds as usize * pictures_per_gop);
        let gops = whole_gops(path, &times, (rate, resample, limit))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let unreadable = |source| IngestError::Unreadable { path: path.to_owned(), source };
        let (bytes, sha256) = sum(path).map_err(unreadable)?;
        let source = SourceInfo { name, bytes, sha256, width: upright.stored.0, height: upright.stored.1 };
        let (qps, preset) = (settings.qps.clone(), settings.preset.clone());
        let upright = upright.filters;
        Ok(Self {
            source,
            grid,
            qps,
            size,
            upright,
            rate,
            pictures_per_gop,
            gops,
            limit,
            resample,
            preset,
            sound,
            notes,
        })
    }

    pub(super) fn encoder(&self) -> Encoder {
        let (preset, rate, pictures_per_gop) = (self.preset.clone(), self.rate, self.pictures_per_gop);
        Encoder { preset, rate, pictures_per_gop }
    }

    pub(super) fn tile_size(&self) -> (usize, usize) {
        (self.size.0 / self.grid.columns(), self.size.1 / self.grid.rows())
    }
}

/// Checks the settings that do not depend on the file.
pub(crate) fn check(settings: &Settings) -> Result<(), IngestError> {
    let wrong = |name, reason: &str| Err(IngestError::Setting { name, reason: reason.to_owned() });
    let qps = &settings.qps;
    let rising = qps.windows(2).all(|pair| pair[0] < pair[1]);
    if qps.is_empty() || !rising || qps[0] < 1 || qps[qps.len() - 1] > 51 {
        return wrong("--qps", "give different quantisation parameters from 1 (finest) to 51, rising");
    }
    if settings.seconds == Some(0) {
        return wrong("--seconds", "at least one second makes a GoP");
    }
    if !PRESETS.contains(&settings.preset.as_str()) {
        return wrong("--preset", &format!("libx264 has {}", PRESETS.join(", ")));
    }
    Ok(())
}

/// The tiles of the whole picture.
fn grid(upright: &Upright, settings: &Settings) -> Result<TileGrid, IngestError> {
    match (upright.eyes, settings.eyes) {
        (1, Eyes::Both) => Err(IngestError::Setting {
            name: "--eyes",
            reason: "the file does not say that its pictures are stereo; if the left eye's is above the right eye's, \
                     say `top-bottom`"
                .to_owned(),
        }),
        (1, _) => Ok(settings.grid),
        _ => settings
            .grid
            .for_both_eyes()
            .map_err(|error| IngestError::Setting { name: "--grid", reason: error.to_string() }),
    }
}

/// The size of the whole picture, from that of an eye.
pub(crate) fn size(
    path: &Path,
    upright: &Upright,
    settings: &Settings,
) -> Result<(usize, usize), IngestError> {
    let (width, height) = (upright.size.0, upright.size.1 / upright.eyes);
    // A tolerance of 1 %: 3840×1906 is a panorama cropped at the poles, 1920×1080 is flat.
    if !settings.any_aspect && width.abs_diff(height.saturating_mul(2)) > width / 50 {
        return Err(IngestError::Aspect { path: path.to_owned(), width, height, view: upright.view });
    }
    let (width, height) = settings.size.unwrap_or((width, height));
    let (columns, rows) = (settings.grid.columns(), settings.grid.rows());
    if width > LONGEST_SIDE || height > LONGEST_SIDE / upright.eyes {
        let reason = format!("{width}×{height} pixels; no side can be longer than {LONGEST_SIDE}");
        return Err(IngestError::Setting { name: "--size", reason });
    }
    let equal = |side: usize, count: usize| {
        side.is_multiple_of(2 * count) && (SMALLEST_TILE..=LONGEST_SIDE).contains(&(side / count))
    };
    if !equal(width, columns) || !equal(height, rows) {
        let near = |side: usize, count: usize| (side / (2 * count) * 2 * count).max(SMALLEST_TILE * count);
        let fits = format!("{}x{}", near(width, columns), near(height, rows));
        return Err(IngestError::Grid { width, height, columns, rows, fits });
    }
    Ok((width, height * upright.eyes))
}

/// Number of whole GoPs in the file.
fn whole_gops(
    path: &Path,
    times: &Times,
    (rate, resample, limit): (FrameRate, bool, Option<usize>),
) -> Result<usize, IngestError> {
    let needed = rate.pictures_per_second();
    let Times { announced, found, .. } = *times;
    // At the output's rate.
    let ratio = if resample { times.rate.map_or(1.0, |own| rate.as_f64() / own.as_f64()) } else { 1.0 };
    let available = (found as f64 * ratio) as usize;
    if let Some(announced) = announced {
        // Edit lists and rounded durations hide a few pictures.
        let whole = found + 2 + announced / 50 >= announced;
        if !whole && limit.is_none_or(|limit| limit > available) {
            let (path, seconds) = (path.to_owned(), available / needed);
            return Err(IngestError::Truncated { path, announced, found, seconds });
        }
    }
    let gops = limit.map_or(available, |limit| limit.min(available)) / needed;
    if gops == 0 {
        return Err(IngestError::TooShort { path: path.to_owned(), found, needed });
    }
    Ok(gops)
}

/// Size and SHA-256 of a file.
fn sum(path: &Path) -> io::Result<(u64, String)> {
    let (mut file, mut digest, mut bytes) = (File::open(path)?, Context::new(&SHA256), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((bytes, hex(digest.finish().as_ref()))),
            count => {
                digest.update(&buffer[..count]);
                bytes += count as u64;
            }
        }
    }
}
