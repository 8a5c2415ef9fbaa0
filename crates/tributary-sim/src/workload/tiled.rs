//! Tiled video, live: the product's player and pusher (`tributary-player`) in virtual time.
//!
//! As on sockets, one stream carries plans and one carries everything that the server sends. If the transport has
//! messages, each part of a tile is a message with its deadline; otherwise little data is left unsent in the
//! transport. Media segments are zeros with the sizes from the table. Source: the OWS paper §4, §6.3; the closed
//! loop is ours.

mod client;
mod group;
mod pipe;
mod server;

pub use client::TiledClient;
pub use group::Group;
pub use server::TiledServer;

use std::sync::Arc;
use tributary_player::tiled::{Planner, PlayerSettings};
use tributary_types::Instant;
use tributary_video::rd::RdTable;

use pipe::Pipe;

/// What one viewer watches, and how.
pub struct TiledSpec {
    /// Sizes and errors of the video's tiles.
    pub table: Arc<RdTable>,
    /// How the player plays.
    pub settings: PlayerSettings,
    /// The planner that it uses.
    pub planner: Planner,
    /// When the start is requested, or when the connection is up if that is later.
    pub from: Instant,
}

/// Client and server of a viewing; `group` are the viewers with whom it is planned.
#[must_use]
pub fn tiled(spec: TiledSpec, group: Group) -> (TiledClient, TiledServer) {
    let (up, down) = (Pipe::default(), Pipe::default());
    let table = spec.table.clone();
    (TiledClient::new(spec, group, (up.clone(), down.clone())), TiledServer::new(table, up, down))
}

#[cfg(test)]
mod tests;
