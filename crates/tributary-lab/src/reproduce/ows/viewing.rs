//! One viewing (one viewer, clip, scene, transport and allocator) and the quality of every GoP.

use core::time::Duration;
use std::sync::Arc;

use tributary_link::Direction::Down;
use tributary_sim::run::{TiledOutcome, Viewers};
use tributary_sim::workload::tiled::TiledSpec;
use tributary_stream::tiled::{self, Planner, PlayerSettings, Screen, SlotRecord, TiledRecord};
use tributary_types::{Bitrate, Instant, Rng};
use tributary_video::metrics::{MOST_DB, Summary, psnr_db};
use tributary_video::prediction::TileView;
use tributary_video::rd::Concealment;
use tributary_video::viewport::FieldOfView;

use super::OwsError;
use super::audience::Watched;
use super::clip::Clip;
use super::group::{self, Group};
use super::motion::{self, STARTING};
use super::scene::{self, Scene};
use super::variant::{self, Budgets, FIX_UPDATED};
use crate::reproduce::network::scaled;
use crate::reproduce::sample::Sample;

/// `ows` as in the product: each GoP is planned again while it is sent. Other allocators, except [`FIX_UPDATED`], plan a GoP once.
pub const UPDATED: &str = "ows-updated";

/// Share of a link's bytes that tiles may take when capacity is known: headers take 3.5 %, TLS and frames up to 0.5 %,
/// and 2 % is left because a link's queue is not full in every moment.
const TILE_SHARE: f64 = 0.94;

/// All settings of a viewing.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub clip: Arc<Clip>,
    /// Number of the viewing; equal for viewings that are compared.
    pub viewing: usize,
    pub watched: Arc<Watched>,
    pub scene: Arc<Scene>,
    pub transport: String,
    pub allocator: String,
    /// Concealment of tiles that did not arrive.
    pub concealment: Concealment,
    /// The rate that is assumed until one has been measured.
    pub assumed: Bitrate,
    /// The others who watch at the same time; `None`: nobody, and nothing is said of fairness.
    pub group: Option<Group>,
}

/// The viewer's quality of one GoP.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// Mean squared error in the viewport.
    pub mse: f64,
    /// Share of the viewport whose tiles were requested but not in time.
    pub late: f64,
    /// Share of the viewport whose tiles were not requested.
    pub left_out: f64,
    /// Bytes of media that arrived in time.
    pub bytes_in_time: u64,
}

/// One GoP as the player showed it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// The viewer's quality.
    pub seen: Seen,
    /// For each tile, the GoP and quality shown; `None` is black. GoPs are numbered on through repetitions of the
    /// clip.
    pub held: Vec<Option<(usize, usize)>>,
    /// Error of each tile.
    errors: Vec<f64>,
}

impl Task {
    pub fn run(&self) -> Result<Sample, OwsError> {
        let records = self.viewed()?;
        if self.group.is_none() {
            return self.sample(&records[0]);
        }
        let viewers = self.viewers();
        let samples = viewers.iter().zip(&records).map(|(viewer, record)| viewer.sample(record));
        Ok(group::joined(&samples.collect::<Result<Vec<_>, _>>()?))
    }

    /// One viewer's results.
    fn sample(&self, record: &TiledRecord) -> Result<Sample, OwsError> {
        let shown = self.composed(record);
        let errors: Vec<&[f64]> = shown.iter().map(|shown| shown.errors.as_slice()).collect();
        let to_quality_gops = motion::to_quality(&errors, &self.watched.views[..errors.len()]);
        let mut sample = self.report(&shown.iter().map(|shown| shown.seen).collect::<Vec<_>>())?;
        sample.set("to_quality", Some(to_quality_gops.unwrap_or(0.0) * self.clip.gop_s()));
        let budgets = record.slots.iter().skip(STARTING).map(|slot| slot.capacity_mean);
        sample.set("budget", Some(budgets.sum::<f64>() / (record.slots.len() - STARTING) as f64 / 1e6));
        Ok(sample)
    }

    /// Settings of the player's plans, with the allocator `name`, for a viewing that is started at `from`.
    pub fn planner(&self, name: &str, from: Duration) -> Result<Planner, OwsError> {
        let budgets = |from_where| match from_where {
            Budgets::Links => self.carried(from),
            Budgets::Measured(transport) => self.measured(transport, from),
        };
        let allocator = match variant::create(name, budgets)? {
            Some(variant) => variant,
            None if name == UPDATED => tiled::allocator("ows", plans(name), false)?,
            None => tiled::allocator(name, plans(name), false)?,
        };
        let Watched { trace, crowd, .. } = self.watched.as_ref();
        let (field, concealment) = (FieldOfView::default(), self.concealment);
        Ok(Planner { allocator, field, trace: trace.clone(), crowd: crowd.clone(), concealment })
    }

    /// What the links carry of tiles in each GoP of a viewing that is started at `from`, bytes.
    fn carried(&self, from: Duration) -> Result<Vec<f64>, OwsError> {
        let (gops, gop) = (self.watched.views.len(), Duration::from_secs_f64(self.clip.gop_s()));
        let scenario = self.scene.network(self.viewing, from + gop * (gops as u32 + 1));
        // The first GoP is sent as soon as the menus have been asked for and have come.
        let begin = |gops: usize| Instant::ZERO + from + scenario.rtt * 2 + gop * gops as u32;
        let bytes =
            |path: usize, slot: usize| scenario.capacity(path, Down, begin(slot), begin(slot + 1)).as_bytes();
        let all = |slot: usize| (0..scenario.paths.len()).map(|path| bytes(path, slot)).sum::<u64>() as f64;
        Ok((0..gops).map(|slot| TILE_SHARE * all(slot)).collect())
    }

    /// The mean capacity with which FIX plans each GoP of the same viewing over `transport`, bytes.
    fn measured(&self, transport: &str, from: Duration) -> Result<Vec<f64>, OwsError> {
        let task = Self { transport: transport.to_owned(), allocator: "fix".to_owned(), ..self.clone() };
        Ok(task.outcome(from)?.record.slots.iter().map(|slot| slot.capacity_mean).collect())
    }

    /// Runs the viewing. It starts `from` after the first packet, or when the connection is up, if that is later.
    pub fn outcome(&self, from: Duration) -> Result<TiledOutcome, OwsError> {
        Ok(self.outcomes(from)?.swap_remove(0))
    }

    /// The viewing of this viewer and then of the others, at the same time.
    fn outcomes(&self, from: Duration) -> Result<Vec<TiledOutcome>, OwsError> {
        let scenario = self.scene.network(self.viewing, from + self.length());
        let settings = PlayerSettings::new(Some(self.seconds() as u32), self.assumed, plans(&self.allocator));
        let table = Arc::new(self.clip.starting_at(self.watched.first));
        let spec = |viewer: &Self| {
            let planner = viewer.planner(&self.allocator, from)?;
            Ok(TiledSpec { table: table.clone(), settings, planner, from: Instant::ZERO + from })
        };
        let specs = self.viewers().iter().map(spec).collect::<Result<Vec<_>, OwsError>>()?;
        let share = self.group.as_ref().map_or_else(Viewers::default, |group| group.share);
        let own = (1, if share.own_links { specs.len() as u64 } else { 1 });
        Ok(scene::cell(&scaled(&scenario, own), &self.transport)?.run_viewers(specs, share)?)
    }

    /// This viewer, then the others.
    fn viewers(&self) -> Vec<Self> {
        let others = self.group.iter().flat_map(|group| &group.others);
        let watched = std::iter::once(&self.watched).chain(others);
        watched.map(|watched| Self { watched: watched.clone(), group: None, ..self.clone() }).collect()
    }

    /// The viewing, GoP by GoP.
    pub fn shown(&self) -> Result<Vec<Shown>, OwsError> {
        Ok(self.composed(&self.viewed()?[0]))
    }

    /// Every player's record of the viewing.
    fn viewed(&self) -> Result<Vec<TiledRecord>, OwsError> {
        let within = self.scene.starts_within(self.length());
        let from = within.mul_f64(Rng::new(self.viewing as u64).child("start").uniform());
        Ok(self.outcomes(from)?.into_iter().map(|outcome| outcome.record).collect())
    }

    /// Length of all GoPs, seconds.
    fn seconds(&self) -> f64 {
        self.watched.views.len() as f64 * self.clip.gop_s()
    }

    /// The same with the time that the last GoP may take to arrive.
    fn length(&self) -> Duration {
        Duration::from_secs_f64(self.seconds()) + Duration::from_millis(500)
    }

    /// The tiles shown in each GoP, and their errors from the table.
    pub fn composed(&self, record: &TiledRecord) -> Vec<Shown> {
        let clip = &self.clip;
        let mut screen = Screen::new(clip.info.tiles, self.concealment);
        let mut held = vec![None; clip.info.tiles];
        let mut all = Vec::with_capacity(record.slots.len());
        for (slot, views) in record.slots.iter().zip(&self.watched.views) {
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
            all.push(Shown { seen, held, errors });
        }
        all
    }

    /// Results of a viewing: means over the GoPs that count.
    pub fn report(&self, seen: &[Seen]) -> Result<Sample, OwsError> {
        let counted = &seen[STARTING.min(seen.len())..];
        let errors: Vec<f64> = counted.iter().map(|seen| seen.mse).collect();
        let Some(summary) = Summary::of(&errors) else {
            let (scene, transport) = (self.scene.name.clone(), self.transport.clone());
            return Err(OwsError::NothingSeen { scene, transport });
        };
        let mean = |of: &dyn Fn(&Seen) -> f64| counted.iter().map(of).sum::<f64>() / errors.len() as f64;
        let mut sample = Sample::default();
        sample.set("quality", Some(summary.mean_db));
        sample.set("late", Some(100.0 * mean(&|seen| seen.late)));
        sample.set("left_out", Some(100.0 * mean(&|seen| seen.left_out)));
        sample.set("in_time", Some(mean(&|seen| seen.bytes_in_time as f64 / 1e6)));
        sample.set("first_late", Some(100.0 * seen[0].late));
        sample.series("gop_quality", errors.iter().map(|error| psnr_db(*error).min(MOST_DB)).collect());
        sample.series("errors", errors);
        Ok(sample)
    }
}

/// Number of plans for each GoP.
pub(super) fn plans(name: &str) -> u16 {
    if [UPDATED, FIX_UPDATED].contains(&name) { tiled::default_plans("ows") } else { 1 }
}

/// The viewer's quality in a slot, from the tiles' errors.
fn seen(slot: &SlotRecord, errors: &[f64], views: &[TileView]) -> Seen {
    let mut seen = Seen { bytes_in_time: slot.bytes_in_time(), ..Seen::default() };
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
    fn missing_tiles_are_counted_as_late_or_left_out() {
        let slot = SlotRecord { planned: vec![(0, 1)], ..SlotRecord::default() };
        let views = [0.25, 0.75].map(|share| TileView { seen: true, share });
        let seen = seen(&slot, &[2.0, 9000.0], &views);
        assert_eq!((seen.mse, seen.late, seen.left_out), (0.5 + 6750.0, 0.25, 0.75));
    }
}
