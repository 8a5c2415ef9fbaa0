//! A COTAG tunnel for tests and experiments: the five hosts of [`RelayNetwork`] with running gateway, access
//! points and device, keys and addresses. Applications on the server and the device can use it.
//!
//! Call [`tributary_emu::isolate`] first.

use crate::process::write_secret;
use core::time::Duration;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::process::{Child, Command};
use std::time::Instant;
use tempfile::TempDir;
use thiserror::Error;
use tributary_emu::{Audit, Host, NetworkError, RelayNetwork};
use tributary_link::Scenario;
use tributary_net::{Key, KeyError};
use tributary_nodes::{
    AccessPointConfig, Coding, DeviceConfig, GatewayConfig, Inner, KnownPoint, NeighbourKey, NodeError,
    Prefix, ReachedPoint, Role, Running, Status,
};

/// Ports of the gateway and of the access points.
const GATEWAY_PORT: u16 = 7100;
const POINT_PORT: u16 = 7200;
/// Time for all hops to establish a session, enough for several attempts on a busy machine.
const ESTABLISH: Duration = Duration::from_secs(20);

/// Why a tunnel cannot be set up.
#[derive(Debug, Error)]
pub enum TunnelError {
    /// The hosts cannot be created.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A node failed.
    #[error("{host}: {source}")]
    Node {
        /// The host.
        host: String,
        /// The node's error.
        source: NodeError,
    },
    /// A key cannot be made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The keys cannot be written.
    #[error("writing the tunnel's keys: {0}")]
    Files(#[from] io::Error),
    /// Not all hops have a session in time.
    #[error("no session on every hop after {ESTABLISH:?}: {0}")]
    NoSession(String),
    /// A command could not be started.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// The program.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
}

/// Settings of the nodes on the hosts of a [`RelayNetwork`].
#[derive(Debug)]
pub struct NodeConfigs {
    keys: TempDir,
    coding: Coding,
    /// Access points that the gateway knows.
    known: usize,
    /// Addresses at which the device reaches the access points that there are.
    reached: Vec<SocketAddr>,
}

/// A running tunnel. Dropping it stops the nodes and removes the hosts.
#[derive(Debug)]
pub struct Tunnel {
    gateway: Option<Running>,
    points: Vec<Option<Running>>,
    device: Option<Running>,
    configs: NodeConfigs,
    network: RelayNetwork,
}

impl NodeConfigs {
    /// Settings for a network with this number of access points, with new keys. The gateway knows `known` access points, at
    /// least as many.
    ///
    /// # Errors
    /// [`TunnelError`]: the keys cannot be made or written.
    pub fn new(points: usize, known: usize, coding: &Coding) -> Result<Self, TunnelError> {
        let keys = tempfile::tempdir()?;
        let reached = (0..points).map(|point| (RelayNetwork::radio(point).0, POINT_PORT).into()).collect();
        let names = (0..known).map(Self::up).chain((0..points).map(Self::down));
        for name in names {
            let path = keys.path().join(name);
            write_secret(&path, &Key::generate()?.to_line())?;
        }
        Ok(Self { keys, coding: coding.clone(), known, reached })
    }

    fn up(point: usize) -> String {
        format!("gateway-{}", point + 1)
    }

    fn down(point: usize) -> String {
        format!("device-{}", point + 1)
    }

    fn shared(&self, name: &str) -> NeighbourKey {
        NeighbourKey::Shared(self.keys.path().join(name))
    }

    /// The TUN device of `host`. It has no IPv6 if packets of 1280 bytes do not fit (RFC 8200 §5).
    fn inner(&self, host: u8, mut route: Vec<Prefix>) -> Inner {
        let (v4, v6) = (RelayNetwork::tunnel(host).into(), RelayNetwork::tunnel6(host.into()).into());
        let mut address = vec![Prefix { address: v4, bits: 24 }, Prefix { address: v6, bits: 64 }];
        if self.coding.inner_mtu() < 1280 {
            address.retain(|prefix| prefix.address.is_ipv4());
            route.retain(|prefix| prefix.address.is_ipv4());
        }
        Inner { tun: "cotag0".to_owned(), address, route }
    }

    /// The gateway's.
    #[must_use]
    pub fn gateway(&self) -> GatewayConfig {
        let point =
            |point| KnownPoint { name: format!("ap{}", point + 1), key: self.shared(&Self::up(point)) };
        GatewayConfig {
            listen: ([0, 0, 0, 0], GATEWAY_PORT).into(),
            access_point: (0..self.known).map(point).collect(),
            inner: self.inner(1, Vec::new()),
            allowed: Vec::new(),
            key: None,
            coding: self.coding.clone(),
        }
    }

    /// An access point's.
    #[must_use]
    pub fn point(&self, point: usize) -> AccessPointConfig {
        AccessPointConfig {
            gateway: (RelayNetwork::backhaul(point, 1), GATEWAY_PORT).into(),
            gateway_key: self.shared(&Self::up(point)),
            listen: ([0, 0, 0, 0], POINT_PORT).into(),
            device_key: self.shared(&Self::down(point)),
            number: point as u8 + 1,
            allowed: Vec::new(),
            key: None,
            coding: self.coding.clone(),
        }
    }

    /// The device's.
    #[must_use]
    pub fn device(&self) -> DeviceConfig {
        let point = |(point, address): (usize, &SocketAddr)| ReachedPoint {
            name: format!("ap{}", point + 1),
            address: *address,
            key: self.shared(&Self::down(point)),
            local: Some(RelayNetwork::radio(point).1.into()),
        };
        let server = |address| Prefix { address, bits: if address.is_ipv4() { 32 } else { 128 } };
        let route = vec![server(RelayNetwork::SERVER.into()), server(RelayNetwork::SERVER6.into())];
        DeviceConfig {
            access_point: self.reached.iter().enumerate().map(point).collect(),
            inner: self.inner(2, route),
            key: None,
            coding: self.coding.clone(),
        }
    }
}

impl Tunnel {
    /// Starts all nodes and waits until every hop has a session.
    ///
    /// # Errors
    /// [`TunnelError`].
    pub fn start(network: RelayNetwork, coding: &Coding) -> Result<Self, TunnelError> {
        Self::start_with_detours(network, coding, &[])
    }

    /// As [`start`](Self::start); the device sends packets for some access points to other addresses, for example through an
    /// attacker.
    ///
    /// # Errors
    /// [`TunnelError`].
    ///
    /// # Panics
    /// The network has no such access point.
    pub fn start_with_detours(
        network: RelayNetwork,
        coding: &Coding,
        detours: &[(usize, SocketAddr)],
    ) -> Result<Self, TunnelError> {
        let points = network.points();
        let mut configs = NodeConfigs::new(points, points, coding)?;
        for (point, detour) in detours {
            configs.reached[*point] = *detour;
        }
        let points = (0..points).map(|_| None).collect();
        let mut tunnel = Self { gateway: None, points, device: None, configs, network };
        tunnel.start_node(Host::Gateway)?;
        (0..tunnel.points.len()).try_for_each(|point| tunnel.start_node(Host::AccessPoint(point)))?;
        tunnel.start_node(Host::Device)?;
        tunnel.wait_for_sessions()?;
        Ok(tunnel)
    }

    /// Starts a node, or restarts it.
    ///
    /// # Errors
    /// [`TunnelError`].
    ///
    /// # Panics
    /// `host` has no node: it is the server, or no access point of the network.
    pub fn start_node(&mut self, host: Host) -> Result<(), TunnelError> {
        self.stop_node(host);
        let failed = |source| TunnelError::Node { host: format!("{host:?}"), source };
        let started = match host {
            Host::Gateway => self.network.run(host, || self.configs.gateway().start())?,
            Host::AccessPoint(point) => self.network.run(host, || self.configs.point(point).start())?,
            Host::Device => self.network.run(host, || self.configs.device().start())?,
            Host::Server => panic!("the server runs no node"),
        };
        let started = started.map_err(failed)?;
        *self.slot(host) = Some(started);
        Ok(())
    }

    /// Stops a node, like a host that fails.
    ///
    /// # Panics
    /// As [`start_node`](Self::start_node).
    pub fn stop_node(&mut self, host: Host) {
        *self.slot(host) = None;
    }

    fn slot(&mut self, host: Host) -> &mut Option<Running> {
        match host {
            Host::Gateway => &mut self.gateway,
            Host::AccessPoint(point) => &mut self.points[point],
            Host::Device => &mut self.device,
            Host::Server => panic!("the server runs no node"),
        }
    }

    /// Waits until every hop between running nodes has a session.
    ///
    /// # Errors
    /// [`TunnelError::NoSession`].
    pub fn wait_for_sessions(&self) -> Result<(), TunnelError> {
        let end = Instant::now() + ESTABLISH;
        loop {
            let statuses = self.statuses()?;
            // A hop to a node that does not run stays down.
            let expected = self.points.iter().flatten().count();
            let ups = |status: &Status| status.links.iter().filter(|link| link.up).count();
            let is_up =
                |status: &Status| ups(status) >= if status.role == "access-point" { 2 } else { expected };
            if statuses.iter().all(is_up) {
                return Ok(());
            }
            if Instant::now() > end {
                let lines: Vec<String> = statuses.iter().map(|status| status.line(status, 1.0)).collect();
                return Err(TunnelError::NoSession(lines.join("; ")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Snapshots of the running nodes: gateway, access points, device.
    ///
    /// # Errors
    /// A node has stopped by itself.
    pub fn statuses(&self) -> Result<Vec<Status>, TunnelError> {
        let nodes = self.gateway.iter().chain(self.points.iter().flatten()).chain(&self.device);
        let failed = |source| TunnelError::Node { host: "a node".to_owned(), source };
        nodes.map(|node| node.status().map_err(failed)).collect()
    }

    /// The gateway, if it runs.
    #[must_use]
    pub fn gateway(&self) -> Option<&Running> {
        self.gateway.as_ref()
    }

    /// The device, if it runs.
    #[must_use]
    pub fn device(&self) -> Option<&Running> {
        self.device.as_ref()
    }

    /// The hosts.
    #[must_use]
    pub fn network(&self) -> &RelayNetwork {
        &self.network
    }

    /// A command on a host, with the others' addresses in its environment: `TRIBUTARY_SERVER`,
    /// `TRIBUTARY_SERVER6`, `TRIBUTARY_DEVICE`, `TRIBUTARY_DEVICE6`.
    #[must_use]
    pub fn command(&self, host: Host, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.network.command(host, program);
        command.env("TRIBUTARY_SERVER", RelayNetwork::SERVER.to_string());
        command.env("TRIBUTARY_SERVER6", RelayNetwork::SERVER6.to_string());
        command.env("TRIBUTARY_DEVICE", RelayNetwork::tunnel(2).to_string());
        command.env("TRIBUTARY_DEVICE6", RelayNetwork::tunnel6(2).to_string());
        command
    }
}

/// Result of a command in a tunnel.
#[derive(Debug)]
pub struct TunnelRun {
    /// The device command's exit code; 128 + n after signal n.
    pub code: i32,
    /// The emulator's audit of the radios.
    pub audit: Audit,
    /// Status of the nodes at the end: gateway, access points, device.
    pub nodes: Vec<Status>,
}

/// Runs `client` on the device, and meanwhile the shell command `server` on the server.
///
/// # Errors
/// [`TunnelError`].
///
/// # Panics
/// `client` is empty.
pub fn run_command(
    scenario: &Scenario,
    coding: &Coding,
    client: &[OsString],
    server: Option<&str>,
) -> Result<TunnelRun, TunnelError> {
    let tunnel = Tunnel::start(RelayNetwork::start(scenario)?, coding)?;
    let start = |mut command: Command| {
        let program = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Ending).map_err(|source| TunnelError::Start { program, source })
    };
    let server = server.map(|line| {
        let mut command = tunnel.command(Host::Server, "sh");
        command.args(["-c", line]);
        start(command)
    });
    let server = server.transpose()?;
    let (program, arguments) = client.split_first().expect("a command was given");
    let mut command = tunnel.command(Host::Device, program);
    command.args(arguments);
    let mut child = start(command)?;
    let status = child.0.wait()?;
    drop(server);
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    let code = status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0));
    let audit = tunnel.network.audit()?.expect("the radios are a scenario's");
    Ok(TunnelRun { code, audit, nodes: tunnel.statuses()? })
}

/// A child process that is killed when dropped.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // Both fail if it has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
