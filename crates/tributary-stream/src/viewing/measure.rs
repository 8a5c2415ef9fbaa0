//! The quality that the viewer saw: decodes the tiles that were in time, conceals the others, renders the viewport of
//! every picture, and compares it with the source's viewport.
//!
//! No models: every number comes from decoded pictures. Late tiles count as missing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tributary_tiles::decode::{self, TileData};
use tributary_tiles::{DecodeError, TiledError, TiledVideo, patch};
use tributary_video::head::HeadTrace;
use tributary_video::metrics::{SpherePoints, mse, ws_mse};
use tributary_video::picture::{Picture, PictureError};
use tributary_video::rd::Concealment;
use tributary_video::render::{RenderError, RenderSettings, Renderer};
use tributary_video::viewport::{FieldOfView, Viewer};

use super::motion::{Motion, MotionMeter};
use super::recording::{Recorder, Recording};
use super::stills::{StillError, Stills};
use super::{Spool, SpoolError, Spooled};
use crate::tiled::{SOUND, TiledRecord};

/// Number of points of S-PSNR. S-PSNR is computed once per GoP; it differs from that of the full set by hundredths of
/// a decibel.
const POINTS: usize = 65_536;

/// How the view is rendered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasureSettings {
    /// Field of view.
    pub field: FieldOfView,
    /// The viewport's width and height, pixels.
    pub viewport: (usize, usize),
    /// Concealment of missing tiles.
    pub concealment: Concealment,
    /// Whether every picture seen is recorded.
    pub record: bool,
}

/// Quality of one slot. Errors are of luma, averaged over the slot's pictures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct GopQuality {
    /// The slot.
    pub slot: u32,
    /// Mean squared error of the viewport.
    pub viewport_mse: f64,
    /// Mean squared error of the worst picture's viewport.
    pub worst_picture_mse: f64,
    /// Mean squared error over the sphere, weighted by solid angle (WS-PSNR).
    pub ws_mse: f64,
    /// Mean squared error at points spread over the sphere (S-PSNR), of the middle picture.
    pub s_mse: f64,
    /// Share of the viewport's solid angle whose tiles were requested but not in time.
    pub late_share: f64,
    /// Share of the viewport's solid angle whose tiles were not requested.
    pub left_out_share: f64,
}

/// The quality of a whole viewing.
#[derive(Debug)]
pub struct Measured {
    /// Slot by slot.
    pub gops: Vec<GopQuality>,
    /// Motion to high quality.
    pub motion: Motion,
    /// The middle picture of every slot, as seen and as in the source.
    pub stills: Stills,
    /// Every picture seen, if that was wanted.
    pub recording: Option<Recording>,
}

/// Why measuring failed.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// The video on disk cannot be used.
    #[error(transparent)]
    Video(#[from] TiledError),
    /// The received data cannot be read.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The received data does not decode.
    #[error("slot {slot}: {source}")]
    Decode {
        /// The slot.
        slot: u32,
        /// The decoder's error.
        source: DecodeError,
    },
    /// The source has fewer pictures than it should.
    #[error("the source's GoP {gop} has fewer than {expected} pictures")]
    Reference {
        /// The GoP.
        gop: u32,
        /// The expected number.
        expected: usize,
    },
    /// The source does not decode.
    #[error("the source's pictures: {0}")]
    Source(#[from] DecodeError),
    /// A size is not valid.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// A size is not valid.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// The server's video differs from the one on disk.
    #[error("the server's video is not the one to compare with: {0}")]
    Other(String),
    /// Pictures cannot be stored.
    #[error("cannot store pictures: {0}")]
    Stills(#[from] std::io::Error),
    /// The view cannot be recorded.
    #[error("cannot record the view: {0}")]
    Recording(#[from] StillError),
}

/// Decodes and measures a viewing of `video`. Calls `progress` with 0 to 1. Blocks.
///
/// # Errors
/// [`MeasureError`].
pub fn measure(
    (video, record): (&TiledVideo, &TiledRecord),
    spool: &mut Spool,
    trace: &HeadTrace,
    settings: MeasureSettings,
    progress: &mut dyn FnMut(f64),
) -> Result<Measured, MeasureError> {
    let mut viewing = Looking::new(video, settings)?;
    let shown = best_in_time(spool);
    let mut gops = Vec::with_capacity(record.slots.len());
    for (at, slot) in record.slots.iter().enumerate() {
        let none = BTreeMap::new();
        let tiles = shown.get(&slot.slot).unwrap_or(&none);
        for tile in tiles.values() {
            if tile.gop != slot.gop || slot.gop as usize >= video.gops() {
                return Err(MeasureError::Other(format!("slot {} shows GoP {}", slot.slot, tile.gop)));
            }
        }
        let decoded = viewing.decode(slot.slot, tiles, spool)?;
        gops.push(viewing.slot(slot, &decoded, trace)?);
        progress((at + 1) as f64 / record.slots.len() as f64);
    }
    let recording = viewing.recorder.map(Recorder::finish).transpose()?;
    Ok(Measured { gops, motion: viewing.motion.finish(), stills: viewing.stills, recording })
}

/// For each slot and tile, the finest copy that was in time; sound has no pictures.
fn best_in_time(spool: &Spool) -> BTreeMap<u32, BTreeMap<u16, Spooled>> {
    let mut best: BTreeMap<u32, BTreeMap<u16, Spooled>> = BTreeMap::new();
    for tile in spool.tiles().iter().filter(|tile| tile.in_time && tile.tile != SOUND) {
        let known = best.entry(tile.slot).or_default().entry(tile.tile).or_insert(*tile);
        if tile.quality < known.quality {
            *known = *tile;
        }
    }
    best
}

/// The pictures and quality of every tile that was in time.
type Decoded = BTreeMap<u16, (u8, Vec<Picture>)>;

struct Looking<'a> {
    video: &'a TiledVideo,
    settings: MeasureSettings,
    renderer: Renderer,
    viewer: Viewer,
    points: SpherePoints,
    /// The picture that the player shows.
    panorama: Picture,
    black: Picture,
    seen: Picture,
    original: Picture,
    motion: MotionMeter,
    stills: Stills,
    recorder: Option<Recorder>,
}

impl<'a> Looking<'a> {
    fn new(video: &'a TiledVideo, settings: MeasureSettings) -> Result<Self, MeasureError> {
        let (panorama, tile, viewport) = (video.size(), video.tile_size(), settings.viewport);
        let projection = video.grid().projection();
        let render = RenderSettings { projection, panorama, field: settings.field, viewport };
        let picture_s = video.table().layout().gop_duration_s / video.pictures_per_gop() as f64;
        Ok(Self {
            video,
            settings,
            renderer: Renderer::new(render)?,
            viewer: Viewer::new(settings.field, video.grid()),
            points: SpherePoints::new(POINTS),
            panorama: Picture::black(panorama.0, panorama.1)?,
            black: Picture::black(tile.0, tile.1)?,
            seen: Picture::black(viewport.0, viewport.1)?,
            original: Picture::black(viewport.0, viewport.1)?,
            motion: MotionMeter::new(video.qps(), video.grid().tiles(), picture_s),
            stills: Stills::new(viewport)?,
            recorder: settings.record.then(|| Recorder::start(viewport, 1.0 / picture_s)).transpose()?,
        })
    }

    fn decode(
        &self,
        slot: u32,
        tiles: &BTreeMap<u16, Spooled>,
        spool: &mut Spool,
    ) -> Result<Decoded, MeasureError> {
        let grid = self.video.grid();
        if let Some(tile) = tiles.keys().find(|tile| usize::from(**tile) >= grid.tiles()) {
            return Err(MeasureError::Other(format!("it has a tile {tile}")));
        }
        let mut bytes = Vec::with_capacity(tiles.len());
        for tile in tiles.values() {
            bytes.push(spool.read(tile)?);
        }
        let data: Vec<TileData<'_>> =
            bytes.iter().map(|(init, segment)| TileData { init, segment }).collect();
        let pictures = decode::tiles(&data, self.video.tile_size(), self.video.pictures_per_gop())
            .map_err(|source| MeasureError::Decode { slot, source })?;
        let decoded =
            tiles.values().zip(pictures).map(|(tile, pictures)| (tile.tile, (tile.quality, pictures)));
        Ok(decoded.collect())
    }

    fn slot(
        &mut self,
        slot: &crate::tiled::SlotRecord,
        decoded: &Decoded,
        trace: &HeadTrace,
    ) -> Result<GopQuality, MeasureError> {
        let (count, tiles) = (self.video.pictures_per_gop(), self.video.grid().tiles() as u16);
        let gop_s = self.video.table().layout().gop_duration_s;
        let shown: Vec<Option<u8>> = (0..tiles).map(|tile| decoded.get(&tile).map(|d| d.0)).collect();
        let asked: Vec<bool> = (0..tiles).map(|tile| slot.asked(tile)).collect();
        let mut reference = self.video.reference(slot.gop as usize)?;
        let (width, height) = self.video.size();
        let mut source = Picture::black(width, height)?;
        let mut quality = GopQuality { slot: slot.slot, ..GopQuality::default() };
        for at in 0..count {
            if !reference.read_into(&mut source)? {
                return Err(MeasureError::Reference { gop: slot.gop, expected: count });
            }
            self.show(at, decoded)?;
            let pose = trace.at((f64::from(slot.slot) + at as f64 / count as f64) * gop_s);
            self.renderer.render_into(&self.panorama, pose, &mut self.seen)?;
            self.renderer.render_into(&source, pose, &mut self.original)?;
            self.recorder.as_mut().map(|recorder| recorder.push(&self.seen)).transpose()?;
            let error = mse(&self.seen.luma(), &self.original.luma())?;
            let projection = self.video.grid().projection();
            quality.viewport_mse += error / count as f64;
            quality.worst_picture_mse = quality.worst_picture_mse.max(error);
            quality.ws_mse += ws_mse(&self.panorama.luma(), &source.luma(), projection)? / count as f64;
            let shares = self.viewer.shares(pose);
            for (tile, share) in shares.iter().enumerate().filter(|(tile, _)| shown[*tile].is_none()) {
                let sum = if asked[tile] { &mut quality.late_share } else { &mut quality.left_out_share };
                *sum += share / count as f64;
            }
            self.motion.picture(&shares, &shown);
            if at == count / 2 {
                let (panorama, source) = (self.panorama.luma(), source.luma());
                quality.s_mse = self.points.mse((&panorama, projection), (&source, projection));
                self.stills.push(&self.seen, &self.original)?;
            }
        }
        Ok(quality)
    }

    /// Updates the panorama to picture `at` of the slot: received tiles are drawn, the others concealed.
    fn show(&mut self, at: usize, decoded: &Decoded) -> Result<(), MeasureError> {
        let (grid, size) = (self.video.grid(), self.video.size());
        for tile in 0..grid.tiles() {
            let arrived = decoded.get(&(tile as u16)).and_then(|(_, pictures)| pictures.get(at));
            let picture = match (arrived, self.settings.concealment) {
                (Some(picture), _) => picture,
                // The last picture stays on the screen.
                (None, Concealment::Freeze) => continue,
                (None, Concealment::Black) => &self.black,
            };
            patch::paste(&mut self.panorama, picture, grid.pixels(tile, size))?;
        }
        Ok(())
    }
}
