//! `tributary-lab bench simulator`: arguments of the comparisons with Linux and ns-3.

use super::Measured;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use core::time::Duration;
use std::path::PathBuf;
use tributary_bench::simulator::{self, linux, ns3, speed};
use tributary_cli::{output, quantity};

/// The simulator beside Linux and ns-3.
#[derive(Debug, Subcommand)]
pub(crate) enum Simulator {
    Linux(LinuxArguments),
    Ns3(Ns3Arguments),
    Speed(SpeedArguments),
    /// One cell in a separate process; started by the benchmark itself.
    #[command(hide = true)]
    Cell {
        /// The cell, in JSON
        cell: String,
    },
}

/// Goodput of the kernel's stacks in the emulator and of the simulator's models, on the same scenarios.
///
/// Needs no ns-3. About ten minutes; the whole grid takes one and a half hours.
#[derive(Debug, Args)]
pub(crate) struct LinuxArguments {
    /// A small selection of cells (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Every combination of rate, round trip, queue and loss; every scheduler in every condition
    #[arg(long)]
    full: bool,
    /// Groups of cells, separated by commas; `ebpf` loads the eBPF controllers for the run
    #[arg(long, value_delimiter = ',', default_values = linux::Group::USUAL.map(linux::Group::name), value_parser = linux::Group::ALL.map(linux::Group::name))]
    groups: Vec<String>,
    /// Constant rates up to this one, in Mbit/s
    #[arg(long, default_value_t = linux::Plan::default().fastest_mbps)]
    fastest: u64,
    /// Runs in the kernel of each cell with random loss, with --full
    #[arg(long, default_value_t = linux::Plan::default().seeds, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Keep the kernel's results in this file, and reuse those that it already has
    #[arg(long)]
    kernel: Option<PathBuf>,
    /// Write report, tables and figures into this directory
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Goodput and completion times on the same bottlenecks: rates, round trips, queues, losses.
#[derive(Debug, Args)]
pub(crate) struct Ns3Arguments {
    /// Every combination of rate, round trip and queue; ns-3 takes hours
    #[arg(long)]
    full: bool,
    /// Congestion controls, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = ns3::Plan::default().congestions)]
    congestion: Vec<String>,
    /// Seeds of each cell with random loss
    #[arg(long, default_value_t = ns3::Plan::default().seeds, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Stop ns-3 after so many seconds in a cell
    #[arg(long, default_value_t = ns3::Plan::default().patience.as_secs(), value_parser = quantity::long_seconds_in(1..=86_400))]
    patience: u64,
    /// Folder of the ns-3 driver
    #[arg(long, default_value = simulator::DRIVER)]
    driver: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Simulated data packets per second of one core's time, and memory per flow.
#[derive(Debug, Args)]
pub(crate) struct SpeedArguments {
    /// Rounds; each simulator runs once per round
    #[arg(long, default_value_t = speed::Plan::default().rounds)]
    rounds: u32,
    /// The core that both run on
    #[arg(long, default_value_t = speed::Plan::default().core)]
    core: usize,
    /// Stop ns-3 after so many seconds in a cell
    #[arg(long, default_value_t = speed::Plan::default().patience.as_secs(), value_parser = quantity::long_seconds_in(1..=86_400))]
    patience: u64,
    /// Folder of the ns-3 driver
    #[arg(long, default_value = simulator::DRIVER)]
    driver: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: &Simulator, progress: &mut dyn FnMut(&str)) -> Result<Measured> {
    Ok(match command {
        Simulator::Linux(a) => linux(a, progress)?,
        Simulator::Ns3(a) => {
            let plan = ns3::Plan {
                full: a.full,
                congestions: a.congestion.clone(),
                seeds: a.seeds,
                patience: Duration::from_secs(a.patience),
                driver: a.driver.clone(),
            };
            let report = ns3::run(&plan, progress)?;
            Measured::new("ns-3", report.tables(), a.json, &report)?
        }
        Simulator::Speed(a) => {
            let patience = Duration::from_secs(a.patience);
            let plan = speed::Plan { rounds: a.rounds, core: a.core, patience, driver: a.driver.clone() };
            let report = speed::run(&plan, progress)?;
            Measured::new("Speed", report.tables(), a.json, &report)?
        }
        Simulator::Cell { cell } => {
            let cell = serde_json::from_str(cell).context("the cell is not valid JSON")?;
            println!("{}", serde_json::to_string(&simulator::run_here(&cell)?)?);
            Measured::default()
        }
    })
}

fn linux(a: &LinuxArguments, progress: &mut dyn FnMut(&str)) -> Result<Measured> {
    tributary_emu::isolate()?;
    if let Some(directory) = &a.out {
        output::directory(directory)?;
    }
    let plan = linux::Plan {
        full: a.full,
        groups: a.groups.iter().filter_map(|name| linux::Group::find(name)).collect(),
        fastest_mbps: a.fastest,
        seeds: a.seeds,
        kernel: a.kernel.clone(),
    };
    let report = linux::run(&plan, progress)?;
    if let Some(directory) = &a.out {
        output::file(directory, "linux.html", &report.to_html(&output::command_line()))?;
        output::file(directory, "linux.md", &report.to_markdown())?;
        output::file(directory, "linux.json", &serde_json::to_string(&report)?)?;
        for (name, drawing) in report.drawings() {
            output::file(directory, &format!("{name}.svg"), &drawing)?;
        }
    }
    Measured::new("Linux", report.tables(), a.json, &report)
}
