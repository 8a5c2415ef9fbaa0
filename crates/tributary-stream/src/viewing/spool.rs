//! Arrived tiles, stored on disk until they are decoded: a viewing may not fit into memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::tiled::TileArrived;

/// Maximum number of bytes: half an hour at 1 Gbit/s.
const MOST_BYTES: u64 = 1 << 38;

/// A tile, or the sound of a slot, in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spooled {
    /// The slot.
    pub slot: u32,
    /// The GoP of the video.
    pub gop: u32,
    /// The tile, or [`SOUND`](crate::tiled::SOUND).
    pub tile: u16,
    /// Index of the quality.
    pub quality: u8,
    /// Whether it was in time.
    pub in_time: bool,
    /// Offset of its bytes.
    pub at: u64,
    /// Bytes of the initialisation segment, then of the media segment.
    pub lengths: (u32, u32),
}

/// Stored bytes and the list of tiles.
#[derive(Debug)]
pub struct Spool {
    file: File,
    end: u64,
    tiles: Vec<Spooled>,
    /// Offset and length of the first initialisation segment of each tile and quality.
    inits: BTreeMap<(u16, u8), (u64, u32)>,
}

/// Why a tile cannot be read back.
#[derive(Debug, Error)]
pub enum SpoolError {
    /// Reading the file failed.
    #[error("cannot read the stored tiles: {0}")]
    Io(#[from] io::Error),
    /// The initialisation segment is missing.
    #[error("tile {tile} in quality {quality} of slot {slot} came without its initialisation segment")]
    NoInit {
        /// The slot.
        slot: u32,
        /// The tile.
        tile: u16,
        /// The quality.
        quality: u8,
    },
}

impl Spool {
    /// An empty spool in a temporary file, deleted when the spool is dropped.
    ///
    /// # Errors
    /// The temporary file cannot be created.
    pub fn temporary() -> io::Result<Self> {
        Ok(Self::of(tempfile::tempfile()?))
    }

    /// An empty spool in a file of this name, which is kept.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self::of(File::options().read(true).write(true).create(true).truncate(true).open(path)?))
    }

    /// A spool that another process filled, with the list of its tiles.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path, tiles: Vec<Spooled>) -> io::Result<Self> {
        let mut spool = Self::of(File::open(path)?);
        for tile in tiles {
            spool.note(tile);
        }
        Ok(spool)
    }

    fn of(file: File) -> Self {
        Self { file, end: 0, tiles: Vec::new(), inits: BTreeMap::new() }
    }

    /// Stores a tile.
    ///
    /// # Errors
    /// The disk is full, or the viewing exceeds the limit.
    pub fn push(&mut self, tile: &TileArrived) -> io::Result<()> {
        let init = tile.init.as_ref().map_or(0, |init| init.len());
        if self.end + (init + tile.segment.len()) as u64 > MOST_BYTES {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        if let Some(init) = &tile.init {
            self.file.write_all(init)?;
        }
        self.file.write_all(&tile.segment)?;
        let TileArrived { slot, gop, tile: number, quality, in_time, ref segment, .. } = *tile;
        let lengths = (init as u32, segment.len() as u32);
        self.note(Spooled { slot, gop, tile: number, quality, in_time, at: self.end, lengths });
        Ok(())
    }

    fn note(&mut self, tile: Spooled) {
        if tile.lengths.0 > 0 {
            self.inits.entry((tile.tile, tile.quality)).or_insert((tile.at, tile.lengths.0));
        }
        self.end = tile.at + u64::from(tile.lengths.0) + u64::from(tile.lengths.1);
        self.tiles.push(tile);
    }

    /// All tiles, in the order of arrival.
    #[must_use]
    pub fn tiles(&self) -> &[Spooled] {
        &self.tiles
    }

    /// The initialisation and the media segment of a tile.
    ///
    /// # Errors
    /// [`SpoolError`].
    pub fn read(&mut self, tile: &Spooled) -> Result<(Vec<u8>, Vec<u8>), SpoolError> {
        let Spooled { slot, tile: number, quality, at, lengths, .. } = *tile;
        let Some((init_at, init)) = self.inits.get(&(number, quality)).copied() else {
            return Err(SpoolError::NoInit { slot, tile: number, quality });
        };
        let init = self.part(init_at, init)?;
        Ok((init, self.part(at + u64::from(lengths.0), lengths.1)?))
    }

    fn part(&mut self, at: u64, length: u32) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        self.file.seek(SeekFrom::Start(at))?;
        BufReader::new(&self.file).read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
