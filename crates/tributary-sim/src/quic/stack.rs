//! The interface of [`super::QuicEnd`] to a QUIC crate.

use core::fmt::Debug;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::time::Instant as Opaque;

use bytes::BytesMut;

use crate::transport::{PathSample, StreamKey};

/// Which end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

impl Side {
    /// Its address on a path: QUIC identifies paths by addresses, the world by routes.
    pub fn address(self, path: usize) -> SocketAddr {
        let path = u8::try_from(path).expect("checked: a connection has at most 255 paths");
        let (host, port) = if self == Self::Client { (1, 50_000) } else { (2, 443) };
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, path, host)), port)
    }

    /// The other end.
    pub fn peer(self) -> Self {
        if self == Self::Client { Self::Server } else { Self::Client }
    }

    /// Its generator's label.
    pub fn label(self) -> &'static str {
        if self == Self::Client { "quic client" } else { "quic server" }
    }
}

/// The path that leads to `address`.
pub fn path_to(address: SocketAddr) -> usize {
    match address.ip() {
        IpAddr::V4(ip) => usize::from(ip.octets()[2]),
        IpAddr::V6(_) => 0, // never given out
    }
}

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEvent {
    Connected,
    Opened(StreamKey),
    Readable(StreamKey),
    Writable(StreamKey),
    Lost,
}

/// Streams that the peer has opened. The QUIC crates announce several at once, and report a stream's first
/// bytes only with that announcement.
#[derive(Debug, Default)]
pub struct Opened {
    announced: bool,
    readable: Option<StreamKey>,
}

impl Opened {
    /// There are streams to accept.
    pub fn announce(&mut self) {
        self.announced = true;
    }

    /// The next event; `accept` accepts a stream.
    pub fn poll(&mut self, accept: impl FnOnce() -> Option<StreamKey>) -> Option<StackEvent> {
        if let Some(stream) = self.readable.take() {
            return Some(StackEvent::Readable(stream));
        }
        if !self.announced {
            return None;
        }
        self.readable = accept();
        self.announced = self.readable.is_some();
        self.readable.map(StackEvent::Opened)
    }
}

/// One end of a connection with a QUIC crate. Paths are indices into the end's list.
pub trait Stack: Debug + 'static {
    /// A client connects.
    fn start(&mut self, now: Opaque);

    /// A datagram arrived over `path`.
    fn handle_datagram(&mut self, now: Opaque, path: usize, bytes: BytesMut);

    /// Time has passed.
    fn handle_timeout(&mut self, now: Opaque);

    /// A link event.
    fn handle_path(&mut self, now: Opaque, path: usize, up: bool);

    /// When to call `handle_timeout`.
    fn poll_timeout(&mut self) -> Option<Opaque>;

    /// Writes the next datagram into the empty `buffer` and returns its path.
    fn poll_transmit(&mut self, now: Opaque, buffer: &mut Vec<u8>) -> Option<usize>;

    /// The next event.
    fn poll_event(&mut self, now: Opaque) -> Option<StackEvent>;

    /// Opens a stream.
    fn open(&mut self, priority: u8) -> Option<StreamKey>;

    /// Writes zeros; returns how many.
    fn write(&mut self, stream: StreamKey, bytes: u64) -> u64;

    /// Ends a stream.
    fn finish(&mut self, stream: StreamKey);

    /// Stops reading a stream and asks the peer to stop sending on it.
    fn stop(&mut self, stream: StreamKey);

    /// Reads; returns how many bytes, and whether that was the end.
    fn read(&mut self, stream: StreamKey, most: u64) -> (u64, bool);

    /// Why the connection was lost, as reported by the QUIC crate.
    fn lost(&self) -> Option<&str>;

    /// Bytes of packets declared lost.
    fn lost_bytes(&self) -> u64;

    /// Smoothed round-trip time of a path, once there is one.
    fn rtt(&self, path: usize) -> Option<Duration>;

    /// The path's congestion state, if it is open.
    fn sample(&self, path: usize) -> Option<PathSample>;
}

/// Zeros, as data to write.
pub static ZEROS: [u8; 65_536] = [0; 65_536];
