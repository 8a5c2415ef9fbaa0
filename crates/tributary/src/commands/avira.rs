//! `tributary reproduce avira`.

use super::output::{self, Form, Progress, Report};
use crate::cli::WorldArgument;
use anyhow::Result;
use clap::Args;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_lab::reproduce::avira::{self, Settings};
use tributary_report::Table;

/// AVIRA's experiment in the simulator, and prioritised messages beside bulk while the radios change.
///
/// With --world emu the messages alone, on real sockets through the emulator.
///
/// A claim is an inequality: it holds or it does not. The exit code is 0 either way; see `holds`. The same
/// seeds give the same numbers on every machine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary reproduce avira --quick
  tributary reproduce avira --json
  tributary reproduce avira --world emu --networks mobility
  tributary reproduce avira --seeds 40 --out avira")]
pub(crate) struct AviraArguments {
    /// Where: models in virtual time, or kernel stacks in wall time
    #[arg(long, value_enum, default_value_t = WorldArgument::Sim)]
    pub(crate) world: WorldArgument,
    /// Five minutes instead of the paper's twenty, eight seconds of messages instead of twenty
    #[arg(long)]
    pub(crate) quick: bool,
    /// Seeds every run is made with [default: sim 20, emu 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=999))]
    pub(crate) seeds: Option<u32>,
    /// Networks of the messages on real sockets, separated by commas: mobility, blackout, onoff; emu only
    #[arg(long, value_delimiter = ',')]
    pub(crate) networks: Vec<String>,
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
    if arguments.world == WorldArgument::Emu {
        return emulated(arguments);
    }
    if !arguments.networks.is_empty() {
        anyhow::bail!("--networks is for real sockets: add --world emu, or leave it out");
    }
    let (seconds, message_seconds) = if arguments.quick { (300, 8) } else { (1200, 20) };
    let settings = Settings {
        seeds: arguments.seeds.unwrap_or(20),
        seconds,
        message_seconds,
        jobs: arguments.jobs,
        command: output::command_line(),
    };
    output::directory(&arguments.out)?;
    let mut progress = Progress::new();
    let outcome = avira::run(&settings, &mut |share, text| progress.at(share, text))?;
    progress.end();
    let mut text: Vec<String> = avira::tables(&outcome).iter().map(Table::to_text).collect();
    text.push(outcome.reproduction.table().to_text());
    let report = Report {
        name: "avira",
        json: serde_json::to_string(&outcome)?,
        markdown: avira::markdown(&outcome),
        html: Some(avira::render(&outcome)),
        text: text.join("\n"),
    };
    report.publish(&arguments.out, Form { json: arguments.json, markdown: arguments.markdown })?;
    Ok(ExitCode::SUCCESS)
}

fn emulated(arguments: &AviraArguments) -> Result<ExitCode> {
    let settings = avira::EmulatedSettings {
        seeds: arguments.seeds.unwrap_or(if arguments.quick { 1 } else { 3 }),
        seconds: if arguments.quick { 8 } else { 20 },
        networks: arguments.networks.clone(),
        command: output::command_line(),
    };
    tributary_emu::isolate()?;
    output::directory(&arguments.out)?;
    let mut progress = Progress::new();
    let outcome = avira::run_emulated(&settings, &mut |share, text| progress.at(share, text))?;
    progress.end();
    let (table, claims) = (avira::emulated_table(&outcome), outcome.reproduction.table());
    let report = Report {
        name: "avira-emulated",
        json: serde_json::to_string(&outcome)?,
        markdown: format!("{}\n{}", table.to_markdown(), claims.to_markdown()),
        html: None,
        text: format!("{}\n{}", table.to_text(), claims.to_text()),
    };
    report.publish(&arguments.out, Form { json: arguments.json, markdown: arguments.markdown })?;
    Ok(ExitCode::SUCCESS)
}
