//! Parses rtnetlink messages about interfaces, addresses, routes and rules: bytes in, values out.
//!
//! Not here: sockets. A message that is too short, or of a kind that is not needed, is skipped: a later kernel may
//! send more than this module reads. Sources: netlink(7), rtnetlink(7),
//! `linux/{if_link,if_addr,rtnetlink,fib_rules}.h`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const HEADER: usize = 16;
const NLM_F_DUMP_INTR: u16 = 0x10;

const IFLA_IFNAME: u16 = 3;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// Addresses that packets may not use yet, or never: duplicate address detection is running, or has failed.
const IFA_UNUSABLE: u32 = 0x40 | 0x08;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
/// Next hop that is dead or without carrier, and an entry of a route cache.
const ROUTE_UNUSABLE: u32 = 0x1 | 0x10 | 0x200;
const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
const FRA_OIFNAME: u16 = 17;
/// Selectors that a socket of this program may not match: destination, incoming interface, mark, tunnel, L3 master
/// device, user, protocol, ports, and the goto of another action.
const FRA_OTHER_SELECTORS: [u16; 9] = [1, 3, 4, 10, 12, 20, 22, 23, 24];
const FRA_L3MDEV: u16 = 19;
const FR_ACT_TO_TABLE: u8 = 1;
const FIB_RULE_INVERT: u32 = 2;
/// The kernel's table of its own addresses.
const LOCAL_TABLE: u32 = 255;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number, which a renamed interface keeps.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// It is switched on and has a carrier.
    pub up: bool,
    /// It leads to this host only.
    pub loopback: bool,
    /// Addresses that packets may use now.
    pub addresses: Vec<IpAddr>,
}

/// A route out of an interface. One with several next hops is listed once for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination, an address and the length of its prefix; a default route has length zero.
    pub to: (IpAddr, u8),
    /// The routing table.
    pub table: u32,
    /// Index of the interface.
    pub interface: u32,
}

/// A rule that sends packets to a routing table, by their source or interface or without a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// For IPv6.
    pub six: bool,
    /// Rules with a lower number are tried first.
    pub priority: u32,
    /// The source address must be in this network.
    pub from: Option<(IpAddr, u8)>,
    /// The socket must be bound to the interface of this name.
    pub out: Option<String>,
    /// The routing table.
    pub table: u32,
}

/// One message of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NetlinkMessage {
    Interface(Interface),
    Address(u32, IpAddr),
    Routes(Vec<Route>),
    Rule(Rule),
    /// The end of a dump, or an error number.
    Done,
    Error(i32),
    /// Nothing that is needed.
    Other,
}

/// The messages in what one `recv` returned, and whether the dump was interrupted by a change.
pub(super) fn messages(mut bytes: &[u8]) -> (Vec<NetlinkMessage>, bool) {
    let (mut found, mut interrupted) = (Vec::new(), false);
    while let Some((kind, flags, body, rest)) = split(bytes) {
        interrupted |= flags & NLM_F_DUMP_INTR != 0;
        found.push(parse(kind, body).unwrap_or(NetlinkMessage::Other));
        bytes = rest;
    }
    (found, interrupted)
}

/// Whether any of the notifications in one `recv` may change the set of paths.
pub(super) fn is_change(mut bytes: &[u8]) -> bool {
    while let Some((kind, _, body, rest)) = split(bytes) {
        let changes = match kind {
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                body.get(4).is_some_and(|table| u32::from(*table) != LOCAL_TABLE)
            }
            libc::RTM_NEWLINK | libc::RTM_DELLINK | libc::RTM_NEWADDR | libc::RTM_DELADDR => true,
            libc::RTM_NEWRULE | libc::RTM_DELRULE => true,
            _ => false,
        };
        if changes {
            return true;
        }
        bytes = rest;
    }
    false
}

/// Kind, flags and body of the first message, and the messages after it.
fn split(bytes: &[u8]) -> Option<(u16, u16, &[u8], &[u8])> {
    let length = u32_at(bytes, 0)? as usize;
    let body = bytes.get(HEADER..length)?;
    let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((u16_at(bytes, 4)?, u16_at(bytes, 6)?, body, rest))
}

fn parse(kind: u16, body: &[u8]) -> Option<NetlinkMessage> {
    match kind {
        libc::RTM_NEWLINK => link(body),
        libc::RTM_NEWADDR => address(body),
        libc::RTM_NEWROUTE => route(body),
        libc::RTM_NEWRULE => rule(body),
        kind if i32::from(kind) == libc::NLMSG_DONE => Some(NetlinkMessage::Done),
        kind if i32::from(kind) == libc::NLMSG_ERROR => Some(NetlinkMessage::Error(u32_at(body, 0)? as i32)),
        _ => None,
    }
}

/// struct ifinfomsg and its attributes.
fn link(body: &[u8]) -> Option<NetlinkMessage> {
    let flags = u32_at(body, 8)?;
    let has = |flag: i32| flags & flag as u32 != 0;
    let name = attributes(body.get(16..)?).find(|(kind, _)| *kind == IFLA_IFNAME)?.1;
    Some(NetlinkMessage::Interface(Interface {
        index: u32_at(body, 4)?,
        name: text(name),
        up: has(libc::IFF_UP) && has(libc::IFF_RUNNING),
        loopback: has(libc::IFF_LOOPBACK),
        addresses: Vec::new(),
    }))
}

/// struct ifaddrmsg and its attributes.
fn address(body: &[u8]) -> Option<NetlinkMessage> {
    let family = *body.first()?;
    let (mut flags, mut own, mut of_the_link) = (u32::from(*body.get(2)?), None, None);
    for (kind, value) in attributes(body.get(8..)?) {
        match kind {
            IFA_LOCAL => own = ip(family, value),
            IFA_ADDRESS => of_the_link = ip(family, value),
            IFA_FLAGS => flags = u32_at(value, 0)?,
            _ => {}
        }
    }
    // On a point-to-point link the second one is the peer's.
    let usable = flags & IFA_UNUSABLE == 0;
    own.or(of_the_link)
        .filter(|_| usable)
        .map(|address| NetlinkMessage::Address(u32_at(body, 4).unwrap_or(0), address))
}

/// struct rtmsg and its attributes.
fn route(body: &[u8]) -> Option<NetlinkMessage> {
    let (family, prefix, from_prefix) = (*body.first()?, *body.get(1)?, *body.get(2)?);
    if *body.get(7)? != libc::RTN_UNICAST || from_prefix > 0 || u32_at(body, 8)? & ROUTE_UNUSABLE != 0 {
        return None;
    }
    let (mut table, mut to, mut interfaces) = (u32::from(*body.get(4)?), unspecified(family)?, Vec::new());
    for (kind, value) in attributes(body.get(12..)?) {
        match kind {
            RTA_TABLE => table = u32_at(value, 0)?,
            RTA_DST => to = ip(family, value)?,
            RTA_OIF => interfaces.push(u32_at(value, 0)?),
            RTA_MULTIPATH => interfaces.extend(next_hops(value)),
            _ => {}
        }
    }
    let each = interfaces.into_iter().map(|interface| Route { to: (to, prefix), table, interface });
    Some(NetlinkMessage::Routes(each.collect()))
}

/// The interfaces of an array of struct rtnexthop, those that are usable.
fn next_hops(mut bytes: &[u8]) -> Vec<u32> {
    let mut interfaces = Vec::new();
    while let (Some(length), Some(interface)) = (u16_at(bytes, 0), u32_at(bytes, 4)) {
        if u32::from(bytes[2]) & ROUTE_UNUSABLE == 0 {
            interfaces.push(interface);
        }
        let next = usize::from(length).next_multiple_of(4);
        if next < 8 {
            break;
        }
        bytes = bytes.get(next..).unwrap_or_default();
    }
    interfaces
}

/// struct fib_rule_hdr and its attributes.
fn rule(body: &[u8]) -> Option<NetlinkMessage> {
    let (family, to_prefix, from_prefix) = (*body.first()?, *body.get(1)?, *body.get(2)?);
    let plain = *body.get(7)? == FR_ACT_TO_TABLE && u32_at(body, 8)? & FIB_RULE_INVERT == 0;
    if !plain || to_prefix > 0 {
        return None;
    }
    let mut rule = Rule {
        six: i32::from(family) == libc::AF_INET6,
        priority: 0,
        from: None,
        out: None,
        table: u32::from(*body.get(4)?),
    };
    for (kind, value) in attributes(body.get(12..)?) {
        match kind {
            FRA_PRIORITY => rule.priority = u32_at(value, 0)?,
            FRA_TABLE => rule.table = u32_at(value, 0)?,
            FRA_SRC => rule.from = Some((ip(family, value)?, from_prefix)),
            FRA_OIFNAME => rule.out = Some(text(value)),
            FRA_L3MDEV if value.first().is_some_and(|set| *set != 0) => return None,
            other if FRA_OTHER_SELECTORS.contains(&other) => return None,
            _ => {}
        }
    }
    Some(NetlinkMessage::Rule(rule))
}

/// Attributes after a message's fixed part: kind and value.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let value = bytes.get(4..length)?;
        let kind = u16_at(bytes, 2)? & 0x3fff; // without the bits for nested and network byte order
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

fn ip(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => Some(<[u8; 4]>::try_from(bytes).ok()?.into()),
        libc::AF_INET6 => Some(<[u8; 16]>::try_from(bytes).ok()?.into()),
        _ => None,
    }
}

fn unspecified(family: u8) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => Some(Ipv4Addr::UNSPECIFIED.into()),
        libc::AF_INET6 => Some(Ipv6Addr::UNSPECIFIED.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A message with this body and these attributes.
    fn message(kind: u16, body: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = [&[0; HEADER][..], body].concat();
        for (kind, value) in attributes {
            bytes.extend(((4 + value.len()) as u16).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(*value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes
    }

    fn one(bytes: &[u8]) -> NetlinkMessage {
        let (mut found, _) = messages(bytes);
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    #[test]
    fn an_address_counts_when_packets_may_use_it() {
        let usable = |flags: u32| {
            let attributes: [(u16, &[u8]); 3] = [
                (IFA_ADDRESS, &[10, 0, 0, 1]),
                (IFA_LOCAL, &[10, 0, 0, 2]),
                (IFA_FLAGS, &flags.to_ne_bytes()),
            ];
            one(&message(libc::RTM_NEWADDR, &[2, 24, 0, 0, 7, 0, 0, 0], &attributes))
        };
        assert_eq!(usable(0x80), NetlinkMessage::Address(7, "10.0.0.2".parse().unwrap()));
        assert_eq!(usable(0x40), NetlinkMessage::Other, "tentative");
    }

    #[test]
    fn a_route_names_its_table_and_every_usable_interface() {
        let hop = |interface: u8, flags: u8| [8, 0, flags, 0, interface, 0, 0, 0];
        let hops = [hop(3, 0), hop(4, 1), hop(5, 0)].concat();
        let table = 1000_u32.to_ne_bytes();
        let body = [2, 0, 0, 0, 252, 3, 0, 1, 0, 0, 0, 0];
        let found =
            one(&message(libc::RTM_NEWROUTE, &body, &[(RTA_TABLE, &table[..]), (RTA_MULTIPATH, &hops[..])]));
        let NetlinkMessage::Routes(routes) = found else { panic!("{found:?}") };
        assert_eq!(routes.iter().map(|route| route.interface).collect::<Vec<_>>(), [3, 5], "4 is dead");
        assert!(routes.iter().all(|route| route.table == 1000 && route.to.1 == 0));
    }

    #[test]
    fn only_rules_that_a_socket_can_match_by_source_or_interface_are_kept() {
        let body = [2, 0, 32, 0, 101, 0, 0, FR_ACT_TO_TABLE, 0, 0, 0, 0];
        let source: (u16, &[u8]) = (FRA_SRC, &[10, 0, 0, 2]);
        let kept = one(&message(libc::RTM_NEWRULE, &body, &[source]));
        let from = Some(("10.0.0.2".parse().unwrap(), 32));
        assert_eq!(kept, NetlinkMessage::Rule(Rule { six: false, priority: 0, from, out: None, table: 101 }));
        let marked = one(&message(libc::RTM_NEWRULE, &body, &[source, (10, &[1, 0, 0, 0])]));
        assert_eq!(marked, NetlinkMessage::Other, "a rule for a mark");
    }

    #[test]
    fn the_kernels_local_routes_are_not_changes() {
        let route = |table| message(libc::RTM_NEWROUTE, &[2, 32, 0, 0, table, 2, 0, 2, 0, 0, 0, 0], &[]);
        assert!(!is_change(&route(255)) && is_change(&route(254)));
        assert!(is_change(&[route(255), message(libc::RTM_DELLINK, &[0; 16], &[])].concat()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(kind in 0_u16..40, body in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = message(kind, &body, &[]);
            messages(&bytes);
            is_change(&bytes);
            bytes.extend(&body);
            messages(&bytes);
            messages(&body);
            is_change(&body);
        }
    }
}
