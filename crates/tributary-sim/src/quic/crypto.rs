//! Protection of packets: real TLS 1.3 with seeded random numbers, or none with the same sizes.

pub(super) mod null;
pub(super) mod null_noq;
pub(super) mod null_quinn;
pub(super) mod tls;

/// Protection of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// No cryptography: the handshake's flights and the packets have the sizes that [`Protection::Tls`]
    /// gives them, so the same seed has the same event log, several times faster. Virtual time does
    /// not charge for cryptography either way. Results that used it say so.
    #[default]
    Null,
    /// rustls with AES-128-GCM and an Ed25519 certificate; randomness is seeded, and the key exchange
    /// is a stand-in of X25519's sizes.
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
