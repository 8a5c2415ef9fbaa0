//! Routes into a tunnel's TUN device. They disappear with the device, however the program ends.
//!
//! A default route becomes its two halves, `0.0.0.0/1` and `128.0.0.0/1`: they win over the host's own default route
//! without replacing it, and routes to smaller networks win over them (openvpn(8), `--redirect-gateway def1`).
//!
//! Not here: how the tunnel's own packets are kept out of it (`outer`).

use crate::config::{Inner, Prefix};
use crate::error::NodeError;
use std::io;
use std::net::IpAddr;
use tributary_tun::{Netlink, Network};

/// The kernel's table of ordinary routes.
const MAIN_TABLE: u32 = 254;

/// Whether the network contains the address.
pub(super) fn contains((network, bits): (IpAddr, u8), address: IpAddr) -> bool {
    Prefix { address: network, bits }.contains(address)
}

/// The routes that lead what is meant for `networks` into the tunnel: default routes in halves, none twice.
pub(super) fn expand(networks: &[Prefix]) -> Vec<Prefix> {
    let mut routes: Vec<Prefix> = Vec::new();
    for network in networks.iter().map(Prefix::network) {
        let halves = match (network.address, network.bits) {
            (IpAddr::V4(_), 0) => vec![[0, 0, 0, 0].into(), [128, 0, 0, 0].into()],
            (IpAddr::V6(_), 0) => vec![IpAddr::from([0_u16; 8]), [0x8000, 0, 0, 0, 0, 0, 0, 0].into()],
            _ => Vec::new(),
        };
        let halves: Vec<Prefix> = halves.into_iter().map(|address| Prefix { address, bits: 1 }).collect();
        for route in if halves.is_empty() { vec![network] } else { halves } {
            if !routes.contains(&route) {
                routes.push(route);
            }
        }
    }
    routes
}

/// Every network that the TUN device leads to.
pub(super) fn networks(inner: &Inner) -> Vec<Prefix> {
    inner.address.iter().map(Prefix::network).chain(expand(&inner.route)).collect()
}

/// Adds a route into the device `tun`.
///
/// # Errors
/// [`NodeError::RouteExists`] names the interface of a route to the same network.
pub(super) fn add(netlink: &mut Netlink, tun: &str, route: Prefix) -> Result<(), NodeError> {
    netlink.add_route(tun, (route.address, route.bits), None).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => {
            NodeError::RouteExists { route: route.to_string(), interface: interface_of(route) }
        }
        _ => NodeError::Interface { what: format!("{tun}, route {route}"), source },
    })
}

/// The interface of the ordinary route to this network.
fn interface_of(route: Prefix) -> String {
    let name = || {
        let network = Network::read().ok()?;
        let same = |known: &&tributary_tun::Route| {
            known.table == MAIN_TABLE && known.to == (route.address, route.bits)
        };
        let index = network.routes.iter().find(same)?.interface;
        Some(network.interfaces.into_iter().find(|known| known.index == index)?.name)
    };
    name().unwrap_or_else(|| "another interface".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_route_becomes_its_halves_and_nothing_is_there_twice() {
        let prefixes = |texts: &[&str]| -> Vec<Prefix> {
            texts.iter().map(|text| Prefix::try_from((*text).to_owned()).expect("a prefix")).collect()
        };
        let expanded =
            expand(&prefixes(&["0.0.0.0/0", "128.0.0.0/1", "10.98.0.7/24", "10.98.0.0/24", "::/0"]));
        assert_eq!(expanded, prefixes(&["0.0.0.0/1", "128.0.0.0/1", "10.98.0.0/24", "::/1", "8000::/1"]));
    }
}
