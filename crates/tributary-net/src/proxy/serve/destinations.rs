//! The server's side of destinations that applications choose: resolve, judge, connect or send to the address that was judged.
//!
//! Not here: the rules (`allow`), places for connections, and relaying (`serve`).

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::allow::{AllowRules, special};
use crate::destination::{Destination, Host, HostName};
use crate::places::{Full, Shares, Source};
use crate::proxy::{intake, relay};

/// Limit on names that are being resolved: each one occupies a thread.
const MOST_LOOKUPS: usize = 128;
/// Limit on the addresses of a name that are told to a client.
pub(super) const MOST_ADDRESSES: usize = 32;
/// Limit on the answers that are remembered for a session.
const MOST_NAMES: usize = 1024;

/// The names that a session's client has asked for, with an address each; the oldest is forgotten first. A program that
/// resolves a name connects to the address, and rules for names hold for it, too.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<VecDeque<(IpAddr, HostName)>>);

impl Names {
    fn remember(&self, name: &HostName, addresses: &[IpAddr]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for address in addresses {
            known.retain(|(other, its_name)| other != address || its_name != name);
            if known.len() >= MOST_NAMES {
                known.pop_front();
            }
            known.push_back((*address, name.clone()));
        }
    }

    fn of(&self, address: IpAddr) -> Vec<HostName> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter(|(other, _)| *other == address).map(|(_, name)| name.clone()).collect()
    }
}

/// Who asks for a destination.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub names: &'a Names,
    /// What its lookups count for.
    pub sources: &'a [Source],
    /// Its rules.
    pub allow: &'a AllowRules,
}

/// The limit on lookups.
#[derive(Debug)]
pub(super) struct Destinations {
    lookups: Shares,
}

/// Why a destination is not connected to.
#[derive(Debug, Error)]
pub(super) enum DestinationError {
    #[error("{what} is not allowed: {why}")]
    NotAllowed { what: String, why: String },
    #[error("cannot resolve {name}: {error}")]
    NoName { name: HostName, error: io::Error },
    #[error("cannot resolve another name: {0}")]
    Crowd(#[from] Full),
    #[error("{destination}: {error}")]
    Unreachable { destination: Destination, error: io::Error },
}

impl DestinationError {
    pub(super) fn code(&self) -> u32 {
        match self {
            Self::NotAllowed { .. } => relay::CODE_NOT_ALLOWED,
            Self::NoName { .. } => relay::CODE_NO_NAME,
            Self::Crowd(_) => relay::CODE_NO_MEMORY,
            Self::Unreachable { error, .. } if error.kind() == io::ErrorKind::ConnectionRefused => {
                relay::CODE_REFUSED
            }
            Self::Unreachable { .. } => relay::CODE_UNREACHABLE,
        }
    }
}

impl Destinations {
    pub(super) fn new() -> Self {
        Self { lookups: Shares::new(MOST_LOOKUPS) }
    }

    /// Connects to the destination, if it is allowed, within this time.
    pub(super) async fn connect(
        &self,
        destination: &Destination,
        asker: Asker<'_>,
        within: Duration,
    ) -> Result<TcpStream, DestinationError> {
        let connecting = async {
            let judged = self.judge(destination, asker, within).await?;
            intake::connect_to(judged.into_iter()).await.map_err(unreachable(destination))
        };
        let connected = timeout(within, connecting).await;
        connected.unwrap_or_else(|_| Err(unreachable(destination)(io::ErrorKind::TimedOut.into())))
    }

    /// The address for datagrams to the destination, if it is allowed.
    pub(super) async fn address(
        &self,
        destination: &Destination,
        asker: Asker<'_>,
        within: Duration,
    ) -> Result<SocketAddr, DestinationError> {
        let judged = self.judge(destination, asker, within).await?;
        let reached = judged.iter().find(|address| has_route(address.ip())).copied();
        reached.ok_or_else(|| unreachable(destination)(io::ErrorKind::NetworkUnreachable.into()))
    }

    /// The addresses of the destination that are allowed, at least one.
    async fn judge(
        &self,
        destination: &Destination,
        Asker { names, sources, allow }: Asker<'_>,
        within: Duration,
    ) -> Result<Vec<SocketAddr>, DestinationError> {
        refuse_all(allow, destination)?;
        let Destination { host, port } = destination;
        let (asked, addresses) = match host {
            Host::Address(address) => (names.of(*address), vec![*address]),
            Host::Name(name) => (vec![name.clone()], self.resolve(name, sources, within).await?),
        };
        let addresses: Vec<_> = addresses.into_iter().map(|ip| SocketAddr::new(ip, *port)).collect();
        let is_allowed = |address: &SocketAddr| {
            let of_names = asked.iter().any(|name| allow.allow(Some(name), *address));
            of_names || allow.allow(None, *address)
        };
        let judged: Vec<_> = addresses.iter().copied().filter(is_allowed).collect();
        if judged.is_empty() {
            let (what, why) = (destination.to_string(), reason(host, &addresses));
            return Err(DestinationError::NotAllowed { what, why });
        }
        Ok(judged)
    }

    /// The addresses of a name of which some port is allowed.
    pub(super) async fn lookup(
        &self,
        name: &HostName,
        Asker { names, sources, allow }: Asker<'_>,
        within: Duration,
    ) -> Result<Vec<IpAddr>, DestinationError> {
        refuse_all(allow, name)?;
        let all = self.resolve(name, sources, within).await?;
        let mut addresses = all.clone();
        addresses.retain(|address| allow.allow_some_port(name, *address));
        // A program that gets an address without a route here would not try the next one: its connection is accepted first.
        if addresses.iter().any(|address| has_route(*address)) {
            addresses.retain(|address| has_route(*address));
        }
        addresses.truncate(MOST_ADDRESSES);
        if addresses.is_empty() {
            let all: Vec<_> = all.into_iter().map(|address| SocketAddr::new(address, 0)).collect();
            let why = reason(&Host::Name(name.clone()), &all);
            return Err(DestinationError::NotAllowed { what: name.to_string(), why });
        }
        names.remember(name, &addresses);
        Ok(addresses)
    }

    async fn resolve(
        &self,
        name: &HostName,
        sources: &[Source],
        within: Duration,
    ) -> Result<Vec<IpAddr>, DestinationError> {
        let place = self.lookups.enter(sources)?;
        let text = name.to_string();
        // The thread goes on after the time limit, and keeps the place until it ends.
        let work = tokio::task::spawn_blocking(move || {
            let _place = place;
            std::net::ToSocketAddrs::to_socket_addrs(&(text.as_str(), 0)).map(Iterator::collect::<Vec<_>>)
        });
        let found = match timeout(within, work).await {
            Ok(Ok(found)) => found,
            Ok(Err(failed)) => Err(io::Error::other(failed)),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        let found = found.map_err(|error| DestinationError::NoName { name: name.clone(), error })?;
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in found.into_iter().map(|found| found.ip().to_canonical()) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Ok(addresses)
    }
}

fn unreachable(destination: &Destination) -> impl Fn(io::Error) -> DestinationError {
    move |error| DestinationError::Unreachable { destination: destination.clone(), error }
}

/// Without rules no names are resolved either.
fn refuse_all(allow: &AllowRules, what: &impl ToString) -> Result<(), DestinationError> {
    if allow.is_empty() {
        let why =
            "this server allows the client no destinations; see --allow and the list of clients".to_owned();
        return Err(DestinationError::NotAllowed { what: what.to_string(), why });
    }
    Ok(())
}

/// Whether packets to this address have a route. Nothing is sent.
fn has_route(address: IpAddr) -> bool {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    UdpSocket::bind((any, 0)).and_then(|socket| socket.connect((address, 9))).is_ok()
}

/// Why none of the addresses is allowed.
fn reason(host: &Host, addresses: &[SocketAddr]) -> String {
    let Some(address) = addresses.first().map(SocketAddr::ip) else { return "it has no address".to_owned() };
    let leads = match host {
        Host::Address(_) => String::new(),
        Host::Name(_) => format!("it leads to {address}; "),
    };
    match special(address) {
        Some(kind) => format!("{leads}{kind} address must be named itself, with --allow {address}"),
        None => format!("{leads}no --allow matches"),
    }
}

/// A lookup's answer on the stream: a byte for success, the number of addresses, and each with its length.
pub(super) fn encode(addresses: &[IpAddr]) -> Vec<u8> {
    let mut bytes = vec![0, addresses.len() as u8];
    for address in addresses {
        match address {
            IpAddr::V4(address) => bytes.extend_from_slice(&[&[4], &address.octets()[..]].concat()),
            IpAddr::V6(address) => bytes.extend_from_slice(&[&[16], &address.octets()[..]].concat()),
        }
    }
    bytes
}

/// Shared by the streams of one session.
pub(super) type SessionNames = Arc<Names>;

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(60);

    fn rules(rules: &[&str]) -> AllowRules {
        rules.iter().map(|rule| rule.parse::<crate::proxy::AllowRule>().unwrap()).collect()
    }

    fn to(host: &str, port: u16) -> Destination {
        Destination { host: host.parse().unwrap(), port }
    }

    #[tokio::test]
    async fn a_name_is_judged_by_its_address() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let names = Names::default();
        let attempt = async |rule: &str, host: &str, port: u16| {
            let asker = Asker { names: &names, sources: &[], allow: &rules(&[rule]) };
            let connected = Destinations::new().connect(&to(host, port), asker, WITHIN).await;
            connected.map(drop).map_err(|e| e.code())
        };
        // `localhost` stands for a name of an attacker that leads to the server itself.
        assert_eq!(attempt("any", "localhost", port).await, Err(relay::CODE_NOT_ALLOWED));
        assert_eq!(attempt("any", "127.0.0.1", port).await, Err(relay::CODE_NOT_ALLOWED));
        assert_eq!(attempt("127.0.0.1", "localhost", port).await, Ok(()));
        assert_eq!(attempt(&format!("127.0.0.1:{port}"), "127.0.0.1", port).await, Ok(()));
        assert_eq!(
            attempt(&format!("127.0.0.1:{port}"), "127.0.0.2", port).await,
            Err(relay::CODE_NOT_ALLOWED)
        );
        drop(listener);
        assert_eq!(attempt("127.0.0.1", "127.0.0.1", port).await, Err(relay::CODE_REFUSED));
        assert_eq!(attempt("any", "no-such-name.invalid", port).await, Err(relay::CODE_NO_NAME));
    }

    #[tokio::test]
    async fn only_addresses_that_are_allowed_are_told() {
        let names = Names::default();
        let name: HostName = "localhost".parse().unwrap();
        let lookup = async |allowed: &[&str]| {
            let asker = Asker { names: &names, sources: &[], allow: &rules(allowed) };
            Destinations::new().lookup(&name, asker, WITHIN).await
        };
        let error = lookup(&["any"]).await.unwrap_err();
        assert_eq!(error.code(), relay::CODE_NOT_ALLOWED);
        assert!(error.to_string().contains("loopback"), "{error}");
        let found = lookup(&["127.0.0.1:80"]).await.unwrap();
        assert_eq!(encode(&found), [0, 1, 4, 127, 0, 0, 1]);
        let error = lookup(&[]).await.unwrap_err();
        assert!(error.to_string().contains("--allow"), "{error}");
    }

    #[test]
    fn the_names_of_addresses_are_remembered_within_a_bound() {
        let names = Names::default();
        let name = |n: u32| format!("n{n}.org").parse::<HostName>().unwrap();
        let address = |n: u32| IpAddr::from(Ipv4Addr::from_bits(n));
        (0..=MOST_NAMES as u32).for_each(|n| names.remember(&name(n), &[address(n)]));
        assert_eq!(names.of(address(0)), []);
        assert_eq!(names.of(address(1)), [name(1)]);
        names.remember(&name(2), &[address(1)]);
        names.remember(&name(2), &[address(1)]);
        assert_eq!(names.of(address(1)), [name(2)], "the oldest was forgotten");
    }
}
