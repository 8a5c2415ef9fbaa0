//! Benchmarks: each prints the ratio with its peer, measured in the same run.
//!
//! A benchmark consists of `Settings` with defaults, as the command line takes them, a function that runs it, and a report, which is data
//! (`Serialize`) and tables. Contestants take turns, so that load of the machine affects all of them, and
//! results are medians. No test depends on these times. Call [`tributary_emu::isolate`] first; the program
//! must have the hidden command `endpoint` ([`Endpoint`]). The benchmarks of the emulator itself are in
//! [`tributary_emu::bench`].

mod application;
mod churn;
mod coding;
mod command;
mod controllers;
mod coupled;
mod daemon;
mod dash;
mod emulator;
mod end;
mod flood;
mod handoff;
mod hop;
mod idle;
mod memory;
mod objects;
mod process;
mod procfs;
mod proxy;
mod record;
mod sessions;
mod simulator;
mod stalled;
mod tunnel;
mod unshaped;

pub use command::{Benchmark, Endpoint, Measured};
pub use simulator::Stacks;

use core::time::Duration;
use serde::Serialize;
use thiserror::Error;
use tributary_emu::{Audit, Network, NetworkError};
use tributary_lab::LabError;
use tributary_lab::process::ProcessError;
use tributary_link::Scenario;
use tributary_report::{
    Expectation, Interval, Judged, Table, TableCell, Verdict, bootstrap, bootstrap_rounds, bounds, stats,
};

/// What a benchmark reports.
trait Tables {
    fn tables(&self) -> Vec<Table>;
}

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
    /// The program cannot be isolated.
    #[error(transparent)]
    Isolation(#[from] tributary_emu::IsolateError),
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
}

/// The failure of a program, or of a part of the benchmark.
fn failed(program: &str, reason: impl ToString) -> BenchError {
    BenchError::Program { program: program.to_owned(), reason: reason.to_string() }
}

/// A value with its bound.
#[derive(Clone, Debug, Serialize)]
struct Aim {
    /// What is judged.
    what: String,
    value: Judged,
}

/// The version of a program, such as `nginx 1.22.1`; a missing one is named with the option of scripts/setup that installs it.
fn version(program: &str, setup: &str) -> Result<String, BenchError> {
    let absent = |error: std::io::Error| failed(program, format!("{error}; run: scripts/setup {setup}"));
    let said = std::process::Command::new(program).arg("-v").output().map_err(absent)?;
    let text = [said.stdout, said.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let number = text.split([' ', '/', '\n']).find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    Ok(format!("{program} {}", number.unwrap_or("of unknown version")))
}

/// The settings that a command line without options gives.
#[cfg(test)]
fn defaults<S: clap::Args>() -> S {
    let given = S::augment_args(clap::Command::new("bench")).get_matches_from(["bench"]);
    S::from_arg_matches(&given).expect("every setting has a default")
}

/// Median of the samples; NaN if there are none.
fn median(samples: &[f64]) -> f64 {
    stats::median(samples).unwrap_or(f64::NAN)
}

/// Median over items; NaN if there are none.
fn middle<T>(items: &[T], of: impl Fn(&T) -> f64) -> f64 {
    median(&items.iter().map(of).collect::<Vec<_>>())
}

/// Median of the ratios of each round, so that drift between rounds cancels.
fn paired_ratio(ours: &[f64], peers: &[f64]) -> f64 {
    let ratios: Vec<f64> = ours.iter().zip(peers).map(|(our, peer)| our / peer).collect();
    median(&ratios)
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
            tributary_emu::Verdict::Invalid { reasons } if attempt < ATTEMPTS => {
                progress(&format!("once more, the emulator was not exact: {}", reasons.join("; ")));
                attempt += 1;
            }
            _ => return Ok((result, audit)),
        }
    }
}

/// Cells of a value that was measured in the emulator. If an audit is invalid there is no verdict; the cell names the
/// figures that are out of bounds, with their limits.
fn audited(audits: &[Audit], judged: &Judged, decimals: usize) -> [TableCell; 4] {
    let invalid = |audit: &Audit| match audit.verdict() {
        tributary_emu::Verdict::Valid => None,
        tributary_emu::Verdict::Invalid { reasons } => Some(reasons.join("; ")),
    };
    let [value, interval, wanted, verdict] = judged.cells(decimals);
    let reasons = audits.iter().find_map(invalid);
    let verdict =
        reasons.map_or(verdict, |reasons| TableCell::text(&format!("audit invalid: {reasons}")).bad());
    [value, interval, wanted, verdict]
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
    fn a_missing_program_is_named_with_the_command_that_installs_it() {
        let error = version("no-such-program-of-the-benchmark", "--haproxy").unwrap_err().to_string();
        assert!(error.contains("no-such-program") && error.contains("scripts/setup --haproxy"), "{error}");
    }

    #[test]
    fn a_drift_of_the_machine_cancels_in_paired_ratios() {
        // The second round was twice as fast for both; the third has an outlier.
        assert_eq!(paired_ratio(&[10.0, 20.0, 3.0], &[8.0, 16.0, 8.0]), 1.25);
        assert!(paired_ratio(&[], &[]).is_nan());
    }
}
