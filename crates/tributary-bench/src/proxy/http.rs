//! The proxy beside two HAProxies: nginx behind, wrk in front, TLS between the two machines.
//!
//! Two namespaces are joined by veth pairs without shaping. wrk sends requests to the near proxy, the far proxy
//! forwards them to nginx. The peer, HAProxy on both sides, uses one path. Contestants take turns, with new
//! processes in every round. Not here: starting the programs (`chain`).

mod chain;

use clap::Args;
use serde::Serialize;
use std::path::Path;
use tributary_emu::{Side, VethNetwork};
use tributary_lab::nginx::Nginx;
use tributary_lab::process::output;
use tributary_report::Table;

use crate::{BenchError, Expectation, Judged, Progress, Tables, bounds, median};
use chain::{Chain, FILES, PATHS, Peer};

/// Names and sizes of the objects: for requests per second, and for bytes per second.
const OBJECTS: [(&str, usize); 2] = [("small", 1 << 10), ("large", 1 << 20)];
/// Connections of the transfer of large objects.
const LARGE_CONNECTIONS: u32 = 16;
/// Congestion control of all sockets. bbr, the default of some kernels, halves the bytes per second of every contestant.
const CONGESTION: &str = "cubic";
/// Requests per second, and bytes per second, over those of HAProxy.
const RATIO: Expectation = Expectation::AtLeast(1.1);
/// Largest peak of the resident memory of each end, MB.
const MEMORY_MB: Expectation = Expectation::AtMost(64.0);

/// The proxy beside two HAProxies, nginx behind and wrk in front: requests and bytes per second, resident memory.
///
/// Two paths without shaping; TLS 1.3 between the sides; HAProxy uses one path. Needs nginx, wrk and HAProxy: scripts/setup --haproxy.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  tributary-lab bench proxy-http --rounds 9 --json > proxy-http.json")]
pub struct Settings {
    /// Rounds; each contestant runs once per round
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// Measured seconds of each turn and size of object
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,
    /// Connections that ask for objects of 1 KiB
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub connections: u32,
}

/// One contestant, round by round.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ContestantReport {
    pub contestant: String,
    /// Requests for small objects per second.
    pub requests_per_s: Vec<f64>,
    /// Large objects, MB/s.
    pub mbytes_per_s: Vec<f64>,
    /// Peak of the resident memory of the end beside the application, MB.
    pub near_mb: Vec<f64>,
    /// Peak of the resident memory of the end beside the server, MB.
    pub far_mb: Vec<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Connections that asked for small objects.
    pub connections: u32,
    /// Versions of the programs.
    pub versions: Vec<String>,
    pub contestants: Vec<ContestantReport>,
    /// Tributary's requests per second over HAProxy's.
    pub requests: Judged,
    /// Tributary's bytes per second over HAProxy's.
    pub bytes: Judged,
    /// Largest peak of the resident memory of either end of Tributary in any round, MB.
    pub memory_mb: Judged,
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; if a program is missing, the error says how to install it.
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let versions = ["nginx", "wrk", "haproxy"].map(|program| crate::version(program, "--haproxy"));
    let versions = versions.into_iter().collect::<Result<_, _>>()?;
    let directory = tempfile::tempdir().map_err(|error| crate::failed("temporary directory", error))?;
    let files = directory.path().join("files");
    write_objects(&files).map_err(|error| crate::failed("temporary directory", error))?;
    let mut contestants = Peer::ALL
        .map(|peer| ContestantReport { contestant: peer.label().to_owned(), ..ContestantReport::default() });
    for round in 1..=settings.rounds {
        for (peer, report) in Peer::ALL.into_iter().zip(&mut contestants) {
            progress(&format!("{}, round {round} of {}", report.contestant, settings.rounds));
            let own =
                tempfile::tempdir_in(&directory).map_err(|e| crate::failed("temporary directory", e))?;
            turn(settings, (own.path(), &files), peer, report)?;
        }
    }
    let [_, haproxy, _, tributary] = &contestants;
    let peaks = tributary.near_mb.iter().zip(&tributary.far_mb);
    let peaks: Vec<f64> = peaks.map(|(near, far)| near.max(*far)).collect();
    Ok(Report {
        connections: settings.connections,
        versions,
        requests: Judged::ratio(&tributary.requests_per_s, &haproxy.requests_per_s, RATIO),
        bytes: Judged::ratio(&tributary.mbytes_per_s, &haproxy.mbytes_per_s, RATIO),
        memory_mb: Judged::most(&peaks, MEMORY_MB),
        contestants: contestants.into(),
    })
}

fn write_objects(files: &Path) -> std::io::Result<()> {
    std::fs::create_dir(files)?;
    for (name, bytes) in OBJECTS {
        std::fs::write(files.join(name), vec![b'x'; bytes])?;
    }
    Ok(())
}

/// Both sizes of objects through new processes, which have a directory of their own.
fn turn(
    settings: &Settings,
    (directory, files): (&Path, &Path),
    peer: Peer,
    report: &mut ContestantReport,
) -> Result<(), BenchError> {
    let network = VethNetwork::create(PATHS)?;
    network.set_congestion(CONGESTION)?;
    let web = chain::web(peer);
    let _nginx = Nginx::start_with(network.command(Side::Server, "nginx"), files, web, FILES)?;
    chain::wait_for(&network, Side::Server, web)?;
    let chain = Chain::start(&network, directory, peer)?;
    let [small, large] = [(settings.connections, 0), (LARGE_CONNECTIONS, 1)].map(|(connections, object)| {
        let mut wrk = network.command(Side::Client, "wrk");
        wrk.args(["--threads", "1", "--connections", &connections.to_string()]);
        wrk.args(["--duration", &format!("{}s", settings.seconds), "--timeout", "10s"]);
        wrk.arg(format!("http://{}/{}", chain.entrance, OBJECTS[object].0));
        let said = output(wrk, "wrk")?;
        requests_per_second(&said).map_err(|reason| crate::failed("wrk", reason))
    });
    report.requests_per_s.push(small?);
    report.mbytes_per_s.push(large? * OBJECTS[1].1 as f64 / 1e6);
    if let Some([near, far]) = chain.memory_mb()? {
        report.near_mb.push(near);
        report.far_mb.push(far);
    }
    Ok(())
}

/// The figure that wrk prints. An error of any request makes the figure useless.
fn requests_per_second(said: &str) -> Result<f64, String> {
    let bad = |line: &&str| line.contains("Socket errors:") || line.contains("Non-2xx");
    if let Some(line) = said.lines().find(bad) {
        return Err(format!("not every request was answered: {}", line.trim()));
    }
    let figure = said.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
    let figure = figure.and_then(|figure| figure.trim().parse::<f64>().ok()).filter(|figure| *figure > 0.0);
    figure.ok_or_else(|| format!("printed no rate: {said}"))
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let title = format!(
            "{}, {CONGESTION}: objects of 1 KiB over {} connections and of 1 MiB over {LARGE_CONNECTIONS}; medians of the rounds",
            self.versions.join(", "),
            self.connections
        );
        let memory = |each: &[f64]| (!each.is_empty()).then(|| median(each));
        let speeds = Table::of(&title, &self.contestants)
            .text("between wrk and nginx", |of| &of.contestant)
            .number(("requests of 1 KiB", "1/s"), 0, |of| median(&of.requests_per_s))
            .number(("objects of 1 MiB", "MB/s"), 0, |of| median(&of.mbytes_per_s))
            .number(("peak memory beside wrk", "MB"), 1, |of| memory(&of.near_mb))
            .number(("beside nginx", "MB"), 1, |of| memory(&of.far_mb))
            .table();
        let ratios = [("requests per second", &self.requests, 3), ("bytes per second", &self.bytes, 3)];
        let headings = ["tributary, two paths, over HAProxy", "ratio"];
        let ratios = bounds("Ratios, median of the rounds' own", headings, ratios);
        let what = "peak of the resident memory of either end, most of all rounds";
        let memory = [(what, &self.memory_mb, 1)];
        let memory = bounds("Memory", ["tributary, two paths", "measured, MB"], memory);
        vec![speeds, ratios, memory]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_wrk_is_read_and_failed_requests_are_an_error() {
        let said = "Running 1s test @ http://127.0.0.1:8080/small\n  1 threads and 400 connections\n\
            \x20 12345 requests in 1.00s, 14.59MB read\nRequests/sec:  12321.50\nTransfer/sec:     14.56MB\n";
        assert_eq!(requests_per_second(said), Ok(12321.5));
        for line in
            ["  Socket errors: connect 0, read 3, write 0, timeout 0", "  Non-2xx or 3xx responses: 12345"]
        {
            let error = requests_per_second(&said.replace("Requests/sec", &format!("{line}\nRequests/sec")));
            assert_eq!(error.unwrap_err(), format!("not every request was answered: {}", line.trim()));
        }
        assert!(requests_per_second("unable to connect").is_err());
        assert!(requests_per_second("Requests/sec:      0.00\n").is_err());
    }
}
