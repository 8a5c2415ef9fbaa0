//! Makes a measured viewing from the user's options. Names and files are checked before connecting.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::{Kept, PlayConfig, PlayFailure, Played, Spool, label, play};
use crate::tiled::{self, Planner, PlayerSettings, TiledRecord};
use thiserror::Error;
use tributary_report::Media;
use tributary_tiles::{TiledError, TiledVideo};
use tributary_types::Bitrate;
use tributary_video::allocation::UnknownAllocator;
use tributary_video::head::{self, Format, HeadSample, HeadTrace, ReadError, UnknownFormat};
use tributary_video::rd::Concealment;
use tributary_video::sphere::Orientation;
use tributary_video::viewport::{FieldOfView, FieldOfViewError};

use super::measure::{MeasureError, MeasureSettings, Measured, measure};
use super::outcome::{self, Knowledge, Load, Quality, TiledResult};
use super::recording::Recording;

/// Slots whose record is kept of a viewing without end: a tile that comes later than this many GoPs is of no use to anybody.
const SLOTS_KEPT: u32 = 64;

/// Settings of the viewer, its planning and measuring.
#[derive(Debug, Clone)]
pub struct ViewerConfig {
    /// The allocator's name.
    pub allocator: String,
    /// Whether to choose qualities by exact dynamic programming.
    pub exact: bool,
    /// File and format of the head movement; `None`: looks straight ahead without moving.
    pub head: Option<(PathBuf, String)>,
    /// Other viewers of the same video, in the same format.
    pub crowd: Vec<PathBuf>,
    /// Concealment of missing tiles.
    pub concealment: Concealment,
    /// Duration in seconds; `None`: the video once.
    pub seconds: Option<u32>,
    /// The rate assumed before anything is measured.
    pub assumed: Bitrate,
    /// Plans per GoP; `None`: the allocator's default, see [`ViewerConfig::plans`].
    pub plans: Option<u16>,
    /// Field of view, degrees.
    pub field: (f64, f64),
    /// The viewport's width, pixels.
    pub width: usize,
    /// Whether the view is recorded as video, for a report.
    pub record: bool,
    /// Whether to ask for the low-resolution stream instead of the tiles.
    pub low_resolution: bool,
}

impl Default for ViewerConfig {
    /// `ows`, freezing, 110° × 90° in 720 pixels, 10 Mbit/s assumed, looking straight ahead.
    fn default() -> Self {
        Self {
            allocator: "ows".to_owned(),
            exact: false,
            head: None,
            crowd: Vec::new(),
            concealment: Concealment::Freeze,
            seconds: None,
            assumed: Bitrate::from_bps(10_000_000),
            plans: None,
            field: (110.0, 90.0),
            width: 720,
            record: false,
            low_resolution: false,
        }
    }
}

impl ViewerConfig {
    /// Number of plans per GoP.
    #[must_use]
    pub fn plans(&self) -> u16 {
        self.plans.unwrap_or_else(|| tiled::default_plans(&self.allocator)).max(1)
    }
}

/// Why the viewer's options are refused.
#[derive(Debug, Error)]
pub enum ViewError {
    /// The allocator is unknown.
    #[error(transparent)]
    Allocator(#[from] UnknownAllocator),
    /// The format is unknown.
    #[error(transparent)]
    Format(#[from] UnknownFormat),
    /// The field of view is invalid.
    #[error(transparent)]
    Field(#[from] FieldOfViewError),
    /// The viewport's width is invalid.
    #[error("the viewport is {0} pixels wide; it must be 16 to 8192")]
    Width(usize),
    /// A head movement cannot be opened.
    #[error("cannot open the head movement {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A head movement is invalid.
    #[error("{path} as {format}: {source}; formats are plain, nasrabadi19, jin22, wu17 (--head-format)")]
    Trace {
        /// The file.
        path: PathBuf,
        /// The format it was read as.
        format: Format,
        /// The error.
        source: ReadError,
    },
    /// The video to compare with cannot be used.
    #[error(transparent)]
    Video(#[from] TiledError),
    /// The viewing failed.
    #[error(transparent)]
    Play(#[from] PlayFailure),
    /// The viewing cannot be measured.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// The server's video is not the one in the directory.
    #[error("the server's video is not the one in {directory}: {differs}")]
    Differs {
        /// The directory compared with.
        directory: PathBuf,
        /// How the videos differ.
        differs: &'static str,
    },
}

/// A checked viewer.
#[derive(Debug, Clone)]
pub struct Viewpoint {
    config: ViewerConfig,
    trace: HeadTrace,
    crowd: Vec<HeadTrace>,
    field: FieldOfView,
}

/// A viewing, decoded and measured if there is a source to compare with.
#[derive(Debug)]
pub struct Viewed {
    /// Its results.
    pub result: TiledResult,
    /// Figures and pictures; `None` without the source.
    pub measured: Option<Measured>,
}

impl Viewpoint {
    /// Checks every name and reads every trace.
    ///
    /// # Errors
    /// [`ViewError`] names the file and what is wrong.
    pub fn new(config: ViewerConfig) -> Result<Self, ViewError> {
        tiled::allocator(&config.allocator, 1, false)?;
        let field = FieldOfView::from_degrees(config.field.0, config.field.1)?;
        if !(16..=8192).contains(&config.width) {
            return Err(ViewError::Width(config.width));
        }
        let still = |time_s| HeadSample { time_s, orientation: Orientation::default() };
        let (trace, crowd) = match &config.head {
            Some((path, format)) => {
                let format: Format = format.parse()?;
                let crowd = config.crowd.iter().map(|path| trace(path, &format));
                (trace(path, &format)?, crowd.collect::<Result<_, _>>()?)
            }
            None => {
                let crowd = config.crowd.iter().map(|path| trace(path, &Format::Plain));
                let ahead = HeadTrace::from_samples(vec![still(0.0), still(1.0)]).expect("two good samples");
                (ahead, crowd.collect::<Result<_, _>>()?)
            }
        };
        Ok(Self { config, trace, crowd, field })
    }

    /// The viewer's head.
    #[must_use]
    pub fn trace(&self) -> &HeadTrace {
        &self.trace
    }

    /// Settings of the player.
    #[must_use]
    pub fn player(&self) -> PlayerSettings {
        let ViewerConfig { seconds, assumed, low_resolution, .. } = self.config;
        PlayerSettings { low_resolution, ..PlayerSettings::new(seconds, assumed, self.config.plans()) }
    }

    /// Settings of a viewing in the page: it ends only if a duration is given, and keeps the records of the last slots only.
    #[must_use]
    pub(super) fn endless(&self, low_resolution: bool) -> PlayerSettings {
        let player = PlayerSettings { low_resolution, ..self.player() };
        PlayerSettings { seconds: player.seconds.or(Some(u32::MAX)), kept: Some(SLOTS_KEPT), ..player }
    }

    /// Field of view, degrees.
    pub(super) fn field_degrees(&self) -> (f64, f64) {
        self.field.degrees()
    }

    /// Settings of plans.
    ///
    /// # Errors
    /// [`UnknownAllocator`] cannot occur after the check in [`Self::new`].
    pub fn planner(&self) -> Result<Planner, UnknownAllocator> {
        Ok(Planner {
            allocator: tiled::allocator(&self.config.allocator, self.config.plans(), self.config.exact)?,
            field: self.field,
            trace: self.trace.clone(),
            crowd: self.crowd.clone(),
            concealment: self.config.concealment,
        })
    }

    /// Settings of the measurement.
    #[must_use]
    pub fn measure_settings(&self) -> MeasureSettings {
        let (across, upwards) = self.field.half_extent();
        let even = |side: f64| ((side / 2.0).round() as usize * 2).max(16);
        let height = even(self.config.width as f64 * upwards / across);
        MeasureSettings {
            field: self.field,
            viewport: (even(self.config.width as f64), height),
            concealment: self.config.concealment,
            record: self.config.record,
        }
    }

    /// Description of the head movement; includes the time at which the trace ended.
    fn words(&self, record: &TiledRecord) -> String {
        let Some((path, format)) = &self.config.head else {
            return "straight ahead, without moving".to_owned();
        };
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let played = record.slots.len() as f64 * record.gop_ms / 1e3;
        let held = match self.trace.require_duration(played) {
            Ok(()) => String::new(),
            Err(_) => format!("; the trace ends at {:.1} s, its last pose is held", self.trace.duration_s()),
        };
        let crowd = match self.crowd.len() {
            0 => "no other viewers known".to_owned(),
            count => format!("{count} other viewers known"),
        };
        format!("{name} ({format}), {crowd}{held}")
    }

    /// Plays and measures. `reference` is the tiled video with the source's pictures.
    ///
    /// Cancellation: while it plays, dropping the future ends the viewing and deletes what arrived. Measuring is not
    /// interrupted.
    ///
    /// # Errors
    /// [`ViewError`].
    pub async fn view(
        &self,
        config: &PlayConfig,
        reference: Option<&Path>,
        progress: &mut (dyn FnMut(f64, &str) + Send),
    ) -> Result<Viewed, ViewError> {
        let reference = reference.map(TiledVideo::open).transpose()?.map(|video| self.asked_of(video));
        let spool = Spool::temporary().map_err(PlayFailure::Spool)?;
        progress(0.0, "playing");
        let played = play(config, self.player(), self.planner()?, spool).await?;
        if let (Some(reference), Some(video)) = (&reference, &played.video) {
            self.same(reference, video)?;
        }
        let transport = label(&config.transport.name);
        progress(0.3, "decoding and measuring");
        let mut report = |share: f64| progress(0.3 + 0.7 * share, "decoding and measuring");
        self.judge(&transport, played, reference.as_ref(), &mut report)
    }

    /// Plays without measuring; received data stays in the file `keep`.
    ///
    /// Cancellation: dropping the future ends the viewing; `keep` has what arrived, but no list of it.
    ///
    /// # Errors
    /// [`ViewError`].
    pub async fn keep(&self, config: &PlayConfig, keep: &Path) -> Result<Kept, ViewError> {
        let spool = Spool::create(keep).map_err(PlayFailure::Spool)?;
        let played = play(config, self.player(), self.planner()?, spool).await?;
        Ok(Kept { viewing: played.viewing, tiles: played.spool.tiles().to_vec() })
    }

    /// Measures a viewing that has been played.
    ///
    /// # Errors
    /// [`ViewError::Measure`].
    pub fn judge(
        &self,
        transport: &str,
        mut played: Played,
        reference: Option<&TiledVideo>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Viewed, ViewError> {
        let record = played.viewing.record;
        let started = record.start_up_ms.is_some();
        let measured = match reference.filter(|_| started) {
            Some(video) => {
                let settings = self.measure_settings();
                Some(measure((video, &record), &mut played.spool, &self.trace, settings, progress)?)
            }
            None => None,
        };
        let slots = record.slots.len() as u32;
        let result = TiledResult {
            transport: transport.to_owned(),
            allocator: self.config.allocator.clone(),
            plans: self.config.plans(),
            concealment: self.config.concealment,
            clip: reference.map_or_else(|| "not known here".to_owned(), |video| outcome::clip(video, slots)),
            head: self.words(&record),
            knowledge: Knowledge::of(&record, self.config.assumed.as_bps() as f64 / 1e6),
            paths_up: played.viewing.paths_up,
            start_up_ms: record.start_up_ms,
            rtt_ms: record.rtt_ms,
            gop_ms: record.gop_ms,
            load: Load::of(&record),
            quality: measured.as_ref().and_then(Quality::of),
            record,
        };
        Ok(Viewed { result, measured })
    }

    /// The video, or its low-resolution stream, whichever is asked for.
    fn asked_of(&self, video: TiledVideo) -> TiledVideo {
        match video.low() {
            Some(low) if self.config.low_resolution => TiledVideo::clone(low),
            _ => video,
        }
    }

    /// Checks that the server's video is the one of a directory.
    pub(super) fn same(&self, reference: &TiledVideo, video: &crate::tiled::Video) -> Result<(), ViewError> {
        let (ours, theirs) = (reference.table().layout(), &video.layout);
        let differs = if video.is_live() {
            "it is live"
        } else if ours.grid != theirs.grid {
            "its grid differs"
        } else if (ours.width, ours.height) != (theirs.width, theirs.height) {
            "its pictures have a different size"
        } else if ours.qps != theirs.qps {
            "its qualities differ"
        } else if reference.gops() != video.gops as usize {
            "it has a different number of GoPs"
        } else {
            return Ok(());
        };
        Err(ViewError::Differs { directory: reference.directory().to_owned(), differs })
    }
}

fn trace(path: &Path, format: &Format) -> Result<HeadTrace, ViewError> {
    let file = File::open(path).map_err(|source| ViewError::Open { path: path.to_owned(), source })?;
    let failed = |source| ViewError::Trace { path: path.to_owned(), format: format.clone(), source };
    head::read(file, format.clone()).map_err(failed)
}

impl Viewed {
    /// The viewing as video, if it was recorded.
    ///
    /// # Errors
    /// ffmpeg is missing or fails.
    pub fn video(&self) -> Result<Option<Media>, super::StillError> {
        super::side_by_side(&recorded([self]))
    }

    /// The slots that are shown as pictures: the worst, and the middle one.
    ///
    /// # Errors
    /// ffmpeg is missing or fails.
    pub fn moments(&mut self) -> Result<Vec<super::Beside>, super::StillError> {
        let (Some(measured), Some(quality)) = (&mut self.measured, &self.result.quality) else {
            return Ok(Vec::new());
        };
        let middle = quality.gops.len() as u32 / 2;
        let mut moments = Vec::new();
        for (slot, which) in
            [(quality.worst_slot, "The GoP that looked worst"), (middle, "The middle of the viewing")]
        {
            let Some((seen, original)) = measured.stills.at(slot)? else { continue };
            let Some(gop) = quality.gops.iter().find(|gop| gop.slot == slot) else { continue };
            let decibels = tributary_video::metrics::psnr_db(gop.viewport_mse);
            let seen_words = format!(
                "seen: {decibels:.1} dB; {:.1} % of the view late, {:.1} % left out",
                100.0 * gop.late_share,
                100.0 * gop.left_out_share
            );
            let images = super::pictures(&[(&seen, seen_words), (&original, "the original".to_owned())])?;
            moments.push(super::Beside { words: format!("{which}, number {slot}:"), images });
        }
        Ok(moments)
    }
}

/// The recordings of viewings, each with its name.
pub fn recorded<'a>(viewings: impl IntoIterator<Item = &'a Viewed>) -> Vec<(&'a Recording, String)> {
    let of = |viewed: &'a Viewed| {
        let recording = viewed.measured.as_ref()?.recording.as_ref()?;
        Some((
            recording,
            format!("{} ({})", super::page::spoken(&viewed.result.transport), viewed.result.allocator),
        ))
    };
    viewings.into_iter().filter_map(of).collect()
}
