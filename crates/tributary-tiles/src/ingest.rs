//! Any equirectangular file into a tiled video: decoded once, cut, encoded, decoded again and measured.
//!
//! First the source becomes a lossless reference, one file a GoP; everything else is made from that, by
//! as many processes as there are cores. What is finished is noted in the working directory, so that an
//! ingest that was stopped in any way goes on where it was. The record is written last of all: a
//! directory without it is never taken for a whole video.

mod finish;
mod manifest;
mod plan;
mod probe;
mod reference;
mod tiles;
mod untiled;
mod work;

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use thiserror::Error;
use tributary_video::rd::TableError;
use tributary_video::tiles::TileGrid;

use crate::decode::DecodeError;
use crate::encode::EncodeError;
use crate::mp4::InitError;
use crate::program::ProgramError;
use crate::rate::FrameRate;
use crate::video::{TiledError, TiledVideo};

use plan::Plan;
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

/// Why there is no tiled video.
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
    /// A setting makes no sense.
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

/// How far an ingest is, in pieces of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Finished, those of an earlier run included.
    pub done: usize,
    /// All there are.
    pub total: usize,
}

/// Makes a tiled video of the file `source` in `directory`, or finishes one that was begun there, or
/// gives the one that is there when it is of the same source and settings.
///
/// Blocks, with all cores; `progress` is called from several threads.
///
/// # Errors
/// Names the file, the setting or the missing program, and the way out.
pub fn ingest(
    source: &Path,
    settings: &Settings,
    directory: &Path,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<TiledVideo, IngestError> {
    plan::check(settings)?;
    let plan = Plan::of(source, settings)?;
    if let Some(video) = work::finished(directory, &plan)? {
        return Ok(video);
    }
    let work = Work::begin(directory, &plan)?;
    let jobs = settings.jobs.or_else(|| std::thread::available_parallelism().ok());
    let jobs = jobs.map_or(1, NonZeroUsize::get);
    // An estimate until the source has been decoded.
    let pieces = |gops: usize| 1 + gops * (plan.grid.rows() + 1);
    progress(Progress { done: 0, total: pieces(plan.gops) });
    let made = reference::make(source, &plan, &work, jobs)?;
    let total = pieces(made.gops);
    let done = AtomicUsize::new(1);
    let finished = |count: usize| {
        progress(Progress { done: done.fetch_add(count, Ordering::Relaxed) + count, total });
    };
    finished(0);
    each(&pieces_of(&plan, made.gops, jobs), jobs, |piece| {
        match piece {
            Piece::Tiles { gop, first, last } => tiles::make(&plan, &work, *gop, *first..*last)?,
            Piece::Untiled { gop } => untiled::make(&plan, &work, *gop)?,
        }
        finished(piece.count());
        Ok(())
    })?;
    finish::finish(&plan, &work, &made)?;
    Ok(TiledVideo::open(directory)?)
}

/// What one thread does at a time.
enum Piece {
    /// Rows `first` to `last` (not included) of the tiles of a GoP.
    Tiles { gop: usize, first: usize, last: usize },
    /// A GoP in one piece, for comparison.
    Untiled { gop: usize },
}

impl Piece {
    fn count(&self) -> usize {
        match self {
            Self::Tiles { first, last, .. } => last - first,
            Self::Untiled { .. } => 1,
        }
    }
}

/// Raw pictures one thread may hold at a time, bytes.
const HELD: usize = 256 << 20;

fn pieces_of(plan: &Plan, gops: usize, jobs: usize) -> Vec<Piece> {
    let rows = plan.grid.rows();
    let raw = plan.size.0 * plan.size.1 * 3 / 2 * plan.pictures_per_gop;
    // As few rows as memory wants, or as keep all cores busy to the end.
    let parts = raw.div_ceil(HELD).max((2 * jobs).div_ceil(gops)).clamp(1, rows);
    let of_gop = |gop| {
        let tiles = (0..parts).map(move |part| {
            let (first, last) = (part * rows / parts, (part + 1) * rows / parts);
            Piece::Tiles { gop, first, last }
        });
        tiles.chain([Piece::Untiled { gop }])
    };
    (0..gops).flat_map(of_gop).collect()
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
