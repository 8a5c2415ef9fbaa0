//! quinn-proto's cryptography traits, without cryptography.

use std::sync::Arc;

use quinn_proto::crypto::AeadKey;

use super::null_twins::null_crypto;

null_crypto! {
    quinn_proto,
    Session {
        fn initial_keys(&self, _: &ConnectionId, _: Side) -> Keys {
            keys(INITIAL)
        }

        fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
            const DECODE_ERROR: u8 = 50; // RFC 8446 §6
            self.handshake.read(bytes).map_err(|_| TransportErrorCode::crypto(DECODE_ERROR))?;
            Ok(false)
        }

        fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
            false
        }
    }
    PacketKey {
        fn encrypt(&self, _: u64, packet: &mut [u8], _: usize) {
            seal(self.generation, packet);
        }

        fn decrypt(&self, _: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
            self.open(payload)
        }
    }
}

impl ClientConfig for Null {
    fn start_session(
        self: Arc<Self>,
        _: u32,
        _: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(session(End::Client, parameters))
    }
}

impl ServerConfig for Null {
    fn initial_keys(&self, _: u32, _: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys(INITIAL))
    }

    fn retry_tag(&self, _: u32, _: &ConnectionId, _: &[u8]) -> [u8; 16] {
        [0; TAG]
    }

    fn start_session(self: Arc<Self>, _: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        session(End::Server, parameters)
    }
}

impl HandshakeTokenKey for NoTokens {
    fn aead_from_hkdf(&self, _: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Self)
    }
}

impl AeadKey for NoTokens {
    fn seal(&self, _: &mut Vec<u8>, _: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }

    fn open<'a>(&self, _: &'a mut [u8], _: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        Err(CryptoError)
    }
}
