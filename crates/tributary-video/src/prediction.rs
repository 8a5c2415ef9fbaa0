//! P(view): the probability that each tile of each GoP will be seen, and its expected share of the viewport.
//!
//! Two sources and their mixture: what other viewers of the same video looked at ([`Population`]; never
//! including the viewer who is predicted), and the orientation and movement of this viewer's head (`live`).
//! [`Calibration`] evaluates predictions. Does not decide what to send. Source: the OWS paper §4.1 (P(t) from
//! models of how clients view).

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

/// The prediction for one tile in one GoP.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TileOutlook {
    /// P(t): the probability that any part of it is seen at any moment of the GoP.
    pub seen: f64,
    /// w_t: the expected share of the viewport's solid angle, averaged over the GoP's moments.
    pub share: f64,
}

/// What one viewer saw of a tile in one GoP.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TileView {
    /// Whether any part of the tile was in the viewport at any sampled moment.
    pub seen: bool,
    /// Its mean share of the viewport's solid angle.
    pub share: f64,
}

/// The times of the GoPs, and the number of moments at which each is sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GopClock {
    /// Length of a GoP, seconds.
    pub gop_duration_s: f64,
    /// Number of GoPs.
    pub gops: usize,
    /// Moments per GoP, evenly spread; values below 1 count as 1.
    pub moments: usize,
}

impl GopClock {
    /// The moments of one GoP in seconds: the middles of equal parts.
    pub fn moments_of(&self, gop: usize) -> impl Iterator<Item = f64> + use<> {
        let (moments, duration_s) = (self.moments.max(1), self.gop_duration_s);
        (0..moments).map(move |at| (gop as f64 + (at as f64 + 0.5) / moments as f64) * duration_s)
    }
}

/// The viewing of one viewer: what was seen of every tile in every GoP.
#[derive(Debug, Clone, PartialEq)]
pub struct Viewing {
    tiles: usize,
    /// Ordered by GoP, then by tile.
    views: Vec<TileView>,
}

impl Viewing {
    /// What the viewer with head movement `trace` saw.
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

    /// Number of GoPs.
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

/// Viewings of different shape.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("viewer {viewer} has {found} values and the first {expected}; cut all to the same GoPs and grid")]
pub struct PopulationError {
    /// The viewer, counted from 0.
    pub viewer: usize,
    /// Number of GoPs × tiles of that viewer.
    pub found: usize,
    /// Number of GoPs × tiles of the first.
    pub expected: usize,
}

/// All viewers of one video.
#[derive(Debug, Clone, PartialEq)]
pub struct Population {
    viewings: Vec<Viewing>,
    tiles: usize,
    /// Per GoP and tile: how many viewers saw it, and the sum of their shares.
    sums: Vec<(f64, f64)>,
}

/// A tile that nobody saw may still be seen, and one that everybody saw may be missed, so half a viewer is
/// added to each outcome (Jeffreys' prior for a proportion).
const HALF_VIEWER: f64 = 0.5;

impl Population {
    /// Viewers of the same GoPs on the same grid; the list may be empty.
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

    /// Weighted frequencies of what the viewers saw of one GoP, with a weight of 0…1 per viewer: viewers who
    /// look in the same direction now predict better than all together. Empty if all weights are zero.
    ///
    /// # Panics
    /// If the GoP does not exist, or the numbers of weights and viewers differ.
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

    /// Frequencies of what the viewers saw of one GoP, `without` one of them; empty if none is left.
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
                // Rounding in the subtraction may give a value slightly below 0.
                share: ((share - own.share) / viewers as f64).max(0.0),
            }
        };
        sums.iter().enumerate().map(outlook).collect()
    }
}

#[cfg(test)]
mod tests;
