//! The exact dynamic programme over the tiles: lists of undominated (bytes, distortion) states, pruned by
//! reduced costs.
//!
//! With the multiplier of the linear relaxation, every item has a reduced cost. A plan's distance from the
//! bound is the sum of its items' reduced costs plus the price of its unused bytes. An item whose reduced
//! cost exceeds the distance of a known plan cannot be part of a better one. (The core idea of Pisinger, "A
//! minimal algorithm for the multiple-choice knapsack problem", EJOR 83(2), 1995.)

use super::{Item, Packing};

/// Most states over all tiles, 24 bytes each. Typical problems need hundreds.
const MOST_STATES: usize = 1 << 18;

#[derive(Clone, Copy)]
struct Candidate {
    item: u32,
    bytes: u64,
    reduced: f64,
}

#[derive(Clone, Copy)]
struct State {
    bytes: u64,
    /// Reduced costs so far.
    reduced: f64,
    parent: u32,
    item: u32,
}

/// Improves `known` to the best plan; `rate` is the relaxation's gain per byte.
pub(super) fn solve(tiles: &[Vec<Item>], budget: f64, known: Packing, rate: f64) -> Packing {
    // Tolerance for rounding, so that no equally good plan is pruned.
    let mercy = 1e-9 * known.value.abs().max(1e-12);
    let distance = known.value - known.bound;
    if distance <= mercy {
        return Packing { optimal: true, ..known };
    }
    let candidates: Vec<Vec<Candidate>> =
        tiles.iter().map(|items| survivors(items, rate, distance + mercy)).collect();
    let Some(layers) = programme(&candidates, budget, rate, distance + mercy) else { return known };
    let last = layers.last().map_or(&[][..], Vec::as_slice);
    let cost = |state: &State| state.reduced + rate * (budget - state.bytes as f64);
    let best = (0..last.len()).min_by(|a, b| cost(&last[*a]).total_cmp(&cost(&last[*b])));
    // No state is left if nothing is better than `known`.
    let Some(mut at) = best else { return Packing { optimal: true, ..known } };
    let mut picks = vec![0; tiles.len()];
    for (tile, layer) in layers.iter().enumerate().rev() {
        picks[tile] = layer[at].item as usize;
        at = layer[at].parent as usize;
    }
    let chosen = || tiles.iter().zip(&picks).map(|(items, pick)| items[*pick]);
    let (bytes, value) =
        (chosen().map(|item| item.bytes).sum(), chosen().map(|item| item.value).sum::<f64>());
    if value >= known.value {
        return Packing { optimal: true, ..known };
    }
    Packing { bytes, value, bound: known.bound.min(value), optimal: true, picks }
}

/// The undominated items of a tile that a better plan may contain, by increasing bytes.
fn survivors(items: &[Item], rate: f64, distance: f64) -> Vec<Candidate> {
    let price = |item: &Item| item.value + rate * item.bytes as f64;
    let least = items.iter().map(price).fold(f64::INFINITY, f64::min);
    let mut by_size: Vec<u32> = (0..items.len() as u32).collect();
    by_size.sort_by(|a, b| {
        let (a, b) = (items[*a as usize], items[*b as usize]);
        a.bytes.cmp(&b.bytes).then(a.value.total_cmp(&b.value))
    });
    let mut best = f64::INFINITY;
    let mut kept = Vec::new();
    for index in by_size {
        let item = &items[index as usize];
        if item.value >= best {
            continue;
        }
        best = item.value;
        let reduced = price(item) - least;
        if reduced <= distance {
            kept.push(Candidate { item: index, bytes: item.bytes, reduced });
        }
    }
    kept
}

/// One layer of states per tile; `None` when they become too many.
fn programme(
    candidates: &[Vec<Candidate>],
    budget: f64,
    rate: f64,
    distance: f64,
) -> Option<Vec<Vec<State>>> {
    // Least and most bytes of the tiles after each one.
    let mut rest = vec![(0u64, 0u64); candidates.len() + 1];
    for (tile, items) in candidates.iter().enumerate().rev() {
        let (least, most) = rest[tile + 1];
        let low = items.first().map_or(0, |candidate| candidate.bytes);
        let high = items.last().map_or(0, |candidate| candidate.bytes);
        rest[tile] = (least + low, most + high);
    }
    let start = State { bytes: 0, reduced: 0.0, parent: 0, item: 0 };
    let mut layers: Vec<Vec<State>> = Vec::with_capacity(candidates.len());
    let mut states = 0;
    let mut grown: Vec<State> = Vec::new();
    for (tile, items) in candidates.iter().enumerate() {
        let (least, most) = rest[tile + 1];
        let before = layers.last().map_or(std::slice::from_ref(&start), Vec::as_slice);
        grown.clear();
        for candidate in items {
            if grown.len() > 4 * MOST_STATES {
                return None;
            }
            for (parent, state) in before.iter().enumerate() {
                let bytes = state.bytes + candidate.bytes;
                let reduced = state.reduced + candidate.reduced;
                if (bytes + least) as f64 > budget {
                    break;
                }
                // The price of bytes that can no longer be used.
                let lost = (budget - (bytes + most) as f64).max(0.0) * rate;
                if reduced + lost <= distance {
                    grown.push(State { bytes, reduced, parent: parent as u32, item: candidate.item });
                }
            }
        }
        let layer = undominated(&mut grown, rate);
        states += layer.len();
        if states > MOST_STATES {
            return None;
        }
        layers.push(layer);
    }
    Some(layers)
}

/// Sorts by bytes and keeps the states whose distortion falls.
fn undominated(states: &mut [State], rate: f64) -> Vec<State> {
    // Distortion is reduced cost minus the price of the bytes, plus a constant.
    let value = |state: &State| state.reduced - rate * state.bytes as f64;
    states.sort_by(|a, b| a.bytes.cmp(&b.bytes).then(a.reduced.total_cmp(&b.reduced)));
    let mut kept: Vec<State> = Vec::with_capacity(states.len());
    for state in states.iter() {
        if kept.last().is_none_or(|last| value(state) < value(last)) {
            kept.push(*state);
        }
    }
    kept
}
