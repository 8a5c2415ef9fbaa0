//! Multipath TCP at connection level over simulated TCP subflows (RFC 8684).
//!
//! One data sequence space and one receive buffer for all subflows, mappings, data acknowledgements,
//! reinjection, joins, and paths that go down and return. The schedulers are `tributary-proto`'s, by name.
//! With `linux-default` the surrounding rules are the kernel's, with any other scheduler those of
//! multipath-tcp.org. Not here: the options' bytes, keys, fallback to plain TCP, backup subflows. Model:
//! `docs/models/mptcp.md`.

mod joining;
mod mapping;
mod receive;
mod report;
mod retransmit;
mod send;
mod subflow;

use core::time::Duration;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use tributary_cc::{SiblingView, Siblings};
use tributary_proto::Side;
use tributary_proto::scheduler::{self, NumberedStream, Scheduler, SubflowView};
use tributary_types::{Instant, Rng};

use crate::host::Outbox;
use crate::multipath::{self, MultipathError, SimPath, SubflowPath};
use crate::own::Own;
use crate::packet::{Body, HEADER, Packet, TcpSegment};
use crate::tcp::TcpConfig;
use crate::transport::{Counters, Notice, PathSample, StreamKey, Transport};
use mapping::Mappings;
use receive::Receive;
pub use report::SubflowReport;
use subflow::Subflow;

/// The only stream.
const STREAM: StreamKey = 0;
/// A blocked writer is woken when this many bytes fit.
const WAKE_ROOM: u64 = 64 * 1024;
/// Bytes of options in a segment with payload (data acknowledgement, data sequence number and mapping, the
/// first two of 64 bits; RFC 8684 §3.3) and in one without (the data acknowledgement).
const OPTIONS: [u32; 2] = [28, 12];
/// SACK blocks that fit beside these and the timestamps into the 40 bytes of TCP options. Linux prefers
/// MPTCP's options (`tcp_established_options`).
const SACK_BLOCKS: [u8; 2] = [0, 1];
/// The kernel's scheduler. It selects the kernel's rules.
const KERNEL: &str = "linux-default";

/// Settings of both ends.
#[derive(Clone, Debug)]
pub struct MptcpConfig {
    /// Name of the scheduler.
    pub scheduler: String,
    /// TCP settings of every subflow; MPTCP's options take 28 bytes from `mss`. `receive_buffer`,
    /// `initial_receive_window` and `auto_tune` are those of the whole connection; `send_buffer` is the limit
    /// per subflow.
    pub tcp: TcpConfig,
    /// Name of the congestion control of every subflow, at both ends.
    pub congestion: String,
    /// Algorithms of the caller's own in place of those two.
    pub own: Own,
    /// Seed for schedulers that use random numbers.
    pub seed: u64,
    /// N: every Nth segment is prioritised, for schedulers that use priorities; zero: none.
    pub prioritise_every: u64,
}

impl Default for MptcpConfig {
    fn default() -> Self {
        Self {
            scheduler: KERNEL.to_owned(),
            tcp: TcpConfig::default(),
            congestion: "cubic".to_owned(),
            own: Own::default(),
            seed: 1,
            prioritise_every: 0,
        }
    }
}

/// State shared by both ends: pipes of new subflows until their SYN arrives, and the ends of streams.
#[derive(Debug, Default)]
struct Shared {
    dialled: RefCell<BTreeMap<u32, [Mappings; 2]>>,
    /// Total bytes that client and server send, once each has finished: the position of its DATA_FIN.
    ends: [Cell<Option<u64>>; 2],
}

/// One end of an MPTCP connection.
#[derive(Debug)]
pub struct MptcpTransport {
    side: Side,
    config: Rc<MptcpConfig>,
    paths: Vec<SimPath>,
    /// Which paths are up.
    present: Vec<bool>,
    shared: Rc<Shared>,
    next_incarnation: u32,
    started: bool,
    connected: bool,
    closed: bool,
    subflows: Vec<Subflow>,
    scheduler: Box<dyn Scheduler>,
    stream: NumberedStream,
    send_buffer: u64,
    /// Bytes written; whether the end was requested, and whether it has a number (it counts as one byte).
    written: u64,
    fin_wanted: bool,
    fin_written: bool,
    blocked: bool,
    /// First byte not acknowledged at connection level, and first byte that must not be sent.
    acknowledged: u64,
    edge: u64,
    receive: Receive,
    /// The window's end that was last announced to the peer.
    told_edge: u64,
    join_at: Option<Instant>,
    /// When the scheduler wants to be called again.
    ask_at: Option<Instant>,
    retransmit_at: Option<Instant>,
    /// Period of the kernel's connection-level retransmission.
    period: Duration,
    probe_at: Option<Instant>,
    notices: VecDeque<Notice>,
    /// Something has changed that may allow sending.
    dirty: bool,
    wake: Instant,
    /// Reused buffer.
    siblings: Vec<SiblingView>,
    views: Vec<SubflowView>,
    counters: Counters,
    srtt_sum: Duration,
    srtt_count: u32,
}

impl MptcpTransport {
    /// A client and a server with these paths between them. The client connects on the first path, and joins
    /// the others one round trip after it is up.
    ///
    /// # Errors
    /// [`MultipathError`] names the unknown name or the value out of range.
    pub fn pair(config: &MptcpConfig, paths: &[SubflowPath]) -> Result<(Self, Self), MultipathError> {
        if config.own.scheduler.is_none() && !scheduler::is_known(&config.scheduler) {
            return Err(MultipathError::UnknownScheduler { name: config.scheduler.clone() });
        }
        let [up, down] = multipath::sim_paths((&config.congestion, &config.own), paths)?;
        let shared = Rc::new(Shared::default());
        let client = Self::new(Side::Client, config, up, shared.clone());
        Ok((client, Self::new(Side::Server, config, down, shared)))
    }

    fn new(side: Side, config: &MptcpConfig, paths: Vec<SimPath>, shared: Rc<Shared>) -> Self {
        let mut config = config.clone();
        let tcp = &mut config.tcp;
        tcp.mss = tcp.mss.saturating_sub(u64::from(OPTIONS[0])).max(1);
        let mut rng = Rng::new(config.seed).child(if side == Side::Client { "client" } else { "server" });
        let scheduler = match &config.own.scheduler {
            Some(make) => make(rng.next_u64()),
            None => scheduler::create(&config.scheduler, rng).expect("the name was checked by the caller"),
        };
        let first = if tcp.auto_tune { tcp.initial_receive_window } else { tcp.receive_buffer };
        let mut stream = NumberedStream::new(tcp.send_buffer as usize);
        stream.prioritise_every(config.prioritise_every);
        Self {
            side,
            present: vec![true; paths.len()],
            paths,
            shared,
            next_incarnation: 0,
            started: false,
            connected: false,
            closed: false,
            subflows: Vec::new(),
            scheduler,
            stream,
            send_buffer: tcp.send_buffer,
            written: 0,
            fin_wanted: false,
            fin_written: false,
            blocked: false,
            acknowledged: 0,
            edge: 0,
            receive: Receive::new(first, tcp.receive_buffer, tcp.mss),
            told_edge: 0,
            join_at: None,
            ask_at: None,
            retransmit_at: None,
            period: retransmit::LEAST_PERIOD,
            probe_at: None,
            notices: VecDeque::new(),
            dirty: false,
            wake: Instant::ZERO,
            siblings: Vec::new(),
            views: Vec::new(),
            counters: Counters::default(),
            srtt_sum: Duration::ZERO,
            srtt_count: 0,
            config: Rc::new(config),
        }
    }

    /// Number of subflows that are up.
    #[must_use]
    pub fn subflows(&self) -> usize {
        self.subflows.iter().filter(|s| s.established).count()
    }

    /// What each subflow that is up has carried so far, in the order in which they came up.
    pub fn reports(&self) -> impl Iterator<Item = SubflowReport> + '_ {
        self.subflows.iter().filter(|s| s.established).map(|s| s.report(self.paths[s.path].path))
    }

    /// Whether the kernel's rules apply, not those of multipath-tcp.org.
    fn is_kernel(&self) -> bool {
        self.config.own.scheduler.is_none() && self.config.scheduler == KERNEL
    }

    /// Lets a subflow send. Its segments carry the connection's window and data acknowledgement.
    fn send(&mut self, now: Instant, at: usize, out: &mut Outbox) {
        let subflow = &mut self.subflows[at];
        while let Some(mut segment) = subflow.socket.poll_transmit(now) {
            segment.data_ack = self.receive.next();
            segment.window = self.receive.window();
            self.told_edge = segment.data_ack + segment.window;
            let bare = usize::from(segment.length == 0);
            segment.sack_count = segment.sack_count.min(SACK_BLOCKS[bare]);
            let size = HEADER + OPTIONS[bare] + segment.length;
            out.send(Packet::new(subflow.route, size, Body::Segment(segment)));
        }
    }

    /// Fills in the views of the subflows that are up and of subflow `own`; returns the index of `own`.
    fn see_siblings(&mut self, own: usize) -> usize {
        self.siblings.clear();
        let mut found = 0;
        for (at, subflow) in self.subflows.iter().enumerate() {
            if at == own {
                found = self.siblings.len();
            }
            if at == own || subflow.established {
                self.siblings.push(subflow.socket.controller_view());
            }
        }
        found
    }

    // ---- from the network

    fn handle_segment(&mut self, now: Instant, segment: &TcpSegment, out: &mut Outbox) {
        let known = self.subflows.iter().position(|s| s.number == segment.connection);
        let Some(at) = known.or_else(|| self.accept(segment)) else {
            let (_, path) = multipath::incarnation_and_path(segment.connection);
            if let (Some(path), Some(reset)) = (self.paths.get(path), multipath::refusal(segment)) {
                out.send(Packet::segment(path.route, reset));
            }
            return;
        };
        let own = self.see_siblings(at);
        let siblings = Siblings::new(&self.siblings, own);
        let receive = &mut self.receive;
        let mut moved = false;
        self.subflows[at]
            .handle_segment(now, segment, siblings, |from, to| moved |= receive.insert(from, to));
        if moved {
            self.notices.push_back(Notice::Readable(STREAM));
        }
        if segment.is_ack {
            self.acknowledge(segment);
            if self.siblings[own].srtt > Duration::ZERO {
                self.srtt_sum += self.siblings[own].srtt;
                self.srtt_count += 1;
                self.subflows[at].observation.round_trip(self.siblings[own].srtt);
            }
        }
        if self.subflows[at].came_up() {
            self.came_up(now, at);
        }
        if self.subflows[at].socket.is_closed() {
            self.lose(now, at, out);
        } else if self.subflows[at].socket.is_finished_reading() {
            self.subflows[at].finishing = true;
            self.subflows[at].socket.finish();
        }
    }

    /// Processes the data acknowledgement and the window, which every acknowledgement carries (RFC 8684
    /// §3.3).
    fn acknowledge(&mut self, segment: &TcpSegment) {
        self.dirty = true;
        self.edge = self.edge.max(segment.data_ack + segment.window);
        if segment.data_ack <= self.acknowledged {
            return;
        }
        self.acknowledged = segment.data_ack;
        self.stream.acknowledge(segment.data_ack);
        self.retransmit_at = None; // set anew while anything is outstanding
        self.probe_at = None;
    }

    /// The connection's send buffer is the sum of its subflows' (`__mptcp_sync_sndbuf`).
    fn fit_send_buffer(&mut self) {
        let most = self.config.tcp.send_buffer;
        let subflows = self.subflows.iter().map(|s| s.send_buffer().min(most)).sum::<u64>();
        self.send_buffer = if self.config.tcp.auto_tune && subflows > 0 { subflows } else { most };
        self.stream.set_limit(self.send_buffer as usize);
        if self.blocked && self.stream.free() >= WAKE_ROOM.min(self.send_buffer / 3) {
            self.blocked = false;
            self.notices.push_back(Notice::Writable(STREAM));
        }
    }

    // ---- the stream

    fn own(&self) -> usize {
        usize::from(self.side == Side::Server)
    }

    /// The end of the peer's bytes, once it is known and everything has arrived.
    fn peer_end(&self) -> Option<u64> {
        self.shared.ends[1 - self.own()].get().filter(|end| self.receive.next() > *end)
    }

    fn write_fin(&mut self) {
        if self.fin_wanted && !self.fin_written && self.stream.write(1) == 1 {
            self.fin_written = true;
            self.shared.ends[self.own()].set(Some(self.written));
            self.dirty = true;
        }
    }

    /// Closes the subflows once both directions have ended and are acknowledged.
    fn close_when_done(&mut self) {
        let sent = self.fin_written && self.acknowledged > self.written;
        if !sent || self.peer_end().is_none() || self.closed {
            return;
        }
        self.closed = true;
        self.notices.push_back(Notice::Closed);
        for subflow in &mut self.subflows {
            subflow.finishing = true;
            subflow.socket.finish();
        }
    }

    fn start(&mut self) {
        if !std::mem::replace(&mut self.started, true) && self.side == Side::Client {
            self.dial_missing();
        }
    }

    fn arm(&mut self) {
        let sockets = self.subflows.iter().filter_map(|s| s.socket.poll_timeout());
        let own = [self.join_at, self.retransmit_at, self.probe_at, self.ask_at];
        self.wake = sockets.chain(own.into_iter().flatten()).min().unwrap_or(Instant::MAX);
    }
}

impl Transport for MptcpTransport {
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        if let Body::Segment(segment) = packet.body {
            self.handle_segment(now, &segment, out);
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        for at in (0..self.subflows.len()).rev() {
            if self.subflows[at].socket.poll_timeout().is_some_and(|due| due <= now) {
                let own = self.see_siblings(at);
                self.subflows[at].socket.handle_timeout(now, Siblings::new(&self.siblings, own));
                self.timed_out(at);
            }
            if self.subflows[at].socket.is_closed() {
                self.lose(now, at, out);
            }
        }
        if self.join_at.take_if(|at| *at <= now).is_some() {
            self.dial_missing();
        }
        if self.retransmit_at.take_if(|at| *at <= now).is_some() {
            self.retransmit(now);
        }
        if self.probe_at.take_if(|at| *at <= now).is_some() {
            self.probe(now);
        }
        self.dirty |= self.ask_at.take_if(|at| *at <= now).is_some();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (self.wake < Instant::MAX).then_some(self.wake)
    }

    fn handle_path(&mut self, now: Instant, path: u8, up: bool, out: &mut Outbox) {
        for at in 0..self.paths.len() {
            if self.paths[at].path == path {
                self.present[at] = up;
            }
        }
        for at in (0..self.subflows.len()).rev() {
            if !up && self.paths[self.subflows[at].path].path == path {
                self.lose(now, at, out);
            }
        }
        if self.side == Side::Client && !self.closed {
            self.started = true;
            self.dial_missing();
        }
    }

    fn open(&mut self, _: Instant, _: u8) -> Option<StreamKey> {
        self.connected.then_some(STREAM)
    }

    fn write(&mut self, _: Instant, _: StreamKey, bytes: u64) -> u64 {
        if self.fin_wanted {
            return 0;
        }
        let taken = self.stream.write(bytes);
        self.written += taken;
        self.blocked |= taken < bytes;
        self.dirty |= taken > 0;
        taken
    }

    fn finish(&mut self, _: Instant, _: StreamKey) {
        self.fin_wanted = true;
        self.write_fin();
    }

    fn read(&mut self, now: Instant, _: StreamKey, most: u64) -> u64 {
        let fin = u64::from(self.peer_end().is_some());
        let bytes = self.receive.readable().saturating_sub(fin).min(most);
        if bytes > 0 {
            let round_trip = self.subflows.iter().map(|s| s.receiver_rtt).max().unwrap_or_default();
            self.receive.read(now, bytes, round_trip);
            // Sends a window update on every subflow when the window has doubled (`mptcp_cleanup_rbuf`).
            if self.receive.window() >= 2 * self.told_edge.saturating_sub(self.receive.next()) {
                self.told_edge = self.receive.next() + self.receive.window();
                self.subflows.iter_mut().for_each(|s| s.socket.acknowledge_now());
            }
        }
        bytes
    }

    fn is_finished(&self, _: StreamKey) -> bool {
        self.peer_end().is_some() && self.receive.readable() == 1
    }

    fn flush(&mut self, now: Instant, out: &mut Outbox) {
        self.start();
        self.write_fin();
        if std::mem::take(&mut self.dirty) {
            self.push(now);
            self.fit_send_buffer();
        }
        self.close_when_done();
        for at in (0..self.subflows.len()).rev() {
            self.send(now, at, out);
            if self.subflows[at].socket.is_closed() {
                self.lose(now, at, out);
            }
        }
        self.arm();
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn counters(&self) -> Counters {
        let mut counters = self.counters;
        for subflow in &self.subflows {
            let info = subflow.socket.info();
            counters.retransmitted += info.retransmitted;
            counters.timeouts += info.timeouts;
        }
        counters.sent = counters.sent.min(self.written); // the end takes a number, too
        counters.duplicates = self.receive.duplicates;
        counters.receive_held_most = self.receive.held_most;
        counters.mean_srtt = self.srtt_sum / self.srtt_count.max(1);
        counters
    }

    fn sample(&self, samples: &mut Vec<PathSample>) {
        for subflow in self.subflows.iter().filter(|s| s.established) {
            let info = subflow.socket.info();
            samples.push(PathSample {
                path: self.paths[subflow.path].path,
                window: info.cwnd,
                threshold: info.ssthresh,
                in_flight: Some(info.in_flight),
                srtt: info.srtt,
                retransmitted: info.retransmitted,
            });
        }
    }
}

#[cfg(test)]
mod tests;
