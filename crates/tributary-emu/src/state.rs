//! What every link of a running network is now.

use serde::{Deserialize, Serialize};
use tributary_link::Direction;

/// One direction of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkState {
    /// The path.
    pub path: String,
    /// The direction.
    pub direction: Direction,
    /// Its rate now, Mbit/s.
    pub rate_mbps: f64,
    /// Long-run share of lost packets.
    pub loss: f64,
    /// Whether everything is dropped by a request.
    pub blocked: bool,
    /// Bytes delivered since the start.
    pub delivered_bytes: u64,
    /// Bytes in its queue.
    pub queue_bytes: u64,
}

/// All links of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Scenario time, seconds.
    pub seconds: f64,
    /// Every link.
    pub links: Vec<LinkState>,
}
