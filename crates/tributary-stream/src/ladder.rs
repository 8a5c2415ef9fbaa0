//! A 360° video as one-second GoPs at a ladder of bitrates.
//!
//! ffmpeg and libx264 encode once; the result is kept in a cache directory under the hash of the content and the
//! settings. A short clip is repeated for a long run. The bitrate is constant: filler data brings a GoP of a simple
//! scene to its nominal size. The share of filler is in [`Representation::filler`].

mod cache;
mod ffmpeg;

use crate::gop;
use crate::scene::FRAME_RATE;
use bytes::Bytes;
use core::time::Duration;
use std::path::PathBuf;
use thiserror::Error;
use tributary_tiles::program::ProgramError;
use tributary_tiles::source::SourceError;
use tributary_types::{Bitrate, Rng};

/// Source of the video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The scene that this crate renders.
    Scene,
    /// A video file.
    File(PathBuf),
}

/// Settings of the encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LadderSettings {
    /// Nominal bitrates, ascending.
    pub rates: Vec<Bitrate>,
    /// Seconds of distinct content, one GoP each; a shorter file gives fewer.
    pub seconds: u32,
    /// Width to scale to, with the height in proportion; `None` keeps the source's size.
    pub width: Option<u32>,
    /// Whether to accept pictures whose width is not twice their height.
    pub any_aspect: bool,
    /// The cache directory of finished ladders.
    pub cache: PathBuf,
}

/// One rung of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct Representation {
    /// Bitrate requested from the encoder.
    pub nominal: Bitrate,
    /// Bitrate of the encoder's output, filler included.
    pub real: Bitrate,
    /// Share of filler in the bytes, 0 to 1.
    pub filler: f64,
}

/// Why a ladder cannot be made.
#[derive(Debug, Error)]
pub enum LadderError {
    /// A program is missing or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The file does not exist or cannot be read.
    #[error("cannot read the video {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The pictures are stored in a way that is not converted.
    #[error(transparent)]
    Stored(SourceError),
    /// ffmpeg cannot read the file as video.
    #[error("{path} is not a video that ffmpeg can read: {reason}")]
    NotVideo {
        /// The file.
        path: PathBuf,
        /// ffmpeg's reason.
        reason: String,
    },
    /// The file has sound but no video track.
    #[error("{path} has no video track, only sound or data")]
    NoPicture {
        /// The file.
        path: PathBuf,
    },
    /// The picture is not equirectangular.
    #[error(
        "{path} is {width}×{height}; an equirectangular 360° video is twice as wide as high \
         (accept any aspect to stream it all the same)"
    )]
    Aspect {
        /// The file.
        path: PathBuf,
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// The content is shorter than one second.
    #[error("{0} is shorter than one second of video")]
    TooShort(String),
    /// A setting is invalid.
    #[error("ladder setting {name}: {reason}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// The reason and valid values.
        reason: String,
    },
    /// ffmpeg failed.
    #[error("ffmpeg failed: {0}")]
    Encoder(String),
    /// The encoder's output is not as requested.
    #[error("the encoder's output is broken: {0}")]
    Output(String),
    /// The cache directory cannot be used.
    #[error("cannot use the cache {path}: {source}")]
    Cache {
        /// The directory or file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl From<SourceError> for LadderError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Unreadable { path, source } => Self::Unreadable { path, source },
            SourceError::NotVideo { path, reason } => Self::NotVideo { path, reason },
            SourceError::NoPicture { path } => Self::NoPicture { path },
            SourceError::Program(error) => Self::Program(error),
            stored @ SourceError::Stored { .. } => Self::Stored(stored),
        }
    }
}

/// GoPs of one video at several bitrates, in memory.
#[derive(Clone, Debug)]
pub struct Ladder {
    rates: Vec<Bitrate>,
    gops: Vec<Vec<Bytes>>,
    representations: Vec<Representation>,
    gop_duration: Duration,
    notes: Vec<String>,
}

impl Ladder {
    /// Encodes `source`, or loads it from the cache; `progress` is called with the finished share, 0 to 1.
    ///
    /// Blocks during the encoding, which uses all cores.
    ///
    /// # Errors
    /// Names the file, the setting or the missing program.
    pub fn build(
        source: &Source,
        settings: &LadderSettings,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Self, LadderError> {
        check(settings)?;
        let directory = cache::place(source, settings)?;
        // Also when the ladder is in the cache, because the notes are not.
        let picture = match source {
            Source::Scene => ffmpeg::scene_picture(settings),
            Source::File(path) => ffmpeg::probe(path, settings)?,
        };
        if let Some(streams) = cache::load(&directory, settings.rates.len())
            && let Ok(ladder) = Self::from_streams(&settings.rates, streams)
        {
            progress(1.0);
            return Ok(Self { notes: picture.notes, ..ladder });
        }
        let work = cache::Work::new(&settings.cache)?;
        ffmpeg::encode(source, &picture, settings, (work.path(), progress))?;
        let streams = cache::load(work.path(), settings.rates.len())
            .ok_or_else(|| LadderError::Output("a representation is missing".to_owned()))?;
        let ladder = Self::from_streams(&settings.rates, streams)?;
        work.keep(&directory)?;
        progress(1.0);
        Ok(Self { notes: picture.notes, ..ladder })
    }

    /// What was converted because the source's pictures are not stored as they are shown.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A ladder of pseudo-random GoPs of exactly the nominal sizes, for tests and benchmarks; not decodable.
    #[must_use]
    pub fn synthetic(rates: &[Bitrate], distinct: usize, gop_duration: Duration) -> Self {
        let mut rng = Rng::new(360);
        let gops: Vec<Vec<Bytes>> = rates
            .iter()
            .map(|rate| {
                let size = rate.size_in(gop_duration).as_bytes() as usize;
                let mut one =
                    || (0..size.div_ceil(8)).flat_map(|_| rng.next_u64().to_ne_bytes()).take(size).collect();
                (0..distinct.max(1)).map(|_| one()).collect()
            })
            .collect();
        let representations =
            rates.iter().map(|r| Representation { nominal: *r, real: *r, filler: 0.0 }).collect();
        Self { rates: rates.to_vec(), gops, representations, gop_duration, notes: Vec::new() }
    }

    /// Splits one byte stream per rate into GoPs and checks each of them.
    fn from_streams(rates: &[Bitrate], streams: Vec<Vec<u8>>) -> Result<Self, LadderError> {
        let (mut gops, mut representations) = (Vec::new(), Vec::new());
        for (rate, stream) in rates.iter().zip(streams) {
            let stream = Bytes::from(stream);
            let mut found = gop::split(&stream);
            // The last GoP may be incomplete, because the file may end within it.
            if found.last().is_some_and(|g| g.pictures < FRAME_RATE) {
                found.pop();
            }
            if let Some((number, odd)) =
                found.iter().enumerate().find(|(_, g)| !g.closed || g.pictures != FRAME_RATE)
            {
                return Err(LadderError::Output(format!(
                    "GoP {number} at {rate} has {} pictures instead of {FRAME_RATE}, closed: {}",
                    odd.pictures, odd.closed
                )));
            }
            let total: usize = found.iter().map(|g| g.bytes.len()).sum();
            let filler: usize = found.iter().map(|g| g.filler).sum();
            let real = (total as u64 * 8).checked_div(found.len() as u64).unwrap_or(0);
            representations.push(Representation {
                nominal: *rate,
                real: Bitrate::from_bps(real),
                filler: filler as f64 / total.max(1) as f64,
            });
            gops.push(found.into_iter().map(|g| stream.slice(g.bytes)).collect::<Vec<_>>());
        }
        let count = gops.iter().map(Vec::len).min().unwrap_or(0);
        if count == 0 {
            return Err(LadderError::TooShort("the video".to_owned()));
        }
        gops.iter_mut().for_each(|g| g.truncate(count));
        let (rates, gop_duration) = (rates.to_vec(), Duration::from_secs(1));
        Ok(Self { rates, gops, representations, gop_duration, notes: Vec::new() })
    }

    /// Nominal bitrates, ascending.
    #[must_use]
    pub fn rates(&self) -> &[Bitrate] {
        &self.rates
    }

    /// Nominal and real bitrates, and the share of filler.
    #[must_use]
    pub fn representations(&self) -> &[Representation] {
        &self.representations
    }

    /// Duration of every GoP.
    #[must_use]
    pub fn gop_duration(&self) -> Duration {
        self.gop_duration
    }

    /// Number of GoPs of distinct content.
    #[must_use]
    pub fn distinct(&self) -> usize {
        self.gops.first().map_or(0, Vec::len)
    }

    /// GoP `index`; after the last GoP the content repeats. `None` for an unknown representation.
    #[must_use]
    pub fn gop(&self, representation: usize, index: u64) -> Option<Bytes> {
        let gops = self.gops.get(representation)?;
        let place = index.checked_rem(gops.len() as u64)?;
        gops.get(usize::try_from(place).ok()?).cloned()
    }

    /// The first picture of a GoP as a JPEG of at most `width` pixels, for reports.
    ///
    /// # Errors
    /// When ffmpeg is missing or cannot decode it.
    pub fn still(&self, representation: usize, index: u64, width: u32) -> Result<Vec<u8>, LadderError> {
        let Some(gop) = self.gop(representation, index) else {
            let reason = format!("there are {} representations, not {}", self.gops.len(), representation + 1);
            return Err(LadderError::Setting { name: "representation", reason });
        };
        ffmpeg::still(&gop, width)
    }
}

fn check(settings: &LadderSettings) -> Result<(), LadderError> {
    let wrong = |name, reason: &str| Err(LadderError::Setting { name, reason: reason.to_owned() });
    let rates = &settings.rates;
    if rates.is_empty() || rates.len() > crate::wire::MAX_REPRESENTATIONS as usize {
        return wrong("rates", "give 1 to 64 bitrates");
    }
    if !rates.is_sorted_by(|a, b| a < b) {
        return wrong("rates", "bitrates must ascend, each once");
    }
    if rates[0] < Bitrate::from_bps(100_000) || rates[rates.len() - 1] > Bitrate::from_mbps(2_000) {
        return wrong("rates", "bitrates must lie between 0.1 and 2000 Mbit/s");
    }
    if !(1..=60).contains(&settings.seconds) {
        return wrong("seconds", "distinct content must be 1 to 60 seconds long");
    }
    if settings.width.is_some_and(|w| !(64..=8192).contains(&w)) {
        return wrong("width", "pictures must be 64 to 8192 pixels wide");
    }
    Ok(())
}
