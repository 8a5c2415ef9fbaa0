//! One run: builds a world from a setting and measures it.
//!
//! ```text
//! servers ──(base RTT)── gateway ══ 40 Gbit/s ══ access point i ~~ radio i ~~ device
//! ```
//! Ten flows are sent at 600 Mbit/s each and then, for the burst, at 2 Gbit/s. The radios' rate chains start
//! two seconds before the first byte, so that the initial state has no effect. Acknowledgements use separate
//! links without loss. Each radio has a drop-tail queue. The coded nodes are the real ones with their defaults: an access point
//! measures its radio's rate and keeps its queue short.

use core::time::Duration;
use std::cell::RefCell;
use std::rc::Rc;

use tributary_coding::CoefficientKey;
use tributary_cotag::{AccessPointNode, Config, DeviceNode, GatewayNode, Mode};
use tributary_link::{DelaySpec, LinkConfig, LinkSpec, MAX_RATE, QueueSpec};
use tributary_types::{Bitrate, DataSize, Instant, Rng};

use super::access_point::{AccessPointHost, Routes};
use super::airtime::Airtime;
use super::contents::{Contents, overhead};
use super::device::DeviceHost;
use super::gateway::GatewayHost;
use super::scheme::{FlowKind, Gate};
use super::setting::{BEGIN, LONGEST, RADIO_DELAY, Setting};
use super::spray::Spray;
use super::traffic::{RateProfile, Sink, Source, Tally};
use super::turns::Turns;
use crate::id::{HostId, LinkId};
use crate::mptcp::{MptcpConfig, MptcpTransport};
use crate::multipath::{self, MultipathError, SubflowPath};
use crate::own::Own;
use crate::packet::HEADER;
use crate::session::{SessionConfig, SessionTransport};
use crate::tcp::{TcpConfig, TcpTransport};
use crate::transport::{Endpoint, Transport};
use crate::world::{World, WorldError};

/// Most packets that gateway and device hold.
const HELD: usize = 1 << 15;
const LOOK: Duration = Duration::from_millis(10);
const WIRE: Bitrate = Bitrate::from_mbps(40_000);
const WIRE_DELAY: Duration = Duration::from_micros(50);
const BUFFERS: u64 = 64 << 20;
const EVENTS: u64 = 2_000_000_000;

/// The results of one run.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Payload delivered in order during the burst, Mbit/s.
    pub throughput: f64,
    /// What all radios could carry in that time, Mbit/s.
    pub capacity: f64,
    /// Time from the beginning of the burst until 5 Gbit (divided by `divisor`) have been delivered, ms.
    pub burst_ms: f64,
    /// Mean of the smoothed round-trip time of all flows, ms.
    pub rtt_ms: f64,
    /// Retransmitted payload in per cent of the payload sent.
    pub retransmitted: f64,
    /// Retransmission timeouts of all flows.
    pub timeouts: u64,
    /// Only for schemes that code.
    pub tunnel: Option<TunnelMeasured>,
    /// Hash of the event log.
    pub hash: u64,
    /// Events of the run.
    pub events: u64,
}

/// Results of the coded nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct TunnelMeasured {
    /// Delay from gateway to delivery by the device, of packets from the beginning of the burst on, ms;
    /// median.
    pub delay_p50_ms: f64,
    /// The same, 99th percentile.
    pub delay_p99_ms: f64,
    /// Redundant packets in per cent of the packets that the radios sent.
    pub redundant: f64,
    /// Packets that the device decoded without receiving them.
    pub recovered: u64,
    /// Packets of cohorts that ended before they were decoded.
    pub lost: u64,
    /// Packets that the gateway refused and access points dropped because too many waited.
    pub full: u64,
    /// Deliveries without a known packet: zero unless a decoder is wrong.
    pub unknown: u64,
}

/// Links of one access point.
#[derive(Debug)]
struct Spoke {
    wired_down: LinkId,
    wired_up: LinkId,
    radio_down: LinkId,
    radio_up: LinkId,
    config: LinkConfig,
}

#[derive(Debug)]
struct Links {
    down: LinkId,
    up: LinkId,
    spokes: Vec<Spoke>,
}

/// The coded nodes of the run, for reading their results.
#[derive(Debug)]
struct Tunnel {
    gateway: HostId,
    points: Vec<HostId>,
    device: HostId,
}

/// The host at the gateway's place, before it is added to the world.
enum Middle {
    None,
    Spray(HostId, Spray),
    Coded(HostId, Box<GatewayHost>),
}

impl Setting {
    fn links(&self, world: &mut World) -> Links {
        let wire = |world: &mut World, rate, delay| {
            let mut spec = LinkSpec::constant(rate);
            spec.delay = DelaySpec::fixed(delay);
            spec.queue = QueueSpec::Bytes(DataSize::from_bytes(1 << 30));
            world.add_link(LinkConfig::new(spec, 0))
        };
        let half = if self.scheme.gate == Gate::Sends { Duration::ZERO } else { self.rtt / 2 };
        let (down, up) = (wire(world, MAX_RATE, half), wire(world, MAX_RATE, half));
        let spoke = |at| {
            let config = self.radio(at);
            Spoke {
                wired_down: wire(world, WIRE, WIRE_DELAY),
                wired_up: wire(world, WIRE, WIRE_DELAY),
                radio_down: world.add_link(config.clone()),
                radio_up: wire(world, Bitrate::from_mbps(1000), RADIO_DELAY),
                config,
            }
        };
        let spokes = (0..self.radio.count).map(spoke).collect();
        Links { down, up, spokes }
    }

    fn coding(&self, mode: Mode, buffer: usize) -> Config {
        let mut key = [0; 32];
        let mut rng = Rng::new(self.seed).child("key");
        key.fill_with(|| rng.next_u64() as u8);
        let default = Config::new(CoefficientKey::new(key));
        let interval = self.interval.unwrap_or(default.interval);
        let redundancy = self.redundancy.unwrap_or(default.redundancy);
        Config { mode, buffer, interval, redundancy, ..default }
    }

    fn tcp(&self) -> TcpConfig {
        let mss = u64::from(self.packet - HEADER);
        let loss_detection = self.loss_detection;
        TcpConfig {
            mss,
            receive_buffer: BUFFERS,
            send_buffer: BUFFERS,
            loss_detection,
            ..TcpConfig::default()
        }
    }

    /// Number of subflows of a flow.
    fn subflows(&self) -> usize {
        if self.scheme.flow == FlowKind::Tcp { 1 } else { self.radio.count }
    }

    fn transports(
        &self,
        seed: u64,
        paths: &[SubflowPath],
    ) -> Result<[Box<dyn Transport>; 2], MultipathError> {
        let (tcp, congestion) = (self.tcp(), "cubic".to_owned());
        Ok(match self.scheme.flow {
            FlowKind::Tcp => {
                let (tcp, own) = (Rc::new(tcp), Own::default());
                let controller =
                    |end| multipath::controller((&congestion, &own), &tcp, seed.wrapping_add(end));
                let client = TcpTransport::client(tcp.clone(), controller(0), paths[0].up);
                let server = TcpTransport::server(tcp.clone(), controller(1), paths[0].down);
                [Box::new(client), Box::new(server)]
            }
            FlowKind::Mptcp(scheduler) => {
                let scheduler = scheduler.to_owned();
                let config = MptcpConfig { scheduler, tcp, congestion, seed, ..MptcpConfig::default() };
                let (client, server) = MptcpTransport::pair(&config, paths)?;
                [Box::new(client), Box::new(server)]
            }
            FlowKind::Session(scheduler) => {
                let mut config = SessionConfig { congestion, seed, ..SessionConfig::default() };
                config.tcp = TcpConfig { nagle: false, ..tcp };
                config.session.scheduler = scheduler.to_owned();
                let (client, server) = SessionTransport::pair(&config, paths)?;
                [Box::new(client), Box::new(server)]
            }
        })
    }
}

/// Simulates one run.
///
/// # Errors
/// [`SimulateError`].
pub fn simulate(setting: &Setting) -> Result<Measured, SimulateError> {
    let mut run = Run::build(setting)?;
    let (from, burst) = (setting.burst_from(), setting.burst);
    let mut until = from + burst;
    run.world.run_until(until)?;
    while run.tally.borrow().reached.is_none() && until < from + LONGEST {
        until += LOOK;
        run.world.run_until(until)?;
    }
    Ok(run.measured(setting))
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The transport's settings.
    #[error(transparent)]
    Multipath(#[from] MultipathError),
    /// The run was stopped.
    #[error(transparent)]
    World(#[from] WorldError),
}

struct Run {
    world: World,
    tunnel: Option<Tunnel>,
    servers: Vec<HostId>,
    tally: Rc<RefCell<Tally>>,
}

impl Run {
    fn build(setting: &Setting) -> Result<Self, MultipathError> {
        let mut world = World::new(EVENTS);
        let links = setting.links(&mut world);
        let (mut middle, tunnel) = place_gate(setting, &links, &mut world);
        let (from, load) = (setting.burst_from(), setting.load());
        let tally = Rc::new(RefCell::new(Tally::new(from, from + setting.burst, load.goal)));
        let mut seeds = Rng::new(setting.seed).child("flows");
        let mut servers = Vec::new();
        for flow in 0..setting.flows {
            let (client, server) = (world.reserve_host(), world.reserve_host());
            let paths: Vec<SubflowPath> = (0..setting.subflows())
                .map(|subflow| {
                    let place = SubflowEnds { links: &links, flow, subflow, hosts: (client, server) };
                    place.path(setting, &mut world, &mut middle)
                })
                .collect();
            let [reader, writer] = setting.transports(seeds.next_u64(), &paths)?;
            let profile = RateProfile {
                calm: load.calm,
                burst: load.burst,
                // Staggered, so that not all begin in the same microsecond.
                begin: Instant::ZERO + BEGIN + Duration::from_micros(25) * flow as u32,
                burst_from: from,
            };
            world.place_host(client, Box::new(Endpoint::new(reader, Box::new(Sink(tally.clone())))));
            world.place_host(server, Box::new(Endpoint::new(writer, Box::new(Source::new(profile)))));
            servers.push(server);
        }
        match middle {
            Middle::None => {}
            Middle::Spray(host, spray) => world.place_host(host, Box::new(spray)),
            Middle::Coded(host, gateway) => world.place_host(host, Box::new(Turns::new(*gateway))),
        }
        Ok(Self { world, tunnel, servers, tally })
    }

    fn measured(&self, setting: &Setting) -> Measured {
        let (from, seconds) = (setting.burst_from(), setting.burst.as_secs_f64());
        let tally = self.tally.borrow();
        let mut measured = Measured {
            throughput: tally.within as f64 * 8e-6 / seconds,
            capacity: setting.capacity_mbps(),
            burst_ms: tally.reached.map_or(LONGEST, |at| at.saturating_since(from)).as_secs_f64() * 1e3,
            hash: self.world.log().hash(),
            events: self.world.events(),
            ..Measured::default()
        };
        let (mut sent, mut again) = (0, 0);
        for server in &self.servers {
            let server = self.world.host::<Endpoint>(*server).expect("it was placed");
            let counters = server.transport().counters();
            sent += counters.sent;
            again += counters.retransmitted + counters.reinjected;
            measured.timeouts += counters.timeouts;
            measured.rtt_ms += counters.mean_srtt.as_secs_f64() * 1e3 / setting.flows as f64;
        }
        measured.retransmitted = 100.0 * again as f64 / sent.max(1) as f64;
        measured.tunnel = self.tunnel.as_ref().map(|tunnel| self.tunnel_measured(tunnel));
        measured
    }

    fn tunnel_measured(&self, tunnel: &Tunnel) -> TunnelMeasured {
        let device = &self.world.host::<Turns<DeviceHost>>(tunnel.device).expect("it was placed").work;
        let mut delays: Vec<f64> = device.delays.iter().map(|delay| delay.as_secs_f64() * 1e3).collect();
        delays.sort_by(f64::total_cmp);
        let at = |share: f64| delays.get((delays.len() as f64 * share) as usize).copied().unwrap_or(0.0);
        let counters = device.counters();
        let mut measured = TunnelMeasured {
            delay_p50_ms: at(0.5),
            delay_p99_ms: at(0.99),
            recovered: counters.recovered,
            lost: counters.lost,
            unknown: device.unknown,
            full: self.world.host::<Turns<GatewayHost>>(tunnel.gateway).expect("it was placed").work.refused,
            ..TunnelMeasured::default()
        };
        let (mut sent, mut taken) = (0, 0);
        for point in &tunnel.points {
            let point =
                self.world.host::<Turns<AccessPointHost>>(*point).expect("it was placed").work.counters();
            (sent, taken) = (sent + point.sent, taken + point.taken);
            measured.full += point.full;
        }
        measured.redundant = 100.0 * taken as f64 / sent.max(1) as f64;
        measured
    }
}

/// The place of a subflow.
struct SubflowEnds<'a> {
    links: &'a Links,
    flow: usize,
    subflow: usize,
    hosts: (HostId, HostId),
}

impl SubflowEnds<'_> {
    /// Its routes; registered with the gateway if that forwards packets.
    fn path(&self, setting: &Setting, world: &mut World, middle: &mut Middle) -> SubflowPath {
        let (links, (client, server)) = (self.links, self.hosts);
        // Subflow i belongs to radio i; a flow without subflows sends its acknowledgements over one of the
        // radios.
        let own = if setting.subflows() > 1 { self.subflow } else { self.flow % links.spokes.len() };
        let spoke = &links.spokes[own];
        let up = world.add_route(&[spoke.radio_up, spoke.wired_up, links.up], server);
        let down = match middle {
            Middle::None => world.add_route(&[links.down, spoke.wired_down, spoke.radio_down], client),
            Middle::Spray(host, spray) => {
                let down = world.add_route(&[links.down], *host);
                let over = |spoke: &Spoke| world.add_route(&[spoke.wired_down, spoke.radio_down], client);
                spray.carry(down, links.spokes.iter().map(over).collect());
                down
            }
            Middle::Coded(host, gateway) => {
                let down = world.add_route(&[links.down], *host);
                gateway.carry(down, world.add_route(&[], client), self.flow as u64);
                down
            }
        };
        SubflowPath { path: own as u8, up, down }
    }
}

/// The gateway, and the nodes behind it if it codes.
fn place_gate(setting: &Setting, links: &Links, world: &mut World) -> (Middle, Option<Tunnel>) {
    let mode = match setting.scheme.gate {
        Gate::Routed | Gate::Sends => return (Middle::None, None),
        Gate::InTurn => {
            return (Middle::Spray(world.reserve_host(), Spray::new(Vec::new(), setting.queue)), None);
        }
        Gate::Balanced => {
            let radios = links.spokes.iter().map(|spoke| Airtime::new(&spoke.config)).collect();
            return (Middle::Spray(world.reserve_host(), Spray::new(radios, setting.queue)), None);
        }
        Gate::Coded(mode) => mode,
    };
    let contents = Rc::new(RefCell::new(Contents::default()));
    let (gateway, device) = (world.reserve_host(), world.reserve_host());
    let (config, count) = (setting.coding(mode, HELD), links.spokes.len());
    let largest = setting.packet as usize + overhead(mode);
    let node = GatewayNode::new(config.clone(), 1, count, largest);
    let mut gateway_host = GatewayHost::new(node, contents.clone());
    let node = DeviceNode::new(config, 1, count);
    let mut device_host = DeviceHost::new(node, contents.clone(), setting.burst_from());
    let mut points = Vec::new();
    for (number, spoke) in links.spokes.iter().enumerate() {
        let point = world.reserve_host();
        let from_gateway = world.add_route(&[spoke.wired_down], point);
        let to_gateway = world.add_route(&[spoke.wired_up], gateway);
        let to_device = world.add_route(&[spoke.radio_down], device);
        let from_device = world.add_route(&[spoke.radio_up], point);
        gateway_host.join(from_gateway, to_gateway);
        device_host.join(to_device, from_device);
        let config = setting.coding(mode, setting.queue as usize);
        let node = AccessPointNode::new(config, number as u8 + 1, largest);
        let routes = Routes { from_gateway, to_gateway, to_device };
        world.place_host(point, Box::new(Turns::new(AccessPointHost::new(node, routes, &contents))));
        points.push(point);
    }
    world.place_host(device, Box::new(Turns::new(device_host)));
    let middle = Middle::Coded(gateway, Box::new(gateway_host));
    (middle, Some(Tunnel { gateway, points, device }))
}
