//! Coupled congestion control by eBPF: what it costs beside the kernel's cubic, how much of a shared bottleneck two
//! subflows take from a stranger's TCP connection, and what they reach on two separate links.
//!
//! Shares and throughput are measured on real sockets and in the simulator, for sessions and for MPTCP. Each is
//! measured with Reno on every subflow, too: that is the uncoupled baseline. Controllers are loaded for the run under
//! names with a prefix and unloaded at its end. Not here: the controllers (`bpf/`, [`tributary_cc`]).

mod bottleneck;
mod contender;
mod cost;
mod separate;
mod share;
mod simulated;
mod subflows;

use super::controllers::Controllers;
use super::{BenchError, Progress, Tables};
use clap::Args;
use cost::Cost;
use separate::Throughput;
use serde::Serialize;
use share::Share;
use tributary_cli::quantity;
use tributary_proto::coupling::COUPLED;
use tributary_report::Table;

/// The uncoupled control of subflows, and of the stranger.
const UNCOUPLED: &str = "reno";

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Processor time and throughput beside cubic.
    Cost,
    /// Shares of one emulated bottleneck.
    Bottleneck,
    /// Throughput on two emulated links.
    Separate,
    /// Both in the simulator.
    Simulated,
}

impl Part {
    /// Every part, in the order in which they run.
    pub const ALL: [Self; 4] = [Self::Cost, Self::Bottleneck, Self::Separate, Self::Simulated];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Bottleneck => "bottleneck",
            Self::Separate => "separate",
            Self::Simulated => "simulated",
        }
    }
}

/// Coupled congestion control by eBPF: its cost beside the kernel's cubic; two subflows beside another program's TCP
/// connection at one bottleneck, and on two separate links; sessions and MPTCP, on real sockets and simulated.
///
/// Loads the controllers under names with a prefix and unloads them at the end. Needs root and feature `ebpf`, except
/// for the part `simulated`. If it is killed, `tributary cc list` shows the controllers that are still loaded.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  sudo tributary-lab bench coupled
  sudo tributary-lab bench coupled --only bottleneck,separate --controllers lia,olia --rounds 12 --json
  tributary-lab bench coupled --only simulated")]
pub struct Settings {
    /// Run only these parts, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = Part::ALL.map(Part::name))]
    pub only: Vec<String>,
    /// Controllers, separated by commas: balia, compound, lia, olia, wvegas; without this option all
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub controllers: Vec<String>,
    /// Rounds of the cost of each controller; in each it and cubic carry out four transfers in turns
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub cost_rounds: u32,
    /// Seconds of each transfer of the cost
    #[arg(long, default_value_t = 1.0, value_parser = quantity::part_seconds_in(0.5..=600.0))]
    pub cost_seconds: f64,
    /// Rounds at the emulated bottleneck and on the separate links
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub rounds: u32,
    /// Measured seconds of each of their runs
    #[arg(long, default_value_t = 20, value_parser = quantity::seconds_in(5..=600))]
    pub seconds: u32,
    /// Seeds of each simulated run
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub seeds: u32,
}

impl Settings {
    fn has(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == part.name())
    }

    /// Those of the plan's controllers that couple subflows.
    fn coupled(&self) -> Vec<&'static str> {
        let chosen = |name: &&str| self.controllers.is_empty() || self.controllers.iter().any(|c| c == name);
        COUPLED.into_iter().filter(chosen).collect()
    }

    fn check(&self) -> Result<(), BenchError> {
        let known = |name: &&String| tributary_bpf::CONTROLLERS.contains(&name.as_str());
        if let Some(unknown) = self.controllers.iter().find(|name| !known(name)) {
            return Err(tributary_bpf::CcError::Unknown(unknown.clone()).into());
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Every controller beside cubic.
    pub cost: Vec<Cost>,
    /// Shares of one bottleneck, on real sockets and in the simulator.
    pub shares: Vec<Share>,
    /// Throughput on two separate links, on real sockets and in the simulator.
    pub separate: Vec<Throughput>,
}

/// A prefix for the controllers' names, different for each process. Call it before
/// [`isolate`](tributary_emu::isolate()): names of controllers belong to the whole machine, and in an isolated
/// program process numbers begin again at one.
pub fn prefix() -> String {
    format!("b{}_", std::process::id() % 100_000)
}

/// Runs the benchmark. The controllers' names begin with `prefix`.
pub fn run(settings: &Settings, prefix: &str, progress: Progress<'_>) -> Result<Report, BenchError> {
    settings.check()?;
    let mut report = Report::default();
    if [Part::Cost, Part::Bottleneck, Part::Separate].into_iter().any(|part| settings.has(part)) {
        let loaded = Controllers::load(&settings.controllers, prefix)?;
        if settings.has(Part::Cost) {
            report.cost = cost::run(settings, &loaded, &mut *progress)?;
        }
        if settings.has(Part::Bottleneck) {
            report.shares = bottleneck::run(settings, &loaded, &mut *progress)?;
        }
        if settings.has(Part::Separate) {
            report.separate = separate::emulated(settings, &loaded, &mut *progress)?;
        }
    }
    if settings.has(Part::Simulated) {
        report.shares.extend(simulated::shares(settings, &mut *progress)?);
        report.separate.extend(simulated::separate(settings, &mut *progress)?);
    }
    Ok(report)
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let tables = [
            cost::table(&self.cost),
            share::table(&self.shares),
            share::limits(&self.shares),
            separate::table(&self.separate),
        ];
        tables.into_iter().filter(|table| !table.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_runs_the_parts_and_controllers_it_names() {
        let all = crate::defaults::<Settings>();
        assert!(Part::ALL.into_iter().all(|part| all.has(part)));
        assert_eq!(all.coupled(), COUPLED);
        let some = Settings {
            only: vec!["cost".to_owned()],
            controllers: vec!["compound".to_owned(), "lia".to_owned()],
            ..all
        };
        assert!(some.has(Part::Cost) && !some.has(Part::Simulated));
        assert_eq!(some.coupled(), ["lia"], "compound does not couple");
    }

    #[test]
    fn an_unknown_controller_is_refused_before_anything_runs() {
        let settings = Settings { controllers: vec!["warp".to_owned()], ..crate::defaults() };
        let error = run(&settings, "x_", &mut |_| panic!("nothing runs")).unwrap_err().to_string();
        assert!(error.contains("`warp`") && error.contains("olia"), "{error}");
    }

    #[test]
    fn every_coupled_controller_exists_and_its_name_has_room_for_the_prefix() {
        for name in COUPLED {
            assert!(tributary_bpf::CONTROLLERS.contains(&name), "{name}");
        }
        for name in tributary_bpf::CONTROLLERS {
            assert!("b99999_".len() + name.len() <= tributary_bpf::LONGEST_NAME, "{name}");
        }
    }
}
