//! What an application asks of a proxy on its first bytes: SOCKS5 or HTTP CONNECT, told apart by the first byte.
//!
//! Sans-IO: bytes go in, answers and the destination come out. Not here: sockets, time limits, and the connection.
//! Sources: RFC 1928 (SOCKS5), RFC 9110 §9.3.6 and RFC 9112 (CONNECT).

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

use crate::destination::{Destination, Host};

/// Maximum size of an HTTP head.
pub(super) const MAX_HEAD: usize = 8 << 10;

const SOCKS5: u8 = 5;
const SOCKS4: u8 = 4;
/// RFC 1928 §3: methods of authentication.
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
/// RFC 1928 §4.
const CONNECT: u8 = 1;
const UDP_ASSOCIATE: u8 = 3;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// How the request for a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Connected.
    Connected,
    /// The server does not allow the destination.
    NotAllowed,
    /// The name cannot be resolved.
    NoName,
    /// No route, or no answer.
    Unreachable,
    /// The destination refused.
    Refused,
    /// There is no session with the server, or another failure.
    Failed,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The first byte belongs to neither protocol.
    #[error("neither SOCKS5 nor HTTP CONNECT")]
    Protocol,
    /// SOCKS4.
    #[error("SOCKS4; set the application to SOCKS5 with names resolved by the proxy (socks5h)")]
    Socks4,
    /// SOCKS5, without the method "no authentication".
    #[error("SOCKS5 with a password; there is none")]
    Password,
    /// A command other than CONNECT and UDP ASSOCIATE.
    #[error("SOCKS5 command {0}; only CONNECT and UDP ASSOCIATE are supported")]
    Command(u8),
    /// An unknown type of address.
    #[error("SOCKS5 address type {0}")]
    AddressType(u8),
    /// An HTTP method other than CONNECT.
    #[error("an HTTP request other than CONNECT; set the application to use CONNECT, or SOCKS5")]
    Method,
    /// Neither an address nor a name, or no port.
    #[error("no valid host and port")]
    Destination,
    /// The HTTP head is too long.
    #[error("an HTTP head of more than {MAX_HEAD} bytes")]
    TooLong,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read more from the application.
    Read,
    /// Send this to the application, and poll again.
    Send(Vec<u8>),
    /// Connect, and send [`RequestReader::answer`].
    Connect(Destination),
    /// Relay datagrams while the connection lives, and send the relay's address, or [`RequestReader::answer`] if there is none.
    Associate,
    /// Send this, and close.
    Refuse(Vec<u8>, RequestError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    /// SOCKS5: the method has been agreed.
    Agreed,
    /// The request is complete.
    Socks,
    Http,
}

/// Reads the request of one application.
#[derive(Clone, Debug)]
pub struct RequestReader {
    bytes: Vec<u8>,
    state: State,
}

impl Default for RequestReader {
    fn default() -> Self {
        Self { bytes: Vec::new(), state: State::Start }
    }
}

/// The part of a request that is missing: more bytes, or nothing that could follow.
enum Incomplete {
    More,
    Never(RequestError),
}

impl RequestReader {
    /// Takes bytes from the application. Poll it after each call: a request is at most 8 KiB.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next step. After [`Step::Connect`], [`Step::Associate`] and [`Step::Refuse`] there is none.
    pub fn poll(&mut self) -> Step {
        let outcome = match (self.state, self.bytes.first()) {
            (_, None) => Err(Incomplete::More),
            (State::Start, Some(&SOCKS5)) => self.agree(),
            (State::Start, Some(&SOCKS4)) => Err(Incomplete::Never(RequestError::Socks4)),
            (State::Start, Some(byte)) if byte.is_ascii_uppercase() => self.http(),
            (State::Agreed, _) => self.socks(),
            _ => Err(Incomplete::Never(RequestError::Protocol)),
        };
        match outcome {
            Ok(step) => step,
            Err(Incomplete::More) => Step::Read,
            Err(Incomplete::Never(error)) => Step::Refuse(self.refusal(error), error),
        }
    }

    /// What the application is told after [`Step::Connect`].
    #[must_use]
    pub fn answer(&self, outcome: Outcome) -> Vec<u8> {
        if self.state == State::Http {
            return http_answer(outcome);
        }
        // RFC 1928 §6.
        socks_answer(match outcome {
            Outcome::Connected => 0,
            Outcome::Failed => 1,
            Outcome::NotAllowed => 2,
            Outcome::NoName | Outcome::Unreachable => 4,
            Outcome::Refused => 5,
        })
    }

    /// Bytes that followed the request: the first ones of the connection.
    #[must_use]
    pub fn into_rest(self) -> Vec<u8> {
        self.bytes
    }

    fn refusal(&self, error: RequestError) -> Vec<u8> {
        match error {
            RequestError::Protocol => Vec::new(),
            // "Request rejected" of SOCKS4.
            RequestError::Socks4 => vec![0, 0x5b, 0, 0, 0, 0, 0, 0],
            RequestError::Password => vec![SOCKS5, NO_METHOD],
            RequestError::Command(_) => socks_answer(7),
            RequestError::AddressType(_) => socks_answer(8),
            RequestError::Method => http_status("405 Only CONNECT"),
            RequestError::TooLong => http_status("431 Request Header Fields Too Large"),
            RequestError::Destination if self.state == State::Start => {
                http_status("400 No valid host and port")
            }
            RequestError::Destination => socks_answer(1),
        }
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.bytes.split_off(count);
        std::mem::replace(&mut self.bytes, rest)
    }

    /// RFC 1928 §3: version, number of methods, methods.
    fn agree(&mut self) -> Result<Step, Incomplete> {
        let count = usize::from(*self.bytes.get(1).ok_or(Incomplete::More)?);
        let methods = self.bytes.get(2..2 + count).ok_or(Incomplete::More)?;
        if !methods.contains(&NO_AUTHENTICATION) {
            return Err(Incomplete::Never(RequestError::Password));
        }
        self.take(2 + count);
        self.state = State::Agreed;
        Ok(Step::Send(vec![SOCKS5, NO_AUTHENTICATION]))
    }

    /// RFC 1928 §4 and §5: version, command, reserved, address type, address, port.
    fn socks(&mut self) -> Result<Step, Incomplete> {
        let at = |at: usize| self.bytes.get(at).copied().ok_or(Incomplete::More);
        if at(0)? != SOCKS5 {
            return Err(Incomplete::Never(RequestError::Protocol));
        }
        let command = at(1)?;
        if command != CONNECT && command != UDP_ASSOCIATE {
            return Err(Incomplete::Never(RequestError::Command(command)));
        }
        let (address, port, end) = socks_address(&self.bytes, 3)?;
        let step = match command {
            CONNECT => Step::Connect(destination(host(&address)?, port)?),
            // Its address is where the datagrams will come from, which applications seldom know (RFC 1928 §4).
            _ => Step::Associate,
        };
        self.take(end);
        self.state = State::Socks;
        Ok(step)
    }

    fn http(&mut self) -> Result<Step, Incomplete> {
        const METHOD: &[u8] = b"CONNECT ";
        let start = METHOD.len().min(self.bytes.len());
        if self.bytes[..start] != METHOD[..start] {
            return Err(Incomplete::Never(RequestError::Method));
        }
        let head = &self.bytes[..self.bytes.len().min(MAX_HEAD)];
        let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") else {
            let is_full = self.bytes.len() >= MAX_HEAD;
            return Err(if is_full { Incomplete::Never(RequestError::TooLong) } else { Incomplete::More });
        };
        let never = || Incomplete::Never(RequestError::Destination);
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(|_| never())?;
        let mut words = line.split(' ').skip(1);
        let (Some(authority), Some("HTTP/1.1" | "HTTP/1.0"), None) =
            (words.next(), words.next(), words.next())
        else {
            return Err(never());
        };
        let (host, port) = authority.rsplit_once(':').ok_or_else(never)?;
        let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
        let port = port.parse().ok().filter(|_| !is_bare_ipv6).ok_or_else(never)?;
        let step = Step::Connect(destination(read_host(host.as_bytes())?, port)?);
        self.take(end + 4);
        self.state = State::Http;
        Ok(step)
    }
}

/// An address of SOCKS5, as it is written.
enum SocksAddress<'a> {
    Ip(IpAddr),
    Name(&'a [u8]),
}

/// RFC 1928 §5: the address type at this place, then address and port; and where they end.
fn socks_address(bytes: &[u8], kind: usize) -> Result<(SocksAddress<'_>, u16, usize), Incomplete> {
    let at = |at: usize| bytes.get(at).copied().ok_or(Incomplete::More);
    let (from, length) = match at(kind)? {
        IPV4 => (kind + 1, 4),
        IPV6 => (kind + 1, 16),
        NAME => (kind + 2, usize::from(at(kind + 1)?)),
        other => return Err(Incomplete::Never(RequestError::AddressType(other))),
    };
    let end = from + length;
    let port = u16::from_be_bytes([at(end)?, at(end + 1)?]);
    let text = &bytes[from..end];
    let address = match (bytes[kind], <[u8; 4]>::try_from(text), <[u8; 16]>::try_from(text)) {
        (IPV4, Ok(four), _) => SocksAddress::Ip(four.into()),
        (IPV6, _, Ok(six)) => SocksAddress::Ip(six.into()),
        _ => SocksAddress::Name(text),
    };
    Ok((address, port, end + 2))
}

fn host(address: &SocksAddress<'_>) -> Result<Host, Incomplete> {
    match address {
        SocksAddress::Ip(address) => Ok(Host::Address(*address)),
        SocksAddress::Name(text) => read_host(text),
    }
}

/// The answer to UDP ASSOCIATE: where datagrams are to be sent. RFC 1928 §6.
pub(super) fn associated(address: SocketAddr) -> Vec<u8> {
    let mut answer = vec![SOCKS5, 0, 0];
    push_address(&mut answer, &address.into());
    answer
}

/// The destination of a datagram of an application, and its payload; `None` for one that is to be dropped. RFC 1928 §7: two reserved
/// bytes, the number of a fragment, which an implementation may refuse, the destination, and the data.
pub(super) fn read_datagram(datagram: &[u8]) -> Option<(Destination, &[u8])> {
    let (address, port, end) = socks_address(datagram, 3).ok()?;
    let is_whole = datagram[2] == 0;
    let destination = destination(host(&address).ok()?, port).ok()?;
    is_whole.then(|| (destination, &datagram[end..]))
}

/// Appends a datagram for an application, with its source in front.
pub(super) fn write_datagram(out: &mut Vec<u8>, source: &Destination, payload: &[u8]) {
    out.extend_from_slice(&[0, 0, 0]);
    push_address(out, source);
    out.extend_from_slice(payload);
}

/// RFC 1928 §5: type, address, port.
fn push_address(bytes: &mut Vec<u8>, Destination { host, port }: &Destination) {
    match host {
        Host::Address(IpAddr::V4(four)) => bytes.extend_from_slice(&[&[IPV4], &four.octets()[..]].concat()),
        Host::Address(IpAddr::V6(six)) => bytes.extend_from_slice(&[&[IPV6], &six.octets()[..]].concat()),
        Host::Name(name) => {
            bytes.extend_from_slice(&[NAME, name.as_str().len() as u8]);
            bytes.extend_from_slice(name.as_str().as_bytes());
        }
    }
    bytes.extend_from_slice(&port.to_be_bytes());
}

fn read_host(text: &[u8]) -> Result<Host, Incomplete> {
    let host = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    host.ok_or(Incomplete::Never(RequestError::Destination))
}

fn destination(host: Host, port: u16) -> Result<Destination, Incomplete> {
    if port == 0 { Err(Incomplete::Never(RequestError::Destination)) } else { Ok(Destination { host, port }) }
}

/// RFC 1928 §6. The bound address is not known: it is the server's.
fn socks_answer(code: u8) -> Vec<u8> {
    vec![SOCKS5, code, 0, IPV4, 0, 0, 0, 0, 0, 0]
}

fn http_answer(outcome: Outcome) -> Vec<u8> {
    let status = match outcome {
        Outcome::Connected => return b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec(),
        Outcome::NotAllowed => "403 The server does not allow this destination (serve --allow)",
        Outcome::NoName => "502 The server cannot resolve the name",
        Outcome::Unreachable => "504 The destination does not answer",
        Outcome::Refused => "502 The destination refused the connection",
        Outcome::Failed => "503 No session with the server",
    };
    http_status(status)
}

fn http_status(status: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
}

#[cfg(test)]
mod tests;
