//! Tickets, which clients send before the server keeps any state for them, and the server's proofs.
//!
//! A *ticket* is the first message of a client: in the ClientHello under TLS, alone in plaintext mode. Its MAC proves
//! that the client has the key, before the server does more expensive work. A ticket does not admit a connection to a
//! session; the hello does, which is bound to the connection. A connection with a replayed ticket is treated as one
//! without a ticket. A client checks the server's *proof* before it sends anything but its ticket. Pure: bytes in,
//! bytes out. Source: `docs/wire-handshake.md`. This is the form with a shared key; clients that have a key of their own send
//! [`sealed`] tickets.

mod sealed;

use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;

use crate::hello::{HelloError, Mode, SessionTag, derive};
use crate::key::Key;

pub(crate) use sealed::SEALED_LENGTH;

/// Bytes of a ticket: time, nonce, sealed session, MAC.
pub(crate) const TICKET_LENGTH: usize = 8 + 16 + 16 + 32;
/// Bytes of a proof of the server.
pub(crate) const PROOF_LENGTH: usize = 32;
const SIGNED: usize = TICKET_LENGTH - PROOF_LENGTH;

/// Largest accepted difference between the two clocks.
const CLOCKS_APART: Duration = Duration::from_secs(120);
/// Nonces remembered in each of two generations: 2 MiB in all. A ticket is forgotten when it has expired, or when
/// this many newer ones were seen.
const NONCES: usize = 1 << 15;

/// A ticket whose MAC is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// Milliseconds since 1970 at the client.
    at: u64,
    pub nonce: [u8; 16],
    /// The session that the connection will join; `None`: it will open one.
    pub session: Option<SessionTag>,
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn secret(key: &Key, mode: Mode, purpose: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &derive(b"", key.bytes(), &[purpose, mode.label()]))
}

/// Encrypts the session's tag, or zeros, so that only peers with the key can read it.
fn hide(secret: &hmac::Key, nonce: &[u8; 16], session: [u8; 16]) -> [u8; 16] {
    let pad = hmac::sign(secret, &[b"session".as_slice(), nonce].concat());
    std::array::from_fn(|i| session[i] ^ pad.as_ref()[i])
}

impl Ticket {
    pub(crate) fn new(now: SystemTime, nonce: [u8; 16], session: Option<SessionTag>) -> Self {
        Self { at: millis(now), nonce, session }
    }

    /// Client: the bytes of a ticket.
    pub(crate) fn seal(&self, key: &Key, mode: Mode) -> [u8; TICKET_LENGTH] {
        let secret = secret(key, mode, b"tributary ticket");
        let mut out = [0; TICKET_LENGTH];
        out[..8].copy_from_slice(&self.at.to_be_bytes());
        out[8..24].copy_from_slice(&self.nonce);
        out[24..40].copy_from_slice(&hide(&secret, &self.nonce, self.session.unwrap_or_default()));
        let mac = hmac::sign(&secret, &[b"ticket".as_slice(), &out[..SIGNED]].concat());
        out[SIGNED..].copy_from_slice(mac.as_ref());
        out
    }

    /// Server: checks a ticket in constant time.
    pub(crate) fn open(key: &Key, mode: Mode, bytes: &[u8]) -> Result<Self, HelloError> {
        let bytes: &[u8; TICKET_LENGTH] = bytes.try_into().map_err(|_| HelloError::Garbage)?;
        let secret = secret(key, mode, b"tributary ticket");
        let (signed, mac) = bytes.split_at(SIGNED);
        hmac::verify(&secret, &[b"ticket".as_slice(), signed].concat(), mac)
            .map_err(|_| HelloError::WrongKey)?;
        let at = u64::from_be_bytes(std::array::from_fn(|i| bytes[i]));
        let nonce = std::array::from_fn(|i| bytes[8 + i]);
        let session = hide(&secret, &nonce, std::array::from_fn(|i| bytes[24 + i]));
        Ok(Self { at, nonce, session: (session != [0; 16]).then_some(session) })
    }
}

/// Server: proof over the TLS certificate that the server has the key. TLS proves that the server owns the
/// certificate.
pub(crate) fn certificate_proof(key: &Key, certificate: &[u8]) -> [u8; PROOF_LENGTH] {
    let secret = secret(key, Mode::Tls, b"tributary certificate");
    std::array::from_fn(|i| hmac::sign(&secret, certificate).as_ref()[i])
}

/// Client: checks the proof for a certificate in constant time.
pub(crate) fn verify_certificate(key: &Key, certificate: &[u8], proof: &[u8]) -> Result<(), HelloError> {
    let secret = secret(key, Mode::Tls, b"tributary certificate");
    hmac::verify(&secret, certificate, proof).map_err(|_| HelloError::WrongKey)
}

fn challenge_text(ticket: &[u8; TICKET_LENGTH], challenge: &[u8]) -> Vec<u8> {
    [ticket.as_slice(), challenge].concat()
}

/// Server, plaintext mode: proves to the client with this ticket that the server has the key.
pub(crate) fn challenge_proof(
    key: &Key,
    ticket: &[u8; TICKET_LENGTH],
    challenge: &[u8],
) -> [u8; PROOF_LENGTH] {
    let secret = secret(key, Mode::Plaintext, b"tributary challenge");
    let mac = hmac::sign(&secret, &challenge_text(ticket, challenge));
    std::array::from_fn(|i| mac.as_ref()[i])
}

/// Client, plaintext mode: checks the proof after a challenge in constant time.
pub(crate) fn verify_challenge(
    key: &Key,
    ticket: &[u8; TICKET_LENGTH],
    challenge: &[u8],
    proof: &[u8],
) -> Result<(), HelloError> {
    let secret = secret(key, Mode::Plaintext, b"tributary challenge");
    hmac::verify(&secret, &challenge_text(ticket, challenge), proof).map_err(|_| HelloError::WrongKey)
}

/// Result of checking a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// Recent and seen for the first time.
    Fresh,
    /// Its time is too far from the server's clock.
    Undated,
    /// Seen before.
    Seen,
}

/// Tickets seen lately.
#[derive(Debug)]
pub(crate) struct Tickets {
    /// The present generation and the one before.
    seen: [HashSet<[u8; 16]>; 2],
    since: u64,
}

impl Tickets {
    pub(crate) fn new(now: SystemTime) -> Self {
        Self { seen: Default::default(), since: millis(now) }
    }

    /// Checks a ticket and remembers it.
    pub(crate) fn look(&mut self, now: SystemTime, ticket: &Ticket) -> Worth {
        let apart = CLOCKS_APART.as_millis() as u64;
        let now = millis(now);
        // A ticket is valid from `apart` before its time to `apart` after it.
        if now.abs_diff(self.since) > 2 * apart || self.seen[0].len() >= NONCES {
            self.seen.swap(0, 1);
            self.seen[0].clear();
            self.since = now;
        }
        if self.seen[1].contains(&ticket.nonce) || !self.seen[0].insert(ticket.nonce) {
            return Worth::Seen;
        }
        if now.abs_diff(ticket.at) > apart { Worth::Undated } else { Worth::Fresh }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    #[test]
    fn tickets_round_trip_and_every_bit_is_authenticated() {
        let key = Key::from_bytes([1; 32]);
        for session in [None, Some([7; 16])] {
            let ticket = Ticket::new(at(0), [3; 16], session);
            let bytes = ticket.seal(&key, Mode::Tls);
            assert_eq!(Ticket::open(&key, Mode::Tls, &bytes), Ok(ticket));
            assert!(!bytes.windows(16).any(|window| window == [7; 16]), "the session is readable");
            for bit in 0..TICKET_LENGTH * 8 {
                let mut bad = bytes;
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Ticket::open(&key, Mode::Tls, &bad), Err(HelloError::WrongKey), "bit {bit}");
            }
            assert!(Ticket::open(&key, Mode::Plaintext, &bytes).is_err());
            assert!(Ticket::open(&Key::from_bytes([2; 32]), Mode::Tls, &bytes).is_err());
            assert_eq!(Ticket::open(&key, Mode::Tls, &bytes[1..]), Err(HelloError::Garbage));
        }
    }

    #[test]
    fn a_ticket_is_accepted_once_and_only_near_its_time() {
        let mut tickets = Tickets::new(at(0));
        let ticket = |seconds, nonce| Ticket::new(at(seconds), [nonce; 16], None);
        assert_eq!(tickets.look(at(0), &ticket(0, 1)), Worth::Fresh);
        assert_eq!(tickets.look(at(100), &ticket(0, 1)), Worth::Seen);
        assert_eq!(tickets.look(at(100), &ticket(221, 2)), Worth::Undated);
        assert_eq!(tickets.look(at(100), &ticket(219, 3)), Worth::Fresh);
        // A ticket is remembered for as long as its time is accepted.
        for seconds in (100..=339).step_by(7) {
            assert_eq!(tickets.look(at(seconds), &ticket(219, 3)), Worth::Seen, "{seconds}");
        }
        assert_eq!(tickets.look(at(2000), &ticket(219, 4)), Worth::Undated);
    }

    /// Boards without a battery begin in 1970, or before it by their time zone, until their clock is set.
    #[test]
    fn clocks_in_1970_give_tickets_as_good_as_any() {
        let ticket = |at, nonce| Ticket::new(at, [nonce; 16], None);
        for (nonce, now) in [(1, UNIX_EPOCH), (2, UNIX_EPOCH - Duration::from_secs(7200))] {
            let mut tickets = Tickets::new(now);
            let later = now + Duration::from_secs(30);
            assert_eq!(tickets.look(later, &ticket(now, nonce)), Worth::Fresh);
            assert_eq!(tickets.look(later, &ticket(now, nonce)), Worth::Seen);
            // One clock is set: the connection counts as one without a ticket, and a replay is still seen.
            assert_eq!(tickets.look(at(0), &ticket(later, nonce + 2)), Worth::Undated);
            assert_eq!(tickets.look(at(1), &ticket(later, nonce + 2)), Worth::Seen);
            assert_eq!(tickets.look(at(1), &ticket(at(1), nonce + 4)), Worth::Fresh);
        }
    }

    #[test]
    fn the_number_of_remembered_tickets_is_bounded() {
        let mut tickets = Tickets::new(at(0));
        for number in 0..200_000_u128 {
            tickets.look(at(0), &Ticket::new(at(0), number.to_be_bytes(), None));
        }
        assert!(tickets.seen.iter().all(|seen| seen.len() <= NONCES));
    }

    #[test]
    fn a_servers_proof_is_valid_for_one_certificate_and_one_ticket_only() {
        let (key, other) = (Key::from_bytes([1; 32]), Key::from_bytes([2; 32]));
        let proof = certificate_proof(&key, b"certificate");
        verify_certificate(&key, b"certificate", &proof).unwrap();
        assert!(verify_certificate(&key, b"certificatf", &proof).is_err());
        assert!(verify_certificate(&other, b"certificate", &proof).is_err());
        let ticket = Ticket::new(at(0), [3; 16], None).seal(&key, Mode::Plaintext);
        let again = Ticket::new(at(0), [4; 16], None).seal(&key, Mode::Plaintext);
        let proof = challenge_proof(&key, &ticket, b"challenge");
        verify_challenge(&key, &ticket, b"challenge", &proof).unwrap();
        assert!(verify_challenge(&key, &again, b"challenge", &proof).is_err());
        assert!(verify_challenge(&key, &ticket, b"challengf", &proof).is_err());
        assert!(verify_challenge(&other, &ticket, b"challenge", &proof).is_err());
    }
}
