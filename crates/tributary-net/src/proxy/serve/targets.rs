//! Where streams and flows of sessions are connected to: the rules in force, the list of clients, and the places for connections.
//!
//! Not here: which streams there are, and what is carried over a connection.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::super::ProxyError;
use super::super::intake;
use super::super::relay::{CODE_NO_MEMORY, CODE_NOT_ALLOWED, CODE_UNKNOWN_TARGET, CODE_UNREACHABLE};
use super::super::target::{Head, HeadError, Target, TargetName};
use super::super::watch::{DestinationOpen, Watch};
use super::destinations::{self, Asker, DestinationError, Destinations, SessionNames};
use super::rules::{Rules, ServeRules};
use crate::allow::AllowRules;
use crate::clients::{self, Clients, Throttle};
use crate::destination::Destination;
use crate::flow::Flow;
use crate::identity::PublicKey;
use crate::places::{Full, Shares, Source};
use crate::rate_limited::RateLimited;
use crate::stream::Stream;

/// Time for a stream's head to arrive, and for a target to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// The targets that streams are connected to.
#[derive(Debug)]
pub(super) struct Targets {
    rules: RwLock<Arc<Rules>>,
    /// Time limit for a target to accept a connection.
    within: Duration,
    /// Log of all failures but those of a target.
    unknown: RateLimited,
    destinations: Destinations,
    not_allowed: RateLimited,
    /// The list of clients, if each has a key of its own.
    pub(super) clients: Option<Clients>,
    /// For the status: the destinations of open connections.
    pub(super) watch: Watch,
    /// Connections to targets, shared by session and by client address.
    pub(super) places: Shares,
}

/// Why a stream could not be connected.
#[derive(Debug, Error)]
pub(super) enum OpenError {
    #[error(transparent)]
    Head(#[from] HeadError),
    #[error("the client named no target within {CONNECT:?}")]
    NoHead,
    #[error("this server has no target `{0}`")]
    Unknown(TargetName),
    #[error("this server has only named targets, and the client named none")]
    Unnamed,
    #[error("this server forwards no datagrams; see --udp")]
    NoUdp,
    #[error("the list of clients does not let client {client} select the target `{target}`")]
    NotForClient { client: String, target: String },
    #[error("its client is no longer in the list of clients")]
    Revoked,
    #[error("no memory is left for another connection of this session; see --memory")]
    NoMemory,
    #[error(
        "no place for another connection to a target: {0}; the descriptor limit sets their number (ulimit -n)"
    )]
    Crowd(#[from] Full),
    #[error("{from}: {error}")]
    Destination { from: SocketAddr, error: DestinationError },
    #[error("target {target} is unreachable: {error}")]
    Unreachable { target: String, error: std::io::Error, index: usize },
}

impl OpenError {
    /// Whether nothing listens at the other end.
    pub(super) fn is_refusal(&self) -> bool {
        let (Self::Unreachable { error, .. }
        | Self::Destination { error: DestinationError::Unreachable { error, .. }, .. }) = self
        else {
            return false;
        };
        error.kind() == std::io::ErrorKind::ConnectionRefused
    }

    pub(super) fn code(&self) -> u32 {
        match self {
            Self::Unreachable { .. } => CODE_UNREACHABLE,
            Self::Destination { error, .. } => error.code(),
            Self::NoMemory | Self::Crowd(_) => CODE_NO_MEMORY,
            Self::NotForClient { .. } | Self::Revoked => CODE_NOT_ALLOWED,
            _ => CODE_UNKNOWN_TARGET,
        }
    }
}

/// Whose stream it is.
pub(super) struct Client {
    /// The address of the session's first connection.
    pub(super) from: SocketAddr,
    /// Its key in the list of clients.
    pub(super) key: Option<PublicKey>,
    /// What its connections and lookups count for.
    pub(super) sources: Vec<Source>,
    pub(super) names: SessionNames,
    pub(super) throttle: Option<Arc<Throttle>>,
}

/// What a stream gets.
pub(super) enum Opened {
    Target(TcpStream),
    /// The client waits for a byte that says so.
    Destination(TcpStream, DestinationOpen),
    /// The answer to a lookup.
    Answer(Vec<u8>),
}

/// Where a flow of datagrams leads.
pub(super) enum FlowTo {
    /// The index of a target.
    Target(usize),
    Destination(Destination, DestinationOpen),
}

impl Targets {
    /// `most` connections to targets at a time.
    pub(super) fn new(rules: Rules, clients: Option<Clients>, watch: Watch, most: usize) -> Self {
        Self {
            rules: RwLock::new(Arc::new(rules)),
            within: CONNECT,
            unknown: RateLimited::default(),
            destinations: Destinations::new(),
            not_allowed: RateLimited::default(),
            clients,
            watch,
            places: Shares::new(most),
        }
    }

    /// The rules that are in force now.
    pub(super) fn rules(&self) -> Arc<Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces them, for connections that come from now on.
    pub(super) fn replace_rules(&self, rules: ServeRules) -> Result<(), ProxyError> {
        let rules = Arc::new(Rules::new(rules, self.clients.is_some())?);
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        Ok(())
    }

    /// Does what the stream's head asks for.
    pub(super) async fn open(
        &self,
        rules: &Rules,
        stream: &mut Stream,
        client: &Client,
    ) -> Result<Opened, OpenError> {
        let ServeRules { targets, allow, priorities, .. } = &rules.settings;
        let entry = self.entry(client.key)?;
        let asker = asker(client, entry.as_deref(), allow);
        let refused = |error| OpenError::Destination { from: client.from, error };
        let head = timeout(CONNECT, Head::read_with_code_point(stream)).await;
        let (head, dscp) = head.map_err(|_| OpenError::NoHead)??;
        match head {
            Head::Target(name) => {
                let index = find(targets, name.as_ref())?;
                let target = &targets[index];
                check_target(entry.as_deref(), target)?;
                priorities.of(target.port, target.name.as_ref(), Some(dscp)).apply(stream);
                Ok(Opened::Target(self.connect(target, index).await?))
            }
            Head::Destination(destination) => {
                priorities.of(destination.port, None, Some(dscp)).apply(stream);
                let shown = self.watch.open(&destination);
                let tcp = self.destinations.connect(&destination, asker, self.within).await;
                Ok(Opened::Destination(tcp.map_err(refused)?, shown))
            }
            Head::Lookup(name) => {
                let addresses = self.destinations.lookup(&name, asker, self.within).await;
                Ok(Opened::Answer(destinations::encode(&addresses.map_err(refused)?)))
            }
        }
    }

    /// The client's entry as it is now in the list; `None` when all clients have the same key.
    fn entry(&self, key: Option<PublicKey>) -> Result<Option<Arc<clients::Client>>, OpenError> {
        let Some((key, clients)) = key.zip(self.clients.as_ref()) else { return Ok(None) };
        clients.find(&key).map(Some).ok_or(OpenError::Revoked)
    }

    /// Connects to a target.
    async fn connect(&self, target: &Target, index: usize) -> Result<TcpStream, OpenError> {
        let connected = timeout(self.within, intake::connect(address(target))).await;
        let connected = connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        connected.map_err(|error| unreachable(target, error, index))
    }

    /// Where the first datagram of a flow says that it leads, and the address.
    pub(super) async fn resolve(
        &self,
        rules: &Rules,
        flow: &Flow,
        client: &Client,
    ) -> Result<(SocketAddr, FlowTo), OpenError> {
        let ServeRules { udp, allow, priorities, .. } = &rules.settings;
        let entry = self.entry(client.key)?;
        let first = timeout(CONNECT, flow.recv_datagram()).await;
        let Ok(Ok(Some(first))) = first else { return Err(OpenError::NoHead) };
        match Head::read(&mut &first.bytes[..]).await? {
            Head::Target(_) if udp.is_empty() => Err(OpenError::NoUdp),
            Head::Target(name) => {
                let index = find(udp, name.as_ref())?;
                let target = &udp[index];
                check_target(entry.as_deref(), target)?;
                flow.configure(priorities.of_flow(target.port, target.name.as_ref()));
                let found = timeout(self.within, lookup_host(address(target))).await;
                let found = found.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
                let found =
                    found.and_then(|mut all| all.next().ok_or_else(|| std::io::ErrorKind::NotFound.into()));
                let address = found.map_err(|error| udp_unreachable(rules, index, error))?;
                Ok((address, FlowTo::Target(index)))
            }
            Head::Destination(destination) => {
                flow.configure(priorities.of_flow(destination.port, None));
                let shown = self.watch.open(&destination);
                let asker = asker(client, entry.as_deref(), allow);
                let address = self.destinations.address(&destination, asker, self.within).await;
                let refused = |error| OpenError::Destination { from: client.from, error };
                Ok((address.map_err(refused)?, FlowTo::Destination(destination, shown)))
            }
            Head::Lookup(_) => Err(OpenError::NoUdp),
        }
    }

    pub(super) fn tell(&self, rules: &Rules, error: &OpenError) {
        let limited = match error {
            OpenError::Unreachable { index, .. } => &rules.failures[*index],
            OpenError::Destination { error: DestinationError::NotAllowed { .. }, .. } => &self.not_allowed,
            _ => &self.unknown,
        };
        limited.tell(|more| tracing::warn!("connection refused: {error}{more}"));
    }
}

/// Who asks for a destination, with the rules of its entry in the list of clients, or else those of all.
fn asker<'a>(client: &'a Client, entry: Option<&'a clients::Client>, all: &'a AllowRules) -> Asker<'a> {
    let allow = entry.and_then(|entry| entry.allow.as_ref()).unwrap_or(all);
    Asker { names: &client.names, sources: &client.sources, allow }
}

pub(super) fn udp_unreachable(rules: &Rules, index: usize, error: std::io::Error) -> OpenError {
    let ServeRules { targets, udp, .. } = &rules.settings;
    unreachable(&udp[index], error, targets.len() + index)
}

fn unreachable(target: &Target, error: std::io::Error, index: usize) -> OpenError {
    OpenError::Unreachable { target: target.to_string(), error, index }
}

/// The target with the name that a client gives. Without a name it is the unnamed target, or the only one.
fn find(targets: &[Target], name: Option<&TargetName>) -> Result<usize, OpenError> {
    let found = targets.iter().position(|target| target.name.as_ref() == name);
    match (found, name) {
        (Some(index), _) => Ok(index),
        (None, Some(name)) => Err(OpenError::Unknown(name.clone())),
        (None, None) if targets.len() == 1 => Ok(0),
        (None, None) => Err(OpenError::Unnamed),
    }
}

/// Whether the list of clients lets this client select the target.
fn check_target(client: Option<&clients::Client>, target: &Target) -> Result<(), OpenError> {
    let Some((client, allowed)) = client.and_then(|client| Some((client, client.forward.as_ref()?))) else {
        return Ok(());
    };
    let name = target.name.as_ref().map(ToString::to_string).unwrap_or_default();
    match allowed.contains(&name) {
        true => Ok(()),
        false => Err(OpenError::NotForClient { client: client.name.clone(), target: name }),
    }
}

/// The form that the resolver accepts.
fn address(target: &Target) -> (String, u16) {
    (target.host.trim_matches(['[', ']']).to_owned(), target.port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockopt::silent_listener;

    #[tokio::test]
    async fn a_connection_attempt_to_a_silent_target_ends_after_the_time_limit() {
        let (_silent, address) = silent_listener().await;
        let target: Target = address.to_string().parse().unwrap();
        let rules = ServeRules { targets: vec![target.clone()], ..ServeRules::default() };
        let mut targets = Targets::new(Rules::new(rules, false).unwrap(), None, Watch::new(None), 1);
        assert_eq!(targets.within, CONNECT);
        targets.within = Duration::from_millis(100);
        let error = targets.connect(&target, 0).await.unwrap_err();
        assert_eq!(error.code(), CODE_UNREACHABLE);
        let OpenError::Unreachable { error, .. } = &error else { panic!("{error}") };
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    }
}
