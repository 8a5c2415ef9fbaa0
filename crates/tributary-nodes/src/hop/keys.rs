//! What a hop derives from the key that both its ends have, and the two keys of one session. Sources: RFC 5869 (HKDF), RFC 2104
//! (HMAC), NIST SP 800-38D (GCM).

use super::replay::ReplayWindow;
use super::wire::{DATA_HEADER, ID, Kind, MAC, SALT, array};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{hkdf, hmac};
use tributary_net::Key;
use zeroize::Zeroizing;

/// Names the hop's protocol and its version in everything that is derived for it.
pub(crate) const LABEL: &[u8] = b"tributary cotag hop 4";

/// A hop's long-lived keys. They are overwritten when they are dropped; aws-lc does the same with its own.
pub(super) struct HopKeys {
    /// Names the key in an `init` without revealing it, so that the responder finds the hop with one comparison.
    pub(super) id: [u8; ID],
    mac: hmac::Key,
    shared: Key,
}

impl HopKeys {
    pub(super) fn new(shared: Key) -> Self {
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, LABEL).extract(shared.bytes());
        let (mut id, mut mac) = ([0; 32], Zeroizing::new([0; 32]));
        for (info, out) in [(b"id".as_slice(), &mut id), (b"mac", &mut *mac)] {
            let info = [info];
            let okm = secret.expand(&info, hkdf::HKDF_SHA256).expect("32 bytes are within HKDF's limit");
            okm.fill(out).expect("the output has the asked length");
        }
        Self { id: array(&id, 0), mac: hmac::Key::new(hmac::HMAC_SHA256, &*mac), shared }
    }

    /// The MAC of the parts: one keyed hash.
    pub(super) fn mac(&self, parts: &[&[u8]]) -> [u8; MAC] {
        let mut context = hmac::Context::with_key(&self.mac);
        parts.iter().for_each(|part| context.update(part));
        *context.sign().as_ref().first_chunk().expect("SHA-256 has 32 bytes")
    }

    pub(super) fn verifies(&self, parts: &[&[u8]], mac: &[u8]) -> bool {
        verify_slices_are_equal(&self.mac(parts), mac).is_ok()
    }

    /// The session of both ends' salts and numbers.
    pub(super) fn session(
        &self,
        is_initiator: bool,
        (ours, theirs): (u32, u32),
        (initiator, responder): (&[u8; SALT], &[u8; SALT]),
    ) -> Session {
        let salt = [initiator.as_slice(), responder].concat();
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt).extract(self.shared.bytes());
        let key = |towards: &[u8]| {
            let info = [LABEL, b" ", towards];
            let okm = secret.expand(&info, &AES_128_GCM).expect("16 bytes are within HKDF's limit");
            LessSafeKey::new(UnboundKey::from(okm))
        };
        let (up, down) = (key(b"up"), key(b"down"));
        let (seal, open) = if is_initiator { (up, down) } else { (down, up) };
        Session { ours, theirs, seal, open, next: 0, window: ReplayWindow::new() }
    }
}

/// One session's keys and packet numbers.
pub(super) struct Session {
    /// The session number that the peer puts into packets to us, and the one that we use.
    pub(super) ours: u32,
    theirs: u32,
    seal: LessSafeKey,
    open: LessSafeKey,
    next: u64,
    window: ReplayWindow,
}

/// Why a data packet was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unopened {
    Forged,
    Replayed,
}

impl Session {
    /// Packets so far, in the direction that has more.
    pub(super) fn packets(&self) -> u64 {
        self.next.max(self.window.end())
    }

    /// Decrypts a data packet in place; returns its number and message.
    pub(super) fn open<'a>(&mut self, datagram: &'a mut [u8]) -> Result<(u64, &'a [u8]), Unopened> {
        let (header, body) = datagram.split_at_mut(DATA_HEADER);
        let counter = u64::from_be_bytes(array(header, 8));
        let plain = self.open.open_in_place(nonce(counter), Aad::from(&*header), body);
        let plain = plain.map_err(|_| Unopened::Forged)?;
        if self.window.accept(counter) { Ok((counter, plain)) } else { Err(Unopened::Replayed) }
    }

    /// Appends a data packet with the message that `write` appends; returns its number.
    pub(super) fn seal(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let counter = self.next;
        self.next += 1;
        let begin = out.len();
        out.extend_from_slice(&Kind::Data.head(self.theirs));
        out.extend_from_slice(&counter.to_be_bytes());
        write(out);
        let (header, body) = out[begin..].split_at_mut(DATA_HEADER);
        let tag = self.seal.seal_in_place_separate_tag(nonce(counter), Aad::from(&*header), body);
        let tag = tag.expect("a datagram is far below the cipher's limit");
        out.extend_from_slice(tag.as_ref());
        counter
    }
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}
