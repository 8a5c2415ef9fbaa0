//! Targets by name: the server forwards to one or several, and the client's local address selects one of them.
//!
//! Every stream of the proxy begins with the length of the target's name (one byte) and the name in UTF-8. Length
//! zero means the server's only or unnamed target. Other values of the first byte are requests of an application that
//! names its destination. Source: `docs/wire-proxy.md`.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::destination::{Destination, Host, HostName, MAX_NAME as MAX_HOST};

/// Longest name of a target.
const MAX_NAME: usize = 32;
/// First byte of a stream to a destination, and of a question for the addresses of a name.
const DESTINATION: u8 = 0x40;
const LOOKUP: u8 = 0x41;
/// First byte of a stream whose application's first packet had a code point, which follows; then comes the head.
const CODE_POINT: u8 = 0x42;

/// Name of a target: 1 to 32 characters of `a-z`, `A-Z`, `0-9`, `-` and `_`; the first is a letter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetName(String);

/// An address to which a server forwards: `HOST:PORT`, or `NAME=HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name that clients use; `None`: the target of clients that give no name.
    pub name: Option<TargetName>,
    /// The host. Its name is resolved for each connection.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// A local address for applications: `ADDRESS:PORT`, or `ADDRESS:PORT=NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// The local address.
    pub address: SocketAddr,
    /// Where its connections lead.
    pub leads_to: LeadsTo,
}

/// Where the connections to a local address lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeadsTo {
    /// To a target; `None`: the server's only or unnamed one.
    Target(Option<TargetName>),
    /// Where each application asks to be connected by SOCKS5 or HTTP CONNECT.
    Requested,
}

impl Entrance {
    /// A local address for applications that name their destination, by SOCKS5 or HTTP CONNECT. There is no password, so
    /// an address other than loopback needs `remote`.
    ///
    /// # Errors
    /// [`TargetError::Remote`].
    pub fn requested(address: SocketAddr, remote: bool) -> Result<Self, TargetError> {
        if !remote && !address.ip().to_canonical().is_loopback() {
            return Err(TargetError::Remote(address));
        }
        Ok(Self { address, leads_to: LeadsTo::Requested })
    }

    /// The name of the target to which it leads.
    #[must_use]
    pub fn target(&self) -> Option<&TargetName> {
        match &self.leads_to {
            LeadsTo::Target(name) => name.as_ref(),
            LeadsTo::Requested => None,
        }
    }
}

/// What a stream is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// A connection to a target.
    Target(Option<TargetName>),
    /// A connection to a destination.
    Destination(Destination),
    /// The addresses of a name.
    Lookup(HostName),
}

/// Why a target or an entrance is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Not a name.
    #[error("target name `{0}`: 1 to 32 letters, digits, `-` and `_`, a letter first")]
    Name(String),
    /// Not a target.
    #[error("forward target `{0}`: expected HOST:PORT or NAME=HOST:PORT")]
    Target(String),
    /// Not a local address.
    #[error(
        "listen address `{0}`: expected ADDRESS:PORT or ADDRESS:PORT=NAME, for example 127.0.0.1:8080=video"
    )]
    Entrance(String),
    /// Other machines reach the address.
    #[error(
        "other machines reach {0}, and there is no password: use 127.0.0.1 or [::1], or add --socks-remote to let every \
         machine that reaches it use the server"
    )]
    Remote(SocketAddr),
}

/// Why the head of a stream is refused.
#[derive(Debug, Error)]
pub(super) enum HeadError {
    #[error("the stream ended before it named its target: {0}")]
    Short(#[from] std::io::Error),
    #[error("the stream does not begin with a target's name; is the client of the same version?")]
    Name,
    #[error("the stream names a code point that is not from 1 to 63; is the client of the same version?")]
    CodePoint,
}

impl FromStr for TargetName {
    type Err = TargetError;

    fn from_str(name: &str) -> Result<Self, TargetError> {
        let fits = (1..=MAX_NAME).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if fits { Ok(Self(name.to_owned())) } else { Err(TargetError::Name(name.to_owned())) }
    }
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let refuse = || TargetError::Target(text.to_owned());
        let (name, address) = match text.split_once('=') {
            Some((name, address)) => (Some(name.parse()?), address),
            None => (None, text),
        };
        let (host, port) = address.rsplit_once(':').ok_or_else(refuse)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(refuse)?;
        // Neither a host name nor an address contains `=`, so there are two names.
        if host.is_empty() || host.contains('=') {
            return Err(refuse());
        }
        Ok(Self { name, host: host.to_owned(), port })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({}:{})", self.host, self.port),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Entrance {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (address, target) = match text.split_once('=') {
            Some((address, name)) => (address, Some(name.parse()?)),
            None => (text, None),
        };
        let address = address.parse().map_err(|_| TargetError::Entrance(text.to_owned()))?;
        Ok(Self { address, leads_to: LeadsTo::Target(target) })
    }
}

impl Head {
    /// The first bytes of the stream.
    pub(super) fn encode(&self) -> Vec<u8> {
        let counted = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
        match self {
            Self::Target(name) => counted(name.as_ref().map_or("", |name| &name.0)),
            Self::Destination(Destination { host, port }) => {
                [&[DESTINATION][..], &counted(&host.to_string()), &port.to_be_bytes()].concat()
            }
            Self::Lookup(name) => [&[LOOKUP][..], &counted(name.as_str())].concat(),
        }
    }

    /// The first bytes of the stream of a connection whose first packet had this code point. The code point 0 is not sent.
    pub(super) fn encode_with(&self, dscp: Option<u8>) -> Vec<u8> {
        let told = dscp.filter(|dscp| *dscp > 0).map_or_else(Vec::new, |dscp| vec![CODE_POINT, dscp]);
        [told, self.encode()].concat()
    }

    /// Reads the first bytes of a connection's stream, with the code point of its first packet.
    pub(super) async fn read_with_code_point(
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<(Self, u8), HeadError> {
        match stream.read_u8().await? {
            CODE_POINT => match stream.read_u8().await? {
                dscp @ 1..64 => Ok((Self::read(stream).await?, dscp)),
                _ => Err(HeadError::CodePoint),
            },
            first => Ok((Self::after(first, stream).await?, 0)),
        }
    }

    /// Reads the first bytes of a stream.
    pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Self, HeadError> {
        Self::after(stream.read_u8().await?, stream).await
    }

    /// Reads what follows the first byte.
    async fn after(first: u8, stream: &mut (impl AsyncRead + Unpin)) -> Result<Self, HeadError> {
        match first {
            DESTINATION => {
                let host: Host = read_text(stream, MAX_HOST).await?.parse().map_err(|_| HeadError::Name)?;
                let port = stream.read_u16().await?;
                if port == 0 {
                    Err(HeadError::Name)
                } else {
                    Ok(Self::Destination(Destination { host, port }))
                }
            }
            LOOKUP => {
                let name = read_text(stream, MAX_HOST).await?;
                Ok(Self::Lookup(name.parse().map_err(|_| HeadError::Name)?))
            }
            0 => Ok(Self::Target(None)),
            length => {
                let name = read_bytes(stream, usize::from(length), MAX_NAME).await?;
                Ok(Self::Target(Some(name.parse().map_err(|_| HeadError::Name)?)))
            }
        }
    }
}

/// Reads a text after one byte with its length.
async fn read_text(stream: &mut (impl AsyncRead + Unpin), most: usize) -> Result<String, HeadError> {
    let length = usize::from(stream.read_u8().await?);
    read_bytes(stream, length, most).await
}

async fn read_bytes(
    stream: &mut (impl AsyncRead + Unpin),
    length: usize,
    most: usize,
) -> Result<String, HeadError> {
    if length > most {
        return Err(HeadError::Name);
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    String::from_utf8(bytes).map_err(|_| HeadError::Name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_entrances_parse() {
        let target: Target = "video=[2001:db8::1]:80".parse().unwrap();
        assert_eq!((target.host.as_str(), target.port), ("[2001:db8::1]", 80));
        assert_eq!(target.name.unwrap().to_string(), "video");
        assert_eq!("localhost:80".parse::<Target>().unwrap().name, None);
        let entrance: Entrance = "[::1]:8080=web-2".parse().unwrap();
        assert_eq!(entrance.target().unwrap().to_string(), "web-2");
        assert_eq!("127.0.0.1:1".parse::<Entrance>().unwrap().target(), None);
    }

    #[test]
    fn invalid_targets_are_refused_with_the_expected_form() {
        for text in ["", "host", ":80", "host:", "host:0", "host:65536", "a=host", "a=:80"] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains("HOST:PORT"), "{error}");
        }
        for name in ["", "1a", "a b", "ä", "a=b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"] {
            assert!(format!("{name}=host:80").parse::<Target>().is_err(), "{name}");
            assert!(format!("127.0.0.1:80={name}").parse::<Entrance>().is_err(), "{name}");
        }
        assert!("localhost:80".parse::<Entrance>().is_err());
    }

    #[tokio::test]
    async fn valid_heads_are_read_and_others_are_refused() {
        let destination =
            |host: &str| Head::Destination(Destination { host: host.parse().unwrap(), port: 443 });
        for head in [
            Head::Target(None),
            Head::Target(Some("video".parse().unwrap())),
            destination("2001:db8::1"),
            destination("a.org"),
            Head::Lookup("a.org".parse().unwrap()),
        ] {
            let bytes = [head.encode(), b"GET /".to_vec()].concat();
            let mut rest = bytes.as_slice();
            assert_eq!(Head::read(&mut rest).await.unwrap(), head);
            assert_eq!(rest, b"GET /");
        }
        for bytes in [
            &b""[..],
            b"GET / HTTP/1.1",
            b"\x05vide",
            b"\x02\xff\xff",
            b"\x01=",
            b"\xff",
            b"\x40\x01a\0",
            b"\x40\x01a\0\0",
            b"\x40\x00\x01\xbb",
            b"\x40\x01 \x01\xbb",
            b"\x41\xff",
        ] {
            assert!(Head::read(&mut &bytes[..]).await.is_err(), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn a_code_point_precedes_the_head_unless_it_is_0() {
        let head = Head::Target(Some("video".parse().unwrap()));
        for (dscp, told, prefix) in [(None, 0, 0), (Some(0), 0, 0), (Some(46), 46, 2)] {
            let bytes = head.encode_with(dscp);
            assert_eq!(bytes.len(), prefix + head.encode().len());
            let read = Head::read_with_code_point(&mut bytes.as_slice()).await.unwrap();
            assert_eq!(read, (head.clone(), told));
        }
        for bytes in [&b"\x42"[..], b"\x42\x2e", b"\x42\0\0", b"\x42\x40\0", b"\x42\x2e\x42\x2e\0"] {
            assert!(Head::read_with_code_point(&mut &bytes[..]).await.is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn an_address_that_other_machines_reach_needs_permission() {
        for (address, is_loopback) in
            [("127.0.0.1:1", true), ("[::1]:1", true), ("0.0.0.0:1", false), ("[::]:1", false)]
        {
            let address = address.parse().unwrap();
            assert_eq!(Entrance::requested(address, false).is_ok(), is_loopback);
            Entrance::requested(address, true).unwrap();
        }
    }
}
