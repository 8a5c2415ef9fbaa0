//! Small objects on a warm connection over emulated links: the time of each, compared with the radios alone
//! and kernel MPTCP.
//!
//! With steady links the median is compared with that of the faster radio alone, with blockages the 99th
//! percentile with that of WiFi alone, which has no blockages.

use super::{BenchError, Expectation, Judged, Progress, Tables, bootstrap_rounds, median};
use clap::Args;
use core::time::Duration;
use serde::Serialize;
use tributary_lab::workload::{Record, Workload};
use tributary_lab::{Run, run as measure};
use tributary_link::Scenario;
use tributary_net::transport::TransportName;
use tributary_report::{Table, TableCell, stats};

const KIB_100: u64 = 100 << 10;
const MIB: u64 = 1 << 20;
/// Pause between an answer and the next request.
const PAUSE_MS: u64 = 50;

/// 100 KiB and 1 MiB objects on warm connections through emulated radios.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Rounds; each transport runs once per round
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Objects of each transport in each round
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    pub count: u32,
    /// Congestion control of every socket of both ends
    #[arg(long, default_value = "cubic")]
    pub congestion: String,
}

/// Base RTT of the radios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaseRtt {
    /// The same RTT on both, in milliseconds.
    Both(u64),
    /// WiFi 5 ms, WiGig 20 ms: the faster radio has the longer delay.
    FarWigig,
}

impl BaseRtt {
    fn label(self) -> String {
        match self {
            Self::Both(0) => "bare link".to_owned(),
            Self::Both(millis) => format!("{millis} ms"),
            Self::FarWigig => "WiFi 5, WiGig 20 ms".to_owned(),
        }
    }

    fn apply(self, scenario: Scenario) -> Scenario {
        match self {
            Self::Both(millis) => scenario.with_rtt(Duration::from_millis(millis)),
            Self::FarWigig => {
                let mut scenario = scenario.with_rtt(Duration::from_millis(5));
                for path in scenario.paths.iter_mut().filter(|path| path.name == "wigig") {
                    for link in [&mut path.down, &mut path.up] {
                        link.delay.base += Duration::from_micros(7_500);
                    }
                }
                scenario
            }
        }
    }
}

/// The comparison of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// Its median over that of the faster radio alone.
    MedianToFaster,
    /// 99th percentile over that of WiFi alone.
    P99ToWifi,
}

/// One condition of the benchmark.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Condition {
    pub scenario: &'static str,
    pub rtt: BaseRtt,
    /// Bytes of each object.
    pub size: u64,
    /// The comparison.
    pub statistic: Statistic,
    /// The largest allowed ratio.
    pub at_most: f64,
}

pub fn conditions() -> Vec<Condition> {
    let rtts = [BaseRtt::Both(0), BaseRtt::Both(5), BaseRtt::Both(20), BaseRtt::FarWigig];
    let mut all = Vec::new();
    for (size, at_most) in [(KIB_100, 1.2), (MIB, 0.9)] {
        let steady =
            |rtt| Condition { scenario: "los", rtt, size, statistic: Statistic::MedianToFaster, at_most };
        all.extend(rtts.map(steady));
    }
    for scenario in ["blackout", "deep-fade"] {
        let blocked =
            |rtt| Condition { scenario, rtt, size: KIB_100, statistic: Statistic::P99ToWifi, at_most: 1.1 };
        all.extend([BaseRtt::Both(5), BaseRtt::Both(20)].map(blocked));
    }
    all
}

/// Times of one transport in all rounds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Times {
    pub transport: String,
    pub rounds: Vec<Round>,
    /// Rounds that the emulator's audit calls invalid.
    pub invalid: u32,
}

/// The objects of one round.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Round {
    /// Time of each object in milliseconds; the time limit for one that did not finish.
    pub completion_ms: Vec<f64>,
    /// Objects that did not finish in time.
    pub unfinished: u32,
}

impl Times {
    /// The statistic of all objects of these rounds.
    fn figure(&self, statistic: Statistic, rounds: &[usize]) -> f64 {
        let of = || rounds.iter().filter_map(|round| self.rounds.get(*round));
        let times: Vec<f64> = of().flat_map(|round| &round.completion_ms).copied().collect();
        match statistic {
            Statistic::MedianToFaster => median(&times),
            Statistic::P99ToWifi => stats::percentile(&times, 99.0).unwrap_or(f64::NAN),
        }
    }
}

/// One condition measured.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub condition: Condition,
    /// Every transport: the radios alone, kernel MPTCP, the session.
    pub times: Vec<Times>,
    /// The session's ratio.
    pub ratio: Judged,
    /// The ratio of kernel MPTCP.
    pub mptcp_ratio: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Congestion control.
    pub congestion: String,
    pub rows: Vec<Row>,
}

/// Measures every condition.
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let rows = conditions().into_iter().map(|condition| row(settings, condition, progress));
    Ok(Report { congestion: settings.congestion.clone(), rows: rows.collect::<Result<_, _>>()? })
}

fn row(settings: &Settings, condition: Condition, progress: Progress<'_>) -> Result<Row, BenchError> {
    let names = ["wifi", "wigig", "mptcp", "fbdt"];
    let mut times = names.map(|name| Times { transport: name.to_owned(), ..Times::default() });
    for round in 1..=settings.rounds {
        for times in &mut times {
            let (scenario, rtt) = (condition.scenario, condition.rtt.label());
            progress(&format!(
                "{} KiB, {scenario}, {rtt}, {}, round {round} of {}",
                condition.size >> 10,
                times.transport,
                settings.rounds
            ));
            one(settings, condition, u64::from(round), times)?;
        }
    }
    let ratio = |name: &str, rounds: &[usize]| ratio(&times, condition.statistic, name, rounds);
    let all: Vec<usize> = (0..settings.rounds as usize).collect();
    let interval = bootstrap_rounds(all.len(), |drawn| ratio("fbdt", drawn));
    let ours = Judged::new(ratio("fbdt", &all), interval, Expectation::AtMost(condition.at_most));
    Ok(Row { condition, ratio: ours, mptcp_ratio: ratio("mptcp", &all), times: times.into() })
}

/// A transport's figure over that of the radio it is compared with, in these rounds.
fn ratio(times: &[Times], statistic: Statistic, name: &str, rounds: &[usize]) -> f64 {
    let of = |name: &str| times.iter().find(|t| t.transport == name).expect("all were measured");
    let figure = |name: &str| of(name).figure(statistic, rounds);
    let base = match statistic {
        Statistic::MedianToFaster => figure("wifi").min(figure("wigig")),
        Statistic::P99ToWifi => figure("wifi"),
    };
    figure(name) / base
}

fn one(settings: &Settings, condition: Condition, seed: u64, times: &mut Times) -> Result<(), BenchError> {
    let scenario = condition.rtt.apply(Scenario::builtin(condition.scenario)?.with_seed(seed));
    let found = TransportName::find(&times.transport, None, &scenario.path_names());
    let transport = found.expect("paths of every built-in scenario");
    // A radio that is blocked half of the time may take a second per object; others take far less.
    let limit = f64::from(settings.count) * 0.5 + 5.0;
    let workload =
        Workload::Object { size: condition.size, count: settings.count, pause_ms: PAUSE_MS, limit };
    let result = measure(&Run::new(&scenario, &transport, &settings.congestion, &workload))?;
    times.invalid += u32::from(!result.audit.valid);
    if let Record::Object(record) = result.record {
        let (mut completion_ms, unfinished) = (record.completion_ms, record.unfinished);
        completion_ms.extend((0..unfinished).map(|_| limit * 1e3));
        times.rounds.push(Round { completion_ms, unfinished });
    }
    Ok(())
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let steady = "Objects, steady links: median time of each, ratio to the faster radio alone";
        let blocked = "Objects under blockage: 99th percentile of the time of each, ratio to WiFi alone";
        vec![self.table(steady, Statistic::MedianToFaster), self.table(blocked, Statistic::P99ToWifi)]
    }
}

impl Report {
    fn table(&self, title: &str, statistic: Statistic) -> Table {
        let rows = self.rows.iter().filter(|row| row.condition.statistic == statistic);
        let transports = ["WiFi", "WiGig", "kernel MPTCP", "fbdt"].into_iter().enumerate();
        let names = Table::of(&format!("{title}; {}", self.congestion), rows)
            .text("object", |row| format!("{} KiB", row.condition.size >> 10))
            .text("scenario", |row| row.condition.scenario)
            .text("base RTT", |row| row.condition.rtt.label());
        transports
            .fold(names, |table, (at, name)| {
                table.number((name, "ms"), 1, |row| {
                    let times = &row.times[at];
                    times.figure(statistic, &(0..times.rounds.len()).collect::<Vec<_>>())
                })
            })
            .number("MPTCP ratio", 2, |row| row.mptcp_ratio)
            .judged("fbdt ratio", |row| {
                let invalid: u32 = row.times.iter().map(|times| times.invalid).sum();
                let [value, interval, wanted, verdict] = row.ratio.cells(2);
                let verdict = if invalid > 0 { TableCell::text("audit invalid").bad() } else { verdict };
                [value, interval, wanted, verdict]
            })
            .table()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn every_condition_is_a_scenario_with_both_radios() {
        for condition in conditions() {
            let scenario = condition.rtt.apply(Scenario::builtin(condition.scenario).unwrap());
            scenario.check().unwrap();
            assert!(scenario.path("wifi").is_some() && scenario.path("wigig").is_some());
        }
        let far = BaseRtt::FarWigig.apply(Scenario::builtin("los").unwrap());
        let near = Scenario::builtin("los").unwrap();
        let delay = |s: &Scenario| s.path("wigig").unwrap().1.down.delay.base;
        assert_eq!(delay(&far) - delay(&near), Duration::from_micros(7_500));
    }

    #[test]
    fn the_verdict_comes_from_the_rounds_interval() {
        let of = |transport: &str, ms: [f64; 5]| Times {
            transport: transport.to_owned(),
            rounds: ms.map(|ms| Round { completion_ms: vec![ms; 20], unfinished: 0 }).into(),
            invalid: 0,
        };
        let verdict = |ours| {
            let times = [of("wifi", [10.0; 5]), of("wigig", [20.0; 5]), of("fbdt", ours)];
            let ratio = |drawn: &[usize]| ratio(&times, Statistic::MedianToFaster, "fbdt", drawn);
            Judged::new(0.0, bootstrap_rounds(5, ratio), Expectation::AtMost(1.2)).verdict
        };
        assert_eq!(verdict([11.0; 5]), Verdict::Holds);
        assert_eq!(verdict([13.0; 5]), Verdict::Fails);
        assert_eq!(verdict([9.0, 11.0, 12.5, 13.0, 14.0]), Verdict::Undecided);
    }
}
