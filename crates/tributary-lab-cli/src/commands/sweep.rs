//! `tributary-lab sweep`: the runs of a file's matrices, or a part of them, without verdicts.

use super::page::PageArguments;
use super::paper::experiments;
use crate::cli::WorldArgument;
use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_cli::{Progress, output};
use tributary_lab::World;
use tributary_lab::reproduce::{Paper, Selection, Settings, measure};
use tributary_lab::store::Shard;
use tributary_lab::sweep::{cost, shootout, tables};

/// Run a grid: scenarios × transports × schedulers × congestion controls × … × seeds.
///
/// Simulated runs use all cores. Finished runs are kept in DIR. A sweep that was stopped continues from
/// them, and shards can run on several machines: --merge takes their directories, also of `reproduce` with the same
/// plan. Writes runs.csv and runs.parquet, one row per run, and
/// sweep.csv and sweep.parquet, one row per metric and group of seeds with 95 % confidence intervals.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab sweep plan.toml --out results
  tributary-lab sweep plan.toml --shard 1/4 --out results
  tributary-lab sweep plan.toml --out results --merge machine-2 machine-3
  tributary-lab sweep fbdt --shard 3/8 --out part-3
  tributary-lab sweep plan.toml --cost --hours 2                         # what it will cost
  tributary-lab sweep scenarios/plans/shoot-out.toml --held-back --shoot-out --out shoot-out

A plan, which has the form of a paper:
  name = \"mine\"
  world = \"sim\"

  [[matrix]]
  world = \"sim\"
  scenarios = [\"mobility\", \"my-network.toml\"]   # names, or files beside the plan
  transports = [\"wifi\", \"mptcp\", \"fbdt\"]
  schedulers = [\"linux-default\", \"blest\"]       # of mptcp and session; others run once
  congestion = [\"cubic\", \"bbr\"]
  rtt = [\"scenario\", \"20 ms\"]
  queue = [\"scenario\", \"300 kB\", \"20 ms\"]
  seeds = [\"1-20\"]
  held-back = [\"1001-1020\"]
  seconds = 20")]
pub(crate) struct SweepArguments {
    /// Plan: a .toml file, or the name of a paper
    pub(crate) plan: String,
    /// World to run in: emu (kernel stacks, wall time) or sim (models, virtual time) [default: the plan's]
    #[arg(long, value_enum)]
    pub(crate) world: Option<WorldArgument>,
    /// The plan's quick matrices
    #[arg(long)]
    pub(crate) quick: bool,
    /// Part i of n of the plan
    #[arg(long, value_name = "i/n", default_value = "1/1")]
    pub(crate) shard: Shard,
    /// Directory for finished runs and tables
    #[arg(long, default_value = "tributary-sweep")]
    pub(crate) out: PathBuf,
    /// Use the held-back seeds instead of the others
    #[arg(long)]
    pub(crate) held_back: bool,
    /// Directories with finished runs to reuse
    #[arg(long, value_name = "DIR", num_args = 1..)]
    pub(crate) merge: Vec<PathBuf>,
    /// Number of runs at the same time [default: one per core]
    #[arg(long)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Refuse a plan with more runs than this [default: 100000]
    #[arg(long)]
    pub(crate) limit: Option<u64>,
    /// Also write a report that compares transports in every condition: shoot-out.html and .md
    #[arg(long)]
    pub(crate) shoot_out: bool,
    /// Make no sweep: measure RUNS of its runs, one at a time, and print what all cost; simulator only
    #[arg(long, value_name = "RUNS", num_args = 0..=1, default_missing_value = "20", conflicts_with_all = ["shoot_out", "page", "part", "merge"])]
    pub(crate) cost: Option<NonZeroUsize>,
    /// Longest shard in hours of one core, for --cost [default: 1]
    #[arg(long, requires = "cost", value_parser = hours)]
    pub(crate) hours: Option<f64>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) documentation: PageArguments,
}

fn hours(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hours) if (0.001..=8760.0).contains(&hours) => Ok(hours),
        _ => Err("a number of hours from 0.001 to 8760".to_owned()),
    }
}

/// What a plan costs, without making it.
fn cost(
    arguments: &SweepArguments,
    paper: &Paper,
    (selection, count): (&Selection, NonZeroUsize),
) -> Result<ExitCode> {
    if selection.world == World::Emu {
        bail!(
            "--cost measures simulated runs; an emulated run takes its seconds and one more: add --world sim"
        );
    }
    let mut progress = Progress::new();
    let measured = cost::measure(paper, &experiments(), (selection, count), &mut |share, text| {
        progress.at(share, text);
    })?;
    progress.end();
    let hours = arguments.hours.unwrap_or(1.0);
    match arguments.json {
        true => {
            let shards = measured.shards(hours);
            let all = json!({ "cost": measured, "core_hours": measured.hours(), "shards": shards });
            output::line(&all.to_string())?;
        }
        false => output::line(&measured.text(&arguments.plan, hours))?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run(arguments: &SweepArguments) -> Result<ExitCode> {
    let paper = Paper::find(&arguments.plan)?;
    let selection = Selection {
        world: arguments.world.map_or(paper.world, World::from),
        quick: arguments.quick,
        held_back: arguments.held_back,
        limit: arguments.limit,
        ..Selection::default()
    };
    if let Some(count) = arguments.cost {
        return cost(arguments, &paper, (&selection, count));
    }
    if selection.world == World::Emu {
        tributary_emu::isolate()?;
    }
    let beside = arguments.documentation.open()?;
    if beside.is_some() && !arguments.shoot_out {
        bail!("--page takes the tables of --shoot-out; add --shoot-out");
    }
    output::directory(&arguments.out)?;
    let mut progress = Progress::new();
    let settings = Settings {
        selection,
        directory: arguments.out.clone(),
        shard: arguments.shard,
        merge: arguments.merge.clone(),
        resume: true,
        jobs: arguments.jobs,
        command: output::command_line(),
        ..Settings::default()
    };
    let outcome = measure(&paper, &experiments(), &settings, &mut |share, text| progress.at(share, text))?;
    progress.end();
    tables::write(&outcome, &arguments.out)?;
    if arguments.shoot_out {
        let page = shootout::Page::new(&outcome, arguments.held_back);
        let markdown = page.markdown();
        output::file(&arguments.out, "shoot-out.md", &markdown)?;
        if let Some(beside) = &beside {
            beside.write("Shoot-out", &markdown)?;
        }
        let html = output::file(&arguments.out, "shoot-out.html", &page.html())?;
        eprintln!("report: {}", html.display());
    }
    match arguments.json {
        true => output::line(&serde_json::to_string(&tables::json(&outcome))?)?,
        false => output::line(&tables::text(&outcome))?,
    }
    Ok(if outcome.tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
