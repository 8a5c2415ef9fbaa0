//! One viewing: one viewer, one clip, one scene, one transport, one allocator; what was seen of every GoP.

use core::time::Duration;
use std::sync::Arc;

use serde::Serialize;
use tributary_sim::workload::tiled::TiledSpec;
use tributary_types::{Instant, Rng};
use tributary_video::metrics::Summary;
use tributary_video::rd::Concealment;

use super::audience::Watched;
use super::clip::Clip;
use super::display::{self, Display, Seen};
use super::known::Course;
use super::planner::{self, Planner};
use super::{OwsError, motion, scene};

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
    /// What an earlier transfer carried.
    pub earlier: Arc<Vec<Course>>,
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

    /// The viewing, GoP by GoP.
    pub fn shown(&self) -> Result<Vec<Shown>, OwsError> {
        let clip = &self.clip.1;
        let gop = Duration::from_secs_f64(clip.gop_s());
        let gops = self.watched.views.len();
        let mut start = Rng::new(self.viewing as u64).child("start");
        let from = SPREAD.mul_f64(start.uniform());
        let scenario = scene::scenario(self.scene, from + gop * gops as u32 + Duration::from_millis(100))?;
        let (from, plans) = (Instant::ZERO + from, planner::plans(self.allocator));
        let spec = TiledSpec { gops, gop, from, plans, ..TiledSpec::default() };
        let (clip_of, watched) = (clip.clone(), self.watched.clone());
        let planner = Planner::new(self.allocator, clip_of, watched, self.concealment, &self.earlier)?;
        let outcome = scene::cell(&scenario, self.transport)?.run_tiled(&spec, Box::new(planner))?;
        let mut display = Display::new(clip.info.tiles, self.concealment);
        let mut held = vec![None; clip.info.tiles];
        let mut all = Vec::with_capacity(gops);
        for (gop, record) in outcome.record.gops.iter().enumerate() {
            let at = self.watched.first + gop;
            let shown = display.advance(clip.table().gop(clip.at(at)), record);
            for (held, finest) in held.iter_mut().zip(display::finest(clip.info.tiles, record)) {
                *held = match (finest, self.concealment) {
                    (Some(choice), _) => Some((at, choice)),
                    (None, Concealment::Freeze) => *held,
                    (None, Concealment::Black) => None,
                };
            }
            all.push(Shown {
                seen: display::seen(&shown, &self.watched.views[gop]),
                held: held.clone(),
                errors: shown.into_iter().map(|(mse, _)| mse).collect(),
                bytes_in_time: record.bytes_in_time,
            });
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
