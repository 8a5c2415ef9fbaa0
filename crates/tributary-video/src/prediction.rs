//! P(view): how probably each tile of each GoP will be seen, and how much of the viewport it will fill.
//!
//! Two sources, and their mixture: what other viewers of the same video looked at ([`Population`]; a
//! viewer is always left out of his own prediction), and where this viewer's head is and moves
//! (`live`). [`Calibration`] says how far predictions were to be trusted. Nothing here decides what to
//! send. Source: the OWS paper §4.1 (P(t) from models of how clients view).

mod calibration;
mod live;
mod similarity;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::head::{HeadTrace, TraceError};
use crate::viewport::Viewer;

pub use calibration::{Calibration, ReliabilityBin, share_distance};
pub use live::{Live, LiveSettings, Motion};
pub use similarity::similarity;

/// What is expected of one tile in one GoP.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TileOutlook {
    /// P(t): the probability that any of it is seen at any moment of the GoP.
    pub seen: f64,
    /// w_t: the expected share of the viewport's solid angle, mean over the GoP's moments.
    pub share: f64,
}

/// What one viewer saw of one GoP: per tile, whether and how much.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TileView {
    /// Whether any of the tile was in the viewport at any moment looked at.
    pub seen: bool,
    /// Its mean share of the viewport's solid angle.
    pub share: f64,
}

/// Where the GoPs lie in time, and at how many moments of each the viewport is looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GopClock {
    /// Length of a GoP, seconds.
    pub gop_duration_s: f64,
    /// How many GoPs there are.
    pub gops: usize,
    /// Moments per GoP, evenly spread; at least 1 is used.
    pub moments: usize,
}

impl GopClock {
    /// The moments of one GoP, seconds: the middles of equal parts.
    pub fn moments_of(&self, gop: usize) -> impl Iterator<Item = f64> + use<> {
        let (moments, duration_s) = (self.moments.max(1), self.gop_duration_s);
        (0..moments).map(move |at| (gop as f64 + (at as f64 + 0.5) / moments as f64) * duration_s)
    }
}

/// All that one viewer saw.
#[derive(Debug, Clone, PartialEq)]
pub struct Viewing {
    tiles: usize,
    /// GoP by GoP, tile by tile.
    views: Vec<TileView>,
}

impl Viewing {
    /// What the viewer of `trace` saw through `viewer`.
    ///
    /// # Errors
    /// The trace is shorter than the GoPs.
    pub fn of(trace: &HeadTrace, viewer: &Viewer, clock: GopClock) -> Result<Self, TraceError> {
        trace.require_duration(clock.gops as f64 * clock.gop_duration_s)?;
        let tiles = viewer.grid().tiles();
        let mut views = Vec::with_capacity(tiles * clock.gops);
        for gop in 0..clock.gops {
            let mut shares = vec![0.0; tiles];
            let part = 1.0 / clock.moments.max(1) as f64;
            for time_s in clock.moments_of(gop) {
                viewer.add_shares(trace.at(time_s), part, &mut shares);
            }
            views.extend(shares.into_iter().map(|share| TileView { seen: share > 0.0, share }));
        }
        Ok(Self { tiles, views })
    }

    /// How many GoPs there are.
    #[must_use]
    pub fn gops(&self) -> usize {
        self.views.len() / self.tiles
    }

    /// The tiles of one GoP.
    ///
    /// # Panics
    /// The GoP does not exist.
    #[must_use]
    pub fn gop(&self, gop: usize) -> &[TileView] {
        &self.views[gop * self.tiles..(gop + 1) * self.tiles]
    }
}

/// Viewers who do not belong together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("viewer {viewer} has {found} values and the first {expected}; cut all to the same GoPs and grid")]
pub struct PopulationError {
    /// The viewer, counted from 0.
    pub viewer: usize,
    /// GoPs × tiles of that viewer.
    pub found: usize,
    /// GoPs × tiles of the first.
    pub expected: usize,
}

/// All viewers of one video.
#[derive(Debug, Clone, PartialEq)]
pub struct Population {
    viewings: Vec<Viewing>,
    tiles: usize,
    /// Per GoP and tile: how many saw it, and the sum of its shares.
    sums: Vec<(f64, f64)>,
}

/// A tile nobody saw may still be seen and one everybody saw be missed: half a viewer of each is added
/// (Jeffreys' prior for a proportion).
const HALF_VIEWER: f64 = 0.5;

impl Population {
    /// Viewers of the same GoPs on the same grid; may be none.
    ///
    /// # Errors
    /// They differ.
    pub fn new(viewings: Vec<Viewing>) -> Result<Self, PopulationError> {
        let (expected, tiles) = viewings.first().map_or((0, 0), |first| (first.views.len(), first.tiles));
        let mut sums = vec![(0.0, 0.0); expected];
        for (viewer, viewing) in viewings.iter().enumerate() {
            let found = viewing.views.len();
            if found != expected || viewing.tiles != tiles {
                return Err(PopulationError { viewer, found, expected });
            }
            for (sum, view) in sums.iter_mut().zip(&viewing.views) {
                sum.0 += f64::from(u8::from(view.seen));
                sum.1 += view.share;
            }
        }
        Ok(Self { viewings, tiles, sums })
    }

    /// The viewers.
    #[must_use]
    pub fn viewings(&self) -> &[Viewing] {
        &self.viewings
    }

    /// What the viewers saw of one GoP, each counting with a weight of 0…1: those who look where a viewer looks now
    /// say more of where he will look than all of them do. Empty if no weight is left.
    ///
    /// # Panics
    /// There is no such GoP, or another number of weights than of viewers.
    #[must_use]
    pub fn outlook_weighted(&self, gop: usize, weights: &[f64]) -> Vec<TileOutlook> {
        assert_eq!(weights.len(), self.viewings.len(), "one weight per viewer");
        let total: f64 = weights.iter().sum();
        if total <= 0.0 {
            return Vec::new();
        }
        let mut sums = vec![(0.0, 0.0); self.tiles];
        for (viewing, weight) in self.viewings.iter().zip(weights) {
            for (sum, view) in sums.iter_mut().zip(viewing.gop(gop)) {
                sum.0 += if view.seen { *weight } else { 0.0 };
                sum.1 += weight * view.share;
            }
        }
        let outlook = |(seen, share): (f64, f64)| TileOutlook {
            seen: (seen + HALF_VIEWER) / (total + 2.0 * HALF_VIEWER),
            share: (share / total).min(1.0),
        };
        sums.into_iter().map(outlook).collect()
    }

    /// What the viewers saw of one GoP, `without` one of them; empty if none is left.
    ///
    /// # Panics
    /// The GoP does not exist.
    #[must_use]
    pub fn outlook(&self, gop: usize, without: Option<usize>) -> Vec<TileOutlook> {
        let left_out = without.and_then(|viewer| self.viewings.get(viewer)).map(|viewing| viewing.gop(gop));
        let viewers = self.viewings.len() - usize::from(left_out.is_some());
        if viewers == 0 {
            return Vec::new();
        }
        let sums = &self.sums[gop * self.tiles..(gop + 1) * self.tiles];
        let outlook = |(tile, (seen, share)): (usize, &(f64, f64))| {
            let own = left_out.map_or(TileView::default(), |views| views[tile]);
            let seen = seen - f64::from(u8::from(own.seen));
            TileOutlook {
                seen: (seen + HALF_VIEWER) / (viewers as f64 + 2.0 * HALF_VIEWER),
                // Subtraction may leave a rounding error below 0.
                share: ((share - own.share) / viewers as f64).max(0.0),
            }
        };
        sums.iter().enumerate().map(outlook).collect()
    }
}

#[cfg(test)]
mod tests;
