//! The knapsack compared with every combination, and its bound with a linear-programming solver.

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome};
use proptest::prelude::*;

use super::*;

fn knapsack(tiles: &[Vec<Item>]) -> Knapsack {
    Knapsack::new(tiles.iter().cloned())
}

fn item(bytes: u64, value: f64) -> Item {
    Item { bytes, value }
}

/// The best of all combinations.
fn best_by_trying(tiles: &[Vec<Item>], budget: f64) -> Option<f64> {
    fn rest(tiles: &[Vec<Item>], bytes: u64, value: f64, budget: f64) -> Option<f64> {
        if bytes as f64 > budget {
            return None;
        }
        let Some((first, others)) = tiles.split_first() else { return Some(value) };
        let tried =
            first.iter().filter_map(|item| rest(others, bytes + item.bytes, value + item.value, budget));
        tried.reduce(f64::min)
    }
    rest(tiles, 0, 0.0, budget)
}

fn relaxation(tiles: &[Vec<Item>], budget: f64) -> Option<f64> {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let mut all = Vec::new();
    for items in tiles {
        let shares: Vec<_> = items.iter().map(|item| problem.add_var(item.value, (0.0, 1.0))).collect();
        problem.add_constraint(shares.iter().map(|share| (*share, 1.0)), ComparisonOp::Eq, 1.0);
        all.extend(shares.into_iter().zip(items.iter().map(|item| item.bytes as f64)));
    }
    problem.add_constraint(all, ComparisonOp::Le, budget);
    match problem.solve() {
        Ok(SolveOutcome::Solution(solution)) => Some(solution.objective()),
        _ => None,
    }
}

fn tiles(most: usize) -> impl Strategy<Value = Vec<Vec<Item>>> {
    let one = (0u64..60, 0.0f64..50.0).prop_map(|(bytes, value)| item(bytes, value));
    proptest::collection::vec(proptest::collection::vec(one, 1..5), 1..most)
}

#[test]
fn by_hand() {
    // Two tiles; with 10 bytes the second step of the first tile is worth more than the second tile's.
    let tiles = vec![vec![item(2, 20.0), item(5, 10.0), item(8, 4.0)], vec![item(2, 9.0), item(6, 5.0)]];
    let plan = knapsack(&tiles).exact(10.0);
    assert_eq!((plan.picks, plan.bytes, plan.value), (vec![2, 0], 10, 13.0));
    // With 9 bytes there is room for 5 + 2, and for two bytes of the step that gains 2 per byte.
    let plan = knapsack(&tiles).greedy(9.0);
    assert_eq!((plan.value, plan.bound), (19.0, 15.0));
}

#[test]
fn nothing_fits() {
    let plan = knapsack(&[vec![item(5, 1.0), item(9, 0.5)]]).exact(4.0);
    assert_eq!((plan.picks, plan.bytes), (vec![0], 5));
}

#[test]
fn equal_sizes_and_dominated_items() {
    let tiles = vec![vec![item(3, 5.0), item(3, 4.0), item(4, 6.0), item(0, 4.0)]];
    let plan = knapsack(&tiles).greedy(100.0);
    assert_eq!(plan.picks, [3], "the smaller of two equal items, and never a worse larger one");
}

#[test]
fn contrived_problems_end() {
    // Subset sums of powers: the number of states doubles with every tile up to the memory limit.
    let tiles: Vec<Vec<Item>> = (0..40)
        .map(|bit| vec![item(0, (1u64 << bit) as f64 * 1.000_001), item((1 << bit) + bit, 0.0)])
        .collect();
    let plan = knapsack(&tiles).exact(((1u64 << 40) / 3) as f64);
    assert!(plan.value >= plan.bound);
}

proptest! {
    #[test]
    fn exact_is_the_best_of_all(tiles in tiles(7), budget in 0.0f64..200.0) {
        let plan = knapsack(&tiles).exact(budget);
        prop_assert!(plan.optimal);
        if let Some(best) = best_by_trying(&tiles, budget) {
            prop_assert!((plan.value - best).abs() < 1e-6, "{} {}", plan.value, best);
            prop_assert!(plan.bytes as f64 <= budget);
        }
    }

    #[test]
    fn greedy_fits_and_lies_above_its_bound(tiles in tiles(12), budget in 0.0f64..400.0) {
        let knapsack = knapsack(&tiles);
        let (greedy, exact) = (knapsack.greedy(budget), knapsack.exact(budget));
        let smallest: u64 = tiles.iter().map(|items| items.iter().map(|i| i.bytes).min().unwrap_or(0)).sum();
        prop_assert!(greedy.bytes as f64 <= budget || greedy.bytes == smallest);
        prop_assert!(greedy.bound <= exact.value + 1e-9 && exact.value <= greedy.value + 1e-9);
        // The gap is at most the one step that the relaxation divides.
        let widest = tiles.iter().flat_map(|items| items.iter().map(|i| i.value)).fold(0.0, f64::max);
        prop_assert!(greedy.value - greedy.bound <= widest + 1e-9);
    }

    #[test]
    fn the_bound_is_the_linear_optimum(tiles in tiles(8), budget in 0.0f64..300.0) {
        if let Some(optimum) = relaxation(&tiles, budget) {
            let bound = knapsack(&tiles).bound(budget);
            prop_assert!((bound - optimum).abs() < 1e-6, "{bound} {optimum}");
            prop_assert!((knapsack(&tiles).greedy(budget).bound - optimum).abs() < 1e-6);
        }
    }
}
