//! One hop on a socket: sends and receives messages, establishes sessions, sends feedback.

use crate::hop::{Hop, Received, SILENCE};
use crate::message::{Feedback, HopMessage, Loss};
use crate::pace::Pace;
use crate::status::LinkStatus;
use core::time::Duration;
use std::net::SocketAddr;
use std::rc::Rc;
use tributary_coding::cotag::LossMeter;
use tributary_tun::{ReceiveBatch, SendBatch, UdpSocket};
use tributary_types::Instant;

/// Shortest interval between feedback messages.
const FEEDBACK: Duration = Duration::from_millis(1);
/// Interval of pings on a hop on which nothing else asks for feedback, so that each end notices the other.
const PING: Duration = Duration::from_millis(50);
/// A hop heard within this time is used for data that must not wait until a failed hop is detected.
const LIVELY: Duration = Duration::from_millis(300);
/// System calls on one socket before other sources are served.
const TURNS: usize = 4;

/// What a node tells the previous one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// Room for data, and the room if nothing waits.
    pub(super) room: u32,
    pub(super) capacity: u32,
    /// Share of packets lost behind this node, once known.
    pub(super) loss: Option<f64>,
}

impl Offer {
    /// Of a node that passes data on at once.
    pub(super) const UNLIMITED: Self = Self { room: u32::MAX, capacity: u32::MAX, loss: Some(0.0) };
}

/// The other node of a hop.
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) hop: Hop,
    pub(super) pace: Pace,
    socket: Rc<UdpSocket>,
    remote: Option<SocketAddr>,
    batch: SendBatch,
    /// Newest number received, when, and whether feedback is due for it.
    newest: Option<(u64, Instant)>,
    meter: LossMeter,
    owes: bool,
    fed_back: Instant,
    told: u32,
    /// When something was last sent that the peer answers with feedback.
    asked_at: Instant,
    heard: Option<Instant>,
    /// The session of the hop for which the state above is valid.
    session: u64,
    stalls: u64,
    status: LinkStatus,
}

impl Peer {
    pub(super) fn new(
        name: &str,
        hop: Hop,
        is_radio: bool,
        socket: Rc<UdpSocket>,
        remote: Option<SocketAddr>,
    ) -> Self {
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        Self {
            name: name.to_owned(),
            hop,
            pace: Pace::new(is_radio),
            socket,
            remote,
            batch: SendBatch::new(remote.unwrap_or(unknown)),
            newest: None,
            meter: LossMeter::default(),
            owes: false,
            fed_back: Instant::ZERO,
            told: 0,
            asked_at: Instant::ZERO,
            heard: None,
            session: 0,
            stalls: 0,
            status: LinkStatus::default(),
        }
    }

    /// When the peer was last heard.
    pub(super) fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// Whether the peer was heard within the last 0.3 s.
    pub(super) fn is_lively(&self, now: Instant) -> bool {
        self.heard.is_some_and(|at| now.saturating_since(at) < LIVELY)
    }

    /// Sends a message; it leaves with [`flush`](Self::flush) at the latest. `paced` messages count against
    /// the hop's window. Returns its number; without a session nothing is sent.
    pub(super) fn send(&mut self, now: Instant, message: &HopMessage<'_>, paced: bool) -> Option<u64> {
        self.remote?;
        let (hop, mut number, mut length) = (&mut self.hop, None, 0);
        let lost = self.batch.add(&self.socket, |out| {
            let begin = out.len();
            number = hop.seal(out, |out| message.write(out));
            length = out.len() - begin;
        });
        self.status.oversize += lost.oversize;
        self.status.unsent += lost.refused;
        let number = number?;
        self.status.sent += 1;
        self.status.sent_bytes += length as u64;
        // Feedback does not ask for feedback: otherwise two ends that only answer each other would never
        // ping.
        if !matches!(message, HopMessage::Feedback(_)) {
            self.asked_at = now;
        }
        if paced {
            self.pace.on_sent(now, number, length);
        }
        Some(number)
    }

    /// Sends the gathered messages.
    pub(super) fn flush(&mut self) {
        let lost = self.batch.flush(&self.socket);
        self.status.oversize += lost.oversize;
        self.status.unsent += lost.refused;
    }

    /// Processes a datagram of this hop; returns its message if it is one for the node.
    fn receive<'a>(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &'a mut [u8],
    ) -> Option<HopMessage<'a>> {
        let length = datagram.len();
        let received = self.hop.handle_datagram(now, datagram);
        let (number, bytes) = match received {
            Received::Message(number, bytes) => (number, bytes),
            Received::Handshake(reply) => {
                if let Some(reply) = reply {
                    self.status.unsent += u64::from(self.socket.send(from, &reply).is_err());
                }
                self.follow_session(now);
                return None;
            }
            Received::Foreign | Received::Refused => return None,
        };
        if self.remote != Some(from) {
            // It is authenticated: the peer's address has changed, as when a radio gets another address.
            self.remote = Some(from);
            self.batch.redirect(from, &self.socket);
        }
        self.follow_session(now);
        self.heard = Some(now);
        self.status.received += 1;
        self.status.received_bytes += length as u64;
        self.meter.on_received(number);
        if self.newest.is_none_or(|(newest, _)| number > newest) {
            self.newest = Some((number, now));
        }
        match HopMessage::read(bytes) {
            Some(HopMessage::Feedback(feedback)) => {
                self.pace.on_feedback(now, &feedback);
                None
            }
            Some(message) => {
                self.owes = true;
                (message != HopMessage::Ping).then_some(message)
            }
            None => {
                self.status.unknown += 1;
                None
            }
        }
    }

    /// Counts a message that this node does not accept from that peer.
    pub(super) fn count_unknown(&mut self) {
        self.status.unknown += 1;
    }

    /// A new session has its own packet numbers. The initiator confirms it at once.
    fn follow_session(&mut self, now: Instant) {
        if self.session == self.hop.sessions() {
            return;
        }
        self.session = self.hop.sessions();
        self.pace.reset();
        (self.newest, self.owes, self.told) = (None, false, 0);
        self.meter = LossMeter::default();
        tracing::info!(link = self.name, session = self.session, "session established");
        self.send(now, &HopMessage::Ping, false);
    }

    /// Handshakes, pings, feedback. `offer` is for data from the peer.
    pub(super) fn tick(&mut self, now: Instant, offer: Offer) {
        if let Some(init) = self.hop.poll_handshake(now)
            && let Some(remote) = self.remote
        {
            self.status.unsent += u64::from(self.socket.send(remote, &init).is_err());
        }
        let was_stalled = self.pace.is_stalled();
        self.pace.handle_timeout(now);
        self.stalls += u64::from(self.pace.is_stalled() && !was_stalled);
        if !self.hop.is_established() {
            return;
        }
        if now.saturating_since(self.asked_at) >= PING {
            self.send(now, &HopMessage::Ping, false);
        }
        let moved = u64::from(offer.room.abs_diff(self.told)) * 4 >= u64::from(offer.capacity.max(1));
        if (self.owes || moved) && now.saturating_since(self.fed_back) >= FEEDBACK {
            self.feed_back(now, offer);
        }
    }

    fn feed_back(&mut self, now: Instant, Offer { room, capacity, loss }: Offer) {
        let Some((newest, at)) = self.newest else { return };
        let age = u32::try_from(now.saturating_since(at).as_micros()).unwrap_or(u32::MAX);
        let loss = Loss::new(self.meter.share_with(loss));
        let feedback = Feedback { newest, age, room, capacity, loss };
        self.send(now, &HopMessage::Feedback(feedback), false);
        (self.owes, self.fed_back, self.told) = (false, now, room);
    }

    /// When [`tick`](Self::tick) has something to do.
    pub(super) fn poll_timeout(&self, now: Instant) -> Instant {
        if !self.hop.is_established() {
            return self.hop.poll_timeout().unwrap_or(now + SILENCE);
        }
        let ping = self.asked_at + PING;
        let feedback = if self.owes { self.fed_back + FEEDBACK } else { ping };
        self.pace.poll_timeout().map_or(ping, |stall| stall.min(ping)).min(feedback)
    }

    pub(super) fn status(&self, now: Instant) -> LinkStatus {
        LinkStatus {
            name: self.name.clone(),
            up: self.hop.is_up(now),
            remote: self.remote.map(|remote| remote.to_string()),
            sessions: self.hop.sessions(),
            rtt_ms: self.pace.round_trip().map(|time| time.as_secs_f64() * 1e3),
            rate_mbps: self.pace.rate() as f64 * 8e-6,
            in_flight: self.pace.in_flight(),
            stalled: self.pace.is_stalled(),
            stalls: self.stalls,
            refused: self.hop.refusals(),
            ..self.status.clone()
        }
    }
}

/// Receives datagrams on a socket shared by some peers; `each` gets the peer's index and its messages.
/// Returns whether the socket has been read empty.
pub(super) fn receive(
    now: Instant,
    batch: &mut ReceiveBatch,
    peers: &mut [Peer],
    each: &mut impl FnMut(usize, &mut [Peer], HopMessage<'_>),
) -> bool {
    let socket = peers[0].socket.clone();
    for _ in 0..TURNS {
        let received = socket.receive(batch, &mut |from, datagram| {
            let owner = peers.iter().position(|peer| peer.hop.owns(datagram));
            let Some(at) = owner else {
                peers[0].hop.refuse_stranger(datagram);
                return;
            };
            if let Some(message) = peers[at].receive(now, from, datagram) {
                each(at, peers, message);
            }
        });
        match received {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                tracing::debug!("receiving: {error}");
                return true;
            }
        }
    }
    false
}
