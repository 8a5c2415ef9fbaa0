//! Tiled video, live: the product's player and pusher (`tributary-player`) in virtual time.
//!
//! As on sockets, one stream carries plans and one carries everything back; where the transport has messages, each
//! part of a tile is one with its deadline, elsewhere little is left unsent. Media segments are zeros of the sizes in
//! the table. Source: the OWS paper §4, §6.3; the closed loop is ours.

mod client;
mod pipe;
mod server;

pub use client::TiledClient;
pub use server::TiledServer;

use std::sync::Arc;
use tributary_player::tiled::{Planner, PlayerSettings};
use tributary_types::Instant;
use tributary_video::rd::RdTable;

use pipe::Pipe;

/// A viewing.
pub struct TiledSpec {
    /// Sizes and errors of the video's tiles.
    pub table: Arc<RdTable>,
    /// How the player plays.
    pub settings: PlayerSettings,
    /// What it plans with.
    pub planner: Planner,
    /// When the start is asked for, or when the connection is up if that is later.
    pub from: Instant,
}

/// Both halves of a viewing.
#[must_use]
pub fn tiled(spec: TiledSpec) -> (TiledClient, TiledServer) {
    let (up, down) = (Pipe::default(), Pipe::default());
    let table = spec.table.clone();
    (TiledClient::new(spec, up.clone(), down.clone()), TiledServer::new(table, up, down))
}

#[cfg(test)]
mod tests;
