//! `ows`, the default: the least expected *displayed* distortion,
//! `E[D]` = Σ w·[(1 − ε)·D(q) + ε·D_concealed], over qualities, order, left-out tiles and guard copies.
//!
//! For some quantiles of capacity a knapsack gives the qualities, and messages are ordered by gain per byte.
//! The plan with the least `E[D]` is improved by single changes (one quality up or down, tile left out or
//! included, coarse guard copy added or removed) as long as they help. The plan of `fix-q` is one of the
//! candidates, so `ows` is never worse than it in `E[D]`. `ows-no-skip` leaves no tile out.
//!
//! Deviates: the paper's loss ε·P·D(R) counts a late tile with its *coded* distortion and an arrived one with
//! nothing; here both count with what the viewer sees. Source: the OWS paper §4.1.

mod queue;

use super::outcome::misses;
use super::paper::OwsPaper;
use super::{
    Allocation, Allocator, GopProblem, Item, Knapsack, Objective, Outcome, Packing, PlanReport, Sent,
    Settings, TileMenu, fix, report, search_budgets,
};
use queue::{Pick, Queue};

/// Passes over all tiles; a third finds almost nothing.
const MOST_PASSES: usize = 2;

/// Observation Weighted Sorting over expected displayed distortion.
pub(super) struct Ows {
    pub settings: Settings,
    /// Whether tiles may be left to concealment.
    pub skipping: bool,
}

impl Allocator for Ows {
    fn name(&self) -> &'static str {
        if self.skipping { "ows" } else { "ows-no-skip" }
    }

    fn allocate(&self, problem: &GopProblem) -> Allocation {
        let mut search = Search::new(problem, self.settings);
        self.search_quantiles(&mut search);
        search.refine(self.skipping);
        let (mut order, mut plan, mut least) = search.into_best();
        for (other, its, cost) in self.rivals(problem) {
            if cost < least {
                (order, plan, least) = (other, its, cost);
            }
        }
        if self.skipping && self.settings.unlikely_db > 0.0 {
            drop_unlikely(problem, &mut order, self.settings.unlikely_db);
        }
        report(problem, &order, plan)
    }
}

/// Removes messages from the end of an order that will probably be late, as long as that costs at most
/// `most_db` in total.
fn drop_unlikely(problem: &GopProblem, order: &mut Vec<Sent>, most_db: f64) {
    let misses = misses(problem, order);
    let mut outcome = Outcome::new(problem, Objective::Decibels);
    let most = outcome.cost(order) + most_db * core::f64::consts::LN_10 / 10.0;
    while let Some(last) = order.len().checked_sub(1)
        && misses[last] > 0.5
        && outcome.cost(&order[..last]) <= most
    {
        order.pop();
    }
}

impl Ows {
    /// Plans of the simpler allocators with their costs; the result must not be worse than any of them.
    fn rivals(&self, problem: &GopProblem) -> [(Vec<Sent>, PlanReport, f64); 2] {
        let (printed, plan) = OwsPaper { settings: self.settings, descending: false }.search(problem);
        let cost = Outcome::new(problem, self.settings.objective).cost(&printed);
        [fix::search(problem, self.settings), (printed, plan, cost)]
    }

    fn search_quantiles(&self, search: &mut Search<'_>) {
        let problem = search.problem;
        let knapsack = knapsack(problem, self.skipping);
        search_budgets(&knapsack, problem.capacity(), self.settings, |plan, budget| {
            let offer = |guard| search.offer(plan, guard, budget);
            [false, true].map(offer).into_iter().fold(f64::INFINITY, f64::min)
        });
    }
}

/// The knapsack with weights of the viewport's expected share; leaving a tile out is its last item.
fn knapsack(problem: &GopProblem, skipping: bool) -> Knapsack {
    Knapsack::new(problem.tiles().iter().map(|tile| {
        let mut items: Vec<Item> = tile.choices.iter().map(|choice| Item::new(choice, tile.weight)).collect();
        if skipping {
            items.push(Item { bytes: 0, value: tile.weight * tile.concealed_mse });
        }
        items
    }))
}

/// State of the search: the best picks so far.
struct Search<'a> {
    problem: &'a GopProblem,
    outcome: Outcome<'a>,
    queue: Queue<'a>,
    picks: Vec<Pick>,
    plan: PlanReport,
    cost: f64,
}

impl<'a> Search<'a> {
    fn new(problem: &'a GopProblem, settings: Settings) -> Self {
        let plan = PlanReport { budget: 0.0, value: 0.0, bound: 0.0, optimal: false };
        Self {
            problem,
            outcome: Outcome::new(problem, settings.objective),
            queue: Queue::new(problem),
            picks: Vec::new(),
            plan,
            cost: f64::INFINITY,
        }
    }

    /// Evaluates a plan, with or without guard copies of everything it sends; keeps it if it is better.
    /// Returns its cost.
    fn offer(&mut self, plan: &Packing, guard: bool, budget: f64) -> f64 {
        let pick = |(item, tile): (&usize, &TileMenu)| Pick {
            choice: (*item < tile.choices.len()).then_some(*item),
            guard: guard && item + 1 < tile.choices.len(),
        };
        let picks: Vec<Pick> = plan.picks.iter().zip(self.problem.tiles()).map(pick).collect();
        self.queue.fill(&picks);
        let cost = self.queued_cost();
        if cost < self.cost || (cost == self.cost && plan.optimal) {
            (self.picks, self.plan, self.cost) = (picks, plan.report(budget), cost);
        }
        cost
    }

    fn queued_cost(&mut self) -> f64 {
        let order = self.queue.order();
        self.outcome.cost(order)
    }

    /// Applies single changes, tile by tile, as long as they help.
    fn refine(&mut self, skipping: bool) {
        self.queue.fill(&self.picks);
        for _ in 0..MOST_PASSES {
            let before = self.cost;
            for tile in 0..self.problem.tiles().len() {
                for change in self.changes(tile, skipping).into_iter().flatten() {
                    self.try_change(tile, change);
                }
            }
            // Improvements below 0.004 dB do not justify another pass.
            if self.cost >= before - 1e-3 * before.abs() {
                return;
            }
        }
    }

    fn try_change(&mut self, tile: usize, change: Pick) {
        let known = self.picks[tile];
        if change == known {
            return;
        }
        self.queue.replace(tile, known, change);
        let cost = self.queued_cost();
        if cost < self.cost {
            self.picks[tile] = change;
            self.cost = cost;
        } else {
            self.queue.replace(tile, change, known);
        }
    }

    /// The possible changes of one tile: a quality up or down, each with and without the other guard-copy
    /// setting.
    fn changes(&self, tile: usize, skipping: bool) -> [Option<Pick>; 4] {
        let coarsest = self.problem.tiles()[tile].choices.len() - 1;
        let pick = self.picks[tile];
        // A guard copy is a coarser copy, so the coarsest quality has none.
        let with = |choice: usize, guard: bool| {
            Some(Pick { choice: Some(choice), guard: guard && choice < coarsest })
        };
        let Some(choice) = pick.choice else {
            return [with(coarsest, false), with(coarsest / 2, false), None, None];
        };
        let finer = choice.saturating_sub(1);
        let coarser = if choice < coarsest {
            with(choice + 1, pick.guard)
        } else {
            Some(Pick { choice: None, guard: false }).filter(|_| skipping)
        };
        [with(finer, pick.guard), coarser, with(choice, !pick.guard), with(finer, !pick.guard)]
    }

    /// The best order, its plan and its cost.
    fn into_best(mut self) -> (Vec<Sent>, PlanReport, f64) {
        self.queue.fill(&self.picks);
        (self.queue.order().to_vec(), self.plan, self.cost)
    }
}
