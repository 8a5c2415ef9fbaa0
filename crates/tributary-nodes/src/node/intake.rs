//! What arrives on a socket that some hops share: finds the hop of each datagram, serves data first and handshakes
//! within the turn's budget.

use super::peer::Peer;
use super::quiet::Quiet;
use crate::hop::{Age, Fault, Gate, Hop, Kind, VERSION, Verdict, init_id, version_notice};
use std::net::SocketAddr;
use tributary_cotag::HopMessage;
use tributary_tun::{ReceiveBatch, UdpSocket};
use tributary_types::Instant;

/// Most neighbours that one message names.
const NAMED: usize = 8;
/// System calls on one socket before other sources are served.
const TURNS: usize = 4;

/// A node's receiver.
pub(super) struct Intake {
    batch: ReceiveBatch,
    gate: Gate,
    /// Handshakes of this turn, with their hop's index.
    waiting: Vec<(usize, SocketAddr, Vec<u8>)>,
    /// Reports of another version, and of unknown keys.
    versions: Quiet,
    strangers: Quiet,
}

impl Intake {
    pub(super) fn new(now: Instant) -> Self {
        let (versions, strangers) = (Quiet::default(), Quiet::default());
        Self {
            batch: ReceiveBatch::default(),
            gate: Gate::new(now),
            waiting: Vec::new(),
            versions,
            strangers,
        }
    }

    /// Receives datagrams for `peers`, which share a socket; `each` gets the peer's index and its messages. Returns
    /// whether the socket has been read empty.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        peers: &mut [Peer],
        each: &mut impl FnMut(usize, &mut [Peer], HopMessage<'_>),
    ) -> bool {
        let socket = peers[0].socket().clone();
        let Self { batch, gate, waiting, versions, strangers } = self;
        gate.begin_turn(now);
        let mut is_empty = false;
        for _ in 0..TURNS {
            let received = socket.receive(batch, &mut |from, datagram| {
                let kind = Kind::of(datagram);
                if let Err(Fault::Version(version)) = kind {
                    report_version(now, (&socket, versions), (from, version), datagram);
                }
                match owner(peers, kind, datagram) {
                    None => {
                        if kind == Ok(Kind::Init) {
                            report_stranger(now, strangers, from, peers);
                        }
                        peers[0].hop.refuse_unauthenticated(datagram);
                    }
                    Some(at) if kind == Ok(Kind::Init) => {
                        if is_admitted(now, gate, &mut peers[at], from, datagram) {
                            waiting.push((at, from, datagram.to_vec()));
                        }
                    }
                    Some(at) => {
                        if let Some(message) = peers[at].receive(now, from, datagram) {
                            each(at, peers, message);
                        }
                    }
                }
            });
            match received {
                Ok(0) => is_empty = true,
                Ok(_) => continue,
                Err(error) => {
                    tracing::debug!("receiving: {error}");
                    is_empty = true;
                }
            }
            break;
        }
        for (at, from, mut init) in waiting.drain(..) {
            peers[at].receive(now, from, &mut init);
        }
        is_empty
    }
}

/// The index of the hop that a datagram names.
fn owner(peers: &[Peer], kind: Result<Kind, Fault>, datagram: &[u8]) -> Option<usize> {
    if kind == Ok(Kind::Init) {
        let id = init_id(datagram);
        return peers.iter().position(|peer| peer.hop.answers_to(id));
    }
    let slot = Hop::slot(datagram);
    peers.get(slot).filter(|peer| peer.hop.owns(datagram)).map(|_| slot)
}

/// Whether an `init` is verified in this turn; if a cookie is needed, sends it.
fn is_admitted(now: Instant, gate: &mut Gate, peer: &mut Peer, from: SocketAddr, init: &[u8]) -> bool {
    let age = peer.hop.age(init);
    let verdict = gate.admit(now, from, age, &Hop::cookie_in(init));
    let refusals = peer.hop.refusals_mut();
    match verdict {
        Verdict::Admit => return true,
        Verdict::Drop if age != Age::Fresh => refusals.replayed += 1,
        Verdict::Drop => refusals.throttled += 1,
        Verdict::GiveCookie(cookie) => {
            refusals.throttled += 1;
            let answer = peer.hop.give_cookie(init, cookie);
            peer.answer(from, &answer);
        }
    }
    false
}

/// Says that a node's key is none of the neighbours', and which of them are missing: it may be one of these with another key.
fn report_stranger(now: Instant, quiet: &mut Quiet, from: SocketAddr, peers: &[Peer]) {
    let Some(others) = quiet.may_speak(now) else { return };
    let missing = peers.iter().filter(|peer| !peer.is_settled(now)).map(|peer| &*peer.name);
    let missing: Vec<&str> = missing.take(NAMED).collect();
    let missing = if missing.is_empty() { "none".to_owned() } else { missing.join(", ") };
    tracing::warn!(
        "refused a handshake of a node at {from} whose key is no neighbour's, and {others} before; neighbours that are not \
         connected: {missing}. If it is one of them, compare what `tributary pubkey` prints at both nodes with the settings"
    );
}

/// Says on both sides that versions differ. The datagram is not authenticated, so it changes nothing else.
fn report_version(
    now: Instant,
    (socket, quiet): (&UdpSocket, &mut Quiet),
    (from, version): (SocketAddr, u8),
    datagram: &[u8],
) {
    if quiet.may_speak(now).is_none() {
        return;
    }
    tracing::warn!(
        "a node at {from} sends version {version} of the hop's protocol, this node has version {VERSION}: install the \
         same release on both"
    );
    if let Some(notice) = version_notice(datagram) {
        // Best effort: the next one follows.
        let _ = socket.send(from, &notice);
    }
}
