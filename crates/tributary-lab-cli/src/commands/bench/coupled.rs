//! `tributary-lab bench coupled`: its arguments.

use super::Measured;
use anyhow::Result;
use clap::Args;
use tributary_bench::coupled::{self, Part, Plan};
use tributary_cli::quantity;

/// Coupled congestion control by eBPF: its cost beside the kernel's cubic; two subflows beside another program's TCP
/// connection at one bottleneck, and on two separate links; sessions and MPTCP, on real sockets and simulated.
///
/// Loads the controllers under names with a prefix and unloads them at the end. Needs root and feature `ebpf`, except
/// for the part `simulated`. If it is killed, `tributary cc list` shows the controllers that are still loaded.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sudo tributary-lab bench coupled
  sudo tributary-lab bench coupled --only bottleneck,separate --controllers lia,olia --rounds 12 --json
  tributary-lab bench coupled --only simulated")]
pub(crate) struct CoupledArguments {
    /// Run only these parts, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = Part::ALL.map(Part::name))]
    only: Vec<String>,
    /// Controllers, separated by commas: balia, compound, lia, olia, wvegas; without this option all
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    controllers: Vec<String>,
    /// Rounds of the cost of each controller; in each it and cubic carry out four transfers in turns
    #[arg(long, default_value_t = Plan::default().cost_rounds)]
    cost_rounds: u32,
    /// Seconds of each transfer of the cost
    #[arg(long, default_value_t = Plan::default().cost_seconds, value_parser = quantity::seconds)]
    cost_seconds: f64,
    /// Rounds at the emulated bottleneck and on the separate links
    #[arg(long, default_value_t = Plan::default().rounds)]
    rounds: u32,
    /// Measured seconds of each of their runs
    #[arg(long, default_value_t = Plan::default().seconds, value_parser = quantity::seconds_in(5..=600))]
    seconds: u32,
    /// Seeds of each simulated run
    #[arg(long, default_value_t = Plan::default().seeds)]
    seeds: u32,
    /// Print one JSON object, with every round
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &CoupledArguments, progress: &mut dyn FnMut(&str)) -> Result<Measured> {
    let prefix = coupled::prefix();
    tributary_emu::isolate()?;
    let plan = Plan {
        only: arguments.only.clone(),
        controllers: arguments.controllers.clone(),
        cost_rounds: arguments.cost_rounds,
        cost_seconds: arguments.cost_seconds,
        rounds: arguments.rounds,
        seconds: arguments.seconds,
        seeds: arguments.seeds,
    };
    let report = coupled::run(&plan, &prefix, progress)?;
    Measured::new("coupled", report.tables(), arguments.json, &report)
}
