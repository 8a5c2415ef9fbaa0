//! A tiled video over any transport: serves it from disk, plays it as a headless viewer with a recorded head movement,
//! stores the tiles that arrive, decodes those that were in time, and compares the view with the source.
//!
//! The protocol is that of [`crate::tiled`], the transports are those of `tributary-net`; tiles on disk are in
//! `tributary-tiles`, pictures and metrics in `tributary-video`. One bidirectional stream, opened by the client, carries
//! plans in one direction and tiles in the other. Decoding and measuring start after the last picture, so that they do not
//! disturb the timing.

mod feed;
mod live;
mod measure;
mod motion;
mod outcome;
mod page;
mod play;
mod recording;
mod sample;
mod serve;
mod spool;
mod stills;
mod view;
mod watch;

use core::time::Duration;

pub use feed::{Feed, Subscription};
pub use live::{LiveStatus, LiveVideo};
pub use measure::{GopQuality, MeasureError, MeasureSettings, Measured, measure};
pub use motion::Motion;
pub use outcome::{Knowledge, Load, Quality, TiledResult, concealment_name, psnr_cap, table};
pub use page::{Beside, figure, page};
pub use play::{Kept, PlayConfig, PlayFailure, Played, Viewing, play};
pub use recording::{Recording, side_by_side};
pub use serve::{DiskSource, TileServer, Viewer, Viewers};
pub use spool::{Spool, SpoolError, Spooled};
pub use stills::{StillError, Stills, pictures};
use tributary_net::transport::TransportName;
pub use view::{ViewError, Viewed, ViewerConfig, Viewpoint, recorded};
pub use watch::{Radios, watch};

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

#[cfg(test)]
mod tests;
