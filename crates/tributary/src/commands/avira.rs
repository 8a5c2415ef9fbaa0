//! `tributary reproduce avira`.

use super::output::{self, Progress};
use anyhow::Result;
use clap::Args;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_lab::reproduce::avira::{self, Settings};

/// AVIRA's experiment in the simulator, and prioritised messages beside bulk while the radios change.
///
/// A claim is an inequality: it holds or it does not. The exit code is 0 either way; see `holds`. The same
/// seeds give the same numbers on every machine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary reproduce avira --quick
  tributary reproduce avira --json
  tributary reproduce avira --seeds 40 --out avira")]
pub(crate) struct AviraArguments {
    /// Five minutes instead of the paper's twenty, four seconds of messages instead of twenty
    #[arg(long)]
    pub(crate) quick: bool,
    /// Seeds every run is made with
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=999))]
    pub(crate) seeds: u32,
    /// Runs at once [default: one a core]
    #[arg(long)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Directory for avira.html, avira.json and avira.md
    #[arg(long, default_value = "tributary-reproduction")]
    pub(crate) out: PathBuf,
    /// Print the outcome as one JSON object
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Print the tables as Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
}

pub(crate) fn run(arguments: &AviraArguments) -> Result<ExitCode> {
    let (seconds, message_seconds) = if arguments.quick { (300, 4) } else { (1200, 20) };
    let settings = Settings {
        seeds: arguments.seeds,
        seconds,
        message_seconds,
        jobs: arguments.jobs,
        command: output::command_line(),
    };
    output::directory(&arguments.out)?;
    let mut progress = Progress::new();
    let outcome = avira::run(&settings, &mut |share, text| progress.at(share, text))?;
    progress.end();
    let (json, markdown) = (serde_json::to_string(&outcome)?, avira::markdown(&outcome));
    output::file(&arguments.out, "avira.json", &json)?;
    output::file(&arguments.out, "avira.md", &markdown)?;
    let page = output::file(&arguments.out, "avira.html", &avira::render(&outcome))?;
    if arguments.json {
        output::line(&json)?;
    } else if arguments.markdown {
        output::line(&markdown)?;
    } else {
        for table in avira::tables(&outcome) {
            output::line(&table.to_text())?;
        }
        output::line(&outcome.reproduction.table().to_text())?;
    }
    eprintln!("report: {}", page.display());
    Ok(ExitCode::SUCCESS)
}
