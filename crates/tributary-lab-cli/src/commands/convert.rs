//! `tributary-lab convert`: traces and scenarios in the forms of other programs.

use anyhow::{Context, Result};
use clap::Args;
use core::time::Duration;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_cli::{output, quantity};
use tributary_lab::compare::Source;
use tributary_link::{Direction, Trace};

/// Write the paths of a network as Mahimahi or CSV traces, or traces as a scenario.
///
/// Reads what `compare` reads. Each path becomes NAME.down and NAME.up; Mahimahi plays them with
/// `mm-link NAME.up NAME.down`. Rates that are random get those of the scenario's seed. Delay and loss are in the scenario only.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab convert walk.toml --to mahimahi --out traces
  tributary-lab convert mobility --to csv --seconds 60
  tributary-lab convert Verizon-LTE.down Verizon-LTE.up cafe-wifi.csv --to scenario --out .")]
pub(crate) struct ConvertArguments {
    /// A scenario (its name, or a .toml file), or the traces of the paths
    #[arg(required = true, value_name = "TRACE_OR_SCENARIO")]
    pub(crate) network: Vec<String>,
    /// The form to write
    #[arg(long, value_enum)]
    to: Form,
    /// Length of the traces in seconds [default: the network's]
    #[arg(long, value_parser = quantity::seconds_in(1..=86_400))]
    seconds: Option<u32>,
    /// Directory for the files
    #[arg(long, default_value = ".")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// One line for each 1500 bytes: its millisecond
    Mahimahi,
    /// Seconds and Mbit/s
    Csv,
    /// A scenario file: network.toml
    Scenario,
}

pub(crate) fn run(arguments: &ConvertArguments) -> Result<ExitCode> {
    let source = Source::read(&arguments.network, None)?;
    output::directory(&arguments.out)?;
    if arguments.to == Form::Scenario {
        let text = source.text().context("a scenario file is one already; give traces, or another --to")?;
        eprintln!("written: {}", output::file(&arguments.out, source.name(), text)?.display());
        return Ok(ExitCode::SUCCESS);
    }
    let scenario = source.scenario();
    let length = arguments.seconds.map_or(scenario.duration, |seconds| Duration::from_secs(seconds.into()));
    for path in &scenario.paths {
        for (direction, ending) in [(Direction::Down, "down"), (Direction::Up, "up")] {
            let trace = Trace::generate(&path.link(direction).rate, scenario.seed, length)
                .with_context(|| format!("path {}: a trace lasts from 10 µs to a week", path.name))?;
            let (ending, text) = match arguments.to {
                Form::Csv => (format!("{ending}.csv"), trace.to_csv()),
                Form::Mahimahi | Form::Scenario => (ending.to_owned(), trace.to_mahimahi()),
            };
            let file = output::file(&arguments.out, &format!("{}.{ending}", path.name), &text)?;
            eprintln!("written: {}", file.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}
