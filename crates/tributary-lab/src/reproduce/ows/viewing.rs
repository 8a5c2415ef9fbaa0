//! One viewing: one viewer, one clip, one scene, one transport, one allocator; what was seen of every GoP.

use core::time::Duration;
use std::sync::Arc;

use serde::Serialize;
use tributary_sim::run::TiledOutcome;
use tributary_sim::workload::tiled::TiledSpec;
use tributary_stream::tiled::{self, Planner, PlayerSettings, Screen, SlotRecord};
use tributary_types::{Bitrate, Instant, Rng};
use tributary_video::metrics::Summary;
use tributary_video::prediction::TileView;
use tributary_video::rd::Concealment;
use tributary_video::viewport::FieldOfView;

use super::audience::Watched;
use super::by_gain::{BY_GAIN, ByGain};
use super::clip::Clip;
use super::{OwsError, motion, scene};

/// `ows` as the product plays it: each GoP is planned anew while it is sent. The other allocators plan a GoP once.
pub const UPDATED: &str = "ows-updated";

/// GoPs at the beginning that no quality figure counts: nothing is there to be frozen, and windows are small.
/// How starting goes is reported apart.
pub const STARTING: usize = 2;
/// Viewings begin at any moment of this, so that blockages come at any moment of a GoP.
const SPREAD: Duration = Duration::from_millis(2500);

/// What decides a viewing.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// Index of the clip, and it.
    pub clip: (usize, Arc<Clip>),
    /// Number of the viewing, the same for all that are compared.
    pub viewing: usize,
    pub watched: Arc<Watched>,
    pub scene: &'static str,
    pub transport: &'static str,
    pub allocator: &'static str,
    pub concealment: Concealment,
    /// The rate that is assumed until one has been measured.
    pub assumed: Bitrate,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Viewed {
    /// Index of the clip.
    pub clip: usize,
    /// Number of the viewing, the same for all that are compared.
    pub viewing: usize,
    /// Radio condition.
    pub scene: &'static str,
    /// Transport.
    pub transport: &'static str,
    /// Allocator.
    pub allocator: &'static str,
    /// What is shown of tiles that did not arrive.
    pub concealment: Concealment,
    /// Mean over the GoPs of the viewport's PSNR, dB.
    pub mean_db: f64,
    /// PSNR of the mean error, dB.
    pub pooled_db: f64,
    /// Percent of the viewport whose tiles were sent and came late.
    pub late_percent: f64,
    /// Percent of the viewport whose tiles the plan left out.
    pub left_out_percent: f64,
    /// Bytes that arrived in time, a GoP.
    pub in_time_bytes: f64,
    /// Mean time until what newly comes into view is as good as what was in view, seconds; `None` when nothing came.
    pub to_quality_s: Option<f64>,
    /// Percent of the viewport late in the very first GoP.
    pub first_late_percent: f64,
    /// The viewport's mean squared error, GoP by GoP.
    pub errors: Vec<f32>,
}

/// One GoP as it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// Mean squared error in the viewport.
    pub mse: f64,
    /// Share of the viewport whose tiles were asked for and not in time.
    pub late: f64,
    /// Share of the viewport whose tiles were not asked for.
    pub left_out: f64,
}

/// One GoP as the player showed it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// What was seen of it.
    pub seen: Seen,
    /// Per tile, of which of the clip's GoPs, counted on past its end, which quality is shown; `None` is black.
    pub held: Vec<Option<(usize, usize)>>,
    /// Per tile, its error.
    errors: Vec<f64>,
    bytes_in_time: u64,
}

impl Task {
    pub fn run(&self) -> Result<Viewed, OwsError> {
        let shown = self.shown()?;
        let errors: Vec<&[f64]> = shown.iter().map(|shown| shown.errors.as_slice()).collect();
        let to_quality_gops = motion::to_quality(&errors, &self.watched.views[..errors.len()]);
        let to_quality_s = to_quality_gops.map(|gops| gops * self.clip.1.gop_s());
        Ok(Viewed { to_quality_s, ..self.report(&shown)? })
    }

    /// What the player plans with, for the allocator called `name`.
    pub fn planner(&self, name: &str) -> Result<Planner, OwsError> {
        let allocator = match name {
            BY_GAIN => Box::new(ByGain(tiled::allocator("fix-q", 1, false)?)),
            UPDATED => tiled::allocator("ows", plans(name), false)?,
            _ => tiled::allocator(name, plans(name), false)?,
        };
        let Watched { trace, crowd, .. } = self.watched.as_ref();
        let (field, concealment) = (FieldOfView::default(), self.concealment);
        Ok(Planner { allocator, field, trace: trace.clone(), crowd: crowd.clone(), concealment })
    }

    /// The viewing, begun `from` after the first packet or when the connection is up.
    pub fn outcome(&self, from: Duration) -> Result<TiledOutcome, OwsError> {
        let clip = &self.clip.1;
        let seconds = self.watched.views.len() as f64 * clip.gop_s();
        let length = from + Duration::from_secs_f64(seconds) + Duration::from_millis(500);
        let scenario = scene::scenario(self.scene, length)?;
        let settings = PlayerSettings {
            seconds: Some(seconds as u32),
            assumed: self.assumed,
            plans: plans(self.allocator),
        };
        let table = Arc::new(clip.starting_at(self.watched.first));
        let planner = self.planner(self.allocator)?;
        let spec = TiledSpec { table, settings, planner, from: Instant::ZERO + from };
        Ok(scene::cell(&scenario, self.transport)?.run_tiled(spec)?)
    }

    /// The viewing, GoP by GoP.
    pub fn shown(&self) -> Result<Vec<Shown>, OwsError> {
        let clip = &self.clip.1;
        let from = SPREAD.mul_f64(Rng::new(self.viewing as u64).child("start").uniform());
        let outcome = self.outcome(from)?;
        let mut screen = Screen::new(clip.info.tiles, self.concealment);
        let mut held = vec![None; clip.info.tiles];
        let mut all = Vec::with_capacity(outcome.record.slots.len());
        for (slot, views) in outcome.record.slots.iter().zip(&self.watched.views) {
            let at = self.watched.first + slot.slot as usize;
            let in_time = |tile: usize| slot.in_time(tile as u16);
            let errors = screen.show(clip.table().gop(clip.at(at)), in_time);
            for (tile, held) in held.iter_mut().enumerate() {
                *held = match (in_time(tile), self.concealment) {
                    (Some(choice), _) => Some((at, usize::from(choice))),
                    (None, Concealment::Freeze) => *held,
                    (None, Concealment::Black) => None,
                };
            }
            let (seen, held) = (seen(slot, &errors, views), held.clone());
            all.push(Shown { seen, held, errors, bytes_in_time: slot.bytes_in_time() });
        }
        Ok(all)
    }

    fn report(&self, shown: &[Shown]) -> Result<Viewed, OwsError> {
        let counted = &shown[STARTING.min(shown.len())..];
        let errors: Vec<f64> = counted.iter().map(|shown| shown.seen.mse).collect();
        let in_time = counted.iter().map(|shown| shown.bytes_in_time as f64).sum::<f64>();
        let Some(summary) = Summary::of(&errors) else {
            return Err(OwsError::NothingSeen { scene: self.scene, transport: self.transport });
        };
        let percent = |of: fn(&Seen) -> f64| {
            100.0 * counted.iter().map(|shown| of(&shown.seen)).sum::<f64>() / errors.len() as f64
        };
        Ok(Viewed {
            clip: self.clip.0,
            viewing: self.viewing,
            scene: self.scene,
            transport: self.transport,
            allocator: self.allocator,
            concealment: self.concealment,
            mean_db: summary.mean_db,
            pooled_db: summary.pooled_db,
            late_percent: percent(|seen| seen.late),
            left_out_percent: percent(|seen| seen.left_out),
            in_time_bytes: in_time / errors.len() as f64,
            to_quality_s: None,
            first_late_percent: 100.0 * shown[0].seen.late,
            errors: errors.iter().map(|error| *error as f32).collect(),
        })
    }
}

/// Plans for each GoP.
fn plans(name: &str) -> u16 {
    if name == UPDATED { tiled::default_plans("ows") } else { 1 }
}

/// What a viewer saw of a slot whose tiles had these errors.
fn seen(slot: &SlotRecord, errors: &[f64], views: &[TileView]) -> Seen {
    let mut seen = Seen::default();
    for (tile, (mse, view)) in errors.iter().zip(views).enumerate() {
        seen.mse += mse * view.share;
        match slot.in_time(tile as u16) {
            Some(_) => {}
            None if slot.asked(tile as u16) => seen.late += view.share,
            None => seen.left_out += view.share,
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_was_late_or_left_out() {
        let slot = SlotRecord { planned: vec![(0, 1)], ..SlotRecord::default() };
        let views = [0.25, 0.75].map(|share| TileView { seen: true, share });
        let seen = seen(&slot, &[2.0, 9000.0], &views);
        assert_eq!((seen.mse, seen.late, seen.left_out), (0.5 + 6750.0, 0.25, 0.75));
    }
}
