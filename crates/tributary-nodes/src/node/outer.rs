//! Keeps a tunnel's own packets out of the tunnel.
//!
//! An access point whose address is in a network that is routed through the tunnel, as every address is by a default
//! route, would be reached through the tunnel itself: a loop in which nothing arrives. The socket of such a hop is bound to the
//! interface that leads to the access point without the tunnel. This leaves no route or rule behind, however the
//! program ends. When the hop is silent, another interface is looked for each second.
//!
//! Not here: routes through the tunnel (`routes`).

use super::routes;
use crate::config::{Inner, Prefix};
use crate::error::NodeError;
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use tributary_tun::{Network, Route, Rule, UdpSocket};
use tributary_types::Instant;

/// Time between two searches for an interface.
const SEARCH: Duration = Duration::from_secs(1);
/// The loopback interface's index. Nothing leaves the host over it.
const LOOPBACK: u32 = 1;

/// A hop whose other end is in a network that is routed through the tunnel.
struct Guarded {
    /// Index of the peer.
    peer: usize,
    socket: Rc<UdpSocket>,
    point: IpAddr,
    local: Option<IpAddr>,
    /// Index of the interface that the socket is bound to.
    interface: u32,
}

/// The sockets that are kept out of the tunnel.
pub(super) struct Outer {
    tun: String,
    /// Networks that are routed into the tunnel.
    tunnel: Vec<Prefix>,
    guarded: Vec<Guarded>,
    searched: Instant,
}

impl Outer {
    /// For a tunnel with this TUN device.
    pub(super) fn new(inner: &Inner) -> Self {
        let (tun, tunnel) = (inner.tun.clone(), routes::networks(inner));
        Self { tun, tunnel, guarded: Vec::new(), searched: Instant::ZERO }
    }

    /// Binds the socket of peer number `peer` if its other end is in one of the tunnel's networks.
    ///
    /// # Errors
    /// [`NodeError`] if the network cannot be read or the socket not be bound.
    pub(super) fn guard(
        &mut self,
        network: &Network,
        (peer, socket): (usize, Rc<UdpSocket>),
        (remote, local): (SocketAddr, Option<IpAddr>),
    ) -> Result<(), NodeError> {
        let point = remote.ip();
        // Packets to this host itself never leave it.
        let is_here = network.interfaces.iter().any(|interface| interface.addresses.contains(&point));
        if is_here || !self.tunnel.iter().any(|prefix| prefix.contains(point)) {
            return Ok(());
        }
        let interface = way(network, &self.tun, point, local);
        let mut guarded = Guarded { peer, socket, point, local, interface: 0 };
        guarded.bind(interface.unwrap_or(LOOPBACK)).map_err(|source| NodeError::System {
            doing: "binding a socket to the interface towards its access point",
            source,
        })?;
        self.guarded.push(guarded);
        Ok(())
    }

    /// Refuses a setting of the kernel that drops the access points' answers: the strict reverse path filter, when the
    /// way back to the sender is the tunnel.
    ///
    /// # Errors
    /// [`NodeError::ReversePathFilter`].
    pub(super) fn check_filters(&self, network: &Network) -> Result<(), NodeError> {
        self.guarded.iter().try_for_each(|guarded| guarded.check_filter(network, &self.tunnel))
    }

    /// Whether sockets have to be moved to other interfaces, which needs CAP_NET_RAW.
    pub(super) fn is_needed(&self) -> bool {
        !self.guarded.is_empty()
    }

    /// Looks for another interface for hops that are silent.
    pub(super) fn follow(&mut self, now: Instant, is_up: impl Fn(usize) -> bool) {
        if now.saturating_since(self.searched) < SEARCH || self.guarded.iter().all(|hop| is_up(hop.peer)) {
            return;
        }
        self.searched = now;
        let network = match Network::read() {
            Ok(network) => network,
            Err(error) => return tracing::debug!("reading the network's configuration: {error}"),
        };
        for guarded in self.guarded.iter_mut().filter(|hop| !is_up(hop.peer)) {
            let interface = way(&network, &self.tun, guarded.point, guarded.local).unwrap_or(LOOPBACK);
            if interface == guarded.interface {
                continue;
            }
            let known = network.interfaces.iter().find(|known| known.index == interface);
            let name = known.map_or("none", |known| known.name.as_str());
            match guarded.bind(interface) {
                Ok(()) => {
                    tracing::info!("{} is reached through the interface {name} now", guarded.point);
                    if let Err(error) = guarded.check_filter(&network, &self.tunnel) {
                        tracing::warn!("{error}");
                    }
                }
                Err(error) => tracing::warn!("{} cannot be reached through {name}: {error}", guarded.point),
            }
        }
    }

    /// When [`follow`](Self::follow) has something to do.
    pub(super) fn poll_timeout(&self, is_up: impl Fn(usize) -> bool) -> Option<Instant> {
        self.guarded.iter().any(|hop| !is_up(hop.peer)).then_some(self.searched + SEARCH)
    }
}

impl Guarded {
    fn check_filter(&self, network: &Network, tunnel: &[Prefix]) -> Result<(), NodeError> {
        if !self.point.is_ipv4() || self.interface == LOOPBACK {
            return Ok(());
        }
        let covers = |prefix: &&Prefix| prefix.contains(self.point);
        let inner = tunnel.iter().filter(covers).map(|prefix| prefix.bits).max();
        let leads =
            |route: &&Route| route.interface == self.interface && routes::contains(route.to, self.point);
        let outer = network.routes.iter().filter(leads).map(|route| route.to.1).max();
        let interface = network.interfaces.iter().find(|known| known.index == self.interface);
        match interface.filter(|interface| outer <= inner && is_strict(&interface.name)) {
            Some(interface) => {
                let interface = interface.name.clone();
                Err(NodeError::ReversePathFilter { interface, address: self.point })
            }
            None => Ok(()),
        }
    }

    fn bind(&mut self, interface: u32) -> std::io::Result<()> {
        self.socket.bind_to_interface(interface)?;
        self.interface = interface;
        Ok(())
    }
}

/// Whether the interface drops packets from addresses that it does not lead to (ip-sysctl: the larger value counts).
fn is_strict(interface: &str) -> bool {
    let value = |name: &str| -> u8 {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"));
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    value("all").max(value(interface)) == 1
}

/// The interface through which `to` is reached without the device `tun`: the most specific route of the first table that
/// has one, through the interface with the address `local` if it has any. Of equal routes the kernel lists the one
/// with the lowest metric first.
fn way(network: &Network, tun: &str, to: IpAddr, local: Option<IpAddr>) -> Option<u32> {
    let usable = |index: u32| {
        let mut known = network.interfaces.iter();
        known.any(|known| known.index == index && known.up && !known.loopback && known.name != tun)
    };
    let has_local = |index: u32| {
        let mut known = network.interfaces.iter();
        known.any(|known| known.index == index && local.is_some_and(|local| known.addresses.contains(&local)))
    };
    let applies = |rule: &&Rule| {
        let from = rule.from.is_none_or(|from| local.is_some_and(|local| routes::contains(from, local)));
        rule.six == to.is_ipv6() && rule.out.is_none() && from
    };
    let mut rules: Vec<&Rule> = network.rules.iter().filter(applies).collect();
    rules.sort_by_key(|rule| rule.priority);
    let in_table = |table: u32, wanted: &dyn Fn(u32) -> bool| {
        let fits = |route: &&Route| {
            route.table == table
                && routes::contains(route.to, to)
                && usable(route.interface)
                && wanted(route.interface)
        };
        let mut best: Option<&Route> = None;
        for route in network.routes.iter().filter(fits) {
            if best.is_none_or(|best| route.to.1 > best.to.1) {
                best = Some(route);
            }
        }
        best.map(|route| route.interface)
    };
    let first = |wanted: &dyn Fn(u32) -> bool| rules.iter().find_map(|rule| in_table(rule.table, wanted));
    first(&has_local).or_else(|| first(&|_| true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_tun::Interface;

    const MAIN: u32 = 254;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn network(routes: &[(u32, &str, u8, u32)]) -> Network {
        let interface = |index: u32, name: &str, address: &str| Interface {
            index,
            name: name.to_owned(),
            up: true,
            loopback: index == LOOPBACK,
            addresses: vec![ip(address)],
        };
        let rule = |priority, from, table| Rule { six: false, priority, from, out: None, table };
        Network {
            interfaces: vec![
                interface(1, "lo", "127.0.0.1"),
                interface(2, "wlan0", "198.51.100.9"),
                interface(3, "eth0", "203.0.113.9"),
                interface(4, "cotag0", "10.99.0.2"),
            ],
            routes: routes
                .iter()
                .map(|(interface, to, bits, table)| Route {
                    to: (ip(to), *bits),
                    table: *table,
                    interface: *interface,
                })
                .collect(),
            rules: vec![rule(32766, None, MAIN), rule(1000, Some((ip("203.0.113.9"), 32)), 100)],
        }
    }

    #[test]
    fn the_way_around_the_tunnel_is_the_one_that_the_kernel_takes_without_it() {
        let to = ip("192.0.2.1");
        let tunnel = (4, "0.0.0.0", 1, MAIN);
        let defaults = [(2, "0.0.0.0", 0, MAIN), (3, "0.0.0.0", 0, MAIN), tunnel];
        assert_eq!(way(&network(&defaults), "cotag0", to, None), Some(2), "the first of equal ones");
        let specific = [(2, "0.0.0.0", 0, MAIN), (3, "192.0.2.0", 24, MAIN), tunnel];
        assert_eq!(way(&network(&specific), "cotag0", to, None), Some(3));
        assert_eq!(way(&network(&[tunnel]), "cotag0", to, None), None);
    }

    #[test]
    fn a_local_address_selects_the_interface_and_the_table() {
        let to = ip("192.0.2.1");
        let both = [(2, "0.0.0.0", 0, MAIN), (3, "0.0.0.0", 0, 100)];
        assert_eq!(way(&network(&both), "cotag0", to, None), Some(2));
        assert_eq!(way(&network(&both), "cotag0", to, Some(ip("203.0.113.9"))), Some(3));
        assert_eq!(way(&network(&both), "cotag0", to, Some(ip("198.51.100.9"))), Some(2));
        let other = [(2, "0.0.0.0", 0, MAIN)];
        assert_eq!(
            way(&network(&other), "cotag0", to, Some(ip("203.0.113.9"))),
            Some(2),
            "as without tunnel"
        );
    }

    #[test]
    fn an_interface_that_is_down_is_no_way() {
        let mut network = network(&[(2, "0.0.0.0", 0, MAIN), (3, "0.0.0.0", 0, MAIN)]);
        network.interfaces[1].up = false;
        assert_eq!(way(&network, "cotag0", ip("192.0.2.1"), None), Some(3));
    }
}
