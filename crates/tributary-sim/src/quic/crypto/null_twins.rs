//! What the cryptography traits of quinn-proto and noq-proto have in common, without cryptography: they are the same traits in
//! two crates. The methods that differ are in `null_quinn.rs` and `null_noq.rs`.

/// Implements the traits of `$quic`; `$session` and `$packet_key` are the methods in which the crates differ.
macro_rules! null_crypto {
    ($quic:ident, Session { $($session:item)* } PacketKey { $($packet_key:item)* }) => {
        use std::any::Any;
        use std::io::Cursor;

        use bytes::BytesMut;
        use $quic::crypto::{
            ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey, KeyPair,
            Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
        };
        use $quic::transport_parameters::TransportParameters;
        use $quic::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};

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

        struct NullSession {
            end: End,
            handshake: Handshake,
            /// Generation of the last keys: handshake, application data, then one for each update.
            generation: u64,
        }

        impl Session for NullSession {
            $($session)*

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

        impl Key {
            fn open(&self, payload: &mut BytesMut) -> Result<(), CryptoError> {
                let plain = opened(self.generation, payload).ok_or(CryptoError)?;
                payload.truncate(plain);
                Ok(())
            }
        }

        impl PacketKey for Key {
            $($packet_key)*

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
    };
}

pub(super) use null_crypto;
