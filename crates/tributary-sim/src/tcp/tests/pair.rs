//! Two ends, a link each way, and applications that write and read numbers of bytes.

use core::time::Duration;

use tributary_cc::{Setup, create};
use tributary_link::{DelaySpec, LinkConfig, LinkSpec, LossSpec, QueueSpec};
use tributary_types::{Bitrate, DataSize, Instant};

use crate::tcp::{TcpConfig, TcpInfo, TcpTransport};
use crate::transport::{Application, Endpoint, Notice, StreamKey, Transport};
use crate::{HostId, LinkId, World};

/// Writes `left` bytes as room permits, ends the stream, and reads everything.
#[derive(Debug)]
pub struct Peer {
    left: u64,
    pub written: u64,
    pub read: u64,
    pub finished: Option<Instant>,
    pub closed: Option<Instant>,
    connected: bool,
    /// Reads nothing before this.
    reads_from: Instant,
    awake: bool,
}

impl Peer {
    pub fn new(left: u64) -> Self {
        Self {
            left,
            written: 0,
            read: 0,
            finished: None,
            closed: None,
            connected: false,
            reads_from: Instant::ZERO,
            awake: true,
        }
    }

    pub fn reading_from(self, at: Instant) -> Self {
        Self { reads_from: at, awake: false, ..self }
    }

    fn write(&mut self, now: Instant, transport: &mut dyn Transport) {
        let taken = transport.write(now, 0, self.left);
        self.left -= taken;
        self.written += taken;
        if self.left == 0 {
            transport.finish(now, 0);
        }
    }

    fn read(&mut self, now: Instant, stream: StreamKey, transport: &mut dyn Transport) {
        if !self.awake {
            return;
        }
        self.read += transport.read(now, stream, u64::MAX);
        if transport.is_finished(stream) {
            self.finished.get_or_insert(now);
        }
    }
}

impl Application for Peer {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        match notice {
            Notice::Connected => {
                self.connected = true;
                self.write(now, transport);
            }
            Notice::Writable(_) => self.write(now, transport),
            Notice::Readable(stream) => self.read(now, stream, transport),
            Notice::Closed => self.closed = Some(now),
            Notice::Opened(_) | Notice::Expired { .. } => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant, transport: &mut dyn Transport) {
        if !self.awake && now >= self.reads_from {
            self.awake = true;
            self.read(now, 0, transport);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (!self.awake).then_some(self.reads_from)
    }
}

/// Settings of a pair.
#[derive(Clone, Debug)]
pub struct PairSettings {
    pub mbps: u64,
    /// Round-trip time, milliseconds.
    pub rtt: u64,
    pub queue: QueueSpec,
    pub loss: LossSpec,
    pub jitter: Option<DelaySpec>,
    /// Both directions are dead in `[from, to)`, milliseconds.
    pub dead: Vec<(u64, u64)>,
    pub controller: &'static str,
    pub config: TcpConfig,
    pub seed: u64,
}

impl PairSettings {
    pub fn new(mbps: u64, rtt: u64) -> Self {
        let bdp = mbps * rtt * 125;
        Self {
            mbps,
            rtt,
            queue: QueueSpec::Bytes(DataSize::from_bytes(bdp.max(30_000))),
            loss: LossSpec::None,
            jitter: None,
            dead: Vec::new(),
            controller: "reno",
            config: TcpConfig::default(),
            seed: 1,
        }
    }

    fn link(&self, seed: u64) -> LinkConfig {
        let mut spec = LinkSpec::constant(Bitrate::from_mbps(self.mbps));
        spec.queue = self.queue.clone();
        spec.loss = self.loss.clone();
        if let Some(jitter) = &self.jitter {
            spec.delay = jitter.clone();
        }
        let mut link = LinkConfig::new(spec, seed);
        link.extra_delay = Duration::from_micros(self.rtt * 500);
        link.dead =
            self.dead.iter().map(|&(a, b)| (Instant::from_millis(a), Instant::from_millis(b))).collect();
        link
    }

    pub fn build(&self, client: Peer, server: Peer) -> Pair {
        let mut world = World::new(50_000_000);
        let links = [world.add_link(self.link(2 * self.seed)), world.add_link(self.link(2 * self.seed + 1))];
        let (a, b) = (world.reserve_host(), world.reserve_host());
        let (to_b, to_a) = (world.add_route(&links[..1], b), world.add_route(&links[1..], a));
        let controller = || create(self.controller, Setup::new(self.config.mss)).expect("a known controller");
        let end = TcpTransport::client(self.config.clone(), controller(), to_b);
        world.place_host(a, Box::new(Endpoint::new(Box::new(end), Box::new(client))));
        let end = TcpTransport::server(self.config.clone(), controller(), to_a);
        world.place_host(b, Box::new(Endpoint::new(Box::new(end), Box::new(server))));
        Pair { world, client: a, server: b, links }
    }

    /// Sends `bytes` from the client to the server, at most for `seconds`.
    pub fn run(&self, bytes: u64, seconds: u64) -> Pair {
        let mut pair = self.build(Peer::new(bytes), Peer::new(0));
        pair.run(seconds);
        pair
    }
}

/// A running pair.
pub struct Pair {
    pub world: World,
    pub client: HostId,
    pub server: HostId,
    pub links: [LinkId; 2],
}

impl Pair {
    pub fn run(&mut self, until_second: u64) {
        self.world.run_until(Instant::from_millis(until_second * 1000)).expect("within the budget");
        assert!(self.links.iter().all(|link| self.world.link_stats(*link).is_conserved()));
    }

    pub fn peer(&self, id: HostId) -> &Peer {
        self.world.host::<Endpoint>(id).unwrap().application().unwrap()
    }

    pub fn info(&self, id: HostId) -> TcpInfo {
        self.transport(id).socket().info()
    }

    pub fn transport(&self, id: HostId) -> &TcpTransport {
        let transport = self.world.host::<Endpoint>(id).unwrap().transport();
        (transport as &dyn core::any::Any).downcast_ref().unwrap()
    }

    /// Checks that everything the client wrote was read once and that both ends are over. Returns the time it
    /// took.
    #[track_caller]
    pub fn expect_complete(&self, bytes: u64) -> f64 {
        let (client, server) = (self.peer(self.client), self.peer(self.server));
        assert_eq!((client.written, server.read), (bytes, bytes), "{:?}", self.info(self.client));
        assert!(client.closed.is_some() && server.closed.is_some());
        for id in [self.client, self.server] {
            let info = self.info(id);
            assert_eq!((info.in_flight, info.unsent, info.receive_held), (0, 0, 0));
            assert_eq!(self.transport(id).socket().error(), None);
        }
        assert_eq!(self.info(self.client).sent, bytes);
        server.finished.expect("the end of the stream was read").as_secs_f64()
    }
}
