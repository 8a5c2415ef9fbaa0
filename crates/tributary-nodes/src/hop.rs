//! One hop between two nodes, sans-IO: authenticates the peer, and makes sure that every packet comes from
//! it, unchanged and only once.
//!
//! The node nearer to the device begins ([`Hop::initiator`]): its `init` and the other's `reply` carry fresh
//! random salts and are authenticated with the hop's pre-shared key (HMAC-SHA256). Both salts and the key give
//! the session's two keys (HKDF-SHA256), so that packets of an earlier session, or of an earlier start of
//! either node, do not verify. Data is AES-128-GCM; its number is the nonce and goes through a replay window.
//! The responder switches to a new session only when data of it has verified: a repeated `init` changes nothing.
//!
//! | bytes of data | meaning |
//! |---|---|
//! | 0 | 3 (`init` is 1, `reply` 2) |
//! | 1–3 | version 1, zero, zero |
//! | 4–7 | the receiver's number of the session |
//! | 8–15 | packet number, big-endian |
//! | 16– | ciphertext and 16 bytes of tag |
//!
//! Not here: sockets and what the plaintext means (`message`). No forward secrecy: anyone who learns the key can
//! read recorded traffic; inner traffic that needs more has its own encryption.

mod replay;

pub(crate) use replay::ReplayWindow;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::{hkdf, hmac};
use core::time::Duration;
use serde::Serialize;
use tributary_types::Instant;

/// Bytes that a hop adds to a message.
pub(crate) const OVERHEAD: usize = DATA_HEADER + 16;
const DATA_HEADER: usize = 16;
const SALT: usize = 16;
const MAC: usize = 16;
const INIT: usize = 8 + SALT + MAC;
const REPLY: usize = 12 + SALT + MAC;
const VERSION: u8 = 2;
/// Time between two attempts to begin a session.
const RETRY: Duration = Duration::from_millis(250);
/// Silence after which the initiator starts a new handshake, and after which a link counts as down.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);
/// Packets of one session, in either direction, before the initiator begins a new one. NIST SP 800-38D §8.3 allows 2^32 for random
/// nonces; numbers are safer still.
const MOST_PACKETS: u64 = 1 << 32;

/// What a hop refused, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Refusals {
    /// Shorter than any packet, or of another version.
    pub malformed: u64,
    /// Does not verify with the key of its session or hop.
    pub forged: u64,
    /// Verifies, but has been seen before or is too old to tell.
    pub replayed: u64,
}

struct Session {
    /// The session number that the peer puts into packets to us, and the one that we use.
    ours: u32,
    theirs: u32,
    seal: LessSafeKey,
    open: LessSafeKey,
    next: u64,
    window: ReplayWindow,
}

/// An `init` that has not been answered yet.
struct Attempt {
    ours: u32,
    salt: [u8; SALT],
    at: Instant,
}

/// Result of processing a datagram.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received<'a> {
    /// A message from the peer, and its number.
    Message(u64, &'a [u8]),
    /// Part of the handshake; an answer to send to its source, if any.
    Handshake(Option<Vec<u8>>),
    /// Not for this hop.
    Foreign,
    /// Refused and counted.
    Refused,
}

/// The hop's state machine.
pub(crate) struct Hop {
    is_initiator: bool,
    key: [u8; 32],
    random: SystemRandom,
    current: Option<Session>,
    /// A responder's session that has not been confirmed by data.
    offered: Option<Session>,
    /// The last `init` and its `reply`, because the network may deliver an `init` twice.
    answered: Option<(Vec<u8>, Vec<u8>)>,
    attempt: Option<Attempt>,
    last_heard: Option<Instant>,
    refusals: Refusals,
    sessions: u64,
}

impl Hop {
    /// The end that begins sessions.
    pub(crate) fn initiator(key: [u8; 32]) -> Self {
        Self::new(key, true)
    }

    /// The end that answers.
    pub(crate) fn responder(key: [u8; 32]) -> Self {
        Self::new(key, false)
    }

    fn new(key: [u8; 32], is_initiator: bool) -> Self {
        Self {
            is_initiator,
            key,
            random: SystemRandom::new(),
            current: None,
            offered: None,
            answered: None,
            attempt: None,
            last_heard: None,
            refusals: Refusals::default(),
            sessions: 0,
        }
    }

    /// Whether messages can be sent.
    pub(crate) fn is_established(&self) -> bool {
        self.current.is_some()
    }

    /// Number of sessions begun so far.
    pub(crate) fn sessions(&self) -> u64 {
        self.sessions
    }

    /// Counters of refused datagrams.
    pub(crate) fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// Whether the peer was heard recently.
    pub(crate) fn is_up(&self, now: Instant) -> bool {
        self.is_established() && self.last_heard.is_some_and(|at| now.saturating_since(at) < SILENCE)
    }

    /// An `init` to send, if it is time for one.
    pub(crate) fn poll_handshake(&mut self, now: Instant) -> Option<Vec<u8>> {
        let is_worn = self
            .current
            .as_ref()
            .is_some_and(|session| session.next.max(session.window.end()) > MOST_PACKETS);
        if !self.is_initiator || self.is_up(now) && !is_worn {
            return None;
        }
        if self.attempt.as_ref().is_some_and(|attempt| now.saturating_since(attempt.at) < RETRY) {
            return None;
        }
        // An attempt keeps its salt until its reply has come, so that a reply that takes longer than the
        // interval between attempts still fits.
        let (ours, salt) = match self.attempt.take() {
            Some(attempt) => (attempt.ours, attempt.salt),
            None => (u32::from_be_bytes(self.fresh()), self.fresh()),
        };
        let mut bytes = vec![1, VERSION, 0, 0];
        bytes.extend_from_slice(&ours.to_be_bytes());
        bytes.extend_from_slice(&salt);
        let mac = self.mac(&[b"init", &bytes]);
        bytes.extend_from_slice(&mac);
        self.attempt = Some(Attempt { ours, salt, at: now });
        Some(bytes)
    }

    /// When to call [`poll_handshake`](Self::poll_handshake) while there is no session; `None` at a
    /// responder.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let next = self.attempt.as_ref().map_or(Instant::ZERO, |attempt| attempt.at + RETRY);
        self.is_initiator.then_some(next)
    }

    /// Takes a datagram; a message is decrypted in place.
    pub(crate) fn handle_datagram<'a>(&mut self, now: Instant, datagram: &'a mut [u8]) -> Received<'a> {
        match (datagram.first(), datagram.get(1)) {
            (Some(1), Some(&VERSION)) if datagram.len() == INIT => self.handle_init(datagram),
            (Some(2), Some(&VERSION)) if datagram.len() == REPLY => self.handle_reply(now, datagram),
            (Some(3), Some(&VERSION)) if datagram.len() >= OVERHEAD => self.handle_data(now, datagram),
            _ => {
                self.refusals.malformed += 1;
                Received::Refused
            }
        }
    }

    /// Whether a datagram is for this hop, as far as can be determined without decrypting it.
    pub(crate) fn owns(&self, datagram: &[u8]) -> bool {
        let is =
            |session: &Option<Session>, index| session.as_ref().is_some_and(|session| session.ours == index);
        match (datagram.first(), datagram.get(4..8).map(number)) {
            (Some(1), _) if !self.is_initiator && datagram.len() == INIT => {
                let (body, mac) = datagram.split_at(INIT - MAC);
                self.verifies(&[b"init", body], mac)
            }
            (Some(2), Some(index)) => self.attempt.as_ref().is_some_and(|attempt| attempt.ours == index),
            (Some(3), Some(index)) => is(&self.current, index) || is(&self.offered, index),
            _ => false,
        }
    }

    /// Counts a datagram that belongs to none of a socket's hops.
    pub(crate) fn refuse_stranger(&mut self, datagram: &[u8]) {
        let least = match datagram.first() {
            Some(1) => INIT,
            Some(2) => REPLY,
            Some(3) => OVERHEAD,
            _ => usize::MAX,
        };
        let is_whole = datagram.len() >= least && datagram[1] == VERSION;
        *(if is_whole { &mut self.refusals.forged } else { &mut self.refusals.malformed }) += 1;
    }

    fn handle_init(&mut self, init: &[u8]) -> Received<'static> {
        let (body, mac) = init.split_at(INIT - MAC);
        if self.is_initiator || !self.verifies(&[b"init", body], mac) {
            return Received::Foreign;
        }
        if let Some((_, reply)) =
            self.answered.as_ref().filter(|(known, _)| known == body && self.offered.is_some())
        {
            return Received::Handshake(Some(reply.clone()));
        }
        let theirs = number(&body[4..8]);
        let salt: [u8; SALT] = body[8..].try_into().expect("the length was checked");
        let (ours, own) = (u32::from_be_bytes(self.fresh()), self.fresh::<SALT>());
        self.offered = Some(self.session((ours, theirs), (&salt, &own)));
        let mut reply = vec![2, VERSION, 0, 0];
        reply.extend_from_slice(&theirs.to_be_bytes());
        reply.extend_from_slice(&ours.to_be_bytes());
        reply.extend_from_slice(&own);
        let mac = self.mac(&[b"reply", &salt, &reply]);
        reply.extend_from_slice(&mac);
        self.answered = Some((body.to_vec(), reply.clone()));
        Received::Handshake(Some(reply))
    }

    fn handle_reply(&mut self, now: Instant, reply: &[u8]) -> Received<'static> {
        let (body, mac) = reply.split_at(REPLY - MAC);
        let Some(attempt) = self.attempt.as_ref().filter(|attempt| attempt.ours == number(&body[4..8]))
        else {
            return Received::Foreign;
        };
        if !self.verifies(&[b"reply", &attempt.salt, body], mac) {
            self.refusals.forged += 1;
            return Received::Refused;
        }
        let salt: [u8; SALT] = body[12..].try_into().expect("the length was checked");
        let session = self.session((attempt.ours, number(&body[8..12])), (&attempt.salt, &salt));
        self.begin(now, session);
        self.attempt = None;
        Received::Handshake(None)
    }

    fn handle_data<'a>(&mut self, now: Instant, datagram: &'a mut [u8]) -> Received<'a> {
        let ours = number(&datagram[4..8]);
        let is_offered = self.offered.as_ref().is_some_and(|session| session.ours == ours);
        let session = if is_offered { self.offered.as_mut() } else { self.current.as_mut() };
        let Some(session) = session.filter(|session| session.ours == ours) else { return Received::Foreign };
        let (header, body) = datagram.split_at_mut(DATA_HEADER);
        let counter = u64::from_be_bytes(header[8..].try_into().expect("eight bytes"));
        let Ok(plain) = session.open.open_in_place(nonce(counter), Aad::from(&*header), body) else {
            self.refusals.forged += 1;
            return Received::Refused;
        };
        if !session.window.accept(counter) {
            self.refusals.replayed += 1;
            return Received::Refused;
        }
        if is_offered && let Some(session) = self.offered.take() {
            self.begin(now, session);
        }
        self.last_heard = Some(now);
        Received::Message(counter, plain)
    }

    fn begin(&mut self, now: Instant, session: Session) {
        self.current = Some(session);
        self.last_heard = Some(now);
        self.sessions += 1;
    }

    /// Appends to `out` a datagram with the message that `write` appends. Returns its number; without a
    /// session appends nothing and returns `None`.
    pub(crate) fn seal(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Option<u64> {
        let session = self.current.as_mut()?;
        let counter = session.next;
        session.next += 1;
        let begin = out.len();
        out.extend_from_slice(&[3, VERSION, 0, 0]);
        out.extend_from_slice(&session.theirs.to_be_bytes());
        out.extend_from_slice(&counter.to_be_bytes());
        write(out);
        let (header, body) = out[begin..].split_at_mut(DATA_HEADER);
        let aad = Aad::from(&*header);
        let tag = session.seal.seal_in_place_separate_tag(nonce(counter), aad, body);
        let tag = tag.expect("a datagram is far below the cipher's limit");
        out.extend_from_slice(tag.as_ref());
        Some(counter)
    }

    fn session(&self, (ours, theirs): (u32, u32), salts: (&[u8; SALT], &[u8; SALT])) -> Session {
        let salt = [salts.0.as_slice(), salts.1].concat();
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt).extract(&self.key);
        let key = |towards: &[u8]| {
            let info = [b"tributary cotag hop 1 ".as_slice(), towards];
            let okm = secret.expand(&info, &AES_128_GCM).expect("16 bytes are within HKDF's limit");
            LessSafeKey::new(UnboundKey::from(okm))
        };
        let (up, down) = (key(b"up"), key(b"down"));
        let (seal, open) = if self.is_initiator { (up, down) } else { (down, up) };
        Session { ours, theirs, seal, open, next: 0, window: ReplayWindow::new() }
    }

    fn mac(&self, parts: &[&[u8]]) -> [u8; MAC] {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.key));
        parts.iter().for_each(|part| context.update(part));
        *context.sign().as_ref().first_chunk().expect("SHA-256 has 32 bytes")
    }

    fn verifies(&self, parts: &[&[u8]], mac: &[u8]) -> bool {
        // Both sides are hashed with a fresh key first, so that the duration of the comparison reveals
        // nothing.
        let blind: [u8; 32] = self.fresh();
        let blind = hmac::Key::new(hmac::HMAC_SHA256, &blind);
        hmac::sign(&blind, &self.mac(parts)).as_ref() == hmac::sign(&blind, mac).as_ref()
    }

    fn fresh<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.random.fill(&mut bytes).expect("the operating system gives random bytes");
        bytes
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests;
