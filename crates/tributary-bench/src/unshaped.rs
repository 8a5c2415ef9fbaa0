//! Throughput without emulated links: two veth paths, one thread for each end, cubic. Compares sessions with
//! kernel MPTCP, one TCP connection, and one TLS-over-TCP connection of the same library with each provider of
//! cryptography that the program was built with.

use super::end::{CONGESTION, Contestant, Until};
use super::process::{Transfer, prepare_mptcp};
use super::{BenchError, Expectation, Judged, Progress, Tables, median, paired_ratio};
use clap::Args;
use serde::Serialize;
use std::ffi::OsStr;
use tributary_cli::quantity;
use tributary_emu::{Side, VethNetwork};
use tributary_report::{Column, Table, TableCell};

/// Paths between the namespaces.
const PATHS: usize = 2;
/// A stalled transfer of kernel MPTCP is repeated at most this many times.
const STALLS: u32 = 3;
/// Goodput of a plaintext session over that of kernel MPTCP.
const PLAINTEXT: Expectation = Expectation::AtLeast(1.0);
/// Goodput of a session with TLS over that of one TLS-over-TCP connection with the faster provider.
const TLS: Expectation = Expectation::AtLeast(0.95);

/// Throughput over two veth paths: sessions beside kernel MPTCP, one TCP and one TLS-over-TCP connection.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Rounds; each contestant runs once per round
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seconds of each transfer
    #[arg(long, default_value_t = 4.0, value_parser = quantity::part_seconds_in(0.5..=600.0))]
    pub seconds: f64,
}

/// Every transport of the registry, a session without TLS, and TLS over TCP, in the order of a round.
fn contestants() -> Vec<Contestant> {
    let transports = tributary_proto::transport::names().map(Contestant::of);
    transports.into_iter().chain([Contestant::plaintext(), Contestant::Rustls]).collect()
}

/// One contestant.
#[derive(Clone, Debug, Serialize)]
pub struct ContestantReport {
    /// Its name.
    pub contestant: String,
    /// Goodput of each round at the sink, Gbit/s.
    pub gbps: Vec<f64>,
    /// Processor seconds of the source per gigabyte, in each round.
    pub source_cpu_per_gb: Vec<f64>,
    /// The same of the sink.
    pub sink_cpu_per_gb: Vec<f64>,
    /// Number of subflows in use.
    pub subflows: usize,
    /// Transfers that stalled until their time was over, and were repeated. This happens occasionally to writers of
    /// kernel MPTCP; with every other contestant it is an error at once.
    pub stalls: u32,
}

/// A ratio between two contestants.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Ours.
    pub ours: String,
    /// Its peer.
    pub peer: String,
    /// Our goodput over the peer's.
    pub goodput: Judged,
    /// Median over the rounds of our processor seconds per gigabyte over the peer's, both ends together.
    pub cpu_ratio: f64,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Every contestant.
    pub contestants: Vec<ContestantReport>,
    /// The comparisons with a bound.
    pub comparisons: Vec<Comparison>,
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`].
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let empty = |contestant: &Contestant| ContestantReport {
        contestant: contestant.label(),
        gbps: Vec::new(),
        source_cpu_per_gb: Vec::new(),
        sink_cpu_per_gb: Vec::new(),
        subflows: 0,
        stalls: 0,
    };
    let contestants = contestants();
    let mut reports: Vec<ContestantReport> = contestants.iter().map(empty).collect();
    for round in 1..=settings.rounds {
        for (contestant, report) in contestants.iter().zip(&mut reports) {
            progress(&format!("{}, round {round} of {}", report.contestant, settings.rounds));
            while let Err(error) = one(contestant, report, settings.seconds) {
                if !contestant.is_mptcp() || report.stalls >= STALLS {
                    return Err(error);
                }
                report.stalls += 1;
                progress(&format!("{error}: once more"));
            }
        }
    }
    let comparisons = vec![
        compare(&reports, (&Contestant::plaintext(), &Contestant::of("mptcp")), PLAINTEXT),
        compare(&reports, (&Contestant::of("session"), &Contestant::Rustls), TLS),
    ];
    Ok(Report { contestants: reports, comparisons })
}

/// One transfer in new namespaces.
fn one(contestant: &Contestant, report: &mut ContestantReport, seconds: f64) -> Result<(), BenchError> {
    let network = VethNetwork::create(PATHS)?;
    if contestant.is_mptcp() {
        prepare_mptcp(&network)?;
    }
    let command = |side: Side, program: &OsStr| network.command(side, program);
    let until = Until::Seconds(seconds);
    let contestant = contestant.clone();
    let transfer = Transfer { command: &command, paths: 0..PATHS, contestant, congestion: CONGESTION, until };
    let (source, sink) = transfer.run()?;
    let gigabytes = sink.bytes as f64 / 1e9;
    report.gbps.push(gigabytes * 8.0 / sink.seconds);
    report.source_cpu_per_gb.push(source.cpu_seconds / gigabytes);
    report.sink_cpu_per_gb.push(sink.cpu_seconds / gigabytes);
    report.subflows = source.subflows;
    Ok(())
}

fn compare(
    contestants: &[ContestantReport],
    (ours, peer): (&Contestant, &Contestant),
    wanted: Expectation,
) -> Comparison {
    let (ours, peer) = (ours.label(), peer.label());
    let of = |contestant: &str| {
        contestants.iter().find(|c| c.contestant == contestant).expect("every contestant was measured")
    };
    let (our, their) = (of(&ours), of(&peer));
    let goodput = Judged::ratio(&our.gbps, &their.gbps, wanted);
    let cpu_ratio = paired_ratio(&our.cpu_per_gb(), &their.cpu_per_gb());
    Comparison { ours, peer, goodput, cpu_ratio }
}

impl ContestantReport {
    /// Processor seconds per gigabyte of both ends together, in each round.
    fn cpu_per_gb(&self) -> Vec<f64> {
        self.source_cpu_per_gb.iter().zip(&self.sink_cpu_per_gb).map(|(a, b)| a + b).collect()
    }
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let mut speeds = Table::new("Unshaped, two veth paths, cubic; medians").columns([
            Column::left("contestant"),
            Column::right("subflows"),
            Column::right("goodput").unit("Gbit/s"),
            Column::right("least"),
            Column::right("most"),
            Column::right("CPU source").unit("s/GB"),
            Column::right("CPU sink").unit("s/GB"),
            Column::right("both").unit("s/GB"),
            Column::right("stalls"),
        ]);
        for c in &self.contestants {
            let [least, most] = [tributary_report::stats::minimum, tributary_report::stats::maximum];
            speeds.push([
                TableCell::text(&c.contestant),
                TableCell::number(c.subflows as f64, 0),
                TableCell::number(median(&c.gbps), 2).strong(),
                TableCell::optional_number(least(&c.gbps), 2),
                TableCell::optional_number(most(&c.gbps), 2),
                TableCell::number(median(&c.source_cpu_per_gb), 3),
                TableCell::number(median(&c.sink_cpu_per_gb), 3),
                TableCell::number(median(&c.cpu_per_gb()), 3),
                TableCell::number(f64::from(c.stalls), 0),
            ]);
        }
        let names = [Column::left("session"), Column::left("peer"), Column::right("CPU ratio")];
        let columns = names.into_iter().chain(Judged::columns("goodput ratio"));
        let mut ratios = Table::new("Ratios, median of the rounds' own").columns(columns);
        for c in &self.comparisons {
            let names =
                [TableCell::text(&c.ours), TableCell::text(&c.peer), TableCell::number(c.cpu_ratio, 2)];
            ratios.push(names.into_iter().chain(c.goodput.cells(3)));
        }
        vec![speeds, ratios]
    }
}
