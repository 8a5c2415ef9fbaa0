//! Tiled 360° video live over one stream of bytes in each direction: the viewer's end plans every GoP, the
//! server pushes what it was asked for, in that order, and drops what can no longer begin in time.
//!
//! [`Pusher`] and [`Player`] are machines without sockets or clocks; [`serve_tiles`] and [`play_tiles`]
//! drive them. What carries the bytes is an [`Outlet`] at the server and any reader at the client. Nothing
//! here decodes or measures pictures. The bytes are specified in `docs/tiled-wire-format.md`.

mod client;
mod frames;
mod guard;
mod outlet;
mod planner;
mod player;
mod pusher;
mod record;
mod server;
mod shown;
mod wire;

pub use client::{PlayTilesError, play_tiles};
pub use outlet::{OrderedOutlet, Outlet, Pushed};
pub use planner::{Moment, Planner, Planning};
pub use player::{PlayError, Player, PlayerSettings, TileArrived};
pub use pusher::{PushCounters, PushError, Pusher, TileOrder};
pub use record::{Arrived, SlotRecord, TiledRecord};
pub use server::{ServeTilesError, ServedTiles, TileSource, longest_message, serve_tiles};
pub use wire::{MOST_ENTRIES, MOST_INIT, MOST_PART, MOST_SEGMENT, PlanEntry, Video, WireError};

#[cfg(test)]
mod tests;
