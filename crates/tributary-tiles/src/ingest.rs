//! Turns any equirectangular file into a tiled video: decodes it once, cuts it into tiles, encodes, decodes
//! again and measures.
//!
//! First the source becomes a lossless reference, one file per GoP. Everything else is made from the
//! reference, by as many processes as there are cores. Finished pieces are recorded in the working directory,
//! so that a stopped ingest resumes. `ingest.json` is written last: a directory without it is never accepted
//! as a complete video.

mod estimate;
mod finish;
mod manifest;
mod recipe;
mod reference;
mod sound;
mod tiles;
mod track;
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
use crate::source::{Eyes, SourceError, View};
use crate::video::{TiledError, TiledVideo};

use recipe::Recipe;
pub(crate) use recipe::{check as check_settings, size as size_of};
use watch::Meter;
pub use watch::{Estimate, Progress, Stage, Watch};
use work::Work;

/// The presets of libx264, fastest first.
pub const PRESETS: [&str; 9] =
    ["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"];

/// Width of the low-resolution stream, pixels; of a small video it is half the video's.
const LOW_WIDTH: usize = 640;
/// Its quantisation parameter.
pub(crate) const LOW_QP: u8 = 27;

/// Settings of an ingest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The tiles of an equirectangular picture, of each eye's if it has two.
    pub grid: TileGrid,
    /// The eyes that are taken of a stereo video.
    pub eyes: Eyes,
    /// Quantisation parameters, ascending: 1 to 51.
    pub qps: Vec<u8>,
    /// Width and height to scale to, pixels, of each eye's picture; `None` keeps the source's.
    pub size: Option<(usize, usize)>,
    /// Seconds to take from the beginning; `None`: all.
    pub seconds: Option<u32>,
    /// Picture rate to resample to; `None`: the source's.
    pub rate: Option<FrameRate>,
    /// Whether to accept pictures that are not twice as wide as high.
    pub any_aspect: bool,
    /// One of [`PRESETS`].
    pub preset: String,
    /// Whether to take the first track of sound.
    pub sound: bool,
    /// Parallel processes; `None`: one per core. Has no effect on the result.
    pub jobs: Option<NonZeroUsize>,
}

/// Why an ingest failed.
#[derive(Debug, Error)]
pub enum IngestError {
    /// The video does not exist or cannot be read.
    #[error("cannot read the video {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's message.
        source: io::Error,
    },
    /// ffmpeg cannot read the file.
    #[error("{path} is not a video that ffmpeg can read: {reason}")]
    NotVideo {
        /// The file.
        path: PathBuf,
        /// ffmpeg's message.
        reason: String,
    },
    /// The file has no video track.
    #[error("{path} has no video track, only sound or data; give the file that has the pictures")]
    NoPicture {
        /// The file.
        path: PathBuf,
    },
    /// The pictures are stored in a way that is not converted.
    #[error(transparent)]
    Stored(SourceError),
    /// The picture is not a 360° picture.
    #[error(
        "{path}{part} is {width}×{height}; an equirectangular 360° video is twice as wide as high{stereo} \
         (--any-aspect takes it all the same)",
        part = view.map(|view| format!(": {view}")).unwrap_or_default(),
        stereo = about_stereo(*view, *width, *height),
    )]
    Aspect {
        /// The file.
        path: PathBuf,
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
        /// The view, if the pictures are stereo.
        view: Option<View>,
    },
    /// The picture cannot be divided into equal tiles of even size.
    #[error(
        "{width}×{height} pixels cannot be cut into {columns}×{rows} equal tiles of even size, at least 16 \
         each way; scale with --size {fits}, or choose another --grid"
    )]
    Grid {
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
        /// Number of columns.
        columns: usize,
        /// Number of rows.
        rows: usize,
        /// A similar size that can be divided.
        fits: String,
    },
    /// The file has fewer pictures than its header announces.
    #[error(
        "{path} is cut short: it announces {announced} pictures and has {found}; get the whole file, or \
         ingest its beginning with --seconds {seconds}"
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Pictures announced by the header.
        announced: usize,
        /// Pictures in the file.
        found: usize,
        /// Whole seconds in the file.
        seconds: usize,
    },
    /// The file is shorter than a GoP.
    #[error("{path} has {found} pictures; a GoP of one second needs {needed}")]
    TooShort {
        /// The file.
        path: PathBuf,
        /// Pictures in the file.
        found: usize,
        /// Pictures in a GoP.
        needed: usize,
    },
    /// A setting is invalid.
    #[error("{name}: {reason}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// The reason, and valid values.
        reason: String,
    },
    /// The directory contains something else.
    #[error("{directory} {what}; give another --out, or remove it")]
    Occupied {
        /// The directory.
        directory: PathBuf,
        /// What it contains.
        what: &'static str,
    },
    /// Another process is ingesting into the directory.
    #[error("another ingest is working in {0}; wait for it, or give another --out")]
    Busy(PathBuf),
    /// A file cannot be written.
    #[error(
        "cannot write {path}: {source}; what is finished is kept: make room and give the same command again"
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's message.
        source: io::Error,
    },
    /// The sound cannot be decoded or encoded.
    #[error("the sound of {path} cannot be taken: {reason}; --no-sound leaves it out")]
    Sound {
        /// The file.
        path: PathBuf,
        /// ffmpeg's message, or what is wrong with its output.
        reason: String,
    },
    /// The caller stopped the ingest.
    #[error("{}", if *kept {
        "stopped; finished pieces are kept: the same command continues from there"
    } else {
        "stopped; nothing was finished, and nothing is left behind"
    })]
    Stopped {
        /// Whether finished pieces were kept.
        kept: bool,
    },
    /// A program is missing or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The encoder failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The encoded data does not decode.
    #[error("the encoded video does not decode: {0}")]
    Decode(#[from] DecodeError),
    /// The encoded data cannot be put into a segment.
    #[error(transparent)]
    Segment(#[from] InitError),
    /// The measurements are not a valid table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The written files cannot be read back.
    #[error(transparent)]
    Read(#[from] TiledError),
}

/// What a shape that stereo videos have may mean.
fn about_stereo(view: Option<View>, width: usize, height: usize) -> &'static str {
    match view {
        Some(_) => ": this one may be a hemisphere (VR180), which has no picture behind the viewer",
        None if width == height => {
            "; if it has two views, one above the other, take one of them: ffmpeg -i IN -vf stereo3d=abl:ml OUT"
        }
        None if width == 4 * height => {
            "; if it has two views beside each other, take one of them: ffmpeg -i IN -vf stereo3d=sbsl:ml OUT"
        }
        None => "",
    }
}

impl From<SourceError> for IngestError {
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

/// The size of the low-resolution stream of pictures of `size` with so many eyes; `None` if they are too small for one.
pub(crate) fn low_size((width, height): (usize, usize), eyes: usize) -> Option<(usize, usize)> {
    let across = LOW_WIDTH.min(width / 2) / 2 * 2;
    let down = across * (height / eyes) / width / 2 * 2;
    (down >= recipe::SMALLEST_TILE).then_some((across, down * eyes))
}

/// Makes a tiled video of the file `source` in `directory`, resumes an ingest that was stopped there, or
/// returns the existing video if source and settings are the same.
///
/// Blocks, with all cores.
///
/// # Errors
/// Names the file, the setting or the missing program, and what to do.
pub fn ingest(
    source: &Path,
    settings: &Settings,
    directory: &Path,
    watch: &dyn Watch,
) -> Result<TiledVideo, IngestError> {
    Prepared::of(source, settings)?.make(directory, watch)
}

/// Settings that have been checked with their source.
#[derive(Debug)]
pub struct Prepared {
    source: PathBuf,
    recipe: Recipe,
    jobs: usize,
}

impl Prepared {
    /// Checks `settings` with the file `source`, which is read once.
    ///
    /// # Errors
    /// Names the file, the setting or the missing program, and what to do.
    pub fn of(source: &Path, settings: &Settings) -> Result<Self, IngestError> {
        recipe::check(settings)?;
        let recipe = Recipe::of(source, settings)?;
        let jobs = settings.jobs.or_else(|| std::thread::available_parallelism().ok());
        Ok(Self { source: source.to_owned(), recipe, jobs: jobs.map_or(1, NonZeroUsize::get) })
    }

    /// The same video as a low-resolution stream, for its directory [`layout::LOW`]: each eye's picture as one tile in one quality. `None` if
    /// the picture is too small for that.
    #[must_use]
    pub fn low(&self) -> Option<Self> {
        let Recipe { size, grid, .. } = self.recipe;
        let eyes = grid.projection().eyes();
        let size = low_size(size, eyes)?;
        let grid = TileGrid::new(1, eyes, grid.projection()).ok()?;
        let recipe = Recipe { grid, qps: vec![LOW_QP], size, ..self.recipe.clone() };
        Some(Self { source: self.source.clone(), recipe, jobs: self.jobs })
    }

    /// The video in `directory`, if it is complete.
    ///
    /// # Errors
    /// The directory contains another video, or a damaged one.
    pub fn finished(&self, directory: &Path) -> Result<Option<TiledVideo>, IngestError> {
        work::finished(directory, &self.recipe)
    }

    /// Estimates duration and size of the result from a sample of a few pictures; `None` if the file cannot
    /// be read from its middle on.
    #[must_use]
    pub fn estimate(&self) -> Option<Estimate> {
        estimate::estimate(&self.source, &self.recipe, self.jobs)
    }

    /// Makes the video in `directory`, or resumes it. Blocks, with all cores.
    ///
    /// # Errors
    /// As [`ingest`]; [`IngestError::Stopped`] when `watch` stops it. Then no temporary file and no process
    /// is left, and finished pieces are kept.
    pub fn make(&self, directory: &Path, watch: &dyn Watch) -> Result<TiledVideo, IngestError> {
        if let Some(video) = self.finished(directory)? {
            return Ok(video);
        }
        let work = Work::begin(directory, &self.recipe)?;
        match self.fill(&work, watch) {
            // A process that was interrupted may report any error.
            Err(_) if watch.stops() => Err(IngestError::Stopped { kept: work.stop()? }),
            Err(error) => Err(error),
            Ok(()) => Ok(TiledVideo::open(directory)?),
        }
    }

    fn fill(&self, work: &Work, watch: &dyn Watch) -> Result<(), IngestError> {
        let Self { source, recipe, jobs } = self;
        let mut meter = Meter::new(watch, recipe);
        let made = reference::make(source, (recipe, *jobs), work, &meter)?;
        let heard = sound::make(source, recipe, work, (&made, &meter))?;
        let mut pieces = pieces_of(recipe, made.gops, *jobs);
        let units = |pieces: &[Piece]| pieces.iter().map(|piece| piece.units(recipe, &meter)).sum::<usize>();
        let all = units(&pieces);
        pieces.retain_mut(|piece| piece.is_left(work));
        let before = all - units(&pieces);
        meter.tiles(made.gops, before);
        let job = Job { recipe, work, meter, lasts: Mutex::default(), kept: jobs + 2 };
        each(&pieces, *jobs, |piece| match piece {
            Piece::Tiles { gop, rows } => tiles::make(&job, *gop, rows),
            Piece::Untiled { gop } => untiled::make(&job, *gop),
        })?;
        finish::finish(recipe, work, (&made, heard.as_ref()))
    }
}

/// State shared by all threads.
struct Job<'a> {
    recipe: &'a Recipe,
    work: &'a Work,
    meter: Meter<'a>,
    /// The last pictures of recently decoded GoPs, which freezing the next GoP needs.
    lasts: Mutex<BTreeMap<usize, Picture>>,
    /// Most pictures kept in `lasts`.
    kept: usize,
}

impl Job<'_> {
    fn reference_bytes(&self, gop: usize) -> Result<Vec<u8>, IngestError> {
        let path = self.work.path(&layout::reference(gop));
        std::fs::read(&path).map_err(|source| IngestError::Unreadable { path, source })
    }

    /// The source's pictures of a GoP.
    fn reference(&self, gop: usize) -> Result<Pictures, IngestError> {
        Ok(Pictures::of_stream(self.reference_bytes(gop)?, self.recipe.size)?)
    }

    fn keep_last(&self, gop: usize, picture: Picture) {
        let mut lasts = self.lasts.lock().unwrap_or_else(|e| e.into_inner());
        lasts.insert(gop, picture);
        while lasts.len() > self.kept {
            lasts.pop_first();
        }
    }

    /// The last picture of a GoP; decodes it if it is not cached.
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

/// A unit of work of one thread.
enum Piece {
    /// Rows of the tiles of a GoP.
    Tiles { gop: usize, rows: Vec<usize> },
    /// An untiled GoP, for comparison.
    Untiled { gop: usize },
}

impl Piece {
    /// Amount of work.
    fn units(&self, recipe: &Recipe, meter: &Meter<'_>) -> usize {
        match self {
            Self::Tiles { rows, .. } => {
                let pictures = rows.len() * recipe.grid.columns() * recipe.pictures_per_gop;
                pictures * recipe.qps.len() * Meter::TILE_PICTURE
            }
            Self::Untiled { .. } => recipe.pictures_per_gop * meter.untiled_picture(),
        }
    }

    /// Removes rows that an earlier run has finished; returns whether anything is left.
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

/// Most bytes of raw pictures that one thread holds: a second of 4096×2048 at 30 pictures a second has 377
/// MB. A GoP that is made in parts is decoded once per part.
const MOST_HELD_BYTES: usize = 400 << 20;

fn pieces_of(recipe: &Recipe, gops: usize, jobs: usize) -> Vec<Piece> {
    let rows = recipe.grid.rows();
    let raw = recipe.size.0 * recipe.size.1 * 3 / 2 * recipe.pictures_per_gop;
    // As few parts as memory allows, but enough to keep all cores busy to the end.
    let parts = raw.div_ceil(MOST_HELD_BYTES).max((2 * jobs).div_ceil(gops)).clamp(1, rows);
    let of_gop = |gop| {
        (0..parts).map(move |part| {
            let rows = (part * rows / parts..(part + 1) * rows / parts).collect();
            Piece::Tiles { gop, rows }
        })
    };
    // The largest first, so that no thread starts a large one when the others have finished.
    let untiled = compared(gops).map(|gop| Piece::Untiled { gop });
    untiled.chain((0..gops).flat_map(of_gop)).collect()
}

/// Processes all `pieces` on `jobs` threads. After a failure the other threads finish their present piece.
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
