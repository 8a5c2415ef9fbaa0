//! Input of an allocator: the tiles of one GoP with their sizes and distortions, how much each will
//! be seen, and how much the paths may carry before the deadline.
//!
//! A problem is checked when it is made; allocators need not doubt it. It says nothing of how P(view) or
//! capacity were predicted. Source: the OWS paper §4.1.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::tiles::MOST_TILES;

/// The most qualities a tile may be offered in, and the most capacity samples.
pub const MOST_CHOICES: usize = 64;
/// The most samples of capacity a problem may have.
pub const MOST_SAMPLES: usize = 4096;
/// The most bytes one tile of one GoP may have: sums of them stay far from overflow.
pub const MOST_BYTES: u64 = 1 << 40;

/// One quality of one tile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Size of the tile's GoP, bytes.
    pub bytes: u64,
    /// Mean squared error against the source.
    pub mse: f64,
}

/// One tile of the GoP.
#[derive(Debug, Clone, PartialEq)]
pub struct TileMenu {
    /// P(t): the probability that the tile is seen at all, 0…1.
    pub seen: f64,
    /// w_t: the expected share of the viewport's solid angle the tile fills, 0…1.
    pub weight: f64,
    /// Mean squared error of what the player shows when nothing of the tile arrives in time: the frozen last
    /// picture, black, whatever it really does.
    pub concealed_mse: f64,
    /// One per QP, the same number for every tile, the finest first.
    pub choices: Vec<Choice>,
}

/// In which order data arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// From the first byte to the last: one path, or a scheduler that keeps the order.
    #[default]
    InOrder,
    /// FBDT with the whole GoP in one transmission window: one path climbs from the head, the other descends
    /// from the tail (FBDT §3.1).
    BothEnds,
}

/// How many bytes the paths carry from the start of sending to the deadline: equally likely samples, such
/// as the last seconds' measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    /// Of the path that climbs and of the one that descends, by rising sum.
    samples: Vec<(f64, f64)>,
}

/// What is wrong with a problem.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ProblemError {
    /// Nothing to decide, or too much.
    #[error("a GoP of {tiles} tiles; 1 to {MOST_TILES} are possible")]
    Tiles {
        /// Tiles given.
        tiles: usize,
    },
    /// Every tile needs the same qualities.
    #[error("tile {tile} has {choices} qualities; each tile needs the same number, 1 to {MOST_CHOICES}")]
    Choices {
        /// The tile.
        tile: usize,
        /// Qualities given.
        choices: usize,
    },
    /// A number out of its range.
    #[error("tile {tile}: {field} is {value}, which is not {range}")]
    Field {
        /// The tile.
        tile: usize,
        /// The field's name.
        field: &'static str,
        /// Its value.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// No capacity is known.
    #[error("{samples} samples of capacity; 1 to {MOST_SAMPLES} are possible, the same number for each path")]
    Samples {
        /// Samples given.
        samples: usize,
    },
    /// An invalid capacity.
    #[error("capacity sample {sample} of path {path} is {value} bytes; it must be 0 or more and finite")]
    Capacity {
        /// The path, counted from 0.
        path: usize,
        /// The sample, counted from 0.
        sample: usize,
        /// The value.
        value: f64,
    },
}

impl Capacity {
    /// From one list of samples per path, bytes; sample *i* of every path belongs to the same moment.
    ///
    /// The first path is taken to climb from the head of the order, the second to descend from its tail.
    /// Further paths count with the first.
    ///
    /// # Errors
    /// No path, no sample, different numbers of samples, or a sample that is negative or no number.
    pub fn from_paths(paths: &[Vec<f64>]) -> Result<Self, ProblemError> {
        let count = paths.first().map_or(0, Vec::len);
        for (path, samples) in paths.iter().enumerate() {
            if samples.len() != count {
                return Err(ProblemError::Samples { samples: samples.len() });
            }
            if let Some(sample) = samples.iter().position(|value| !(*value >= 0.0 && value.is_finite())) {
                return Err(ProblemError::Capacity { path, sample, value: samples[sample] });
            }
        }
        if !(1..=MOST_SAMPLES).contains(&count) {
            return Err(ProblemError::Samples { samples: count });
        }
        let pair = |sample: usize| {
            let of = |path: usize| paths.get(path).map_or(0.0, |samples| samples[sample]);
            // Deviates: paths that work inside the window (three and more) are counted at its head.
            (of(0) + (2..paths.len()).map(of).sum::<f64>(), of(1))
        };
        let mut samples: Vec<(f64, f64)> = (0..count).map(pair).collect();
        samples.sort_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
        Ok(Self { samples })
    }

    /// A capacity that is known for sure, bytes.
    ///
    /// # Errors
    /// A negative number, or none.
    pub fn certain(bytes: f64) -> Result<Self, ProblemError> {
        Self::from_paths(&[vec![bytes]])
    }

    /// The samples of the climbing and the descending path, by rising sum.
    #[must_use]
    pub fn samples(&self) -> &[(f64, f64)] {
        &self.samples
    }

    /// The mean of all paths together: the paper's C_agg, bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.samples.iter().map(|(head, tail)| head + tail).sum::<f64>() / self.samples.len() as f64
    }

    /// The quantile `share` (0 the smallest, 1 the largest sample) of all paths together, bytes.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.samples.len() - 1;
        let (head, tail) = self.samples[((share.clamp(0.0, 1.0) * last as f64).round() as usize).min(last)];
        head + tail
    }
}

/// One GoP to decide on.
#[derive(Debug, Clone, PartialEq)]
pub struct GopProblem {
    tiles: Vec<TileMenu>,
    capacity: Capacity,
    arrival: Arrival,
}

impl GopProblem {
    /// A problem of these tiles, in the default order of sending.
    ///
    /// # Errors
    /// The first thing that is out of its range.
    pub fn new(tiles: Vec<TileMenu>, capacity: Capacity, arrival: Arrival) -> Result<Self, ProblemError> {
        if !(1..=MOST_TILES).contains(&tiles.len()) {
            return Err(ProblemError::Tiles { tiles: tiles.len() });
        }
        for (tile, menu) in tiles.iter().enumerate() {
            let choices = menu.choices.len();
            if !(1..=MOST_CHOICES).contains(&choices) || choices != tiles[0].choices.len() {
                return Err(ProblemError::Choices { tile, choices });
            }
            check(tile, "P(view)", menu.seen, 1.0, "in 0…1")?;
            check(tile, "weight", menu.weight, 1.0, "in 0…1")?;
            check(tile, "concealed MSE", menu.concealed_mse, MOST_MSE, "in 0…65025")?;
            for choice in &menu.choices {
                check(tile, "MSE", choice.mse, MOST_MSE, "in 0…65025")?;
                check(tile, "size", choice.bytes as f64, MOST_BYTES as f64, "at most 2^40 bytes")?;
            }
        }
        Ok(Self { tiles, capacity, arrival })
    }

    /// The tiles in the default order.
    #[must_use]
    pub fn tiles(&self) -> &[TileMenu] {
        &self.tiles
    }

    /// What the paths may carry.
    #[must_use]
    pub fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// In which order data arrive.
    #[must_use]
    pub fn arrival(&self) -> Arrival {
        self.arrival
    }
}

/// The largest mean squared error of eight-bit samples.
const MOST_MSE: f64 = 255.0 * 255.0;

fn check(
    tile: usize,
    field: &'static str,
    value: f64,
    most: f64,
    range: &'static str,
) -> Result<(), ProblemError> {
    // Written so that NaN fails; rounding may carry a probability a little over 1.
    if value >= 0.0 && value <= most * (1.0 + 1e-9) {
        Ok(())
    } else {
        Err(ProblemError::Field { tile, field, value, range })
    }
}
