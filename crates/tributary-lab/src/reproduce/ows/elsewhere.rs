//! A viewing of the moving synthetic clip over any network and transport, for comparisons: the product's player and allocator,
//! generated viewers, sizes relative to the network.

use core::time::Duration;
use std::sync::{Arc, LazyLock};

use tributary_link::Scenario;
use tributary_types::Bitrate;
use tributary_video::rd::Concealment;

use super::audience::{Audience, Stage};
use super::clip::{Clip, ClipError};
use super::scene::Scene;
use super::viewing::{Task, UPDATED};
use super::{OwsError, STARTING};
use crate::reproduce::sample::Sample;

/// The finest quality needs this many times what the network carries on average, so that quality depends on the transport.
const LOAD: f64 = 2.0;
/// Time before the start is requested.
pub(crate) const BEFORE: Duration = Duration::from_secs(1);
/// Longest viewing in seconds: the viewers' head movement is not longer.
pub(crate) const MOST_SECONDS: u32 = 50;
/// Shortest viewing in seconds: the first GoPs are not counted.
pub(crate) const LEAST_SECONDS: u32 = STARTING as u32 + 3;

static AUDIENCE: LazyLock<Vec<Audience>> = LazyLock::new(Audience::generated);
/// The viewers of the first video, before the clip's tiles; the same for every load.
static STAGE: LazyLock<Result<Stage<'static>, String>> = LazyLock::new(|| {
    let clip = clip(1e6).map_err(|error| error.to_string())?;
    AUDIENCE[0].before(clip.table().layout().grid, clip.gop_s()).map_err(|error| error.to_string())
});

/// A viewing.
pub(crate) struct Elsewhere<'a> {
    /// The network.
    pub network: Scenario,
    /// The transport.
    pub transport: &'a str,
    /// The viewer: each has another head movement.
    pub viewer: u64,
    /// What all paths carry on average, bytes per second.
    pub capacity: f64,
}

fn clip(capacity: f64) -> Result<Clip, ClipError> {
    Clip::drawn(LOAD * capacity).map(|mut clips| clips.swap_remove(0))
}

impl Elsewhere<'_> {
    /// Runs the viewing for the network's duration. The sample has quality, late and left-out tiles.
    ///
    /// # Errors
    /// [`OwsError`].
    pub(crate) fn watch(self) -> Result<Sample, OwsError> {
        let stage = STAGE.as_ref().expect("generated viewers fit the synthetic clip");
        let gops = self.network.duration.saturating_sub(BEFORE).as_secs() as usize;
        let viewer = (self.viewer % stage.viewers() as u64) as usize;
        let task = Task {
            clip: Arc::new(clip(self.capacity)?),
            viewing: viewer,
            watched: Arc::new(stage.watch(viewer, gops)?),
            scene: Arc::new(Scene::of(self.network)),
            transport: self.transport.to_owned(),
            allocator: UPDATED.to_owned(),
            concealment: Concealment::Freeze,
            assumed: Bitrate::from_bps((self.capacity * 4.0) as u64), // half of the capacity
            group: None,
        };
        let shown = task.composed(&task.outcome(BEFORE)?.record);
        task.report(&shown.iter().map(|shown| shown.seen).collect::<Vec<_>>())
    }
}
