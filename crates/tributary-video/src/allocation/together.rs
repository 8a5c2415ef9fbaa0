//! One GoP of several viewers who share capacity, decided as one problem: all their tiles in one order within one
//! capacity.
//!
//! The paper maximises the viewport quality "across all clients" and writes the formulas for one (OWS §4.1). With the tiles of
//! all viewers in one [`GopProblem`], the sum of their losses is the single viewer's objective, so every allocator decides
//! it. For the other objectives the allocator decides it again and again, with the tiles of each viewer weighted by what the
//! decision before leaves of its distortion. When viewers are planned is not decided here.

use core::ops::Range;

use thiserror::Error;

use super::outcome::{LEAST_MSE, Outcome, Sent, clairvoyant_bound};
use super::{
    Allocation, Allocator, ArrivalOrder, Capacity, GopProblem, Objective, ProblemError, TileChoice, TileMenu,
};

/// Most decisions for one GoP.
const ROUNDS: usize = 12;

/// The objective by which viewers share a capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// The least sum of the viewers' distortions: the paper's (OWS §4.1).
    Sum,
    /// The least sum of their logarithms, which is the largest mean of decibels.
    SumDb,
    /// The least distortion of the viewer with the largest.
    MaxMin,
}

/// The objective is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("viewers cannot share by `{name}`; known are {}", Sharing::names().join(", "))]
pub struct UnknownSharing {
    /// The name.
    pub name: String,
}

impl Sharing {
    const KNOWN: [(&str, Self); 3] = [("sum", Self::Sum), ("sum-db", Self::SumDb), ("max-min", Self::MaxMin)];

    /// The objective called `name`.
    ///
    /// # Errors
    /// Unknown name; the error lists the known ones.
    pub fn find(name: &str) -> Result<Self, UnknownSharing> {
        let known = Self::KNOWN.iter().find(|(known, _)| *known == name);
        known.map(|(_, sharing)| *sharing).ok_or_else(|| UnknownSharing { name: name.to_owned() })
    }

    /// Every name.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        Self::KNOWN.iter().map(|(name, _)| *name).collect()
    }

    /// What is minimised, from the viewers' distortions.
    fn cost(self, mse: &[f64]) -> f64 {
        match self {
            Self::Sum => mse.iter().sum(),
            Self::SumDb => mse.iter().map(|mse| libm::log(mse.max(LEAST_MSE))).sum(),
            Self::MaxMin => mse.iter().copied().fold(0.0, f64::max),
        }
    }

    /// The viewers' weights for the next decision, the largest 1.
    fn weights(self, weights: &[f64], mse: &[f64]) -> Vec<f64> {
        let of = |(weight, mse): (&f64, &f64)| match self {
            Self::Sum => 1.0,
            // The logarithm's slope. It is concave, so each decision has a smaller sum than the one before.
            Self::SumDb => 1.0 / mse.max(LEAST_MSE),
            // Grows for viewers who are worse than others: at the end only equal distortions leave it as it is. The root
            // damps the search.
            Self::MaxMin => weight * libm::sqrt(mse.max(LEAST_MSE)),
        };
        let next: Vec<f64> = weights.iter().zip(mse).map(of).collect();
        let largest = next.iter().copied().fold(0.0, f64::max);
        next.into_iter().map(|weight| weight / largest).collect()
    }
}

/// Decides one GoP of several viewers, each with its own tiles, within one capacity; one allocation for each viewer, in their order.
///
/// In an allocation `order` is the viewer's part of the order of all, `misses` and `expected_mse` follow from the order of
/// all, `plan` is that of all, and `bound_mse` is for a viewer who has the whole capacity.
///
/// # Errors
/// As [`GopProblem::new`] for the tiles of all viewers, which are numbered on from viewer to viewer.
pub fn together(
    viewers: &[Vec<TileMenu>],
    capacity: &Capacity,
    arrival: ArrivalOrder,
    (allocator, sharing): (&dyn Allocator, Sharing),
) -> Result<Vec<Allocation>, ProblemError> {
    let weighted = |weights: &[f64]| {
        let of = |(tiles, weight): (&Vec<TileMenu>, &f64)| {
            let menu = |menu: &TileMenu| TileMenu {
                seen: menu.seen * weight,
                weight: menu.weight * weight,
                ..menu.clone()
            };
            tiles.iter().map(menu).collect::<Vec<_>>()
        };
        GopProblem::new(viewers.iter().zip(weights).flat_map(of).collect(), capacity.clone(), arrival)
    };
    let mut weights = vec![1.0; viewers.len()];
    let only =
        |viewer: usize| weighted(&(0..weights.len()).map(|at| f64::from(at == viewer)).collect::<Vec<_>>());
    let alone: Vec<GopProblem> = (0..viewers.len()).map(only).collect::<Result<_, _>>()?;
    let mut best: Option<(f64, Allocation, Vec<f64>)> = None;
    for _ in 0..ROUNDS {
        let made = allocator.allocate(&weighted(&weights)?);
        let mse: Vec<f64> = alone.iter().map(|problem| expected_mse(problem, &made.order)).collect();
        let (cost, next) = (sharing.cost(&mse), sharing.weights(&weights, &mse));
        if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
            best = Some((cost, made, mse));
        }
        if next == weights {
            break;
        }
        weights = next;
    }
    let (_, made, mse) = best.expect("the first decision is the best so far");
    let mut from = 0;
    let part = |((tiles, problem), mse): ((&Vec<TileMenu>, &GopProblem), &f64)| {
        let tiles = from..from + tiles.len();
        from = tiles.end;
        Allocation { expected_mse: *mse, bound_mse: clairvoyant_bound(problem), ..cut(&made, problem, tiles) }
    };
    Ok(viewers.iter().zip(&alone).zip(&mse).map(part).collect())
}

/// One viewer's distortion: `problem` has weights for its tiles only.
fn expected_mse(problem: &GopProblem, order: &[TileChoice]) -> f64 {
    let mut shown: Vec<f64> = problem.tiles().iter().map(|tile| tile.concealed_mse).collect();
    let sent = |message: &TileChoice| {
        let sent = Sent::after(problem, *message, shown[message.tile]);
        shown[message.tile] = sent.mse;
        sent
    };
    let order: Vec<Sent> = order.iter().map(sent).collect();
    Outcome::new(problem, Objective::Distortion).expected_mse(&order)
}

/// The part of a decision that is about these tiles.
fn cut(made: &Allocation, problem: &GopProblem, tiles: Range<usize>) -> Allocation {
    let own = made.order.iter().zip(&made.misses).filter(|(message, _)| tiles.contains(&message.tile));
    let (order, misses): (Vec<TileChoice>, Vec<f64>) = own
        .map(|(message, miss)| (TileChoice { tile: message.tile - tiles.start, ..*message }, *miss))
        .unzip();
    let bytes =
        |message: &TileChoice| problem.tiles()[tiles.start + message.tile].choices[message.choice].bytes;
    Allocation {
        choices: made.choices[tiles.clone()].to_vec(),
        bytes: order.iter().map(bytes).sum(),
        order,
        misses,
        ..made.clone()
    }
}

#[cfg(test)]
mod tests;
