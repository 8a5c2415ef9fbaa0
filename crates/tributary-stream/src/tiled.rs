//! Tiled 360° video live over one stream of bytes in each direction: `tributary-player`'s machines on sockets.
//!
//! [`serve_tiles`] drives a pusher, [`play_tiles`] a player. What carries the bytes is an [`Outlet`] at the server and any
//! reader at the client. Nothing here decodes or measures pictures.

mod client;
mod outlet;
mod server;

pub use client::{PlayTilesError, play_tiles};
pub use outlet::{OrderedOutlet, Outlet, Pushed};
pub use server::{ServeTilesError, ServedTiles, TileSource, serve_tiles};
pub use tributary_player::tiled::*;

#[cfg(test)]
mod tests;
