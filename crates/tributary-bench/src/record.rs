//! How true a recording is: emulated networks that are known are recorded, and transfers over the recording are compared with
//! transfers over the network itself, with kernel TCP on one path, kernel MPTCP and a session.
//!
//! Every round records anew, and each transfer over the recording follows one over the network. The queue of both is the same:
//! a recording does not have it. Not here: a radio's truth, which nobody knows.

use super::{BenchError, Expectation, Judged, Progress, Tables, failed, median};
use clap::Args;
use core::time::Duration;
use serde::Serialize;
use tributary_cli::quantity;
use tributary_emu::{Audit, Network};
use tributary_lab::record::{Options, Pace, emulated, fading, fixed};
use tributary_lab::{Queue, Run, Workload};
use tributary_link::{Direction, Scenario};
use tributary_proto::transport::TransportName;
use tributary_report::{Table, TableCell};
use tributary_types::Instant;

const TRANSPORTS: [&str; 3] = ["wifi", "mptcp", "fbdt"];
/// Goodput over the recording, over that over the network.
const REPLAY: Expectation = Expectation::Between(0.95, 1.05);
/// Error of a link's mean rate, per cent.
const RATE: Expectation = Expectation::Between(-5.0, 5.0);
/// Error of a link's delay in one direction, ms.
const DELAY: Expectation = Expectation::Between(-2.0, 2.0);
/// Queue of every link, ms at its present rate.
const QUEUE_MS: u64 = 50;
/// Recordings of a network whose emulator was not exact are repeated so often.
const ATTEMPTS: u32 = 3;

/// Record an emulated network that is known, and compare: its rates and delays, and transfers over the recording with transfers
/// over the network itself.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab bench record --rounds 7
  tributary-lab bench record --saturate --congestion cubic --json")]
pub struct Settings {
    /// Rounds; each records every network once
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// Seconds of each recording and each transfer
    #[arg(long, default_value_t = 12, value_parser = quantity::long_seconds_in(3..=600))]
    pub seconds: u64,
    /// Congestion control of every transfer
    #[arg(long, default_value = "bbr")]
    pub congestion: String,
    /// Record as `record --saturate` does
    #[arg(long)]
    pub saturate: bool,
}

/// One direction of a path, round by round.
#[derive(Clone, Debug, Serialize)]
pub struct LinkReport {
    pub network: String,
    pub path: String,
    pub direction: Direction,
    /// Error of the mean rate, per cent.
    pub rate: Vec<f64>,
    pub rate_error: Judged,
    /// Error of the delay half-way through, ms.
    pub delay: Vec<f64>,
    pub delay_error: Judged,
}

/// One transport over one network, round by round.
#[derive(Clone, Debug, Serialize)]
pub struct Replay {
    pub network: String,
    pub transport: String,
    /// Goodput over the network, and over its recording, Mbit/s.
    pub real_mbps: Vec<f64>,
    pub recorded_mbps: Vec<f64>,
    pub ratio: Judged,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub links: Vec<LinkReport>,
    pub replays: Vec<Replay>,
    /// Recordings and transfers whose last attempt the emulator found inexact.
    pub inexact: u32,
}

pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let length = Duration::from_secs(settings.seconds);
    let mut report = Report { links: Vec::new(), replays: Vec::new(), inexact: 0 };
    for truth in [fixed(length), fading(length)] {
        let recordings = (1..=settings.rounds)
            .map(|round| {
                progress(&format!("{}: recording {round} of {}", truth.name, settings.rounds));
                recorded(&truth, settings, &mut report.inexact)
            })
            .collect::<Result<Vec<Scenario>, BenchError>>()?;
        report.links.extend(links(&truth, &recordings));
        for name in TRANSPORTS {
            let transport = TransportName::find(name, None, &truth.path_names())
                .map_err(|unknown| failed("a transfer", unknown))?;
            let (mut real, mut again) = (Vec::new(), Vec::new());
            for (round, recording) in recordings.iter().enumerate() {
                progress(&format!("{}: {name}, round {} of {}", truth.name, round + 1, settings.rounds));
                for (network, into) in [(&truth, &mut real), (recording, &mut again)] {
                    let workload = Workload::Bulk { seconds: settings.seconds as f64 };
                    let run = Run::new(network, &transport, &settings.congestion, &workload);
                    let result = tributary_lab::run(&run.with_queue(Queue::Millis(QUEUE_MS)))?;
                    report.inexact += u32::from(!result.audit.valid);
                    into.extend(result.goodput.map(|goodput| goodput.mean_mbps));
                }
            }
            report.replays.push(Replay {
                network: truth.name.clone(),
                transport: name.to_owned(),
                ratio: Judged::ratio(&again, &real, REPLAY),
                real_mbps: real,
                recorded_mbps: again,
            });
        }
    }
    Ok(report)
}

/// What a recording writes, read again.
fn recorded(truth: &Scenario, settings: &Settings, inexact: &mut u32) -> Result<Scenario, BenchError> {
    let pace = if settings.saturate { Pace::Saturating } else { Pace::Light };
    let is_exact = |audit: &Audit| audit.verdict() == tributary_emu::Verdict::Valid;
    let mut attempt = 1;
    loop {
        let network = Network::start(truth)?;
        let options = Options { pace, ..Options::default() };
        let recording = emulated(&network, options).map_err(|error| failed("a recording", error))?;
        let exact = is_exact(&network.audit()?);
        if exact || attempt == ATTEMPTS {
            *inexact += u32::from(!exact);
            let written = recording.network("recorded", "", &[]);
            let text = written.ok_or_else(|| failed("a recording", "it is empty"))?.to_toml();
            return Ok(Scenario::parse(&text, "recorded.toml")?);
        }
        attempt += 1;
    }
}

fn links(truth: &Scenario, recordings: &[Scenario]) -> Vec<LinkReport> {
    let half = Instant::ZERO + truth.duration / 2;
    let each = |path: usize, direction: Direction| {
        let rate =
            |of: &Scenario| of.capacity(path, direction, Instant::ZERO, Instant::ZERO + truth.duration);
        let delay = |of: &Scenario| {
            (of.paths[path].link(direction).delay.base_at(half) + of.rtt / 2).as_secs_f64() * 1e3
        };
        let error =
            |of: &Scenario| 100.0 * (rate(of).as_bytes() as f64 / rate(truth).as_bytes() as f64 - 1.0);
        let rates: Vec<f64> = recordings.iter().map(error).collect();
        let delays: Vec<f64> = recordings.iter().map(|of| delay(of) - delay(truth)).collect();
        LinkReport {
            network: truth.name.clone(),
            path: truth.paths[path].name.clone(),
            direction,
            rate_error: Judged::median(&rates, RATE),
            rate: rates,
            delay_error: Judged::median(&delays, DELAY),
            delay: delays,
        }
    };
    let paths = 0..truth.paths.len();
    paths.flat_map(|path| [each(path, Direction::Down), each(path, Direction::Up)]).collect()
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let note = match self.inexact {
            0 => String::new(),
            some => format!("; {some} runs inexact"),
        };
        let way = |link: &LinkReport| TableCell::text(&format!("{:?}", link.direction).to_lowercase());
        let rates = Table::of(&format!("Mean rates of recordings; medians of the rounds{note}"), &self.links)
            .text("network", |link| &link.network)
            .text("path", |link| &link.path)
            .text("direction", way)
            .judged("error, %", |link| link.rate_error.cells(2))
            .table();
        let delays = Table::of("Delays of recordings; medians of the rounds", &self.links)
            .text("network", |link| &link.network)
            .text("path", |link| &link.path)
            .text("direction", way)
            .judged("error, ms", |link| link.delay_error.cells(2))
            .table();
        let title = format!("Goodput over the recording and over the network; medians of the rounds{note}");
        let replays = Table::of(&title, &self.replays)
            .text("network", |replay| &replay.network)
            .text("transport", |replay| &replay.transport)
            .number(("network", "Mbit/s"), 1, |replay| median(&replay.real_mbps))
            .number(("recording", "Mbit/s"), 1, |replay| median(&replay.recorded_mbps))
            .judged("ratio", |replay| replay.ratio.cells(3))
            .table();
        vec![rates, delays, replays]
    }
}
