//! The cost of the eBPF controllers beside the kernel's cubic: processor time for each gigabyte and throughput over
//! veth pairs, which have no queue that fills, so that all controllers carry as much as the processors can.
//!
//! Processor time is that of both ends together: with veth pairs, part of the receiver's protocol work runs in the
//! sender's time, and the other way round.

use super::Settings;
use crate::controllers::Controllers;
use crate::end::{CONGESTION, Contestant, Until};
use crate::process::{Transfer, prepare_mptcp};
use crate::{BenchError, Progress, median};
use crate::{Expectation, Judged};
use serde::Serialize;
use std::ffi::OsStr;
use tributary_emu::{Side, VethNetwork};
use tributary_report::{Column, Table, TableCell};

/// Paths between the namespaces.
const PATHS: usize = 2;
/// A stalled transfer of kernel MPTCP is repeated at most this many times.
const STALLS: u32 = 3;
/// Transfers of cubic, and as many of the controller, in each round, in turns. Even, so that both begin equally often.
const TURNS: usize = 4;
/// Most processor time for each gigabyte, over cubic's.
const CPU: Expectation = Expectation::AtMost(1.03);
/// Least throughput, over cubic's.
const THROUGHPUT: Expectation = Expectation::AtLeast(0.98);

/// One controller under one transport, beside cubic.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// The transport.
    pub transport: String,
    /// The controller, without the prefix of its name in the kernel.
    pub control: String,
    /// Its throughput over cubic's.
    pub throughput: Judged,
    /// Its processor time for each gigabyte over cubic's.
    pub cpu: Judged,
    /// Gbit/s in each round: all its transfers together.
    pub gbps: Vec<f64>,
    /// The same of cubic.
    pub cubic_gbps: Vec<f64>,
    /// Processor seconds of both ends for each gigabyte, in each round.
    pub cpu_per_gb: Vec<f64>,
    /// The same of cubic.
    pub cubic_cpu_per_gb: Vec<f64>,
    /// Transfers of MPTCP that stalled and were repeated. This happens occasionally to writers of kernel MPTCP, with
    /// every controller.
    pub stalls: u32,
}

/// The measurements of one control.
#[derive(Default)]
struct Series {
    control: String,
    gbps: Vec<f64>,
    cpu_per_gb: Vec<f64>,
    stalls: u32,
    /// The round that is not over.
    now: Sum,
}

/// The transfers of one control in one round.
#[derive(Clone, Copy, Default)]
struct Sum {
    gigabytes: f64,
    seconds: f64,
    cpu_seconds: f64,
}

impl Series {
    fn new(control: &str) -> Self {
        Self { control: control.to_owned(), ..Self::default() }
    }

    fn end_round(&mut self) {
        let sum = core::mem::take(&mut self.now);
        self.gbps.push(sum.gigabytes * 8.0 / sum.seconds);
        self.cpu_per_gb.push(sum.cpu_seconds / sum.gigabytes);
    }
}

/// One connection without siblings, two subflows that are siblings by their mark, and two by their MPTCP token.
/// Without TLS, so that a difference between controllers is the largest share of the whole.
fn contestants() -> [Contestant; 3] {
    [Contestant::of("tcp"), Contestant::plaintext(), Contestant::of("mptcp")]
}

pub(super) fn run(
    settings: &Settings,
    loaded: &Controllers,
    progress: Progress<'_>,
) -> Result<Vec<Cost>, BenchError> {
    let mut costs = Vec::new();
    for contestant in contestants() {
        for control in loaded.names() {
            let mut pair = [Series::new(CONGESTION), Series::new(control)];
            for round in 1..=settings.cost_rounds {
                let name = format!("{}, {control}", contestant.label());
                progress(&format!("{name}: round {round} of {}", settings.cost_rounds));
                for _ in 0..TURNS {
                    for series in &mut pair {
                        transfer(&contestant, loaded, (series, settings.cost_seconds), &mut *progress)?;
                    }
                    // The other one begins next time, so that a change of the machine's speed meets both.
                    pair.reverse();
                }
                pair.iter_mut().for_each(Series::end_round);
            }
            let [cubic, ours] = pair;
            costs.push(Cost::new(&contestant, ours, &cubic));
        }
    }
    Ok(costs)
}

/// One transfer, once more if kernel MPTCP stalled.
fn transfer(
    contestant: &Contestant,
    loaded: &Controllers,
    (series, seconds): (&mut Series, f64),
    progress: Progress<'_>,
) -> Result<(), BenchError> {
    while let Err(error) = one(contestant, loaded, series, seconds) {
        if !contestant.is_mptcp() || series.stalls >= STALLS {
            return Err(error);
        }
        series.stalls += 1;
        progress(&format!("{error}: once more"));
    }
    Ok(())
}

/// One transfer in new namespaces.
fn one(
    contestant: &Contestant,
    loaded: &Controllers,
    series: &mut Series,
    seconds: f64,
) -> Result<(), BenchError> {
    let network = VethNetwork::create(PATHS)?;
    if contestant.is_mptcp() {
        prepare_mptcp(&network)?;
    }
    let command = |side: Side, program: &OsStr| network.command(side, program);
    let (congestion, until) = (loaded.in_kernel(&series.control), Until::Seconds(seconds));
    let contestant = contestant.clone();
    let transfer =
        Transfer { command: &command, paths: 0..PATHS, contestant, congestion: &congestion, until };
    let (source, sink) = transfer.run()?;
    series.now.gigabytes += sink.bytes as f64 / 1e9;
    series.now.seconds += sink.seconds;
    series.now.cpu_seconds += source.cpu_seconds + sink.cpu_seconds;
    Ok(())
}

impl Cost {
    fn new(contestant: &Contestant, ours: Series, cubic: &Series) -> Self {
        Self {
            transport: contestant.label(),
            throughput: Judged::ratio(&ours.gbps, &cubic.gbps, THROUGHPUT),
            cpu: Judged::ratio(&ours.cpu_per_gb, &cubic.cpu_per_gb, CPU),
            control: ours.control,
            gbps: ours.gbps,
            cubic_gbps: cubic.gbps.clone(),
            cpu_per_gb: ours.cpu_per_gb,
            cubic_cpu_per_gb: cubic.cpu_per_gb.clone(),
            stalls: ours.stalls + cubic.stalls,
        }
    }
}

pub(super) fn table(costs: &[Cost]) -> Table {
    let title = "eBPF controllers beside the kernel's cubic; veth pairs, medians of the rounds' own ratios";
    let names = [Column::left("transport"), Column::left("controller")];
    let medians = [
        Column::right("goodput").unit("Gbit/s"),
        Column::right("cubic").unit("Gbit/s"),
        Column::right("CPU").unit("s/GB"),
        Column::right("cubic").unit("s/GB"),
    ];
    let ratios = Judged::columns("goodput ratio").into_iter().chain(Judged::columns("CPU ratio"));
    let mut table = Table::new(title).columns(names.into_iter().chain(medians).chain(ratios));
    for cost in costs {
        let names = [TableCell::text(&cost.transport), TableCell::text(&cost.control)];
        let medians = [
            TableCell::number(median(&cost.gbps), 2),
            TableCell::number(median(&cost.cubic_gbps), 2),
            TableCell::number(median(&cost.cpu_per_gb), 3),
            TableCell::number(median(&cost.cubic_cpu_per_gb), 3),
        ];
        let ratios = cost.throughput.cells(3).into_iter().chain(cost.cpu.cells(3));
        table.push(names.into_iter().chain(medians).chain(ratios));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    fn series(control: &str, gbps: f64, cpu: f64) -> Series {
        let rounds = [1.0, 2.0, 1.5, 1.2];
        Series {
            control: control.to_owned(),
            gbps: rounds.iter().map(|speed| speed * gbps).collect(),
            cpu_per_gb: rounds.iter().map(|speed| cpu / speed).collect(),
            ..Series::default()
        }
    }

    #[test]
    fn a_round_counts_all_its_transfers_together() {
        let mut series = Series::new("lia");
        for (gigabytes, seconds, cpu_seconds) in [(1.0, 1.0, 0.5), (3.0, 1.0, 0.7)] {
            series.now.gigabytes += gigabytes;
            series.now.seconds += seconds;
            series.now.cpu_seconds += cpu_seconds;
        }
        series.end_round();
        assert_eq!((series.gbps, series.cpu_per_gb), (vec![16.0], vec![0.3]));
    }

    #[test]
    fn a_controller_is_compared_with_cubic_in_the_same_round() {
        let cubic = series("cubic", 10.0, 0.5);
        let good = Cost::new(&Contestant::of("tcp"), series("lia", 9.9, 0.51), &cubic);
        assert_eq!((good.throughput.verdict, good.cpu.verdict), (Verdict::Holds, Verdict::Holds));
        let bad = Cost::new(&Contestant::of("tcp"), series("olia", 9.5, 0.55), &cubic);
        assert_eq!((bad.throughput.verdict, bad.cpu.verdict), (Verdict::Fails, Verdict::Fails));
        assert_eq!(table(&[good, bad]).len(), 2);
    }
}
