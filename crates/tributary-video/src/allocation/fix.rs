//! `fix`, the paper's baseline, and `fix-q`, a stronger one: qualities by rate selection, tiles in the
//! default order, every tile sent.
//!
//! `fix` plans with the mean capacity. `fix-q` searches the quantile of capacity whose plan has the least
//! expected displayed distortion. If even the coarsest tiles exceed the budget, they are sent nevertheless.
//! Source: the OWS paper §6.3; the quantile is ours.

use super::{
    Allocation, Allocator, GopProblem, Outcome, PlanReport, Sent, Settings, default_order, every_tile,
    report, search_budgets, solve,
};

/// The paper's baseline.
pub(super) struct Fix {
    pub settings: Settings,
}

impl Allocator for Fix {
    fn name(&self) -> &'static str {
        "fix"
    }

    fn allocate(&self, problem: &GopProblem) -> Allocation {
        // OWS §4.1: minimise Σ P·D subject to Σ B ≤ C_agg.
        let budget = problem.capacity().mean();
        let plan = solve(&every_tile(problem, |tile| tile.seen), budget, self.settings);
        report(problem, &default_order(problem, &plan.picks), plan.report(budget))
    }
}

/// As [`Fix`], with the best quantile of capacity.
pub(super) struct FixQuantile {
    pub settings: Settings,
}

impl Allocator for FixQuantile {
    fn name(&self) -> &'static str {
        "fix-q"
    }

    fn allocate(&self, problem: &GopProblem) -> Allocation {
        let (order, plan, _) = search(problem, self.settings);
        report(problem, &order, plan)
    }
}

/// The best quantile's order, plan and cost.
pub(super) fn search(problem: &GopProblem, settings: Settings) -> (Vec<Sent>, PlanReport, f64) {
    let knapsack = every_tile(problem, |tile| tile.seen);
    let mut outcome = Outcome::new(problem, settings.objective);
    let mut best: Option<(Vec<Sent>, PlanReport, f64)> = None;
    search_budgets(&knapsack, problem.capacity(), settings, |plan, budget| {
        let order = default_order(problem, &plan.picks);
        let cost = outcome.cost(&order);
        // If an exact plan equals the greedy one, it replaces it, because it is proved optimal.
        if best.as_ref().is_none_or(|(.., least)| cost < *least || (cost == *least && plan.optimal)) {
            best = Some((order, plan.report(budget), cost));
        }
        cost
    });
    best.expect("a capacity has at least one sample")
}
