//! Settings of a simulated QUIC connection. The QUIC crates' own configurations are made from them; the seed
//! decides everything that the operating system would decide.

use core::time::Duration;

use thiserror::Error;

use super::control::{OWN_CUBIC, quic_controllers};
use super::crypto::Protection;
use crate::id::RouteId;

/// Bytes of IPv4 and UDP headers.
pub(crate) const HEADERS: u32 = 28;

/// Least UDP payload of a QUIC path (RFC 9000 §14).
const LEAST_DATAGRAM: u16 = 1200;

/// Largest window: QUIC's integers have 62 bits (RFC 9000 §16).
const MOST_WINDOW: u64 = (1 << 62) - 1;

/// A path of the scenario, as one end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicPath {
    /// Its index in the scenario.
    pub path: u8,
    /// The route that this end sends on.
    pub out: RouteId,
    /// The route that this end receives from.
    pub back: RouteId,
}

/// A connection's settings; both ends get the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicConfig {
    /// Congestion controller: one of [`quic_controllers`]. Default `quic-cubic`, the QUIC crates' own.
    pub controller: String,
    /// Protection of the packets. Default [`Protection::Null`].
    pub protection: Protection,
    /// Seed of identifiers, packet-number gaps and TLS. Default 1.
    pub seed: u64,
    /// UDP payload bytes of a full datagram, 1200 to 65527. Default 1472: a packet of 1500. There is no path
    /// MTU discovery: every path carries this size.
    pub datagram: u16,
    /// Most unread bytes over all streams. Default 6 MiB, as for TCP.
    pub receive_window: u64,
    /// Most unread bytes of one stream. Default 1.375 MiB. Both QUIC crates close a connection that holds
    /// more than 2048 pieces of a stream out of order with many gaps between them. With this window the limit
    /// is not reached, even if every full datagram is split in two because its retransmission had to share a
    /// packet. (The crates' own default is 1.25 MB.)
    pub stream_receive_window: u64,
    /// Bytes written and not yet acknowledged, over all streams. Default 10 MiB.
    pub send_window: u64,
    /// Most streams that each end may have open. Default 1000.
    pub streams: u32,
    /// Silence after which the connection ends; `None`, the default, means never, as for the simulator's
    /// other transports.
    pub idle_timeout: Option<Duration>,
    /// Silence after which a path of a multipath connection is abandoned: its data goes to the others, and a
    /// new path is tried in its place. At least three PTOs. Default 500 ms. (noq-proto's own default is
    /// never: a dead path would then hold its packets for ever.)
    pub path_idle_timeout: Duration,
    /// Interval of pings on every path of a multipath connection, idle or not. Default 150 ms.
    pub path_keep_alive: Duration,
}

impl Default for QuicConfig {
    fn default() -> Self {
        Self {
            controller: OWN_CUBIC.to_owned(),
            protection: Protection::default(),
            seed: 1,
            datagram: 1472,
            receive_window: 6 << 20,
            stream_receive_window: 11 << 17,
            send_window: 10 << 20,
            streams: 1000,
            idle_timeout: None,
            path_idle_timeout: Duration::from_millis(500),
            path_keep_alive: Duration::from_millis(150),
        }
    }
}

/// Why a connection cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuicError {
    /// No such controller.
    #[error("unknown QUIC congestion controller `{name}`; known: {}", quic_controllers().join(", "))]
    UnknownController {
        /// The requested value.
        name: String,
    },
    /// A size out of bounds.
    #[error("`{field}` is {value}, but must be between {least} and {most}")]
    OutOfBounds {
        /// The field of [`QuicConfig`].
        field: &'static str,
        /// Its value.
        value: u64,
        /// The least allowed.
        least: u64,
        /// The most allowed.
        most: u64,
    },
}

impl QuicConfig {
    /// Checks the settings that do not depend on the QUIC crate.
    pub(super) fn check(&self, paths: usize) -> Result<(), QuicError> {
        let bounds = [
            ("datagram", u64::from(self.datagram), u64::from(LEAST_DATAGRAM), 65_527),
            ("receive_window", self.receive_window, 1, MOST_WINDOW),
            ("stream_receive_window", self.stream_receive_window, 1, MOST_WINDOW),
            ("send_window", self.send_window, 1, MOST_WINDOW),
            ("streams", u64::from(self.streams), 1, 100_000),
            ("idle_timeout", self.idle_timeout.map_or(1, millis), 1, MOST_WINDOW),
            ("path_idle_timeout", millis(self.path_idle_timeout), 1, MOST_WINDOW),
            ("path_keep_alive", millis(self.path_keep_alive), 1, MOST_WINDOW),
            ("paths", paths as u64, 1, 255),
        ];
        for (field, value, least, most) in bounds {
            if !(least..=most).contains(&value) {
                return Err(QuicError::OutOfBounds { field, value, least, most });
            }
        }
        Ok(())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
