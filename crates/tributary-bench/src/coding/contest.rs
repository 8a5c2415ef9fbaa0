//! Contests: several implementations of the same work, run alternately, round after round; medians and their
//! ratios. Alternating gives all the same clock rate and the same load of the machine.

use crate::{Expectation, Judged, median};
use serde::Serialize;
use std::time::{Duration, Instant};

/// One implementation. Each call works on the data set with its number and returns the bytes processed.
pub(super) struct Entrant<'a> {
    name: String,
    run: Box<dyn FnMut(usize) -> usize + 'a>,
}

impl<'a> Entrant<'a> {
    /// An implementation with a name.
    pub(super) fn new(name: impl Into<String>, run: impl FnMut(usize) -> usize + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// Time of one entrant in one round.
const TURN: Duration = Duration::from_millis(8);

/// The speed of one implementation.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    pub name: String,
    /// Median over the rounds, GB/s.
    pub gb_per_s: f64,
    #[serde(skip)]
    rounds: Vec<f64>,
}

/// A ratio that has to be reached.
#[derive(Clone, Debug, Serialize)]
pub struct Aim {
    /// The two that are compared.
    pub what: String,
    /// Their rates, with interval and verdict.
    pub ratio: Judged,
}

/// The result of a contest.
#[derive(Clone, Debug, Serialize)]
pub struct Contest {
    /// The work, and the unit.
    pub title: String,
    /// The speeds; the first is the reference of the others.
    pub rates: Vec<Rate>,
    /// The ratios that have to be reached on this processor.
    pub aims: Vec<Aim>,
}

impl Contest {
    /// Runs the contest.
    pub(super) fn hold(title: &str, rounds: u32, mut entrants: Vec<Entrant<'_>>) -> Self {
        let rate =
            |entrant: &Entrant<'_>| Rate { name: entrant.name.clone(), gb_per_s: 0.0, rounds: Vec::new() };
        let mut rates: Vec<Rate> = entrants.iter().map(rate).collect();
        for round in 0..=rounds {
            for (entrant, rate) in entrants.iter_mut().zip(&mut rates) {
                let (begin, mut bytes, mut number) = (Instant::now(), 0, 0);
                while begin.elapsed() < TURN {
                    bytes += (entrant.run)(number);
                    number += 1;
                }
                // The first round warms up caches and clocks.
                if round > 0 {
                    rate.rounds.push(bytes as f64 / begin.elapsed().as_secs_f64() / 1e9);
                }
            }
        }
        rates.iter_mut().for_each(|rate| rate.gb_per_s = median(&rate.rounds));
        Self { title: title.to_owned(), rates, aims: Vec::new() }
    }

    fn rate(&self, name: &str) -> Option<&Rate> {
        self.rates.iter().find(|rate| rate.name == name)
    }

    /// Adds a ratio that has to be at least `least`, if both implementations took part and this processor has the aim.
    pub(super) fn aim(&mut self, ours: &str, peer: &str, least: Option<f64>) {
        let (Some(own), Some(other), Some(least)) = (self.rate(ours), self.rate(peer), least) else { return };
        let ratio = Judged::ratio(&own.rounds, &other.rounds, Expectation::AtLeast(least));
        self.aims.push(Aim { what: format!("{ours} / {peer}"), ratio });
    }

    /// The fastest of some implementations.
    pub(super) fn fastest<'a>(&self, names: &[&'a str]) -> Option<&'a str> {
        let rate = |name: &&&str| self.rate(name).map_or(0.0, |rate| rate.gb_per_s);
        names
            .iter()
            .filter(|name| self.rate(name).is_some())
            .max_by(|a, b| rate(a).total_cmp(&rate(b)))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    fn contest(rates: [(&str, [f64; 3]); 2]) -> Contest {
        let rate = |(name, rounds): (&str, [f64; 3])| Rate {
            name: name.to_owned(),
            gb_per_s: median(&rounds),
            rounds: rounds.to_vec(),
        };
        Contest { title: String::new(), rates: rates.map(rate).to_vec(), aims: Vec::new() }
    }

    #[test]
    fn a_comparison_is_the_median_of_the_rounds_ratios() {
        let mut contest = contest([("ours", [4.0, 8.0, 3.0]), ("peer", [2.0, 4.0, 3.5])]);
        contest.aim("ours", "peer", Some(2.0));
        contest.aim("ours", "absent", Some(2.0));
        contest.aim("peer", "ours", None);
        assert_eq!(contest.aims.len(), 1, "the others have no peer or no aim");
        assert_eq!(contest.aims[0].ratio.value, 2.0);
        assert_eq!(contest.aims[0].ratio.verdict, Verdict::Undecided, "one round is far below");
        assert_eq!(contest.fastest(&["ours", "peer", "absent"]), Some("ours"));
    }

    #[test]
    fn every_entrant_has_its_turn_in_every_round() {
        let contest = Contest::hold("t", 2, vec![Entrant::new("a", |_| 1), Entrant::new("b", |_| 1)]);
        assert!(contest.rates.iter().all(|rate| rate.rounds.len() == 2 && rate.gb_per_s > 0.0));
    }
}
