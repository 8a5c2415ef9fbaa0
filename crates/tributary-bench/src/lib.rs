//! Benchmarks: each prints the ratio with its peer, measured in the same run.
//!
//! A benchmark consists of a `Plan` with defaults, a function that runs it, and a report, which is data
//! (`Serialize`) and tables. Contestants take turns, so that load of the machine affects all of them, and
//! results are medians. No test depends on these times. Call [`tributary_emu::isolate`] first; the program
//! must have the hidden command `bench end` ([`end::run`]). The benchmarks of the emulator itself are in
//! [`tributary_emu::bench`].

pub mod churn;
pub mod coding;
mod controllers;
pub mod coupled;
mod daemon;
pub mod dash;
pub mod emulator;
pub mod end;
pub mod flood;
pub mod handoff;
pub mod hop;
pub mod idle;
pub mod memory;
pub mod objects;
mod process;
pub mod proxy;
mod ratio;
pub mod sessions;
pub mod simulator;
pub mod stalled;
pub mod tunnel;
pub mod unshaped;

pub use ratio::{Ratio, Wanted};

use core::time::Duration;
use serde::Serialize;
use thiserror::Error;
use tributary_emu::{Audit, Network, NetworkError, Verdict};
use tributary_lab::LabError;
use tributary_lab::process::ProcessError;
use tributary_link::Scenario;
use tributary_report::Cell;
use tributary_report::stats::{self, Interval};

/// Callback that gets the name of each step.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

/// Why a benchmark failed.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The network could not be started.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A cell of an experiment failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] tributary_link::ScenarioError),
    /// A measurement of the emulator failed.
    #[error(transparent)]
    Emulator(#[from] tributary_emu::bench::BenchError),
    /// A program of the benchmark could not be run.
    #[error("`{program}`: {reason}")]
    Program {
        /// Its name, with arguments.
        program: String,
        /// The reason.
        reason: String,
    },
    /// One end of a transfer failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The eBPF congestion controllers cannot be loaded.
    #[error(transparent)]
    Controllers(#[from] tributary_bpf::CcError),
    /// A simulated run failed.
    #[error("the simulator: {0}")]
    Simulation(String),
    /// A setting is out of range.
    #[error("`{name}` is {value}; it must be from {least} to {most}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: f64,
        /// Smallest allowed.
        least: f64,
        /// Largest allowed.
        most: f64,
    },
}

/// Checks one setting.
fn within(name: &'static str, value: f64, range: core::ops::RangeInclusive<f64>) -> Result<(), BenchError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(BenchError::OutOfRange { name, value, least: *range.start(), most: *range.end() })
}

/// Median of the samples; NaN if there are none.
fn median(samples: &[f64]) -> f64 {
    stats::median(samples).unwrap_or(f64::NAN)
}

/// Median of the ratios of each round, so that drift between rounds cancels.
fn paired_ratio(ours: &[f64], peers: &[f64]) -> f64 {
    let ratios: Vec<f64> = ours.iter().zip(peers).map(|(our, peer)| our / peer).collect();
    median(&ratios)
}

/// The 95 % interval of [`paired_ratio`], bootstrapped over the rounds; `None` with a single round.
fn paired_interval(ours: &[f64], peers: &[f64]) -> Option<Bounds> {
    let ratios: Vec<f64> = ours.iter().zip(peers).map(|(our, peer)| our / peer).collect();
    interval_of(&ratios, stats::median)
}

/// The bootstrapped 95 % interval of a statistic; `None` with fewer than two samples.
fn interval_of(samples: &[f64], statistic: impl Fn(&[f64]) -> Option<f64>) -> Option<Bounds> {
    /// Resamples, and their seed.
    const BOOTSTRAP: (u32, u64) = (2000, 1);
    let (rounds, seed) = BOOTSTRAP;
    stats::bootstrap_interval(samples, statistic, rounds, seed).map(Bounds::from)
}

/// The bootstrapped 95 % interval of a statistic of whole rounds, which is given the numbers of the drawn rounds.
fn interval_over_rounds(rounds: usize, statistic: impl Fn(&[usize]) -> f64) -> Option<Bounds> {
    let numbers: Vec<f64> = (0..rounds).map(|round| round as f64).collect();
    interval_of(&numbers, |drawn| {
        Some(statistic(&drawn.iter().map(|round| *round as usize).collect::<Vec<_>>()))
    })
}

/// An interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl From<Interval> for Bounds {
    fn from(interval: Interval) -> Self {
        Self { low: interval.low, high: interval.high }
    }
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} to {:.3}", self.low, self.high)
    }
}

/// The verdict on a bound, from the interval of the measured value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// The whole interval is on the good side.
    Holds,
    /// The whole interval is on the other side.
    Fails,
    /// The bound is inside the interval, or there is none.
    Undecided,
}

impl Judgement {
    fn at_least(least: f64, interval: Option<Bounds>) -> Self {
        match interval {
            Some(interval) if interval.low >= least => Self::Holds,
            Some(interval) if interval.high < least => Self::Fails,
            _ => Self::Undecided,
        }
    }

    fn at_most(most: f64, interval: Option<Bounds>) -> Self {
        match interval {
            Some(interval) if interval.high <= most => Self::Holds,
            Some(interval) if interval.low > most => Self::Fails,
            _ => Self::Undecided,
        }
    }

    fn inside(range: core::ops::RangeInclusive<f64>, interval: Option<Bounds>) -> Self {
        match (Self::at_least(*range.start(), interval), Self::at_most(*range.end(), interval)) {
            (Self::Holds, Self::Holds) => Self::Holds,
            (Self::Fails, _) | (_, Self::Fails) => Self::Fails,
            _ => Self::Undecided,
        }
    }

    fn cell(self) -> Cell {
        match self {
            Self::Holds => Cell::text("holds").good(),
            Self::Fails => Cell::text("fails").bad(),
            Self::Undecided => Cell::text("undecided"),
        }
    }
}

/// A ratio and whether it meets its aim.
fn judged(value: f64, decimals: usize, good: bool) -> Cell {
    let cell = Cell::number(value, decimals);
    if good { cell.good() } else { cell.bad() }
}

/// The verdict as a word, for output without colours.
fn verdict(good: bool) -> Cell {
    if good { Cell::text("met").good() } else { Cell::text("missed").bad() }
}

/// Runs `measure` in a new emulated network, and again while the emulator was not exact, up to three times. Returns the
/// last result with its audit.
fn in_network<T>(
    scenario: &Scenario,
    progress: Progress<'_>,
    mut measure: impl FnMut(&Network) -> Result<T, BenchError>,
) -> Result<(T, Audit), BenchError> {
    const ATTEMPTS: u32 = 3;
    let mut attempt = 1;
    loop {
        let network = Network::start(scenario)?;
        let result = measure(&network)?;
        let audit = network.audit()?;
        match audit.verdict() {
            Verdict::Invalid { reasons } if attempt < ATTEMPTS => {
                progress(&format!("once more, the emulator was not exact: {}", reasons.join("; ")));
                attempt += 1;
            }
            _ => return Ok((result, audit)),
        }
    }
}

/// A verdict of measurements in the emulator. If an audit is invalid there is no verdict; the cell names the figures
/// that are out of bounds, with their limits.
fn audited(audits: &[Audit], verdict: Cell) -> Cell {
    let invalid = |audit: &Audit| match audit.verdict() {
        Verdict::Valid => None,
        Verdict::Invalid { reasons } => Some(reasons.join("; ")),
    };
    audits
        .iter()
        .find_map(invalid)
        .map_or(verdict, |reasons| Cell::text(&format!("audit invalid: {reasons}")).bad())
}

/// Processor time of this process so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_of_the_machine_cancels_in_paired_ratios() {
        // The second round was twice as fast for both; the third has an outlier.
        assert_eq!(paired_ratio(&[10.0, 20.0, 3.0], &[8.0, 16.0, 8.0]), 1.25);
        assert!(paired_ratio(&[], &[]).is_nan());
    }

    #[test]
    fn the_verdict_comes_from_the_interval() {
        let judged_of = |low, high| Judgement::at_least(0.95, Some(Bounds { low, high }));
        assert_eq!(judged_of(0.95, 1.1), Judgement::Holds);
        assert_eq!(judged_of(0.8, 0.94), Judgement::Fails);
        assert_eq!(judged_of(0.8, 1.1), Judgement::Undecided);
        let most = |low, high| Judgement::at_most(1.2, Some(Bounds { low, high }));
        assert_eq!(most(0.8, 1.2), Judgement::Holds);
        assert_eq!(most(1.21, 1.5), Judgement::Fails);
        assert_eq!(most(1.1, 1.3), Judgement::Undecided);
        let inside = |low, high| Judgement::inside(1.6..=2.4, Some(Bounds { low, high }));
        assert_eq!(inside(1.7, 2.2), Judgement::Holds);
        assert_eq!(inside(1.2, 1.5), Judgement::Fails);
        assert_eq!(inside(2.5, 2.6), Judgement::Fails);
        assert_eq!(inside(1.5, 1.9), Judgement::Undecided);
        let interval = |ours: &[f64]| paired_interval(ours, &[1.0; 5]);
        assert_eq!(
            Judgement::at_least(0.95, interval(&[0.5])),
            Judgement::Undecided,
            "one round has no interval"
        );
        assert_eq!(Judgement::at_least(0.95, interval(&[1.0, 0.99, 1.01, 1.0, 0.98])), Judgement::Holds);
    }

    #[test]
    fn an_interval_over_rounds_draws_whole_rounds() {
        let rounds = [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]];
        let mean = |drawn: &[usize]| drawn.iter().map(|r| rounds[*r].iter().sum::<f64>()).sum::<f64>() / 6.0;
        assert_eq!(interval_over_rounds(3, mean), Some(Bounds { low: 1.5, high: 1.5 }));
        assert_eq!(interval_over_rounds(1, mean), None);
        let spread = interval_over_rounds(9, |drawn| drawn.iter().sum::<usize>() as f64 / 9.0).unwrap();
        assert!(spread.low < 3.5 && spread.high > 4.5, "{spread}");
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let error = within("rounds", 0.0, 1.0..=99.0).unwrap_err().to_string();
        assert_eq!(error, "`rounds` is 0; it must be from 1 to 99");
        assert!(within("rounds", 5.0, 1.0..=99.0).is_ok());
        assert!(within("seconds", f64::NAN, 1.0..=99.0).is_err());
    }
}
