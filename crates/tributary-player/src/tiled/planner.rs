//! Plans one GoP: runs the allocator on the head's position, the predicted view and the tiles that have arrived.
//!
//! A plan uses the head trace only up to the moment of planning. Allocation and prediction are in
//! `tributary-video`.

use std::collections::BTreeMap;

use tributary_video::allocation::{
    self, Allocation, Allocator, ArrivalOrder, Capacity, GopProblem, ProblemError, Settings, TileMenu,
    UnknownAllocator,
};
use tributary_video::head::{HeadSample, HeadTrace, TraceError};
use tributary_video::prediction::{
    GopClock, Live, LiveSettings, Population, TileOutlook, Viewing, similarity,
};
use tributary_video::rd::{Concealment, RdTable};
use tributary_video::sphere::Orientation;
use tributary_video::viewport::{FieldOfView, Viewer};

use super::screen::Screen;
use super::wire::Video;

/// Number of moments in a GoP for which the viewport is predicted.
const MOMENTS: usize = 6;
/// Rays per viewport of other viewers. A small number suffices because there are many viewers.
const RAYS: (usize, usize) = (16, 12);
/// Weight spread evenly over the sphere, for unpredicted head turns: without it, a tile that was never sent
/// is black when the head turns to it.
const UNPREDICTED_WEIGHT: f64 = 0.06;
/// Weight of the view expected in the next GoP, in which a tile sent now may be shown frozen.
const NEXT_GOP_WEIGHT: f64 = 0.1;
/// With one plan per GoP: loss of quality, in dB, accepted to avoid sending messages that are probably late.
const LATE_RISK_DB: f64 = 0.05;
/// Default plans per GoP: often enough to follow the head, rarely enough that most of a plan is sent before the next.
const PLANS: u16 = 8;
/// On one ordered stream, tiles arrive in the plan's order, over any transport.
pub(super) const ARRIVAL: ArrivalOrder = ArrivalOrder::InOrder;
/// How long an observed movement of the head is kept: longer than any prediction looks back, seconds.
const MOVEMENT_KEPT_S: f64 = 5.0;

/// Settings of a viewer's plans.
pub struct Planner {
    /// Allocator that chooses qualities and order; see [`allocator`].
    pub allocator: Box<dyn Allocator>,
    /// Field of view.
    pub field: FieldOfView,
    /// Head movement by playing time; only samples before the moment of planning are read.
    pub trace: HeadTrace,
    /// Head movement of other viewers of this video; may be empty. Each must cover the whole video, or the part
    /// that is played.
    pub crowd: Vec<HeadTrace>,
    /// Concealment of missing tiles.
    pub concealment: Concealment,
}

/// Number of plans per GoP for the allocator `name`: several for `ows` and `ows-no-skip`, one for the
/// others.
#[must_use]
pub fn default_plans(name: &str) -> u16 {
    if matches!(name, "ows" | "ows-no-skip") { PLANS } else { 1 }
}

/// The allocator `name`, for a player that makes `plans` plans per GoP.
///
/// # Errors
/// No allocator has this name.
pub fn allocator(name: &str, plans: u16, exact: bool) -> Result<Box<dyn Allocator>, UnknownAllocator> {
    let unlikely_db = if plans > 1 { 0.0 } else { LATE_RISK_DB };
    allocation::create(name, Settings { exact, unlikely_db, ..Settings::default() })
}

/// Input of a plan.
#[derive(Clone, Copy)]
pub(super) struct Moment<'a> {
    /// The playing time, seconds; negative before the first picture.
    pub(super) playback_s: f64,
    /// The slot of the plan.
    pub(super) slot: u32,
    /// The GoP's menu: a table of one GoP.
    pub(super) menu: &'a RdTable,
    /// Picture shown at the end of the previous GoP.
    pub(super) screen: &'a Screen,
    /// The finest quality of each tile of the GoP that has arrived or is being sent.
    pub(super) have: &'a BTreeMap<u16, u8>,
}

/// Plans one video for one viewer.
pub struct Planning {
    planner: Planner,
    live: Live,
    /// The other viewers, and the number of GoPs in their traces.
    crowd: Option<(Population, u32)>,
    /// Each tile's share of the sphere.
    sphere: Vec<f64>,
    clock: GopClock,
    /// Number of GoPs of the video.
    gops: u32,
}

impl Planner {
    /// A planner for a viewing of `slots` GoPs.
    ///
    /// # Errors
    /// When another viewer's trace ends before the video.
    pub fn begin(self, video: &Video, slots: u32) -> Result<Planning, TraceError> {
        let grid = video.layout.grid;
        let gop_duration_s = video.layout.gop_duration_s;
        let prediction = if self.crowd.is_empty() {
            LiveSettings::default()
        } else {
            LiveSettings::with_similar_viewers()
        };
        let live = Live::new(prediction, self.field, grid);
        let clock = GopClock { gop_duration_s, gops: slots as usize, moments: MOMENTS };
        let shortest_s = self.crowd.iter().map(HeadTrace::duration_s).reduce(f64::min);
        let watched = shortest_s.map(|shortest_s| {
            let known = (shortest_s / gop_duration_s + 1e-9) as u32;
            known.min(slots).max(video.gops.min(slots))
        });
        let crowd = match watched {
            Some(watched) => {
                let viewer = Viewer::with_rays(self.field, grid, RAYS);
                let clock = GopClock { gops: watched as usize, ..clock };
                let viewings = self.crowd.iter().map(|trace| Viewing::of(trace, &viewer, clock));
                // Viewings with the same clock and grid can be combined.
                Population::new(viewings.collect::<Result<Vec<_>, _>>()?).ok().map(|crowd| (crowd, watched))
            }
            None => None,
        };
        let sphere = grid.sphere_shares();
        Ok(Planning { planner: self, live, crowd, sphere, clock, gops: video.gops })
    }
}

impl Planning {
    /// The head's orientation at a playing time, seconds. The first observation replaces the planner's trace.
    pub(super) fn look(&mut self, playback_s: f64, orientation: Orientation) {
        let trace = &mut self.planner.trace;
        // Before the first picture the playing time does not increase.
        if playback_s < trace.duration_s() {
            *trace = HeadTrace::still(orientation);
        }
        trace.observe(HeadSample { time_s: playback_s, orientation }, MOVEMENT_KEPT_S);
    }

    /// Expected view of each tile in `slot`, from the trace up to the given playing time.
    #[must_use]
    pub fn outlook(&self, playback_s: f64, slot: u32) -> Vec<TileOutlook> {
        let crowd = self.crowd.as_ref().map_or_else(Vec::new, |(crowd, watched)| {
            // For a looped video longer than the others' traces, their first round is used for later rounds.
            let gop = if slot < *watched { slot } else { slot % self.gops };
            let now_s = playback_s - f64::from(slot - gop) * self.clock.gop_duration_s;
            let own = self.planner.trace.at(playback_s);
            crowd.outlook_weighted(gop as usize, &similarity(own, &self.planner.crowd, now_s))
        });
        self.live.outlook(&self.planner.trace, playback_s, (self.clock, slot as usize), &crowd)
    }

    /// The tiles at one moment: their menus, weights, and what is shown without more of them.
    pub(super) fn tiles(&self, moment: Moment<'_>) -> Vec<TileMenu> {
        let Moment { playback_s, slot, menu, screen, have } = moment;
        let outlook = self.outlook(playback_s, slot);
        let last = self.clock.gops as u32 - 1;
        let later = self.outlook(playback_s, (slot + 1).min(last));
        let cells = menu.gop(0);
        let mut tiles = menu.menus(0, &outlook, self.planner.concealment);
        let concealed = screen.concealed(cells);
        for (tile, of) in tiles.iter_mut().enumerate() {
            let here =
                have.get(&(tile as u16)).and_then(|quality| cells[tile].mse.get(usize::from(*quality)));
            of.concealed_mse = here.copied().unwrap_or(concealed[tile]);
            // Scaled, so that the sum of the weights stays 1.
            let weight =
                of.weight + UNPREDICTED_WEIGHT * self.sphere[tile] + NEXT_GOP_WEIGHT * later[tile].share;
            of.weight = weight / (1.0 + UNPREDICTED_WEIGHT + NEXT_GOP_WEIGHT);
        }
        tiles
    }

    /// The decision at one moment; `samples` are samples of the capacity in bytes.
    ///
    /// # Errors
    /// The numbers are not a valid problem; a checked menu and samples of arrivals always are.
    pub(super) fn plan(&self, moment: Moment<'_>, samples: &[f64]) -> Result<Allocation, ProblemError> {
        let capacity = Capacity::from_paths(std::slice::from_ref(&samples.to_vec()))?;
        let problem = GopProblem::new(self.tiles(moment), capacity, ARRIVAL)?;
        Ok(self.planner.allocator.allocate(&problem))
    }

    /// The allocator of its plans.
    pub(super) fn allocator(&self) -> &dyn Allocator {
        &*self.planner.allocator
    }
}
