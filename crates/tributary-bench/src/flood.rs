//! The cost of a flood of unauthenticated connections for honest clients and a running stream.
//!
//! Two emulated radios with a round trip of 100 ms lead to one listener. One carries an endless stream; over
//! the other twenty clients connect, lose their connections and come back, again and again. Phases with and
//! without a flood alternate. The flood comes from 65 536 addresses on the server's own loopback, so that it
//! loads the server and not a link.

pub mod frames;
mod parties;

use clap::Args;
use core::time::Duration;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::Instant;
use tributary_cli::quantity;

use serde::Serialize;
use tributary_emu::{Audit, Network, Side};
use tributary_link::{LinkSpec, PathSpec, Scenario};
use tributary_report::{Column, FEWEST, Table, TableCell, stats};
use tributary_types::Bitrate;

use super::{BenchError, Expectation, Interval, Judged, Progress, Tables, audited};

/// Honest clients at the same time, each with its own address.
pub const HONEST_CLIENTS: u8 = 20;
/// Base round-trip time of both radios.
const RTT: Duration = Duration::from_millis(100);
/// Rates of the stream's radio and of the honest clients', Mbit/s.
const RATES: [u64; 2] = [100, 20];
/// Time at the beginning of a phase that is not measured, because of effects of the previous phase.
const SETTLE: Duration = Duration::from_secs(1);
/// Time for the server to listen and the stream to reach its radio's rate.
const START: Duration = Duration::from_secs(10);
/// Share of honest attempts that succeed.
const HONEST: Expectation = Expectation::AtLeast(0.99);
/// The stream's rate over that without a flood.
const STREAM: Expectation = Expectation::AtLeast(0.95);

/// A flood of connections that never authenticate: its effect on honest clients 100 ms away and on a running stream.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Rounds; each has a phase with the flood and one without
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=100))]
    pub rounds: u32,
    /// Measured seconds of each phase
    #[arg(long, default_value_t = 6.0, value_parser = quantity::part_seconds_in(2.0..=60.0))]
    pub seconds: f64,
    /// Connections of the flood each second
    #[arg(long, default_value_t = 3200, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub per_second: u32,
    /// Measure instead the longest round trip of a session beside two that have the key and send these frames without end
    #[arg(
        long,
        value_name = "settings|pieces|pings",
        hide_possible_values = true,
        conflicts_with = "per_second"
    )]
    pub hostile: Option<frames::Hostile>,
}

/// Honest attempts of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Attempts {
    /// Number of attempts.
    pub made: u64,
    /// Durations of the successful ones in ms, including the clients' own work.
    pub took_ms: Vec<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Phase {
    /// Whether the flood was on.
    pub flooded: bool,
    /// The stream's goodput, Mbit/s.
    pub stream_mbps: f64,
    /// Connections of the flood per second.
    pub flood_per_second: f64,
    /// Opening a session.
    pub connects: Attempts,
    /// Coming back after all connections broke.
    pub rejoins: Attempts,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Every phase, in order.
    pub phases: Vec<Phase>,
    /// Share of connects that succeeded within four seconds during the flood.
    pub connects: Share,
    /// As `connects`.
    pub rejoins: Share,
    /// The stream's goodput with the flood over that without it.
    pub ratio: Judged,
    /// The emulator's audit.
    pub audit: Audit,
}

/// A share with its interval over all attempts (Wilson 1927); none with fewer than five phases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// Number of successes.
    pub good: u64,
    /// Number of attempts.
    pub of: u64,
    pub share: Judged,
}

impl Share {
    fn of(attempts: &[&Attempts]) -> Self {
        let of: u64 = attempts.iter().map(|attempts| attempts.made).sum();
        let good: u64 = attempts.iter().map(|attempts| attempts.took_ms.len() as u64).sum();
        let (n, z) = ((of as f64).max(1.0), 1.96_f64);
        let value = good as f64 / n;
        let centre = (value + z * z / (2.0 * n)) / (1.0 + z * z / n);
        let half = z / (1.0 + z * z / n) * (value * (1.0 - value) / n + z * z / (4.0 * n * n)).sqrt();
        let interval = Interval { low: (centre - half).max(0.0), high: (centre + half).min(1.0) };
        let enough = attempts.len() >= FEWEST;
        Self { good, of, share: Judged::new(value, enough.then_some(interval), HONEST) }
    }
}

/// State shared by the parties.
#[derive(Debug, Default)]
struct Scene {
    over: AtomicBool,
    flooding: AtomicBool,
    /// Number of changes of `flooding`. Attempts during which it changed belong to no phase.
    change: AtomicU64,
    /// Bytes of the stream that have arrived.
    received: AtomicU64,
    /// Connections of the flood.
    flooded: AtomicU64,
    /// Attempts of the present phase.
    connects: Mutex<Attempts>,
    rejoins: Mutex<Attempts>,
}

/// Stops all parties when dropped, also after an error.
struct Curtain<'a>(&'a Scene);

impl Drop for Curtain<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Relaxed);
    }
}

pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let phase = Duration::from_secs_f64(settings.seconds) + SETTLE;
    let radio = |(name, mbps)| PathSpec::symmetric(name, LinkSpec::constant(Bitrate::from_mbps(mbps)));
    let scenario = Scenario::new("flood")
        .with_path(radio(("stream", RATES[0])))
        .with_path(radio(("clients", RATES[1])))
        .with_rtt(RTT)
        .with_queue_time(Duration::from_millis(50))
        .with_duration(phase * 2 * settings.rounds + 6 * START);
    let network = Network::start(&scenario)?;
    parties::give_addresses(&network)?;
    let (scene, network) = (&Scene::default(), &network);
    let phases = std::thread::scope(|scope| {
        let curtain = Curtain(scene);
        let (tell, listening) = channel();
        scope.spawn(move || network.run(Side::Server, || parties::serve(scene, tell)));
        let failed = |reason: &str| crate::failed("the server", reason);
        let addresses = listening.recv_timeout(START).map_err(|_| failed("it does not listen"))?;
        let [stream, clients, local] = addresses[..] else { return Err(failed("an address is missing")) };
        scope.spawn(move || network.run(Side::Client, || parties::watch(scene, stream)));
        scope.spawn(move || network.run(Side::Client, || parties::visit(scene, clients)));
        let per_second = settings.per_second;
        scope.spawn(move || network.run(Side::Server, || parties::flood(scene, local, per_second)));
        let began = Instant::now();
        while scene.received.load(Relaxed) == 0 {
            if began.elapsed() > START {
                return Err(failed("no stream came up"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(START / 2);
        let phases = conduct(settings, scene, progress);
        drop(curtain);
        Ok(phases)
    })?;
    let of = |which: fn(&Phase) -> &Attempts| {
        Share::of(&phases.iter().filter(|phase| phase.flooded).map(which).collect::<Vec<_>>())
    };
    let ratios: Vec<f64> = phases.chunks(2).filter_map(ratio).collect();
    Ok(Report {
        connects: of(|phase| &phase.connects),
        rejoins: of(|phase| &phase.rejoins),
        ratio: Judged::median(&ratios, STREAM),
        audit: network.audit()?,
        phases,
    })
}

/// The ratio of the stream's goodput with and without the flood in one round.
fn ratio(round: &[Phase]) -> Option<f64> {
    let of = |flooded| round.iter().find(|phase| phase.flooded == flooded).map(|phase| phase.stream_mbps);
    Some(of(true)? / of(false)?)
}

/// Turns the flood on and off; the order changes from round to round.
fn conduct(settings: &Settings, scene: &Scene, progress: Progress<'_>) -> Vec<Phase> {
    let mut phases = Vec::new();
    for round in 0..settings.rounds {
        for flooded in [round % 2 == 1, round % 2 == 0] {
            let what = if flooded { "flood" } else { "no flood" };
            progress(&format!("round {} of {}: {what}", round + 1, settings.rounds));
            scene.flooding.store(flooded, Relaxed);
            scene.change.fetch_add(1, Relaxed);
            std::thread::sleep(SETTLE);
            let count = || (scene.received.load(Relaxed), scene.flooded.load(Relaxed));
            let (began, before) = (Instant::now(), count());
            std::thread::sleep(Duration::from_secs_f64(settings.seconds));
            let (seconds, after) = (began.elapsed().as_secs_f64(), count());
            let taken = |attempts: &Mutex<Attempts>| std::mem::take(&mut *parties::lock(attempts));
            phases.push(Phase {
                flooded,
                stream_mbps: (after.0 - before.0) as f64 * 8e-6 / seconds,
                flood_per_second: (after.1 - before.1) as f64 / seconds,
                connects: taken(&scene.connects),
                rejoins: taken(&scene.rejoins),
            });
        }
    }
    phases
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let mut phases =
            Table::new("Medians over the phases; honest clients and stream at 100 ms").columns([
                Column::left("phase"),
                Column::right("flood").unit("1/s"),
                Column::right("stream").unit("Mbit/s"),
                Column::right("connects"),
                Column::right("failed"),
                Column::right("median").unit("ms"),
                Column::right("rejoins"),
                Column::right("failed"),
                Column::right("median").unit("ms"),
            ]);
        for (flooded, name) in [(false, "without"), (true, "with flood")] {
            let of: Vec<&Phase> = self.phases.iter().filter(|phase| phase.flooded == flooded).collect();
            let middle = |which: fn(&Phase) -> f64| {
                super::median(&of.iter().map(|phase| which(phase)).collect::<Vec<_>>())
            };
            let mut row = vec![
                TableCell::text(name),
                TableCell::number(middle(|phase| phase.flood_per_second), 0),
                TableCell::number(middle(|phase| phase.stream_mbps), 1).strong(),
            ];
            let kinds: [fn(&Phase) -> &Attempts; 2] = [|phase| &phase.connects, |phase| &phase.rejoins];
            for which in kinds {
                let attempts: Vec<&Attempts> = of.iter().map(|phase| which(phase)).collect();
                let share = Share::of(&attempts);
                let took: Vec<f64> = attempts.iter().flat_map(|attempts| attempts.took_ms.clone()).collect();
                row.push(TableCell::number(share.of as f64, 0));
                row.push(TableCell::number((share.of - share.good) as f64, 0));
                row.push(TableCell::optional_number(stats::median(&took), 0));
            }
            phases.push(row);
        }
        vec![phases, self.aims()]
    }
}

impl Report {
    fn aims(&self) -> Table {
        let audits = core::slice::from_ref(&self.audit);
        let aims = [
            ("honest connects that succeed", &self.connects.share),
            ("honest rejoins that succeed", &self.rejoins.share),
            ("the stream's goodput over that without a flood", &self.ratio),
        ];
        Table::of("During the flood", aims)
            .text("", |(name, _)| name)
            .judged("value", |(_, judged)| audited(audits, judged, 4))
            .table()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_five_phases_has_an_interval_even_when_all_succeed() {
        let attempts = Attempts { made: 80, took_ms: vec![300.0; 80] };
        let share = Share::of(&[&attempts; 5]);
        let interval = share.share.interval.unwrap();
        assert_eq!((share.good, share.of, share.share.value, interval.high), (400, 400, 1.0, 1.0));
        assert!((interval.low - 0.9905).abs() < 1e-3, "{share:?}");
        assert_eq!(Share::of(&[&attempts; 4]).share.interval, None);
        assert_eq!(Share::of(&[]).share.value, 0.0);
    }

    #[test]
    fn a_rounds_ratio_does_not_depend_on_the_order() {
        let phase = |flooded, stream_mbps| Phase { flooded, stream_mbps, ..Phase::default() };
        assert_eq!(ratio(&[phase(false, 80.0), phase(true, 76.0)]), Some(0.95));
        assert_eq!(ratio(&[phase(true, 76.0), phase(false, 80.0)]), Some(0.95));
        assert_eq!(ratio(&[phase(true, 76.0)]), None);
    }
}
