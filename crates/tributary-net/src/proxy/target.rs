//! Targets by name: the server forwards to one or several, and the client's local address selects one of them.
//!
//! Every stream of the proxy begins with the length of the target's name (one byte) and the name in UTF-8. Length
//! zero means the server's only or unnamed target. Source: `docs/wire-format.md`, Proxy.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest name of a target.
const MAX_NAME: usize = 32;

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
    /// The target; `None` for the server's only or unnamed one.
    pub target: Option<TargetName>,
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
}

/// Why the head of a stream is refused.
#[derive(Debug, Error)]
pub(super) enum HeadError {
    #[error("the stream ended before it named its target: {0}")]
    Short(#[from] std::io::Error),
    #[error("the stream does not begin with a target's name; is the client of the same version?")]
    Name,
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
        Ok(Self { address, target })
    }
}

/// The first bytes of a stream to this target.
pub(super) fn head(target: Option<&TargetName>) -> Vec<u8> {
    let name = target.map_or("", |name| &name.0).as_bytes();
    [&[name.len() as u8], name].concat()
}

/// Reads the first bytes of a stream.
pub(super) async fn read_head(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<TargetName>, HeadError> {
    let length = usize::from(stream.read_u8().await?);
    if length > MAX_NAME {
        return Err(HeadError::Name);
    }
    let mut name = vec![0; length];
    stream.read_exact(&mut name).await?;
    if name.is_empty() {
        return Ok(None);
    }
    let name = std::str::from_utf8(&name).ok().and_then(|name| name.parse().ok());
    name.map(Some).ok_or(HeadError::Name)
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
        assert_eq!(entrance.target.unwrap().to_string(), "web-2");
        assert_eq!("127.0.0.1:1".parse::<Entrance>().unwrap().target, None);
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
        for name in [None, Some("video".parse().unwrap())] {
            let bytes = [head(name.as_ref()), b"GET /".to_vec()].concat();
            let mut rest = bytes.as_slice();
            assert_eq!(read_head(&mut rest).await.unwrap(), name);
            assert_eq!(rest, b"GET /");
        }
        for bytes in [&b""[..], b"GET / HTTP/1.1", b"\x05vide", b"\x02\xff\xff", b"\x01=", b"\xff"] {
            assert!(read_head(&mut &bytes[..]).await.is_err(), "{bytes:?}");
        }
    }
}
