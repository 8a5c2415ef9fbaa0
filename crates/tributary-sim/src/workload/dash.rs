//! A DASH playback: the product's player (`tributary-player`) in virtual time, one request and one answer at a time.
//!
//! The client fetches a manifest, then media segments as the player asks for them; before the first segment of a quality,
//! its initialisation segment and its index, as `tributary dash play` does. TCP and MPTCP carry many requests on one
//! connection, and an aborted answer ends the connection (HTTP/1.1); QUIC has a stream for each request (HTTP/3); sessions
//! and multipath QUIC have one stream for many requests, which an abort resets. Not here: who chooses the transport and
//! its paths ([`crate::run`]), TLS over TCP, sound.

mod client;
mod connection;
mod download;
mod requests;
mod server;

pub(crate) use client::DashClient;
pub(crate) use connection::Connection;
pub use download::{Download, Step};
pub(crate) use requests::Requests;
pub(crate) use server::DashServer;

use core::time::Duration;

use tributary_player::dash::play::{Settings, Title};
use tributary_player::engine;
use tributary_types::Instant;

/// Bytes of a manifest with twenty qualities.
const MANIFEST: u64 = 6_000;
/// Bytes of an initialisation segment.
const INITIALIZATION: u64 = 800;
/// Bytes of a segment index without its entries, and of an entry (ISO/IEC 14496-12 §8.16.3).
const INDEX: (u64, u64) = (32, 12);

/// A playback.
#[derive(Clone, Debug)]
pub struct DashSpec {
    /// What is played; segments have their nominal bitrate.
    pub title: Title,
    /// How it is played.
    pub settings: Settings,
    /// The bitrate rule's name.
    pub rule: String,
    /// When the title is requested and the transport connects.
    pub from: Instant,
    /// Who changes paths and transport.
    pub control: Control,
}

/// Who changes paths and transport during play.
#[derive(Clone, Debug, PartialEq)]
pub enum Control {
    /// Nobody.
    None,
    /// The decision engine. It chooses at the start, too, and sees the paths by probe packets and the server's counters.
    Engine {
        /// Thresholds.
        settings: engine::Settings,
        /// Congestion control of its QUIC connections.
        quic: String,
    },
    /// A threshold of bandwidth.
    Bandwidth(Bandwidth),
}

/// Path control by bandwidth: a path leaves while its bandwidth is far below the best path's. Source: Nam, Calin and
/// Schulzrinne, "Towards Dynamic MPTCP Path Control Using SDN" (NetSoft 2016), as Hayes, Chang and Riley compare with it
/// ("MP-SPTCP"): all paths at the start, one path where the others are too slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// A path leaves when the best path's bandwidth is more than this many times its own.
    pub ratio: f64,
    /// A path that left is tried again after this time.
    pub rest: Duration,
}

impl Default for Bandwidth {
    fn default() -> Self {
        Self { ratio: 9.0, rest: Duration::from_secs(10) }
    }
}
