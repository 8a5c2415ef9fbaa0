//! `two-class`, a common practice: one quality for the tiles of the viewport, the coarsest for the rest, the
//! viewport first.
//!
//! The viewport's quality is the finest with which everything fits into the mean capacity. All are tried, so
//! there is no difference between greedy and exact. No source: many players do this.

use super::{Allocation, Allocator, GopProblem, PlanReport, Sent, TileChoice, report};

/// Tiles with at least this probability belong to the viewport.
const IN_VIEWPORT: f64 = 0.5;

/// Viewport fine, rest coarse.
pub(super) struct TwoClass;

impl Allocator for TwoClass {
    fn name(&self) -> &'static str {
        "two-class"
    }

    fn allocate(&self, problem: &GopProblem) -> Allocation {
        let tiles = problem.tiles();
        let coarsest = tiles[0].choices.len() - 1;
        let (inside, outside): (Vec<usize>, Vec<usize>) =
            (0..tiles.len()).partition(|tile| tiles[*tile].seen >= IN_VIEWPORT);
        let budget = problem.capacity().mean();
        let rest: u64 = outside.iter().map(|tile| tiles[*tile].choices[coarsest].bytes).sum();
        let bytes =
            |fine: usize| rest + inside.iter().map(|tile| tiles[*tile].choices[fine].bytes).sum::<u64>();
        let fine = (0..coarsest).find(|fine| bytes(*fine) as f64 <= budget).unwrap_or(coarsest);
        let send = |tile: &usize, choice| Sent::of(problem, TileChoice { tile: *tile, choice });
        let order: Vec<Sent> = inside
            .iter()
            .map(|tile| send(tile, fine))
            .chain(outside.iter().map(|tile| send(tile, coarsest)))
            .collect();
        let value = order.iter().map(|sent| tiles[sent.message.tile].weight * sent.mse).sum();
        let bound = super::every_tile(problem, |tile| tile.weight).bound(budget).min(value);
        report(problem, &order, PlanReport { budget, value, bound, optimal: false })
    }
}
