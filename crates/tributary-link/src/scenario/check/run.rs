//! Checks of background traffic and workloads.

use super::{Check, MAX_DELAY, MIN_STEP, refuse};
use crate::{BackgroundKind, BackgroundSpec, MAX_RATE, Scenario, WorkloadSpec};
use core::time::Duration;
use tributary_types::{Bitrate, DataSize};

/// Allowed packet sizes: from the size of an IP header to the maximum of its length field.
const PACKETS: core::ops::RangeInclusive<u64> = 40..=65_535;
/// Maximum number of requests, flows or messages per second.
const MOST_PER_SECOND: u64 = 1_000_000_000;

pub(super) fn check_background(source: &BackgroundSpec, scenario: &Scenario) -> Check {
    if scenario.link_owner(&source.on).is_none() {
        let paths = scenario.paths.iter().map(|path| path.name.as_str());
        let known: Vec<&str> = paths.chain(scenario.hops.iter().map(|hop| hop.name.as_str())).collect();
        let problem = format!("no path or hop is called `{}`; there are {}", source.on, known.join(", "));
        return refuse("on", problem);
    }
    if source.from.resolve(scenario.duration) >= source.to.resolve(scenario.duration) {
        return refuse("to", "must be after `from`");
    }
    match &source.kind {
        BackgroundKind::Constant { rate, packet } | BackgroundKind::Poisson { rate, packet } => {
            check_packets(*rate, *packet)
        }
        BackgroundKind::OnOff { rate, packet, on_mean, off_mean } => {
            check_packets(*rate, *packet)?;
            for (field, mean) in [("on_mean", on_mean), ("off_mean", off_mean)] {
                if *mean < MIN_STEP {
                    return refuse(field, format!("must be at least {MIN_STEP:?}"));
                }
            }
            Ok(())
        }
        BackgroundKind::Tcp { flows, rtt, .. } => {
            if !(1..=10_000).contains(flows) {
                return refuse("flows", format!("{flows} is not from 1 to 10000"));
            }
            if rtt.is_some_and(|rtt| rtt > MAX_DELAY) {
                return refuse("rtt", "must be at most 60 s");
            }
            Ok(())
        }
    }
}

fn check_packets(rate: Bitrate, packet: DataSize) -> Check {
    if !PACKETS.contains(&packet.as_bytes()) {
        return refuse("packet", format!("{packet} is not from 40 B to 65535 B"));
    }
    check_sending_rate(rate)
}

fn check_sending_rate(rate: Bitrate) -> Check {
    match rate {
        Bitrate::ZERO => refuse("rate", "must be above zero"),
        rate if rate > MAX_RATE => refuse("rate", format!("{rate} is above the highest rate, {MAX_RATE}")),
        _ => Ok(()),
    }
}

pub(super) fn check_workload(workload: &WorkloadSpec) -> Check {
    match workload {
        WorkloadSpec::Bulk { size } => size.map_or(Ok(()), |size| some_bytes("size", size)),
        WorkloadSpec::Object { size, count, .. } => {
            if !(1..=MOST_PER_SECOND).contains(count) {
                return refuse("count", format!("{count} is not from 1 to {MOST_PER_SECOND}"));
            }
            some_bytes("size", *size)
        }
        WorkloadSpec::Request { sizes, .. } => {
            if !(1..=10_000).contains(&sizes.len()) {
                return refuse("sizes", format!("there must be 1 to 10000 sizes, not {}", sizes.len()));
            }
            if sizes.iter().any(|(_, weight)| !(weight.is_finite() && *weight > 0.0)) {
                return refuse("sizes", "each weight must be a number above zero");
            }
            sizes.iter().try_for_each(|(size, _)| some_bytes("sizes", *size))
        }
        WorkloadSpec::Burst { size, every } => {
            if *every < MIN_STEP {
                return refuse("every", format!("must be at least {MIN_STEP:?}"));
            }
            some_bytes("size", *size)
        }
        WorkloadSpec::Constant { rate, packet } => {
            some_bytes("packet", *packet)?;
            check_sending_rate(*rate)
        }
        WorkloadSpec::Messages { per_second, size, deadline, .. } => {
            if !(*per_second > 0.0 && *per_second <= 1e6) {
                return refuse("rate", "must be above zero and at most 1 000 000 messages a second");
            }
            if *deadline == Some(Duration::ZERO) {
                return refuse("deadline", "must be above zero");
            }
            some_bytes("size", *size)
        }
    }
}

fn some_bytes(field: &str, size: DataSize) -> Check {
    if size == DataSize::ZERO { refuse(field, "must be at least one byte") } else { Ok(()) }
}
