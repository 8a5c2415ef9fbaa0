//! What the client asks for: the allocator's decision on one GoP, from where the head is and what arrived.
//!
//! It knows the trace up to the moment of planning and nothing later. Allocation and prediction are
//! `tributary-video`'s.

use std::collections::BTreeMap;

use tributary_video::allocation::{Allocation, Allocator, Arrival, Capacity, GopProblem, ProblemError};
use tributary_video::head::{HeadTrace, TraceError};
use tributary_video::prediction::{GopClock, Live, LiveSettings, Population, TileOutlook, Viewing};
use tributary_video::rd::{Concealment, RdTable};
use tributary_video::viewport::{FieldOfView, Viewer};

use super::shown::Shown;
use super::wire::Video;

/// How often within a GoP the predicted viewport is looked at.
const MOMENTS: usize = 6;
/// Rays of a crowd's viewports: coarse, for they are many and no nearer the truth for it.
const RAYS: (usize, usize) = (16, 12);
/// Share of the expectation that is spread evenly over the sphere.
const ELSEWHERE: f64 = 0.06;

/// When and for what a plan is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// The playing time, seconds; negative before the first picture.
    pub playback_s: f64,
    /// The slot planned for; slot *i* plays from *i* GoP durations on.
    pub slot: u32,
    /// How many slots are played.
    pub slots: u32,
    /// The GoP of the video shown in the slot.
    pub gop: u32,
}

/// What a viewer's plans are made with.
pub struct Planner {
    /// Chooses qualities and order.
    pub allocator: Box<dyn Allocator>,
    /// How the head is predicted.
    pub prediction: LiveSettings,
    /// What is seen at once.
    pub field: FieldOfView,
    /// Where the head is; only samples before the moment of planning are read.
    pub trace: HeadTrace,
    /// How others watched this video, without this viewer; may be empty.
    pub crowd: Vec<HeadTrace>,
    /// What the player shows where a tile is missing.
    pub concealment: Concealment,
}

/// What a plan finds.
#[derive(Clone, Copy)]
pub(super) struct Screen<'a> {
    /// The GoP's menu: a table of one GoP.
    pub(super) menu: &'a RdTable,
    /// What is shown at the end of the GoP before.
    pub(super) shown: &'a Shown,
    /// The finest quality of each tile of the GoP that is here or on its way.
    pub(super) have: &'a BTreeMap<u16, u8>,
}

/// Plans one video for one viewer.
pub struct Planning {
    planner: Planner,
    live: Live,
    crowd: Option<Population>,
    /// Each tile's share of the sphere.
    solid: Vec<f64>,
}

impl Planner {
    /// Begins with a video.
    ///
    /// # Errors
    /// A viewer of the crowd stopped before the video's end.
    pub fn begin(self, video: &Video) -> Result<Planning, TraceError> {
        let grid = video.layout.grid;
        let live = Live::new(self.prediction, self.field, grid);
        let viewer = Viewer::with_rays(self.field, grid, RAYS);
        let gop_duration_s = video.layout.gop_duration_s;
        let clock = GopClock { gop_duration_s, gops: video.gops as usize, moments: MOMENTS };
        let viewings = self.crowd.iter().map(|trace| Viewing::of(trace, &viewer, clock));
        let viewings = viewings.collect::<Result<Vec<_>, _>>()?;
        // Viewings of one clock and grid always belong together.
        let crowd = Population::new(viewings).ok().filter(|crowd| !crowd.viewings().is_empty());
        let solid = grid.sphere_shares();
        Ok(Planning { planner: self, live, crowd, solid })
    }
}

impl Planning {
    /// The decision for one slot, from what is on the screen and samples of capacity in bytes.
    ///
    /// # Errors
    /// Numbers that make no problem; a checked menu and samples of arrivals always do.
    pub(super) fn plan(
        &self,
        moment: Moment,
        screen: Screen<'_>,
        samples: Vec<f64>,
    ) -> Result<Allocation, ProblemError> {
        let Screen { menu, shown, have } = screen;
        let gop_duration_s = menu.layout().gop_duration_s;
        let clock = GopClock { gop_duration_s, gops: moment.slots as usize, moments: MOMENTS };
        let crowd = self.crowd.as_ref().map(|crowd| crowd.outlook(moment.gop as usize, None));
        let crowd = crowd.unwrap_or_default();
        let slot = (clock, moment.slot as usize);
        let mut outlook = self.live.outlook(&self.planner.trace, moment.playback_s, slot, &crowd);
        self.elsewhere(&mut outlook);
        let mut tiles = menu.menus(0, &outlook, self.planner.concealment);
        for (tile, (of, cells)) in tiles.iter_mut().zip(menu.gop(0)).enumerate() {
            let here = have.get(&(tile as u16)).and_then(|quality| cells.mse.get(usize::from(*quality)));
            of.concealed_mse = match (here, self.planner.concealment) {
                (Some(mse), _) => *mse,
                (None, Concealment::Freeze) => shown.frozen(tile, cells),
                (None, Concealment::Black) => cells.black_mse,
            };
        }
        // Over one ordered stream what is first in the plan is first to arrive, whatever carries it.
        let problem = GopProblem::new(tiles, Capacity::from_paths(&[samples])?, Arrival::InOrder)?;
        Ok(self.planner.allocator.allocate(&problem))
    }

    /// Now and then a head turns to where nothing promised it.
    fn elsewhere(&self, outlook: &mut [TileOutlook]) {
        for (tile, share) in outlook.iter_mut().zip(&self.solid) {
            tile.share = (1.0 - ELSEWHERE) * tile.share + ELSEWHERE * share;
            tile.seen = tile.seen.max(ELSEWHERE);
        }
    }
}
