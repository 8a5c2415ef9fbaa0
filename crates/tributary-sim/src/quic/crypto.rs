//! Protection of packets: TLS 1.3 with seeded random numbers, or none with the same sizes.

pub(super) mod null;
pub(super) mod null_noq;
pub(super) mod null_quinn;
mod null_twins;
pub(super) mod tls;

/// Protection of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// No cryptography. Handshake messages and packets have the same sizes as with [`Protection::Tls`], so
    /// the same seed gives the same event log, several times faster. Cryptography takes no virtual time in
    /// either mode. Results that used it say so.
    #[default]
    Null,
    /// rustls with AES-128-GCM and an Ed25519 certificate; randomness is seeded, and the key exchange is a
    /// stand-in with the sizes of X25519.
    Tls,
}

impl Protection {
    /// Its name in results: `null-crypto` or `tls`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null-crypto",
            Self::Tls => "tls",
        }
    }
}
