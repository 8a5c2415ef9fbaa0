//! A server's memory with sessions that write and never read, and their effect on an honest client; then as many honest clients.
//!
//! `tributary serve` runs as a process. Hostile clients, all in one other process, open streams, write as
//! much as is accepted in both directions and read nothing; the target behind the server reads nothing from
//! them and writes to them. An honest client uploads and downloads before they come and while they are there,
//! round by round, at a fixed rate and as fast as it can. The fixed rate decides: without a limit the rate is that of
//! the machine, which differs from round to round. At last, with a server of their own, honest clients that all download at once
//! (`together`). Not here: the bound itself ([`tributary_net::Limits`]).

mod hostile;
mod target;
mod together;

use super::{BenchError, Expectation, Judged, Progress, Tables, median};
use crate::daemon::{Program, keygen};
use crate::failed;
use bytes::Bytes;
use clap::Args;
use core::time::Duration;
use hostile::Crowd;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;
use tributary_cli::quantity;
use tributary_net::{Common, ConnectConfig, Key, PathConfig, Session, connect};
use tributary_report::Table;

pub(crate) use hostile::run as run_hostile;
use together::Together;

/// Least share of its rate that the honest client keeps.
const KEEPS: Expectation = Expectation::AtLeast(0.95);
/// Time for the honest client to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// Time of a transfer that does not count, because windows grow.
const LEAD: f64 = 0.5;
/// Bytes of one write.
const PIECE: usize = 256 << 10;

/// A server's memory under clients that write and never read, and their effect on an honest client beside them.
///
/// Then honest clients with own keys download at once: whether each gets the same, the time of a scrape, and the server's memory.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab bench sessions
  tributary-lab bench sessions --sessions 100 --memory 1GiB --rounds 5 --json")]
pub struct Settings {
    /// Hostile sessions
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1020))]
    pub sessions: u32,
    /// Streams of each
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub streams: u32,
    /// Honest clients with own keys, two paths each, that download at once
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..=1020))]
    pub clients: u32,
    #[command(flatten)]
    pub(crate) memory: tributary_cli::arguments::MemoryArguments,
    /// Rounds, each without and with hostile sessions; growth of memory is judged from five on
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// Seconds of each transfer of the honest client
    #[arg(long, default_value_t = 2.0, value_parser = quantity::part_seconds_in(0.5..=60.0))]
    pub seconds: f64,
    /// Rate of the honest client's limited transfers, Mbit/s
    #[arg(long, default_value_t = 1000.0, value_parser = quantity::number_in(1.0..=1e5))]
    pub mbps: f64,
}

/// The honest client in one direction, with or without a limit of its rate.
#[derive(Clone, Debug, Serialize)]
pub struct Direction {
    /// `upload` or `download`.
    pub name: &'static str,
    /// The rate that the client sends or requests, Mbit/s; `None`: as fast as possible.
    pub limit_mbps: Option<f64>,
    /// Goodput of each round before the hostile sessions came, Mbit/s.
    pub alone_mbps: Vec<f64>,
    /// Goodput while they were there, Mbit/s.
    pub beside_mbps: Vec<f64>,
    /// The rate beside the sessions over that alone; `None` until every round has ended.
    pub ratio: Option<Judged>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Hostile sessions per round.
    pub sessions: u32,
    /// Streams of each session.
    pub streams: u32,
    /// Sessions open at the server in each round, as counted by the server.
    pub open: Vec<u64>,
    /// The server's bound, bytes.
    pub bound: u64,
    /// Anonymous memory of the server before the first round, bytes.
    pub before: u64,
    /// Peak while hostile sessions were there, in each round, bytes.
    pub most: Vec<u64>,
    /// The largest of these peaks, MiB; `None` until every round has ended.
    pub peak: Option<Judged>,
    /// The honest client.
    pub honest: Vec<Direction>,
    /// Honest clients, all at once; `None` until every round has ended.
    pub together: Option<Together>,
}

pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    tributary_net::sockopt::raise_descriptor_limit().map_err(|error| failed("descriptor limit", error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| failed("runtime", error))?.block_on(measure(settings, progress))
}

async fn measure(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let directory = TempDir::new().map_err(|error| failed("temporary directory", error))?;
    let key = keygen(directory.path())?;
    let target = target::start().await?.to_string();
    let memory = format!("{}MiB", settings.memory.limits().memory >> 20);
    let arguments =
        ["--listen", "127.0.0.1:0", "--forward", &target, "--shared-key", &key, "--memory", &memory];
    let server = Program::here(&[&["serve"][..], &arguments[..]].concat(), directory.path())?;
    let honest = Honest::connect(&server, &key).await?;
    let before = server.memory_kb()? << 10;
    let limits = [Some(settings.mbps), None];
    let directions = limits.into_iter().flat_map(|limit| {
        ["upload", "download"].map(|name| Direction {
            name,
            limit_mbps: limit,
            alone_mbps: Vec::new(),
            beside_mbps: Vec::new(),
            ratio: None,
        })
    });
    let mut report = Report {
        sessions: settings.sessions,
        streams: settings.streams,
        open: Vec::new(),
        bound: settings.memory.limits().memory,
        before,
        most: Vec::new(),
        peak: None,
        honest: directions.collect(),
        together: None,
    };
    for round in 1..=settings.rounds {
        progress(&format!("round {round} of {}: the honest client alone", settings.rounds));
        for direction in &mut report.honest {
            direction.alone_mbps.push(honest.transfer(direction, settings.seconds).await?);
        }
        progress(&format!("round {round}: {} hostile sessions", settings.sessions));
        let crowd = Crowd::start(settings, server.listening()[0], Path::new(&key)).await?;
        let mut most = server.memory_kb()?;
        for direction in &mut report.honest {
            direction.beside_mbps.push(honest.transfer(direction, settings.seconds).await?);
            most = most.max(server.memory_kb()?);
        }
        report.most.push(most << 10);
        report.open.push(server.usage()?.sessions.saturating_sub(1));
        crowd.end();
        gone(&server, 1).await?;
    }
    let peaks: Vec<f64> = report.most.iter().map(|most| mib(*most)).collect();
    report.peak = Some(Judged::most(&peaks, Expectation::AtMost(mib(settings.memory.limits().memory))));
    for direction in &mut report.honest {
        direction.ratio = Some(Judged::ratio(&direction.beside_mbps, &direction.alone_mbps, KEEPS));
    }
    drop((honest, server));
    report.together = Some(together::measure(settings, &target, progress).await?);
    Ok(report)
}

/// Waits until the server has no more sessions than these.
async fn gone(server: &Program, left: u64) -> Result<(), BenchError> {
    let began = Instant::now();
    while server.usage()?.sessions > left {
        if began.elapsed() > Duration::from_secs(60) {
            return Err(failed("tributary serve", "sessions stay although their clients have ended"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// The honest client's session.
struct Honest(Session);

impl Honest {
    async fn connect(server: &Program, key: &str) -> Result<Self, BenchError> {
        let key = Key::load(key.as_ref()).map_err(|error| failed("key", error))?;
        let paths = ["127.0.0.2", "127.0.0.3"]
            .map(|local| format!("{local}={}", server.listening()[0]).parse::<PathConfig>());
        let paths = paths.into_iter().collect::<Result<_, _>>().map_err(|e| failed("path", e))?;
        let config = ConnectConfig { paths, common: Common::new(key), timeout: CONNECT };
        connect(config).await.map(Self).map_err(|error| failed("the honest client", error))
    }

    /// Goodput in Mbit/s of what was written or read, after windows have grown.
    async fn transfer(&self, direction: &Direction, seconds: f64) -> Result<f64, BenchError> {
        let lost = |error: &dyn std::fmt::Display| failed("the honest client", error);
        let mut stream = self.0.open_stream(0).await.map_err(|e| lost(&e))?;
        let upload = direction.name == "upload";
        let per_byte = direction.limit_mbps.map(|mbps| 8e-6 / mbps);
        let head = [0, if upload { target::SINK } else { target::SOURCE }];
        stream.write_chunk(Bytes::copy_from_slice(&head)).await.map_err(|e| lost(&e))?;
        let piece = Bytes::from(vec![1; PIECE]);
        let (mut began, mut bytes, mut leading) = (Instant::now(), 0_u64, true);
        while leading || began.elapsed().as_secs_f64() < seconds {
            if leading && began.elapsed().as_secs_f64() >= LEAD {
                (began, bytes, leading) = (Instant::now(), 0, false);
            }
            let moved = if upload {
                stream.write_chunk(piece.clone()).await.map_err(|e| lost(&e))?;
                PIECE
            } else {
                stream.read_chunk().await.map_err(|e| lost(&e))?.map_or(0, |chunk| chunk.len())
            };
            if moved == 0 {
                return Err(lost(&"the target ended"));
            }
            bytes += moved as u64;
            if let Some(per_byte) = per_byte {
                let due = began + Duration::from_secs_f64(bytes as f64 * per_byte);
                tokio::time::sleep_until(due.into()).await;
            }
        }
        Ok(bytes as f64 * 8e-6 / began.elapsed().as_secs_f64())
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let title =
            format!("{} sessions that write and never read, {} streams each", self.sessions, self.streams);
        let memory = Table::of(&title, self.open.iter().zip(&self.most))
            .number("sessions open", 0, |(&open, _)| open as f64)
            .number(("server before", "MiB"), 1, |_| mib(self.before))
            .number(("most", "MiB"), 1, |(_, &most)| mib(most))
            .number(("for each session", "MiB"), 2, |(&open, most)| {
                mib(most.saturating_sub(self.before)) / (open as f64).max(1.0)
            })
            .table();
        let peak = Table::of("The server's memory, most of all rounds", [&self.peak])
            .judged("MiB", |peak| peak.iter().flat_map(|peak| peak.cells(1)))
            .table();
        let honest = Table::of("An honest client beside them; medians", &self.honest)
            .text("direction", |d| d.name)
            .number(("limit", "Mbit/s"), 0, |d| d.limit_mbps)
            .number(("alone", "Mbit/s"), 0, |d| median(&d.alone_mbps))
            .number(("beside them", "Mbit/s"), 0, |d| median(&d.beside_mbps))
            .judged("ratio", |d| d.ratio.iter().flat_map(|ratio| ratio.cells(3)))
            .table();
        let together = self.together.iter().flat_map(Together::tables);
        [memory, peak, honest].into_iter().chain(together).collect()
    }
}
