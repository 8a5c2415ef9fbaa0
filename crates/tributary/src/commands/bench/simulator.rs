//! `tributary bench simulator`: arguments of the comparisons with ns-3.

use super::{print, to_json};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use core::time::Duration;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_lab::bench::simulator::{self, ns3, speed};

/// The simulator beside ns-3, both in one run.
#[derive(Debug, Subcommand)]
pub(crate) enum Simulator {
    Ns3(Ns3Arguments),
    Speed(SpeedArguments),
    /// One cell in a process of its own; started by the benchmark itself.
    #[command(hide = true)]
    Cell {
        /// The cell, in JSON
        cell: String,
    },
}

/// Goodput and completion times on the same bottlenecks: rates, round trips, queues, losses.
#[derive(Debug, Args)]
pub(crate) struct Ns3Arguments {
    /// Every rate with every round trip and queue; ns-3 takes hours
    #[arg(long)]
    full: bool,
    /// Congestion controls, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = ns3::Plan::default().congestions)]
    congestion: Vec<String>,
    /// Seeds of each cell with random loss
    #[arg(long, default_value_t = ns3::Plan::default().seeds, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Seconds after which ns-3 is given up in a cell
    #[arg(long, default_value_t = ns3::Plan::default().patience.as_secs(), value_parser = clap::value_parser!(u64).range(1..=86_400))]
    patience: u64,
    /// Folder of the ns-3 driver
    #[arg(long, default_value = simulator::DRIVER)]
    driver: PathBuf,
    /// Also write the tables to this file, in Markdown
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Data packets in a second of one core's time, and memory per flow.
#[derive(Debug, Args)]
pub(crate) struct SpeedArguments {
    /// Rounds; in each both have their turn
    #[arg(long, default_value_t = speed::Plan::default().rounds)]
    rounds: u32,
    /// The core that both run on
    #[arg(long, default_value_t = speed::Plan::default().core)]
    core: usize,
    /// Seconds after which ns-3 is given up in a cell
    #[arg(long, default_value_t = speed::Plan::default().patience.as_secs(), value_parser = clap::value_parser!(u64).range(1..=86_400))]
    patience: u64,
    /// Folder of the ns-3 driver
    #[arg(long, default_value = simulator::DRIVER)]
    driver: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: &Simulator, progress: &mut dyn FnMut(&str)) -> Result<ExitCode> {
    match command {
        Simulator::Ns3(a) => {
            let plan = ns3::Plan {
                full: a.full,
                congestions: a.congestion.clone(),
                seeds: a.seeds,
                patience: Duration::from_secs(a.patience),
                driver: a.driver.clone(),
            };
            let report = ns3::run(&plan, progress)?;
            if let Some(file) = &a.markdown {
                std::fs::write(file, report.to_markdown())
                    .with_context(|| format!("{}: cannot be written", file.display()))?;
            }
            print(&report.tables(), to_json(a.json, &report)?);
        }
        Simulator::Speed(a) => {
            let patience = Duration::from_secs(a.patience);
            let plan = speed::Plan { rounds: a.rounds, core: a.core, patience, driver: a.driver.clone() };
            let report = speed::run(&plan, progress)?;
            print(&report.tables(), to_json(a.json, &report)?);
        }
        Simulator::Cell { cell } => {
            let cell = serde_json::from_str(cell).context("the cell is not one")?;
            println!("{}", serde_json::to_string(&simulator::run_here(&cell)?)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}
