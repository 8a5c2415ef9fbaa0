//! The record layer of TLS 1.3 (RFC 8446 §5) for application data: one copy to send, none to receive.
//!
//! Records are sealed where they were gathered and opened where they were read, so the plaintexts of one read
//! become contiguous. Not here: the handshake. Deviates from RFC 8446 §4.6.3: instead of sending KeyUpdate
//! messages, both ends change keys after 2²³ records in a direction, far below AES-GCM's limit of 2²⁴·⁵. The next
//! keys come from the exporter.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;
use thiserror::Error;

use crate::hello::derive;

/// Plaintext bytes of a full record.
pub(crate) const RECORD_PAYLOAD: usize = 16384;
const HEAD: usize = 5;
const TAG: usize = 16;
const ALERT: u8 = 21;
const APPLICATION_DATA: u8 = 23;
/// Maximum ciphertext held: what a subflow seals at once, one more segment, and the records' overhead.
pub(crate) const SEALED: usize = (256 + 64 + 8) << 10;
/// Records of one direction under one key.
const EPOCH_RECORDS: u64 = 1 << 23;

/// Why a received record is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// Not a protected record, or too long.
    #[error("TLS: the peer sent something that is not an application-data record")]
    Malformed,
    /// The authentication tag does not verify.
    #[error("TLS: a record was tampered with")]
    Tampered,
    /// The peer reported an error.
    #[error("TLS: the peer sent alert {0}")]
    Alert(u8),
}

struct Keys {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
    left: u64,
    next: [u8; 32],
}

fn bind(algorithm: &'static aead::Algorithm, key: &[u8]) -> Result<LessSafeKey, rustls::Error> {
    UnboundKey::new(algorithm, key)
        .map(LessSafeKey::new)
        .map_err(|_| rustls::Error::General("key length differs from the cipher's".to_owned()))
}

impl Keys {
    fn new(
        (sequence, secrets): (u64, ConnectionTrafficSecrets),
        epochs: &[u8],
    ) -> Result<Self, rustls::Error> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv),
            _ => return Err(rustls::Error::General("unknown cipher".to_owned())),
        };
        let iv = std::array::from_fn(|i| iv.as_ref()[i]);
        let mut next = [0; 32];
        next.copy_from_slice(epochs);
        Ok(Self { key: bind(algorithm, key.as_ref())?, iv, sequence, left: EPOCH_RECORDS, next })
    }

    /// RFC 8446 §5.3; changes keys when the epoch is used up.
    fn nonce(&mut self) -> Nonce {
        if self.left == 0 {
            self.change();
        }
        self.left -= 1;
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    fn change(&mut self) {
        let algorithm = self.key.algorithm();
        let key = derive(&[], &self.next, &[b"tributary epoch key"]);
        let iv = derive(&[], &self.next, &[b"tributary epoch iv"]);
        self.next = derive(&[], &self.next, &[b"tributary epoch next"]);
        self.key = bind(algorithm, &key[..algorithm.key_len()]).expect("the length is the cipher's own");
        self.iv.copy_from_slice(&iv[..NONCE_LEN]);
        self.sequence = 0;
        self.left = EPOCH_RECORDS;
    }
}

/// Gathers plaintext into records and seals them in place.
pub(crate) struct Sealer {
    keys: Keys,
    out: Vec<u8>,
    /// Where the record that is being gathered begins, if one is.
    open: Option<usize>,
    written: usize,
}

impl Sealer {
    pub(crate) fn new(
        secrets: (u64, ConnectionTrafficSecrets),
        epochs: &[u8],
    ) -> Result<Self, rustls::Error> {
        Ok(Self { keys: Keys::new(secrets, epochs)?, out: Vec::new(), open: None, written: 0 })
    }

    /// Adds plaintext; records that become full are sealed.
    pub(crate) fn push(&mut self, mut data: &[u8]) {
        self.reserve(data.len());
        while !data.is_empty() {
            let start = *self.open.get_or_insert_with(|| {
                let start = self.out.len();
                self.out.extend_from_slice(&[APPLICATION_DATA, 3, 3, 0, 0]);
                start
            });
            let room = RECORD_PAYLOAD - (self.out.len() - start - HEAD);
            let (now, later) = data.split_at(room.min(data.len()));
            self.out.extend_from_slice(now);
            data = later;
            if now.len() == room {
                self.seal(APPLICATION_DATA);
            }
        }
    }

    /// Reserves space up to [`SEALED`] at once, because doubling would allocate up to twice that size.
    fn reserve(&mut self, more: usize) {
        let (length, capacity) = (self.out.len(), self.out.capacity());
        if length + more > capacity && capacity >= SEALED / 8 {
            self.out.reserve_exact(SEALED.saturating_sub(length).max(more));
        }
    }

    /// Seals what is gathered, full or not.
    pub(crate) fn finish(&mut self) {
        self.seal(APPLICATION_DATA);
    }

    /// Seals the record that announces the end (close_notify).
    pub(crate) fn close(&mut self) {
        self.finish();
        self.push(&[1, 0]);
        self.seal(ALERT);
    }

    fn seal(&mut self, kind: u8) {
        let Some(start) = self.open.take() else { return };
        self.out.push(kind);
        let length = self.out.len() - start - HEAD + TAG;
        self.out[start + 3..start + HEAD].copy_from_slice(&(length as u16).to_be_bytes());
        let nonce = self.keys.nonce();
        let (head, body) = self.out[start..].split_at_mut(HEAD);
        let tag = self
            .keys
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(&*head), body)
            .expect("a record is far shorter than the cipher's limit");
        self.out.extend_from_slice(tag.as_ref());
    }

    /// Sealed bytes not yet written.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.out[self.written..self.open.unwrap_or(self.out.len())]
    }

    /// Bytes held, sealed or not.
    pub(crate) fn held(&self) -> usize {
        self.out.len() - self.written
    }

    /// Removes `n` bytes that were written.
    pub(crate) fn advance(&mut self, n: usize) {
        self.written += n;
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
    }
}

/// Result of [`Opener::open`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Bytes of the records that were opened.
    pub consumed: usize,
    /// Bytes of plaintext, now at the buffer's beginning.
    pub plaintext: usize,
    /// The peer announced the end (close_notify).
    pub closed: bool,
}

/// Bytes that are missing from the record at the beginning of `buffer`; zero when its head is not complete.
pub(crate) fn missing(buffer: &[u8]) -> usize {
    match buffer {
        [_, _, _, high, low, ..] => {
            let end = HEAD + usize::from(u16::from_be_bytes([*high, *low]));
            end.saturating_sub(buffer.len())
        }
        _ => 0,
    }
}

/// Opens records in place.
pub(crate) struct Opener {
    keys: Keys,
}

impl Opener {
    pub(crate) fn new(
        secrets: (u64, ConnectionTrafficSecrets),
        epochs: &[u8],
    ) -> Result<Self, rustls::Error> {
        Ok(Self { keys: Keys::new(secrets, epochs)? })
    }

    /// Opens every whole record at the beginning of `buffer`, and moves their plaintexts together at its
    /// beginning.
    pub(crate) fn open(&mut self, buffer: &mut [u8]) -> Result<Opened, RecordError> {
        let mut done = Opened::default();
        while !done.closed && buffer.len() - done.consumed >= HEAD {
            let at = done.consumed;
            let head: [u8; HEAD] = std::array::from_fn(|i| buffer[at + i]);
            let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
            if head[0] != APPLICATION_DATA || !(TAG + 1..=RECORD_PAYLOAD + 256).contains(&length) {
                return Err(RecordError::Malformed);
            }
            let end = at + HEAD + length;
            if buffer.len() < end {
                break;
            }
            let nonce = self.keys.nonce();
            let start = at + HEAD - done.plaintext;
            let record = &mut buffer[done.plaintext..end];
            let plain = self
                .keys
                .key
                .open_within(nonce, Aad::from(head), record, start..)
                .map_err(|_| RecordError::Tampered)?;
            // The type is the last byte that is not padding (RFC 8446 §5.4).
            let last = plain.iter().rposition(|&byte| byte != 0).ok_or(RecordError::Malformed)?;
            match (plain[last], last) {
                (APPLICATION_DATA, length) => done.plaintext += length,
                (ALERT, 2) if plain[1] == 0 => done.closed = true,
                (ALERT, 2) => return Err(RecordError::Alert(plain[1])),
                _ => return Err(RecordError::Malformed),
            }
            done.consumed = end;
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests;
