//! The multiple-choice knapsack inside every allocator: one quality per tile, least sum of weighted
//! distortions, bytes within a budget.
//!
//! The greedy solution follows the tiles' lower convex hulls by gain per byte. Taking only a fraction of the
//! step that does not fit gives the optimum of the linear relaxation (Sinha and Zoltners, "The
//! Multiple-Choice Knapsack Problem", Operations Research 27(3), 1979), which is the bound. Deadlines and
//! order are not considered.

mod exact;

use super::problem::Choice;

/// Rounds in which the remaining budget is offered to items off the hull.
const FILL_ROUNDS: usize = 16;

/// One quality of one tile, or leaving it out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Item {
    /// Its size.
    pub bytes: u64,
    /// Its weighted distortion, 0 or more.
    pub value: f64,
}

impl Item {
    pub(super) fn new(choice: &Choice, weight: f64) -> Self {
        Self { bytes: choice.bytes, value: weight * choice.mse }
    }
}

/// A step along a tile's hull.
#[derive(Debug, Clone, Copy)]
struct Step {
    tile: usize,
    to: usize,
    bytes: u64,
    gain: f64,
}

/// A choice for every tile.
#[derive(Debug, Clone, PartialEq)]
pub struct Packing {
    /// Per tile, the index of its item.
    pub picks: Vec<usize>,
    /// Their total size. Exceeds the budget only if the smallest items do.
    pub bytes: u64,
    /// The sum of their distortions.
    pub value: f64,
    /// No plan within the budget has a smaller sum. If nothing fits, the plan's own sum.
    pub bound: f64,
    /// Whether the plan is proved to be the best.
    pub optimal: bool,
}

/// One knapsack problem, prepared for any budget.
#[derive(Debug, Clone)]
pub struct Knapsack {
    tiles: Vec<Vec<Item>>,
    /// The smallest item of each tile.
    base: Vec<usize>,
    /// The steps of all hulls by decreasing gain per byte.
    steps: Vec<Step>,
}

impl Knapsack {
    /// A problem with one list of items per tile, none empty.
    pub fn new(tiles: impl Iterator<Item = Vec<Item>>) -> Self {
        let tiles: Vec<Vec<Item>> = tiles.collect();
        let mut base = Vec::with_capacity(tiles.len());
        let mut steps = Vec::new();
        let mut hull = Vec::new();
        for (tile, items) in tiles.iter().enumerate() {
            lower_hull(items, &mut hull);
            base.push(hull[0]);
            for pair in hull.windows(2) {
                let (from, to) = (items[pair[0]], items[pair[1]]);
                let step =
                    Step { tile, to: pair[1], bytes: to.bytes - from.bytes, gain: from.value - to.value };
                steps.push(step);
            }
        }
        // A stable sort: within a tile rates strictly decrease; between tiles, equal rates keep the tiles'
        // order.
        let rate = |step: &Step| step.gain / step.bytes as f64;
        steps.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        Self { tiles, base, steps }
    }

    /// The greedy plan within a budget of bytes.
    #[must_use]
    pub fn greedy(&self, budget: f64) -> Packing {
        self.greedy_and_rate(budget).0
    }

    /// The best plan, by dynamic programming. If the states exceed the memory limit, the greedy plan, not
    /// marked optimal.
    #[must_use]
    pub fn exact(&self, budget: f64) -> Packing {
        let (greedy, rate) = self.greedy_and_rate(budget);
        if greedy.optimal { greedy } else { exact::solve(&self.tiles, budget, greedy, rate) }
    }

    /// The optimum of the linear relaxation: no plan within the budget has a smaller sum.
    #[must_use]
    pub fn bound(&self, budget: f64) -> f64 {
        self.bounds(std::iter::once(budget)).sum()
    }

    /// The bounds of many budgets, in increasing order, in one pass.
    pub fn bounds(&self, budgets: impl Iterator<Item = f64>) -> impl Iterator<Item = f64> {
        let (mut bytes, mut value) = self.start();
        let mut steps = self.steps.iter().peekable();
        budgets.map(move |budget| {
            while let Some(step) = steps.next_if(|step| (bytes + step.bytes) as f64 <= budget) {
                bytes += step.bytes;
                value -= step.gain;
            }
            let room = (budget - bytes as f64).max(0.0);
            value - steps.peek().map_or(0.0, |step| step.gain * room / step.bytes as f64)
        })
    }

    fn start(&self) -> (u64, f64) {
        let smallest = self.tiles.iter().zip(&self.base).map(|(items, base)| items[*base]);
        smallest.fold((0, 0.0), |(bytes, value), item| (bytes + item.bytes, value + item.value))
    }

    /// The plan, and the gain per byte of the first step that did not fit (the bound's multiplier).
    fn greedy_and_rate(&self, budget: f64) -> (Packing, f64) {
        let (mut bytes, mut value) = self.start();
        let mut picks = self.base.clone();
        if bytes as f64 > budget {
            return (Packing { picks, bytes, value, bound: value, optimal: true }, 0.0);
        }
        let mut closed = vec![false; self.tiles.len()];
        let mut cut: Option<(f64, f64)> = None;
        for step in &self.steps {
            if closed[step.tile] {
                continue;
            }
            if (bytes + step.bytes) as f64 <= budget {
                bytes += step.bytes;
                value -= step.gain;
                picks[step.tile] = step.to;
                continue;
            }
            closed[step.tile] = true;
            let rate = step.gain / step.bytes as f64;
            cut.get_or_insert((value - rate * (budget - bytes as f64), rate));
        }
        let Some((bound, rate)) = cut else {
            return (Packing { picks, bytes, value, bound: value, optimal: true }, 0.0);
        };
        self.fill(budget, &mut picks, &mut bytes);
        let value = self.value_of(&picks);
        (Packing { picks, bytes, value, bound: bound.min(value), optimal: false }, rate)
    }

    /// Uses the remaining budget for items off the hull, the largest gain first.
    fn fill(&self, budget: f64, picks: &mut [usize], bytes: &mut u64) {
        // Usually one or two rounds find everything.
        for _ in 0..FILL_ROUNDS {
            let mut best: Option<(f64, usize, usize)> = None;
            for (tile, items) in self.tiles.iter().enumerate() {
                let now = items[picks[tile]];
                for (to, item) in items.iter().enumerate() {
                    let gain = now.value - item.value;
                    let fits = (*bytes - now.bytes + item.bytes) as f64 <= budget;
                    if fits && gain > best.map_or(0.0, |(gain, ..)| gain) {
                        best = Some((gain, tile, to));
                    }
                }
            }
            let Some((_, tile, to)) = best else { return };
            *bytes = *bytes - self.tiles[tile][picks[tile]].bytes + self.tiles[tile][to].bytes;
            picks[tile] = to;
        }
    }

    fn value_of(&self, picks: &[usize]) -> f64 {
        self.tiles.iter().zip(picks).map(|(items, pick)| items[*pick].value).sum()
    }
}

/// Indices of the lower convex hull with increasing bytes and decreasing value, from the smallest item to the
/// best.
fn lower_hull(items: &[Item], hull: &mut Vec<usize>) {
    let mut by_size: Vec<usize> = (0..items.len()).collect();
    by_size.sort_by(|a, b| {
        let (a, b) = (items[*a], items[*b]);
        a.bytes.cmp(&b.bytes).then(a.value.total_cmp(&b.value))
    });
    hull.clear();
    for next in by_size {
        let item = items[next];
        if hull.last().is_some_and(|last: &usize| items[*last].value <= item.value) {
            continue;
        }
        while let [.., before, last] = hull[..] {
            let (a, b) = (items[before], items[last]);
            let (first, second) = ((b.bytes - a.bytes) as f64, (item.bytes - b.bytes) as f64);
            // Keep the last point only while the gain per byte falls.
            if (a.value - b.value) * second > (b.value - item.value) * first {
                break;
            }
            hull.pop();
        }
        hull.push(next);
    }
}

#[cfg(test)]
mod tests;
