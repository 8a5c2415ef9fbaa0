//! QUIC in virtual time: `quinn-proto` on one path, `noq-proto` on several.
//!
//! This is not a model of QUIC: packets, frames, loss detection, pacing and flow control are those crates',
//! driven with virtual time and seeded randomness. Datagrams carry real bytes, streams carry zeros.
//! Scope, limits and numbers: `docs/models/quic.md`.
//! Source: RFC 9000 to 9002; draft-ietf-quic-multipath for several paths.

mod clock;
mod common;
mod config;
mod control;
mod crypto;
mod end;
mod noq;
mod quinn;
mod random;
mod stack;

pub(crate) use config::HEADERS;
pub use config::{QuicConfig, QuicError, QuicPath};
pub use control::quic_controllers;
pub use crypto::Protection;
pub use end::QuicEnd;

/// One end of a QUIC connection by `quinn-proto`.
pub type QuicTransport = QuicEnd<quinn::Quinn>;

/// One end of a multipath QUIC connection by `noq-proto`.
pub type MultipathQuicTransport = QuicEnd<noq::Noq>;

impl QuicTransport {
    /// The client, which connects when the world starts.
    ///
    /// # Errors
    /// [`QuicError`] for an unknown congestion controller or sizes that QUIC does not allow.
    pub fn client(config: &QuicConfig, path: QuicPath) -> Result<Self, QuicError> {
        Ok(Self::new(quinn::Quinn::new(config, stack::Side::Client)?, config, &[path]))
    }

    /// The server.
    ///
    /// # Errors
    /// As for [`Self::client`].
    pub fn server(config: &QuicConfig, path: QuicPath) -> Result<Self, QuicError> {
        Ok(Self::new(quinn::Quinn::new(config, stack::Side::Server)?, config, &[path]))
    }
}

impl MultipathQuicTransport {
    /// The client, which connects over the first of `paths` when the world starts, and then opens the others.
    ///
    /// # Errors
    /// [`QuicError`] for an unknown congestion controller, sizes that QUIC does not allow, no path or more
    /// than 255.
    pub fn client(config: &QuicConfig, paths: &[QuicPath]) -> Result<Self, QuicError> {
        Ok(Self::new(noq::Noq::new(config, stack::Side::Client, paths.len())?, config, paths))
    }

    /// The server.
    ///
    /// # Errors
    /// As for [`Self::client`].
    pub fn server(config: &QuicConfig, paths: &[QuicPath]) -> Result<Self, QuicError> {
        Ok(Self::new(noq::Noq::new(config, stack::Side::Server, paths.len())?, config, paths))
    }
}

#[cfg(test)]
mod tests;
