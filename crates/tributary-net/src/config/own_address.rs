//! The address at which clients reach one instance of a server, past a load balancer: text in settings and in the server's answer.
//!
//! Both ends check it: the server's settings, and what a client takes from an answer. Not here: when a client dials it
//! ([`crate::connector`]), and the answer's form (`docs/wire-handshake.md`).

use std::str::FromStr;

use thiserror::Error;

use super::ServerAddress;

/// Longest text, in bytes: the answer has one byte for its length.
const LONGEST: usize = u8::MAX as usize;

/// An address of one instance of a server: `HOST:PORT`, with a host that one machine can have.
///
/// ```
/// use tributary_net::OwnAddress;
///
/// let address: OwnAddress = "one.example.org:7000".parse()?;
/// assert_eq!(address.to_string(), "one.example.org:7000");
/// assert!("0.0.0.0:7000".parse::<OwnAddress>().is_err());
/// # Ok::<_, tributary_net::OwnAddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnAddress(ServerAddress);

/// Why a text is no address of an instance. The text itself is not repeated: callers name it with the option or the setting.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OwnAddressError {
    /// Not `HOST:PORT`.
    #[error("expected HOST:PORT at which clients reach this server, for example 203.0.113.5:7000")]
    Malformed,
    /// Nobody can connect there.
    #[error(
        "clients cannot connect to that address; give the address of one machine, and a port from 1 to 65535"
    )]
    Nowhere,
    /// Too long for the server's answer.
    #[error("the address has {0} bytes; the server's answer has room for {LONGEST}")]
    Long(usize),
}

impl FromStr for OwnAddress {
    type Err = OwnAddressError;

    fn from_str(text: &str) -> Result<Self, OwnAddressError> {
        if text.len() > LONGEST {
            return Err(OwnAddressError::Long(text.len()));
        }
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        let parsed = text.parse::<ServerAddress>().ok().filter(|_| is_plain);
        let address = parsed.ok_or(OwnAddressError::Malformed)?;
        let is_somewhere = match &address {
            ServerAddress::Address(address) => {
                let host = address.ip().to_canonical();
                let is_broadcast = host == std::net::Ipv4Addr::BROADCAST;
                address.port() != 0 && !host.is_unspecified() && !host.is_multicast() && !is_broadcast
            }
            ServerAddress::Name(_, port) => *port != 0,
        };
        if is_somewhere { Ok(Self(address)) } else { Err(OwnAddressError::Nowhere) }
    }
}

impl std::fmt::Display for OwnAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl OwnAddress {
    /// Where to connect.
    pub(crate) fn server(&self) -> &ServerAddress {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_that_clients_can_connect_to() {
        for text in ["203.0.113.5:7000", "[2001:db8::5]:7000", "one.example.org:7000", "[fe80::1%wlan0]:7000"]
        {
            let address: OwnAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.to_string().parse(), Ok(address), "read again");
        }
        for text in ["", "203.0.113.5", ":7000", "one example:7000", "one:7000\n", "één:7000", "::1:7000"] {
            let error = text.parse::<OwnAddress>().unwrap_err().to_string();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
        for text in
            ["0.0.0.0:7000", "[::]:7000", "224.0.0.1:7000", "255.255.255.255:7000", "203.0.113.5:0", "one:0"]
        {
            let error = text.parse::<OwnAddress>().unwrap_err().to_string();
            assert!(error.contains("cannot connect"), "{text}: {error}");
        }
        let long = format!("{}:7000", "a".repeat(300));
        assert_eq!(long.parse::<OwnAddress>(), Err(OwnAddressError::Long(305)));
    }
}
