//! Live tiled 360° video: the player plans every GoP, the pusher sends the requested tiles in that order and drops
//! tiles that can no longer begin in time.
//!
//! [`Player`] and [`Pusher`] own neither socket nor clock: a driver moves their bytes and calls them at their
//! timeouts. Drivers are `tributary-stream` (sockets) and `tributary-sim` (virtual time). The messages between the two
//! are specified in `docs/tiled-wire-format.md`.

mod frames;
#[doc(hidden)]
pub mod fuzz;
mod guard;
mod planner;
mod player;
mod pusher;
mod record;
mod screen;
mod slots;
mod together;
mod wire;

pub use planner::{Planner, Planning, allocator, default_plans};
pub use player::{PlayError, Player, PlayerSettings, TileArrived};
pub use pusher::{
    PushCounters, PushError, Pusher, SESSION_UNSENT, SOCKET_UNSENT, TileOrder, Transmit, longest_message,
};
pub use record::{Account, Arrived, End, SlotRecord, SoundRecord, TiledRecord};
pub use screen::Screen;
pub use together::plan_together;
pub use wire::{
    LIVE, MOST_ENTRIES, MOST_INIT, MOST_PART, MOST_SEGMENT, PlanEntry, SOUND, SoundFormat, Video, WireError,
};

#[cfg(test)]
mod tests;
