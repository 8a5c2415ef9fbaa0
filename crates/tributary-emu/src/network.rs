//! A running emulated network: a client and a server namespace joined by the scenario's paths.

use crate::audit::Audit;
use crate::capture::{Capture, Captured};
use crate::clock::Clock;
use crate::forward::{ForwardOptions, Forwarder, ForwarderRecord, Order, Probe};
use crate::log::{LinkSample, direction_of};
use crate::namespace::Namespace;
use crate::state::{LinkState, State};
use crate::sys;
use serde::Serialize;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use thiserror::Error;
use tributary_link::{Change, Direction, LinkConfig, Scenario, ScenarioError};
use tributary_tun::{Netlink, Tun, TunError};
use tributary_types::{DataSize, Instant};

/// Largest packet on every path.
const MTU: u32 = 1500;
/// Packets that a device queues for the emulator.
const DEVICE_QUEUE: u32 = 10_000;

/// One end of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The device with several radios.
    Client,
    /// The machine it communicates with.
    Server,
}

impl Side {
    /// The address of this side on the path with this index (from zero): 10.77.*i*.2 for the client,
    /// 10.77.*i*.1 for the server, *i* counted from one.
    #[must_use]
    pub fn address(self, path: usize) -> Ipv4Addr {
        let host = if self == Self::Client { 2 } else { 1 };
        Ipv4Addr::new(10, 77, path as u8 + 1, host)
    }

    /// The IPv6 address of this side: fd77:*i*::2 for the client, fd77:*i*::1 for the server.
    #[must_use]
    pub fn address6(self, path: usize) -> Ipv6Addr {
        let host = if self == Self::Client { 2 } else { 1 };
        Ipv6Addr::new(0xfd77, path as u16 + 1, 0, 0, 0, 0, 0, host)
    }
}

/// Why a network could not be started or queried.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The scenario has parts that only the simulator supports.
    #[error("{0}")]
    NeedsSimulator(String),
    /// The TUN device failed.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// Missing permission.
    #[error(
        "{doing}: {source}. Call `tributary_emu::isolate()` first, or run as root; /dev/net/tun must exist \
         and be open to you"
    )]
    Permission {
        /// The operation.
        doing: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A congestion control that the kernel does not allow in namespaces.
    #[error(
        "the kernel does not allow `{0}` as the default of a network namespace. As root of this machine, write \
         `reno bbr {0}` to /proc/sys/net/ipv4/tcp_allowed_congestion_control"
    )]
    RestrictedCongestion(String),
    /// Another system error.
    #[error("{doing}: {source}")]
    System {
        /// The operation.
        doing: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The path does not exist.
    #[error("no path is called `{name}`; there are {known}")]
    UnknownPath {
        /// The requested name.
        name: String,
        /// The existing names.
        known: String,
    },
    /// The forwarding thread has ended.
    #[error("the forwarding thread has ended")]
    Stopped,
}

/// Adds the failed action to a system error.
pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> NetworkError {
    let doing = doing.into();
    move |source| {
        let denied = matches!(source.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::ENOENT));
        if denied {
            NetworkError::Permission { doing, source }
        } else {
            NetworkError::System { doing, source }
        }
    }
}

/// A running network. Dropping it removes everything it created.
#[derive(Debug)]
pub struct Network {
    scenario: Scenario,
    client: Namespace,
    /// The namespace at the other end of each path: the same one for all, except in a relay.
    servers: Vec<Namespace>,
    clock: Clock,
    orders: Sender<Order>,
    wake: OwnedFd,
    thread: Option<JoinHandle<()>>,
    dropped: Mutex<Dropped>,
}

/// Counters of dropped packets in the kernel's devices that say nothing about full rings.
#[derive(Debug, Default)]
struct Dropped {
    /// Before the last rewind, and while interfaces were down: the kernel drops what is sent to one that goes down.
    discounted: u64,
    /// The counter of each interface that is down when it was taken down.
    down: HashMap<(Side, usize), u64>,
}

impl Network {
    /// Starts the network; the scenario's time begins now. See also [`Network::rewind`].
    pub fn start(scenario: &Scenario) -> Result<Self, NetworkError> {
        Self::start_with(scenario, ForwardOptions::default())
    }

    /// Starts the network with these options of the forwarding thread.
    pub fn start_with(scenario: &Scenario, options: ForwardOptions) -> Result<Self, NetworkError> {
        Self::check(scenario)?;
        let namespace = || Namespace::create().map_err(system("creating a network namespace"));
        let (client, server) = (namespace()?, namespace()?);
        Self::start_between(scenario, options, client, vec![server; scenario.paths.len().max(1)])
    }

    /// Refuses scenarios that cannot be emulated.
    pub(crate) fn check(scenario: &Scenario) -> Result<(), NetworkError> {
        scenario.check()?;
        scenario.needs_simulator().map_or(Ok(()), |why| Err(NetworkError::NeedsSimulator(why)))
    }

    /// Starts the paths between existing namespaces; path i ends in `servers[i]`. The scenario must have
    /// passed [`check`](Self::check).
    pub(crate) fn start_between(
        scenario: &Scenario,
        options: ForwardOptions,
        client: Namespace,
        servers: Vec<Namespace>,
    ) -> Result<Self, NetworkError> {
        let mut tuns = Vec::new();
        for ((i, path), server) in scenario.paths.iter().enumerate().zip(&servers) {
            for (side, namespace) in [(Side::Client, &client), (Side::Server, server)] {
                let set_up = || interface(&path.name, side, i, options.super_frames);
                tuns.push(namespace.run(set_up).map_err(system("entering a network namespace"))??);
            }
        }
        let clock = Clock::start();
        let (orders, inbox) = channel();
        let wake = sys::event_fd().map_err(system("creating an event descriptor"))?;
        let woken = wake.try_clone().map_err(system("duplicating a descriptor"))?;
        let starting = Starting { scenario: scenario.clone(), options, tuns, clock: clock.clone() };
        let thread = starting.spawn(inbox, woken).map_err(system("starting the forwarding thread"))?;
        Ok(Self {
            scenario: scenario.clone(),
            client,
            servers,
            clock,
            orders,
            wake,
            thread: Some(thread),
            dropped: Mutex::default(),
        })
    }

    /// The scenario.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Scenario time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    fn namespace(&self, side: Side) -> &Namespace {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.servers[0],
        }
    }

    /// A command that will run on one side. It can be converted into a `tokio::process::Command`.
    #[must_use]
    pub fn command(&self, side: Side, program: impl AsRef<OsStr>) -> Command {
        self.namespace(side).command(program)
    }

    /// Runs `work` on a new thread on one side and waits for it. Sockets created there stay in its namespace,
    /// wherever they are used later. So do threads started there, such as a runtime's workers.
    pub fn run<T: Send>(&self, side: Side, work: impl FnOnce() -> T + Send) -> Result<T, NetworkError> {
        self.namespace(side).run(work).map_err(system("entering a network namespace"))
    }

    /// Restarts the scenario: time is zero, links are empty, the audit is reset. Gives every compared transport the
    /// same conditions.
    pub fn rewind(&self) -> Result<(), NetworkError> {
        let mut dropped = self.dropped.lock().expect("no holder panics");
        dropped.discounted = self.ring_drops(&dropped)?;
        drop(dropped);
        self.ask(Order::Rewind)
    }

    /// Takes one side's interface of a path down or up, as a radio driver reports a lost link.
    pub fn set_link_state(&self, side: Side, path: &str, up: bool) -> Result<(), NetworkError> {
        let index = self.path_index(path)?;
        let change = || {
            let mut netlink = Netlink::open()?;
            let before = ring_drops(&[path]);
            netlink.set_link(path, up, None)?;
            if up {
                restore_addresses(&mut netlink, path, side, index)?;
            }
            Ok(if up { ring_drops(&[path]) } else { before })
        };
        let doing = format!("setting the state of {path}");
        let namespace = if side == Side::Client { &self.client } else { &self.servers[index] };
        let changed = namespace.run(change).map_err(system("entering a network namespace"))?;
        let count = changed.map_err(system(doing))?;
        let mut dropped = self.dropped.lock().expect("no holder panics");
        if !up {
            dropped.down.entry((side, index)).or_insert(count);
        } else if let Some(when_taken_down) = dropped.down.remove(&(side, index)) {
            dropped.discounted += count.saturating_sub(when_taken_down);
        }
        Ok(())
    }

    /// Puts a change in place of the scenario on a path, in one direction or both, until the next change or rewind. Audit and
    /// log count the changed capacity; [`capacity`](Self::capacity) stays the scenario's.
    pub fn change(
        &self,
        path: &str,
        direction: Option<Direction>,
        change: Change,
    ) -> Result<(), NetworkError> {
        let first = 2 * self.path_index(path)?;
        let lanes = [first, first + 1].into_iter();
        let lanes = lanes.filter(|lane| direction.is_none_or(|asked| asked == direction_of(*lane))).collect();
        self.ask(|done| Order::Change(lanes, change, done))
    }

    /// Captures what one side sends and receives on every path, in a pcapng file, until [`end_capture`](Self::end_capture). A
    /// second capture takes the place of the first.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn capture(&self, file: &std::path::Path, side: Side) -> Result<Capture, NetworkError> {
        let doing = || format!("writing the capture {}", file.display());
        let source = |source| NetworkError::System { doing: doing(), source };
        let (capture, tap) =
            Capture::begin(file, usize::from(side == Side::Server), &self.scenario.path_names())
                .map_err(source)?;
        self.ask(|done| Order::Tap(Some(tap), done))?;
        Ok(capture)
    }

    /// Ends a capture; returns what it has.
    ///
    /// # Errors
    /// Not everything could be written, for example because the disk is full; the file has the packets before.
    pub fn end_capture(&self, capture: Capture) -> Result<Captured, NetworkError> {
        self.ask(|done| Order::Tap(None, done))?;
        let doing = || "writing the capture, which is cut short".to_owned();
        capture.end().map_err(|source| NetworkError::System { doing: doing(), source })
    }

    fn path_index(&self, name: &str) -> Result<usize, NetworkError> {
        self.scenario.path(name).map(|(index, _)| index).ok_or_else(|| {
            let known: Vec<&str> = self.scenario.paths.iter().map(|path| path.name.as_str()).collect();
            NetworkError::UnknownPath { name: name.to_owned(), known: known.join(", ") }
        })
    }

    /// Capacity of a link between two times of the scenario, in bytes of IP packets.
    pub fn capacity(
        &self,
        path: &str,
        direction: Direction,
        from: Instant,
        to: Instant,
    ) -> Result<DataSize, NetworkError> {
        Ok(self.scenario.capacity(self.path_index(path)?, direction, from, to))
    }

    /// Capacity of all paths together in one direction, in bytes of IP packets.
    #[must_use]
    pub fn total_capacity(&self, direction: Direction, from: Instant, to: Instant) -> DataSize {
        let paths = 0..self.scenario.paths.len();
        let each = paths.map(|path| self.scenario.capacity(path, direction, from, to).as_bytes());
        DataSize::from_bytes(each.sum())
    }

    /// The audit since the start or the last rewind.
    pub fn audit(&self) -> Result<Audit, NetworkError> {
        let report = self.report()?;
        let dropped = self.dropped.lock().expect("no holder panics");
        let ring_full = self.ring_drops(&dropped)?.saturating_sub(dropped.discounted);
        Ok(Audit::new(&report.account, &report.log, &self.scenario, ring_full))
    }

    /// What the devices dropped so far; of those that are down until they were taken down.
    fn ring_drops(&self, dropped: &Dropped) -> Result<u64, NetworkError> {
        let names = self.scenario.path_names();
        let entering = || system("entering a network namespace");
        let mut sum = self.run(Side::Client, || ring_drops(&names))?;
        for (i, server) in self.servers.iter().enumerate() {
            // A namespace's table lists all its devices, so each namespace counts once.
            if !self.servers[..i].iter().any(|known| known.is_same(server)) {
                sum += server.run(|| ring_drops(&names)).map_err(entering())?;
            }
        }
        for ((side, index), when_taken_down) in &dropped.down {
            let namespace = if *side == Side::Client { &self.client } else { &self.servers[*index] };
            let now = namespace.run(|| ring_drops(&names[*index..=*index])).map_err(entering())?;
            sum = sum.saturating_sub(now.saturating_sub(*when_taken_down));
        }
        Ok(sum)
    }

    /// What every link is now.
    pub fn state(&self) -> Result<State, NetworkError> {
        let now = self.ask(Order::Now)?;
        let link = |(lane, config): (usize, &LinkConfig)| {
            let change = config.changes.last().map_or(Change::default(), |&(_, change)| change);
            let stats = &now.account.links[lane];
            LinkState {
                path: self.scenario.paths[lane / 2].name.clone(),
                direction: direction_of(lane),
                rate_mbps: now.rates[lane].as_bps() as f64 / 1e6,
                loss: change.loss.unwrap_or_else(|| config.spec.loss.mean()),
                blocked: change.blocked,
                delivered_bytes: stats.delivered.bytes,
                queue_bytes: stats.queued.bytes,
            }
        };
        let links = now.account.configs.iter().enumerate().map(link).collect();
        Ok(State { seconds: now.account.elapsed.as_secs_f64(), links })
    }

    /// The time series of every link, ten samples a second, since the start or the last rewind.
    pub fn link_log(&self) -> Result<Vec<LinkSample>, NetworkError> {
        let report = self.report()?;
        Ok(report.log.series(&self.scenario, &report.account.configs))
    }

    /// The model's record of the probe datagrams so far.
    pub(crate) fn probes(&self) -> Result<Vec<Probe>, NetworkError> {
        Ok(self.report()?.probes)
    }

    fn report(&self) -> Result<ForwarderRecord, NetworkError> {
        self.ask(Order::Report)
    }

    fn ask<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Result<T, NetworkError> {
        let (answer, result): (Sender<T>, Receiver<T>) = channel();
        self.orders.send(order(answer)).map_err(|_| NetworkError::Stopped)?;
        self.wake();
        result.recv().map_err(|_| NetworkError::Stopped)
    }

    fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // Fails only when the counter is full; the thread is awake in this case.
        let _ = sys::write_two(self.wake.as_fd(), &one, &[]);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Stop);
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Input of the forwarding thread.
struct Starting {
    scenario: Scenario,
    options: ForwardOptions,
    tuns: Vec<Tun>,
    clock: Clock,
}

impl Starting {
    /// Starts the thread; returns when it is ready to forward.
    fn spawn(self, inbox: Receiver<Order>, woken: OwnedFd) -> io::Result<JoinHandle<()>> {
        let (ready, started) = channel();
        let body = move || {
            let made = Forwarder::new(self.scenario, self.options, self.tuns, self.clock, (inbox, woken));
            match made {
                Ok(forwarder) => {
                    let _ = ready.send(Ok(()));
                    forwarder.run();
                }
                Err(error) => _ = ready.send(Err(error)),
            }
        };
        let thread = std::thread::Builder::new().name("forwarder".to_owned()).spawn(body)?;
        started.recv().map_err(io::Error::other)??;
        Ok(thread)
    }
}

/// Creates and configures one interface in the namespace of the calling thread.
fn interface(name: &str, side: Side, path: usize, super_frames: bool) -> Result<Tun, NetworkError> {
    let tun = Tun::create(name, super_frames)?;
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/addr_gen_mode"), "1");
    let configure = || {
        let mut netlink = Netlink::open()?;
        netlink.set_link(name, true, Some((MTU, DEVICE_QUEUE)))?;
        netlink.add_address(name, IpAddr::V4(side.address(path)), 24)?;
        restore_addresses(&mut netlink, name, side, path)
    };
    configure().map_err(system(format!("configuring the TUN device {name}")))?;
    Ok(tun)
}

/// Sets IPv6 addresses and routes again, because the kernel removes them when an interface goes down. A
/// kernel without IPv6 has none.
fn restore_addresses(netlink: &mut Netlink, name: &str, side: Side, path: usize) -> io::Result<()> {
    if std::path::Path::new("/proc/sys/net/ipv6").exists() {
        ignore_existing(netlink.add_address(name, IpAddr::V6(side.address6(path)), 64))?;
    }
    // The server routes by destination; only the client chooses a path by its source address.
    if side == Side::Client {
        let table = 101 + path as u8;
        ignore_existing(netlink.route_by_source(name, IpAddr::V4(side.address(path)), table))?;
        if std::path::Path::new("/proc/sys/net/ipv6").exists() {
            ignore_existing(netlink.route_by_source(name, IpAddr::V6(side.address6(path)), table))?;
        }
    }
    Ok(())
}

fn ignore_existing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        other => other,
    }
}

/// Packets that the kernel dropped in the rings of the named devices, in the calling thread's namespace.
fn ring_drops(names: &[&str]) -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let interface = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        // Column 12 of 16: transmit drops.
        let drops = numbers.split_whitespace().nth(11)?.parse::<u64>().ok()?;
        names.contains(&name.trim()).then_some(drops)
    };
    table.lines().filter_map(interface).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulator_only_scenarios_are_refused_before_anything_is_created() {
        let scenario = Scenario::builtin("multi-hop").expect("it is shipped");
        let refused = Network::start(&scenario).map(|_| ()).unwrap_err();
        assert!(matches!(&refused, NetworkError::NeedsSimulator(_)), "{refused}");
        assert!(refused.to_string().contains("the shared link `street`"), "{refused}");
    }
}
