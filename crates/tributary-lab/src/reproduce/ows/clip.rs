//! The videos of the experiment: rate–distortion tables, measured from files or synthetic, looped and scaled to a
//! common load.
//!
//! Errors stay as measured. All sizes of a clip are multiplied by one factor, so that clips of any resolution load
//! the radios equally: the paper's videos have 16 times the pixels of a 2K clip, and its radios ten times our rates.
//! Every result states the factor.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;
use tributary_stream::tiled::Video;
use tributary_tiles::TiledVideo;
use tributary_types::Rng;
use tributary_video::allocation::MOST_BYTES;
use tributary_video::metrics::psnr_db;
use tributary_video::projection::Projection;
use tributary_video::rd::{RdTable, TableError, TableLayout, TileCells};
use tributary_video::tiles::TileGrid;

/// The table's name in a directory of tiles.
const TABLE: &str = "table.json";
/// A clip counts as moving if freezing its pictures for a GoP gives a PSNR below this, dB.
const MOVING_BELOW_DB: f64 = 30.0;

/// Why a clip cannot be used.
#[derive(Debug, Error)]
pub enum ClipError {
    /// The table cannot be opened.
    #[error("{}: {source}; give a directory that `tributary ingest` has written", path.display())]
    Open {
        /// The table.
        path: PathBuf,
        /// The system's error message.
        source: std::io::Error,
    },
    /// The table is invalid.
    #[error("{}: {source}", path.display())]
    Table {
        /// The table.
        path: PathBuf,
        /// What is wrong with it.
        source: TableError,
    },
    /// All sizes of the finest quality are 0.
    #[error("{name}: the finest quality has no bytes")]
    Empty {
        /// The clip.
        name: String,
    },
}

/// Description of a clip for results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClipInfo {
    /// Its name.
    pub name: String,
    /// Whether the clip was encoded from pictures or is synthetic.
    pub origin: &'static str,
    /// Whether the clip has motion.
    pub moving: bool,
    /// PSNR when the last picture of the previous GoP is shown for a whole GoP, dB.
    pub freeze_db: f64,
    /// Number of GoPs before it repeats.
    pub gops: usize,
    /// Tiles.
    pub tiles: usize,
    /// Quantisation parameters.
    pub qps: Vec<u8>,
    /// Factor by which all sizes were multiplied.
    pub factor: f64,
    /// Mean bytes of a GoP with every tile in the finest quality, after multiplication.
    pub finest_bytes: f64,
    /// The same in the coarsest.
    pub coarsest_bytes: f64,
    /// Additional bytes of the tiles over the untiled pictures, per cent, by QP.
    pub tiling_percent: Vec<(u8, f64)>,
}

/// A clip ready to be streamed.
#[derive(Clone, Debug)]
pub struct Clip {
    /// Its description.
    pub info: ClipInfo,
    table: RdTable,
    directory: Option<PathBuf>,
}

impl Clip {
    /// The clip in a directory of tiles, scaled so that its finest quality has `bytes` per second; `None`: unscaled.
    ///
    /// # Errors
    /// [`ClipError`].
    pub fn read(directory: &Path, bytes: Option<f64>) -> Result<Self, ClipError> {
        let path = directory.join(TABLE);
        let file = File::open(&path).map_err(|source| ClipError::Open { path: path.clone(), source })?;
        let table = RdTable::read_json(file).map_err(|source| ClipError::Table { path, source })?;
        let name = directory.file_name().unwrap_or(directory.as_os_str()).to_string_lossy().into_owned();
        let mut clip = Self::new(name, "encoded", &table, bytes)?;
        clip.info.tiling_percent = tiling_percent(directory);
        clip.directory = Some(directory.to_owned());
        Ok(clip)
    }

    /// Two synthetic clips with sizes and errors like an encoder's: one with motion and one with little.
    ///
    /// # Errors
    /// None in practice.
    pub fn drawn(bytes: f64) -> Result<Vec<Self>, ClipError> {
        let one =
            |(name, motion): (&str, f64)| Self::new(name.to_owned(), "drawn", &draw(motion), Some(bytes));
        [("drawn-moving", 1.0), ("drawn-still", 0.03)].into_iter().map(one).collect()
    }

    fn new(
        name: String,
        origin: &'static str,
        table: &RdTable,
        bytes: Option<f64>,
    ) -> Result<Self, ClipError> {
        let mean = |of: &dyn Fn(&TileCells) -> u64| {
            let gops = (0..table.gops()).flat_map(|gop| table.gop(gop));
            gops.map(|cells| of(cells) as f64).sum::<f64>() / table.gops() as f64
        };
        let finest = mean(&|cells| cells.bytes[0]);
        if finest <= 0.0 {
            return Err(ClipError::Empty { name });
        }
        let factor = bytes.map_or(1.0, |bytes| bytes * table.layout().gop_duration_s / finest);
        let coarsest = mean(&|cells| *cells.bytes.last().expect("a table has qualities"));
        let looped = if bytes.is_some() { looped(table, factor) } else { table.clone() };
        let freeze_db = psnr_db(freeze_mse(&looped));
        let info = ClipInfo {
            name,
            origin,
            moving: freeze_db < MOVING_BELOW_DB,
            freeze_db,
            gops: table.gops(),
            tiles: table.layout().grid.tiles(),
            qps: table.layout().qps.clone(),
            factor,
            finest_bytes: finest * factor,
            coarsest_bytes: coarsest * factor,
            tiling_percent: Vec::new(),
        };
        Ok(Self { info, table: looped, directory: None })
    }

    /// The clip with all sizes multiplied once more. It cannot be decoded, because its tiles on disk are those of the
    /// clip itself.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let cells = (0..self.table.gops()).flat_map(|gop| self.table.gop(gop).to_vec());
        let cells = cells.map(|cell| multiplied(cell, factor)).collect();
        let table = RdTable::new(self.table.layout().clone(), cells);
        let info = ClipInfo {
            factor: self.info.factor * factor,
            finest_bytes: self.info.finest_bytes * factor,
            coarsest_bytes: self.info.coarsest_bytes * factor,
            ..self.info.clone()
        };
        let table = table.expect("a table stays one when its sizes are multiplied");
        Self { info, table, directory: None }
    }

    /// Directory of its tiles; `None` for a synthetic clip.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Its table, with sizes multiplied.
    #[must_use]
    pub fn table(&self) -> &RdTable {
        &self.table
    }

    /// Its table, starting with GoP `first`.
    #[must_use]
    pub fn starting_at(&self, first: usize) -> RdTable {
        let gops = self.table.gops();
        let cells = (0..gops).flat_map(|gop| self.table.gop((first + gop) % gops).to_vec()).collect();
        RdTable::new(self.table.layout().clone(), cells).expect("a table stays one in another order")
    }

    /// The video's description, as a server sends it.
    #[must_use]
    pub fn video(&self) -> Video {
        Video {
            layout: self.table.layout().clone(),
            gops: self.table.gops() as u32,
            sound: None,
            low_resolution: false,
        }
    }

    /// The table's GoP that is shown as GoP `gop` of a viewing.
    #[must_use]
    pub fn at(&self, gop: usize) -> usize {
        gop % self.table.gops()
    }

    /// Length of a GoP, seconds.
    #[must_use]
    pub fn gop_s(&self) -> f64 {
        self.table.layout().gop_duration_s
    }
}

/// The cost of tiling as measured by the ingest; empty if the directory contains only a table.
fn tiling_percent(directory: &Path) -> Vec<(u8, f64)> {
    let Ok(video) = TiledVideo::open(directory) else { return Vec::new() };
    video.record().overhead.iter().map(|overhead| (overhead.qp, 100.0 * overhead.share())).collect()
}

/// The table with multiplied sizes and with the loop closed. In a loop, the first GoP follows the last one, and
/// freezing across this point was not measured. The first GoP gets the mean freezing error of the tile's other GoPs.
/// The error of a real cut would be larger, and would favour transports that miss fewer tiles.
fn looped(table: &RdTable, factor: f64) -> RdTable {
    let (gops, tiles) = (table.gops(), table.layout().grid.tiles());
    let cells = (0..gops).flat_map(|gop| table.gop(gop).to_vec());
    let mut cells: Vec<TileCells> = cells.map(|cell| multiplied(cell, factor)).collect();
    for (at, cell) in cells.iter_mut().enumerate().take(if gops > 1 { tiles } else { 0 }) {
        let others = (1..gops).map(|gop| table.gop(gop)[at].freeze_mse);
        cell.freeze_mse = others.sum::<f64>() / (gops - 1) as f64;
    }
    RdTable::new(table.layout().clone(), cells).expect("a table stays one when its sizes are multiplied")
}

fn multiplied(cell: TileCells, factor: f64) -> TileCells {
    let scaled = |bytes: &u64| ((*bytes as f64 * factor).round().max(1.0) as u64).min(MOST_BYTES);
    TileCells { bytes: cell.bytes.iter().map(scaled).collect(), ..cell }
}

/// Mean freezing error over GoPs and the sphere.
fn freeze_mse(table: &RdTable) -> f64 {
    let shares = table.layout().grid.sphere_shares();
    let gop = |gop: usize| table.gop(gop).iter().zip(&shares).map(|(c, s)| c.freeze_mse * s).sum::<f64>();
    (0..table.gops()).map(gop).sum::<f64>() / table.gops() as f64
}

/// For every six QP more, sizes fall by a factor of 2^-0.8 and errors double, both scaled by a tile's complexity, as
/// in the allocators' benchmark. Rows near the equator are more complex.
fn draw(motion: f64) -> RdTable {
    const GOPS: usize = 10;
    let grid = TileGrid::new(8, 4, Projection::Equirectangular).expect("a valid grid");
    let qps: Vec<u8> = (0..7).map(|at| 16 + 4 * at).collect();
    let mut rng = Rng::new(1).child(if motion < 0.5 { "still" } else { "moving" });
    let places: Vec<(f64, f64, f64)> = (0..grid.tiles())
        .map(|tile| {
            let row = if (1..3).contains(&(tile / grid.columns())) { 1.0 } else { 0.4 };
            let busy = row * (0.2 + rng.uniform() * rng.uniform());
            (busy, 0.5 + 2.0 * rng.uniform() * busy, 40.0 + 1500.0 * rng.uniform() * busy)
        })
        .collect();
    let mut cells = Vec::new();
    for _ in 0..GOPS {
        for (busy, mse, change) in &places {
            let now = 0.7 + 0.6 * rng.uniform();
            let steps = qps.iter().map(|qp| f64::from(qp - qps[0]) / 6.0);
            cells.push(TileCells {
                bytes: steps
                    .clone()
                    .map(|step| (1e5 * busy * now * libm::exp2(-0.8 * step)) as u64 + 40)
                    .collect(),
                mse: steps.map(|step| mse * now * libm::exp2(step)).collect(),
                freeze_mse: motion * change * now,
                black_mse: 6000.0 + 6000.0 * busy,
            });
        }
    }
    let layout = TableLayout { grid, width: 2048, height: 1024, gop_duration_s: 1.0, qps };
    RdTable::new(layout, cells).expect("drawn numbers are in range")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synthetic_clips_have_the_requested_load_and_differ() {
        let clips = Clip::drawn(40e6).unwrap();
        for clip in &clips {
            assert!((clip.info.finest_bytes / 40e6 - 1.0).abs() < 1e-6, "{:?}", clip.info);
            assert!(clip.info.coarsest_bytes < 0.15 * clip.info.finest_bytes);
            let half = clip.scaled(0.5);
            assert!((half.info.finest_bytes / 20e6 - 1.0).abs() < 1e-6, "{:?}", half.info);
            let (cell, whole) = (&half.table().gop(2)[3], &clip.table().gop(2)[3]);
            assert!(cell.bytes[0].abs_diff(whole.bytes[0] / 2) <= 1 && cell.mse == whole.mse);
            assert!(clip.table().not_monotone(1).is_empty());
        }
        assert_eq!(clips.iter().map(|clip| clip.info.moving).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn a_written_clip_is_read_and_a_missing_one_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let error = Clip::read(directory.path(), Some(1e6)).unwrap_err().to_string();
        assert!(error.contains("table.json") && error.contains("tributary ingest"), "{error}");
        draw(1.0).write_json(File::create(directory.path().join(TABLE)).unwrap()).unwrap();
        let clip = Clip::read(directory.path(), Some(1e6)).unwrap();
        assert_eq!((clip.info.origin, clip.info.gops, clip.at(23)), ("encoded", 10, 3));
        // Freezing at the seam has the mean error of the other GoPs.
        let mean = (1..10).map(|gop| clip.table().gop(gop)[5].freeze_mse).sum::<f64>() / 9.0;
        assert!((clip.table().gop(0)[5].freeze_mse - mean).abs() < 1e-9);
        // Without a load it is the table on disk, including its first GoP.
        let (plain, written) = (Clip::read(directory.path(), None).unwrap(), draw(1.0));
        assert_eq!(plain.info.factor, 1.0);
        assert_eq!(plain.table().gop(3)[5].bytes, written.gop(3)[5].bytes);
        assert!((plain.table().gop(0)[5].freeze_mse - written.gop(0)[5].freeze_mse).abs() < 0.01);
        std::fs::write(directory.path().join(TABLE), "{}").unwrap();
        assert!(matches!(Clip::read(directory.path(), Some(1e6)), Err(ClipError::Table { .. })));
    }
}
