//! Reads a tiled video: opens and checks it, then reads piece by piece.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tributary_video::rd::{RdTable, TableError};
use tributary_video::tiles::TileGrid;

use crate::decode::{DecodeError, Pictures};
use crate::layout;
use crate::rate::FrameRate;
use crate::record::{FORMAT, Record, SoundInfo, SourceInfo};

/// A complete tiled video in a directory.
///
/// Opening checks that every file exists with the size in the table; reading a file checks its SHA-256.
#[derive(Clone)]
pub struct TiledVideo {
    directory: PathBuf,
    record: Record,
    table: RdTable,
    sums: BTreeMap<String, [u8; 32]>,
    /// Initialisation segments, `[tile][QP]`.
    inits: Vec<Vec<Vec<u8>>>,
    /// Bytes of each GoP's sound; 0 without any.
    sounds: Vec<u32>,
    low: Option<Arc<TiledVideo>>,
}

/// Why a tiled video, or a piece of it, cannot be read.
#[derive(Debug, Error)]
pub enum TiledError {
    /// The directory contains no tiled video.
    #[error("{directory} holds no tiled video; make one: tributary ingest VIDEO --out {directory}")]
    NotIngested {
        /// The directory.
        directory: PathBuf,
    },
    /// The ingest is not complete.
    #[error("the ingest into {directory} was not finished; give the same command again to continue it")]
    Unfinished {
        /// The directory.
        directory: PathBuf,
    },
    /// A file is missing.
    #[error("{path} is missing; remove its directory and ingest again, or copy all of it")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A file is damaged.
    #[error("{path} is damaged: {reason}; remove its directory and ingest again, or copy all of it")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's message.
        source: io::Error,
    },
    /// The table is invalid.
    #[error("{path}: {source}")]
    Table {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: TableError,
    },
    /// The video has no such GoP, tile or quality.
    #[error("there is no {what} {asked}; the video has {count}, counted from 0")]
    Absent {
        /// `GoP`, `tile` or `quality`.
        what: &'static str,
        /// The requested number.
        asked: usize,
        /// The number of existing ones.
        count: usize,
    },
    /// The data does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl fmt::Debug for TiledVideo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TiledVideo").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl TiledVideo {
    /// Opens the video in `directory`.
    ///
    /// # Errors
    /// The video is missing or incomplete, or a file is missing, damaged or of the wrong size.
    pub fn open(directory: &Path) -> Result<Self, TiledError> {
        let mut video = Self::open_alone(directory)?;
        let at = directory.join(layout::LOW);
        let low = match Self::open_alone(&at) {
            Ok(low) => low,
            Err(TiledError::NotIngested { .. } | TiledError::Unfinished { .. }) => return Ok(video),
            Err(error) => return Err(error),
        };
        if low.gops() != video.gops() {
            let reason = format!("{} GoPs, and the video has {}", low.gops(), video.gops());
            return Err(TiledError::Damaged { path: at, reason });
        }
        video.low = Some(Arc::new(low));
        Ok(video)
    }

    /// Opens it without its low-resolution stream.
    fn open_alone(directory: &Path) -> Result<Self, TiledError> {
        let record = read_record(directory)?;
        let sums = read_sums(directory, &record)?;
        let path = directory.join(layout::TABLE);
        let bytes = read_checked(directory, layout::TABLE, &sums)?;
        let table = RdTable::read_json(&bytes[..]).map_err(|source| TiledError::Table { path, source })?;
        let mut video = Self {
            directory: directory.to_owned(),
            record,
            table,
            sums,
            inits: Vec::new(),
            sounds: Vec::new(),
            low: None,
        };
        video.check()?;
        for tile in 0..video.grid().tiles() {
            let init = |qp: &u8| read_checked(directory, &layout::init(tile, *qp), &video.sums);
            let inits = video.qps().iter().map(init).collect::<Result<_, _>>()?;
            video.inits.push(inits);
        }
        Ok(video)
    }

    /// Measured bytes and errors of every tile in every quality.
    #[must_use]
    pub fn table(&self) -> &RdTable {
        &self.table
    }

    /// Number of GoPs.
    #[must_use]
    pub fn gops(&self) -> usize {
        self.table.gops()
    }

    /// The tiles.
    #[must_use]
    pub fn grid(&self) -> TileGrid {
        self.table.layout().grid
    }

    /// Quantisation parameters, ascending: the finest quality first.
    #[must_use]
    pub fn qps(&self) -> &[u8] {
        &self.table.layout().qps
    }

    /// The panorama's width and height, pixels.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.table.layout().width, self.table.layout().height)
    }

    /// A tile's width and height in pixels, the same for all tiles.
    #[must_use]
    pub fn tile_size(&self) -> (usize, usize) {
        let (width, height) = self.size();
        (width / self.grid().columns(), height / self.grid().rows())
    }

    /// Pictures a second.
    #[must_use]
    pub fn frame_rate(&self) -> FrameRate {
        self.record.frame_rate
    }

    /// Pictures in every GoP.
    #[must_use]
    pub fn pictures_per_gop(&self) -> usize {
        self.record.pictures_per_gop
    }

    /// The video it was made from.
    #[must_use]
    pub fn source(&self) -> &SourceInfo {
        &self.record.source
    }

    /// The record: source, settings, tiling overhead.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Its path.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The media presentation description.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn manifest(&self) -> Result<Vec<u8>, TiledError> {
        read_checked(&self.directory, layout::MANIFEST, &self.sums)
    }

    /// The initialisation segment of a tile in a quality, given by its index in [`Self::qps`].
    ///
    /// # Errors
    /// The tile or the quality does not exist.
    pub fn init(&self, tile: usize, qp_index: usize) -> Result<&[u8], TiledError> {
        self.require(0, tile, qp_index)?;
        Ok(&self.inits[tile][qp_index])
    }

    /// The media segment of a tile of a GoP in a quality, given by its index in [`Self::qps`].
    ///
    /// # Errors
    /// It does not exist, or its file is missing, unreadable or damaged.
    pub fn segment(&self, gop: usize, tile: usize, qp_index: usize) -> Result<Vec<u8>, TiledError> {
        self.require(gop, tile, qp_index)?;
        read_checked(&self.directory, &layout::segment(gop, tile, self.qps()[qp_index]), &self.sums)
    }

    /// The low-resolution stream: the same video with a single tile in one quality for each eye, for players that cannot decode the tiles.
    #[must_use]
    pub fn low(&self) -> Option<&Arc<Self>> {
        self.low.as_ref()
    }

    /// The sound; `None` for a silent video.
    #[must_use]
    pub fn sound(&self) -> Option<&SoundInfo> {
        self.record.sound.as_ref()
    }

    /// Bytes of each GoP's sound, 0 for a GoP without any, such as one after the end of a short track.
    #[must_use]
    pub fn sound_bytes(&self) -> &[u32] {
        &self.sounds
    }

    /// The initialisation segment of the sound.
    ///
    /// # Errors
    /// There is no sound, or the file is missing or damaged.
    pub fn sound_init(&self) -> Result<Vec<u8>, TiledError> {
        read_checked(&self.directory, layout::SOUND_INIT, &self.sums)
    }

    /// The media segment of a GoP's sound.
    ///
    /// # Errors
    /// There is none, or its file is missing, unreadable or damaged.
    pub fn sound_segment(&self, gop: usize) -> Result<Vec<u8>, TiledError> {
        self.require(gop, 0, 0)?;
        read_checked(&self.directory, &layout::sound(gop), &self.sums)
    }

    /// The source's pictures of a GoP, lossless, at the panorama's size.
    ///
    /// # Errors
    /// There is no such GoP, its file is missing or damaged, or ffmpeg is.
    pub fn reference(&self, gop: usize) -> Result<Pictures, TiledError> {
        self.require(gop, 0, 0)?;
        let stream = read_checked(&self.directory, &layout::reference(gop), &self.sums)?;
        Ok(Pictures::of_stream(stream, self.size())?)
    }

    /// Reads every file and compares its SHA-256.
    ///
    /// # Errors
    /// The first file that is missing, unreadable or damaged.
    pub fn verify(&self) -> Result<(), TiledError> {
        self.sums.keys().try_for_each(|name| read_checked(&self.directory, name, &self.sums).map(drop))?;
        self.low.as_ref().map_or(Ok(()), |low| low.verify())
    }

    fn require(&self, gop: usize, tile: usize, qp_index: usize) -> Result<(), TiledError> {
        let counts = [self.gops(), self.grid().tiles(), self.qps().len()];
        for ((what, asked), count) in
            [("GoP", gop), ("tile", tile), ("quality", qp_index)].into_iter().zip(counts)
        {
            if asked >= count {
                return Err(TiledError::Absent { what, asked, count });
            }
        }
        Ok(())
    }

    /// Checks that the parts fit together, and that every file exists with the right size.
    fn check(&mut self) -> Result<(), TiledError> {
        let ((width, height), grid) = (self.size(), self.grid());
        let even = |side: usize, count: usize| side.is_multiple_of(2 * count);
        let path = self.directory.join(layout::TABLE);
        if !even(width, grid.columns()) || !even(height, grid.rows()) {
            let reason = format!("{width}×{height} pixels cannot be cut into equal tiles of even size");
            return Err(TiledError::Damaged { path, reason });
        }
        let said = self.record.frame_rate.seconds_of(self.record.pictures_per_gop);
        if (said - self.table.layout().gop_duration_s).abs() > 1e-6 {
            let reason = format!("its GoPs do not last the {said} s that {} says", layout::RECORD);
            return Err(TiledError::Damaged { path, reason });
        }
        let mut sounds = Vec::with_capacity(self.gops());
        for gop in 0..self.gops() {
            self.find(&layout::reference(gop), None)?;
            let sound = layout::sound(gop);
            let heard = if self.sums.contains_key(&sound) { self.find(&sound, None)? } else { 0 };
            sounds.push(u32::try_from(heard).unwrap_or(u32::MAX));
            for (tile, cells) in self.table.gop(gop).iter().enumerate() {
                for (qp, bytes) in self.qps().iter().zip(&cells.bytes) {
                    self.find(&layout::segment(gop, tile, *qp), Some(*bytes))?;
                }
            }
        }
        self.sounds = sounds;
        Ok(())
    }

    /// Checks that a file is there; returns its size.
    fn find(&self, name: &str, bytes: Option<u64>) -> Result<u64, TiledError> {
        let path = self.directory.join(name);
        let found = fs::metadata(&path).map_err(|e| unreadable(&path, e))?.len();
        let damaged = |reason: String| Err(TiledError::Damaged { path: path.clone(), reason });
        match bytes {
            _ if !self.sums.contains_key(name) => damaged(format!("it is not listed in {}", layout::SUMS)),
            Some(bytes) if bytes != found => damaged(format!("{found} bytes, {bytes} expected")),
            _ => Ok(found),
        }
    }
}

fn unreadable(path: &Path, source: io::Error) -> TiledError {
    let path = path.to_owned();
    match source.kind() {
        ErrorKind::NotFound => TiledError::Missing { path },
        _ => TiledError::Unreadable { path, source },
    }
}

fn read_record(directory: &Path) -> Result<Record, TiledError> {
    let path = directory.join(layout::RECORD);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let directory = directory.to_owned();
            let begun = directory.join(layout::WORK).exists();
            let none = TiledError::NotIngested { directory: directory.clone() };
            return Err(if begun { TiledError::Unfinished { directory } } else { none });
        }
        Err(error) => return Err(unreadable(&path, error)),
    };
    let damaged = |reason| TiledError::Damaged { path: path.clone(), reason };
    let record: Record = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
    if record.format != FORMAT {
        return Err(damaged(format!("its format is `{}`; this program reads {FORMAT}", record.format)));
    }
    if !(1..=60_000).contains(&record.pictures_per_gop) {
        return Err(damaged(format!("{} pictures in a GoP", record.pictures_per_gop)));
    }
    Ok(record)
}

fn read_sums(directory: &Path, record: &Record) -> Result<BTreeMap<String, [u8; 32]>, TiledError> {
    let path = directory.join(layout::SUMS);
    let bytes = fs::read(&path).map_err(|e| unreadable(&path, e))?;
    let damaged = |reason: &str| TiledError::Damaged { path: path.clone(), reason: reason.to_owned() };
    if layout::hex(&layout::sum(&bytes)) != record.sums_sha256 {
        return Err(damaged("its SHA-256 is another than was recorded"));
    }
    let text = String::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
    let line = |line: &str| {
        let (sum, name) = line.split_once("  ")?;
        Some((name.to_owned(), parse_sum(sum)?))
    };
    let sums: Option<BTreeMap<_, _>> = text.lines().map(line).collect();
    sums.ok_or_else(|| damaged("it has a line that is not a checksum"))
}

fn parse_sum(text: &str) -> Option<[u8; 32]> {
    let mut sum = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in sum.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(sum)
}

fn read_checked(
    directory: &Path,
    name: &str,
    sums: &BTreeMap<String, [u8; 32]>,
) -> Result<Vec<u8>, TiledError> {
    let path = directory.join(name);
    let damaged = |reason: String| TiledError::Damaged { path: path.clone(), reason };
    let Some(expected) = sums.get(name) else {
        return Err(damaged(format!("it is not listed in {}", layout::SUMS)));
    };
    let bytes = fs::read(&path).map_err(|e| unreadable(&path, e))?;
    if layout::sum(&bytes) != *expected {
        return Err(damaged("its SHA-256 is another than was recorded".to_owned()));
    }
    Ok(bytes)
}
