//! The demo's video in tiles: made once and cached.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use thiserror::Error;
use tributary_stream::scene::Scene;
use tributary_tiles::ingest::{IngestError, Progress, Settings, ingest};
use tributary_tiles::program::{self, ProgramError};
use tributary_tiles::source::Eyes;
use tributary_video::projection::Projection;
use tributary_video::tiles::TileGrid;

/// Tiles across and down.
const GRID: (usize, usize) = (8, 4);
/// From nearly lossless to very coarse.
const QPS: [u8; 7] = [18, 22, 27, 32, 37, 42, 47];
/// The demo repeats this many seconds from the beginning of a video.
pub const LOOPED_SECONDS: u32 = 8;
/// Every video is scaled to this size, so that any clip can be divided into tiles, and so that all clips take about
/// the same time.
const SIZE: (u32, u32) = (2048, 1024);
/// Pictures a second of the rendered scene.
const RATE: u32 = 30;

/// Why the tiles cannot be made.
#[derive(Debug, Error)]
pub enum TilesError {
    /// The video cannot be ingested.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// The scene cannot be rendered.
    #[error(
        "cannot render a scene into {cache}: {source}; free some disk space, or set XDG_CACHE_HOME to another directory"
    )]
    Scene {
        /// The cache.
        cache: PathBuf,
        /// What failed.
        source: ProgramError,
    },
    /// A file cannot be cached.
    #[error("cannot keep {path}: {source}")]
    Cache {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// The directory with the tiles of `video`, or of the rendered scene. Calls `progress` with 0 to 1. Blocks.
///
/// # Errors
/// [`TilesError`].
pub fn tiles_of(
    video: Option<&Path>,
    any_aspect: bool,
    cache: &Path,
    progress: &mut (dyn FnMut(f64) + Send),
) -> Result<PathBuf, TilesError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| TilesError::Cache { path, source }
    };
    std::fs::create_dir_all(cache).map_err(failed(cache))?;
    let source = match video {
        Some(path) => path.to_owned(),
        None => scene(cache)?,
    };
    let grid = TileGrid::new(GRID.0, GRID.1, Projection::Equirectangular).expect("a small grid");
    let settings = Settings {
        grid,
        qps: QPS.to_vec(),
        size: Some((SIZE.0 as usize, SIZE.1 as usize)),
        seconds: Some(LOOPED_SECONDS),
        rate: None,
        eyes: Eyes::Left,
        any_aspect,
        preset: "veryfast".to_owned(),
        // Its viewings are compared by their pictures.
        sound: false,
        jobs: None,
    };
    let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = std::fs::metadata(&source).map_or(0, |data| data.len());
    let directory = cache.join(format!("tiles-{name}-{bytes}-{}x{}", GRID.0, GRID.1));
    let told = Mutex::new(progress);
    let cut = || {
        ingest(&source, &settings, &directory, &|at: Progress| {
            let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            told(at.done as f64 / at.total.max(1) as f64);
        })
    };
    let made = match cut() {
        // The cached tiles belong to another file with the same name and length, or to other settings: replace them.
        Err(IngestError::Occupied { .. }) => {
            std::fs::remove_dir_all(&directory).map_err(failed(&directory))?;
            cut()
        }
        made => made,
    };
    made?;
    Ok(directory)
}

/// The rendered scene as a file nearly without loss.
fn scene(cache: &Path) -> Result<PathBuf, TilesError> {
    let path = cache.join("scene-2048x1024.mp4");
    if path.exists() {
        return Ok(path);
    }
    let failed = |source| TilesError::Cache { path: path.clone(), source };
    // Renamed when complete; deleted if the rendering fails.
    let part = tempfile::Builder::new().suffix(".mp4").tempfile_in(cache).map_err(failed)?;
    let (size, rate) = (format!("{}x{}", SIZE.0, SIZE.1), RATE.to_string());
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", &size]);
    command.args(["-r", &rate, "-i", "pipe:0", "-c:v", "libx264", "-preset", "ultrafast", "-qp", "12"]);
    command.arg(program::name_of(part.path()));
    let rendered = program::run_fed("ffmpeg", &mut command, |input| {
        let scene = Scene::new(SIZE.0, SIZE.1);
        let mut frame = scene.frame();
        (0..LOOPED_SECONDS * RATE).try_for_each(|number| {
            scene.render(number, &mut frame);
            input.write_all(&frame)
        })
    });
    rendered.map_err(|source| TilesError::Scene { cache: cache.to_owned(), source })?;
    part.persist(&path).map_err(|error| failed(error.error))?;
    Ok(path)
}
