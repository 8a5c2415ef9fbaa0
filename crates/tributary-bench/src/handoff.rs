//! Handoff: a live video over two radios, which are lost in turn: each once with a link-down event, the next time
//! without one.
//!
//! A session that follows the interfaces and kernel MPTCP carry the same 5.24 Mbit/s at the same time over the same
//! two links of 18 Mbit/s, with round trips of 50 and 100 ms. Measured: the longest time without data around each
//! loss, what a player with a second of buffer notices, and how soon a change of an interface changes the session's
//! paths. Not here: the experiments of the handoff paper.

mod live;
mod player;

use super::{BenchError, Expectation, Judged, Progress, Tables, audited};
use clap::Args;
use core::time::Duration;
use live::Recording;
use player::{Frames, Playback};
use serde::Serialize;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;
use tributary_emu::{Audit, Network, Side};
use tributary_lab::kernel;
use tributary_link::{LinkSpec, Moment, PathSpec, Scenario};
use tributary_report::{Rows, Table, TableCell, stats};
use tributary_types::Bitrate;

const SESSION: &str = "session";
const MPTCP: &str = "mptcp";
const CONGESTION: &str = "cubic";
const PATHS: [&str; 2] = ["wifi", "lte"];
const RTT_MS: [u64; 2] = [50, 100];
const LINK_MBPS: u64 = 18;
/// A frame of a video of 5.24 Mbit/s and 25 frames a second.
const FRAME: usize = 26_200;
const FRAME_TIME: Duration = Duration::from_millis(40);
/// What the player holds.
const BUFFER: Duration = Duration::from_secs(1);
/// From one loss to the next, and how long each lasts.
const EVERY: Duration = Duration::from_secs(3);
const LOST: Duration = Duration::from_millis(1500);
/// Time before the first loss and after the last.
const MARGIN: Duration = Duration::from_secs(3);
/// Time for both streams to begin.
const START: Duration = Duration::from_secs(20);
/// Longest time without data, 99th percentile: three round trips of the longer path and 50 ms. Its interval needs 368 handoffs.
const GAP_MS: Expectation = Expectation::AtMost(3.0 * 100.0 + 50.0);
/// Every change of an interface must change the paths within this time.
const REACTION_MS: Expectation = Expectation::AtMost(100.0);

/// A live video over two radios that are lost in turns: times without data, late frames, and how soon a change of an
/// interface changes a session's paths; a session beside kernel MPTCP on the same links.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab bench handoff
  tributary-lab bench handoff --handoffs 8 --json > handoff.json")]
pub struct Settings {
    /// Losses, three seconds each; the 99th percentile of fewer than 368 has no interval
    #[arg(long, default_value_t = 384, value_parser = clap::value_parser!(u32).range(4..=2000))]
    pub handoffs: u32,
}

/// How a radio is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// The client's interface goes down and comes back.
    Announced,
    /// Packets are dropped in both directions, without a link-down event.
    Silent,
}

/// One loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Handoff {
    /// Since the beginning.
    pub at_s: f64,
    /// Which of the radios.
    pub path: &'static str,
    pub loss: Loss,
}

#[derive(Clone, Debug, Serialize)]
pub struct TransportReport {
    pub transport: &'static str,
    /// Longest time without data around each handoff, in milliseconds.
    pub gaps_ms: Vec<f64>,
    /// Frames that came too late for a player with a second of buffer.
    pub discards: u32,
    /// Times that the player ran out of frames.
    pub underflows: u32,
    /// Why its stream did not come to the end, if so.
    pub cut_short: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Every loss.
    pub handoffs: Vec<Handoff>,
    /// The session, then kernel MPTCP.
    pub transports: Vec<TransportReport>,
    /// From an interface's return to the beginning of a connection on it, in milliseconds.
    pub added_ms: Vec<f64>,
    /// From an interface's loss to the removal of its path.
    pub removed_ms: Vec<f64>,
    /// The emulator's audit.
    pub audit: Audit,
}

/// How many frames a stream of this length has.
fn frames(length: Duration) -> u32 {
    (length.as_millis() / FRAME_TIME.as_millis()) as u32
}

/// The radios are lost in turn: each first with a link-down event, the next time without one.
fn schedule(handoffs: u32) -> Vec<Handoff> {
    let one = |number: u32| Handoff {
        at_s: (MARGIN + EVERY * number).as_secs_f64(),
        path: PATHS[number as usize % 2],
        loss: if (number / 2).is_multiple_of(2) { Loss::Announced } else { Loss::Silent },
    };
    (0..handoffs).map(one).collect()
}

fn scenario(handoffs: &[Handoff], length: Duration) -> Scenario {
    let mut scenario = Scenario::new("handoff").with_duration(length);
    for (name, rtt) in PATHS.iter().zip(RTT_MS) {
        let mut link = LinkSpec::constant(Bitrate::from_mbps(LINK_MBPS));
        link.delay.base = Duration::from_millis(rtt) / 2;
        let mut path = PathSpec::symmetric(name, link);
        let silent = handoffs.iter().filter(|one| one.path == *name && one.loss == Loss::Silent);
        let dead = |at_s: f64| Moment::At(Duration::from_secs_f64(at_s));
        path.dead = silent.map(|one| (dead(one.at_s), dead(one.at_s + LOST.as_secs_f64()))).collect();
        scenario = scenario.with_path(path);
    }
    scenario
}

/// When interfaces were switched.
#[derive(Default)]
struct Switched {
    down: Vec<(Instant, &'static str)>,
    up: Vec<(Instant, &'static str)>,
}

pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let handoffs = schedule(settings.handoffs);
    let length = MARGIN * 2 + EVERY * settings.handoffs;
    let network = Network::start(&scenario(&handoffs, length))?;
    kernel::prepare_mptcp(&|side, program| network.command(side, program), &PATHS.map(str::to_owned))?;
    let failed =
        |end, reason: String| BenchError::Program { program: format!("{end} of the live stream"), reason };
    let network = &network;
    let (recordings, switched, origin) = std::thread::scope(|scope| {
        let (ready, servers) = channel();
        let _server = scope.spawn(move || network.run(Side::Server, || live::server(length, ready)));
        let servers = servers.recv_timeout(START);
        let servers = servers.map_err(|_| failed("source", "the server does not start".to_owned()))?;
        let (begun, first) = channel();
        let client = scope.spawn(move || network.run(Side::Client, || live::client(servers, length, begun)));
        for _ in [SESSION, MPTCP] {
            // A client that has failed reports the reason below.
            if first.recv_timeout(START) == Err(RecvTimeoutError::Disconnected) {
                break;
            }
        }
        network.rewind()?;
        let origin = Instant::now();
        let switched = if client.is_finished() {
            Ok(Switched::default())
        } else {
            switch(network, &handoffs, origin, progress)
        };
        let recordings = client.join().map_err(|_| failed("sink", "it panicked".to_owned()))??;
        Ok::<_, BenchError>((recordings.map_err(|reason| failed("sink", reason))?, switched?, origin))
    })?;
    let streams = [(SESSION, &recordings.0), (MPTCP, &recordings.1)];
    Ok(report(handoffs, streams, &switched, (origin, frames(length)), network.audit()?))
}

/// Takes interfaces down and up by the schedule.
fn switch(
    network: &Network,
    handoffs: &[Handoff],
    origin: Instant,
    progress: Progress<'_>,
) -> Result<Switched, BenchError> {
    let wait_until = |at_s: f64| {
        let at = origin + Duration::from_secs_f64(at_s);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        Instant::now()
    };
    let mut switched = Switched::default();
    for (number, handoff) in handoffs.iter().enumerate() {
        if number % 10 == 0 {
            progress(&format!("handoff {} of {}", number + 1, handoffs.len()));
        }
        if handoff.loss == Loss::Announced {
            switched.down.push((wait_until(handoff.at_s), handoff.path));
            network.set_link_state(Side::Client, handoff.path, false)?;
            switched.up.push((wait_until(handoff.at_s + LOST.as_secs_f64()), handoff.path));
            network.set_link_state(Side::Client, handoff.path, true)?;
        }
    }
    Ok(switched)
}

fn report(
    handoffs: Vec<Handoff>,
    streams: [(&'static str, &Recording); 2],
    switched: &Switched,
    (origin, count): (Instant, u32),
    audit: Audit,
) -> Report {
    let transports = streams.map(|(transport, recording)| {
        // Data that arrived before time zero belongs to the player's first frames.
        let at = |moment: Instant| {
            moment.saturating_duration_since(origin).as_secs_f64()
                - origin.saturating_duration_since(moment).as_secs_f64()
        };
        let arrivals: Vec<(f64, usize)> =
            recording.arrivals.iter().map(|(when, bytes)| (at(*when), *bytes)).collect();
        let times: Vec<f64> = arrivals.iter().map(|(at, _)| *at).collect();
        let gap =
            |one: &Handoff| 1e3 * stats::longest_silence(&times, one.at_s, one.at_s + EVERY.as_secs_f64());
        let per_second = (1_000 / FRAME_TIME.as_millis()) as u32;
        let frames = Frames { count, bytes: FRAME as u32, per_second };
        let Playback { discards, underflows } = player::play(&arrivals, frames, BUFFER);
        let gaps_ms = handoffs.iter().map(gap).collect();
        TransportReport { transport, gaps_ms, discards, underflows, cut_short: recording.cut_short.clone() }
    });
    let [(_, session), _] = streams;
    let (added_ms, removed_ms) =
        (reactions(&switched.up, &session.dialled), reactions(&switched.down, &session.removed));
    Report { handoffs, transports: transports.into(), added_ms, removed_ms, audit }
}

/// Time in milliseconds from each switch to the session's next action on that interface; the time to the next loss if
/// there is none.
fn reactions(switches: &[(Instant, &'static str)], done: &[(Instant, String)]) -> Vec<f64> {
    let one = |(at, name): &(Instant, &str)| {
        let next = done.iter().find(|(when, which)| when >= at && which == name);
        next.map_or(EVERY.as_secs_f64() * 1e3, |(when, _)| when.duration_since(*at).as_secs_f64() * 1e3)
    };
    switches.iter().map(one).collect()
}

impl Report {
    /// Gaps of one transport, of all losses or of one kind.
    fn gaps(&self, transport: &TransportReport, loss: Option<Loss>) -> Vec<f64> {
        let each = self.handoffs.iter().zip(&transport.gaps_ms);
        each.filter(|(one, _)| loss.is_none_or(|loss| one.loss == loss)).map(|(_, gap)| *gap).collect()
    }

    fn audited(&self, judged: &Judged, decimals: usize) -> [TableCell; 4] {
        audited(core::slice::from_ref(&self.audit), judged, decimals)
    }

    /// Adds the number of samples in ms, their median and 90th percentile, and what is judged.
    fn with_figures<'a, T: Copy>(
        &self,
        rows: Rows<T>,
        samples: impl Fn(T) -> &'a [f64],
        heading: &str,
        judge: impl Fn(&[f64]) -> Judged,
    ) -> Table {
        rows.number("number", 0, |row| samples(row).len() as f64)
            .number(("p50", "ms"), 1, |row| stats::median(samples(row)))
            .number(("p90", "ms"), 1, |row| stats::percentile(samples(row), 90.0))
            .judged(heading, |row| self.audited(&judge(samples(row)), 1))
            .table()
    }
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let kinds = [(Some(Loss::Announced), "announced"), (Some(Loss::Silent), "silent"), (None, "both")];
        let gaps: Vec<(&str, &str, Vec<f64>)> = self
            .transports
            .iter()
            .flat_map(|of| kinds.map(|(loss, words)| (of.transport, words, self.gaps(of, loss))))
            .collect();
        let title = "Longest time without data around a handoff; 5.24 Mbit/s, two links of 18 Mbit/s, cubic";
        let names = Table::of(title, &gaps)
            .text("transport", |(transport, ..)| *transport)
            .text("loss of a radio", |(_, words, _)| *words);
        let gaps = self.with_figures(
            names,
            |(.., samples)| samples,
            "p99, ms",
            |samples| Judged::percentile(samples, 99.0, GAP_MS),
        );
        let noticed = Table::of("What a player with 1 s of buffer notices", &self.transports)
            .text("transport", |transport| transport.transport)
            .number("discarded frames", 0, |transport| f64::from(transport.discards))
            .number("underflows", 0, |transport| f64::from(transport.underflows))
            .text("end of the stream", |transport| transport.cut_short.as_deref().unwrap_or("in order"))
            .judged("not in time", |transport| {
                let lost = transport.discards + u32::from(transport.cut_short.is_some());
                self.audited(&Judged::count(f64::from(lost), Expectation::AtMost(0.0)), 0)
            })
            .table();
        let changes = [
            ("it comes: a connection is begun", &self.added_ms),
            ("it goes: the path is removed", &self.removed_ms),
        ];
        let title = "From a change of an interface to a change of the session's paths";
        let names = Table::of(title, changes).text("change", |(words, _)| words);
        let reactions = self.with_figures(
            names,
            |(_, samples)| samples,
            "most, ms",
            |samples| Judged::most(samples, REACTION_MS),
        );
        vec![gaps, noticed, reactions]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_radio_is_lost_in_both_ways_and_never_both_at_once() {
        let handoffs = schedule(8);
        for path in PATHS {
            for loss in [Loss::Announced, Loss::Silent] {
                assert_eq!(handoffs.iter().filter(|one| one.path == path && one.loss == loss).count(), 2);
            }
        }
        assert!(handoffs.windows(2).all(|two| two[0].at_s + LOST.as_secs_f64() < two[1].at_s));
        let scenario = scenario(&handoffs, Duration::from_secs(60));
        assert!(scenario.check().is_ok());
        assert_eq!(scenario.paths.iter().map(|path| path.dead.len()).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn a_reaction_belongs_to_its_interface_and_comes_after_the_change() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let done = [(at(5), "lte".to_owned()), (at(12), "lte".to_owned()), (at(30), "wifi".to_owned())];
        let found = reactions(&[(at(10), "lte"), (at(10), "wifi"), (at(40), "wifi")], &done);
        assert!((found[0] - 2.0).abs() < 1e-6 && (found[1] - 20.0).abs() < 1e-6 && found[2] == 3000.0);
    }
}
