//! `tributary-lab sweep`: a grid of simulated runs from a plan.

use super::page::PageArguments;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_cli::{Progress, output};
use tributary_lab::sweep::execute::Effort;
use tributary_lab::sweep::tables::{self, Tables};
use tributary_lab::sweep::{Plan, Row, Seeds, Shard, Store, execute, shootout};

/// Run a grid of simulated runs: scenarios × transports × schedulers × congestion controls × … × seeds.
///
/// Runs on all cores. Finished runs are kept in DIR/cells*.jsonl. A sweep that was stopped continues from
/// them, and shards of a plan can run on several machines (copy their files into one directory,
/// or name their directories with --merge). Writes runs.csv and runs.parquet, one row per run, and
/// sweep.csv and sweep.parquet, one row per metric and group of seeds with 95 % confidence intervals.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab sweep plan.toml --out results
  tributary-lab sweep plan.toml --shard 1/4 --out results
  tributary-lab sweep plan.toml --out results --merge machine-2 machine-3
  tributary-lab sweep scenarios/plans/shoot-out.toml --held-back --shoot-out --out shoot-out

A plan:
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
    /// Plan: a .toml file
    pub(crate) plan: PathBuf,
    /// Part i of n of the plan
    #[arg(long, value_name = "i/n", default_value = "1/1")]
    pub(crate) shard: Shard,
    /// Directory for finished runs and tables
    #[arg(long, default_value = "tributary-sweep")]
    pub(crate) out: PathBuf,
    /// Use the held-back seeds instead of the working ones
    #[arg(long)]
    pub(crate) held_back: bool,
    /// Directories with finished runs to reuse
    #[arg(long, value_name = "DIR", num_args = 1..)]
    pub(crate) merge: Vec<PathBuf>,
    /// Number of runs at the same time [default: one per core]
    #[arg(long)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Refuse a plan with more runs than this [default: the plan's own limit]
    #[arg(long)]
    pub(crate) limit: Option<u64>,
    /// Also write a report that compares transports in every condition: shoot-out.html and .md
    #[arg(long)]
    pub(crate) shoot_out: bool,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) documentation: PageArguments,
}

pub(crate) fn run(arguments: &SweepArguments) -> Result<ExitCode> {
    let mut plan = Plan::load(&arguments.plan)?;
    plan.limit = arguments.limit.unwrap_or(plan.limit);
    let seeds = if arguments.held_back { Seeds::HeldBack } else { Seeds::Working };
    let cells = plan.cells(seeds)?;
    let beside = arguments.documentation.open()?;
    if beside.is_some() && !arguments.shoot_out {
        bail!("--page takes the tables of --shoot-out; add --shoot-out");
    }
    output::directory(&arguments.out)?;
    let mut store = Store::open(&arguments.out, arguments.shard)?;
    arguments.merge.iter().try_for_each(|directory| store.add(directory))?;
    let mut progress = Progress::new();
    let effort = Effort { jobs: arguments.jobs, limit: None, shard: arguments.shard };
    let report = execute((&cells, |cell| &cell.key), Row::of, &mut store, effort, &mut |share, text| {
        progress.at(share, text)
    })?;
    progress.end();
    let tables = Tables::new(&plan, &cells, &store, report);
    for (name, bytes) in tables.files()? {
        let path = arguments.out.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if arguments.shoot_out {
        let page = shootout::Page::new(&plan, &tables.rows, &output::command_line());
        let markdown = page.markdown();
        output::file(&arguments.out, "shoot-out.md", &markdown)?;
        if let Some(beside) = &beside {
            beside.write("Shoot-out", &markdown)?;
        }
        let html = output::file(&arguments.out, "shoot-out.html", &page.html())?;
        eprintln!("report: {}", html.display());
    }
    if arguments.json {
        output::line(&tables.json()?)?;
    } else {
        output::line(&tables::text(&tables))?;
    }
    Ok(if report.failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
