//! `tributary-lab reproduce`: one command for every paper and both worlds.

use super::measure;
use super::page::PageArguments;
use super::paper;
use super::report::Form;
use crate::cli::{QueueArguments, WorldArgument};
use anyhow::Result;
use clap::{Args, Subcommand};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_cli::{output, quantity};
use tributary_lab::Queue;
use tributary_lab::World;
use tributary_lab::reproduce::{Paper, Selection, Settings};
use tributary_lab::store::Shard;

/// Repeat a paper's experiments and judge its claims.
///
/// PAPER is `fbdt`, `fbdt-ablation`, `fbdt-published`, `avira`, `cotag`, `decision-engine`, `handoff`, `simulator-linux`, `simulator-ns3`, `ows`, `all`, or a .toml file with cells and
/// claims. A claim holds or fails when its whole interval is on one side of the bound, else it is undecided. The exit code is
/// 0 in each case, and 1 when runs gave no result. Finished simulated runs are kept in the report's
/// directory, and a reproduction that was stopped continues from them.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  tributary-lab reproduce fbdt --quick
  tributary-lab reproduce fbdt --world sim --quick
  tributary-lab reproduce fbdt --world emu --scale 1 --quick
  tributary-lab reproduce fbdt --congestion cubic,bbr --seeds 3 --rtt 20 --queue-ms 20
  tributary-lab reproduce avira --world sim --seeds 40 --out avira
  tributary-lab reproduce avira --world emu --scenarios mobility --json
  tributary-lab reproduce cotag --quick
  tributary-lab reproduce decision-engine --quick
  tributary-lab reproduce decision-engine --world emu --quick
  tributary-lab reproduce handoff --quick --congestion olia,cubic
  tributary-lab reproduce my-paper.toml --world sim --markdown
  tributary-lab reproduce fbdt --world sim --page docs/reproductions/fbdt-simulator.md
  tributary-lab reproduce ows --quick
  tributary-lab reproduce all --quick")]
pub(crate) struct ReproduceArguments {
    /// Name of a paper, or a .toml file
    #[arg(required = true)]
    pub(crate) paper: Option<String>,
    /// World to run in: emu (kernel stacks, wall time) or sim (models, virtual time) [default: the paper's]
    #[arg(long, value_enum)]
    world: Option<WorldArgument>,
    /// The paper's quick matrices: within ten minutes
    #[arg(long)]
    quick: bool,
    /// These scenarios only, separated by commas
    #[arg(long, alias = "conditions", alias = "networks", value_delimiter = ',')]
    scenarios: Vec<String>,
    /// These transports instead of the paper's; those that claims refer to are always run
    #[arg(long, value_delimiter = ',')]
    transports: Vec<String>,
    /// These congestion controls instead of the paper's, separated by commas
    #[arg(long, value_delimiter = ',')]
    congestion: Vec<String>,
    /// Seeds of every cell
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=999))]
    seeds: Option<u32>,
    /// Seconds of every run
    #[arg(long, value_parser = quantity::seconds_in(2..=86_400))]
    seconds: Option<u32>,
    /// Base RTT of every path in milliseconds
    #[arg(long, value_parser = quantity::millis)]
    rtt: Option<u64>,
    /// Rates of the links as a multiple of the paper's: 1 are its own [default: the file's, for FBDT 0.1 in the emulator]
    #[arg(long)]
    scale: Option<f64>,
    #[command(flatten)]
    queue: QueueArguments,
    /// Also reuse finished emulated runs from the report's directory
    #[arg(long)]
    resume: bool,
    /// Directories with finished runs to reuse, such as those of the shards of a sweep of this paper
    #[arg(long, value_name = "DIR", num_args = 1..)]
    merge: Vec<PathBuf>,
    /// Simulated runs at the same time [default: one per core]
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Directory for the report (PAPER-WORLD.html, .json and .md)
    #[arg(long, default_value = "tributary-reproduction")]
    out: PathBuf,
    /// Print the tables as Markdown, as the documentation has them
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print the outcome as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    documentation: PageArguments,
    #[command(subcommand)]
    others: Option<Others>,
}

/// Every paper, and those whose experiments need the user's files.
#[derive(Debug, Subcommand)]
enum Others {
    Ows(super::ows::OwsArguments),
    All(super::all::AllArguments),
}

pub(crate) fn run(arguments: &ReproduceArguments) -> Result<ExitCode> {
    match &arguments.others {
        Some(Others::Ows(arguments)) => return super::ows::run(arguments),
        Some(Others::All(arguments)) => return super::all::run(arguments),
        None => {}
    }
    let mut paper = Paper::find(arguments.paper.as_deref().unwrap_or_default())?;
    let settings = settings(arguments, &paper);
    if let Some(scale) = arguments.scale {
        paper.set_scale(settings.selection.world, scale)?;
    }
    if settings.selection.world == World::Emu {
        tributary_emu::isolate()?;
    }
    let beside = arguments.documentation.open()?;
    output::directory(&arguments.out)?;
    let (outcome, report) = paper::measured(&paper, &settings)?;
    let form = Form { json: arguments.json, markdown: arguments.markdown };
    paper::publish(&outcome, &report, (&arguments.out, form), beside.as_ref())
}

fn settings(arguments: &ReproduceArguments, paper: &Paper) -> Settings {
    let queue = match measure::queue(&arguments.queue) {
        Queue::Scenario => None,
        Queue::Bytes(bytes) if bytes % 1000 == 0 => Some(format!("{} kB", bytes / 1000)),
        Queue::Bytes(bytes) => Some(format!("{bytes} B")),
        Queue::Millis(millis) => Some(format!("{millis} ms")),
    };
    let selection = Selection {
        world: arguments.world.map_or(paper.world, World::from),
        quick: arguments.quick,
        scenarios: arguments.scenarios.clone(),
        transports: arguments.transports.clone(),
        congestion: arguments.congestion.clone(),
        rtt: arguments.rtt.map(|ms| format!("{ms} ms")),
        queue,
        seeds: arguments.seeds,
        seconds: arguments.seconds,
        ..Selection::default()
    };
    Settings {
        selection,
        directory: arguments.out.clone(),
        merge: arguments.merge.clone(),
        shard: Shard::WHOLE,
        resume: arguments.resume,
        jobs: arguments.jobs,
        command: output::command_line(),
        ..Settings::default()
    }
}
