//! Whether the settings of a session can be used.

use thiserror::Error;
use tributary_proto::ConfigError;

use super::Common;

/// Congestion controls that QUIC has on sockets.
pub(crate) const QUIC_CONTROLLERS: [&str; 3] = ["bbr", "cubic", "reno"];

/// Why settings of a session cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A setting of the session itself.
    #[error(transparent)]
    Session(#[from] ConfigError),
    /// Plaintext mode without a shared key.
    #[error("plaintext mode works with a shared key only: give --shared-key, or leave out --plaintext")]
    PlaintextKeys,
    /// QUIC without encryption.
    #[error("QUIC is always encrypted: leave out --plaintext, or --quic")]
    PlaintextQuic,
    /// QUIC has no such congestion control.
    #[error("QUIC has no congestion control `{0}`: give cubic, bbr or reno, or leave out --quic")]
    QuicCongestion(String),
    /// Built without QUIC.
    #[error("this program is built without QUIC (feature `quic` of tributary-net)")]
    NoQuic,
}

impl Common {
    /// Checks what does not depend on the other end.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        self.session.check()?;
        if self.plaintext && self.keys.shared().is_none() {
            return Err(SettingsError::PlaintextKeys);
        }
        if !self.quic {
            return Ok(());
        }
        if cfg!(not(feature = "quic")) {
            return Err(SettingsError::NoQuic);
        }
        if self.plaintext {
            return Err(SettingsError::PlaintextQuic);
        }
        match &self.congestion {
            Some(name) if !QUIC_CONTROLLERS.contains(&&name[..]) => {
                Err(SettingsError::QuicCongestion(name.clone()))
            }
            _ => Ok(()),
        }
    }
}
