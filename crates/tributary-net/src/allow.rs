//! Which destinations a server connects applications to: `serve --allow`. Without a rule there are none.
//!
//! Rules are judged on the *resolved* address, and exactly that address is then connected to, so a name cannot be changed
//! between the two (DNS rebinding). An address that is not public, such as 127.0.0.1 or 10.0.0.1, is allowed only by a
//! rule that names it or a network inside its block: a name or `any` never leads to one.
//!
//! Source of the blocks: IANA's special-purpose registries (RFC 6890), RFC 6052 for addresses that embed an IPv4 address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use thiserror::Error;

use crate::destination::HostName;

/// Blocks of addresses that are not public: first address, length of the prefix, what they are.
const BLOCKS: &[(IpAddr, u8, &str)] = &[
    (four(0, 0), 8, "a local"),
    (four(10, 0), 8, "a private"),
    (four(100, 64), 10, "a provider's private"),
    (four(127, 0), 8, "a loopback"),
    (four(169, 254), 16, "a link-local"),
    (four(172, 16), 12, "a private"),
    (four(192, 0), 24, "a reserved"),
    (four(192, 168), 16, "a private"),
    (four(198, 18), 15, "a reserved"),
    (four(224, 0), 4, "a multicast"),
    (four(240, 0), 4, "a reserved"),
    (six(0, 0), 96, "a loopback"),
    (six(0x64, 0xff9b), 32, "a translated"),
    (six(0x100, 0), 64, "a reserved"),
    (six(0x2001, 0), 23, "a reserved"),
    (six(0x2002, 0), 16, "a tunnelled"),
    (six(0xfc00, 0), 7, "a private"),
    (six(0xfe80, 0), 10, "a link-local"),
    (six(0xfec0, 0), 10, "a private"),
    (six(0xff00, 0), 8, "a multicast"),
];

const fn four(a: u8, b: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, 0, 0))
}

const fn six(a: u16, b: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0))
}

/// What kind of address it is, if it is not public: "a private", "a loopback" ….
pub(crate) fn special(address: IpAddr) -> Option<&'static str> {
    block(judged(address)).map(|(_, what)| what)
}

fn block(address: IpAddr) -> Option<(u8, &'static str)> {
    let mut blocks = BLOCKS.iter().filter(|(first, prefix, _)| is_in(address, *first, *prefix));
    blocks.next().map(|(_, prefix, what)| (*prefix, *what))
}

/// The address that rules are compared with: the embedded IPv4 address of `::ffff:0:0/96` and `64:ff9b::/96`.
fn judged(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(long) => match long.segments() {
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into()
            }
            _ => long.into(),
        },
        short => short,
    }
}

fn is_in(address: IpAddr, first: IpAddr, prefix: u8) -> bool {
    match (address, first) {
        (IpAddr::V4(address), IpAddr::V4(first)) => {
            (address.to_bits() ^ first.to_bits()).leading_zeros() >= u32::from(prefix)
        }
        (IpAddr::V6(address), IpAddr::V6(first)) => {
            (address.to_bits() ^ first.to_bits()).leading_zeros() >= u32::from(prefix)
        }
        _ => false,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    /// Every public address.
    Any,
    /// The addresses with this prefix.
    Network(IpAddr, u8),
    /// This name.
    Name(HostName),
    /// Every name that ends in this one, after a dot.
    Below(HostName),
}

/// One rule: `HOST` or `HOST:PORTS`. `HOST` is an address, a network (`10.0.0.0/8`, `[fd00::]/8`), a name, `*.NAME`, or
/// `any`; `PORTS` are ports and ranges (`443`, `80,8000-8999`), all ports without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowRule {
    hosts: Hosts,
    /// Empty: every port.
    ports: Vec<RangeInclusive<u16>>,
}

/// Why a rule is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "allowed destination `{rule}`: {problem}; expected HOST[:PORTS], for example *.example.org:443, 192.168.1.0/24:22, \
     [2001:db8::5]:80,8000-8999 or any:443"
)]
pub struct AllowRuleError {
    rule: String,
    problem: String,
}

impl FromStr for AllowRule {
    type Err = AllowRuleError;

    fn from_str(rule: &str) -> Result<Self, AllowRuleError> {
        let refuse = |problem: String| AllowRuleError { rule: rule.to_owned(), problem };
        let (hosts, ports) = match rule.rfind(']') {
            Some(end) => match rule[end..].find(':') {
                Some(colon) => (&rule[..end + colon], Some(&rule[end + colon + 1..])),
                None => (rule, None),
            },
            // More than one colon: an IPv6 address without a port.
            None if rule.matches(':').count() > 1 => (rule, None),
            None => rule.split_once(':').map_or((rule, None), |(hosts, ports)| (hosts, Some(ports))),
        };
        let ports = ports.map_or(Ok(Vec::new()), |ports| ports.split(',').map(read_ports).collect());
        let ports = ports
            .map_err(|part| refuse(format!("`{part}` is neither a port from 1 to 65535 nor a range")))?;
        Ok(Self { hosts: read_hosts(hosts).map_err(refuse)?, ports })
    }
}

fn read_ports(part: &str) -> Result<RangeInclusive<u16>, String> {
    let (from, to) = part.split_once('-').unwrap_or((part, part));
    match (from.parse(), to.parse()) {
        (Ok(from), Ok(to)) if 0 < from && from <= to => Ok(from..=to),
        _ => Err(part.to_owned()),
    }
}

fn read_hosts(text: &str) -> Result<Hosts, String> {
    if text == "any" {
        return Ok(Hosts::Any);
    }
    let (host, prefix) = text.split_once('/').map_or((text, None), |(host, prefix)| (host, Some(prefix)));
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        let address = address.to_canonical();
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => most,
            Some(text) => text
                .parse()
                .ok()
                .filter(|n| *n <= most)
                .ok_or(format!("no prefix of {most} bits is `/{text}`"))?,
        };
        let has_more = match address {
            IpAddr::V4(address) => u32::from(prefix) + address.to_bits().trailing_zeros() < 32,
            IpAddr::V6(address) => u32::from(prefix) + address.to_bits().trailing_zeros() < 128,
        };
        if has_more {
            return Err(format!("{address} has more bits than its prefix of {prefix}"));
        }
        return Ok(Hosts::Network(address, prefix));
    }
    if prefix.is_some() {
        return Err(format!("`{host}` is not an address"));
    }
    let (name, hosts): (_, fn(HostName) -> Hosts) = match host.strip_prefix("*.") {
        Some(name) => (name, Hosts::Below),
        None => (host, Hosts::Name),
    };
    let name: HostName = name.parse().map_err(|_| format!("`{host}` is not a host"))?;
    if name.as_str() == "localhost" {
        return Err("a name never leads to a loopback address; write 127.0.0.1 or [::1]".to_owned());
    }
    Ok(hosts(name))
}

impl AllowRule {
    fn allows(&self, name: Option<&HostName>, address: IpAddr, port: Option<u16>) -> bool {
        let is_port = |port| self.ports.is_empty() || self.ports.iter().any(|ports| ports.contains(&port));
        if !port.is_none_or(is_port) {
            return false;
        }
        let address = judged(address);
        let special = block(address);
        match &self.hosts {
            // Only a rule inside the block names an address that is not public.
            Hosts::Network(first, prefix) => {
                is_in(address, *first, *prefix)
                    && special.is_none_or(|(of_the_block, _)| *prefix >= of_the_block)
            }
            _ if special.is_some() => false,
            Hosts::Any => true,
            Hosts::Name(allowed) => name == Some(allowed),
            Hosts::Below(parent) => name.is_some_and(|name| {
                name.as_str().strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }),
        }
    }
}

/// The rules of a server. The default allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowRules(Vec<AllowRule>);

impl FromIterator<AllowRule> for AllowRules {
    fn from_iter<T: IntoIterator<Item = AllowRule>>(rules: T) -> Self {
        Self(rules.into_iter().collect())
    }
}

impl AllowRules {
    /// Whether nothing is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this address, to which `name` was resolved if there is one, may be connected to.
    #[must_use]
    pub fn allow(&self, name: Option<&HostName>, address: SocketAddr) -> bool {
        self.0.iter().any(|rule| rule.allows(name, address.ip(), Some(address.port())))
    }

    /// Whether some port of the address, to which `name` was resolved, may be connected to.
    #[must_use]
    pub fn allow_some_port(&self, name: &HostName, address: IpAddr) -> bool {
        self.0.iter().any(|rule| rule.allows(Some(name), address, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(rules: &[&str], name: Option<&str>, address: &str) -> bool {
        let rules: AllowRules = rules.iter().map(|rule| rule.parse::<AllowRule>().unwrap()).collect();
        rules.allow(name.map(|name| name.parse().unwrap()).as_ref(), address.parse().unwrap())
    }

    #[test]
    fn nothing_is_allowed_without_a_rule() {
        assert!(!allowed(&[], None, "8.8.8.8:53") && !allowed(&[], Some("a.org"), "127.0.0.1:80"));
    }

    #[test]
    fn a_rule_names_hosts_and_ports() {
        for (rule, name, address, expected) in [
            ("any", None, "8.8.8.8:1", true),
            ("any:443", None, "8.8.8.8:443", true),
            ("any:443", None, "8.8.8.8:444", false),
            ("any:80,8000-8999", None, "[2600::1]:8999", true),
            ("8.8.8.0/24:53", None, "8.8.8.255:53", true),
            ("8.8.8.0/24:53", None, "8.8.9.0:53", false),
            ("8.8.8.8", None, "[::ffff:8.8.8.8]:53", true),
            ("[2600::]/16:80", None, "[2600:1::1]:80", true),
            ("2600::1", None, "[2600::1]:80", true),
            ("2600::1", None, "[2600::2]:80", false),
            ("A.org.:80", Some("a.org"), "8.8.8.8:80", true),
            ("a.org:80", Some("b.a.org"), "8.8.8.8:80", false),
            ("a.org:80", None, "8.8.8.8:80", false),
            ("*.a.org", Some("b.a.org"), "8.8.8.8:80", true),
            ("*.a.org", Some("ba.org"), "8.8.8.8:80", false),
            ("*.a.org", Some("a.org"), "8.8.8.8:80", false),
        ] {
            assert_eq!(allowed(&[rule], name, address), expected, "{rule} {name:?} {address}");
        }
    }

    #[test]
    fn an_address_that_is_not_public_must_be_named_as_such() {
        for address in [
            "127.0.0.1:80",
            "10.1.2.3:80",
            "192.168.1.1:80",
            "169.254.169.254:80",
            "100.64.0.1:80",
            "0.0.0.0:80",
            "[::1]:80",
            "[::]:80",
            "[fe80::1]:80",
            "[fd00::1]:80",
            "[::ffff:127.0.0.1]:80",
            "[::ffff:10.0.0.1]:80",
            "[64:ff9b::7f00:1]:80",
            "[64:ff9b::a00:1]:80",
            "[2002:7f00:1::]:80",
            "224.0.0.1:80",
        ] {
            for rule in ["any", "0.0.0.0/0", "[::]/0", "*.evil.org", "a.evil.org", "0.0.0.0/1"] {
                assert!(!allowed(&[rule], Some("a.evil.org"), address), "{rule} {address}");
            }
        }
        assert!(allowed(&["127.0.0.1:80"], Some("a.evil.org"), "[::ffff:127.0.0.1]:80"));
        assert!(allowed(&["10.0.0.0/8"], None, "10.1.2.3:80"));
        assert!(allowed(&["10.0.0.0/8"], None, "[64:ff9b::a00:1]:80"));
        assert!(allowed(&["[fd00::]/8"], None, "[fd00::1]:80") && allowed(&["::1"], None, "[::1]:80"));
        assert!(!allowed(&["8.0.0.0/5"], None, "10.1.2.3:80"), "wider than the block");
    }

    #[test]
    fn invalid_rules_are_refused_with_the_expected_form() {
        for rule in [
            "",
            ":80",
            "a:",
            "a:0",
            "a:65536",
            "a:9-8",
            "a:1-",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "a.org/8",
            "a b",
            "*",
            "*.",
            "a.*.b",
            "localhost:80",
            "[::1",
            "::1/129",
            "a:80,",
        ] {
            let error = rule.parse::<AllowRule>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{rule}`")) && error.contains("HOST[:PORTS]"), "{error}");
        }
    }
}
