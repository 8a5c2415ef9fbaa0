//! What the player asks for: the allocator's decision on one GoP, from where the head is and what has arrived.
//!
//! A plan knows the head's trace up to the moment of planning and nothing later. Allocation and prediction are
//! `tributary-video`'s.

use std::collections::BTreeMap;

use tributary_video::allocation::{
    self, Allocation, Allocator, Arrival, Capacity, GopProblem, ProblemError, Settings, UnknownAllocator,
};
use tributary_video::head::{HeadTrace, TraceError};
use tributary_video::prediction::{
    GopClock, Live, LiveSettings, Population, TileOutlook, Viewing, similarity,
};
use tributary_video::rd::{Concealment, RdTable};
use tributary_video::viewport::{FieldOfView, Viewer};

use super::screen::Screen;
use super::wire::Video;

/// Moments of a GoP at which the predicted viewport is looked at.
const MOMENTS: usize = 6;
/// Rays of the other viewers' viewports: there are many, and predictions are not more exact than this.
const RAYS: (usize, usize) = (16, 12);
/// Weight spread evenly over the sphere, for head turns that nothing predicted: without it, a tile that was never sent
/// is black when the head turns to it.
const SURPRISE: f64 = 0.06;
/// Weight of the view expected in the next GoP: what is sent now is what is frozen then.
const LATER: f64 = 0.1;
/// With one plan a GoP: decibels given up so that messages which are probably late are not sent.
const UNLIKELY_DB: f64 = 0.05;
/// Plans a GoP by default: often enough for a turning head, seldom enough that what was planned gets sent.
const PLANS: u16 = 8;
/// What a viewer's plans are made with.
pub struct Planner {
    /// Chooses qualities and order; see [`allocator`].
    pub allocator: Box<dyn Allocator>,
    /// What is seen at once.
    pub field: FieldOfView,
    /// Where the head is, by playing time; only samples before the moment of planning are read.
    pub trace: HeadTrace,
    /// How others watched this video, without this viewer; may be empty. Each must be as long as the video, or as what
    /// is played of it.
    pub crowd: Vec<HeadTrace>,
    /// What the player shows where a tile is missing.
    pub concealment: Concealment,
}

/// Plans a GoP that suit the allocator called `name`: `ows` and `ows-every-tile` look again and again; the others are
/// rules that plan a GoP once.
#[must_use]
pub fn default_plans(name: &str) -> u16 {
    if matches!(name, "ows" | "ows-every-tile") { PLANS } else { 1 }
}

/// The allocator called `name`, for a player that makes `plans` plans a GoP.
///
/// # Errors
/// No allocator has this name.
pub fn allocator(name: &str, plans: u16, exact: bool) -> Result<Box<dyn Allocator>, UnknownAllocator> {
    let unlikely_db = if plans > 1 { 0.0 } else { UNLIKELY_DB };
    allocation::create(name, Settings { exact, unlikely_db, ..Settings::default() })
}

/// What a plan is made from.
#[derive(Clone, Copy)]
pub(super) struct Moment<'a> {
    /// The playing time, seconds; negative before the first picture.
    pub(super) playback_s: f64,
    /// The slot planned for.
    pub(super) slot: u32,
    /// The GoP's menu: a table of one GoP.
    pub(super) menu: &'a RdTable,
    /// What is shown at the end of the GoP before.
    pub(super) screen: &'a Screen,
    /// The finest quality of each tile of the GoP that is here or on its way.
    pub(super) have: &'a BTreeMap<u16, u8>,
}

/// Plans one video for one viewer.
pub struct Planning {
    planner: Planner,
    live: Live,
    /// Everybody else, and how many GoPs they were watched for.
    crowd: Option<(Population, u32)>,
    /// Each tile's share of the sphere.
    sphere: Vec<f64>,
    clock: GopClock,
    /// GoPs of the video.
    gops: u32,
}

impl Planner {
    /// Begins with a video of which `slots` GoPs are played.
    ///
    /// # Errors
    /// A viewer of the crowd stopped before the video's end.
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
                // Viewings of one clock and grid always belong together.
                Population::new(viewings.collect::<Result<Vec<_>, _>>()?).ok().map(|crowd| (crowd, watched))
            }
            None => None,
        };
        let sphere = grid.sphere_shares();
        Ok(Planning { planner: self, live, crowd, sphere, clock, gops: video.gops })
    }
}

impl Planning {
    /// What is expected of each tile in `slot`, at a playing time; nothing later than that is read.
    #[must_use]
    pub fn outlook(&self, playback_s: f64, slot: u32) -> Vec<TileOutlook> {
        let crowd = self.crowd.as_ref().map_or_else(Vec::new, |(crowd, watched)| {
            // Where a looped video outlasts the others' traces, their first round stands for the later ones.
            let gop = if slot < *watched { slot } else { slot % self.gops };
            let now_s = playback_s - f64::from(slot - gop) * self.clock.gop_duration_s;
            let own = self.planner.trace.at(playback_s);
            crowd.outlook_weighted(gop as usize, &similarity(own, &self.planner.crowd, now_s))
        });
        self.live.outlook(&self.planner.trace, playback_s, (self.clock, slot as usize), &crowd)
    }

    /// The decision at one moment, from samples of capacity in bytes.
    ///
    /// # Errors
    /// Numbers that make no problem; a checked menu and samples of arrivals always do.
    pub(super) fn plan(&self, moment: Moment<'_>, samples: &[f64]) -> Result<Allocation, ProblemError> {
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
            // Scaled back, so that the weights stay shares.
            let weight = of.weight + SURPRISE * self.sphere[tile] + LATER * later[tile].share;
            of.weight = weight / (1.0 + SURPRISE + LATER);
        }
        // Over one ordered stream what is first in the plan is first to arrive, whatever carries it.
        let capacity = Capacity::from_paths(std::slice::from_ref(&samples.to_vec()))?;
        let problem = GopProblem::new(tiles, capacity, Arrival::InOrder)?;
        Ok(self.planner.allocator.allocate(&problem))
    }
}
