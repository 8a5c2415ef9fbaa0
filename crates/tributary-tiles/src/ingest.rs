//! Any equirectangular file into a tiled video: decoded once, cut, encoded, decoded again and measured.
//!
//! First the source becomes a lossless reference, one file a GoP; everything else is made from that, by
//! as many processes as there are cores. What is finished is noted in the working directory, so that an
//! ingest that was stopped in any way goes on where it was. The record is written last of all: a
//! directory without it is never taken for a whole video.

mod estimate;
mod finish;
mod manifest;
mod plan;
mod probe;
mod reference;
mod tiles;
mod untiled;
mod watch;
mod work;

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use thiserror::Error;
use tributary_video::picture::Picture;
use tributary_video::rd::TableError;
use tributary_video::tiles::TileGrid;

use crate::decode::{DecodeError, Pictures};
use crate::encode::EncodeError;
use crate::layout;
use crate::mp4::InitError;
use crate::program::ProgramError;
use crate::rate::FrameRate;
use crate::record::compared;
use crate::video::{TiledError, TiledVideo};

use plan::Plan;
use watch::Meter;
pub use watch::{Estimate, Progress, Stage, Watch};
use work::Work;

/// The presets of libx264, fastest first.
pub const PRESETS: [&str; 9] =
    ["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"];

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The tiles.
    pub grid: TileGrid,
    /// Quantisation parameters, rising: 1 to 51.
    pub qps: Vec<u8>,
    /// Width and height to scale to, pixels; `None` keeps the source's.
    pub size: Option<(usize, usize)>,
    /// Seconds from the beginning; `None` takes all.
    pub seconds: Option<u32>,
    /// Pictures a second to resample to; `None` keeps the source's.
    pub rate: Option<FrameRate>,
    /// Whether a picture that is not twice as wide as high is accepted.
    pub any_aspect: bool,
    /// One of [`PRESETS`].
    pub preset: String,
    /// Processes at once; `None` is one a core. Decides nothing about what comes out.
    pub jobs: Option<NonZeroUsize>,
}

/// Why an ingest failed.
#[derive(Debug, Error)]
pub enum IngestError {
    /// The video is not there or may not be read.
    #[error("cannot read the video {path}: {source}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Not a video that ffmpeg knows.
    #[error("{path} is not a video that ffmpeg can read: {reason}")]
    NotVideo {
        /// Which file.
        path: PathBuf,
        /// What ffmpeg says.
        reason: String,
    },
    /// There is sound and no picture.
    #[error("{path} has no video track, only sound or data; give the file that has the pictures")]
    NoPicture {
        /// Which file.
        path: PathBuf,
    },
    /// Not a 360° picture.
    #[error(
        "{path} is {width}×{height}; an equirectangular 360° video is twice as wide as high \
         (--any-aspect takes it all the same)"
    )]
    Aspect {
        /// Which file.
        path: PathBuf,
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
    },
    /// A picture that cannot be cut into equal tiles of even size.
    #[error(
        "{width}×{height} pixels cannot be cut into {columns}×{rows} equal tiles of even size, at least 16 \
         each way; scale with --size {fits}, or choose another --grid"
    )]
    Grid {
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
        /// Tiles beside each other.
        columns: usize,
        /// Tiles above each other.
        rows: usize,
        /// A size near by that can.
        fits: String,
    },
    /// The file ends before the time it announces.
    #[error(
        "{path} is cut short: it announces {announced} pictures and has {found}; get the whole file, or \
         ingest its beginning with --seconds {seconds}"
    )]
    Truncated {
        /// Which file.
        path: PathBuf,
        /// Pictures its header announces.
        announced: usize,
        /// Pictures it has.
        found: usize,
        /// Whole seconds there are.
        seconds: usize,
    },
    /// Not even one GoP.
    #[error("{path} has {found} pictures; a GoP of one second needs {needed}")]
    TooShort {
        /// Which file.
        path: PathBuf,
        /// Pictures it has.
        found: usize,
        /// Pictures in a GoP.
        needed: usize,
    },
    /// An invalid setting.
    #[error("{name}: {reason}")]
    Setting {
        /// Which.
        name: &'static str,
        /// Why, and what would.
        reason: String,
    },
    /// The directory holds something else.
    #[error("{directory} {what}; give another --out, or remove it")]
    Occupied {
        /// Where.
        directory: PathBuf,
        /// What it holds.
        what: &'static str,
    },
    /// Another process works there.
    #[error("another ingest is working in {0}; wait for it, or give another --out")]
    Busy(PathBuf),
    /// A file cannot be written.
    #[error(
        "cannot write {path}: {source}; what is finished is kept: make room and give the same command again"
    )]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The caller wanted no more.
    #[error("{}", if *kept {
        "stopped; finished pieces are kept: the same command goes on from there"
    } else {
        "stopped; nothing was finished, and nothing is left behind"
    })]
    Stopped {
        /// Whether there are finished pieces.
        kept: bool,
    },
    /// A program is missing or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The encoder failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// What was encoded does not decode.
    #[error("what was encoded does not decode: {0}")]
    Decode(#[from] DecodeError),
    /// What was encoded makes no segment.
    #[error(transparent)]
    Segment(#[from] InitError),
    /// What was measured makes no table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// What was written cannot be read back.
    #[error(transparent)]
    Read(#[from] TiledError),
}

/// Makes a tiled video of the file `source` in `directory`, or finishes one that was begun there, or
/// gives the one that is there when it is of the same source and settings.
///
/// Blocks, with all cores.
///
/// # Errors
/// Names the file, the setting or the missing program, and the way out.
pub fn ingest(
    source: &Path,
    settings: &Settings,
    directory: &Path,
    watch: &dyn Watch,
) -> Result<TiledVideo, IngestError> {
    Prepared::of(source, settings)?.make(directory, watch)
}

/// An ingest whose settings fit its source.
#[derive(Debug)]
pub struct Prepared {
    source: PathBuf,
    plan: Plan,
    jobs: usize,
}

impl Prepared {
    /// Holds `settings` against the file `source`, which is read once.
    ///
    /// # Errors
    /// Names the file, the setting or the missing program, and the way out.
    pub fn of(source: &Path, settings: &Settings) -> Result<Self, IngestError> {
        plan::check(settings)?;
        let plan = Plan::of(source, settings)?;
        let jobs = settings.jobs.or_else(|| std::thread::available_parallelism().ok());
        Ok(Self { source: source.to_owned(), plan, jobs: jobs.map_or(1, NonZeroUsize::get) })
    }

    /// The video in `directory`, if it is finished.
    ///
    /// # Errors
    /// There is another video, or a damaged one.
    pub fn finished(&self, directory: &Path) -> Result<Option<TiledVideo>, IngestError> {
        work::finished(directory, &self.plan)
    }

    /// How long it will take and how large it will be, from a sample of a few pictures; `None` when the file cannot
    /// be read from its middle on.
    #[must_use]
    pub fn estimate(&self) -> Option<Estimate> {
        estimate::estimate(&self.source, &self.plan, self.jobs)
    }

    /// Makes the video in `directory`, or finishes it. Blocks, with all cores.
    ///
    /// # Errors
    /// As [`ingest`]; [`IngestError::Stopped`] when `watch` stops it: no temporary file and no process is left then,
    /// and what was finished is kept for the next time.
    pub fn make(&self, directory: &Path, watch: &dyn Watch) -> Result<TiledVideo, IngestError> {
        if let Some(video) = self.finished(directory)? {
            return Ok(video);
        }
        let work = Work::begin(directory, &self.plan)?;
        match self.fill(&work, watch) {
            // A process that was cut off fails in many ways.
            Err(_) if watch.stops() => Err(IngestError::Stopped { kept: work.stop()? }),
            Err(error) => Err(error),
            Ok(()) => Ok(TiledVideo::open(directory)?),
        }
    }

    fn fill(&self, work: &Work, watch: &dyn Watch) -> Result<(), IngestError> {
        let Self { source, plan, jobs } = self;
        let mut meter = Meter::new(watch, plan);
        let made = reference::make(source, (plan, *jobs), work, &meter)?;
        let mut pieces = pieces_of(plan, made.gops, *jobs);
        let units = |pieces: &[Piece]| pieces.iter().map(|piece| piece.units(plan, &meter)).sum::<usize>();
        let all = units(&pieces);
        pieces.retain_mut(|piece| piece.is_left(work));
        let before = all - units(&pieces);
        meter.tiles(made.gops, before);
        let job = Job { plan, work, meter, lasts: Mutex::default(), kept: jobs + 2 };
        each(&pieces, *jobs, |piece| match piece {
            Piece::Tiles { gop, rows } => tiles::make(&job, *gop, rows),
            Piece::Untiled { gop } => untiled::make(&job, *gop),
        })?;
        finish::finish(plan, work, &made)
    }
}

/// What all threads share.
struct Job<'a> {
    plan: &'a Plan,
    work: &'a Work,
    meter: Meter<'a>,
    /// The last pictures of GoPs that were decoded lately: the next GoP may freeze them.
    lasts: Mutex<BTreeMap<usize, Picture>>,
    /// So many of them at most.
    kept: usize,
}

impl Job<'_> {
    fn reference_bytes(&self, gop: usize) -> Result<Vec<u8>, IngestError> {
        let path = self.work.path(&layout::reference(gop));
        std::fs::read(&path).map_err(|source| IngestError::Unreadable { path, source })
    }

    /// The source's pictures of a GoP.
    fn reference(&self, gop: usize) -> Result<Pictures, IngestError> {
        Ok(Pictures::of_stream(self.reference_bytes(gop)?, self.plan.size)?)
    }

    fn keep_last(&self, gop: usize, picture: Picture) {
        let mut lasts = self.lasts.lock().unwrap_or_else(|e| e.into_inner());
        lasts.insert(gop, picture);
        while lasts.len() > self.kept {
            lasts.pop_first();
        }
    }

    /// The last picture of a GoP; decoded when nobody has done so lately.
    fn last_of(&self, gop: usize) -> Result<Picture, IngestError> {
        let kept = self.lasts.lock().unwrap_or_else(|e| e.into_inner()).get(&gop).cloned();
        if let Some(picture) = kept {
            return Ok(picture);
        }
        let mut last = None;
        for picture in self.reference(gop)? {
            last = Some(picture?);
        }
        last.ok_or(IngestError::Decode(DecodeError::Cut))
    }
}

/// What one thread does at a time.
enum Piece {
    /// Rows of the tiles of a GoP.
    Tiles { gop: usize, rows: Vec<usize> },
    /// A GoP in one piece, for comparison.
    Untiled { gop: usize },
}

impl Piece {
    /// How much work it is.
    fn units(&self, plan: &Plan, meter: &Meter<'_>) -> usize {
        match self {
            Self::Tiles { rows, .. } => {
                let pictures = rows.len() * plan.grid.columns() * plan.pictures_per_gop;
                pictures * plan.qps.len() * Meter::TILE_PICTURE
            }
            Self::Untiled { .. } => plan.pictures_per_gop * meter.untiled_picture(),
        }
    }

    /// Drops what an earlier run has finished; whether anything is left.
    fn is_left(&mut self, work: &Work) -> bool {
        match self {
            Self::Tiles { gop, rows } => {
                rows.retain(|row| !tiles::is_made(work, *gop, *row));
                !rows.is_empty()
            }
            Self::Untiled { gop } => !untiled::is_made(work, *gop),
        }
    }
}

/// Raw pictures one thread may hold at a time, bytes: a second of 4096×2048 at 30 pictures a second has 377 MB. A
/// GoP that is made in parts is decoded once for each of them.
const MOST_HELD_BYTES: usize = 400 << 20;

fn pieces_of(plan: &Plan, gops: usize, jobs: usize) -> Vec<Piece> {
    let rows = plan.grid.rows();
    let raw = plan.size.0 * plan.size.1 * 3 / 2 * plan.pictures_per_gop;
    // As few parts as memory wants, or as keep all cores busy to the end.
    let parts = raw.div_ceil(MOST_HELD_BYTES).max((2 * jobs).div_ceil(gops)).clamp(1, rows);
    let of_gop = |gop| {
        (0..parts).map(move |part| {
            let rows = (part * rows / parts..(part + 1) * rows / parts).collect();
            Piece::Tiles { gop, rows }
        })
    };
    // The largest first, so that no thread begins one when the others have finished.
    let untiled = compared(gops).map(|gop| Piece::Untiled { gop });
    untiled.chain((0..gops).flat_map(of_gop)).collect()
}

/// Does all `pieces` on `jobs` threads; the first failure lets the others finish what they do, no more.
fn each<P: Sync>(
    pieces: &[P],
    jobs: usize,
    task: impl Fn(&P) -> Result<(), IngestError> + Sync,
) -> Result<(), IngestError> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(pieces.len()) {
            scope.spawn(|| {
                while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = task(piece) {
                        next.store(pieces.len(), Ordering::Relaxed);
                        let mut failure = failure.lock().unwrap_or_else(|e| e.into_inner());
                        failure.get_or_insert(error);
                    }
                }
            });
        }
    });
    failure.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests;
