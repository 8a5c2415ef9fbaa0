//! Where an application wants to connect to: the host and port that it names by SOCKS or HTTP CONNECT, or by connecting
//! inside the namespace of `tributary exec`.
//!
//! Not here: how it names them (`request`), and which destinations a server allows (`allow`).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

/// Maximum length of a name (RFC 1035 §2.3.4), without the last dot.
pub(crate) const MAX_NAME: usize = 253;
/// Maximum length of a label (RFC 1035 §2.3.4).
const MAX_LABEL: usize = 63;

/// A name of the domain name system: lower-case, without a dot at its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

/// Not a host.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{}` is not a host: expected an IP address or a name of letters, digits, `-`, `_` and dots", .0.escape_debug())]
pub struct HostError(String);

/// An address, or a name that the server resolves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// An address.
    Address(IpAddr),
    /// A name.
    Name(HostName),
}

/// The host and port that an application chose.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    /// The host.
    pub host: Host,
    /// The TCP port.
    pub port: u16,
}

impl HostName {
    /// The name's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            (1..=MAX_LABEL).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        if name.len() > MAX_NAME || !name.split('.').all(is_label) {
            return Err(HostError(text.chars().take(MAX_NAME).collect()));
        }
        Ok(Self(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Host {
    type Err = HostError;

    /// An IPv6 address may be in brackets.
    fn from_str(text: &str) -> Result<Self, HostError> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        match bare.parse() {
            Ok(address) => Ok(Self::Address(address)),
            Err(_) => Ok(Self::Name(text.parse()?)),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Name(name) => write!(f, "{name}"),
        }
    }
}

impl From<SocketAddr> for Destination {
    fn from(address: SocketAddr) -> Self {
        Self { host: Host::Address(address.ip().to_canonical()), port: address.port() }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(address) => write!(f, "{}", SocketAddr::new(*address, self.port)),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_or_names() {
        for (text, shown) in
            [("Example.ORG.", "example.org"), ("[::1]", "::1"), ("::1", "::1"), ("_a.b-c", "_a.b-c")]
        {
            assert_eq!(text.parse::<Host>().unwrap().to_string(), shown);
        }
        let long = [["a"; 63].concat(), "b".repeat(64)].join(".");
        for text in ["", ".", "a..b", "a b", "ä.de", "[::1", "a:b", "a/b", "\n", &long, &"a.".repeat(130)] {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
    }
}
