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
use super::planner::{self, Planner};
use super::{OwsError, scene};

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
    pub earlier: Arc<Vec<f64>>,
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
    /// Percent of the viewport late in the very first GoP.
    pub first_late_percent: f64,
    /// The viewport's mean squared error, GoP by GoP.
    pub errors: Vec<f32>,
}

impl Task {
    pub fn run(&self) -> Result<Viewed, OwsError> {
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
        let mut seen: Vec<Seen> = Vec::with_capacity(gops);
        for (at, record) in outcome.record.gops.iter().enumerate() {
            let shown = display.advance(clip.table().gop(clip.at(at)), record);
            seen.push(display::seen(&shown, &self.watched.views[at]));
        }
        let records = &outcome.record.gops;
        let in_time = records.iter().skip(STARTING).map(|record| record.bytes_in_time as f64);
        self.report(&seen, in_time.sum::<f64>())
    }

    fn report(&self, seen: &[Seen], in_time: f64) -> Result<Viewed, OwsError> {
        let counted = &seen[STARTING.min(seen.len())..];
        let errors: Vec<f64> = counted.iter().map(|seen| seen.mse).collect();
        let Some(summary) = Summary::of(&errors) else {
            return Err(OwsError::NothingSeen { scene: self.scene, transport: self.transport });
        };
        let percent =
            |of: fn(&Seen) -> f64| 100.0 * counted.iter().map(of).sum::<f64>() / errors.len() as f64;
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
            first_late_percent: 100.0 * seen[0].late,
            errors: errors.iter().map(|error| *error as f32).collect(),
        })
    }
}
