//! Model of the displayed distortion for an order of messages: per capacity sample, with deadline misses, and
//! the lower bound on the distortion.
//!
//! Allocators plan with this model. Real arrivals are measured elsewhere.

use super::knapsack::{Item, Knapsack};
use super::problem::{ArrivalOrder, Choice, GopProblem};
use super::{Objective, TileChoice};

/// Smaller distortions count as this one in means of decibels: 68 dB, not visible.
pub(super) const LEAST_MSE: f64 = 0.01;

/// A message with its size and its effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sent {
    pub message: TileChoice,
    pub bytes: u64,
    pub mse: f64,
    /// Weighted distortion that it removes when it arrives after the tile's earlier messages.
    pub gain: f64,
    /// Gain per byte.
    pub rate: f64,
}

impl Sent {
    /// The only message of a tile.
    pub(super) fn of(problem: &GopProblem, message: TileChoice) -> Self {
        Self::after(problem, message, problem.tiles()[message.tile].concealed_mse)
    }

    /// A message that arrives while the tile is shown with error `shown`.
    pub(super) fn after(problem: &GopProblem, message: TileChoice, shown: f64) -> Self {
        let menu = &problem.tiles()[message.tile];
        let Choice { bytes, mse } = menu.choices[message.choice];
        let gain = menu.weight * (shown - mse);
        // An empty message costs nothing: first if it helps, last if it harms.
        Self { message, bytes, mse, gain, rate: gain / bytes.max(1) as f64 }
    }
}

/// Evaluates orders of one problem; keeps its buffers between calls.
pub(super) struct Outcome<'a> {
    problem: &'a GopProblem,
    objective: Objective,
    /// Σ w·D_concealed: the distortion if nothing arrives.
    nothing: f64,
    /// Per tile, the finest choice that has arrived, and the MSE shown.
    shown: Vec<(usize, f64)>,
}

impl<'a> Outcome<'a> {
    pub(super) fn new(problem: &'a GopProblem, objective: Objective) -> Self {
        let nothing = problem.tiles().iter().map(|tile| tile.weight * tile.concealed_mse).sum();
        Self { problem, objective, nothing, shown: Vec::with_capacity(problem.tiles().len()) }
    }

    /// The objective of the search: `E[D]`, or the mean of its logarithm.
    pub(super) fn cost(&mut self, order: &[Sent]) -> f64 {
        let objective = self.objective;
        let mut sum = 0.0;
        self.each_sample(order, |mse| {
            sum += match objective {
                Objective::Distortion => mse,
                Objective::Decibels => libm::log(mse.max(LEAST_MSE)),
            };
        });
        sum / self.problem.capacity().samples().len() as f64
    }

    /// `E[D]`, the expected displayed distortion.
    pub(super) fn expected_mse(&mut self, order: &[Sent]) -> f64 {
        let mut sum = 0.0;
        self.each_sample(order, |mse| sum += mse);
        sum / self.problem.capacity().samples().len() as f64
    }

    /// Calls `with` with the displayed distortion at each capacity sample.
    fn each_sample(&mut self, order: &[Sent], mut with: impl FnMut(f64)) {
        match self.problem.arrival() {
            ArrivalOrder::InOrder => self.in_order(order, &mut with),
            ArrivalOrder::BothEnds => self.both_ends(order, &mut with),
        }
    }

    /// Samples are sorted by sum, so one pass along the order serves all. A guard copy precedes the fine one,
    /// so gains add up.
    fn in_order(&self, order: &[Sent], with: &mut impl FnMut(f64)) {
        let mut mse = self.nothing;
        let (mut at, mut bytes) = (0, 0);
        for (head, tail) in self.problem.capacity().samples() {
            while let Some(sent) = order.get(at)
                && (bytes + sent.bytes) as f64 <= head + tail
            {
                bytes += sent.bytes;
                mse -= sent.gain;
                at += 1;
            }
            with(mse);
        }
    }

    fn both_ends(&mut self, order: &[Sent], with: &mut impl FnMut(f64)) {
        let total: u64 = order.iter().map(|sent| sent.bytes).sum();
        for (head, tail) in self.problem.capacity().samples() {
            self.shown.clear();
            self.shown.extend(self.problem.tiles().iter().map(|tile| (usize::MAX, tile.concealed_mse)));
            // The cursors have met: parts of the message between them came from both sides.
            let all = total as f64 <= head + tail;
            let (mut mse, mut bytes) = (self.nothing, 0);
            for sent in order {
                let before = bytes;
                bytes += sent.bytes;
                if all || bytes as f64 <= *head || (total - before) as f64 <= *tail {
                    mse -= self.arrive(sent);
                }
            }
            with(mse);
        }
    }

    /// The gain of this arrival. The player shows the finest copy it has, even if concealment would have a
    /// smaller error, because it cannot know that.
    fn arrive(&mut self, sent: &Sent) -> f64 {
        let (finest, mse) = self.shown[sent.message.tile];
        if sent.message.choice >= finest {
            return 0.0;
        }
        self.shown[sent.message.tile] = (sent.message.choice, sent.mse);
        self.problem.tiles()[sent.message.tile].weight * (mse - sent.mse)
    }
}

/// ε: the probability of each message to miss the deadline.
pub(super) fn misses(problem: &GopProblem, order: &[Sent]) -> Vec<f64> {
    let samples = problem.capacity().samples();
    let total: u64 = order.iter().map(|sent| sent.bytes).sum();
    let mut bytes = 0;
    let miss = |sent: &Sent| {
        let before = bytes;
        bytes += sent.bytes;
        let (through, after) = (bytes as f64, (total - before) as f64);
        let late = match problem.arrival() {
            ArrivalOrder::InOrder => samples.partition_point(|(head, tail)| head + tail < through),
            ArrivalOrder::BothEnds => {
                let late = |(head, tail): &&(f64, f64)| {
                    through > *head && after > *tail && total as f64 > head + tail
                };
                samples.iter().filter(late).count()
            }
        };
        late as f64 / samples.len() as f64
    };
    order.iter().map(miss).collect()
}

/// A lower bound on `E[D]` for any order and choice, even if each GoP's capacity is known beforehand: the
/// linear relaxation averaged over the samples, with tiles left out where that is better.
pub(super) fn clairvoyant_bound(problem: &GopProblem) -> f64 {
    let knapsack = Knapsack::new(problem.tiles().iter().map(|tile| {
        let mut items: Vec<Item> = tile.choices.iter().map(|choice| Item::new(choice, tile.weight)).collect();
        items.push(Item { bytes: 0, value: tile.weight * tile.concealed_mse });
        items
    }));
    let samples = problem.capacity().samples();
    let bounds = knapsack.bounds(samples.iter().map(|(head, tail)| head + tail));
    bounds.sum::<f64>() / samples.len() as f64
}
