//! One end of a TCP connection: handshake, close and reset; connects the sending and the receiving half (RFC
//! 9293).

use std::rc::Rc;

use tributary_cc::{CongestionController, SiblingView, Siblings};
use tributary_types::Instant;

use super::config::TcpConfig;
use super::info::{TcpError, TcpInfo, TcpState};
use super::receive::Receiver;
use super::send::{Outgoing, Sender};
use super::timer::on_wheel;
use crate::packet::TcpSegment;

/// Numbers and windows above this are invalid: no run sends as much.
const LIMIT: u64 = 1 << 62;
const WINDOW_LIMIT: u64 = 1 << 40;

/// One end of a connection. Mutate, then drain [`TcpSocket::poll_transmit`], then read
/// [`TcpSocket::poll_timeout`].
#[derive(Debug)]
pub struct TcpSocket {
    /// Shared, so that a thousand connections with the same settings read the same memory.
    config: Rc<TcpConfig>,
    connection: u32,
    state: TcpState,
    sender: Sender,
    receiver: Receiver,
    handshake: Handshake,
    error: Option<TcpError>,
    /// A reset is to be sent.
    resets: bool,
}

/// SYN and SYN-ACK.
#[derive(Debug, Default)]
struct Handshake {
    /// Must be sent now.
    due: bool,
    tries: u32,
    sent: Instant,
    deadline: Option<Instant>,
}

impl TcpSocket {
    /// Opens a connection; a SYN is sent first. Connections may share their settings.
    #[must_use]
    pub fn connect(
        config: impl Into<Rc<TcpConfig>>,
        controller: Box<dyn CongestionController>,
        connection: u32,
    ) -> Self {
        let mut socket = Self::new(config.into(), controller, connection);
        socket.handshake.due = true;
        socket
    }

    /// Waits for a connection.
    #[must_use]
    pub fn listen(
        config: impl Into<Rc<TcpConfig>>,
        controller: Box<dyn CongestionController>,
        connection: u32,
    ) -> Self {
        Self { state: TcpState::Listening, ..Self::new(config.into(), controller, connection) }
    }

    fn new(config: Rc<TcpConfig>, controller: Box<dyn CongestionController>, connection: u32) -> Self {
        Self {
            connection,
            state: TcpState::Connecting,
            sender: Sender::new(config.clone(), controller),
            receiver: Receiver::new(&config),
            handshake: Handshake::default(),
            error: None,
            resets: false,
            config,
        }
    }

    // ---- the network's side

    /// A segment arrived.
    pub fn handle_segment(&mut self, now: Instant, segment: &TcpSegment, siblings: Siblings<'_>) {
        if segment.window > WINDOW_LIMIT {
            let segment = TcpSegment { window: WINDOW_LIMIT, ..*segment };
            return self.handle_segment(now, &segment, siblings);
        }
        if segment.seq > LIMIT || segment.ack > LIMIT {
            return;
        }
        if segment.is_reset {
            return self.handle_reset(segment);
        }
        match self.state {
            TcpState::Listening | TcpState::Connecting | TcpState::Accepting => {
                self.handle_handshake(now, segment, siblings);
            }
            TcpState::Established => self.handle_established(now, segment, siblings),
            TcpState::Closed => {
                if self.error.is_none() && segment.span() > 0 {
                    self.receiver.acknowledge_now(); // our last acknowledgement was lost
                }
            }
        }
    }

    fn handle_reset(&mut self, segment: &TcpSegment) {
        let believable = match self.state {
            TcpState::Listening | TcpState::Closed => false,
            TcpState::Connecting => segment.is_ack,
            _ => segment.seq == self.receiver.expected(),
        };
        if believable {
            self.close_with(TcpError::Reset);
        }
    }

    fn handle_handshake(&mut self, now: Instant, segment: &TcpSegment, siblings: Siblings<'_>) {
        match self.state {
            TcpState::Listening if segment.is_syn && !segment.is_ack => self.accept(now, segment),
            TcpState::Connecting if segment.is_syn && segment.is_ack && segment.ack == 1 => {
                self.receiver.start(now, segment);
                self.receiver.acknowledge_now();
                self.establish(now, segment.window);
            }
            TcpState::Connecting if segment.is_syn && !segment.is_ack => self.accept(now, segment),
            TcpState::Accepting if segment.is_syn => {
                if segment.is_ack && segment.ack == 1 {
                    self.establish(now, segment.window);
                } else {
                    self.handshake.due = true;
                }
            }
            TcpState::Accepting if segment.is_ack && segment.ack >= 1 => {
                self.establish(now, segment.window);
                self.handle_established(now, segment, siblings);
            }
            _ => {}
        }
    }

    fn accept(&mut self, now: Instant, segment: &TcpSegment) {
        self.receiver.start(now, segment);
        self.handshake = Handshake { due: true, ..Handshake::default() };
        self.state = TcpState::Accepting;
    }

    fn establish(&mut self, now: Instant, window: u64) {
        let once = self.handshake.tries == 1;
        let rtt = now.saturating_since(self.handshake.sent).as_nanos() as u64;
        self.sender.start(now, once.then_some(rtt), window);
        self.handshake.due = false;
        self.handshake.deadline = None;
        self.state = TcpState::Established;
    }

    fn handle_established(&mut self, now: Instant, segment: &TcpSegment, siblings: Siblings<'_>) {
        if segment.is_syn {
            return self.receiver.acknowledge_now(); // the acknowledgement of SYN was lost
        }
        if segment.is_ack {
            self.sender.handle_ack(now, segment, siblings);
        }
        self.receiver.handle(now, segment, self.sender.rto());
        if self.sender.is_finished() && self.receiver.is_finished() {
            self.state = TcpState::Closed;
        }
    }

    /// Whether [`Self::handle_segment`] does not use the siblings, because the segment brings the sender only
    /// a window.
    pub(super) fn tells_sender_nothing(&self, segment: &TcpSegment) -> bool {
        let flags = segment.is_syn || segment.is_reset;
        self.state == TcpState::Established && !flags && self.sender.hears_nothing(segment)
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant, siblings: Siblings<'_>) {
        match self.state {
            TcpState::Listening => {}
            TcpState::Connecting | TcpState::Accepting => {
                if self.handshake.deadline.is_some_and(|at| at <= now) {
                    self.handshake.deadline = None;
                    if self.handshake.tries > self.config.syn_retries {
                        self.close_with(TcpError::TimedOut(self.handshake.tries));
                    } else {
                        self.handshake.due = true;
                    }
                }
            }
            TcpState::Established | TcpState::Closed => {
                self.receiver.handle_timeout(now);
                if self.state == TcpState::Established
                    && let Err(error) = self.sender.handle_timeout(now, siblings)
                {
                    self.close_with(error);
                }
            }
        }
    }

    /// When to call [`Self::handle_timeout`], or to ask for the first SYN.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            TcpState::Listening => None,
            TcpState::Connecting | TcpState::Accepting => {
                if self.handshake.due {
                    Some(Instant::ZERO)
                } else {
                    self.handshake.deadline
                }
            }
            TcpState::Established => {
                self.sender.poll_timeout().into_iter().chain(self.receiver.poll_timeout()).min()
            }
            TcpState::Closed => None,
        }
    }

    /// The next segment to be sent now, until `None`.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<TcpSegment> {
        if core::mem::take(&mut self.resets) {
            let seq = self.sender.next_number();
            return Some(TcpSegment { is_reset: true, ..self.blank(now, seq) });
        }
        match self.state {
            TcpState::Listening => None,
            TcpState::Connecting | TcpState::Accepting => self.poll_handshake(now),
            TcpState::Established => {
                let outgoing = self.sender.poll(now).or_else(|| self.bare_acknowledgement())?;
                Some(self.dress(now, outgoing))
            }
            TcpState::Closed if self.error.is_some() => None,
            TcpState::Closed => {
                let outgoing = self.bare_acknowledgement()?;
                Some(self.dress(now, outgoing))
            }
        }
    }

    fn bare_acknowledgement(&self) -> Option<Outgoing> {
        let seq = self.sender.next_number();
        self.receiver.wants_to_acknowledge().then_some(Outgoing { seq, ..Outgoing::default() })
    }

    fn blank(&self, now: Instant, seq: u64) -> TcpSegment {
        TcpSegment { connection: self.connection, seq, timestamp: now, ..TcpSegment::default() }
    }

    fn dress(&mut self, now: Instant, outgoing: Outgoing) -> TcpSegment {
        let mut segment = self.blank(now, outgoing.seq);
        segment.length = outgoing.length;
        segment.is_fin = outgoing.is_fin;
        self.receiver.acknowledge(now, &mut segment);
        segment
    }

    fn poll_handshake(&mut self, now: Instant) -> Option<TcpSegment> {
        if !core::mem::take(&mut self.handshake.due) {
            return None;
        }
        let mut segment = self.blank(now, 0);
        if self.state == TcpState::Accepting {
            self.receiver.acknowledge(now, &mut segment);
        } else {
            self.receiver.announce(&mut segment);
        }
        segment.is_syn = true;
        let wait = self.config.initial_rto.saturating_mul(1 << self.handshake.tries.min(30));
        self.handshake.tries += 1;
        self.handshake.sent = now;
        let at = now + wait.min(self.config.max_rto);
        self.handshake.deadline = Some(on_wheel(self.config.tick, now, at));
        Some(segment)
    }

    // ---- the application's side

    /// Accepts up to `bytes` more to be sent; returns how many.
    pub fn write(&mut self, bytes: u64) -> u64 {
        if self.state == TcpState::Closed { 0 } else { self.sender.write(bytes) }
    }

    /// Ends the sending direction after the data written so far.
    pub fn finish(&mut self) {
        self.sender.finish();
    }

    /// Ends the connection at once and tells the peer.
    pub fn abort(&mut self) {
        if self.state != TcpState::Closed {
            self.resets = matches!(self.state, TcpState::Accepting | TcpState::Established);
            self.close_with(TcpError::Aborted);
        }
    }

    fn close_with(&mut self, error: TcpError) {
        self.error = Some(error);
        self.handshake.due = false;
        self.state = TcpState::Closed;
    }

    /// In-order bytes that can be read.
    #[must_use]
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// Consumes `bytes` of them, which opens the window.
    pub fn read(&mut self, now: Instant, bytes: u64) {
        self.receiver.read(now, bytes);
    }

    /// Whether a writer should be woken: a third of the buffer is free.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.state != TcpState::Closed && self.sender.is_writable()
    }

    /// The handshake is done and the connection is not over.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.state == TcpState::Established
    }

    /// The peer ended its direction and everything was read.
    #[must_use]
    pub fn is_finished_reading(&self) -> bool {
        self.receiver.is_finished_reading()
    }

    /// The connection is over, closed or failed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == TcpState::Closed
    }

    /// Why it ended early.
    #[must_use]
    pub fn error(&self) -> Option<TcpError> {
        self.error
    }

    /// Bytes written and not sent.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.sender.unsent()
    }

    /// Bytes sent and not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> u64 {
        self.sender.unacknowledged()
    }

    /// Bytes that the windows allow to be sent now: cwnd − in flight, within the peer's window.
    #[must_use]
    pub fn can_send(&self) -> u64 {
        if self.is_established() { self.sender.can_send() } else { 0 }
    }

    /// The present numbers of the connection.
    #[must_use]
    pub fn info(&self) -> TcpInfo {
        let mut info = TcpInfo {
            state: self.state,
            receive_held: self.receiver.held(),
            duplicates: self.receiver.duplicates(),
            ..TcpInfo::default()
        };
        self.sender.fill_info(&mut info);
        info
    }

    /// Smoothed round-trip time in nanoseconds; zero before the first sample.
    #[must_use]
    pub fn srtt_nanos(&self) -> u64 {
        self.sender.srtt()
    }

    /// Most bytes ever held for reassembly and reading.
    #[must_use]
    pub fn receive_held_most(&self) -> u64 {
        self.receiver.held_most()
    }

    /// Number of the next byte expected from the peer.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.receiver.expected()
    }

    // ---- MPTCP's side

    /// Payload bytes of a full segment.
    #[must_use]
    pub fn mss(&self) -> u64 {
        self.config.mss
    }

    /// What siblings may read of this subflow.
    #[must_use]
    pub fn controller_view(&self) -> SiblingView {
        self.sender.controller().view()
    }

    /// Applies a scheduler's penalty to this subflow.
    pub fn penalise(&mut self, now: Instant) {
        self.sender.controller_mut().on_penalty(now);
    }

    /// Advertises this window instead of the socket's own; `None` restores its own.
    pub fn set_window_override(&mut self, window: Option<u64>) {
        self.receiver.override_window(window);
    }

    /// Sends an acknowledgement with the next [`Self::poll_transmit`], whatever arrived.
    pub fn acknowledge_now(&mut self) {
        if matches!(self.state, TcpState::Established | TcpState::Closed) {
            self.receiver.acknowledge_now();
        }
    }
}
