//! Who may record: both ends have a shared key.
//!
//! A server answers an unknown address with a cookie, which is not longer than the question (as QUIC's Retry, RFC 9000 §8.1). The
//! client proves by a tag over the cookie that it has the key, and by the cookie that its address is its own. Messages are not
//! encrypted: they hold nothing but times.

use super::wire::{COOKIE, Proof, TAG};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use std::net::SocketAddr;
use tributary_net::{Key, KeyError};

/// Separates this use of a shared key from others.
const CONTEXT: &[u8] = b"tributary record 1";

/// The shared key of both ends.
#[derive(Clone, Debug)]
pub struct Credentials(hmac::Key);

impl Credentials {
    pub fn new(key: &Key) -> Self {
        Self(hmac::Key::new(HMAC_SHA256, key.bytes()))
    }

    /// Proof of the key for a server that sent this cookie.
    pub fn prove(&self, cookie: [u8; COOKIE]) -> Proof {
        let tag = first(hmac::sign(&self.0, &[CONTEXT, &cookie].concat()).as_ref());
        Proof { cookie, tag }
    }

    /// Tells two machines apart whose clock is not the same one, without telling the machine's number; 0 if it has none.
    pub fn clock(&self) -> u64 {
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        if boot.is_empty() {
            return 0;
        }
        u64::from_be_bytes(first(hmac::sign(&self.0, &[CONTEXT, b"clock", &boot].concat()).as_ref()))
    }
}

/// What a client has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its address and the key.
    Proved,
    /// Its address only: it has another key.
    WrongKey,
    /// Nothing.
    Unknown,
}

/// The server's side: a secret of its own for the cookies.
#[derive(Debug)]
pub struct Guard {
    credentials: Credentials,
    secret: hmac::Key,
}

impl Guard {
    /// # Errors
    /// [`KeyError::NoEntropy`].
    pub fn new(key: &Key) -> Result<Self, KeyError> {
        let secret = hmac::Key::new(HMAC_SHA256, Key::generate()?.bytes());
        Ok(Self { credentials: Credentials::new(key), secret })
    }

    /// The cookie of an address.
    pub fn cookie(&self, from: SocketAddr) -> [u8; COOKIE] {
        first(hmac::sign(&self.secret, from.to_string().as_bytes()).as_ref())
    }

    pub fn standing(&self, proof: &Proof, from: SocketAddr) -> Standing {
        let cookie = self.cookie(from);
        if verify_slices_are_equal(&proof.cookie, &cookie).is_err() {
            return Standing::Unknown;
        }
        let own: [u8; TAG] = self.credentials.prove(cookie).tag;
        match verify_slices_are_equal(&proof.tag, &own) {
            Ok(()) => Standing::Proved,
            Err(_) => Standing::WrongKey,
        }
    }

    pub fn clock(&self) -> u64 {
        self.credentials.clock()
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().expect("a tag of SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_needs_its_own_address_and_the_key() {
        let (key, other) = (Key::from_bytes([1; 32]), Key::from_bytes([2; 32]));
        let guard = Guard::new(&key).unwrap();
        let [here, there] = ["192.0.2.1:7", "192.0.2.1:8"].map(|address| address.parse().unwrap());
        let proof = Credentials::new(&key).prove(guard.cookie(here));
        assert_eq!(guard.standing(&proof, here), Standing::Proved);
        assert_eq!(guard.standing(&proof, there), Standing::Unknown);
        assert_eq!(Guard::new(&key).unwrap().standing(&proof, here), Standing::Unknown);
        let stranger = Credentials::new(&other).prove(guard.cookie(here));
        assert_eq!(guard.standing(&stranger, here), Standing::WrongKey);
    }
}
