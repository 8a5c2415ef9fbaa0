//! The sending half. Connects the scoreboard, loss detection, recovery, round-trip and rate estimates, pacing
//! and the congestion controller; contains none of their rules. Linux's `tcp_output.c`.
//!
//! Payload byte *k* has sequence number *k* + 1, because SYN takes zero.

mod ack;
mod timeout;

use std::rc::Rc;

use tributary_cc::{CongestionController, Siblings};
use tributary_types::{Bitrate, Instant};

use super::config::TcpConfig;
use super::dup_ack::DupAck;
use super::info::TcpInfo;
use super::offload::{Offload, OffloadView};
use super::pacing::Pacer;
use super::rack::Rack;
use super::rate_sample::RateEstimator;
use super::recovery::{Begin, Phase, Recovery};
use super::rtt::RttEstimator;
use super::scoreboard::{APP_LIMITED, FIN, Scoreboard, Sent};
use super::timer::{Timer, TimerKind};
use super::validation::{Usage, Validation};
use crate::packet::HEADER;

/// Windows that the send buffer holds. Linux allows two, at 4352 bytes of memory per segment, and large
/// writes fill nearly all of it with payload (`tcp_sndbuf_expand`).
const WINDOWS_HELD: u64 = 6;

/// A segment to be sent, without the fields of the receiving half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub seq: u64,
    pub length: u32,
    pub is_fin: bool,
}

/// A segment that is sent next regardless of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forced {
    /// The oldest segment, after a timeout.
    Oldest,
    /// A tail-loss probe.
    TailProbe,
    /// As much as a very small window allows, or an empty segment below it.
    WindowProbe,
}

/// The sending half of a connection, from the moment it is established.
#[derive(Debug)]
pub(super) struct Sender {
    config: Rc<TcpConfig>,
    controller: Box<dyn CongestionController>,
    board: Scoreboard,
    rtt: RttEstimator,
    rack: Rack,
    dup_ack: DupAck,
    recovery: Recovery,
    rate: RateEstimator,
    pacer: Pacer,
    offload: Offload,
    validation: Validation,
    timer: Timer,
    /// First unacknowledged number.
    una: u64,
    /// Next number to be sent.
    next: u64,
    /// One past the last payload byte written.
    end: u64,
    finishing: bool,
    fin_sent: bool,
    /// The peer's window, from `una` on.
    peer_window: u64,
    peer_window_most: u64,
    peer_window_seq: u64,
    /// Most bytes written and not acknowledged; grows with the window.
    buffer: u64,
    forced: Option<Forced>,
    /// F-RTO: sends new data instead of retransmissions until the next acknowledgement.
    prefer_new: bool,
    /// End of the last small segment sent (Minshall).
    small_end: u64,
    sent_since_drained: bool,
    /// The present round trip ends when this many bytes are delivered.
    round_end: u64,
    window_probes: u32,
    timeouts_in_a_row: u32,
    /// When an acknowledgement last arrived.
    heard_at: Instant,
    counts: SendCounts,
}

/// Totals.
#[derive(Clone, Copy, Debug, Default)]
struct SendCounts {
    sent: u64,
    retransmitted: u64,
    duplicate_acks: u64,
    fast_recoveries: u64,
    timeouts: u64,
    spurious: u64,
}

impl Sender {
    pub fn new(config: Rc<TcpConfig>, controller: Box<dyn CongestionController>) -> Self {
        let first = WINDOWS_HELD * config.initial_window_segments * config.mss;
        let buffer = if config.auto_tune { first.min(config.send_buffer) } else { config.send_buffer };
        Self {
            board: Scoreboard::new(config.mss),
            rtt: RttEstimator::new(&config),
            rack: Rack::default(),
            dup_ack: DupAck::default(),
            recovery: Recovery::default(),
            rate: RateEstimator::default(),
            pacer: Pacer::default(),
            offload: Offload::new(config.mss),
            validation: Validation::default(),
            timer: Timer::new(config.tick),
            una: 1,
            next: 1,
            end: 1,
            finishing: false,
            fin_sent: false,
            peer_window: 0,
            peer_window_most: 0,
            peer_window_seq: 0,
            buffer,
            forced: None,
            prefer_new: false,
            small_end: 0,
            sent_since_drained: false,
            round_end: 0,
            window_probes: 0,
            timeouts_in_a_row: 0,
            heard_at: Instant::ZERO,
            counts: SendCounts::default(),
            config,
            controller,
        }
    }

    /// The handshake is done. `rtt` is its round-trip time, unless the SYN was repeated.
    pub fn start(&mut self, now: Instant, rtt: Option<u64>, window: u64) {
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt, self.una, self.next);
            self.rtt.sample_min(now, rtt);
        }
        self.update_window(0, window);
    }

    // ---- application

    pub fn write(&mut self, bytes: u64) -> u64 {
        if self.finishing {
            return 0;
        }
        let taken = bytes.min(self.buffer.saturating_sub(self.end - self.una.min(self.end)));
        if taken > 0 {
            let idle = self.unsent() < self.config.mss
                && self.board.in_flight() < self.window()
                && self.board.lost_bytes() <= self.board.retransmitted_bytes();
            if idle {
                self.rate.on_app_limited(self.board.in_flight()); // `tcp_rate_check_app_limited`
            }
            self.end += taken;
        }
        taken
    }

    pub fn finish(&mut self) {
        self.finishing = true;
    }

    // ---- reading

    pub fn unsent(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }

    pub fn unacknowledged(&self) -> u64 {
        self.end.min(self.next).saturating_sub(self.una)
    }

    /// A third of the buffer is free (`sk_stream_is_writeable`).
    pub fn is_writable(&self) -> bool {
        !self.finishing && 3 * self.end.saturating_sub(self.una) <= 2 * self.buffer
    }

    /// FIN and everything before it was acknowledged.
    pub fn is_finished(&self) -> bool {
        self.fin_sent && self.una == self.next
    }

    pub fn srtt(&self) -> u64 {
        self.rtt.srtt()
    }

    /// The present timeout in nanoseconds.
    pub fn rto(&self) -> u64 {
        self.rtt.rto()
    }

    /// Next number to be sent.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    pub fn controller(&self) -> &dyn CongestionController {
        self.controller.as_ref()
    }

    pub fn controller_mut(&mut self) -> &mut dyn CongestionController {
        self.controller.as_mut()
    }

    /// Bytes that may be in flight now.
    fn window(&self) -> u64 {
        if self.recovery.phase == Phase::Recovery && !self.controller.owns_recovery() {
            return self.recovery.window();
        }
        self.validation.capped(self.controller.window())
    }

    fn window_end(&self) -> u64 {
        self.una + self.peer_window
    }

    pub fn can_send(&self) -> u64 {
        let room = self.window().saturating_sub(self.board.in_flight());
        room.min(self.window_end().saturating_sub(self.next))
    }

    pub fn fill_info(&self, info: &mut TcpInfo) {
        let nanos = core::time::Duration::from_nanos;
        info.srtt = nanos(self.rtt.srtt());
        info.rttvar = nanos(self.rtt.variance());
        info.mean_deviation = nanos(self.rtt.mean_deviation());
        info.min_rtt = nanos(self.rtt.min_rtt());
        info.rto = nanos(self.rtt.rto());
        info.cwnd = self.window();
        info.ssthresh = self.controller.slow_start_threshold();
        info.in_flight = self.board.in_flight();
        info.unsent = self.unsent();
        (info.delivery_rate, info.app_limited) = self.rate.shown();
        info.sent = self.counts.sent;
        info.delivered = self.rate.delivered();
        info.heard_at = self.heard_at;
        info.retransmitted = self.counts.retransmitted;
        info.lost = self.board.lost_total();
        info.duplicate_acks = self.counts.duplicate_acks;
        info.fast_recoveries = self.counts.fast_recoveries;
        info.timeouts = self.counts.timeouts;
        info.timeouts_in_a_row = self.timeouts_in_a_row;
        info.spurious = self.counts.spurious;
        info.in_recovery = self.recovery.phase != Phase::Open;
        info.peer_window = self.peer_window;
    }

    // ---- sending

    /// The next segment that may be sent now.
    pub fn poll(&mut self, now: Instant) -> Option<Outgoing> {
        if self.is_at_rest() {
            self.pacer.pause();
            self.offload.pause();
            return None;
        }
        if let Some(forced) = self.forced.take()
            && let Some(outgoing) = self.send_forced(now, forced)
        {
            return Some(outgoing);
        }
        if self.has_work() && !self.may_leave(now) {
            return None;
        }
        let outgoing = if self.prefer_new {
            let outgoing = self.send_new(now);
            if outgoing.is_none() {
                // RFC 5682 §3.1 step 2b needs new data; without any, recover as usual.
                self.prefer_new = false;
                if self.next <= self.recovery.high {
                    self.recovery.frto = false;
                }
            }
            outgoing.or_else(|| self.send_lost(now))
        } else {
            self.send_lost(now).or_else(|| self.send_new(now))
        };
        if outgoing.is_none() {
            self.drained(now);
        }
        outgoing
    }

    /// Nothing is in flight, waiting or new since the last check, as always at the receiver of a transfer. A
    /// window is never smaller than a segment, so it limits nothing then.
    fn is_at_rest(&self) -> bool {
        self.board.is_empty()
            && self.end <= self.next
            && self.forced.is_none()
            && !self.sent_since_drained
            && !self.prefer_new
            && (self.fin_sent || !self.finishing)
    }

    fn has_work(&self) -> bool {
        self.end > self.next || self.board.lost_bytes() > 0
    }

    /// Whether pacing allows a segment now.
    fn may_leave(&mut self, now: Instant) -> bool {
        self.pace().is_none() || self.pacer.may_send(now)
    }

    /// The rate at which payload is sent; `None` without pacing.
    fn pace(&self) -> Option<Bitrate> {
        let Some(own) = self.controller.pacing_rate() else {
            let paces = self.config.pacing && self.rtt.has_sample();
            return paces.then(|| Bitrate::from_bps(self.usual_pace().saturating_mul(8)));
        };
        // Linux's BBR counts headers in its rate, but its pacing counts only payload (`tcp_mss_to_mtu`,
        // `tcp_update_skb_after_send`). Without the `fq` discipline it therefore sends faster by the headers'
        // share.
        let mss = self.config.mss.max(1);
        let wire = u128::from(own.as_bps()) * u128::from(mss + u64::from(HEADER)) / u128::from(mss);
        Some(Bitrate::from_bps(u64::try_from(wire).unwrap_or(u64::MAX)))
    }

    /// `tcp_update_pacing_rate`, bytes a second: 200 % of cwnd / srtt in the first half of slow start, 120 %
    /// after.
    fn usual_pace(&self) -> u64 {
        let window = self.window();
        let slow = window < self.controller.slow_start_threshold() / 2;
        let factor = if slow { 2_000_000 } else { 1_200_000 };
        // Windows are below 2^40 bytes, so this does not overflow.
        window.max(self.board.out()) * factor / (self.rtt.srtt() / 1000).max(1)
    }

    /// Sets the burst size after an acknowledgement.
    fn size_bursts(&mut self) {
        if self.config.segmentation_offload {
            let rate =
                self.controller.pacing_rate().map_or_else(|| self.usual_pace(), |own| own.as_bps() / 8);
            self.offload.resize(rate, self.rtt.min_rtt());
        }
    }

    /// Retransmits the lowest lost segment, if the window has room.
    fn send_lost(&mut self, now: Instant) -> Option<Outgoing> {
        if self.board.lost_bytes() == 0 || self.prefer_new {
            return None;
        }
        let id = self.board.next_lost()?;
        let span = u64::from(self.board.entry(id).span);
        if self.board.in_flight() + span > self.window() {
            return None;
        }
        Some(self.retransmit(now, id))
    }

    fn retransmit(&mut self, now: Instant, id: u64) -> Outgoing {
        let stamp = self.rate.stamp(now, false, self.board.lost_total());
        self.board.retransmit(now, id, stamp);
        let sent = *self.board.entry(id);
        let is_fin = sent.has(FIN);
        let length = sent.span - u32::from(is_fin);
        self.counts.retransmitted += u64::from(length);
        self.recovery.on_retransmission(now, u64::from(sent.span));
        self.after_sending(now, u64::from(sent.span));
        Outgoing { seq: sent.seq, length, is_fin }
    }

    /// Sends the next new segment if every rule allows it.
    fn send_new(&mut self, now: Instant) -> Option<Outgoing> {
        let (length, is_fin) = self.next_new()?;
        let in_flight = self.board.in_flight();
        let window = self.window();
        if in_flight > 0 && in_flight + length > window {
            return None;
        }
        if self.config.segmentation_offload {
            let view = OffloadView {
                now,
                allowance: window.saturating_sub(in_flight).min(self.window_end().saturating_sub(self.next)),
                window: window.min(self.peer_window),
                unsent: self.unsent(),
                srtt: self.rtt.srtt(),
                oldest: self.board.front().map(|front| front.at),
                recovering: self.recovery.phase != Phase::Open,
            };
            if !self.offload.may_send(view, length) {
                return None;
            }
        }
        Some(self.emit(now, length, is_fin))
    }

    /// Length of the next new segment and whether it ends the stream, if the peer's window and Nagle's rule
    /// allow it.
    fn next_new(&self) -> Option<(u64, bool)> {
        let unsent = self.unsent();
        let ends = self.finishing && !self.fin_sent;
        if unsent == 0 && !ends {
            return None;
        }
        let mss = self.segment_size();
        let length = unsent.min(mss);
        let is_fin = ends && length == unsent;
        let shut = length > 0 && self.next + length > self.window_end();
        let small = length < mss && !is_fin && self.config.nagle && self.small_end > self.una;
        (!shut && !small).then_some((length, is_fin))
    }

    /// A full segment, or half the peer's largest window when that is less (RFC 9293 §3.8.6.2.1).
    fn segment_size(&self) -> u64 {
        if self.peer_window_most > 536 {
            self.config.mss.min(self.peer_window_most / 2)
        } else {
            self.config.mss.min(self.peer_window_most.max(1))
        }
    }

    fn emit(&mut self, now: Instant, length: u64, is_fin: bool) -> Outgoing {
        let idle = self.board.is_empty();
        let stamp = self.rate.stamp(now, idle, self.board.lost_total());
        let fin = if is_fin { FIN } else { 0 };
        let limited = if self.rate.is_app_limited() { APP_LIMITED } else { 0 };
        let span = length as u32 + u32::from(is_fin);
        let seq = self.next;
        self.board.push(Sent::new(now, seq, span, fin | limited, stamp));
        self.next += u64::from(span);
        self.fin_sent |= is_fin;
        if length < self.config.mss {
            self.small_end = self.next;
        }
        self.counts.sent += length;
        self.recovery.on_sent(u64::from(span));
        self.after_sending(now, u64::from(span));
        if idle || self.timer.is(TimerKind::Probe) {
            self.arm_timeout(now);
        }
        Outgoing { seq, length: length as u32, is_fin }
    }

    fn after_sending(&mut self, now: Instant, bytes: u64) {
        if let Some(rate) = self.pace() {
            self.pacer.on_sent(now, bytes, rate, self.config.mss);
        }
        self.controller.on_sent(now, bytes, self.board.in_flight());
        self.sent_since_drained = true;
    }

    /// Everything that may be sent now has been sent.
    fn drained(&mut self, now: Instant) {
        self.pacer.pause();
        let waits = self.offload.pause();
        let (window, mss) = (self.window(), self.config.mss);
        let limited = waits || self.board.in_flight() + mss > window;
        if self.sent_since_drained || limited {
            let slow_start = window < self.controller.slow_start_threshold();
            self.validation.on_drained(Usage {
                now,
                unacknowledged: self.una,
                next: self.next,
                out: self.board.out(),
                window,
                limited,
                slow_start,
            });
            self.decay_if_app_limited(now, window);
        }
        if core::mem::take(&mut self.sent_since_drained) {
            self.arm_tail_probe(now);
        }
        if self.board.is_empty() && self.unsent() > 0 && self.timer.at().is_none() && self.is_shut() {
            self.arm_window_probe(now);
        }
    }

    /// Shrinks a window that the application does not use (RFC 2861).
    fn decay_if_app_limited(&mut self, now: Instant, window: u64) {
        let applies = self.config.slow_start_after_idle
            && self.unsent() == 0
            && self.recovery.phase == Phase::Open
            && !self.controller.owns_recovery();
        if applies {
            let (rto, initial) = (self.rtt.rto(), self.config.initial_window_segments * self.config.mss);
            self.validation.on_app_limited(now, window, rto, initial);
        }
    }

    /// The peer's window is too small for the next segment.
    fn is_shut(&self) -> bool {
        self.next + self.unsent().min(self.segment_size()) > self.window_end()
    }

    fn begin(&self) -> Begin {
        Begin { una: self.una, next: self.next, retransmitted: self.board.retransmitted_bytes() }
    }
}
