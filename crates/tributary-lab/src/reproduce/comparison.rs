//! Transports over any network, with one of five workloads. A long network is sampled: each seed's run begins at another
//! time of it.
//!
//! The axis `workload` names the workload. `within`, such as `120 s`, is the part of the scenario in which runs begin and
//! end; without it all begin at its start. Media are sized by what all paths of the scenario carry on average, so that
//! the transport decides their quality. Not here: which transports, the ranking ([`crate::compare`]). Simulator only.

use super::matrix::{Cell, CellError, failed, number};
use super::own::{self, Given};
use super::ows::elsewhere::{self, Elsewhere};
use super::runner::Experiment;
use super::sample::{Metric, Sample};
use crate::cell::Queue;
use crate::result::World;
use crate::simulate::Simulation;
use core::fmt;
use core::time::Duration;
use std::str::FromStr;
use tributary_link::{Direction, Scenario, WorkloadSpec};
use tributary_player::abr::Ladder;
use tributary_player::dash::play::{Qoe, Settings, Title};
use tributary_report::stats;
use tributary_sim::run::{Options, SimRun, TransportName, model_version};
use tributary_sim::workload::FlowRecord;
use tributary_sim::workload::dash::{Control, DashSpec};
use tributary_types::{Bitrate, DataSize, Instant};

/// The metrics.
const METRICS: [Metric; 18] = [
    Metric::new("seconds", "Mbit/s", "goodput of every whole second but the first"),
    Metric::new("capacity", "Mbit/s", "capacity of all links in each of these seconds"),
    Metric::new("goodput", "Mbit/s", "mean goodput"),
    Metric::new("worst_second", "Mbit/s", "the worst whole second"),
    Metric::new("silence", "ms", "longest time without a byte in order"),
    Metric::new("sent_again", "%", "payload bytes sent again on another path"),
    Metric::new("object_mean", "ms", "mean time of an object, from the request to its last byte"),
    Metric::new("object_p95", "ms", "95th percentile of this time"),
    Metric::new("message_p50", "ms", "median latency of messages"),
    Metric::new("message_p99", "ms", "99th percentile of the latency"),
    Metric::new("messages_late", "%", "messages that missed their deadline"),
    Metric::new("quality", "dB", "mean quality of the viewport"),
    Metric::new("late", "%", "share of the viewport whose tiles were requested and not in time"),
    Metric::new("left_out", "%", "share of the viewport whose tiles were not requested"),
    Metric::new(
        "qoe",
        "Mbit/s",
        "bitrate, less switches and less stalls at the highest bitrate, per segment",
    ),
    Metric::new("media_rate", "Mbit/s", "mean bitrate of the segments"),
    Metric::new("stalled", "s", "time of all stalls, without the start-up delay"),
    Metric::new("start_up", "s", "from the request for the first segment to the first picture"),
];

/// Version of the workloads here. Increased with every change after which the same cell gives a different result.
const VERSION: u32 = 1;
/// Fraction of the golden ratio: its multiples are spread evenly over an interval, however many there are.
const GOLDEN: f64 = 0.618_033_988_749_894_9;
/// An object of a page or an update.
const OBJECT: DataSize = DataSize::from_bytes(500_000);
const PAUSE: Duration = Duration::from_millis(200);
/// Controls and head movement with a deadline, 0.5 Mbit/s.
const MESSAGES_PER_SECOND: f64 = 100.0;
const MESSAGE: DataSize = DataSize::from_bytes(600);
const DEADLINE: Duration = Duration::from_millis(100);
/// Bitrates of the DASH title as shares of what the network carries on average.
const LADDER: [f64; 9] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0];
const SEGMENT: Duration = Duration::from_secs(2);
/// When the title is requested.
const BEFORE: Duration = Duration::from_secs(1);

/// What is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workload {
    /// As many bytes as arrive.
    #[default]
    Bulk,
    /// Tiled 360° video, as the product plays it.
    Tiles,
    /// A DASH title.
    Dash,
    /// Messages with a deadline.
    Messages,
    /// One object after the other.
    Objects,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Bulk, Self::Tiles, Self::Dash, Self::Messages, Self::Objects];

    /// Shortest and longest useful run, in seconds.
    #[must_use]
    pub const fn seconds(self) -> (u32, u32) {
        match self {
            Self::Tiles => (elsewhere::LEAST_SECONDS + 1, elsewhere::MOST_SECONDS),
            Self::Dash => (10, 86_400),
            Self::Bulk | Self::Messages | Self::Objects => (3, 86_400),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bulk => "bulk",
            Self::Tiles => "tiles",
            Self::Dash => "dash",
            Self::Messages => "messages",
            Self::Objects => "objects",
        })
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(|one| one.to_string()).join(", ");
        Self::ALL
            .into_iter()
            .find(|one| one.to_string() == text)
            .ok_or_else(|| format!("unknown workload `{text}`; known: {}", known()))
    }
}

/// The experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Comparison<'a> {
    /// The scheduler of the transports [`own::OWN`].
    pub own: Given<'a>,
}

/// Settings of a cell.
struct Setting {
    workload: Workload,
    network: Scenario,
    transport: TransportName,
    congestion: String,
    /// What all paths of the whole scenario carry towards the client on average, bit/s.
    capacity: f64,
}

impl Experiment for Comparison<'_> {
    fn name(&self) -> &'static str {
        "comparison"
    }

    fn metrics(&self) -> &[Metric] {
        &METRICS
    }

    fn identity(&self, cell: &Cell) -> String {
        match setting(cell, self.own) {
            // By the network's contents, so that results move with a file and do not outlive a change of it.
            Ok(Setting { workload, network, transport, congestion, capacity }) => {
                let models = model_version(&transport.to_string());
                let own = own::identity(self.own, cell);
                format!(
                    "{VERSION} models {models} {workload} {transport} {congestion} {capacity} {network:?}{own}"
                )
            }
            Err(_) => cell.identity(),
        }
    }

    fn check(&self, cell: &Cell) -> Result<(), CellError> {
        own::check(self.own, cell, &setting(cell, self.own)?.run())
    }

    fn measure(&self, cell: &Cell) -> Result<Sample, CellError> {
        let setting = setting(cell, self.own)?;
        match setting.workload {
            Workload::Bulk | Workload::Messages | Workload::Objects => setting.transfer(cell, self.own),
            Workload::Dash => setting.dash(cell, self.own),
            Workload::Tiles => {
                let watched = Elsewhere {
                    transport: &setting.transport.to_string(),
                    viewer: cell.seed,
                    capacity: setting.capacity / 8.0,
                    network: setting.network,
                };
                watched.watch().map_err(failed)
            }
        }
    }
}

/// Mean capacity of all paths towards the client, bit/s.
#[must_use]
pub fn capacity(scenario: &Scenario) -> f64 {
    let end = Instant::ZERO + scenario.duration;
    let bytes = |path| scenario.capacity(path, Direction::Down, Instant::ZERO, end).as_bytes() as f64;
    (0..scenario.paths.len()).map(bytes).sum::<f64>() * 8.0 / scenario.duration.as_secs_f64()
}

fn setting(cell: &Cell, given: Given<'_>) -> Result<Setting, CellError> {
    if cell.world == World::Emu {
        return Err(failed("this comparison runs in the simulator: leave out --world emu"));
    }
    let workload: Workload = cell.label("workload").parse().map_err(failed)?;
    let (least, most) = workload.seconds();
    if !(least..=most).contains(&cell.seconds) {
        return Err(failed(format!("{workload} needs runs of {least} to {most} s, not {} s", cell.seconds)));
    }
    let scenario = cell.scenario()?;
    let capacity = capacity(&scenario);
    let network = cell.conditions(scenario.begun_at(begin(cell)?))?;
    if workload == Workload::Dash && !network.link_events().is_empty() {
        return Err(failed(
            "`absent` is not modelled for DASH: use `dead` in the scenario, or another workload",
        ));
    }
    let transport = own::transport(given, cell, &network.path_names())?;
    if workload == Workload::Tiles && own::OWN.contains(&cell.label("transport")) {
        return Err(failed("tiles take a scheduler by name only: leave yours out, or take another workload"));
    }
    let network = cell.queue()?.of(network);
    Ok(Setting { workload, network, transport, congestion: cell.label("congestion").to_owned(), capacity })
}

/// How far into the scenario the run begins.
fn begin(cell: &Cell) -> Result<Duration, CellError> {
    let text = cell.label("within");
    if text.is_empty() {
        return Ok(Duration::ZERO);
    }
    let span = number(text, "s").filter(|seconds| *seconds <= 604_800.0);
    let span = span.ok_or_else(|| cell.refused("within", "a time such as 120 s"))?;
    let spare = (span - f64::from(cell.seconds)).max(0.0);
    Ok(Duration::from_millis((spare * (cell.seed as f64 * GOLDEN).fract() * 1e3) as u64))
}

impl Setting {
    fn workloads(&self) -> Vec<WorkloadSpec> {
        vec![match self.workload {
            Workload::Messages => WorkloadSpec::Messages {
                per_second: MESSAGES_PER_SECOND,
                size: MESSAGE,
                priority: 7,
                deadline: Some(DEADLINE),
            },
            Workload::Objects => WorkloadSpec::Object { size: OBJECT, count: 100_000, pause: PAUSE },
            Workload::Bulk | Workload::Tiles | Workload::Dash => WorkloadSpec::Bulk { size: None },
        }]
    }

    fn run(&self) -> SimRun {
        SimRun {
            scenario: self.network.clone(),
            transport: self.transport.clone(),
            congestion: self.congestion.clone(),
            workloads: self.workloads(),
            options: Options::default(),
        }
    }

    fn transfer(&self, cell: &Cell, given: Given<'_>) -> Result<Sample, CellError> {
        let simulation = Simulation::new(self.run(), Queue::Scenario);
        let (result, outcome) = own::simulate(given, cell, |own, watch| simulation.run_watched(own, watch))?;
        let mut sample = Sample { event_log_hash: Some(result.virtual_time.hash), ..Sample::default() };
        sample.set("silence", result.longest_silence_ms);
        sample.set("sent_again", result.duplicates_percent);
        if let Some(goodput) = &result.goodput {
            let capacity = goodput.capacity_per_second_mbps.get(goodput.skipped_seconds..);
            sample.series("seconds", goodput.measured().to_vec());
            sample.series("capacity", capacity.unwrap_or_default().to_vec());
            sample.set("goodput", Some(goodput.mean_mbps));
            sample.set("worst_second", Some(goodput.worst_second_mbps));
        }
        for flow in outcome.flows() {
            match self.workload {
                Workload::Objects => objects(&mut sample, flow),
                Workload::Messages => messages(&mut sample, flow),
                Workload::Bulk | Workload::Tiles | Workload::Dash => {}
            }
        }
        Ok(sample)
    }

    fn dash(&self, cell: &Cell, given: Given<'_>) -> Result<Sample, CellError> {
        let rate = |share: f64| Bitrate::from_bps((self.capacity * share) as u64 + (share * 1e3) as u64 + 1);
        let ladder = Ladder::new(SEGMENT, LADDER.map(rate).to_vec()).map_err(failed)?;
        let highest = ladder.bitrate(ladder.top()) / 1e6;
        let segments = self.network.duration.as_secs() / SEGMENT.as_secs() + 60; // longer than the run
        let spec = DashSpec {
            title: Title {
                ladder: ladder.clone(),
                later: Vec::new(),
                segments: vec![SEGMENT; segments as usize],
            },
            settings: Settings::default(),
            rule: "dynamic".to_owned(),
            from: Instant::ZERO + BEFORE,
            control: Control::None,
        };
        let outcome = own::simulate(given, cell, |own, watch| self.run().run_dash_own(&spec, own, watch))?;
        let mut sample =
            Sample { event_log_hash: Some(format!("{:016x}", outcome.hash)), ..Sample::default() };
        let whole = self.network.duration.saturating_sub(BEFORE).as_secs_f64();
        // A playback that did not begin waited at least as long as the run lasted.
        let start_up = outcome.start_up.map_or(whole, |time| time.as_secs_f64());
        sample.set("start_up", Some(start_up));
        let qoe = outcome.qoe.as_ref();
        let stalled = qoe.map_or(0.0, |qoe| qoe.stalled_s);
        sample.set("stalled", Some(stalled));
        let rates: Vec<f64> = qoe.map_or(Vec::new(), |qoe| rates(qoe, &ladder));
        sample.set("media_rate", Some(stats::mean(&rates).unwrap_or(0.0)));
        sample.set("qoe", Some(linear_qoe(&rates, start_up + stalled, highest)));
        Ok(sample)
    }
}

/// Bitrate of each segment, Mbit/s.
fn rates(qoe: &Qoe, ladder: &Ladder) -> Vec<f64> {
    qoe.segments.iter().map(|loaded| ladder.bitrate(loaded.quality) / 1e6).collect()
}

/// Yin et al., SIGCOMM 2015, eq. 5, per segment: bitrates, less the sizes of their changes, less the waiting time times the
/// highest bitrate.
fn linear_qoe(rates: &[f64], waited: f64, highest: f64) -> f64 {
    let changes: f64 = rates.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum();
    (rates.iter().sum::<f64>() - changes - highest * waited) / rates.len().max(1) as f64
}

/// Times of objects. The one that is being loaded counts with the time that it has taken.
fn objects(sample: &mut Sample, flow: &FlowRecord) {
    let took = flow.completions.iter().map(|done| done.took).chain(flow.pending);
    let took: Vec<f64> = took.map(|took| took.as_secs_f64() * 1e3).collect();
    sample.set("object_mean", stats::mean(&took));
    sample.set("object_p95", stats::percentile(&took, 95.0));
}

/// Latencies of messages. Those that did not arrive, which are the last, count with their age at the end.
fn messages(sample: &mut Sample, flow: &FlowRecord) {
    let arrived = flow.latencies.iter().map(|latency| latency.as_secs_f64() * 1e3);
    let missing = flow.made.saturating_sub(flow.latencies.len() as u64);
    let ages = (0..missing).map(|number| (number as f64 + 0.5) / MESSAGES_PER_SECOND * 1e3);
    let took: Vec<f64> = arrived.chain(ages).collect();
    sample.set("message_p50", stats::percentile(&took, 50.0));
    sample.set("message_p99", stats::percentile(&took, 99.0));
    sample.set("messages_late", Some(100.0 * flow.late as f64 / flow.made.max(1) as f64));
}

#[cfg(test)]
mod tests;
