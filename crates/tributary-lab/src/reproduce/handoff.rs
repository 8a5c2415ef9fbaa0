//! The handoff experiment as cells: a progressive HTTP video over two paths, the first of which is cut during
//! playback. Simulated here; with real parts in the emulator (`real.rs`). Axis `handoff`: `none`; `silent` (the first
//! path drops all packets, and neither end is told); `announced` (both ends are told). Axis `ahead`: how far the
//! player reads ahead. Source: Fujiwara et al., "Handoff Characterization of Multipath Video Streaming", §V.
//! Deviations: `docs/reproductions/handoff.md`.

mod real;

use core::time::Duration;

use super::matrix::{Cell, CellError, failed, time};
use super::runner::Experiment;
use super::sample::{Metric, Sample};
use crate::result::World;
use tributary_link::{Direction, Moment, Scenario, WorkloadSpec};
use tributary_player::progressive::{Film, Record, Settings};
use tributary_report::stats;
use tributary_sim::run::{LINK_SAMPLE, PathRecord, ProgressiveOutcome, SimRun, TransportName};
use tributary_sim::workload::progressive::ProgressiveSpec;
use tributary_types::{Instant, Rng};

/// The metrics.
const METRICS: [Metric; 33] = [
    Metric::new("underflows", "", "number of times that the clock reached a missing picture"),
    Metric::new("discards", "", "pictures that were incomplete at their play time"),
    Metric::new("shown", "%", "share of the due pictures that were shown"),
    Metric::new("pictures", "", "pictures shown"),
    Metric::new("simulated_underflows", "", "underflows of the simulated cell; emulator only"),
    Metric::new("simulated_discards", "", "discards of the simulated cell; emulator only"),
    Metric::new("simulated_pictures", "", "pictures shown in the simulated cell; emulator only"),
    Metric::new("simulated_second_after", "Mbit/s", "second_after of the simulated cell; emulator only"),
    Metric::new("stalls", "", "number of times that playback stopped to buffer again"),
    Metric::new("stalled", "s", "time of all stalls"),
    Metric::new("start_up", "s", "from the request to the first picture"),
    Metric::new("first", "Mbit/s", "throughput of the first flow, headers included"),
    Metric::new("second", "Mbit/s", "throughput of the second flow"),
    Metric::new("first_after", "Mbit/s", "throughput of the first flow after the handoff"),
    Metric::new("second_after", "Mbit/s", "throughput of the second flow after the handoff"),
    Metric::new("first_again", "", "segments retransmitted on the first flow"),
    Metric::new("second_again", "", "segments retransmitted on the second flow"),
    Metric::new("again", "", "segments retransmitted on both flows"),
    Metric::new("again_before", "", "segments retransmitted before the handoff"),
    Metric::new("again_share", "%", "retransmitted payload over payload sent for the first time"),
    Metric::new("reinjected", "", "segments sent again on the other path"),
    Metric::new("silence", "ms", "longest silence around the handoff, of a bulk download"),
    Metric::new("silence_excess", "ms", "silence less three base round trips of the second path and 50 ms"),
    Metric::new("first_rate", "Mbit/s", "mean rate of the first path's link"),
    Metric::new("first_rtt", "ms", "base round-trip time of the first path"),
    Metric::new("second_rate", "Mbit/s", "mean rate of the second path's link"),
    Metric::new("second_rtt", "ms", "base round-trip time of the second path"),
    Metric::new("film_size", "MB", "the video's size"),
    Metric::new("film_rate", "Mbit/s", "the video's bitrate"),
    Metric::new("film_time", "s", "the video's length"),
    Metric::new("cut", "s", "when the first path was cut"),
    Metric::new("first_seconds", "Mbit/s", "throughput of the first flow in every second"),
    Metric::new("second_seconds", "Mbit/s", "throughput of the second flow in every second"),
];

/// The first path is cut at a time within this part of the run.
const CUT: (f64, f64) = (0.4, 0.6);
/// Length of the bulk download that measures the longest silence, and the part of it within which the first path is
/// cut.
const BULK: Duration = Duration::from_secs(6);
const BULK_CUT: (f64, f64) = (2.0 / 6.0, 4.0 / 6.0);
/// Shorter silences are not recorded.
const UNRECORDED_MS: f64 = 20.0;
/// Payload of a full segment.
const SEGMENT: f64 = 1448.0;

/// The experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handoff;

/// How the first path ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    None,
    Silent,
    Announced,
}

impl Experiment for Handoff {
    fn name(&self) -> &'static str {
        "handoff"
    }

    fn metrics(&self) -> &[Metric] {
        &METRICS
    }

    fn congestion_note(&self) -> &'static str {
        "set on every socket"
    }

    fn check(&self, cell: &Cell) -> Result<(), CellError> {
        if cell.world == World::Emu {
            return real::check(cell);
        }
        let (run, _) = playback(cell)?;
        run.check().map_err(failed)
    }

    fn measure(&self, cell: &Cell) -> Result<Sample, CellError> {
        if cell.world == World::Emu {
            return real::measure(cell);
        }
        let (run, spec) = playback(cell)?;
        let cut = cut(cell, CUT, run.scenario.duration);
        let outcome = run.run_progressive(&spec).map_err(failed)?;
        let mut sample = Sample::default();
        let record = outcome.record.unwrap_or_default();
        noticed(&mut sample, &record);
        carried(&mut sample, &outcome, cut);
        described(&mut sample, &run.scenario, &spec.film);
        if ending(cell)? != Ending::None {
            sample.set("cut", Some(cut.as_secs_f64()));
            let silence = silence(cell)?;
            sample.set("silence", Some(silence));
            sample.set("silence_excess", Some(silence - 3.0 * rtt_ms(&run.scenario, 1) - 50.0));
        }
        Ok(sample)
    }
}

fn ending(cell: &Cell) -> Result<Ending, CellError> {
    match cell.label("handoff") {
        "none" => Ok(Ending::None),
        "silent" => Ok(Ending::Silent),
        "announced" => Ok(Ending::Announced),
        _ => Err(cell.refused("handoff", "none, silent or announced")),
    }
}

/// When the first path is cut: a time within a part of the run, chosen by the seed.
fn cut(cell: &Cell, (from, to): (f64, f64), length: Duration) -> Duration {
    let share = from + (to - from) * Rng::new(cell.seed).child("handoff").uniform();
    // In whole milliseconds, as in scenario files.
    Duration::from_millis((length.as_secs_f64() * share * 1e3) as u64)
}

/// The film, played over the cell's network.
fn playback(cell: &Cell) -> Result<(SimRun, ProgressiveSpec), CellError> {
    let length = Duration::from_secs(cell.seconds.into());
    let ahead = match cell.label("ahead") {
        "all" => None,
        label => time("ahead", label)?,
    };
    let settings = Settings { ahead, ..Settings::default() };
    Ok((run(cell, length, CUT)?, ProgressiveSpec { film: Film::paper(), settings }))
}

/// The cell's network, with the handoff within this part of the run.
fn network(cell: &Cell, length: Duration, part: (f64, f64)) -> Result<Scenario, CellError> {
    let mut network = cell.queue()?.of(cell.network()?.with_duration(length));
    if network.paths.len() != 2 {
        return Err(cell.refused("scenario", "a network of two paths"));
    }
    let gone = vec![(Moment::At(cut(cell, part, length)), Moment::Share(1.0))];
    match ending(cell)? {
        Ending::None => {}
        Ending::Silent => network.paths[0].dead = gone,
        Ending::Announced => network.paths[0].absent = gone,
    }
    Ok(network)
}

/// A simulated run of this length.
fn run(cell: &Cell, length: Duration, part: (f64, f64)) -> Result<SimRun, CellError> {
    let network = network(cell, length, part)?;
    let transport = TransportName::find(cell.label("transport"), cell.scheduler(), &network.path_names())
        .map_err(failed)?;
    Ok(SimRun::new(&network, &transport, cell.label("congestion"), &WorkloadSpec::Bulk { size: None }))
}

/// The longest silence around the handoff, in milliseconds, with a client that reads everything at once.
fn silence(cell: &Cell) -> Result<f64, CellError> {
    let run = run(cell, BULK, BULK_CUT)?;
    let paper = Film::paper();
    let film = Film { pictures: 10 * paper.pictures, ..paper }; // does not end within the run
    let settings = Settings { ahead: None, ..Settings::default() };
    let outcome = run.run_progressive(&ProgressiveSpec { film, settings }).map_err(failed)?;
    let cut = Instant::ZERO + cut(cell, BULK_CUT, BULK);
    let silences = outcome.arrivals.silences.iter().filter(|silence| silence.at + silence.length >= cut);
    let each = silences.map(|silence| silence.length.as_secs_f64() * 1e3);
    Ok(each.fold(UNRECORDED_MS, f64::max))
}

fn noticed(sample: &mut Sample, record: &Record) {
    let due = record.shown + record.discards;
    sample.set("underflows", Some(record.underflows as f64));
    sample.set("discards", Some(record.discards as f64));
    sample.set("pictures", Some(record.shown as f64));
    sample.set("shown", Some(100.0 * record.shown as f64 / due.max(1) as f64));
    sample.set("stalls", Some(record.stalls as f64));
    sample.set("stalled", Some(record.stalled.as_secs_f64()));
    sample.set("start_up", record.start_up.map(|time| time.as_secs_f64()));
}

/// Bytes carried and retransmitted by each flow.
fn carried(sample: &mut Sample, outcome: &ProgressiveOutcome, cut: Duration) {
    // The first whole step after the cut. Data that was in flight arrives before it.
    let step = cut.as_nanos().div_ceil(LINK_SAMPLE.as_nanos()) as usize + 1;
    let names = [
        ["first", "first_after", "first_again", "first_seconds"],
        ["second", "second_after", "second_again", "second_seconds"],
    ];
    let (mut again, mut before) = (0, 0);
    for (path, [all, after, flow, seconds]) in outcome.paths.iter().zip(names) {
        let PathRecord { delivered, retransmitted } = path;
        sample.set(all, mbps(delivered));
        sample.set(after, mbps(delivered.get(step..).unwrap_or_default()));
        let sum: u64 = retransmitted.iter().sum();
        sample.set(flow, Some(sum as f64 / SEGMENT));
        again += sum;
        before += retransmitted.iter().take(step).sum::<u64>();
        let second = (1_000 / LINK_SAMPLE.as_millis()) as usize;
        sample.series(seconds, delivered.chunks_exact(second).filter_map(mbps).collect());
    }
    sample.set("again", Some(again as f64 / SEGMENT));
    sample.set("again_before", Some(before as f64 / SEGMENT));
    sample.set("again_share", Some(100.0 * again as f64 / outcome.server.sent.max(1) as f64));
    sample.set("reinjected", Some(outcome.server.reinjected as f64 / SEGMENT));
}

/// Mean rate of bytes in steps of [`LINK_SAMPLE`].
fn mbps(steps: &[u64]) -> Option<f64> {
    let each: Vec<f64> = steps.iter().map(|bytes| *bytes as f64).collect();
    Some(stats::mean(&each)? * 8e-6 / LINK_SAMPLE.as_secs_f64())
}

/// The settings as they were used, for comparison with the paper's tables I and II.
fn described(sample: &mut Sample, network: &Scenario, film: &Film) {
    let end = Instant::ZERO + network.duration;
    // The network without the cut.
    let mut whole = network.clone();
    (whole.paths[0].dead, whole.paths[0].absent) = (Vec::new(), Vec::new());
    let names = [["first_rate", "first_rtt"], ["second_rate", "second_rtt"]];
    for (path, [rate, rtt]) in names.into_iter().enumerate() {
        let bytes = whole.capacity(path, Direction::Down, Instant::ZERO, end).as_bytes();
        sample.set(rate, Some(bytes as f64 * 8e-6 / network.duration.as_secs_f64()));
        sample.set(rtt, Some(rtt_ms(network, path)));
    }
    sample.set("film_size", Some(film.bytes() as f64 / 1e6));
    sample.set("film_rate", Some(film.bitrate.as_mbps_f64()));
    sample.set("film_time", Some(film.time_of(film.pictures).as_secs_f64()));
}

/// Round-trip time of a path with empty queues, the mean of its jitter included.
fn rtt_ms(network: &Scenario, path: usize) -> f64 {
    let path = &network.paths[path];
    let way = |direction: Direction| {
        let delay = &path.link(direction).delay;
        delay.base + delay.jitter / 2
    };
    (network.rtt + way(Direction::Down) + way(Direction::Up)).as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests;
