//! A client, a server and reliable subflows between them, in virtual time.
//!
//! A subflow here is what a session sees of TCP: bytes go in while there is room, leave at the
//! path's rate, and arrive in order after its delay. At rate zero everything stands still. With [`Pair::overtaking`] frames that may
//! overtake arrive in any order, as over QUIC.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};
use tributary_types::{Bitrate, DataSize, Instant, PathId, Rng, StreamId, SubflowId};

use crate::cap::LEAST_CAP;
use crate::config::Config;
use crate::event::Event;
use crate::flow::Datagram;
use crate::liveness::{self, Liveness};
use crate::session::{ReadError, Session, Side};
use crate::subflow::SubflowInfo;
use crate::wire::is_flow;

/// Bytes that a subflow accepts in addition to those in flight on its path.
const UNSENT: usize = 32 * 1024;
/// The clock's step, unless a test sets another.
const STEP: Duration = Duration::from_micros(200);
/// The liveness rule is checked at this interval.
const CHECKED_EVERY: Duration = Duration::from_millis(10);
/// Longer than the end of all streams takes, including paths that must be connected again.
const SETTLED: Duration = Duration::from_secs(20);

/// A path between the two.
pub(crate) struct Path {
    pub rate: Bitrate,
    pub delay: Duration,
    /// Bytes that TCP keeps in flight at most: its congestion window.
    pub cwnd: usize,
    /// New connections are refused.
    pub dead: bool,
    /// Packets that the path drops without an ICMP error.
    pub hole: Hole,
}

/// Packets that a path drops without an ICMP error. Bytes behind them in the same connection never arrive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hole {
    Nothing,
    /// Long packets: those of connections with full-size segments.
    Long,
    /// Everything but packets without payload.
    Payload,
}

/// Longest packet that passes every hole, and the length of a long packet.
const TINY: usize = 150;
const LONG: usize = 1300;

/// One direction of a subflow.
#[derive(Default)]
struct Pipe {
    unsent: VecDeque<Bytes>,
    unsent_bytes: usize,
    /// Bytes at the bottleneck, then in flight until they arrive.
    queue: VecDeque<Bytes>,
    queue_bytes: usize,
    budget: u64,
    flying: VecDeque<(Instant, Bytes)>,
    /// Frames that overtake, and when they arrive.
    apart: Vec<(Instant, Bytes)>,
    /// Nothing arrives any more: the sender's retransmission timeouts have become long.
    stuck: bool,
    /// Bytes that have arrived, and when the last ones did.
    arrived: u64,
    arrived_at: Instant,
}

struct Connection {
    path: PathId,
    opens_at: Instant,
    open: bool,
    /// Connected with small segments.
    small: bool,
    /// Client to server, server to client.
    pipes: [Pipe; 2],
}

pub(crate) struct Pair {
    pub now: Instant,
    pub step: Duration,
    pub ends: [Session; 2],
    pub paths: BTreeMap<PathId, Path>,
    connections: BTreeMap<SubflowId, Connection>,
    pub events: [Vec<Event>; 2],
    pub opened: usize,
    /// When each chunk was read at either end, and how many bytes.
    pub received: [Vec<(Instant, StreamId, Bytes)>; 2],
    /// The same for datagrams.
    pub datagrams: [Vec<(Instant, StreamId, Datagram)>; 2],
    pub ended: [Vec<StreamId>; 2],
    pub reading: bool,
    /// Streams whose reader takes only this many bytes per step of the clock, and nothing at 0.
    pub slow: BTreeMap<StreamId, usize>,
    /// Whether requests of a session that shares memory are granted.
    pub grants: bool,
    readable: [Vec<StreamId>; 2],
    only: Option<StreamId>,
    /// Checks the liveness rule for what each side reads.
    liveness: [Liveness; 2],
    checked_at: Instant,
    /// Paths that are connected with small segments.
    small: BTreeSet<PathId>,
    /// Connections let frames overtake others, by random times.
    pub overtaking: Option<Rng>,
}

pub(crate) fn content(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

pub(crate) fn payload(from: u64, length: usize) -> Bytes {
    (from..from + length as u64).map(content).collect::<Vec<u8>>().into()
}

impl Pair {
    pub fn new(scheduler: &str, paths: &[(u64, u64)]) -> Self {
        Self::with(&Config { scheduler: scheduler.to_owned(), telemetry: true, ..Config::default() }, paths)
    }

    /// `paths`: Mbit/s and one-way delay in milliseconds.
    pub fn with(config: &Config, paths: &[(u64, u64)]) -> Self {
        let end = |side| Session::new(side, config.clone(), 7, Instant::ZERO).unwrap();
        let mut pair = Self {
            now: Instant::ZERO,
            step: STEP,
            ends: [end(Side::Client), end(Side::Server)],
            paths: BTreeMap::new(),
            connections: BTreeMap::new(),
            events: [Vec::new(), Vec::new()],
            opened: 0,
            received: [Vec::new(), Vec::new()],
            datagrams: [Vec::new(), Vec::new()],
            ended: [Vec::new(), Vec::new()],
            reading: true,
            slow: BTreeMap::new(),
            grants: false,
            readable: [Vec::new(), Vec::new()],
            only: None,
            liveness: Default::default(),
            checked_at: Instant::ZERO,
            small: BTreeSet::new(),
            overtaking: None,
        };
        for (id, &(mbps, delay)) in paths.iter().enumerate() {
            let rate = Bitrate::from_mbps(mbps);
            let delay = Duration::from_millis(delay);
            let cwnd = (rate.size_in(delay * 2).as_bytes() as usize * 3 / 2).max(64 << 10);
            pair.paths.insert(PathId(id as u8), Path { rate, delay, cwnd, dead: false, hole: Hole::Nothing });
            pair.ends[0].add_path(Instant::ZERO, PathId(id as u8));
        }
        pair
    }

    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.step();
        }
    }

    /// Runs until `done`, or fails after `most`.
    pub fn run_until(&mut self, most: Duration, mut done: impl FnMut(&Self) -> bool) {
        let until = self.now + most;
        while !done(self) {
            assert!(
                self.now < until,
                "not done at {}: {:?}",
                self.now,
                self.ends.each_ref().map(Session::stats)
            );
            self.step();
        }
    }

    /// Drops all connections of a path, without a message or with an error on both sides.
    pub fn cut(&mut self, path: PathId) {
        let ids: Vec<_> =
            self.connections.iter().filter(|(_, c)| c.path == path).map(|(id, _)| *id).collect();
        for id in ids {
            self.connections.remove(&id);
            for end in &mut self.ends {
                end.handle_subflow_closed(self.now, id);
            }
        }
    }

    /// One direction of the present connections of a path carries nothing any more; new connections do.
    pub fn stick(&mut self, path: PathId, direction: usize) {
        for connection in self.connections.values_mut().filter(|c| c.path == path) {
            connection.pipes[direction].stuck = true;
        }
    }

    fn step(&mut self) {
        self.now += self.step;
        self.connect();
        for direction in [0, 1] {
            self.carry(direction);
        }
        for side in [0, 1] {
            if self.ends[side].poll_timeout().is_some_and(|at| at <= self.now) {
                self.ends[side].handle_timeout(self.now);
            }
            self.drain(side);
            if self.reading {
                self.read(side);
                self.drain(side);
            }
        }
        if self.now >= self.checked_at + CHECKED_EVERY {
            self.checked_at = self.now;
            self.check_liveness();
        }
    }

    /// Every stream whose reader reads makes progress in time. Time in which a path is blocked does not count.
    fn check_liveness(&mut self) {
        let blocked = |path: &Path| path.dead || path.rate == Bitrate::ZERO || path.hole != Hole::Nothing;
        let lives =
            !self.paths.values().any(blocked) && self.connections.values().filter(|c| c.open).count() > 0;
        let rtt = self.paths.values().map(|path| path.delay * 2).max().unwrap_or_default();
        let capped = |(id, path): (&PathId, &Path)| {
            self.ends[0].cap(*id).map_or(path.rate, |cap| path.rate.min(cap.max(LEAST_CAP))).as_bps()
        };
        let rate = self.paths.iter().map(capped).min().unwrap_or_default();
        let streams = self.ends[0].send.streams.len() + self.ends[1].send.streams.len();
        let allowed = liveness::allowed(rtt, Bitrate::from_bps(rate), streams);
        for (side, liveness) in self.liveness.iter_mut().enumerate() {
            let (reader, writer) = (&self.ends[side], &self.ends[1 - side]);
            reader.check_sums();
            for (id, stream) in &writer.send.streams {
                let read = reader.receive.get(id).map_or(0, |stream| stream.consumed);
                let next = if is_flow(*id) { reader.next_peer_flow } else { reader.next_peer_stream };
                let unseen = id.0 % 2 != reader.side.parity() && u64::from(id.0) >= next;
                let reads = self.reading
                    && !self.slow.contains_key(id)
                    && self.only.is_none_or(|only| only == *id)
                    && reader.receive.get(id).map_or(unseen, |s| !(s.stopped || s.done || s.reset.is_some()));
                let written = stream.offset + stream.unnumbered() as u64;
                let owed = !stream.abandoned && (written > read || stream.blocked.is_some());
                liveness.observe(self.now, u64::from(id.0), reads && owed, read);
            }
            liveness.retain(|id| writer.send.streams.contains_key(&StreamId(id as u32)));
            if !lives || reader.is_closed() || writer.is_closed() {
                liveness.interrupted(self.now);
            }
            if let Err(overdue) = liveness.check(self.now, allowed) {
                panic!("side {side}, {overdue} at {}: {:?} {:?}", self.now, reader.stats(), writer.stats());
            }
        }
    }

    fn connect(&mut self) {
        let due: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, c)| !c.open && self.now >= c.opens_at)
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            let connection = self.connections.get_mut(&id).unwrap();
            let path = &self.paths[&connection.path];
            if path.dead || path.rate == Bitrate::ZERO {
                continue;
            }
            connection.open = true;
            let path = connection.path;
            self.opened += 1;
            for end in [1, 0] {
                if self.ends[end].handle_subflow_open(self.now, id, path).is_err() {
                    self.ends[0].handle_connect_failed(self.now, id);
                    self.connections.remove(&id);
                    break;
                }
                if self.overtaking.is_some() {
                    self.ends[end].let_overtake(id);
                }
            }
        }
    }

    fn carry(&mut self, direction: usize) {
        let ids: Vec<_> = self.connections.keys().copied().collect();
        for id in ids {
            let connection = self.connections.get_mut(&id).unwrap();
            let path = &self.paths[&connection.path];
            let pipe = &mut connection.pipes[direction];
            let flying: usize = pipe.flying.iter().map(|(_, b)| b.len()).sum();
            // TCP's window counts bytes, so a part of a segment that does not fit is sent.
            while let room @ 1.. = path.cwnd.saturating_sub(pipe.queue_bytes + flying)
                && let Some(front) = pipe.unsent.front_mut()
            {
                let bytes = front.split_to(front.len().min(room));
                if front.is_empty() {
                    pipe.unsent.pop_front();
                }
                pipe.unsent_bytes -= bytes.len();
                pipe.queue_bytes += bytes.len();
                pipe.queue.push_back(bytes);
            }
            pipe.budget += path.rate.size_in(self.step).as_bytes();
            if path.dead || pipe.stuck {
                pipe.budget = 0;
            }
            while let Some(front) = pipe.queue.front_mut()
                && pipe.budget > 0
                && match path.hole {
                    Hole::Nothing => true,
                    Hole::Long => connection.small || front.len() < LONG,
                    Hole::Payload => front.len() < TINY,
                }
            {
                let take = front.len().min(pipe.budget as usize);
                let bytes = front.split_to(take);
                if front.is_empty() {
                    pipe.queue.pop_front();
                }
                pipe.budget -= take as u64;
                pipe.queue_bytes -= take;
                pipe.flying.push_back((self.now + path.delay, bytes));
            }
            pipe.budget = if pipe.queue.is_empty() { 0 } else { pipe.budget };
            let mut arrived = Vec::new();
            while pipe.flying.front().is_some_and(|(at, _)| *at <= self.now) {
                arrived.push(pipe.flying.pop_front().unwrap().1);
                pipe.arrived_at = self.now;
            }
            pipe.arrived += arrived.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
            let taken = |taken| match taken {
                Ok(()) | Err(crate::session::ProtocolError::UnknownSubflow(_)) => {}
                Err(error) => panic!("{error}"),
            };
            if !path.dead && !pipe.stuck && path.rate > Bitrate::ZERO {
                for (_, mut frames) in pipe.apart.extract_if(.., |(at, _)| *at <= self.now) {
                    pipe.arrived += frames.len() as u64;
                    pipe.arrived_at = self.now;
                    taken(self.ends[1 - direction].handle_overtaking(self.now, id, &mut frames));
                }
            }
            for bytes in arrived {
                taken(self.ends[1 - direction].handle_input(self.now, id, bytes));
            }
        }
    }

    fn drain(&mut self, side: usize) {
        while let Some(demand) = self.ends[side].poll_demand(self.now) {
            if !self.grants {
                break;
            }
            self.ends[side].allot(self.now, demand);
        }
        for (id, connection) in &self.connections {
            if !connection.open {
                continue;
            }
            let path = &self.paths[&connection.path];
            let pipe = &connection.pipes[side];
            let flying: usize = pipe.flying.iter().map(|(_, b)| b.len()).sum();
            let rtt = path.delay * 2 + Duration::from_micros(400);
            self.ends[side].handle_subflow_info(
                *id,
                SubflowInfo {
                    srtt: rtt,
                    rttvar: rtt / 8,
                    min_rtt: rtt,
                    cwnd: path.cwnd as u64,
                    in_flight: (flying + pipe.queue_bytes) as u64,
                    unsent: pipe.unsent_bytes as u64,
                    delivery_rate: (path.rate > Bitrate::ZERO).then_some(path.rate),
                    mss: 1448,
                    delivered: pipe.arrived,
                    heard_at: pipe.arrived_at,
                },
            );
            self.ends[side].handle_room(*id, UNSENT.saturating_sub(pipe.unsent_bytes));
        }
        while let Some(transmit) = self.ends[side].poll_transmit(self.now) {
            let Some(connection) = self.connections.get_mut(&transmit.subflow) else { continue };
            let mut bytes = BytesMut::from(transmit.head.as_slice());
            bytes.extend_from_slice(&transmit.payload);
            if let Some(rng) = self.overtaking.as_mut().filter(|_| transmit.may_overtake) {
                // Now and then a packet is lost, and sent again after a round trip.
                let late = if rng.chance(0.1) { 3 } else { 1 };
                let at = self.now + self.paths[&connection.path].delay * late;
                connection.pipes[side].apart.push((at, bytes.freeze()));
                continue;
            }
            connection.pipes[side].unsent_bytes += bytes.len();
            connection.pipes[side].unsent.push_back(bytes.freeze());
        }
        while let Some(event) = self.ends[side].poll_event() {
            match event {
                Event::OpenSubflow { path, subflow } => {
                    let opens_at = self.now + self.paths[&path].delay * 4;
                    let pipes = [Pipe::default(), Pipe::default()];
                    let small = self.small.contains(&path);
                    self.connections
                        .insert(subflow, Connection { path, opens_at, open: false, small, pipes });
                }
                Event::AbandonConnect { subflow }
                    if self.connections.get(&subflow).is_some_and(|c| !c.open) =>
                {
                    self.connections.remove(&subflow);
                }
                Event::CloseSubflow { subflow, abort } if abort => {
                    self.connections.remove(&subflow);
                    self.ends[1 - side].handle_subflow_closed(self.now, subflow);
                }
                Event::StreamReadable(id) => self.readable[side].push(id),
                Event::SmallSegments { path, small: true } => drop(self.small.insert(path)),
                Event::SmallSegments { path, small: false } => drop(self.small.remove(&path)),
                _ => {}
            }
            self.events[side].push(event);
        }
    }

    fn read(&mut self, side: usize) {
        for id in std::mem::take(&mut self.readable[side]) {
            if self.only.is_some_and(|only| only != id) {
                continue;
            }
            if let Some(&most) = self.slow.get(&id) {
                self.read_slowly(side, id, most);
                continue;
            }
            if is_flow(id) {
                self.receive(side, id);
                continue;
            }
            loop {
                match self.ends[side].read(id) {
                    Ok(Some(chunk)) => self.received[side].push((self.now, id, chunk)),
                    Ok(None) => {
                        self.ended[side].push(id);
                        break;
                    }
                    Err(ReadError::Blocked) => break,
                    Err(_) => break,
                }
            }
        }
    }

    fn receive(&mut self, side: usize, id: StreamId) {
        let mut datagrams = Vec::new();
        let outcome = loop {
            match self.ends[side].recv_datagrams(id, 64, &mut datagrams) {
                Ok(1..) => {}
                outcome => break outcome,
            }
        };
        if outcome == Ok(0) {
            self.ended[side].push(id);
        }
        let now = self.now;
        self.datagrams[side].extend(datagrams.into_iter().map(|datagram| (now, id, datagram)));
    }

    fn read_slowly(&mut self, side: usize, id: StreamId, most: usize) {
        match if most == 0 { Ok(None) } else { self.ends[side].read_most(id, most).map(Some) } {
            Ok(Some(Some(chunk))) => self.received[side].push((self.now, id, chunk)),
            Ok(Some(None)) => return self.ended[side].push(id),
            Ok(None) => {}
            Err(_) => return,
        }
        self.readable[side].push(id);
    }

    /// Number of streams that are ending, at both sides.
    fn ending(&self) -> u32 {
        self.ends.iter().map(|end| end.streams().ending).sum()
    }

    /// Checks that all streams disappear, once every path is up again, except those that an application still
    /// holds.
    fn check_streams(&mut self) {
        for path in self.paths.values_mut() {
            path.dead = false;
            path.rate = path.rate.max(Bitrate::from_mbps(50));
        }
        let until = self.now + SETTLED;
        while self.ending() > 0 && !self.ends.iter().any(Session::is_closed) {
            let counts = self.ends.each_ref().map(Session::streams);
            assert!(self.now < until, "streams that nobody holds stay: {counts:?}");
            self.step();
        }
        for end in &self.ends {
            let counts = end.streams();
            let open = end.send.streams.len();
            assert_eq!(((counts.own + counts.peers) as usize, end.receive.len()), (open, open), "{counts:?}");
        }
    }

    /// Reads this stream and leaves the others unread.
    pub fn resume_reading_only(&mut self, id: StreamId) {
        self.reading = true;
        self.only = Some(id);
    }

    /// Bytes of a stream that were read at `side` so far. Checks that they are correct.
    pub fn checked(&self, side: usize, id: StreamId) -> u64 {
        let mut offset = 0;
        for (_, stream, chunk) in &self.received[side] {
            if *stream == id {
                let right = chunk.iter().enumerate().all(|(i, b)| *b == content(offset + i as u64));
                assert!(right, "wrong bytes in the chunk at {offset}");
                offset += chunk.len() as u64;
            }
        }
        offset
    }

    /// Longest time without a read at `side` between the first read and the last.
    pub fn longest_silence(&self, side: usize) -> Duration {
        let times = self.received[side].iter().map(|(at, ..)| *at);
        times.clone().zip(times.skip(1)).map(|(a, b)| b.saturating_since(a)).max().unwrap_or_default()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check_streams();
        }
    }
}

/// Writes `length` bytes on a new stream of the server as room allows, then finishes it.
pub(crate) struct Sender {
    pub stream: StreamId,
    side: usize,
    at: u64,
    end: u64,
    chunk: Bytes,
}

impl Sender {
    pub fn new(pair: &mut Pair, side: usize, length: u64) -> Self {
        let stream = pair.ends[side].open_stream(0).unwrap();
        Self { stream, side, at: 0, end: length, chunk: Bytes::new() }
    }

    pub fn feed(&mut self, pair: &mut Pair) {
        let end = &mut pair.ends[self.side];
        if self.at <= self.end && self.pour(end) {
            self.at += 1;
            end.finish(self.stream).unwrap();
        }
    }

    /// As [`Self::feed`], for a stream that may have been stopped or reset.
    pub fn feed_open(&mut self, pair: &mut Pair) {
        let end = &mut pair.ends[self.side];
        if self.pour(end) {
            let _ = end.finish(self.stream);
        }
    }

    /// Writes as room allows; whether everything was written. What a write leaves is kept, because making it again takes longer than
    /// what is tested.
    fn pour(&mut self, end: &mut Session) -> bool {
        while self.at < self.end {
            if self.chunk.is_empty() {
                self.chunk = payload(self.at, (self.end - self.at).min(64 << 10) as usize);
            }
            match end.write(self.stream, &mut self.chunk) {
                Ok(taken) => self.at += taken as u64,
                Err(_) => return false,
            }
        }
        true
    }

    pub fn written(&self) -> u64 {
        self.at.min(self.end)
    }
}

/// Feeds and runs until the whole stream was read at the other side.
pub(crate) fn transfer(pair: &mut Pair, sender: &mut Sender, most: Duration) {
    let start = pair.now;
    while !pair.ended[1 - sender.side].contains(&sender.stream) {
        assert!(
            pair.now < start + most,
            "not done after {most:?}: {} of {} bytes written, {:?}",
            sender.written(),
            sender.end,
            pair.ends.each_ref().map(Session::stats)
        );
        sender.feed(pair);
        pair.run(STEP);
    }
    assert_eq!(pair.checked(1 - sender.side, sender.stream), sender.end);
}

/// Goodput of everything read at `side` between two moments.
pub(crate) fn goodput(pair: &Pair, side: usize, from: Instant, to: Instant) -> Bitrate {
    let bytes: usize =
        pair.received[side].iter().filter(|(at, ..)| *at > from && *at <= to).map(|(.., c)| c.len()).sum();
    Bitrate::of(DataSize::from_bytes(bytes as u64), to.saturating_since(from)).unwrap()
}

/// A seeded generator for tests with randomness.
pub(crate) fn rng(seed: u64) -> Rng {
    Rng::new(seed)
}
