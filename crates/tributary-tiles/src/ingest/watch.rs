//! What an ingest tells its caller while it works, and how the caller stops it.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::IngestError;
use super::plan::Plan;
use crate::record::compared;

/// What an ingest will probably take, from a sample of a few pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Pictures of the tiled video.
    pub pictures: usize,
    /// Their width and height.
    pub size: (usize, usize),
    /// Pieces of work at once.
    pub jobs: usize,
    /// Wall time of the whole ingest.
    pub time: Duration,
    /// Size of the finished directory.
    pub bytes: u64,
}

/// The two stages of an ingest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The source is decoded and kept without loss.
    Source,
    /// Tiles are encoded, decoded again and measured.
    Tiles,
}

/// How far an ingest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is done at the moment.
    pub stage: Stage,
    /// Work done, that of an earlier run included. The unit is about half of encoding one picture of one tile once.
    pub done: usize,
    /// All work.
    pub total: usize,
    /// Pictures of the video.
    pub pictures: usize,
}

/// Hears of an ingest's progress and may stop it. Called from several threads.
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

/// The caller wants no more.
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
    plan: &'a Plan,
    gops: usize,
    done: AtomicUsize,
    stage: Stage,
}

impl<'a> Meter<'a> {
    pub(super) fn new(watch: &'a dyn Watch, plan: &'a Plan) -> Self {
        let meter = Self { watch, plan, gops: plan.gops, done: AtomicUsize::new(0), stage: Stage::Source };
        meter.tell();
        meter
    }

    /// The source has turned out to have `gops` GoPs, and `done` units of work on tiles were done by an earlier run.
    pub(super) fn tiles(&mut self, gops: usize, done: usize) {
        self.stage = Stage::Tiles;
        self.gops = gops;
        self.done = AtomicUsize::new(gops * self.plan.pictures_per_gop * self.source_picture() + done);
        self.tell();
    }

    /// Work on one picture of the source.
    pub(super) fn source_picture(&self) -> usize {
        self.plan.grid.tiles()
    }

    /// Work on one picture of one tile at one QP: encoded, then measured.
    pub(super) const TILE_PICTURE: usize = 2;

    /// Work on one picture in one piece at all QPs.
    pub(super) fn untiled_picture(&self) -> usize {
        Self::TILE_PICTURE * self.plan.grid.tiles() * self.plan.qps.len()
    }

    fn total(&self) -> usize {
        let gops = self.gops;
        let tiles = gops * (self.source_picture() + self.untiled_picture());
        (tiles + compared(gops).count() * self.untiled_picture()) * self.plan.pictures_per_gop
    }

    fn tell(&self) {
        let gops = self.gops;
        self.watch.at(Progress {
            stage: self.stage,
            done: self.done.load(Ordering::Relaxed).min(self.total()),
            total: self.total(),
            pictures: gops * self.plan.pictures_per_gop,
        });
    }

    /// Some work is done.
    ///
    /// # Errors
    /// The caller wants no more.
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
