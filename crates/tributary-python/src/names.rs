//! What exists, by name.

use crate::network::Network;
use pyo3::prelude::*;

/// Names of the built-in scenarios.
///
/// Examples
/// --------
/// >>> "mobility" in tributary.scenarios()
/// True
#[pyfunction]
pub(crate) fn scenarios() -> Vec<&'static str> {
    tributary_link::Scenario::builtin_names().collect()
}

/// Every transport over a network: each path alone, MPTCP, multipath QUIC, and a session with every scheduler.
///
/// Parameters
/// ----------
/// network : Network
///     The network, whose paths have the names.
///
/// Examples
/// --------
/// >>> tributary.transports(tributary.Network("mobility"))[:3]
/// ['tcp:wifi', 'quic:wifi', 'tcp:wigig']
#[pyfunction]
pub(crate) fn transports(network: &Network) -> Vec<String> {
    tributary_lab::compare::transports(network.scenario())
}

/// Names of the schedulers of MPTCP and of a session.
#[pyfunction]
pub(crate) fn schedulers() -> Vec<&'static str> {
    tributary_proto::scheduler::names()
}

/// Names of the congestion controls of TCP, MPTCP and sessions.
#[pyfunction]
pub(crate) fn congestion_controls() -> Vec<&'static str> {
    tributary_cc::names()
}

/// Names of the allocators of tiles.
#[pyfunction]
pub(crate) fn allocators() -> Vec<&'static str> {
    tributary_video::allocation::names()
}

/// Names of the bitrate rules of the DASH player.
#[pyfunction]
pub(crate) fn bitrate_rules() -> Vec<&'static str> {
    tributary_player::abr::names()
}
