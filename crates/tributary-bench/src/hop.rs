//! What an attacker does to a COTAG gateway with many keys: pings through the tunnel while junk arrives, and new
//! sessions while a recorded handshake is sent again and again.
//!
//! The attacker is on the access point's host, so that its datagrams come in over the same link. All hosts are on
//! this machine's cores.

use clap::Args;
use core::time::Duration;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use tributary_cli::quantity;

use serde::Serialize;
use tributary_emu::{Host, RelayNetwork};
use tributary_lab::tunnel::NodeConfigs;
use tributary_nodes::{Coding, Role, Running};
use tributary_report::Table;

use super::{BenchError, Expectation, Judged, Progress, Tables};

/// Keys of the gateway, one of which is used.
const KEYS: usize = 32;
/// Time between two pings, and the time in which each must be answered.
const PING: Duration = Duration::from_millis(20);
const ANSWER: Duration = Duration::from_secs(1);
/// Time in which a handshake must have led to a session, and restarts of the access point in each round.
const SESSION: Duration = Duration::from_secs(1);
const RESTARTS: u32 = 20;
/// Time for all nodes to find each other.
const START: Duration = Duration::from_secs(20);
/// Least share of pings answered, and of handshakes that led to a session.
const AIM: Expectation = Expectation::AtLeast(0.99);
/// Length of a handshake's datagram, where its time stamp and its MAC are.
const INIT: usize = 72;
const STAMP: usize = 16;

/// A COTAG gateway with 32 keys under attack: pings through the tunnel beside junk, sessions beside a recorded handshake.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Rounds; each has every attack once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Seconds of pings beside each kind of junk
    #[arg(long, default_value_t = 5.0, value_parser = quantity::part_seconds_in(0.5..=600.0))]
    pub seconds: f64,
    /// Datagrams of junk each second
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub junk: u32,
    /// Copies of a recorded handshake each second
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub replays: u32,
}

/// One kind of attack.
#[derive(Clone, Debug, Serialize)]
pub struct Attack {
    /// What arrives.
    pub name: &'static str,
    /// Datagrams per second that the attacker sent, in each round.
    pub per_second: Vec<f64>,
    /// Share of honest pings answered, or of sessions begun, in each round.
    pub share: Vec<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Each attack, and pings without one.
    pub attacks: Vec<Attack>,
    /// Their shares, with verdict.
    pub shares: Vec<Judged>,
}

const QUIET: &str = "pings, nothing else";
const STRANGE: &str = "pings, junk that names no key";
const NAMED: &str = "pings, junk that names a key";
const REPLAYED: &str = "handshakes, one of them sent again";

pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let attack = |name| Attack { name, per_second: Vec::new(), share: Vec::new() };
    let mut attacks = [QUIET, STRANGE, NAMED, REPLAYED].map(attack);
    for round in 1..=settings.rounds {
        let mut world = World::start()?;
        for attack in &mut attacks {
            progress(&format!("{}, round {round} of {}", attack.name, settings.rounds));
            let (share, sent) = match attack.name {
                REPLAYED => world.handshakes(settings)?,
                name => world.pings(settings, name)?,
            };
            attack.share.push(share);
            attack.per_second.push(sent);
        }
    }
    let shares = attacks.iter().map(|attack| Judged::median(&attack.share, AIM)).collect();
    Ok(Report { attacks: attacks.into(), shares })
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let title = format!("A COTAG gateway with {KEYS} keys under attack; medians of the rounds");
        let table = Table::of(&title, self.attacks.iter().zip(&self.shares))
            .text("what", |(attack, _)| attack.name)
            .number(("attacker", "1/s"), 0, |(attack, _)| super::median(&attack.per_second))
            .judged("share", |(_, share)| share.cells(3))
            .table();
        vec![table]
    }
}

fn failed(reason: impl ToString) -> BenchError {
    super::failed("a node under attack", reason)
}

/// A tunnel over one access point, and what its attacker has recorded.
struct World {
    point: Option<Running>,
    configs: NodeConfigs,
    _gateway: Running,
    _device: Running,
    /// The access point's first handshake.
    recorded: Vec<u8>,
    network: RelayNetwork,
}

impl World {
    fn start() -> Result<Self, BenchError> {
        let network = RelayNetwork::bare(1)?;
        let configs = NodeConfigs::new(1, KEYS, &Coding::default()).map_err(failed)?;
        let (gateway, first) = (configs.gateway(), configs.point(0));
        let recorder = network.run(Host::Gateway, || UdpSocket::bind(gateway.listen))?.map_err(failed)?;
        recorder.set_read_timeout(Some(START)).map_err(failed)?;
        let point = network.run(Host::AccessPoint(0), || first.start())?.map_err(failed)?;
        let mut recorded = vec![0; INIT];
        let length = recorder.recv(&mut recorded).map_err(failed)?;
        recorded.truncate(length);
        drop(recorder);
        let world = Self {
            _gateway: network.run(Host::Gateway, || gateway.start())?.map_err(failed)?,
            _device: network.run(Host::Device, || configs.device().start())?.map_err(failed)?,
            point: Some(point),
            configs,
            recorded,
            network,
        };
        // The device's first ping would otherwise be lost.
        let point = world.point.as_ref().expect("it runs");
        if is_up_in(point, "device", START)? && is_up_in(point, "gateway", START)? {
            Ok(world)
        } else {
            Err(failed("no session"))
        }
    }

    fn bind(&self, host: Host, address: Ipv4Addr) -> Result<UdpSocket, BenchError> {
        self.network.run(host, || UdpSocket::bind((address, 0)))?.map_err(failed)
    }

    /// Runs `work` while `per_second` datagrams a second that `make` writes arrive at the gateway. Returns its result, and
    /// how many were sent a second.
    fn attacked<T>(
        &self,
        per_second: u32,
        make: impl Fn(u64, &mut Vec<u8>) + Sync,
        work: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<(T, f64), BenchError> {
        let socket = self.bind(Host::AccessPoint(0), Ipv4Addr::UNSPECIFIED)?;
        let (to, begin) = (self.configs.point(0).gateway, Instant::now());
        let (ends, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut datagram = Vec::new();
                while !ends.load(Relaxed) {
                    // In small bursts: a thread does not wake up 20 000 times a second.
                    let due = (begin.elapsed().as_secs_f64() * f64::from(per_second)) as u64;
                    while sent.load(Relaxed) < due && !ends.load(Relaxed) {
                        make(sent.load(Relaxed), &mut datagram);
                        // What the network refuses was sent all the same.
                        let _ = socket.send_to(&datagram, to);
                        sent.fetch_add(1, Relaxed);
                    }
                    std::thread::sleep(Duration::from_micros(500));
                }
            });
            let result = work();
            ends.store(true, Relaxed);
            result
        })?;
        Ok((result, sent.load(Relaxed) as f64 / begin.elapsed().as_secs_f64()))
    }

    /// Share of pings answered while this junk arrives, and its rate.
    fn pings(&self, settings: &Settings, name: &str) -> Result<(f64, f64), BenchError> {
        let is_named = name == NAMED;
        let make = |number: u64, datagram: &mut Vec<u8>| {
            datagram.clone_from(&self.recorded);
            let bytes = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            // A larger time stamp, or another key.
            let at = if is_named { STAMP } else { STAMP - 8 };
            datagram[at..at + 8].copy_from_slice(&bytes);
            if is_named {
                datagram[at] |= 0x80;
            }
        };
        let per_second = if name == QUIET { 0 } else { settings.junk };
        let count = (settings.seconds / PING.as_secs_f64()) as u32;
        self.attacked(per_second, make, || {
            let server = self.bind(Host::Server, RelayNetwork::SERVER)?;
            let device = self.bind(Host::Device, RelayNetwork::tunnel(2))?;
            let to = server.local_addr().map_err(failed)?;
            server.set_read_timeout(Some(ANSWER * 2)).map_err(failed)?;
            device.set_read_timeout(Some(ANSWER)).map_err(failed)?;
            let answered = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut buffer = [0; 64];
                    while let Ok((length, from)) = server.recv_from(&mut buffer) {
                        let _ = server.send_to(&buffer[..length], from);
                    }
                });
                let reading = scope.spawn(|| {
                    let mut answered = 0;
                    while device.recv(&mut [0; 64]).is_ok() {
                        answered += 1;
                    }
                    answered
                });
                for number in 0..count {
                    let _ = device.send_to(&number.to_be_bytes(), to);
                    std::thread::sleep(PING);
                }
                reading.join().expect("the reader does not panic")
            });
            Ok(f64::from(answered) / f64::from(count))
        })
    }

    /// Share of the access point's starts that lead to a session in time while its recorded handshake is sent again, and
    /// how often that is.
    fn handshakes(&mut self, settings: &Settings) -> Result<(f64, f64), BenchError> {
        let recorded = self.recorded.clone();
        let mut point = self.point.take();
        let mut begun = 0;
        let (_, sent) = self.attacked(
            settings.replays,
            |_, datagram| datagram.clone_from(&recorded),
            || {
                for _ in 0..RESTARTS {
                    point = None;
                    let started = self.network.run(Host::AccessPoint(0), || self.configs.point(0).start())?;
                    point = Some(started.map_err(failed)?);
                    begun +=
                        u32::from(is_up_in(point.as_ref().expect("it was started"), "gateway", SESSION)?);
                }
                Ok(())
            },
        )?;
        self.point = point;
        Ok((f64::from(begun) / f64::from(RESTARTS), sent))
    }
}

/// Whether the access point has a session with this neighbour before `limit` is over.
fn is_up_in(point: &Running, neighbour: &str, limit: Duration) -> Result<bool, BenchError> {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        let status = point.status().map_err(failed)?;
        if status.links.iter().any(|link| link.name == neighbour && link.up) {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(false)
}
