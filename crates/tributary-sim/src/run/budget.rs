//! Event budget of a run: from what its links can carry, with a margin. Decides nothing else.

use tributary_link::{Direction, WorkloadSpec};
use tributary_types::Instant;

use super::SimRun;

/// Bytes of a full packet.
const PACKET_BYTES: u64 = 1500;
/// Events per packet on a link and at its hosts, with a margin for small packets and acknowledgements.
const EVENTS_PER_PACKET: u64 = 24;
/// Timer events per second and connection.
const TIMERS: u64 = 50_000;

/// Number of full packets that all links together can carry in the run.
#[must_use]
pub fn expected_packets(run: &SimRun) -> u64 {
    let scenario = &run.scenario;
    let end = Instant::ZERO + scenario.duration;
    let mut bytes = 0_u64;
    for path in 0..scenario.paths.len() {
        let crossed = scenario.chain(path, Direction::Down).len() as u64;
        let carried = scenario.capacity_bound(path, Direction::Down, Instant::ZERO, end).as_bytes();
        bytes = bytes.saturating_add(carried.saturating_mul(crossed));
    }
    for (index, source) in scenario.background.iter().enumerate() {
        if let Some(owner) = scenario.link_owner(&source.on) {
            // Generated traffic and TCP flows cannot exceed the rate of their link. A generator may offer
            // more, and a packet that does not fit costs an event too.
            let link = scenario.link_config_at(owner, source.direction).capacity(Instant::ZERO, end);
            bytes = bytes.saturating_add(link.as_bytes().max(offered(run, index)));
        }
    }
    bytes / PACKET_BYTES
}

/// Most bytes of a background generator, as full packets: small packets count as full ones.
fn offered(run: &SimRun, index: usize) -> u64 {
    use tributary_link::BackgroundKind::{Constant, OnOff, Poisson};
    match &run.scenario.background[index].kind {
        Constant { rate, packet } | OnOff { rate, packet, .. } | Poisson { rate, packet } => {
            let bytes = rate.size_in(run.scenario.duration).as_bytes();
            (bytes / packet.as_bytes().max(1)).saturating_mul(PACKET_BYTES)
        }
        tributary_link::BackgroundKind::Tcp { .. } => 0,
    }
}

/// The event budget of a run if its caller sets none.
#[must_use]
pub fn least_budget(run: &SimRun) -> u64 {
    let connections = u64::from(run.options.connections) * run.workloads.len() as u64;
    let seconds = run.scenario.duration.as_secs() + 1;
    let timers = TIMERS.saturating_mul(seconds).saturating_mul(connections);
    let messages: u64 = run.workloads.iter().map(|workload| messages(workload, seconds)).sum();
    expected_packets(run)
        .saturating_add(messages.saturating_mul(u64::from(run.options.connections)))
        .saturating_mul(EVENTS_PER_PACKET)
        .saturating_add(timers)
        .saturating_add(1_000_000)
}

/// Number of writes by the clock; each may become a packet of its own.
fn messages(workload: &WorkloadSpec, seconds: u64) -> u64 {
    match workload {
        WorkloadSpec::Messages { per_second, .. } => (per_second * seconds as f64) as u64,
        WorkloadSpec::Constant { rate, packet } => rate.as_bps() / 8 / packet.as_bytes().max(1) * seconds,
        WorkloadSpec::Burst { every, .. } => seconds * 1_000_000_000 / (every.as_nanos() as u64).max(1),
        _ => 0,
    }
}
