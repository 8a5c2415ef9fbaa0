//! One contestant's turn: its network, its connections and what they carry.

use super::condition::{Condition, two_links};
use super::flows::{self, connect, saturate, stream};
use super::{COTAG, ContestantReport, MPTCP, NODES, STREAM_LINK, Settings, StreamReport};
use crate::BenchError;
use tributary_emu::{Audit, Host, Network, RelayNetwork, Side, Verdict};
use tributary_lab::pairs::{Inside, Pair, Route};
use tributary_lab::tunnel::Tunnel;
use tributary_link::Scenario;
use tributary_nodes::{Coding, Mode};

/// The tunnel without links.
pub(super) fn bare(settings: &Settings, mode: Mode, entry: &mut ContestantReport) -> Result<(), BenchError> {
    let tunnel = tunnel(RelayNetwork::bare(2)?, mode, Coding::default().redundancy)?;
    through_tunnel(&tunnel, settings, false, entry)
}

/// A contestant under a condition.
pub(super) fn one_contestant(
    settings: &Settings,
    condition: &Condition,
    name: &'static str,
    entry: &mut ContestantReport,
) -> Result<(), BenchError> {
    let scenario = condition.scenario(settings);
    let mode = match name {
        COTAG => Mode::Systematic,
        NODES => Mode::Off,
        _ => return beside(&scenario, settings, (name == MPTCP, condition.shared), entry),
    };
    let tunnel = tunnel(RelayNetwork::start(&scenario)?, mode, Coding::default().redundancy)?;
    through_tunnel(&tunnel, settings, condition.shared, entry)
}

fn tunnel(network: RelayNetwork, mode: Mode, redundancy: f64) -> Result<Tunnel, BenchError> {
    let coding = Coding { mode, redundancy, ..Coding::default() };
    Tunnel::start(network, &coding).map_err(|error| failed(error.to_string()))
}

fn failed(reason: String) -> BenchError {
    crate::failed("a node of the tunnel", reason)
}

/// Saturates the connections, of which the last may be a rival, and adds the round to `entry`.
fn measure(
    settings: &Settings,
    (server, pairs): (Inside<'_>, &[Pair]),
    has_rival: bool,
    entry: &mut ContestantReport,
) -> Result<(), BenchError> {
    let (cpu, timeouts) = (crate::cpu_time(), flows::timeouts(server)?);
    let mut rates = saturate(pairs, settings.seconds);
    let seconds = crate::cpu_time().saturating_sub(cpu).as_secs_f64();
    let all: f64 = rates.iter().sum();
    entry.cpu_per_gb.push(seconds / (all * settings.seconds / 8e3).max(1e-9));
    if has_rival {
        entry.rival.extend(rates.pop());
    }
    entry.mbps.push(rates.iter().sum());
    entry.timeouts.push((flows::timeouts(server)? - timeouts) as f64);
    Ok(())
}

fn through_tunnel(
    tunnel: &Tunnel,
    settings: &Settings,
    has_rival: bool,
    entry: &mut ContestantReport,
) -> Result<(), BenchError> {
    let network = tunnel.network();
    let on = |host| move |work: &mut (dyn FnMut() + Send)| network.run(host, work);
    let [server, device, point] = [Host::Server, Host::Device, Host::AccessPoint(0)].map(on);
    let route = Route { from: None, to: RelayNetwork::SERVER };
    let mut pairs = Vec::new();
    for _ in 0..settings.flows {
        pairs.push(connect((&server, &device), route, false)?);
    }
    if has_rival {
        // From the access point itself, beside the tunnel.
        let (to, from) = RelayNetwork::radio(0);
        pairs.push(connect((&point, &device), Route { from: Some(from), to }, false)?);
    }
    measure(settings, (&server, &pairs), has_rival, entry)?;
    entry.redundant.push(redundant(tunnel)?);
    if !network.audit()?.is_none_or(|audit| is_exact(&audit)) {
        entry.leave_out();
    }
    Ok(())
}

fn is_exact(audit: &Audit) -> bool {
    audit.verdict() == Verdict::Valid
}

/// Share of redundant packets in what the radios sent.
fn redundant(tunnel: &Tunnel) -> Result<f64, BenchError> {
    let nodes = tunnel.statuses().map_err(|error| failed(error.to_string()))?;
    let points = nodes.iter().filter(|node| node.role == "access-point");
    let (taken, sent) =
        points.fold((0, 0), |(taken, sent), point| (taken + point.coding.taken, sent + point.coding.sent));
    Ok(taken as f64 / sent.max(1) as f64)
}

fn beside(
    scenario: &Scenario,
    settings: &Settings,
    (mptcp, has_rival): (bool, bool),
    entry: &mut ContestantReport,
) -> Result<(), BenchError> {
    let network = Network::start(scenario)?;
    if mptcp {
        tributary_lab::kernel::prepare_emulated(&network)?;
    }
    let network = &network;
    let on = |side| move |work: &mut (dyn FnMut() + Send)| network.run(side, work);
    let [server, client] = [Side::Server, Side::Client].map(on);
    let ends: (Inside<'_>, Inside<'_>) = (&server, &client);
    let route = |path| Route { from: Some(Side::Client.address(path)), to: Side::Server.address(path) };
    let mut pairs = Vec::new();
    for flow in 0..settings.flows as usize {
        pairs.push(connect(ends, route(if mptcp { 0 } else { flow % 2 }), mptcp)?);
    }
    if has_rival {
        pairs.push(connect(ends, route(0), false)?);
    }
    measure(settings, (&server, &pairs), has_rival, entry)?;
    if !is_exact(&network.audit()?) {
        entry.leave_out();
    }
    Ok(())
}

/// The stream through the tunnel.
pub(super) fn one_stream(
    settings: &Settings,
    (name, mode, redundancy): (&'static str, Mode, f64),
    streams: &mut Vec<StreamReport>,
) -> Result<(), BenchError> {
    let network = RelayNetwork::start(&two_links(STREAM_LINK as f64, 0.05, settings.rtt))?;
    let tunnel = tunnel(network, mode, redundancy)?;
    let network = tunnel.network();
    let on = |host| move |work: &mut (dyn FnMut() + Send)| network.run(host, work);
    let [server, device] = [Host::Server, Host::Device].map(on);
    let rate = STREAM_LINK as f64 / 2.0;
    let result = stream((&server, &device), RelayNetwork::tunnel(2), rate, settings.seconds)?;
    let at = streams.iter().position(|known| known.name == name).unwrap_or_else(|| {
        streams.push(StreamReport { name, ..StreamReport::default() });
        streams.len() - 1
    });
    let stream = &mut streams[at];
    if network.audit()?.is_none_or(|audit| is_exact(&audit)) {
        stream.delivered.push(result.delivered);
        stream.delay_median.push(result.quantile(0.5));
        stream.delay_p99.push(result.quantile(0.99));
    } else {
        stream.invalid += 1;
        for values in [&mut stream.delivered, &mut stream.delay_median, &mut stream.delay_p99] {
            values.push(f64::NAN);
        }
    }
    Ok(())
}
