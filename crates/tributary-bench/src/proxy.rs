//! How much data the proxy takes from an application beyond what its radio carries, and the effect of SIGTERM
//! on an upload.
//!
//! Both ends run as programs, connected by one emulated radio. Buffers: the default of 200 ms at the measured
//! rate and one of 60 s, alternately. Signals: a complete upload and uploads in progress, with the signal to
//! either end.

pub mod http;
pub(crate) mod rig;

use clap::Args;
use core::time::Duration;
use std::path::Path;
use std::sync::mpsc::channel;
use tributary_cli::quantity;

use serde::Serialize;
use tributary_emu::{Audit, Network, Side};
use tributary_link::{LinkSpec, PathSpec, Scenario};
use tributary_report::{Table, stats};
use tributary_types::Bitrate;

use super::{BenchError, Expectation, Judged, Progress, Tables, audited, in_network, median, middle};
use rig::{Clock, Curtain, Ending, Queues, Rig};

/// The buffers compared, in ms at the measured rate: the default, and one that hardly limits.
const BUFFERS: [u64; 2] = [200, 60_000];
/// The steady rate is measured from this time on, seconds.
const STEADY: f64 = 2.0;
/// Goodput with the short buffer over that with the long one.
const GOODPUT_AIM: Expectation = Expectation::AtLeast(0.98);
/// 95th percentile of the data taken ahead with the short buffer, ms.
const AHEAD_AIM: Expectation = Expectation::AtMost(BUFFERS[0] as f64);
/// Time beyond the drain that the help text of `--drain` allows.
const BEYOND: Duration = Duration::from_secs(2);
/// Time beyond its limit after which a program is killed.
const STUCK: Duration = Duration::from_secs(20);

/// The proxy's buffering: how many bytes it accepts ahead of its radio, and what SIGTERM does to an upload.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Rounds; each case runs once per round
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Seconds of each upload that is not interrupted
    #[arg(long, default_value_t = 10.0, value_parser = quantity::part_seconds_in(4.0..=60.0))]
    pub seconds: f64,
    /// The radio's rate, Mbit/s
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub mbps: u32,
}

/// Results of one upload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Upload {
    /// Goodput at the target, Mbit/s.
    pub goodput_mbps: f64,
    /// Bytes accepted from the application in the first second and not delivered in it.
    pub swallowed: u64,
    /// Longest time between two writes of the application after the first second, ms.
    pub longest_gap_ms: f64,
    /// Data accepted from the application and not yet sent to the radio, including the application's own
    /// socket; as time at the goodput, ms: median.
    pub ahead_ms: f64,
    /// The same, 95th percentile.
    pub ahead_p95_ms: f64,
    /// Data held by the proxy's processes: accepted from the application, not delivered, and in no socket's
    /// queue; as time at the goodput, ms: median.
    pub held_ms: f64,
    /// The same, 95th percentile.
    pub held_p95_ms: f64,
    /// Time from an application's write to the target's read, ms: median.
    pub age_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Buffered {
    pub buffer_ms: u64,
    pub uploads: Vec<Upload>,
    /// The emulator's audit of every round.
    pub audits: Vec<Audit>,
}

/// Outcome of an upload at SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// The target read every byte and the end.
    Delivered,
    /// The application got a reset.
    Reset,
    /// Neither: an error.
    Lost,
}

/// One SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ended {
    /// Bytes that the application had written.
    pub written: u64,
    /// Bytes that the target read.
    pub delivered: u64,
    /// The outcome.
    pub fate: Fate,
    /// Time from the signal to the process's exit, seconds.
    pub exit_s: f64,
    /// Its exit code; `None` if it had to be killed.
    pub code: Option<i32>,
}

/// A kind of upload, and the end that gets the signal.
#[derive(Clone, Debug, Serialize)]
pub struct Signalled {
    /// Name of the case.
    pub case: &'static str,
    /// `--drain` plus two seconds.
    pub bound_s: f64,
    pub ends: Vec<Ended>,
    /// The emulator's audit of every round.
    pub audits: Vec<Audit>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The radio's rate, Mbit/s.
    pub mbps: u32,
    /// The short buffer and the long one.
    pub buffers: Vec<Buffered>,
    /// The goodput with the short buffer over that with the long one.
    pub goodput_ratio: Judged,
    /// 95th percentile of the data taken ahead with the short buffer, ms.
    pub ahead_ms: Judged,
    /// Uploads that were ended by a signal.
    pub signals: Vec<Signalled>,
}

/// The end that gets the signal, and whether the upload is endless.
const CASES: [(&str, Side, bool); 3] = [
    ("all written, signal to connect", Side::Client, false),
    ("goes on, signal to connect", Side::Client, true),
    ("goes on, signal to serve", Side::Server, true),
];

pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let directory = tempfile::tempdir().map_err(|error| crate::failed("a directory for a key", error))?;
    let longest = Duration::from_secs_f64(settings.seconds) + 2 * STUCK;
    let scenario = Scenario::new("proxy")
        .with_path(PathSpec::symmetric("radio", LinkSpec::constant(Bitrate::from_mbps(settings.mbps.into()))))
        .with_rtt(Duration::from_millis(20))
        .with_queue_time(Duration::from_millis(50))
        .with_duration(longest * 2);
    let mut buffers =
        BUFFERS.map(|buffer_ms| Buffered { buffer_ms, uploads: Vec::new(), audits: Vec::new() });
    let mut signals =
        CASES.map(|(case, ..)| Signalled { case, bound_s: 0.0, ends: Vec::new(), audits: Vec::new() });
    for round in 1..=settings.rounds {
        for buffered in &mut buffers {
            progress(&format!("--buffer {}ms, round {round} of {}", buffered.buffer_ms, settings.rounds));
            let (result, audit) = in_network(&scenario, &mut *progress, |network| {
                let rig = Rig::start(network, directory.path(), (buffered.buffer_ms, 0))?;
                upload(network, &rig, settings.seconds)
            })?;
            buffered.uploads.push(result);
            buffered.audits.push(audit);
        }
        for (signalled, (case, side, goes_on)) in signals.iter_mut().zip(CASES) {
            progress(&format!("{case}, round {round} of {}", settings.rounds));
            let ((ended, bound), audit) = in_network(&scenario, &mut *progress, |network| {
                signal(settings, network, directory.path(), (side, goes_on))
            })?;
            signalled.bound_s = bound.as_secs_f64();
            signalled.ends.push(ended);
            signalled.audits.push(audit);
        }
    }
    let each = |at: usize, of: fn(&Upload) -> f64| buffers[at].uploads.iter().map(of).collect::<Vec<_>>();
    let goodputs = |at| each(at, |upload| upload.goodput_mbps);
    Ok(Report {
        mbps: settings.mbps,
        goodput_ratio: Judged::ratio(&goodputs(0), &goodputs(1), GOODPUT_AIM),
        ahead_ms: Judged::median(&each(0, |upload| upload.ahead_p95_ms), AHEAD_AIM),
        buffers: buffers.into(),
        signals: signals.into(),
    })
}

/// An upload of an application that writes without end.
fn upload(network: &Network, rig: &Rig, seconds: f64) -> Result<Upload, BenchError> {
    let clock = Clock::new();
    let (entrance, listener) = ((rig.entrance(), u64::MAX), &rig.target);
    std::thread::scope(|scope| {
        let curtain = Curtain(&clock);
        let target = scope.spawn(|| rig::target(listener, &clock));
        let application =
            scope.spawn(|| network.run(Side::Client, || rig::application(entrance, &clock, || ())));
        let near = scope.spawn(|| network.run(Side::Client, || rig::queues(&clock)));
        let far = scope.spawn(|| network.run(Side::Server, || rig::queues(&clock)));
        std::thread::sleep(Duration::from_secs_f64(seconds));
        drop(curtain);
        let (taken, _) = application.join().expect(NO_PANIC)?;
        let (delivered, _) = target.join().expect(NO_PANIC);
        let queues = [near.join().expect(NO_PANIC)?, far.join().expect(NO_PANIC)?];
        Ok(figures(&taken, &delivered, [&queues[0], &queues[1]]))
    })
}

/// Sends SIGTERM to one end during an upload; returns the outcome and the time that the help text allows.
fn signal(
    settings: &Settings,
    network: &Network,
    directory: &Path,
    (side, goes_on): (Side, bool),
) -> Result<(Ended, Duration), BenchError> {
    // A complete upload takes three seconds; an endless one is cut after two.
    let drain_s = if goes_on { 2 } else { 10 };
    let bytes = if goes_on { u64::MAX } else { u64::from(settings.mbps) * 1_000_000 / 8 * 3 };
    let bound = Duration::from_secs(drain_s) + BEYOND;
    let mut rig = Rig::start(network, directory, (BUFFERS[0], drain_s))?;
    let entrance = (rig.entrance(), bytes);
    let clock = Clock::new();
    let Rig { server, client, target } = &mut rig;
    let (target, clock) = (&*target, &clock);
    std::thread::scope(|scope| {
        let curtain = Curtain(clock);
        let (written, all_written) = channel();
        let reading = scope.spawn(move || rig::target(target, clock));
        let writing = scope.spawn(move || {
            network.run(Side::Client, || {
                rig::application(entrance, clock, || {
                    let _ = written.send(());
                })
            })
        });
        if goes_on {
            std::thread::sleep(Duration::from_secs_f64(STEADY));
        } else {
            // If this takes too long, the application fails, and the outcome shows it.
            let _ = all_written.recv_timeout(STUCK);
        }
        let program = if side == Side::Client { client } else { server };
        let (exit, code) = program.terminate(bound + STUCK);
        // A reset takes a moment to arrive; do not wait for an end that never comes.
        let since = clock.seconds();
        while !(reading.is_finished() && writing.is_finished())
            && clock.seconds() < since + BEYOND.as_secs_f64()
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(curtain);
        let (taken, told) = writing.join().expect(NO_PANIC)?;
        let (read, end) = reading.join().expect(NO_PANIC);
        let (written, delivered) = (total(&taken), total(&read));
        let fate = match (written == delivered && end == Ending::Orderly, told) {
            (true, Ending::Orderly) => Fate::Delivered,
            (_, Ending::Reset) => Fate::Reset,
            _ => Fate::Lost,
        };
        Ok((Ended { written, delivered, fate, exit_s: exit.as_secs_f64(), code }, bound))
    })
}

const NO_PANIC: &str = "what runs beside a measurement does not panic";

fn total(log: &[(f64, u64)]) -> u64 {
    log.last().map_or(0, |(_, bytes)| *bytes)
}

/// The bytes that had passed at a time.
fn at(log: &[(f64, u64)], seconds: f64) -> u64 {
    let after = log.partition_point(|(at, _)| *at <= seconds);
    after.checked_sub(1).map_or(0, |last| log[last].1)
}

fn figures(taken: &[(f64, u64)], delivered: &[(f64, u64)], [near, far]: [&[Queues]; 2]) -> Upload {
    let end = delivered.last().map_or(STEADY, |(at, _)| *at).max(STEADY + 1e-3);
    let rate = (at(delivered, end) - at(delivered, STEADY)) as f64 / (end - STEADY);
    let to_ms = |bytes: f64| bytes / rate.max(1.0) * 1e3;
    let gaps = taken.windows(2).filter(|pair| pair[1].0 > 1.0).map(|pair| (pair[1].0 - pair[0].0) * 1e3);
    let waiting = |seconds| at(taken, seconds) as f64 - at(delivered, seconds) as f64;
    let samples = || near.iter().filter(|sample| (STEADY..end).contains(&sample.at_s));
    let ahead: Vec<f64> =
        samples().map(|sample| to_ms((waiting(sample.at_s) - sample.on_the_way as f64).max(0.0))).collect();
    let in_far_sockets = |seconds| {
        let after = far.partition_point(|sample| sample.at_s <= seconds);
        after.checked_sub(1).map_or(0, |last| far[last].all)
    };
    let held: Vec<f64> = samples()
        .map(|sample| {
            let in_sockets = sample.all + in_far_sockets(sample.at_s);
            to_ms((waiting(sample.at_s) - in_sockets as f64).max(0.0))
        })
        .collect();
    let written_at = |bytes: u64| taken.get(taken.partition_point(|(_, sum)| *sum < bytes));
    let ages: Vec<f64> = delivered
        .iter()
        .filter(|(seconds, _)| (STEADY..end).contains(seconds))
        .filter_map(|(seconds, bytes)| Some((seconds - written_at(*bytes)?.0) * 1e3))
        .collect();
    Upload {
        goodput_mbps: rate * 8e-6,
        swallowed: at(taken, 1.0) - at(delivered, 1.0),
        longest_gap_ms: gaps.fold(0.0, f64::max),
        ahead_ms: median(&ahead),
        ahead_p95_ms: stats::percentile(&ahead, 95.0).unwrap_or(f64::NAN),
        held_ms: median(&held),
        held_p95_ms: stats::percentile(&held, 95.0).unwrap_or(f64::NAN),
        age_ms: median(&ages),
    }
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        vec![self.buffers(), self.bounds(), self.signals()]
    }
}

impl Report {
    fn buffers(&self) -> Table {
        let title = format!(
            "An application writes without end over {} Mbit/s, 20 ms; medians of the rounds",
            self.mbps
        );
        let middle = |of: fn(&Upload) -> f64| move |buffered: &Buffered| middle(&buffered.uploads, of);
        Table::of(&title, &self.buffers)
            .text("--buffer", |buffered| format!("{} ms", buffered.buffer_ms))
            .number(("goodput", "Mbit/s"), 2, middle(|upload| upload.goodput_mbps))
            .strong()
            .number(
                ("taken ahead in the first second", "kB"),
                0,
                middle(|upload| upload.swallowed as f64 / 1e3),
            )
            .number(("longest gap between writes", "ms"), 0, middle(|upload| upload.longest_gap_ms))
            .number(("not yet on its way", "ms"), 0, middle(|upload| upload.ahead_ms))
            .number(("p95", "ms"), 0, middle(|upload| upload.ahead_p95_ms))
            .number(("of it in the proxy's memory, p95", "ms"), 0, middle(|upload| upload.held_p95_ms))
            .number(("write to read", "ms"), 0, middle(|upload| upload.age_ms))
            .table()
    }

    fn bounds(&self) -> Table {
        let title = format!("Bounds of --buffer {} ms, over the rounds", BUFFERS[0]);
        let audits: Vec<Audit> = self.buffers.iter().flat_map(|of| of.audits.clone()).collect();
        let bounds = [
            ("goodput over that of the long buffer", &self.goodput_ratio, 3),
            ("not yet on its way, p95, ms", &self.ahead_ms, 0),
        ];
        Table::of(&title, bounds)
            .text("figure", |(what, ..)| what)
            .judged("measured", |(_, judged, decimals)| audited(&audits, judged, decimals))
            .table()
    }

    fn signals(&self) -> Table {
        let each = |of: fn(&Ended) -> String| {
            move |signalled: &Signalled| signalled.ends.iter().map(of).collect::<Vec<_>>().join(", ")
        };
        let fate = |end: &Ended| match end.fate {
            Fate::Delivered => "delivered".to_owned(),
            Fate::Reset => "reset".to_owned(),
            Fate::Lost => "LOST".to_owned(),
        };
        let code = |end: &Ended| end.code.map_or_else(|| "killed".to_owned(), |code| code.to_string());
        Table::of("SIGTERM in an upload; every round", &self.signals)
            .text("upload", |signalled| signalled.case)
            .text(
                "delivered of written, kB",
                each(|end| format!("{} of {}", end.delivered / 1000, end.written / 1000)),
            )
            .text("what became of it", each(fate))
            .text("exit codes", each(code))
            .number(("longest exit", "s"), 2, |signalled| {
                stats::maximum(&signalled.ends.iter().map(|end| end.exit_s).collect::<Vec<_>>())
            })
            .number(("allowed", "s"), 0, |signalled| signalled.bound_s)
            .judged("lost, or too late", |Signalled { bound_s, ends, audits, .. }| {
                let bad = |end: &&Ended| end.fate == Fate::Lost || end.exit_s > *bound_s;
                let bad = ends.iter().filter(bad).count();
                audited(audits, &Judged::count(bad as f64, Expectation::AtMost(0.0)), 0)
            })
            .table()
    }
}

#[cfg(test)]
mod tests {
    use super::rig::Log;
    use super::*;

    #[test]
    fn bytes_ahead_in_flight_and_held_are_counted_apart() {
        // 1 MB/s is delivered. From the first second on the application is 300 kB ahead; 100 kB of that are
        // in sockets, 70 kB of these on the way to the radio.
        let delivered: Log =
            (0..=100).map(|tenth| (f64::from(tenth) / 10.0, 100_000 * tenth as u64)).collect();
        let ahead = |(at, bytes): &(f64, u64)| (*at, bytes + 300_000);
        let taken: Log = delivered.iter().map(ahead).collect();
        let queues = |all, on_the_way| -> Vec<Queues> {
            delivered.iter().map(|(at_s, _)| Queues { at_s: *at_s, all, on_the_way }).collect()
        };
        let upload = figures(&taken, &delivered, [&queues(80_000, 70_000)[..], &queues(20_000, 0)]);
        assert!(
            (upload.goodput_mbps - 8.0).abs() < 1e-9 && (upload.held_ms - 200.0).abs() < 1e-6,
            "{upload:?}"
        );
        assert!((upload.ahead_ms - 230.0).abs() < 1e-6, "{upload:?}");
        assert!((upload.age_ms - 300.0).abs() < 1e-6 && (upload.longest_gap_ms - 100.0).abs() < 1e-6);
        assert_eq!(upload.swallowed, 300_000);
        assert_eq!(figures(&[], &[], [&[], &[]]).swallowed, 0);
    }
}
