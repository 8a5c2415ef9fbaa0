//! noq-proto's cryptography traits, without cryptography.

use noq_proto::PathId;

use super::null_twins::null_crypto;

null_crypto! {
    noq_proto,
    Session {
        fn initial_keys(&self, _: ConnectionId, _: Side) -> Keys {
            keys(INITIAL)
        }

        fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
            const DECODE_ERROR: u8 = 50; // RFC 8446 §6
            let refused = |_| {
                let code = TransportErrorCode::crypto(DECODE_ERROR);
                TransportError::new(code, "the handshake is of another implementation".to_owned())
            };
            self.handshake.read(bytes).map_err(refused)?;
            Ok(false)
        }

        fn is_valid_retry(&self, _: ConnectionId, _: &[u8], _: &[u8]) -> bool {
            false
        }
    }
    PacketKey {
        fn encrypt(&self, _: PathId, _: u64, packet: &mut [u8], _: usize) {
            seal(self.generation, packet);
        }

        fn decrypt(&self, _: PathId, _: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
            self.open(payload)
        }
    }
}

impl ClientConfig for Null {
    fn start_session(
        &self,
        _: u32,
        _: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(session(End::Client, parameters))
    }
}

impl ServerConfig for Null {
    fn initial_keys(&self, _: u32, _: ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys(INITIAL))
    }

    fn retry_tag(&self, _: u32, _: ConnectionId, _: &[u8]) -> [u8; 16] {
        [0; TAG]
    }

    fn start_session(&self, _: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        session(End::Server, parameters)
    }
}

impl HandshakeTokenKey for NoTokens {
    fn seal(&self, _: u128, _: &mut Vec<u8>) -> Result<(), CryptoError> {
        Ok(())
    }

    fn open<'a>(&self, _: u128, _: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        Err(CryptoError)
    }
}
