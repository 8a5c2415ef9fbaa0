//! Throughput without emulated links: two veth paths, one thread for each end, cubic. Compares sessions with
//! kernel MPTCP, one TCP connection, and one TLS-over-TCP connection of the same library with each provider of
//! cryptography that the program was built with.

use super::end::{CONGESTION, Contestant};
use super::process::over_veth_unless_stalled;
use super::{BenchError, Expectation, Judged, Progress, Tables, median, paired_ratio};
use clap::Args;
use serde::Serialize;
use tributary_cli::quantity;
use tributary_report::{Table, stats};

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

#[derive(Clone, Debug, Default, Serialize)]
pub struct ContestantReport {
    pub contestant: String,
    /// Goodput of each round at the sink, Gbit/s.
    pub gbps: Vec<f64>,
    /// Processor seconds of the source per gigabyte, in each round.
    pub source_cpu_per_gb: Vec<f64>,
    /// The same of the sink.
    pub sink_cpu_per_gb: Vec<f64>,
    /// Number of subflows in use.
    pub subflows: usize,
    /// Transfers that stalled, and were repeated.
    pub stalls: u32,
}

/// A ratio between two contestants.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    pub ours: String,
    pub peer: String,
    /// Our goodput over the peer's.
    pub goodput: Judged,
    /// Median over the rounds of our processor seconds per gigabyte over the peer's, both ends together.
    pub cpu_ratio: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub contestants: Vec<ContestantReport>,
    /// The comparisons with a bound.
    pub comparisons: Vec<Comparison>,
}

pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let empty = |contestant: &Contestant| ContestantReport {
        contestant: contestant.label(),
        ..ContestantReport::default()
    };
    let contestants = contestants();
    let mut reports: Vec<ContestantReport> = contestants.iter().map(empty).collect();
    for round in 1..=settings.rounds {
        for (contestant, report) in contestants.iter().zip(&mut reports) {
            progress(&format!("{}, round {round} of {}", report.contestant, settings.rounds));
            let ends = (contestant, CONGESTION);
            let (source, sink) =
                over_veth_unless_stalled(ends, settings.seconds, &mut report.stalls, &mut *progress)?;
            let gigabytes = sink.bytes as f64 / 1e9;
            report.gbps.push(gigabytes * 8.0 / sink.seconds);
            report.source_cpu_per_gb.push(source.cpu_seconds / gigabytes);
            report.sink_cpu_per_gb.push(sink.cpu_seconds / gigabytes);
            report.subflows = source.subflows;
        }
    }
    let comparisons = vec![
        compare(&reports, (&Contestant::plaintext(), &Contestant::of("mptcp")), PLAINTEXT),
        compare(&reports, (&Contestant::of("session"), &Contestant::Rustls), TLS),
    ];
    Ok(Report { contestants: reports, comparisons })
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
        let speeds = Table::of("Unshaped, two veth paths, cubic; medians", &self.contestants)
            .text("contestant", |c| &c.contestant)
            .number("subflows", 0, |c| c.subflows as f64)
            .number(("goodput", "Gbit/s"), 2, |c| median(&c.gbps))
            .strong()
            .number("least", 2, |c| stats::minimum(&c.gbps))
            .number("most", 2, |c| stats::maximum(&c.gbps))
            .number(("CPU source", "s/GB"), 3, |c| median(&c.source_cpu_per_gb))
            .number(("CPU sink", "s/GB"), 3, |c| median(&c.sink_cpu_per_gb))
            .number(("both", "s/GB"), 3, |c| median(&c.cpu_per_gb()))
            .number("stalls", 0, |c| f64::from(c.stalls))
            .table();
        let ratios = Table::of("Ratios, median of the rounds' own", &self.comparisons)
            .text("session", |c| &c.ours)
            .text("peer", |c| &c.peer)
            .number("CPU ratio", 2, |c| c.cpu_ratio)
            .judged("goodput ratio", |c| c.goodput.cells(3))
            .table();
        vec![speeds, ratios]
    }
}
