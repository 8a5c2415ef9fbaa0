//! Rules and tables of policy routing, with a protocol number that tells those of one program from all others, so that they are found
//! again by a program that did not make them. Sources: ip-rule(8), rtnetlink(7), `linux/fib_rules.h`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{CREATE, FR_ACT_TO_TABLE, FRA_PRIORITY, Netlink, RTA_DST, RTA_OIF, Request};
use super::{family_and_bytes, interface_index};

const FRA_FWMARK: u16 = 10;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_UID_RANGE: u16 = 20;
const FRA_PROTOCOL: u16 = 21;
const FIB_RULE_INVERT: u32 = 2;
const RTA_PRIORITY: u16 = 6;
const RTA_TABLE: u16 = 15;
/// Tried after every other route of its table.
const LAST: u32 = 0xffff_fff0;
/// The kernel's table for routes without another one.
pub const MAIN_TABLE: u32 = 254;

/// Which packets a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Those without this mark.
    WithoutMark(u32),
    /// Those with this mark.
    Mark(u32),
    /// Those of these users, first and last, that have no mark.
    Users(u32, u32),
}

/// A rule that sends packets to a routing table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRule {
    /// Rules with a lower number are tried first.
    pub priority: u32,
    /// Which packets.
    pub selector: Selector,
    /// The table.
    pub table: u32,
    /// Without the table's default route.
    pub only_specific: bool,
}

fn any(six: bool) -> IpAddr {
    if six { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// struct `fib_rule_hdr`.
fn rule_head(six: bool, action: u8, flags: u32) -> Vec<u8> {
    let mut body = vec![family_and_bytes(any(six)).0, 0, 0, 0, 0, 0, 0, action];
    body.extend_from_slice(&flags.to_ne_bytes());
    body
}

/// struct `rtmsg`, for a route of this kind and protocol.
fn route_head((to, prefix): (IpAddr, u8), kind: u8, protocol: u8) -> Vec<u8> {
    let scope =
        if to.is_ipv4() && kind == libc::RTN_UNICAST { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
    let mut body = vec![family_and_bytes(to).0, prefix, 0, 0, 0, protocol, scope, kind];
    body.extend_from_slice(&[0; 4]);
    body
}

impl Netlink {
    /// Adds a rule for IPv6 or IPv4.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn add_table_rule(&mut self, six: bool, rule: &TableRule, protocol: u8) -> io::Result<()> {
        let invert = if matches!(rule.selector, Selector::WithoutMark(_)) { FIB_RULE_INVERT } else { 0 };
        let mut request = Request::new(libc::RTM_NEWRULE, CREATE, &rule_head(six, FR_ACT_TO_TABLE, invert))
            .attribute(FRA_PRIORITY, &rule.priority.to_ne_bytes())
            .attribute(FRA_TABLE, &rule.table.to_ne_bytes())
            .attribute(FRA_PROTOCOL, &[protocol]);
        if rule.only_specific {
            request = request.attribute(FRA_SUPPRESS_PREFIXLEN, &0_u32.to_ne_bytes());
        }
        let (mark, users) = match rule.selector {
            Selector::WithoutMark(mark) | Selector::Mark(mark) => (mark, None),
            Selector::Users(first, last) => (0, Some((first, last))),
        };
        request = request.attribute(FRA_FWMARK, &mark.to_ne_bytes());
        request = request.attribute(FRA_FWMASK, &u32::MAX.to_ne_bytes());
        if let Some((first, last)) = users {
            let range = [first.to_ne_bytes(), last.to_ne_bytes()].concat();
            request = request.attribute(FRA_UID_RANGE, &range);
        }
        self.request(request)
    }

    /// Deletes every rule of this protocol number. Returns how many there were.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn delete_table_rules(&mut self, six: bool, protocol: u8) -> io::Result<usize> {
        let mut deleted = 0;
        loop {
            let request = Request::new(libc::RTM_DELRULE, 0, &rule_head(six, FR_ACT_TO_TABLE, 0));
            match self.request(request.attribute(FRA_PROTOCOL, &[protocol])) {
                Ok(()) => deleted += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(deleted),
                Err(error) => return Err(error),
            }
        }
    }

    /// Routes packets for `to` out of the interface, in this table.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn add_table_route(
        &mut self,
        name: &str,
        to: (IpAddr, u8),
        (table, protocol): (u32, u8),
    ) -> io::Result<()> {
        let head = route_head(to, libc::RTN_UNICAST, protocol);
        let mut request = Request::new(libc::RTM_NEWROUTE, CREATE, &head);
        if to.1 > 0 {
            request = request.attribute(RTA_DST, &family_and_bytes(to.0).1);
        }
        request = request.attribute(RTA_OIF, &interface_index(name)?.to_ne_bytes());
        self.request(request.attribute(RTA_TABLE, &table.to_ne_bytes()))
    }

    /// Makes everything unreachable that no other route of the table leads to. The route needs no interface and stays when the others
    /// have gone with theirs.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn add_unreachable(&mut self, six: bool, table: u32, protocol: u8) -> io::Result<()> {
        self.request(unreachable(libc::RTM_NEWROUTE, CREATE, (six, table, protocol)))
    }

    /// Takes [`Self::add_unreachable`] back. Returns whether there was one.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn delete_unreachable(&mut self, six: bool, table: u32, protocol: u8) -> io::Result<bool> {
        match self.request(unreachable(libc::RTM_DELROUTE, 0, (six, table, protocol))) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn unreachable(kind: u16, flags: i32, (six, table, protocol): (bool, u32, u8)) -> Request {
    let request = Request::new(kind, flags, &route_head((any(six), 0), libc::RTN_UNREACHABLE, protocol));
    request.attribute(RTA_PRIORITY, &LAST.to_ne_bytes()).attribute(RTA_TABLE, &table.to_ne_bytes())
}
