//! `tributary dash serve` compared with nginx: bytes per second of processor time with many clients, and
//! memory.
//!
//! Both servers run as processes with the same files and the same clients, alternately. A client is an
//! HTTP/1.1 connection over loopback TCP that requests one segment after the other as fast as possible.
//! Processor time is the server's from `/proc`, workers and kernel time included. Not here: the clients
//! (`clients`), and starting the servers (`servers`).

mod clients;
mod servers;

use clap::Args;
use core::time::Duration;
use serde::Serialize;
use std::path::Path;
use tributary_cli::quantity;
use tributary_report::{Interval, Table, stats};

use super::{BenchError, Expectation, Judged, Progress, Tables, bounds, middle};
use clients::Clients;
use servers::Server;

/// Bitrates of the segments, kbit/s, and their length in seconds: the packager's defaults.
const LADDER: [u64; 20] = [
    45, 88, 128, 177, 217, 255, 323, 369, 504, 577, 779, 1010, 1200, 1470, 1700, 2090, 2410, 2940, 3340, 3800,
];
const SEGMENT: u64 = 4;
/// Bytes per second of processor time, over nginx's.
const WANTED: Expectation = Expectation::AtLeast(0.8);
/// Growth of the server's memory over the second half of the rounds, MiB.
const FLAT: Expectation = Expectation::AtMost(8.0);

/// `tributary dash serve` beside nginx: bytes for each second of processor time with many clients, and memory.
///
/// The same files and the same clients over loopback TCP, one after the other; nginx with `sendfile`. Needs nginx: scripts/setup --nginx.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  tributary-lab bench dash --rounds 15 --clients 1000 --json > dash.json")]
pub struct Settings {
    /// Rounds; in each both servers are measured
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// Measured seconds of each server in a round
    #[arg(long, default_value_t = 4.0, value_parser = quantity::part_seconds_in(0.5..=600.0))]
    pub seconds: f64,
    /// Clients at once
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
}

/// One server in one round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ServerRound {
    /// Bytes of bodies that the clients received.
    pub bytes: u64,
    /// Complete responses.
    pub responses: u64,
    /// Processor time of the server, seconds.
    pub cpu_s: f64,
    /// The part of it that was spent in the kernel.
    pub kernel_s: f64,
    /// Bytes per second of processor time.
    pub bytes_per_cpu_s: f64,
    /// Anonymous memory with all clients connected, kB.
    pub memory_kb: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Clients at once.
    pub clients: u32,
    /// Measured seconds of each server in a round.
    pub seconds: f64,
    /// nginx's version.
    pub nginx_version: String,
    /// `tributary dash serve`, round by round.
    pub tributary: Vec<ServerRound>,
    /// nginx, round by round.
    pub nginx: Vec<ServerRound>,
    /// Bytes per second of processor time, over nginx's.
    pub ratio: Judged,
    /// Growth of memory over the second half of the rounds, MiB: along the line through them. The first half is
    /// a warm-up.
    pub growth: Judged,
}

/// Measures both.
///
/// # Errors
/// [`BenchError`]; if nginx is missing, the error says how to install it.
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    servers::raise_descriptors(u64::from(settings.clients) + 256)?;
    let failed = |error: std::io::Error| crate::failed("temporary directory", error);
    let directory = tempfile::tempdir().map_err(failed)?;
    let sizes = write_segments(directory.path()).map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let measuring = measure(settings, (directory.path(), &sizes), progress);
    runtime.map_err(|error| crate::failed("runtime", error))?.block_on(measuring)
}

/// Writes segments `N.m4s` with the sizes of the ladder's bitrates; returns the sizes.
fn write_segments(directory: &Path) -> std::io::Result<Vec<u64>> {
    let sizes = LADDER.map(|kbps| kbps * 1000 / 8 * SEGMENT).to_vec();
    for (number, size) in sizes.iter().enumerate() {
        let bytes: Vec<u8> = (0..*size).map(|at| (at * 31 + at / 251) as u8).collect();
        std::fs::write(directory.join(format!("{number}.m4s")), bytes)?;
    }
    Ok(sizes)
}

async fn measure(
    settings: &Settings,
    (directory, sizes): (&Path, &[u64]),
    progress: Progress<'_>,
) -> Result<Report, BenchError> {
    let (nginx_version, nginx) = servers::nginx(directory).await?;
    let both = [servers::tributary(directory)?, nginx];
    let mut rounds: [Vec<ServerRound>; 2] = Default::default();
    for round in 0..settings.rounds {
        progress(&format!("round {} of {}", round + 1, settings.rounds));
        for (server, own) in both.iter().zip(&mut rounds) {
            own.push(measured(settings, server, sizes).await?);
        }
    }
    let [tributary, nginx] = rounds;
    let each = |rounds: &[ServerRound]| rounds.iter().map(|round| round.bytes_per_cpu_s).collect::<Vec<_>>();
    let ratio = Judged::ratio(&each(&tributary), &each(&nginx), WANTED);
    let growth = growth(&tributary);
    Ok(Report {
        clients: settings.clients,
        seconds: settings.seconds,
        nginx_version,
        tributary,
        nginx,
        ratio,
        growth,
    })
}

/// Over all steps of the second half.
fn growth(rounds: &[ServerRound]) -> Judged {
    let memory: Vec<f64> = rounds.iter().map(|round| round.memory_kb as f64 / 1024.0).collect();
    let each = stats::settled_growth(&memory);
    let steps = (rounds.len() - rounds.len() / 2).saturating_sub(1) as f64;
    let interval = each.map(|(_, of)| Interval { low: of.low * steps, high: of.high * steps });
    Judged::new(each.map_or(f64::NAN, |(each, _)| each * steps), interval, FLAT)
}

async fn measured(settings: &Settings, server: &Server, sizes: &[u64]) -> Result<ServerRound, BenchError> {
    let clients = Clients::start(server.address, settings.clients, sizes);
    clients.all_served().await?;
    let (began, before) = (server.cpu_s()?, clients.tally());
    tokio::time::sleep(Duration::from_secs_f64(settings.seconds)).await;
    let (ended, after) = (server.cpu_s()?, clients.tally());
    let (cpu_s, kernel_s) = (ended.0 - began.0, ended.1 - began.1);
    let memory_kb = server.memory_kb()?;
    clients.check()?;
    let bytes = after.bytes - before.bytes;
    Ok(ServerRound {
        bytes,
        responses: after.responses - before.responses,
        cpu_s,
        kernel_s,
        bytes_per_cpu_s: bytes as f64 / cpu_s,
        memory_kb,
    })
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let title = format!(
            "{} clients at once, segments of 22 kB to 1.9 MB over loopback TCP, medians of {} rounds of {:.0} s",
            self.clients,
            self.tributary.len(),
            self.seconds
        );
        let rows = [("tributary dash serve", &self.tributary), (self.nginx_version.as_str(), &self.nginx)];
        let a_second = |of: fn(&ServerRound) -> f64, times: f64| {
            move |(_, rounds): (&str, &Vec<ServerRound>)| middle(rounds, of) * times / self.seconds
        };
        let table = Table::of(&title, rows)
            .text("server", |(name, _)| name)
            .number(("goodput", "Gbit/s"), 2, a_second(|round| round.bytes as f64, 8e-9))
            .number(("responses", "1/s"), 0, a_second(|round| round.responses as f64, 1.0))
            .number(("processor", "s/s"), 2, a_second(|round| round.cpu_s, 1.0))
            .number(("in the kernel", "s/s"), 2, a_second(|round| round.kernel_s, 1.0))
            .number(("for each CPU second", "MB"), 0, |(_, rounds)| {
                middle(rounds, |round| round.bytes_per_cpu_s) / 1e6
            })
            .number(("memory, last round", "MiB"), 1, |(_, rounds)| {
                rounds.last().map(|round| round.memory_kb as f64 / 1024.0)
            })
            .table();
        let ratio = [("over nginx's", &self.ratio, 3)];
        let ratio = bounds("bytes for each CPU second", ["figure", "measured"], ratio);
        vec![table, ratio, self.memory()]
    }
}

impl Report {
    /// Memory after each round.
    fn memory(&self) -> Table {
        let rounds: Vec<String> =
            self.tributary.iter().map(|round| format!("{:.1}", round.memory_kb as f64 / 1024.0)).collect();
        Table::of("memory of tributary dash serve", [self])
            .text(("after each round", "MiB"), |_| rounds.join(", "))
            .judged("growth in the second half, MiB", |report| report.growth.cells(1))
            .table()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clients_count_whole_bodies_and_report_a_server_that_sends_others() {
        let body = vec![0; 100_000];
        for (announced, sent) in [(100_000, 100_000), (99_999, 99_999)] {
            let body = body[..sent].to_vec();
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let serving = tokio::spawn(async move {
                use tokio::io::{AsyncReadExt, AsyncWriteExt};
                let (mut stream, _) = listener.accept().await.unwrap();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-LENGTH: {announced}\r\n\r\n");
                while stream.read(&mut [0; 512]).await.is_ok_and(|read| read > 0) {
                    if stream.write_all(&[head.as_bytes(), &body].concat()).await.is_err() {
                        break;
                    }
                }
            });
            let clients = Clients::start(address, 1, &[100_000]);
            let served = clients.all_served().await;
            assert_eq!(served.is_ok(), announced == 100_000, "{served:?}");
            if served.is_ok() {
                let tally = clients.tally();
                assert!(tally.responses >= 1 && tally.bytes >= 100_000, "{tally:?}");
            }
            drop(clients);
            serving.await.unwrap();
        }
    }
}
