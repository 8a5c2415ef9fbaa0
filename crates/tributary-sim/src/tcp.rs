//! TCP as in Linux 6.x, as a sans-IO state machine over numbered segments.
//!
//! Includes handshake, SACK, RACK-TLP or duplicate-acknowledgement recovery, proportional rate reduction,
//! timeouts with back-off and undo, delayed acknowledgements, receive-window auto-tuning, pacing,
//! delivery-rate samples. Not here: bytes (a [`TcpSegment`](crate::TcpSegment) carries numbers), path MTU
//! discovery, ECN, urgent data, Fast Open. Model and limits: `docs/models/tcp.md`.

mod config;
mod content;
mod dup_ack;
mod info;
mod offload;
mod pacing;
mod rack;
mod ranges;
mod rate_sample;
mod receive;
mod recovery;
mod rtt;
mod scoreboard;
mod send;
mod socket;
mod timer;
mod transport;
mod validation;

pub use config::{LossDetection, TcpConfig};
pub use content::Pipe;
pub use info::{TcpError, TcpInfo, TcpState};
pub use socket::TcpSocket;
pub(crate) use timer::on_wheel;
pub use transport::TcpTransport;

#[cfg(test)]
mod tests;
