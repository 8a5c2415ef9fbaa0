//! Progress reports of an ingest, and how the caller stops it.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::IngestError;
use super::recipe::Recipe;
use crate::record::compared;

/// Estimated duration and size of an ingest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Pictures of the tiled video.
    pub pictures: usize,
    /// Their width and height.
    pub size: (usize, usize),
    /// Number of parallel jobs.
    pub jobs: usize,
    /// Wall time of the whole ingest.
    pub time: Duration,
    /// Size of the finished directory.
    pub bytes: u64,
}

/// The stages of an ingest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The source is decoded and stored losslessly.
    Source,
    /// Tiles are encoded, decoded again and measured.
    Tiles,
}

/// Progress of an ingest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The present stage.
    pub stage: Stage,
    /// Completed work, including that of an earlier run. One unit is about half of encoding one picture of
    /// one tile.
    pub done: usize,
    /// Total work.
    pub total: usize,
    /// Pictures of the video.
    pub pictures: usize,
}

/// Receives an ingest's progress and may stop it. Called from several threads.
pub trait Watch: Sync {
    /// A picture is finished, or a stage begins.
    fn at(&self, progress: Progress);

    /// Whether the ingest should stop. Asked before every picture.
    fn stops(&self) -> bool {
        false
    }
}

impl<F: Fn(Progress) + Sync> Watch for F {
    fn at(&self, progress: Progress) {
        self(progress);
    }
}

/// The caller stopped the ingest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Halt;

impl From<Halt> for io::Error {
    fn from(_: Halt) -> Self {
        Self::other("stopped")
    }
}

impl From<Halt> for IngestError {
    fn from(_: Halt) -> Self {
        Self::Stopped { kept: true }
    }
}

/// Counts the work.
pub(super) struct Meter<'a> {
    watch: &'a dyn Watch,
    recipe: &'a Recipe,
    gops: usize,
    done: AtomicUsize,
    stage: Stage,
}

impl<'a> Meter<'a> {
    pub(super) fn new(watch: &'a dyn Watch, recipe: &'a Recipe) -> Self {
        let meter =
            Self { watch, recipe, gops: recipe.gops, done: AtomicUsize::new(0), stage: Stage::Source };
        meter.tell();
        meter
    }

    /// Sets the number of GoPs found in the source, and the units of work on tiles done by an earlier run.
    pub(super) fn tiles(&mut self, gops: usize, done: usize) {
        self.stage = Stage::Tiles;
        self.gops = gops;
        self.done = AtomicUsize::new(gops * self.recipe.pictures_per_gop * self.source_picture() + done);
        self.tell();
    }

    /// Work on one picture of the source.
    pub(super) fn source_picture(&self) -> usize {
        self.recipe.grid.tiles()
    }

    /// Work on one picture of one tile at one QP: encoding, then measuring.
    pub(super) const TILE_PICTURE: usize = 2;

    /// Work on one untiled picture at all QPs.
    pub(super) fn untiled_picture(&self) -> usize {
        Self::TILE_PICTURE * self.recipe.grid.tiles() * self.recipe.qps.len()
    }

    fn total(&self) -> usize {
        let gops = self.gops;
        let tiles = gops * (self.source_picture() + self.untiled_picture());
        (tiles + compared(gops).count() * self.untiled_picture()) * self.recipe.pictures_per_gop
    }

    fn tell(&self) {
        let gops = self.gops;
        self.watch.at(Progress {
            stage: self.stage,
            done: self.done.load(Ordering::Relaxed).min(self.total()),
            total: self.total(),
            pictures: gops * self.recipe.pictures_per_gop,
        });
    }

    /// Adds completed work.
    ///
    /// # Errors
    /// The caller stopped the ingest.
    pub(super) fn tick(&self, units: usize) -> Result<(), Halt> {
        self.done.fetch_add(units, Ordering::Relaxed);
        if self.watch.stops() {
            return Err(Halt);
        }
        if units > 0 {
            self.tell();
        }
        Ok(())
    }
}
