//! Contests: several ways to do like work, run in turn, round after round; medians and their ratios.
//! Taking turns makes them see the same clock rate and the same neighbours on the machine.

use std::time::{Duration, Instant};

/// One way to do the work. Each call works on the data set of its number and returns the bytes done.
pub struct Entrant<'a> {
    name: String,
    run: Box<dyn FnMut(usize) -> usize + 'a>,
}

impl<'a> Entrant<'a> {
    /// Work that is called `name`.
    pub fn new(name: impl Into<String>, run: impl FnMut(usize) -> usize + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

const ROUNDS: usize = 21;
const TURN: Duration = Duration::from_millis(8);

/// Runs the contest, prints a line per entrant, and returns the median rates in GB/s.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub fn contest(title: &str, mut entrants: Vec<Entrant<'_>>) -> Vec<f64> {
    let mut rates = vec![Vec::with_capacity(ROUNDS); entrants.len()];
    for round in 0..=ROUNDS {
        for (entrant, rates) in entrants.iter_mut().zip(&mut rates) {
            let (begin, mut bytes, mut number) = (Instant::now(), 0, 0);
            while begin.elapsed() < TURN {
                bytes += (entrant.run)(number);
                number += 1;
            }
            // The first round warms caches and clocks.
            if round > 0 {
                rates.push(bytes as f64 / begin.elapsed().as_secs_f64() / 1e9);
            }
        }
    }
    let medians: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
    println!("\n{title}");
    for (entrant, rate) in entrants.iter().zip(&medians) {
        println!(
            "  {:<28} {rate:>8.2} GB/s   {:>6.3} × {}",
            entrant.name,
            rate / medians[0],
            entrants[0].name
        );
    }
    medians
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    rates[rates.len() / 2]
}
