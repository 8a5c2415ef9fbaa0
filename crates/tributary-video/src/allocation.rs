//! Chooses which tiles to send, in which quality and in which order.
//!
//! Allocators are built by name from one registry, read one [`GopProblem`] and change nothing. All report
//! their plan's distance from the linear-programming bound and the expected displayed distortion with the
//! same model, so that they can be compared. What really arrives is measured elsewhere. Source: the OWS paper
//! §4, Algorithm 1, and its §6.3 (FIX).

mod fix;
mod knapsack;
mod outcome;
mod ows;
mod paper;
mod problem;
mod together;
mod two_class;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use knapsack::{Item, Knapsack, Packing};
use outcome::{Outcome, Sent};

pub use problem::{
    ArrivalOrder, Capacity, Choice, GopProblem, MOST_BYTES, MOST_CHOICES, MOST_SAMPLES, ProblemError,
    TileMenu,
};
pub use together::{Sharing, UnknownSharing, together};

/// One tile in one quality: the unit that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TileChoice {
    /// The tile.
    pub tile: usize,
    /// Index of the quality, 0 the finest.
    pub choice: usize,
}

/// An allocator's decision for one GoP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    /// Per tile, the finest quality that is sent; `None` if the tile is left to concealment.
    pub choices: Vec<Option<usize>>,
    /// The messages in sending order. A tile with a guard copy appears twice, coarse and fine; the player
    /// shows the finest copy it has.
    pub order: Vec<TileChoice>,
    /// ε: for each entry of `order`, the probability of missing the deadline.
    pub misses: Vec<f64>,
    /// Size of all messages of `order`, bytes.
    pub bytes: u64,
    /// `E[D]`: the expected displayed mean squared error in the viewport under the problem's model.
    pub expected_mse: f64,
    /// How the qualities were chosen.
    pub plan: PlanReport,
    /// A lower bound on `E[D]`: no order and no choice is better, even if each GoP's capacity is known
    /// beforehand.
    pub bound_mse: f64,
}

/// The rate selection behind an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlanReport {
    /// Bytes available to the plan; always finite.
    pub budget: f64,
    /// The plan's sum of weighted distortions.
    pub value: f64,
    /// The linear relaxation's optimum at the same budget.
    pub bound: f64,
    /// Whether the plan is proved to be the best at its budget.
    pub optimal: bool,
}

impl PlanReport {
    /// Upper bound on the plan's distance from the best one at its budget, dB; 0 if both have no distortion.
    #[must_use]
    pub fn gap_db(&self) -> f64 {
        if self.value <= self.bound || self.bound <= 0.0 {
            return if self.value > self.bound { f64::INFINITY } else { 0.0 };
        }
        10.0 * libm::log10(self.value / self.bound)
    }
}

/// What an allocator minimises in its searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The expected distortion, `E[D]`: best for the PSNR of the mean distortion.
    #[default]
    Distortion,
    /// The expected logarithm of the distortion: best for the mean of decibels.
    Decibels,
}

/// Settings of an allocator.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Settings {
    /// Whether to choose qualities by exact dynamic programming instead of greedily.
    pub exact: bool,
    /// Objective of quantile searches, `ows`'s orders and guard copies.
    pub objective: Objective,
    /// Total loss, in dB of the expected logarithm, that `ows` accepts for not sending messages at the end of
    /// its order that will probably be late: late bytes delay the next GoP. 0 sends everything that may help.
    pub unlikely_db: f64,
}

/// Decides one GoP.
pub trait Allocator {
    /// Its name in the registry.
    fn name(&self) -> &'static str;

    /// Chooses qualities and order for one GoP.
    fn allocate(&self, problem: &GopProblem) -> Allocation;
}

/// The allocator is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no allocator `{name}`; known are {}", names().join(", "))]
pub struct UnknownAllocator {
    /// The name.
    pub name: String,
}

type Make = fn(Settings) -> Box<dyn Allocator>;

const KNOWN: &[(&str, Make)] = &[
    ("fix", |settings| Box::new(fix::Fix { settings })),
    ("fix-q", |settings| Box::new(fix::FixQuantile { settings })),
    ("ows", |settings| Box::new(ows::Ows { settings, skipping: true })),
    ("ows-no-skip", |settings| Box::new(ows::Ows { settings, skipping: false })),
    ("ows-paper", |settings| Box::new(paper::OwsPaper { settings, descending: false })),
    ("ows-paper-descending", |settings| Box::new(paper::OwsPaper { settings, descending: true })),
    ("two-class", |_| Box::new(two_class::TwoClass)),
];

/// The allocator called `name`.
///
/// # Errors
/// Unknown name; the error lists the known ones.
pub fn create(name: &str, settings: Settings) -> Result<Box<dyn Allocator>, UnknownAllocator> {
    let known = KNOWN.iter().find(|(known, _)| *known == name);
    known.map(|(_, make)| make(settings)).ok_or_else(|| UnknownAllocator { name: name.to_owned() })
}

/// Every name, in alphabetical order.
#[must_use]
pub fn names() -> Vec<&'static str> {
    KNOWN.iter().map(|(name, _)| *name).collect()
}

/// The knapsack of a problem in which every tile is sent, with distortions weighted by `weight`.
fn every_tile(problem: &GopProblem, weight: impl Fn(&TileMenu) -> f64) -> Knapsack {
    Knapsack::new(problem.tiles().iter().map(|tile| {
        let weight = weight(tile);
        tile.choices.iter().map(|choice| Item::new(choice, weight)).collect()
    }))
}

fn solve(knapsack: &Knapsack, budget: f64, settings: Settings) -> Packing {
    if settings.exact { knapsack.exact(budget) } else { knapsack.greedy(budget) }
}

/// The budgets of a quantile search: evenly spread order statistics of the capacity, and its mean.
fn budgets(capacity: &Capacity) -> Vec<f64> {
    const QUANTILES: usize = 12;
    let mut budgets: Vec<f64> =
        (0..=QUANTILES).map(|at| capacity.quantile(at as f64 / QUANTILES as f64)).collect();
    budgets.push(capacity.mean());
    budgets.sort_by(f64::total_cmp);
    budgets.dedup();
    budgets
}

/// Passes the plan of every budget to `cost`; in exact mode also the exact plans of the best budgets.
fn search_budgets(
    knapsack: &Knapsack,
    capacity: &Capacity,
    settings: Settings,
    mut cost: impl FnMut(&Packing, f64) -> f64,
) {
    const EXACT_BUDGETS: usize = 2;
    let mut tried: Vec<(f64, f64)> = budgets(capacity)
        .into_iter()
        .map(|budget| (cost(&knapsack.greedy(budget), budget), budget))
        .collect();
    if settings.exact {
        tried.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, budget) in tried.into_iter().take(EXACT_BUDGETS) {
            cost(&knapsack.exact(budget), budget);
        }
    }
}

/// The tiles of a plan in the default order.
fn default_order(problem: &GopProblem, picks: &[usize]) -> Vec<Sent> {
    let message = |(tile, choice): (usize, &usize)| Sent::of(problem, TileChoice { tile, choice: *choice });
    picks.iter().enumerate().map(message).collect()
}

/// The report on an order.
fn report(problem: &GopProblem, order: &[Sent], plan: PlanReport) -> Allocation {
    let mut choices: Vec<Option<usize>> = vec![None; problem.tiles().len()];
    for Sent { message, .. } in order {
        let finest = &mut choices[message.tile];
        *finest = Some(finest.map_or(message.choice, |known| known.min(message.choice)));
    }
    Allocation {
        choices,
        order: order.iter().map(|sent| sent.message).collect(),
        misses: outcome::misses(problem, order),
        bytes: order.iter().map(|sent| sent.bytes).sum(),
        expected_mse: Outcome::new(problem, Objective::Distortion).expected_mse(order),
        plan,
        bound_mse: outcome::clairvoyant_bound(problem),
    }
}

impl Packing {
    fn report(&self, budget: f64) -> PlanReport {
        PlanReport { budget, value: self.value, bound: self.bound, optimal: self.optimal }
    }
}

#[cfg(test)]
mod tests;
