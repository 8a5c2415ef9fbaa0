//! The quality that the viewer sees now: of some slots one picture, decoded with what was in time, against the source's.
//!
//! Decoding everything would disturb what is measured, so it is a sample; whole viewings are measured afterwards ([`super::measure`]). No
//! models: each place shows its tile of the slot, or the last picture of the tile that was there before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tributary_tiles::decode::{self, TileData};
use tributary_tiles::{TiledVideo, patch};
use tributary_video::metrics::{mse, psnr_db};
use tributary_video::picture::Picture;
use tributary_video::render::{RenderSettings, Renderer};
use tributary_video::sphere::Orientation;

use super::feed::{Feed, News, QualityNews};
use super::measure::{MeasureError, MeasureSettings};
use crate::tiled::{SOUND, TileArrived};

/// One of so many slots is measured.
const EVERY: u32 = 4;

/// What to compare with.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) video: TiledVideo,
    pub(super) settings: MeasureSettings,
}

/// A tile as it arrived.
#[derive(Clone, Debug)]
struct Held {
    slot: u32,
    quality: u8,
    segment: Bytes,
}

/// The tiles of one viewing, for its sample.
#[derive(Debug)]
pub(super) struct Sampler {
    reference: Arc<Reference>,
    inits: BTreeMap<(u16, u8), Bytes>,
    /// The finest tiles in time of slots that have not begun.
    coming: BTreeMap<(u32, u16), Held>,
    /// What each place shows.
    shown: BTreeMap<u16, Held>,
    /// A picture is being measured.
    busy: Arc<AtomicBool>,
}

impl Sampler {
    pub(super) fn new(reference: Arc<Reference>) -> Self {
        Self {
            reference,
            inits: BTreeMap::new(),
            coming: BTreeMap::new(),
            shown: BTreeMap::new(),
            busy: Arc::default(),
        }
    }

    /// What it compares with.
    pub(super) fn video(&self) -> &TiledVideo {
        &self.reference.video
    }

    /// A tile has arrived; sound has no pictures.
    pub(super) fn tile(&mut self, tile: &TileArrived) {
        if tile.tile == SOUND {
            return;
        }
        if let Some(init) = &tile.init {
            self.inits.insert((tile.tile, tile.quality), init.clone());
        }
        if !tile.in_time {
            return;
        }
        let held = Held { slot: tile.slot, quality: tile.quality, segment: tile.segment.clone() };
        let known = self.coming.entry((tile.slot, tile.tile)).or_insert_with(|| held.clone());
        if held.quality < known.quality {
            *known = held;
        }
    }

    /// A slot begins to be shown, with this GoP; the viewer looks there.
    pub(super) fn begin(&mut self, (slot, gop): (u32, u32), pose: Orientation, feed: &Feed) {
        let later = self.coming.split_off(&(slot + 1, 0));
        for ((_, tile), held) in std::mem::replace(&mut self.coming, later) {
            self.shown.insert(tile, held);
        }
        if !slot.is_multiple_of(EVERY) || self.busy.swap(true, Ordering::Relaxed) {
            return;
        }
        let shown: Vec<(u16, Held, Bytes)> = self
            .shown
            .iter()
            .filter_map(|(tile, held)| {
                let init = self.inits.get(&(*tile, held.quality))?;
                Some((*tile, held.clone(), init.clone()))
            })
            .collect();
        let (reference, busy, feed) = (self.reference.clone(), self.busy.clone(), feed.clone());
        tokio::task::spawn_blocking(move || {
            match reference.measure((slot, gop), &shown, pose) {
                Ok(quality) => feed.say(&News::Quality(quality)),
                Err(error) => tracing::warn!("the viewport of slot {slot} cannot be measured: {error}"),
            }
            busy.store(false, Ordering::Relaxed);
        });
    }
}

impl Reference {
    fn measure(
        &self,
        (slot, gop): (u32, u32),
        shown: &[(u16, Held, Bytes)],
        pose: Orientation,
    ) -> Result<QualityNews, MeasureError> {
        let (video, settings) = (&self.video, self.settings);
        let (grid, size, count) = (video.grid(), video.size(), video.pictures_per_gop());
        let data: Vec<TileData<'_>> =
            shown.iter().map(|(_, held, init)| TileData { init, segment: &held.segment }).collect();
        let decoded = decode::tiles(&data, video.tile_size(), count)
            .map_err(|source| MeasureError::Decode { slot, source })?;
        let mut panorama = Picture::black(size.0, size.1)?;
        for ((tile, held, _), pictures) in shown.iter().zip(&decoded) {
            let at = if held.slot == slot { count / 2 } else { count - 1 };
            if let Some(picture) = pictures.get(at).filter(|_| usize::from(*tile) < grid.tiles()) {
                patch::paste(&mut panorama, picture, grid.pixels(usize::from(*tile), size))?;
            }
        }
        drop(decoded);
        let mut reference = video.reference(gop as usize)?;
        let mut source = Picture::black(size.0, size.1)?;
        for _ in 0..=count / 2 {
            if !reference.read_into(&mut source)? {
                return Err(MeasureError::Reference { gop, expected: count });
            }
        }
        let (projection, field, viewport) = (grid.projection(), settings.field, settings.viewport);
        let mut renderer = Renderer::new(RenderSettings { projection, panorama: size, field, viewport })?;
        let seen = renderer.render(&panorama, pose)?;
        let original = renderer.render(&source, pose)?;
        let error = mse(&seen.luma(), &original.luma())?;
        let viewport_psnr_db = (error > 0.0).then(|| psnr_db(error));
        Ok(QualityNews { slot, viewport_psnr_db, every: EVERY })
    }
}
