//! A tiled video over any transport: serves it from disk, plays it, stores the tiles that arrive.
//!
//! The protocol is that of [`crate::tiled`], the transports are those of `tributary-net`. One bidirectional stream,
//! opened by the client, carries plans in one direction and tiles in the other. Nothing here decodes or measures.

mod play;
mod serve;
mod spool;

use core::time::Duration;

pub use play::{Kept, PlayConfig, PlayFailure, Played, Viewing, play};
pub use serve::{DiskSource, TileServer};
pub use spool::{Spool, SpoolError, Spooled};
use tributary_net::transport::TransportName;

/// Time limit for closing a transport.
const LEAVE: Duration = Duration::from_secs(1);

/// Name of a transport in tables.
#[must_use]
pub fn label(name: &TransportName) -> String {
    match name {
        TransportName::Session { scheduler } => scheduler.clone(),
        TransportName::Tcp(_) => "one TCP connection".to_owned(),
        TransportName::Mptcp { .. } => "kernel MPTCP".to_owned(),
        TransportName::Quic(_) => "QUIC".to_owned(),
        TransportName::Mpquic => "multipath QUIC".to_owned(),
    }
}
