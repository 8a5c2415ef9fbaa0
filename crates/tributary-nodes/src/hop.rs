//! One hop between two nodes, sans-IO: authenticates the peer, and makes sure that every packet comes from
//! it, unchanged and only once.
//!
//! The node nearer to the device begins ([`Hop::initiator`]): its `init` and the other's `reply` carry fresh
//! random salts and are authenticated with the key that both have (HMAC-SHA256). Both salts and the key give
//! the session's two keys (HKDF-SHA256), so that packets of an earlier session, or of an earlier start of
//! either node, do not verify. Data is AES-128-GCM; its number is the nonce and goes through a replay window.
//! The responder switches to a new session only when data of it has verified.
//!
//! What a datagram costs before it is known to be genuine: one comparison finds its hop ([`Hop::id`], or the slot in a
//! session number), a recorded `init` is recognised by its time stamp, and any other `init` costs one keyed hash. How
//! many of these there may be in a turn is the [`Gate`]'s decision. Why no Noise handshake:
//! `docs/decisions/0010-hop-handshake.md`. Layout of the datagrams: `wire`.
//!
//! Not here: where the key is from (`keys` of the crate), sockets, and what the plaintext means (`message`). No forward secrecy: anyone who learns the key can
//! read recorded traffic; inner traffic that needs more has its own encryption.

mod gate;
mod keys;
mod replay;
mod wire;

pub(crate) use gate::{Gate, Verdict};
pub(crate) use keys::LABEL;
pub(crate) use replay::ReplayWindow;
pub(crate) use wire::{Age, Fault, Kind, OVERHEAD, VERSION, version_notice};

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use core::time::Duration;
use keys::{HopKeys, Session, Unopened};
use serde::Serialize;
use std::collections::VecDeque;
use tributary_net::Key;
use tributary_types::Instant;
use wire::{COOKIE, ID, Init, MAC, SALT, array, session_number};

/// Time between two attempts to begin a session.
const RETRY: Duration = Duration::from_millis(250);
/// Silence after which the initiator starts a new handshake, and after which a link counts as down.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);
/// Packets of one session, in either direction, before the initiator begins a new one. NIST SP 800-38D §8.3 allows 2^32 for random
/// nonces; numbers are safer still.
const MOST_PACKETS: u64 = 1 << 32;
/// Sessions that a responder offers at the same time. A new one replaces the oldest.
const OFFERS: usize = 4;
/// How long an initiator sends a cookie: as long as the responder surely accepts it.
const COOKIE_LIFE: Duration = gate::SECRET_LIFE;

/// What a hop refused, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Refusals {
    /// No datagram of a hop.
    pub malformed: u64,
    /// From a node with another version of the hop.
    pub version: u64,
    /// Does not verify with the key of its session or hop.
    pub forged: u64,
    /// Has been seen before or is too old to tell.
    pub replayed: u64,
    /// Handshakes dropped unread because too many arrived at once.
    pub throttled: u64,
}

impl Refusals {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.malformed + self.version + self.forged + self.replayed + self.throttled
    }
}

/// An `init` that has not been answered yet.
struct Attempt {
    ours: u32,
    salt: [u8; SALT],
    /// When to send it again.
    due: Instant,
}

/// A responder's session that has not been confirmed by data.
struct Offer {
    session: Session,
    /// The initiator's number and salt, and the reply: a repeated attempt gets the same answer.
    theirs: u32,
    salt: [u8; SALT],
    reply: Vec<u8>,
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
    is_closed: bool,
    /// Place among the hops of a socket: the low byte of its session numbers.
    slot: u8,
    keys: HopKeys,
    random: SystemRandom,
    current: Option<Session>,
    offers: VecDeque<Offer>,
    attempt: Option<Attempt>,
    /// The responder's newest time stamp; the initiator's last one.
    newest: u64,
    /// What the initiator adds to the time to get a time stamp.
    stamp_base: u64,
    cookie: Option<([u8; COOKIE], Instant)>,
    last_heard: Option<Instant>,
    refusals: Refusals,
    sessions: u64,
}

impl Hop {
    /// The end that begins sessions. Its time stamps are `stamp_base` plus the time in nanoseconds: with the wall clock
    /// they increase over restarts.
    pub(crate) fn initiator(key: Key, stamp_base: u64) -> Self {
        Self { is_initiator: true, stamp_base, ..Self::responder(key, 0) }
    }

    /// The end that answers, as hop number `slot` of its socket.
    pub(crate) fn responder(key: Key, slot: u8) -> Self {
        Self {
            is_initiator: false,
            is_closed: false,
            slot,
            keys: HopKeys::new(key),
            random: SystemRandom::new(),
            current: None,
            offers: VecDeque::new(),
            attempt: None,
            newest: 0,
            stamp_base: 0,
            cookie: None,
            last_heard: None,
            refusals: Refusals::default(),
            sessions: 0,
        }
    }

    /// Whether messages can be sent.
    pub(crate) fn is_established(&self) -> bool {
        self.current.is_some()
    }

    /// Ends the session and refuses every other one: the peer is no neighbour any more.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        (self.current, self.attempt) = (None, None);
        self.offers.clear();
    }

    /// Whether it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Number of sessions begun so far.
    pub(crate) fn sessions(&self) -> u64 {
        self.sessions
    }

    /// Counters of refused datagrams.
    pub(crate) fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// The counters, for datagrams that are refused before they reach the hop.
    pub(crate) fn refusals_mut(&mut self) -> &mut Refusals {
        &mut self.refusals
    }

    /// Whether the peer was heard recently.
    pub(crate) fn is_up(&self, now: Instant) -> bool {
        self.is_established() && self.last_heard.is_some_and(|at| now.saturating_since(at) < SILENCE)
    }

    /// An `init` to send, if it is time for one.
    pub(crate) fn poll_handshake(&mut self, now: Instant) -> Option<Vec<u8>> {
        let is_worn = self.current.as_ref().is_some_and(|session| session.packets() > MOST_PACKETS);
        if !self.is_initiator || self.is_closed || self.is_up(now) && !is_worn {
            return None;
        }
        if self.attempt.as_ref().is_some_and(|attempt| now < attempt.due) {
            return None;
        }
        // An attempt keeps its salt until its reply has come, so that a reply that takes longer than the
        // interval between attempts still fits.
        let (ours, salt) = match self.attempt.take() {
            Some(attempt) => (attempt.ours, attempt.salt),
            None => (self.fresh_number(), self.fresh()),
        };
        self.attempt = Some(Attempt { ours, salt, due: now + RETRY });
        self.newest = self.stamp_base.saturating_add(now.as_nanos()).max(self.newest.saturating_add(1));
        self.cookie = self.cookie.filter(|(_, at)| now.saturating_since(*at) < COOKIE_LIFE);
        let mut init = Kind::Init.head(ours).to_vec();
        init.extend_from_slice(&self.keys.id);
        init.extend_from_slice(&self.newest.to_be_bytes());
        init.extend_from_slice(&salt);
        init.extend_from_slice(&self.cookie.map_or([0; COOKIE], |(cookie, _)| cookie));
        let mac = self.keys.mac(&[b"init", &init]);
        init.extend_from_slice(&mac);
        Some(init)
    }

    /// When to call [`poll_handshake`](Self::poll_handshake) while there is no session; `None` at a
    /// responder and when it is closed.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let next = self.attempt.as_ref().map_or(Instant::ZERO, |attempt| attempt.due);
        (self.is_initiator && !self.is_closed).then_some(next)
    }

    /// Takes a datagram; a message is decrypted in place.
    pub(crate) fn handle_datagram<'a>(&mut self, now: Instant, datagram: &'a mut [u8]) -> Received<'a> {
        match Kind::of(datagram) {
            Ok(Kind::Init) => self.handle_init(datagram),
            Ok(Kind::Reply) => self.handle_reply(now, datagram),
            Ok(Kind::Data) => self.handle_data(now, datagram),
            Ok(Kind::Cookie) => self.handle_cookie(now, datagram),
            Ok(Kind::Stale) => self.handle_stale(now, datagram),
            Err(fault) => {
                self.count(fault);
                Received::Refused
            }
        }
    }

    /// Whether a datagram is for this hop, as far as can be determined without its keys.
    pub(crate) fn owns(&self, datagram: &[u8]) -> bool {
        let number = || session_number(datagram);
        match Kind::of(datagram) {
            Ok(Kind::Init) => self.answers_to(Init::id(datagram)),
            Ok(Kind::Data) => {
                let mut known = self.current.iter().chain(self.offers.iter().map(|offer| &offer.session));
                known.any(|session| session.ours == number())
            }
            Ok(Kind::Reply | Kind::Cookie | Kind::Stale) => {
                self.attempt.as_ref().is_some_and(|attempt| attempt.ours == number())
            }
            Err(Fault::Version(_)) => self.attempt.as_ref().is_some_and(|attempt| attempt.ours == number()),
            Err(Fault::Malformed) => false,
        }
    }

    /// Whether an `init` with this key identity is for this hop.
    pub(crate) fn answers_to(&self, id: [u8; ID]) -> bool {
        !self.is_initiator && !self.is_closed && id == self.keys.id
    }

    /// The slot in the session number of a datagram that is no `init`.
    pub(crate) fn slot(datagram: &[u8]) -> usize {
        datagram.get(7).map_or(usize::MAX, |slot| usize::from(*slot))
    }

    /// Counts a datagram that belongs to none of a socket's hops.
    pub(crate) fn refuse_unauthenticated(&mut self, datagram: &[u8]) {
        match Kind::of(datagram) {
            Ok(_) => self.refusals.forged += 1,
            Err(fault) => self.count(fault),
        }
    }

    fn count(&mut self, fault: Fault) {
        match fault {
            Fault::Malformed => self.refusals.malformed += 1,
            Fault::Version(_) => self.refusals.version += 1,
        }
    }

    /// How old an `init` of this hop is.
    pub(crate) fn age(&self, init: &[u8]) -> Age {
        match Init::read(init).stamp.cmp(&self.newest) {
            core::cmp::Ordering::Greater => Age::Fresh,
            core::cmp::Ordering::Equal => Age::Same,
            core::cmp::Ordering::Less => Age::Stale,
        }
    }

    /// The cookie in an `init`.
    pub(crate) fn cookie_in(init: &[u8]) -> [u8; COOKIE] {
        Init::cookie(init)
    }

    /// The answer that gives the sender of an `init` a cookie.
    pub(crate) fn give_cookie(&self, init: &[u8], cookie: [u8; COOKIE]) -> Vec<u8> {
        let Init { theirs, salt, .. } = Init::read(init);
        let mut answer = Kind::Cookie.head(theirs).to_vec();
        answer.extend_from_slice(&cookie);
        let mac = self.keys.mac(&[b"cookie", &salt, &answer]);
        answer.extend_from_slice(&mac);
        answer
    }

    fn handle_init(&mut self, datagram: &[u8]) -> Received<'static> {
        if !self.owns(datagram) {
            return Received::Foreign;
        }
        let age = self.age(datagram);
        if age == Age::Same {
            self.refusals.replayed += 1;
            return Received::Refused;
        }
        let (body, mac) = datagram.split_at(datagram.len() - MAC);
        if !self.keys.verifies(&[b"init", body], mac) {
            self.refusals.forged += 1;
            return Received::Refused;
        }
        let init = Init::read(datagram);
        if age == Age::Stale {
            // The true initiator, if its clock was set back, continues after this number; a copy has no attempt
            // that it fits.
            self.refusals.replayed += 1;
            let mut answer = Kind::Stale.head(init.theirs).to_vec();
            answer.extend_from_slice(&self.newest.to_be_bytes());
            let mac = self.keys.mac(&[b"stale", &init.salt, &answer]);
            answer.extend_from_slice(&mac);
            return Received::Handshake(Some(answer));
        }
        self.newest = init.stamp;
        Received::Handshake(Some(self.offer(&init)))
    }

    /// The reply to a fresh `init`, and the session that it offers.
    fn offer(&mut self, init: &Init) -> Vec<u8> {
        let same = |offer: &&Offer| offer.theirs == init.theirs && offer.salt == init.salt;
        if let Some(offer) = self.offers.iter().find(same) {
            return offer.reply.clone();
        }
        let (ours, own) = (self.fresh_number(), self.fresh::<SALT>());
        let session = self.keys.session(false, (ours, init.theirs), (&init.salt, &own));
        let mut reply = Kind::Reply.head(init.theirs).to_vec();
        reply.extend_from_slice(&ours.to_be_bytes());
        reply.extend_from_slice(&own);
        let mac = self.keys.mac(&[b"reply", &init.salt, &reply]);
        reply.extend_from_slice(&mac);
        if self.offers.len() == OFFERS {
            self.offers.pop_front();
        }
        self.offers.push_back(Offer { session, theirs: init.theirs, salt: init.salt, reply: reply.clone() });
        reply
    }

    /// The attempt that an answer of the responder names, if its MAC verifies.
    fn answered(&mut self, word: &[u8], answer: &[u8]) -> Result<&mut Attempt, Received<'static>> {
        let number = session_number(answer);
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.ours == number) else {
            return Err(Received::Foreign);
        };
        let (body, mac) = answer.split_at(answer.len() - MAC);
        if self.keys.verifies(&[word, &attempt.salt, body], mac) {
            return Ok(attempt);
        }
        self.refusals.forged += 1;
        Err(Received::Refused)
    }

    fn handle_reply(&mut self, now: Instant, reply: &[u8]) -> Received<'static> {
        let (ours, salt) = match self.answered(b"reply", reply) {
            Ok(attempt) => (attempt.ours, attempt.salt),
            Err(received) => return received,
        };
        let theirs = u32::from_be_bytes(array(reply, 8));
        let session = self.keys.session(true, (ours, theirs), (&salt, &array(reply, 12)));
        self.begin(now, session);
        self.attempt = None;
        Received::Handshake(None)
    }

    /// The responder has many handshakes: it wants the attempt again, with this cookie.
    fn handle_cookie(&mut self, now: Instant, answer: &[u8]) -> Received<'static> {
        let cookie = array(answer, 8);
        let is_new = self.cookie.is_none_or(|(known, _)| known != cookie);
        match self.answered(b"cookie", answer) {
            // A cookie that was sent already and not accepted waits for the next attempt.
            Ok(attempt) => attempt.due = if is_new { now } else { attempt.due },
            Err(received) => return received,
        }
        self.cookie = Some((cookie, now));
        Received::Handshake(None)
    }

    /// The responder knows a newer time stamp: the clock was set back since.
    fn handle_stale(&mut self, now: Instant, answer: &[u8]) -> Received<'static> {
        let (newest, last) = (u64::from_be_bytes(array(answer, 8)), self.newest);
        match self.answered(b"stale", answer) {
            Ok(attempt) if newest > last => attempt.due = now,
            Ok(_) => return Received::Handshake(None),
            Err(received) => return received,
        }
        self.newest = newest;
        Received::Handshake(None)
    }

    fn handle_data<'a>(&mut self, now: Instant, datagram: &'a mut [u8]) -> Received<'a> {
        let ours = session_number(datagram);
        let offered = self.offers.iter().position(|offer| offer.session.ours == ours);
        let session = match offered {
            Some(at) => Some(&mut self.offers[at].session),
            None => self.current.as_mut().filter(|session| session.ours == ours),
        };
        let Some(session) = session else { return Received::Foreign };
        let (number, plain) = match session.open(datagram) {
            Ok(opened) => opened,
            Err(Unopened::Forged) => {
                self.refusals.forged += 1;
                return Received::Refused;
            }
            Err(Unopened::Replayed) => {
                self.refusals.replayed += 1;
                return Received::Refused;
            }
        };
        if let Some(offer) = offered.and_then(|at| self.offers.remove(at)) {
            self.offers.clear();
            self.begin(now, offer.session);
        }
        self.last_heard = Some(now);
        Received::Message(number, plain)
    }

    fn begin(&mut self, now: Instant, session: Session) {
        self.current = Some(session);
        self.last_heard = Some(now);
        self.sessions += 1;
    }

    /// Appends to `out` a datagram with the message that `write` appends. Returns its number; without a
    /// session appends nothing and returns `None`.
    pub(crate) fn seal(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Option<u64> {
        Some(self.current.as_mut()?.seal(out, write))
    }

    /// A session number that is not in use.
    fn fresh_number(&self) -> u32 {
        loop {
            let [a, b, c] = self.fresh();
            let number = u32::from_be_bytes([a, b, c, self.slot]);
            let mut used = self.current.iter().chain(self.offers.iter().map(|offer| &offer.session));
            if used.all(|session| session.ours != number) {
                return number;
            }
        }
    }

    fn fresh<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.random.fill(&mut bytes).expect("the operating system gives random bytes");
        bytes
    }
}

/// The identity in an `init`, to find its hop.
pub(crate) fn init_id(init: &[u8]) -> [u8; ID] {
    Init::id(init)
}

#[cfg(test)]
mod leftovers;
#[cfg(test)]
mod tests;
