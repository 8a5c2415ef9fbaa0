//! Test rig: a client that requests bytes and a server that sends them over a scenario's paths.

use core::time::Duration;
use std::collections::BTreeMap;

use tributary_link::{Direction, LinkEvent, Scenario};
use tributary_proto::liveness::{Liveness, Overdue};
use tributary_types::Instant;

use super::SubflowPath;
use crate::id::HostId;
use crate::transport::{Application, Endpoint, Notice, StreamKey, Transport};
use crate::world::World;

/// Client and server ends.
pub(crate) type Ends = (Box<dyn Transport>, Box<dyn Transport>);

const REQUEST: u64 = 100;

/// Sends one request and reads everything. Sends others before it whose answers it does not read.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    stream: Option<StreamKey>,
    pub received: u64,
    /// For each arrival: when, and the total of in-order bytes.
    pub arrivals: Vec<(Instant, u64)>,
    pub finished_at: Option<Instant>,
    /// Number of requests whose answers are not read.
    stalled: u32,
    /// Reads at most this many bytes per interval, if set.
    pace: Option<(u64, Duration)>,
    next: Option<Instant>,
}

/// Answers each request with this many bytes, as fast as the transport accepts them.
#[derive(Debug)]
pub(crate) struct Writer {
    bytes: u64,
    left: BTreeMap<StreamKey, u64>,
}

impl Reader {
    fn read(&mut self, now: Instant, transport: &mut dyn Transport) {
        let Some(stream) = self.stream else { return };
        let most = self.pace.map_or(u64::MAX, |(bytes, _)| bytes);
        let bytes = transport.read(now, stream, most);
        if bytes > 0 {
            self.received += bytes;
            self.arrivals.push((now, self.received));
        }
        if transport.read(now, stream, 0) == 0 && transport.is_finished(stream) && self.finished_at.is_none()
        {
            self.finished_at = Some(now);
            transport.finish(now, stream);
        }
        self.next = self.pace.map(|(_, every)| now + every).filter(|_| self.finished_at.is_none());
    }
}

impl Application for Reader {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        match notice {
            Notice::Connected => {
                for _ in 0..=self.stalled {
                    let stream = transport.open(now, 0).expect("a connected transport opens streams");
                    assert_eq!(transport.write(now, stream, REQUEST), REQUEST);
                    self.stream = Some(stream);
                }
                self.next = self.pace.map(|(_, every)| now + every);
            }
            Notice::Readable(stream) if self.pace.is_none() && self.stream == Some(stream) => {
                self.read(now, transport)
            }
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant, transport: &mut dyn Transport) {
        self.read(now, transport);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

impl Application for Writer {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        if let Notice::Readable(stream) = notice
            && transport.read(now, stream, u64::MAX) > 0
        {
            self.left.insert(stream, self.bytes);
        }
        for (&stream, left) in self.left.iter_mut().filter(|(_, left)| **left > 0) {
            *left -= transport.write(now, stream, *left);
            if *left == 0 {
                transport.finish(now, stream);
            }
        }
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut dyn Transport) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// A world with one connection.
pub(crate) struct Rig {
    pub world: World,
    pub client: HostId,
    pub server: HostId,
    events: Vec<LinkEvent>,
}

impl Rig {
    /// Sends `bytes` from server to client over the paths of `scenario`.
    pub fn new(scenario: &Scenario, bytes: u64, make: impl FnOnce(&[SubflowPath]) -> Ends) -> Self {
        Self::with(scenario, bytes, Reader::default(), make)
    }

    /// The same beside so many downloads that nobody reads.
    pub fn stalled(
        scenario: &Scenario,
        bytes: u64,
        stalled: u32,
        make: impl FnOnce(&[SubflowPath]) -> Ends,
    ) -> Self {
        Self::with(scenario, bytes, Reader { stalled, ..Reader::default() }, make)
    }

    /// The same with a client that reads a number of bytes per interval.
    pub fn paced(
        scenario: &Scenario,
        bytes: u64,
        pace: Option<(u64, Duration)>,
        make: impl FnOnce(&[SubflowPath]) -> Ends,
    ) -> Self {
        Self::with(scenario, bytes, Reader { pace, ..Reader::default() }, make)
    }

    fn with(
        scenario: &Scenario,
        bytes: u64,
        reader: Reader,
        make: impl FnOnce(&[SubflowPath]) -> Ends,
    ) -> Self {
        Self::of(scenario, (Box::new(reader), Box::new(Writer { bytes, left: BTreeMap::new() })), make)
    }

    /// A client and a server with these applications.
    pub fn of(
        scenario: &Scenario,
        (client_side, server_side): (Box<dyn Application>, Box<dyn Application>),
        make: impl FnOnce(&[SubflowPath]) -> Ends,
    ) -> Self {
        let mut world = World::new(200_000_000);
        let (client, server) = (world.reserve_host(), world.reserve_host());
        let paths: Vec<_> = (0..scenario.paths.len())
            .map(|path| {
                let up = world.add_link(scenario.link_config(path, Direction::Up));
                let down = world.add_link(scenario.link_config(path, Direction::Down));
                SubflowPath {
                    path: path as u8,
                    up: world.add_route(&[up], server),
                    down: world.add_route(&[down], client),
                }
            })
            .collect();
        let ends = make(&paths);
        world.place_host(server, Box::new(Endpoint::new(ends.1, server_side)));
        world.place_host(client, Box::new(Endpoint::new(ends.0, client_side)));
        Self { world, client, server, events: scenario.link_events() }
    }

    /// Runs until this time, including link events.
    pub fn run(&mut self, until: Duration) {
        let until = Instant::ZERO + until;
        let (now, later): (Vec<_>, Vec<_>) = self.events.drain(..).partition(|event| event.at <= until);
        self.events = later;
        for event in now {
            self.world.run_until(event.at).expect("the world does not run in circles");
            for host in [self.client, self.server] {
                self.world.path_changed(host, event.path as u8, event.up);
            }
        }
        self.world.run_until(until).expect("the world does not run in circles");
    }

    pub fn reader(&self) -> &Reader {
        self.application(self.client)
    }

    /// One end's application.
    pub fn application<A: Application>(&self, host: HostId) -> &A {
        self.endpoint(host).application().expect("the rig was made with this application")
    }

    /// Whether the download made progress within `allowed` all the time, from its first bytes on.
    pub fn liveness(&self, allowed: Duration) -> Result<(), Overdue> {
        let (reader, mut liveness) = (self.reader(), Liveness::default());
        let end = reader.finished_at.unwrap_or(self.world.now());
        for (at, read) in &reader.arrivals {
            liveness.check(*at, allowed)?;
            liveness.observe(*at, 0, true, *read);
        }
        liveness.check(end, allowed)
    }

    fn endpoint(&self, host: HostId) -> &Endpoint {
        self.world.host(host).expect("hosts are endpoints")
    }

    /// One end's transport.
    pub fn transport<T: Transport>(&self, host: HostId) -> &T {
        let transport: &dyn core::any::Any = self.endpoint(host).transport();
        transport.downcast_ref().expect("the rig was made with this transport")
    }

    /// Mbit/s delivered between two times.
    pub fn rate(&self, from: Duration, to: Duration) -> f64 {
        let (from, to) = (Instant::ZERO + from, Instant::ZERO + to);
        let until = |at: Instant| {
            let arrivals = &self.reader().arrivals;
            let passed = arrivals.partition_point(|(when, _)| *when <= at);
            passed.checked_sub(1).map_or(0, |i| arrivals[i].1)
        };
        (until(to) - until(from)) as f64 * 8.0 / 1e6 / to.saturating_since(from).as_secs_f64()
    }

    /// The slowest whole second between two times, Mbit/s.
    pub fn worst_second(&self, from: u64, to: u64) -> f64 {
        let second = Duration::from_secs;
        (from..to).map(|s| self.rate(second(s), second(s + 1))).fold(f64::MAX, f64::min)
    }

    /// The longest time without in-order bytes, after the first and until now.
    pub fn longest_silence(&self) -> Duration {
        self.longest_silence_from(Duration::ZERO)
    }

    /// The same of silences that begin at this time or later.
    pub fn longest_silence_from(&self, from: Duration) -> Duration {
        let arrivals = &self.reader().arrivals;
        let first = arrivals.partition_point(|(at, _)| *at < Instant::ZERO + from);
        let times = || arrivals[first..].iter().map(|(at, _)| *at);
        let ends = times().skip(1).chain([self.world.now()]);
        times().zip(ends).map(|(at, next)| next.saturating_since(at)).max().unwrap_or_default()
    }
}
