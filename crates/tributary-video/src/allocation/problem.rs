//! Input of an allocator: the tiles of one GoP with their sizes and distortions, how much of each will be
//! seen, and how much the paths may carry before the deadline.
//!
//! A problem is checked when it is made, so allocators need no checks. How P(view) and the capacity were
//! predicted is not part of it. Source: the OWS paper §4.1.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::tiles::MOST_TILES;

/// Most qualities of a tile.
pub const MOST_CHOICES: usize = 64;
/// Most samples of capacity.
pub const MOST_SAMPLES: usize = 4096;
/// Most bytes of one tile in one GoP, so that sums do not overflow.
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
    /// Mean squared error of what the player shows when nothing of the tile arrives in time, such as the
    /// frozen last picture or black.
    pub concealed_mse: f64,
    /// The qualities, as many for every tile, the finest first.
    pub choices: Vec<Choice>,
}

/// The order in which data arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalOrder {
    /// From the first byte to the last: one path, or a scheduler that keeps the order.
    #[default]
    InOrder,
    /// FBDT with the whole GoP in one transmission window: one path sends forward from the head, the other
    /// backward from the tail (FBDT §3.1).
    BothEnds,
}

/// How many bytes the paths carry until the deadline, as equally likely samples, such as the measurements of
/// the last seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    /// Samples of the forward and of the backward path, sorted by sum.
    samples: Vec<(f64, f64)>,
}

/// Why a problem is invalid.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ProblemError {
    /// No tiles, or too many.
    #[error("a GoP of {tiles} tiles; 1 to {MOST_TILES} are possible")]
    Tiles {
        /// Tiles given.
        tiles: usize,
    },
    /// A tile has another number of qualities.
    #[error("tile {tile} has {choices} qualities; each tile needs the same number, 1 to {MOST_CHOICES}")]
    Choices {
        /// The tile.
        tile: usize,
        /// Qualities given.
        choices: usize,
    },
    /// A number is out of range.
    #[error("tile {tile}: {field} is {value}, which is not {range}")]
    Field {
        /// The tile.
        tile: usize,
        /// The field's name.
        field: &'static str,
        /// Its value.
        value: f64,
        /// The allowed range.
        range: &'static str,
    },
    /// No capacity samples, or too many.
    #[error("{samples} samples of capacity; 1 to {MOST_SAMPLES} are possible, the same number for each path")]
    Samples {
        /// Samples given.
        samples: usize,
    },
    /// A capacity sample is invalid.
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
    /// From one list of samples per path, in bytes; sample *i* of every path belongs to the same time.
    ///
    /// The first path sends forward from the head of the order, the second backward from its tail. Further
    /// paths are added to the first.
    ///
    /// # Errors
    /// No path, no sample, different numbers of samples, or a sample that is negative or not a number.
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
            // Deviates: paths that work inside the window (third and further) are counted at its head.
            (of(0) + (2..paths.len()).map(of).sum::<f64>(), of(1))
        };
        let mut samples: Vec<(f64, f64)> = (0..count).map(pair).collect();
        samples.sort_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
        Ok(Self { samples })
    }

    /// A capacity that is certain, bytes.
    ///
    /// # Errors
    /// A negative number, or not a number.
    pub fn certain(bytes: f64) -> Result<Self, ProblemError> {
        Self::from_paths(&[vec![bytes]])
    }

    /// The samples of the forward and the backward path, sorted by sum.
    #[must_use]
    pub fn samples(&self) -> &[(f64, f64)] {
        &self.samples
    }

    /// The mean total capacity of all paths: the paper's C_agg, bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.samples.iter().map(|(head, tail)| head + tail).sum::<f64>() / self.samples.len() as f64
    }

    /// The quantile `share` (0 the smallest, 1 the largest sample) of the total capacity, bytes.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.samples.len() - 1;
        let (head, tail) = self.samples[((share.clamp(0.0, 1.0) * last as f64).round() as usize).min(last)];
        head + tail
    }
}

/// The decision problem of one GoP.
#[derive(Debug, Clone, PartialEq)]
pub struct GopProblem {
    tiles: Vec<TileMenu>,
    capacity: Capacity,
    arrival: ArrivalOrder,
}

impl GopProblem {
    /// A problem of these tiles, in the default order of sending.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn new(
        tiles: Vec<TileMenu>,
        capacity: Capacity,
        arrival: ArrivalOrder,
    ) -> Result<Self, ProblemError> {
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

    /// The capacity.
    #[must_use]
    pub fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// The order in which data arrives.
    #[must_use]
    pub fn arrival(&self) -> ArrivalOrder {
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
    // Written so that NaN fails; rounding may make a probability slightly larger than 1.
    if value >= 0.0 && value <= most * (1.0 + 1e-9) {
        Ok(())
    } else {
        Err(ProblemError::Field { tile, field, value, range })
    }
}
