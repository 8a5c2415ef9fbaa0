//! The messages of a set of picks in sending order: by gain per byte, placed where they most surely arrive.
//!
//! With arrival in order, the probability of being late grows with every byte sent before. Exchanging two
//! neighbours shows that the larger gain per byte goes first if this probability grows evenly (Smith,
//! "Various optimizers for single-stage production", 1956). With both ends, the next message goes to the end
//! where it is more likely to be in time (FBDT §3.1: both ends are sure, the middle is not).

use super::super::TileChoice;
use super::super::outcome::Sent;
use super::super::problem::{ArrivalOrder, GopProblem};

/// The decision for one tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pick {
    /// The quality sent, if any.
    pub choice: Option<usize>,
    /// Whether the coarsest quality is sent in addition.
    pub guard: bool,
}

/// Messages by decreasing gain per byte, and in sending order.
pub(super) struct Queue<'a> {
    problem: &'a GopProblem,
    by_rate: Vec<Sent>,
    /// The capacities of the forward and the backward path, each sorted.
    ends: Option<(Vec<f64>, Vec<f64>)>,
    /// With both ends, the sending order; empty otherwise.
    placed: Vec<Sent>,
    descending: Vec<Sent>,
}

impl<'a> Queue<'a> {
    pub(super) fn new(problem: &'a GopProblem) -> Self {
        let sorted = |of: fn(&(f64, f64)) -> f64| {
            let mut sizes: Vec<f64> = problem.capacity().samples().iter().map(of).collect();
            sizes.sort_by(f64::total_cmp);
            sizes
        };
        let ends = (problem.arrival() == ArrivalOrder::BothEnds).then(|| (sorted(|s| s.0), sorted(|s| s.1)));
        let by_rate = Vec::with_capacity(2 * problem.tiles().len());
        Self { problem, by_rate, ends, placed: Vec::new(), descending: Vec::new() }
    }

    /// Starts again with one pick per tile.
    pub(super) fn fill(&mut self, picks: &[Pick]) {
        self.by_rate.clear();
        for (tile, pick) in picks.iter().enumerate() {
            self.by_rate.extend(messages(self.problem, tile, *pick).into_iter().flatten());
        }
        self.by_rate.sort_by(compare);
    }

    /// Changes one tile's pick from `known` to `pick`.
    pub(super) fn replace(&mut self, tile: usize, known: Pick, pick: Pick) {
        for sent in messages(self.problem, tile, known).into_iter().flatten() {
            let at = self.place(&sent);
            self.by_rate.remove(at);
        }
        for sent in messages(self.problem, tile, pick).into_iter().flatten() {
            let at = self.place(&sent);
            self.by_rate.insert(at, sent);
        }
    }

    fn place(&self, sent: &Sent) -> usize {
        self.by_rate.partition_point(|other| compare(other, sent).is_lt())
    }

    /// The order of sending.
    pub(super) fn order(&mut self) -> &[Sent] {
        let Some((head, tail)) = &self.ends else { return &self.by_rate };
        self.placed.clear();
        self.descending.clear();
        let (mut from_head, mut from_tail) = (0, 0);
        let late = |sizes: &[f64], bytes: u64| sizes.partition_point(|size| *size < bytes as f64);
        for sent in &self.by_rate {
            let climbing = late(head, from_head + sent.bytes);
            let falling = late(tail, from_tail + sent.bytes);
            // If both ends are equally sure, the one with fewer bytes.
            if climbing < falling || (climbing == falling && from_head <= from_tail) {
                from_head += sent.bytes;
                self.placed.push(*sent);
            } else {
                from_tail += sent.bytes;
                self.descending.push(*sent);
            }
        }
        self.placed.extend(self.descending.iter().rev());
        &self.placed
    }
}

fn messages(problem: &GopProblem, tile: usize, pick: Pick) -> [Option<Sent>; 2] {
    let Some(choice) = pick.choice else { return [None, None] };
    let alone = Sent::of(problem, TileChoice { tile, choice });
    if !pick.guard {
        return [None, Some(alone)];
    }
    let coarsest = problem.tiles()[tile].choices.len() - 1;
    let guard = Sent::of(problem, TileChoice { tile, choice: coarsest });
    let fine = Sent::after(problem, alone.message, guard.mse);
    // A guard copy sent after the fine copy is useless.
    if guard.rate > fine.rate { [Some(guard), Some(fine)] } else { [None, Some(alone)] }
}

/// By decreasing gain per byte, then by tile, the coarse copy before the fine one.
fn compare(a: &Sent, b: &Sent) -> std::cmp::Ordering {
    let by_tile = a.message.tile.cmp(&b.message.tile);
    b.rate.total_cmp(&a.rate).then(by_tile).then(b.message.choice.cmp(&a.message.choice))
}
