//! Five hosts: a server, a gateway, access points and a device. Server, gateway and access points are
//! connected by veth pairs. The links between access points and device are a scenario's paths, or veth pairs
//! too.
//!
//! Creates hosts, links, addresses and routes. Not here: the programs on the gateway, the access points and
//! the device. Without them the server and the device cannot reach each other.

use crate::audit::Audit;
use crate::forward::ForwardOptions;
use crate::namespace::Namespace;
use crate::network::{Network, NetworkError, Side, system};
use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::process::Command;
use tributary_link::Scenario;
use tributary_tun::Netlink;

/// A host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The server of the applications.
    Server,
    /// The host between the server and the access points.
    Gateway,
    /// The access point with this index, from zero.
    AccessPoint(usize),
    /// The device, which receives from all access points.
    Device,
}

/// The running hosts. Dropping it removes them.
#[derive(Debug)]
pub struct RelayNetwork {
    server: Namespace,
    gateway: Namespace,
    points: Vec<Namespace>,
    device: Namespace,
    /// The scenario's links; `None` with veth pairs.
    radios: Option<Network>,
}

impl RelayNetwork {
    /// Starts a network with one access point per path of the scenario; the path is its radio. Call
    /// [`crate::isolate`] first.
    ///
    /// # Errors
    /// [`NetworkError`] when the scenario is invalid or the system refuses something.
    pub fn start(scenario: &Scenario) -> Result<Self, NetworkError> {
        Network::check(scenario)?;
        let mut network = Self::hosts(scenario.paths.len())?;
        let (device, points) = (network.device.clone(), network.points.clone());
        let options = ForwardOptions::default();
        network.radios = Some(Network::start_between(scenario, options, device, points)?);
        Ok(network)
    }

    /// Starts a network with `points` access points whose radios are veth pairs, to measure the nodes alone.
    ///
    /// # Errors
    /// [`NetworkError`] when the system refuses something.
    pub fn bare(points: usize) -> Result<Self, NetworkError> {
        let network = Self::hosts(points)?;
        for (i, point) in network.points.iter().enumerate() {
            let ends = [(point, Side::Server), (&network.device, Side::Client)];
            let ends = ends.map(|(namespace, side)| (namespace, side.address(i), side.address6(i)));
            join(&format!("radio{}", i + 1), &ends)?;
        }
        Ok(network)
    }

    fn hosts(points: usize) -> Result<Self, NetworkError> {
        let namespace = || Namespace::create().map_err(system("creating a network namespace"));
        let (server, gateway, device) = (namespace()?, namespace()?, namespace()?);
        let points = (0..points).map(|_| namespace()).collect::<Result<Vec<_>, _>>()?;
        join("core", &[(&server, Self::SERVER, Self::SERVER6), (&gateway, Self::ROUTER, Self::ROUTER6)])?;
        for (i, point) in points.iter().enumerate() {
            let host = |host: u8| (Self::backhaul(i, host), Self::backhaul6(i, host.into()));
            let ((a, a6), (b, b6)) = (host(1), host(2));
            join(&format!("point{}", i + 1), &[(&gateway, a, a6), (point, b, b6)])?;
        }
        let routes = || -> io::Result<()> {
            let mut netlink = Netlink::open()?;
            netlink.add_route("core", (Self::tunnel(0).into(), 24), Some(Self::ROUTER.into()))?;
            netlink.add_route("core", (Self::tunnel6(0).into(), 64), Some(Self::ROUTER6.into()))
        };
        let inside = || system("entering a network namespace");
        server.run(routes).map_err(inside())?.map_err(system("adding the server's route to the device"))?;
        let forward = || -> io::Result<()> {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
            std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")
        };
        gateway.run(forward).map_err(inside())?.map_err(system("letting the gateway forward packets"))?;
        Ok(Self { server, gateway, points, device, radios: None })
    }

    /// The server's address.
    pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
    /// The server's IPv6 address.
    pub const SERVER6: Ipv6Addr = Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 1);
    const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
    const ROUTER6: Ipv6Addr = Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 2);

    /// An address between the gateway (host 1) and access point `point` (host 2).
    #[must_use]
    pub fn backhaul(point: usize, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 78, point as u8 + 1, host)
    }

    /// The same for IPv6.
    #[must_use]
    pub fn backhaul6(point: usize, host: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd78, point as u16 + 1, 0, 0, 0, 0, 0, host)
    }

    /// An address inside the tunnel between gateway (host 1) and device (host 2). The server has a route to
    /// this /24 network through the gateway.
    #[must_use]
    pub fn tunnel(host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 79, 0, host)
    }

    /// The same for IPv6, in a /64 network.
    #[must_use]
    pub fn tunnel6(host: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd79, 0, 0, 0, 0, 0, 0, host)
    }

    /// The address of access point `point` on its radio, or the device's address there.
    #[must_use]
    pub fn radio(point: usize) -> (Ipv4Addr, Ipv4Addr) {
        (Side::Server.address(point), Side::Client.address(point))
    }

    /// Number of access points.
    #[must_use]
    pub fn points(&self) -> usize {
        self.points.len()
    }

    fn namespace(&self, host: Host) -> &Namespace {
        match host {
            Host::Server => &self.server,
            Host::Gateway => &self.gateway,
            Host::AccessPoint(index) => &self.points[index],
            Host::Device => &self.device,
        }
    }

    /// A command that will run on a host.
    ///
    /// # Panics
    /// The access point does not exist.
    #[must_use]
    pub fn command(&self, host: Host, program: impl AsRef<OsStr>) -> Command {
        self.namespace(host).command(program)
    }

    /// Runs `work` on a new thread on a host and waits for it. Sockets and threads created there stay there.
    ///
    /// # Errors
    /// The system refuses the thread or the namespace.
    ///
    /// # Panics
    /// The access point does not exist.
    pub fn run<T: Send>(&self, host: Host, work: impl FnOnce() -> T + Send) -> Result<T, NetworkError> {
        self.namespace(host).run(work).map_err(system("entering a network namespace"))
    }

    /// The radios, if they are a scenario's paths; their side `Client` is the device.
    #[must_use]
    pub fn radios(&self) -> Option<&Network> {
        self.radios.as_ref()
    }

    /// The audit of the radios; `None` with veth pairs.
    ///
    /// # Errors
    /// The forwarding thread has ended.
    pub fn audit(&self) -> Result<Option<Audit>, NetworkError> {
        self.radios.as_ref().map(Network::audit).transpose()
    }
}

/// Connects two hosts by a veth pair with these addresses, in /24 and /64 networks.
fn join(name: &str, ends: &[(&Namespace, Ipv4Addr, Ipv6Addr); 2]) -> Result<(), NetworkError> {
    let failed = || system(format!("creating the veth pair {name}"));
    let far = ends[1].0.as_fd();
    ends[0].0.run(|| Netlink::open()?.add_veth(name, far)).map_err(failed())?.map_err(failed())?;
    for (namespace, v4, v6) in ends {
        let configure = || -> io::Result<()> {
            // A router sends neighbour solicitations only from a link-local address (RFC 4861 §7.2.2), which
            // these namespaces do not create by themselves. Without IPv6 the file does not exist.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/addr_gen_mode"), "0");
            let mut netlink = Netlink::open()?;
            netlink.set_link(name, true, None)?;
            netlink.add_address(name, IpAddr::V4(*v4), 24)?;
            netlink.add_address(name, IpAddr::V6(*v6), 64)
        };
        namespace.run(configure).map_err(failed())?.map_err(failed())?;
    }
    Ok(())
}
