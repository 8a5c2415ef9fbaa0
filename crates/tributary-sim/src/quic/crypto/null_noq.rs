//! noq-proto's cryptography traits, without cryptography.

use std::any::Any;
use std::io::Cursor;

use bytes::BytesMut;
use noq_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey, KeyPair,
    Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, PathId, Side, TransportError, TransportErrorCode};

use super::super::random;
use super::null::{End, Handshake, INITIAL, OPENED_WRONG_MOST, SEALED_MOST, TAG, opened, seal};

/// Both ends' configuration.
#[derive(Debug)]
pub(in super::super) struct Null;

fn session(end: End, parameters: &TransportParameters) -> Box<dyn Session> {
    let mut own = Vec::new();
    parameters.write(&mut own);
    Box::new(NullSession { end, handshake: Handshake::new(end, own), generation: INITIAL })
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

struct NullSession {
    end: End,
    handshake: Handshake,
    /// Generation of the last keys: handshake, application data, then one for each update.
    generation: u64,
}

impl Session for NullSession {
    fn initial_keys(&self, _: ConnectionId, _: Side) -> Keys {
        keys(INITIAL)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        (self.end == End::Client).then_some(false)
    }

    fn is_handshaking(&self) -> bool {
        self.handshake.is_handshaking()
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

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let side = if self.end == End::Client { Side::Client } else { Side::Server };
        let read = |bytes| TransportParameters::read(side, &mut Cursor::new(bytes));
        Ok(self.handshake.peer_parameters().map(read).transpose()?)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        self.handshake.write(out).then(|| self.next_keys())
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(self.next_keys().packet)
    }

    fn is_valid_retry(&self, _: ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false
    }

    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

impl NullSession {
    fn next_keys(&mut self) -> Keys {
        self.generation += 1;
        keys(self.generation)
    }
}

/// Leaves packets unchanged and writes its generation into the tag, so that another key does not open them.
struct Key {
    generation: u64,
}

fn keys(generation: u64) -> Keys {
    let key = || Key { generation };
    Keys {
        header: KeyPair { local: Box::new(key()), remote: Box::new(key()) },
        packet: KeyPair { local: Box::new(key()), remote: Box::new(key()) },
    }
}

impl PacketKey for Key {
    fn encrypt(&self, _: PathId, _: u64, packet: &mut [u8], _: usize) {
        seal(self.generation, packet);
    }

    fn decrypt(&self, _: PathId, _: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let plain = opened(self.generation, payload).ok_or(CryptoError)?;
        payload.truncate(plain);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        SEALED_MOST
    }

    fn integrity_limit(&self) -> u64 {
        OPENED_WRONG_MOST
    }
}

impl HeaderKey for Key {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}

    fn encrypt(&self, _: usize, _: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        TAG
    }
}

/// Makes stateless-reset tokens from a seed.
pub(in super::super) struct ResetKey(pub u64);

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], out: &mut [u8]) {
        random::checksum(self.0, data, out);
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut expected = [0; 32];
        self.sign(data, &mut expected);
        if signature == expected { Ok(()) } else { Err(CryptoError) }
    }
}

/// Address-validation tokens: the simulated servers send none and accept none.
pub(in super::super) struct NoTokens;

impl HandshakeTokenKey for NoTokens {
    fn seal(&self, _: u128, _: &mut Vec<u8>) -> Result<(), CryptoError> {
        Ok(())
    }

    fn open<'a>(&self, _: u128, _: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        Err(CryptoError)
    }
}
