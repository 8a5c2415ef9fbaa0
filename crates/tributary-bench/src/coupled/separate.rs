//! Throughput of two subflows on two separate links, coupled over uncoupled: coupling must not cost what the second
//! link can carry.

use super::contender::{Contender, Transport};
use super::share::world_name;
use super::{Settings, UNCOUPLED};
use crate::controllers::Controllers;
use crate::{BenchError, Progress, median};
use crate::{Expectation, Judged};
use core::time::Duration;
use serde::Serialize;
use tributary_lab::{Run, Workload, World};
use tributary_link::{LinkSpec, PathSpec, Scenario};
use tributary_report::Table;
use tributary_types::Bitrate;

/// The links.
const PATHS: [&str; 2] = ["first", "second"];
const MBPS: u64 = 20;
const RTT: Duration = Duration::from_millis(30);
/// Least throughput over that of the uncoupled control.
const WANTED: Expectation = Expectation::AtLeast(0.95);

/// One contender over all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Throughput {
    /// Emulator or simulator.
    pub world: World,
    /// Transport and congestion control.
    pub contender: Contender,
    /// Goodput in each round, in Mbit/s; NaN (`null` in JSON) if the emulator was not exact in any attempt.
    pub mbps: Vec<f64>,
    /// Its ratio to the goodput of the same transport with the uncoupled control in the same round.
    pub ratio: Option<Judged>,
}

/// Two links with equal rates, each with one bandwidth-delay product of queue.
pub(super) fn scenario() -> Scenario {
    let link = || LinkSpec::constant(Bitrate::from_mbps(MBPS));
    let [first, second] = PATHS.map(|name| PathSpec::symmetric(name, link()));
    let scenario = Scenario::new("two-links").with_path(first).with_path(second);
    scenario.with_rtt(RTT).with_queue_time(RTT)
}

/// On real sockets in the emulator.
pub(super) fn emulated(
    settings: &Settings,
    loaded: &Controllers,
    progress: Progress<'_>,
) -> Result<Vec<Throughput>, BenchError> {
    let workload = Workload::Bulk { seconds: settings.seconds.into() };
    measure(World::Emu, (settings.rounds, &settings.coupled()), progress, |contender, round| {
        let scenario = scenario().with_seed(round.into());
        let transport = contender.transport.registered(PATHS[0]);
        let control = loaded.in_kernel(contender.control);
        let result = tributary_lab::run(&Run::new(&scenario, &transport, &control, &workload))?;
        Ok(if result.audit.valid && !result.fallback { result.mean() } else { f64::NAN })
    })
}

/// Runs every contender in each round; `one` gives the goodput of one run in Mbit/s.
pub(super) fn measure(
    world: World,
    (rounds, coupled): (u32, &[&'static str]),
    progress: Progress<'_>,
    mut one: impl FnMut(Contender, u32) -> Result<f64, BenchError>,
) -> Result<Vec<Throughput>, BenchError> {
    let mut all = Vec::new();
    for transport in Transport::MULTIPATH {
        let contenders = Contender::each(transport, coupled);
        let mut mbps: Vec<Vec<f64>> = vec![Vec::new(); contenders.len()];
        for round in 1..=rounds {
            let name = world_name(world);
            progress(&format!("{} on two {name} links: round {round} of {rounds}", transport.label()));
            for (contender, mbps) in contenders.iter().zip(&mut mbps) {
                mbps.push(one(*contender, round)?);
            }
        }
        all.extend(compare(world, &contenders, &mbps));
    }
    Ok(all)
}

/// Compares each contender with the first one, which is uncoupled.
fn compare(world: World, contenders: &[Contender], mbps: &[Vec<f64>]) -> Vec<Throughput> {
    let baseline = mbps.first().map_or(&[][..], Vec::as_slice);
    let compared = contenders.iter().zip(mbps).map(|(contender, mbps)| Throughput {
        world,
        contender: *contender,
        mbps: mbps.clone(),
        ratio: (contender.control != UNCOUPLED).then(|| Judged::ratio(mbps, baseline, WANTED)),
    });
    compared.collect()
}

pub(super) fn table(all: &[Throughput]) -> Table {
    let title = "Two subflows on two separate links of 20 Mbit/s; medians of the rounds";
    Table::of(title, all)
        .text("world", |one| world_name(one.world))
        .text("transport", |one| one.contender.transport.label())
        .text("control", |one| one.contender.control)
        .number(("goodput", "Mbit/s"), 2, |one| median(&one.mbps))
        .judged("goodput over uncoupled", |one| one.ratio.iter().flat_map(|ratio| ratio.cells(3)))
        .table()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn coupled_subflows_are_compared_with_uncoupled_ones_of_the_same_transport() {
        // In the emulated MPTCP runs of round 2 the emulator was not exact.
        let goodput = |contender: Contender, round: u32| {
            let share = if contender.control == "lia" { 0.97 } else { 0.8 };
            let share = if contender.control == UNCOUPLED { 1.0 } else { share };
            let invalid = contender.transport == Transport::Mptcp && round == 2;
            Ok(if invalid { f64::NAN } else { share * (35.0 + f64::from(round)) })
        };
        let all = measure(World::Emu, (6, &["lia", "wvegas"]), &mut |_| (), goodput).unwrap();
        let verdicts: Vec<_> =
            all.iter().map(|one| (one.contender.control, one.ratio.map(|ratio| ratio.verdict))).collect();
        let expected = [("reno", None), ("lia", Some(Verdict::Holds)), ("wvegas", Some(Verdict::Fails))];
        assert_eq!(verdicts, [expected, expected].concat());
        assert_eq!(table(&all).len(), 6);
        assert!(scenario().check().is_ok());
    }
}
