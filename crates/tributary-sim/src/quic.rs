//! QUIC in virtual time: the real `quinn-proto` on one path, the real `noq-proto` on several.
//!
//! Not a model of QUIC: packets, frames, loss detection, pacing and flow control are those crates',
//! fed with virtual time and seeded randomness. Datagrams carry real bytes, streams carry zeros.
//! Scope, limits and numbers: `docs/models/quic.md`.
//! Source: RFC 9000 to 9002; draft-ietf-quic-multipath for several paths.

mod clock;
mod config;
mod control;
mod crypto;
mod end;
mod noq;
mod quinn;
mod random;
mod stack;

pub use config::{QuicConfig, QuicError, QuicPath};
pub use control::quic_controllers;
pub use crypto::Protection;
pub use end::QuicEnd;

/// One end of a QUIC connection by `quinn-proto`.
pub type QuicTransport = QuicEnd<quinn::Quinn>;

/// One end of a multipath QUIC connection by `noq-proto`.
pub type MultipathQuicTransport = QuicEnd<noq::Noq>;

impl QuicTransport {
    /// The end that connects, as soon as the world runs.
    ///
    /// # Errors
    /// [`QuicError`] for an unknown congestion controller or sizes that QUIC cannot have.
    pub fn client(config: &QuicConfig, path: QuicPath) -> Result<Self, QuicError> {
        Ok(Self::new(quinn::Quinn::new(config, stack::Side::Client)?, config, &[path]))
    }

    /// The end that is connected to.
    ///
    /// # Errors
    /// As for [`Self::client`].
    pub fn server(config: &QuicConfig, path: QuicPath) -> Result<Self, QuicError> {
        Ok(Self::new(quinn::Quinn::new(config, stack::Side::Server)?, config, &[path]))
    }
}

impl MultipathQuicTransport {
    /// The end that connects over the first of `paths`, as soon as the world runs, and then opens the
    /// others.
    ///
    /// # Errors
    /// [`QuicError`] for an unknown congestion controller, sizes that QUIC cannot have, no path or
    /// more than 255.
    pub fn client(config: &QuicConfig, paths: &[QuicPath]) -> Result<Self, QuicError> {
        Ok(Self::new(noq::Noq::new(config, stack::Side::Client, paths.len())?, config, paths))
    }

    /// The end that is connected to.
    ///
    /// # Errors
    /// As for [`Self::client`].
    pub fn server(config: &QuicConfig, paths: &[QuicPath]) -> Result<Self, QuicError> {
        Ok(Self::new(noq::Noq::new(config, stack::Side::Server, paths.len())?, config, paths))
    }
}

#[cfg(test)]
mod tests;
