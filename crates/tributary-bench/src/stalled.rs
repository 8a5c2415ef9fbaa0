//! Connections through the proxy whose application or target has stopped reading: what they cost the others.
//!
//! Both ends of the proxy run as programs, connected by one emulated radio. In each round a download, an upload and
//! small requests are measured alone and beside stalled downloads and uploads, in alternating order. The applications
//! and the target are in `parties`.

mod parties;

use clap::Args;
use core::time::Duration;
use tributary_cli::quantity;

use serde::Serialize;
use tributary_emu::{Audit, Network, Side};
use tributary_link::{LinkSpec, PathSpec, Scenario};
use tributary_report::Table;
use tributary_types::Bitrate;

use crate::proxy::rig::Rig;
use crate::{BenchError, Expectation, Judged, Progress, Tables, audited, in_network, median, middle};
use parties::Application;

/// Base round-trip time, and the queue in front of the radio.
const RTT: Duration = Duration::from_millis(20);
const QUEUE: Duration = Duration::from_millis(25);
/// Default `--buffer` of the proxy, ms.
const BUFFER_MS: u64 = 200;
/// Time for the stalled connections to take whatever they can get, and to end.
const FILL: Duration = Duration::from_secs(6);
/// Small requests of each kind.
const REQUESTS: u32 = 20;
/// Least share of the rate alone; a small request may take two round trips and this many ms.
const RATE_AIM: f64 = 0.95;
const REQUEST_AIM_MS: f64 = 50.0;

/// Proxied connections that stop reading, in both directions: the rate of others beside them and the time of small
/// requests.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Rounds; each measures alone and beside stalled connections
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(2..=100))]
    pub rounds: u32,
    /// Measured seconds of each transfer
    #[arg(long, default_value_t = 4.0, value_parser = quantity::part_seconds_in(1.0..=60.0))]
    pub seconds: f64,
    /// Stalled downloads, and as many stalled uploads
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(0..=500))]
    pub stalled: u32,
    /// Rate of the radio, Mbit/s
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub mbps: u32,
}

/// What was measured alone or beside stalled connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Transfers {
    /// Goodput of a download, Mbit/s.
    pub download_mbps: f64,
    /// Goodput of an upload, Mbit/s.
    pub upload_mbps: f64,
    /// Durations of small requests beside an idle radio, ms; one that failed counts as 5 s.
    pub requests_ms: Vec<f64>,
    /// The same beside a download.
    pub busy_requests_ms: Vec<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// Without stalled connections.
    pub alone: Transfers,
    pub beside: Transfers,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The settings.
    pub stalled: u32,
    /// The radio's rate, Mbit/s.
    pub mbps: u32,
    pub rounds: Vec<Round>,
    /// Goodput beside stalled connections over that alone: a download and an upload.
    pub goodput: [Judged; 2],
    /// Median duration of a small request beside them, ms: without and with a download.
    pub request_ms: [Judged; 2],
    /// The emulator's audit of every round.
    pub audits: Vec<Audit>,
}

pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let directory = tempfile::tempdir().map_err(|error| crate::failed("a directory for a key", error))?;
    let scenario = Scenario::new("stalled")
        .with_path(PathSpec::symmetric("radio", LinkSpec::constant(Bitrate::from_mbps(settings.mbps.into()))))
        .with_rtt(RTT)
        .with_queue_time(QUEUE)
        .with_duration(Duration::from_secs_f64(10.0 * settings.seconds) + 10 * FILL);
    let (mut rounds, mut audits) = (Vec::new(), Vec::new());
    for number in 1..=settings.rounds {
        progress(&format!("round {number} of {}", settings.rounds));
        let (round, audit) = in_network(&scenario, &mut *progress, |network| {
            let rig = Rig::start(network, directory.path(), (BUFFER_MS, 0))?;
            round(settings, network, rig, number % 2 == 0)
        })?;
        rounds.push(round);
        audits.push(audit);
    }
    Ok(Report::new(settings, rounds, audits))
}

fn round(settings: &Settings, network: &Network, rig: Rig, stalled_first: bool) -> Result<Round, BenchError> {
    let entrance = rig.entrance();
    let failed = |error: std::io::Error| crate::failed("an application of the proxy", error);
    let target = parties::Target::start(rig.target).map_err(failed)?;
    let application = Application { entrance, target: &target, seconds: settings.seconds };
    let measured = |stalled: u32| {
        let measured = network.run(Side::Client, || application.transfers(stalled))?;
        measured.map_err(failed)
    };
    Ok(if stalled_first {
        let beside = measured(settings.stalled)?;
        Round { alone: measured(0)?, beside }
    } else {
        Round { alone: measured(0)?, beside: measured(settings.stalled)? }
    })
}

impl Report {
    fn new(settings: &Settings, rounds: Vec<Round>, audits: Vec<Audit>) -> Self {
        let of = |which: fn(&Round) -> f64| rounds.iter().map(which).collect::<Vec<f64>>();
        let rate = Expectation::AtLeast(RATE_AIM);
        let request = Expectation::AtMost(2.0 * RTT.as_secs_f64() * 1e3 + REQUEST_AIM_MS);
        Self {
            stalled: settings.stalled,
            mbps: settings.mbps,
            goodput: [
                Judged::ratio(&of(|r| r.beside.download_mbps), &of(|r| r.alone.download_mbps), rate),
                Judged::ratio(&of(|r| r.beside.upload_mbps), &of(|r| r.alone.upload_mbps), rate),
            ],
            request_ms: [
                Judged::median(&of(|r| median(&r.beside.requests_ms)), request),
                Judged::median(&of(|r| median(&r.beside.busy_requests_ms)), request),
            ],
            rounds,
            audits,
        }
    }
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let title = format!(
            "{} stalled downloads and {} stalled uploads beside a radio of {} Mbit/s, RTT {} ms; medians of {} rounds",
            self.stalled,
            self.stalled,
            self.mbps,
            RTT.as_millis(),
            self.rounds.len()
        );
        let [download, upload] = &self.goodput;
        let [idle, busy] = &self.request_ms;
        type Of = fn(&Transfers) -> f64;
        let rows: [(&str, Of, &Judged); 4] = [
            ("download, Mbit/s; ratio", |measured| measured.download_mbps, download),
            ("upload, Mbit/s; ratio", |measured| measured.upload_mbps, upload),
            ("small request, ms", |measured| median(&measured.requests_ms), idle),
            ("small request beside a download, ms", |measured| median(&measured.busy_requests_ms), busy),
        ];
        let table = Table::of(&title, &rows)
            .text("", |(name, ..)| *name)
            .number("alone", 1, |(_, of, _)| middle(&self.rounds, |round| of(&round.alone)))
            .number("beside", 1, |(_, of, _)| middle(&self.rounds, |round| of(&round.beside)))
            .judged("value", |(.., ratio)| audited(&self.audits, ratio, 3))
            .table();
        vec![table]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    fn round(beside_mbps: f64, request_ms: f64) -> Round {
        let measured = |mbps, ms| Transfers {
            download_mbps: mbps,
            upload_mbps: mbps,
            requests_ms: vec![ms; 3],
            busy_requests_ms: vec![ms; 3],
        };
        Round { alone: measured(90.0, 45.0), beside: measured(beside_mbps, request_ms) }
    }

    fn judged(beside_mbps: f64, request_ms: f64) -> (Verdict, Verdict) {
        let rounds = vec![round(beside_mbps, request_ms); 5];
        let report = Report::new(&crate::defaults(), rounds, Vec::new());
        assert_eq!(report.tables().len(), 1);
        (report.goodput[0].verdict, report.request_ms[1].verdict)
    }

    #[test]
    fn lost_rate_and_late_answers_fail() {
        assert_eq!(judged(89.0, 60.0), (Verdict::Holds, Verdict::Holds));
        assert_eq!(judged(80.0, 91.0), (Verdict::Fails, Verdict::Fails));
        assert_eq!(judged(0.0, 5000.0).0, Verdict::Fails);
    }
}
