//! Finds the interfaces with a route to a server, and the source address that a socket on them must use.
//!
//! A path is bound to its interface (`SO_BINDTODEVICE`). For such a socket the kernel looks for a route out of that
//! interface, table by table in the order of the rules (`ip rule`). A rule for a source address matches only if the
//! socket is also bound to that address. If there is no route, IPv4 treats the server as a neighbour and sends ARP
//! requests for it on the link, which no host answers. So this module finds the source address first. Not here: when
//! the configuration is read ([`crate::follow`]). Sources: ip-rule(8), socket(7), `net/ipv4/route.c`.

use std::net::{IpAddr, SocketAddr};

use tributary_tun::{Interface, Network, Rule};

use crate::config::ServerAddress;

/// The routing table with the default routes, unless rules name other tables.
const MAIN_TABLE: u32 = 254;

/// What a route must lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// This address.
    Address(IpAddr),
    /// An address that only the resolver knows: the route must be a default route of this family.
    Anything { six: bool },
}

/// Source address of a socket that is bound to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The kernel chooses it.
    Kernel,
    /// The socket must be bound to this address, so that a rule matches.
    Bound(IpAddr),
}

impl Target {
    fn is_six(self) -> bool {
        match self {
            Self::Address(address) => address.is_ipv6(),
            Self::Anything { six } => six,
        }
    }

    fn is_in(self, (network, prefix): (IpAddr, u8)) -> bool {
        match self {
            Self::Address(address) => contains((network, prefix), address),
            Self::Anything { six } => prefix == 0 && network.is_ipv6() == six,
        }
    }
}

/// Whether the interface has a route to the server.
pub(crate) fn leads(network: &Network, interface: &Interface, server: &ServerAddress) -> bool {
    let targets = match server {
        ServerAddress::Address(address) => vec![Target::Address(address.ip())],
        ServerAddress::Name(..) => vec![Target::Anything { six: false }, Target::Anything { six: true }],
    };
    targets.into_iter().any(|target| source(network, interface, target).is_some())
}

/// The address to which a socket on this interface must be bound for this server. `None` when the kernel finds one
/// itself, or when there is no route.
pub(crate) fn source_address(interface: &str, server: SocketAddr) -> Option<IpAddr> {
    let network = Network::read().ok()?;
    let interface = network.interfaces.iter().find(|known| known.name == interface)?;
    match source(&network, interface, Target::Address(server.ip()))? {
        Source::Kernel => None,
        Source::Bound(address) => Some(address),
    }
}

/// Addresses of the interface that a connection to the server can come from.
pub(crate) fn usable(interface: &Interface, server: &ServerAddress) -> Vec<IpAddr> {
    let fits = |address: &IpAddr| match server {
        ServerAddress::Address(server) => {
            server.is_ipv6() == address.is_ipv6() && (!is_link_local(*address) || is_link_local(server.ip()))
        }
        // Link-local addresses are used only for servers with a scoped address, which is written with `%`.
        ServerAddress::Name(name, _) => name.contains('%') || !is_link_local(*address),
    };
    if !interface.up {
        return Vec::new();
    }
    interface.addresses.iter().copied().filter(fits).collect()
}

fn source(network: &Network, interface: &Interface, target: Target) -> Option<Source> {
    let own = || {
        interface.addresses.iter().copied().filter(|a| a.is_ipv6() == target.is_six() && !is_link_local(*a))
    };
    let leads = |table| {
        let mut routes = network.routes.iter();
        routes
            .any(|route| route.table == table && route.interface == interface.index && target.is_in(route.to))
    };
    if !interface.up || own().next().is_none() {
        return None;
    }
    let mut rules: Vec<&Rule> = network.rules.iter().filter(|rule| rule.six == target.is_six()).collect();
    rules.sort_by_key(|rule| rule.priority);
    // A kernel without rules has one table.
    if rules.is_empty() {
        return leads(MAIN_TABLE).then_some(Source::Kernel);
    }
    rules.retain(|rule| rule.out.as_ref().is_none_or(|out| *out == interface.name) && leads(rule.table));
    if rules.iter().any(|rule| rule.from.is_none()) {
        return Some(Source::Kernel);
    }
    let bound = |rule: &&Rule| own().find(|address| rule.from.is_some_and(|from| contains(from, *address)));
    rules.iter().find_map(bound).map(Source::Bound)
}

/// Whether an address is in a network of this prefix length.
fn contains((network, prefix): (IpAddr, u8), address: IpAddr) -> bool {
    let prefix = u32::from(prefix);
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let differs = network.to_bits() ^ address.to_bits();
            differs.checked_shr(32_u32.saturating_sub(prefix)).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let differs = network.to_bits() ^ address.to_bits();
            differs.checked_shr(128_u32.saturating_sub(prefix)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use tributary_tun::Route;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn interface(index: u32, name: &str, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|text| ip(text)).collect();
        Interface { index, name: name.to_owned(), up: true, loopback: false, addresses }
    }

    fn route(interface: u32, to: &str, prefix: u8, table: u32) -> Route {
        Route { to: (ip(to), prefix), table, interface }
    }

    fn rule(priority: u32, from: Option<&str>, table: u32) -> Rule {
        Rule { six: false, priority, from: from.map(|text| (ip(text), 32)), out: None, table }
    }

    fn server(text: &str) -> ServerAddress {
        text.parse().unwrap()
    }

    #[test]
    fn a_default_route_or_one_to_the_server_leads_there() {
        let (wlan, usb) = (interface(1, "wlan0", &["10.0.0.2"]), interface(2, "usb0", &["10.1.0.2"]));
        let routes = vec![route(1, "0.0.0.0", 0, 254), route(2, "10.1.0.0", 24, 254)];
        let network = Network { interfaces: vec![], routes, rules: vec![rule(32766, None, 254)] };
        for (name, by_wlan, by_usb) in [
            ("203.0.113.5:7000", true, false),
            ("10.1.0.9:7000", true, true),
            ("video.example:7000", true, false),
            ("[2001:db8::5]:7000", false, false),
        ] {
            assert_eq!(leads(&network, &wlan, &server(name)), by_wlan, "{name}");
            assert_eq!(leads(&network, &usb, &server(name)), by_usb, "{name}");
        }
        let down = Interface { up: false, ..wlan };
        assert!(!leads(&network, &down, &server("203.0.113.5:7000")));
        assert!(usable(&down, &server("203.0.113.5:7000")).is_empty());
    }

    #[test]
    fn a_rule_for_the_source_address_needs_a_socket_bound_to_it() {
        let usb = interface(2, "usb0", &["fe80::1", "10.1.0.2", "10.1.0.3"]);
        let routes = vec![route(1, "0.0.0.0", 0, 254), route(2, "0.0.0.0", 0, 102)];
        let rules = vec![rule(32766, None, 254), rule(1000, Some("10.1.0.3"), 102)];
        let network = Network { interfaces: vec![], routes, rules };
        let target = Target::Address(ip("203.0.113.5"));
        assert_eq!(source(&network, &usb, target), Some(Source::Bound(ip("10.1.0.3"))));
        let other = interface(2, "usb0", &["10.1.0.2"]);
        assert_eq!(source(&network, &other, target), None, "no rule matches its address");
        // If the main table has a route, too, no source address is needed.
        let routes = vec![route(2, "0.0.0.0", 0, 254), route(2, "0.0.0.0", 0, 102)];
        let network = Network { routes, ..network };
        assert_eq!(source(&network, &usb, target), Some(Source::Kernel));
    }

    #[test]
    fn networks_contain_their_addresses_at_every_prefix() {
        assert!(contains((ip("0.0.0.0"), 0), ip("255.255.255.255")));
        assert!(
            contains((ip("10.1.2.3"), 32), ip("10.1.2.3")) && !contains((ip("10.1.2.3"), 32), ip("10.1.2.2"))
        );
        assert!(
            contains((ip("10.1.2.0"), 23), ip("10.1.3.9")) && !contains((ip("10.1.2.0"), 23), ip("10.1.4.9"))
        );
        assert!(contains((ip("::"), 0), ip("ff::")) && contains((ip("2001:db8::"), 32), ip("2001:db8:1::")));
        assert!(!contains((ip("::"), 0), ip("10.0.0.1")) && !contains((ip("::1"), 128), ip("::2")));
    }
}
