//! The cost of the eBPF controllers beside the kernel's cubic: processor time for each gigabyte and throughput over
//! veth pairs, which have no queue that fills, so that all controllers carry as much as the processors can.
//!
//! Processor time is that of both ends together: with veth pairs, part of the receiver's protocol work runs in the
//! sender's time, and the other way round.

use super::Settings;
use crate::controllers::Controllers;
use crate::end::{CONGESTION, Contestant};
use crate::process::over_veth_unless_stalled;
use crate::{BenchError, Progress, median};
use crate::{Expectation, Judged};
use serde::Serialize;
use tributary_report::Table;

/// Transfers of cubic, and as many of the controller, in each round, in turns. Even, so that both begin equally often.
const TURNS: usize = 4;
/// Most processor time for each gigabyte, over cubic's.
const CPU: Expectation = Expectation::AtMost(1.03);
/// Least throughput, over cubic's.
const THROUGHPUT: Expectation = Expectation::AtLeast(0.98);

/// One controller under one transport, beside cubic.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
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
    /// Transfers of MPTCP that stalled and were repeated.
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

/// One transfer in new namespaces.
fn transfer(
    contestant: &Contestant,
    loaded: &Controllers,
    (series, seconds): (&mut Series, f64),
    progress: Progress<'_>,
) -> Result<(), BenchError> {
    let control = loaded.in_kernel(&series.control);
    let ends = (contestant, control.as_str());
    let (source, sink) = over_veth_unless_stalled(ends, seconds, &mut series.stalls, progress)?;
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
    Table::of(title, costs)
        .text("transport", |cost| &cost.transport)
        .text("controller", |cost| &cost.control)
        .number(("goodput", "Gbit/s"), 2, |cost| median(&cost.gbps))
        .number(("cubic", "Gbit/s"), 2, |cost| median(&cost.cubic_gbps))
        .number(("CPU", "s/GB"), 3, |cost| median(&cost.cpu_per_gb))
        .number(("cubic", "s/GB"), 3, |cost| median(&cost.cubic_cpu_per_gb))
        .judged("goodput ratio", |cost| cost.throughput.cells(3))
        .judged("CPU ratio", |cost| cost.cpu.cells(3))
        .table()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    fn series(control: &str, gbps: f64, cpu: f64) -> Series {
        let rounds = [1.0, 2.0, 1.5, 1.2, 1.1];
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
