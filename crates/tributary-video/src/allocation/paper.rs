//! `ows-paper`: Algorithm 1 as printed, and a variant with the order reversed.
//!
//! The rate step does not contain ε, so every iteration finds the same rates and only the order changes; the loop
//! ends when an order repeats. The ascending sort sends the most harmful tile last. This is kept as printed, for
//! comparison. Source: the OWS paper §4.2, Algorithm 1.

use super::{
    Allocation, Allocator, GopProblem, PlanReport, Sent, Settings, TileChoice, default_order, every_tile,
    outcome, report, solve,
};

/// M of Algorithm 1. The paper gives no value; orders repeat long before.
const MOST_ITERATIONS: usize = 32;

/// Observation Weighted Sorting as printed.
pub(super) struct OwsPaper {
    pub settings: Settings,
    pub descending: bool,
}

impl Allocator for OwsPaper {
    fn name(&self) -> &'static str {
        if self.descending { "ows-paper-descending" } else { "ows-paper" }
    }

    fn allocate(&self, problem: &GopProblem) -> Allocation {
        let (best, plan) = self.search(problem);
        report(problem, &best, plan)
    }
}

impl OwsPaper {
    /// The best iterate's order, and the plan behind it.
    pub(super) fn search(&self, problem: &GopProblem) -> (Vec<Sent>, PlanReport) {
        // Line 5: minimise Σ P·D subject to Σ B ≤ C_agg, the same in every iteration.
        let budget = problem.capacity().mean();
        let plan = solve(&every_tile(problem, |tile| tile.seen), budget, self.settings);
        // Line 3: the default order.
        let mut order = default_order(problem, &plan.picks);
        let mut best = order.clone();
        let mut least = f64::INFINITY;
        let mut tried: Vec<Vec<TileChoice>> = Vec::new();
        for _ in 0..MOST_ITERATIONS {
            let messages: Vec<TileChoice> = order.iter().map(|sent| sent.message).collect();
            if tried.contains(&messages) {
                break;
            }
            tried.push(messages);
            // Line 6: losses ε·P·D under this order.
            let losses = losses(problem, &order);
            let objective: f64 = losses.iter().sum();
            if objective < least {
                least = objective;
                best.clone_from(&order);
            }
            order = self.sorted(order, &losses);
        }
        (best, plan.report(budget))
    }

    /// Line 7: sorted by loss; equal losses keep the default order.
    fn sorted(&self, order: Vec<Sent>, losses: &[f64]) -> Vec<Sent> {
        let mut with: Vec<(f64, Sent)> = losses.iter().copied().zip(order).collect();
        with.sort_by(|(a, sent), (b, other)| {
            let by_loss = if self.descending { b.total_cmp(a) } else { a.total_cmp(b) };
            by_loss.then(sent.message.tile.cmp(&other.message.tile))
        });
        with.into_iter().map(|(_, sent)| sent).collect()
    }
}

fn losses(problem: &GopProblem, order: &[Sent]) -> Vec<f64> {
    let misses = outcome::misses(problem, order);
    let loss = |(miss, sent): (f64, &Sent)| miss * problem.tiles()[sent.message.tile].seen * sent.mse;
    misses.into_iter().zip(order).map(loss).collect()
}
