//! Tickets of clients that have a key of their own: encrypted for the server, signed by the client.
//!
//! Nobody but the server can read who the client is and which session it joins, other clients included. Source: HPKE in base
//! mode (RFC 9180) with X25519, HKDF-SHA256 and AES-128-GCM; Ed25519 (RFC 8032). A ticket needs no state, and costs the server
//! one X25519, and one signature check if its client is in the list.

use rustls::crypto::aws_lc_rs::hpke::DH_KEM_X25519_HKDF_SHA256_AES_128 as SUITE;
use rustls::crypto::hpke::{EncapsulatedSecret, Hpke, HpkePrivateKey, HpkePublicKey};

use super::Ticket;
use crate::hello::HelloError;
use crate::identity::{PrivateKey, PublicKey, SIGNATURE};

/// Bytes of the encapsulated key, which is different in every ticket.
const ENCAPSULATED: usize = 32;
/// Client's key, time, session.
const SIGNED: usize = 32 + 8 + 16;
/// Bytes of a sealed ticket: encapsulated key, encrypted fields and signature, tag.
pub(crate) const SEALED_LENGTH: usize = ENCAPSULATED + SIGNED + SIGNATURE + 16;
const INFO: &[u8] = b"tributary ticket";

fn signed_text(server: &PublicKey, fields: &[u8]) -> Vec<u8> {
    [INFO, server.bytes(), fields].concat()
}

impl Ticket {
    /// Client: the bytes of a ticket for this server. The ticket's nonce is not used.
    pub(crate) fn seal_for(&self, server: &PublicKey, own: &PrivateKey) -> Result<Vec<u8>, HelloError> {
        let mut fields = Vec::with_capacity(SIGNED + SIGNATURE);
        fields.extend_from_slice(own.public().bytes());
        fields.extend_from_slice(&self.at.to_be_bytes());
        fields.extend_from_slice(&self.session.unwrap_or_default());
        let signature = own.sign(&signed_text(server, &fields));
        fields.extend_from_slice(&signature);
        let recipient = HpkePublicKey(server.montgomery().to_vec());
        let (encapsulated, sealed) =
            SUITE.seal(INFO, &[], &fields, &recipient).map_err(|_| HelloError::Garbage)?;
        Ok([encapsulated.0, sealed].concat())
    }

    /// Server: reads a ticket, and the key of the client that signed it. `knows` says whether a client is in the list; tickets
    /// of others are not checked any further.
    pub(crate) fn open_sealed(
        own: &PrivateKey,
        knows: impl FnOnce(&PublicKey) -> bool,
        bytes: &[u8],
    ) -> Result<(Self, PublicKey), HelloError> {
        if bytes.len() != SEALED_LENGTH {
            return Err(HelloError::Garbage);
        }
        let (encapsulated, sealed) = bytes.split_at(ENCAPSULATED);
        let secret = HpkePrivateKey::from(own.scalar().to_vec());
        let fields = SUITE
            .open(&EncapsulatedSecret(encapsulated.to_vec()), INFO, &[], sealed, &secret)
            .map_err(|_| HelloError::WrongKey)?;
        let (fields, signature) = fields.split_at(SIGNED);
        let client = PublicKey::from_bytes(std::array::from_fn(|i| fields[i])).ok_or(HelloError::WrongKey)?;
        if !knows(&client) || !client.has_signed(&signed_text(&own.public(), fields), signature) {
            return Err(HelloError::WrongKey);
        }
        let at = u64::from_be_bytes(std::array::from_fn(|i| fields[32 + i]));
        let session: [u8; 16] = std::array::from_fn(|i| fields[40 + i]);
        let nonce = std::array::from_fn(|i| encapsulated[i]);
        Ok((Self { at, nonce, session: (session != [0; 16]).then_some(session) }, client))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn only_the_server_reads_a_ticket_and_every_bit_is_authenticated() {
        let [server, client, other] = [1, 2, 3].map(|seed| PrivateKey::from_seed([seed; 32]));
        let at = UNIX_EPOCH + Duration::from_secs(1_000_000);
        for session in [None, Some([7; 16])] {
            let ticket = Ticket::new(at, [0; 16], session);
            let bytes = ticket.seal_for(&server.public(), &client).unwrap();
            assert_eq!(bytes.len(), SEALED_LENGTH);
            let (opened, from) = Ticket::open_sealed(&server, |_| true, &bytes).unwrap();
            assert_eq!((opened.at, opened.session, from), (ticket.at, session, client.public()));
            let again = ticket.seal_for(&server.public(), &client).unwrap();
            let (second, _) = Ticket::open_sealed(&server, |_| true, &again).unwrap();
            assert_ne!(opened.nonce, second.nonce, "tickets of one moment are told apart");
            for secret in [[7; 16].as_slice(), client.public().bytes()] {
                assert!(!bytes.windows(secret.len()).any(|window| window == secret), "readable by all");
            }
            assert!(Ticket::open_sealed(&other, |_| true, &bytes).is_err(), "another client reads it");
            assert!(Ticket::open_sealed(&server, |_| false, &bytes).is_err());
            for bit in 0..SEALED_LENGTH * 8 {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                // X25519 ignores the highest bit of a public key (RFC 7748 §5); HPKE authenticates it all the same.
                assert!(Ticket::open_sealed(&server, |_| true, &bad).is_err(), "bit {bit}");
            }
            assert_eq!(Ticket::open_sealed(&server, |_| true, &bytes[1..]), Err(HelloError::Garbage));
        }
    }

    #[test]
    fn a_client_cannot_make_the_ticket_of_another_one() {
        let [server, client, forger] = [1, 2, 3].map(|seed| PrivateKey::from_seed([seed; 32]));
        let mut fields = [client.public().bytes().as_slice(), &[0; 24]].concat();
        fields.extend_from_slice(&forger.sign(&signed_text(&server.public(), &fields)));
        let recipient = HpkePublicKey(server.public().montgomery().to_vec());
        let (encapsulated, sealed) = SUITE.seal(INFO, &[], &fields, &recipient).unwrap();
        let forged = [encapsulated.0, sealed].concat();
        assert_eq!(Ticket::open_sealed(&server, |_| true, &forged), Err(HelloError::WrongKey));
    }
}
