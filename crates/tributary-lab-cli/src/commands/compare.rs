//! `tributary-lab compare`: every transport over the user's own network, ranked.

use super::report::{Form, Rendered};
use anyhow::Result;
use clap::Args;
use core::time::Duration;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_cli::{Progress, output, quantity};
use tributary_lab::World;
use tributary_lab::compare::{self, Choice, Page, Ranking, SEEDS, Source};
use tributary_lab::reproduce::comparison::Workload;
use tributary_lab::reproduce::{Selection, Settings};

/// Rank every transport over your own network: each path alone, MPTCP and sessions with every scheduler, multipath QUIC.
///
/// The network is a scenario, or the measured traces of its paths. Known forms: our scenario files, Mahimahi (NAME.down with
/// NAME.up), CSV with units in the heading (each column of rates is a path), pcap and pcapng, Sabre, E3PO, Lumos5G, 5Gophers,
/// UCC 5G, Starlink (5GTracker). Each seed's run begins at another time of the network. A transport is better or worse than
/// the best single path, and than MPTCP, if the whole 95 % interval of their differences says so; otherwise it is undecided.
/// Simulated: the same seeds give the same result everywhere. Finished runs are kept in DIR.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab compare walk.toml
  tributary-lab compare Verizon-LTE.down Verizon-LTE.up cafe-wifi.csv --workload messages
  tributary-lab compare two-carriers.csv --workload dash --seeds 20 --out dash
  tributary-lab compare mobility --transports tcp:wifi,mptcp,session/fbdt --json
  tributary-lab sweep tributary-compare/plan.toml --shard 1/4 --out part-1   # a part of the runs, on another machine
  tributary-lab compare walk.toml --merge part-1 part-2")]
pub(crate) struct CompareArguments {
    /// A scenario (its name, or a .toml file), or the traces of the paths
    #[arg(required = true, value_name = "TRACE_OR_SCENARIO")]
    pub(crate) network: Vec<String>,
    /// What is sent: bulk, tiles (360° video), dash, messages or objects
    #[arg(long, default_value = "bulk")]
    workload: Workload,
    /// Seeds of every transport
    #[arg(long, default_value_t = SEEDS, value_parser = clap::value_parser!(u32).range(2..=999))]
    seeds: u32,
    /// Seconds of each run [default: the network's length over the number of seeds, 15 to 30]
    #[arg(long, value_parser = quantity::seconds_in(3..=86_400))]
    seconds: Option<u32>,
    /// Base RTT in milliseconds, for a trace without one [default: 40] or instead of the scenario's
    #[arg(long, value_parser = quantity::millis_in(0..=60_000))]
    rtt: Option<u64>,
    /// Congestion control of every subflow
    #[arg(long, default_value = "cubic")]
    congestion: String,
    /// These transports instead of all, separated by commas: tcp:PATH, quic:PATH, mptcp, mptcp/SCHEDULER, mpquic, session/SCHEDULER
    #[arg(long, value_delimiter = ',')]
    transports: Vec<String>,
    /// Runs at the same time [default: one per core]
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Directories with finished runs to reuse, such as those of shards of a sweep of the same plan
    #[arg(long, value_name = "DIR", num_args = 1..)]
    merge: Vec<PathBuf>,
    /// Directory for the report (compare-WORKLOAD.html, .json, .md), the runs, the plan, and the network of traces
    #[arg(long, default_value = "tributary-compare")]
    out: PathBuf,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &CompareArguments) -> Result<ExitCode> {
    let source = Source::read(&arguments.network, arguments.rtt.map(Duration::from_millis))?;
    let choice = Choice {
        workload: arguments.workload,
        seeds: arguments.seeds,
        seconds: arguments.seconds,
        congestion: arguments.congestion.clone(),
        transports: arguments.transports.clone(),
    };
    output::directory(&arguments.out)?;
    let settings = Settings {
        selection: Selection {
            world: World::Sim,
            rtt: arguments.rtt.filter(|_| source.text().is_none()).map(|ms| format!("{ms} ms")),
            ..Selection::default()
        },
        directory: arguments.out.clone(),
        merge: arguments.merge.clone(),
        resume: true,
        jobs: arguments.jobs,
        command: output::command_line(),
        ..Settings::default()
    };
    let mut progress = Progress::new();
    let outcome =
        compare::run(&choice, &source, None, &settings, &mut |share, text| progress.at(share, text))?;
    progress.end();
    let ranking = Ranking::new(&outcome, choice.workload);
    let page = Page::new(&ranking, &outcome, source.scenario());
    let report = Rendered {
        name: format!("compare-{}", choice.workload),
        json: page.json().to_string(),
        markdown: page.markdown(),
        html: Some(page.html()),
        text: page.text(),
    };
    report.publish(&arguments.out, Form { json: arguments.json, markdown: false }, None)?;
    Ok(if outcome.tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
