//! Shared by transports over several paths: subflow paths, and errors.

use thiserror::Error;
use tributary_cc::{self as congestion, CongestionController, Setup};
use tributary_proto::{ConfigError, scheduler};

use crate::id::RouteId;
use crate::own::Own;
use crate::packet::TcpSegment;
use crate::tcp::TcpConfig;

/// Most paths, or subflows over them.
pub const MOST_SUBFLOW_PATHS: usize = 128;
/// Bits of a connection's number that identify its path.
const PATH_BITS: u32 = 7;

/// The path of one subflow. Several subflows may share a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubflowPath {
    /// Index of the path in the scenario.
    pub path: u8,
    /// From the client to the server.
    pub up: RouteId,
    /// From the server to the client.
    pub down: RouteId,
}

/// Why a transport over several paths cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MultipathError {
    /// The session's settings.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No congestion control has this name.
    #[error("unknown congestion control `{name}`; known: {}", congestion::names().join(", "))]
    UnknownCongestion {
        /// The requested value.
        name: String,
    },
    /// No scheduler has this name.
    #[error("unknown scheduler `{name}`; known: {}; priorities first: avira+NAME", scheduler::names().join(", "))]
    UnknownScheduler {
        /// The requested value.
        name: String,
    },
    /// No paths, or too many.
    #[error("{0} subflow paths; there must be 1 to {MOST_SUBFLOW_PATHS}")]
    Paths(usize),
}

/// A subflow path as seen from one end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimPath {
    /// Index of the path in the scenario.
    pub path: u8,
    /// The route from this end to the other.
    pub route: RouteId,
}

/// Checks the settings of both transports; returns the paths as client and server see them.
pub(crate) fn sim_paths(
    (congestion, own): (&str, &Own),
    paths: &[SubflowPath],
) -> Result<[Vec<SimPath>; 2], MultipathError> {
    if own.congestion.is_none() && !congestion::names().contains(&congestion) {
        return Err(MultipathError::UnknownCongestion { name: congestion.to_owned() });
    }
    if paths.is_empty() || paths.len() > MOST_SUBFLOW_PATHS {
        return Err(MultipathError::Paths(paths.len()));
    }
    let seen = |route: fn(&SubflowPath) -> RouteId| -> Vec<SimPath> {
        paths.iter().map(|p| SimPath { path: p.path, route: route(p) }).collect()
    };
    Ok([seen(|p| p.up), seen(|p| p.down)])
}

/// The controller of a subflow: the caller's own, else the one with this name, which the caller has checked.
pub(crate) fn controller(
    (name, own): (&str, &Own),
    tcp: &TcpConfig,
    seed: u64,
) -> Box<dyn CongestionController> {
    let initial_window = tcp.mss * tcp.initial_window_segments;
    let idle_restart = tcp.slow_start_after_idle;
    let setup = Setup { initial_window, seed, idle_restart, ..Setup::new(tcp.mss) };
    match &own.congestion {
        Some(make) => make(setup),
        None => congestion::create(name, setup).expect("the name was checked when the pair was made"),
    }
}

/// Number of this incarnation's connection on a path.
pub(crate) fn connection_number(incarnation: u32, path: usize) -> u32 {
    incarnation << PATH_BITS | path as u32
}

/// The incarnation and the path of a connection.
pub(crate) fn incarnation_and_path(number: u32) -> (u32, usize) {
    (number >> PATH_BITS, (number & ((1 << PATH_BITS) - 1)) as usize)
}

/// The answer to a segment of an unknown connection: a reset (RFC 9293 §3.5.2), except to a reset.
pub(crate) fn refusal(segment: &TcpSegment) -> Option<TcpSegment> {
    (!segment.is_reset).then(|| TcpSegment {
        connection: segment.connection,
        seq: segment.ack,
        ack: segment.seq + segment.span(),
        is_ack: true,
        is_reset: true,
        ..TcpSegment::default()
    })
}

#[cfg(test)]
pub(crate) mod rig;
