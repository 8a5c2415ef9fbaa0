//! Live tiled 360° video over one byte stream in each direction: `tributary-player`'s state machines on sockets.
//!
//! [`serve_tiles`] drives a pusher, [`play_tiles`] a player. The server writes to an [`Outlet`], the client reads
//! from any reader. Nothing here decodes or measures pictures.

mod client;
mod live;
mod outlet;
mod server;

pub use client::{PlayTilesError, Viewer, play_tiles};
pub use live::{KEPT, LiveEnd, LiveGops};
pub use outlet::{OrderedOutlet, Outlet, Pushed};
pub use server::{ServeTilesError, ServedTiles, TileSource, serve_tiles};
pub use tributary_player::tiled::*;

#[cfg(test)]
mod tests;
