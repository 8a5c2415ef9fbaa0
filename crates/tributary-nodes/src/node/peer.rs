//! One hop on a socket: sends and receives messages, establishes sessions, sends feedback.

use crate::hop::{Hop, Received, SILENCE};
use crate::status::LinkStatus;
use core::time::Duration;
use std::net::SocketAddr;
use std::rc::Rc;
use tributary_cotag::{HopControl, HopEnd, HopMessage, Offer};
use tributary_tun::{SendBatch, UdpSocket};
use tributary_types::Instant;

/// Time without an answer after which the log says so.
const UNANSWERED: Duration = Duration::from_secs(5);

/// The other node of a hop.
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) hop: Hop,
    control: HopControl,
    socket: Rc<UdpSocket>,
    remote: Option<SocketAddr>,
    batch: SendBatch,
    /// The session of the hop for which the state above is valid.
    session: u64,
    /// Since when handshakes are not answered, and whether the log has said so.
    asking: Option<(Instant, bool)>,
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
            control: HopControl::new(is_radio),
            socket,
            remote,
            batch: SendBatch::new(remote.unwrap_or(unknown)),
            session: 0,
            asking: None,
            status: LinkStatus::default(),
        }
    }

    /// Sends the gathered messages.
    pub(super) fn flush(&mut self) {
        let lost = self.batch.flush(&self.socket);
        self.status.oversize += lost.oversize;
        self.status.unsent += lost.refused;
    }

    /// Ends the hop: the other node is no neighbour any more.
    pub(super) fn close(&mut self) {
        self.hop.close();
        self.control.end();
        tracing::info!(link = self.name, "no neighbour any more: its hop has ended");
    }

    /// Whether no other way to the node has to be looked for: it is heard, or no neighbour any more.
    pub(super) fn is_settled(&self, now: Instant) -> bool {
        self.hop.is_up(now) || self.hop.is_closed()
    }

    /// The socket, which other peers may share.
    pub(super) fn socket(&self) -> &Rc<UdpSocket> {
        &self.socket
    }

    /// The other end's address, once known.
    pub(super) fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// Answers a handshake.
    pub(super) fn answer(&mut self, to: SocketAddr, answer: &[u8]) {
        self.status.unsent += u64::from(self.socket.send(to, answer).is_err());
    }

    /// Processes a datagram of this hop; returns its message if it is one for the node.
    pub(super) fn receive<'a>(
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
                    self.answer(from, &reply);
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
        self.status.received += 1;
        self.status.received_bytes += length as u64;
        self.control.on_received(now, number);
        let Some(message) = HopMessage::read(bytes) else {
            self.status.unknown += 1;
            return None;
        };
        self.control.handle_message(now, message)
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
        self.asking = None;
        self.control.begin_session();
        tracing::info!(link = self.name, session = self.session, "session established");
        self.send(now, &HopMessage::Ping, false);
    }

    /// Handshakes, pings, feedback. `offer` is for data from the peer.
    pub(super) fn tick(&mut self, now: Instant, offer: Offer) {
        if let Some(init) = self.hop.poll_handshake(now)
            && let Some(remote) = self.remote
        {
            self.status.unsent += u64::from(self.socket.send(remote, &init).is_err());
            self.report_silence(now, remote);
        }
        self.control.handle_timeout(now);
        while let Some(message) = self.control.poll_message(now, offer) {
            self.send(now, &message, false);
        }
    }

    /// Says once that handshakes are not answered: a node does not answer those of strangers.
    fn report_silence(&mut self, now: Instant, remote: SocketAddr) {
        let (since, told) = self.asking.get_or_insert((now, false));
        if *told || now.saturating_since(*since) < UNANSWERED {
            return;
        }
        *told = true;
        tracing::warn!(
            link = self.name,
            "{} at {remote} does not answer: it does not run or cannot be reached, or one of the two nodes has another key than the \
             other's settings say (`tributary pubkey` prints a node's)",
            self.name
        );
    }

    /// When [`tick`](Self::tick) has something to do.
    pub(super) fn poll_timeout(&self, now: Instant) -> Instant {
        self.control.poll_timeout().or(self.hop.poll_timeout()).unwrap_or(now + SILENCE)
    }

    pub(super) fn status(&self, now: Instant) -> LinkStatus {
        let pace = self.control.pace();
        LinkStatus {
            name: self.name.clone(),
            up: self.hop.is_up(now),
            remote: self.remote.map(|remote| remote.to_string()),
            sessions: self.hop.sessions(),
            rtt_ms: pace.round_trip().map(|time| time.as_secs_f64() * 1e3),
            rate_mbps: pace.rate() as f64 * 8e-6,
            in_flight: pace.in_flight(),
            stalled: pace.is_stalled(),
            stalls: self.control.stalls(),
            refused: self.hop.refusals(),
            ..self.status.clone()
        }
    }
}

impl HopEnd for Peer {
    fn control(&self) -> &HopControl {
        &self.control
    }

    fn control_mut(&mut self) -> &mut HopControl {
        &mut self.control
    }

    /// The message leaves with [`flush`](Peer::flush) at the latest.
    fn send(&mut self, now: Instant, message: &HopMessage<'_>, paced: bool) -> Option<u64> {
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
        self.control.on_sent(now, message, (number, length), paced);
        Some(number)
    }
}
