//! The server side of the proxy: every stream becomes a TCP connection to the target or destination that it names.

mod destinations;
mod rules;

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use destinations::{Asker, DestinationError, Destinations, SessionNames};
use rules::{Rules, find};

pub use rules::ServeRules;

use super::drain::{self, Drain, Drained, Ticket};
use super::event_log::{EventLog, EventLogConfig};
use super::intake;
use super::relay::{
    self, CODE_ENDING, CODE_NO_MEMORY, CODE_NOT_ALLOWED, CODE_REFUSED, CODE_UNKNOWN_TARGET, CODE_UNREACHABLE,
    Peer,
};
use super::target::{Head, HeadError, Target, TargetName};
use super::throttle::{Throttle, Throttles};
use super::udp;
use super::watch::{DestinationOpen, Watch};
use super::{PriorityRules, ProxyError};
use crate::allow::AllowRules;
use crate::budget::Budget;
use crate::clients::{self, Clients};
use crate::config::ListenConfig;
use crate::destination::Destination;
use crate::flow::Flow;
use crate::identity::PublicKey;
use crate::listener::{self, Listener};
use crate::places::{Full, Shares, Source};
use crate::rate_limited::RateLimited;
use crate::session::Session;
use crate::shared::{CODE_REPLACED, CODE_REVOKED};
use crate::sockopt;
use crate::stream::Stream;

/// Time for a stream's head to arrive, and for a target to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Number of connections to targets when the limit of descriptors is unknown.
const FEW_TARGETS: usize = 512;

/// Settings of the server side.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Addresses and settings for incoming sessions.
    pub listen: ListenConfig,
    /// One target, or several of which at most one has no name; none only with `allow`.
    pub targets: Vec<Target>,
    /// Destinations that applications may choose; the default allows none.
    pub allow: AllowRules,
    /// Which data of this end is sent first: rules by the target's port or name.
    pub priorities: PriorityRules,
    /// File that gets a line of JSON for every event of the sessions.
    pub json_events: Option<EventLogConfig>,
}

impl ServeConfig {
    /// Carries streams to these targets and to no other destination, all with the same priority.
    #[must_use]
    pub fn new(listen: ListenConfig, targets: Vec<Target>) -> Self {
        let (allow, priorities) = (AllowRules::default(), PriorityRules::default());
        Self { listen, targets, allow, priorities, json_events: None }
    }

    /// Checks the settings without listening; `udp` are the targets of datagrams.
    ///
    /// # Errors
    /// [`ProxyError`]: a wrong setting.
    pub fn check(&self, udp: &[Target]) -> Result<(), ProxyError> {
        listener::check(&self.listen)?;
        let (targets, allow, priorities) =
            (self.targets.clone(), self.allow.clone(), self.priorities.clone());
        let rules = ServeRules { targets, udp: udp.to_vec(), allow, priorities };
        Rules::new(rules, self.listen.common.keys.clients().is_some()).map(drop)
    }
}

/// The server side, listening.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    targets: Arc<Targets>,
    watch: Watch,
    log: Option<EventLog>,
}

/// The targets that streams are connected to.
#[derive(Debug)]
struct Targets {
    rules: RwLock<Arc<Rules>>,
    /// Time limit for a target to accept a connection.
    within: Duration,
    /// Log of all failures but those of a target.
    unknown: RateLimited,
    destinations: Destinations,
    not_allowed: RateLimited,
    /// The list of clients, if each has a key of its own.
    clients: Option<Clients>,
    throttles: Throttles,
    /// For the status: the destinations of open connections.
    watch: Watch,
    /// Connections to targets, shared by session and by client address.
    places: Shares,
}

/// Changes a running server. It does not keep the server running.
#[derive(Clone, Debug)]
pub struct ServerControl {
    targets: Arc<Targets>,
    budget: Arc<Budget>,
}

impl ServerControl {
    /// The rules that are in force.
    #[must_use]
    pub fn rules(&self) -> ServeRules {
        self.targets.rules().settings.clone()
    }

    /// Replaces the rules, for connections that come from now on. Open ones keep what they have.
    ///
    /// # Errors
    /// [`ProxyError`]: a wrong setting; nothing is changed then.
    pub fn replace_rules(&self, rules: ServeRules) -> Result<(), ProxyError> {
        let rules = Arc::new(Rules::new(rules, self.targets.clients.is_some())?);
        *self.targets.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        Ok(())
    }

    /// Replaces [`Limits::memory`](crate::Limits::memory). Sessions beyond a smaller limit go on, and give memory back as they
    /// would when others need it.
    pub fn set_memory(&self, bytes: u64) {
        self.budget.set_total(bytes);
    }
}

/// Why a stream could not be connected.
#[derive(Debug, Error)]
enum OpenError {
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

impl Server {
    /// Listens; nothing is accepted until [`Self::run`].
    ///
    /// Cancellation: dropping the future listens nowhere.
    ///
    /// # Errors
    /// [`ProxyError`].
    pub async fn bind(config: ServeConfig) -> Result<Self, ProxyError> {
        let clients = config.listen.common.keys.clients().cloned();
        let ServeConfig { targets, allow, priorities, .. } = config;
        let rules = ServeRules { targets, udp: Vec::new(), allow, priorities };
        let rules = Rules::new(rules, clients.is_some())?;
        let most = places_for_targets(sockopt::raise_descriptor_limit().ok());
        let mut listen = config.listen;
        let unsent = &mut listen.common.session.unsent;
        *unsent = intake::of_the_session(*unsent);
        let log = match &config.json_events {
            Some(log) => {
                listen.common.session.telemetry = log.decisions;
                Some(EventLog::create(log).await?)
            }
            None => None,
        };
        let listener = Listener::bind_keeping_events(listen, log.is_some()).await?;
        let watch = Watch::new(Some(listener.budget()));
        let targets = Arc::new(Targets::new(rules, clients, watch.clone(), most));
        Ok(Self { listener, targets, watch, log })
    }

    /// Also forwards the datagrams of flows to these targets. Without them flows lead to allowed destinations only.
    ///
    /// # Errors
    /// [`ProxyError::Targets`].
    pub fn with_udp(self, udp: Vec<Target>) -> Result<Self, ProxyError> {
        let settings = ServeRules { udp, ..self.targets.rules().settings.clone() };
        self.control().replace_rules(settings)?;
        Ok(self)
    }

    /// The addresses it listens on.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        self.listener.addresses()
    }

    /// Changes it while it runs.
    #[must_use]
    pub fn control(&self) -> ServerControl {
        ServerControl { targets: self.targets.clone(), budget: self.listener.budget() }
    }

    /// The status of the running proxy.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Serves until the future is dropped, which resets every connection.
    pub async fn run(self) {
        self.run_until(std::future::pending(), Duration::ZERO).await;
    }

    /// Serves until `stop`. Then no new session and no new stream is accepted, and existing connections have the
    /// time `drain` to finish. After that the others are reset and the sessions are closed. It returns at most two
    /// seconds after that time.
    ///
    /// Cancellation: dropping the future resets every connection.
    pub async fn run_until(mut self, stop: impl Future<Output = ()>, drain: Duration) -> Drained {
        let connections = Arc::new(Drain::new());
        let mut sessions = JoinSet::new();
        let mut sampling = JoinSet::new();
        sampling.spawn(self.watch().sample());
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let Some((session, from)) = accepted else { break };
                    let client = session.client().map(|client| format!(" by client {}", client.name));
                    tracing::info!(%from, "session {} opened{}", name(&session), client.unwrap_or_default());
                    self.watch.add(&session, Some(from));
                    if let Some(log) = &self.log {
                        log.follow(&session);
                    }
                    sessions.spawn(serve_session(session, from, self.targets.clone(), connections.clone()));
                    while sessions.try_join_next().is_some() {}
                }
                () = &mut stop => break,
            }
        }
        drop(self.listener);
        let deadline = Instant::now() + drain;
        tracing::info!(connections = connections.open(), "ending; connections have {drain:?} to finish");
        let reset = connections.finish(deadline).await;
        connections.close_sessions(deadline);
        let mut drained = Drained { reset, undelivered: 0 };
        while let Some(undelivered) = sessions.join_next().await {
            drained.undelivered += undelivered.unwrap_or_default();
        }
        if let Some(log) = &self.log {
            log.finish().await;
        }
        drained
    }
}

/// Serves one session. Returns the bytes that could not be delivered to the client when the proxy ended.
async fn serve_session(
    session: Session,
    from: SocketAddr,
    targets: Arc<Targets>,
    connections: Arc<Drain>,
) -> u64 {
    let key = session.client().map(|client| client.key);
    let client = Arc::new(Client {
        from,
        key,
        sources: [Source::of_client(key, from)]
            .into_iter()
            .chain(session.tag().map(Source::Session))
            .collect(),
        names: SessionNames::default(),
        throttle: key.zip(targets.clients.as_ref()).map(|(key, all)| targets.throttles.of(all, key)),
    });
    loop {
        tokio::select! {
            flow = session.accept_flow() => {
                let Some(flow) = flow else { break };
                if connections.is_draining() {
                    flow.reset(CODE_ENDING);
                    continue;
                }
                tokio::spawn(serve_flow(flow, targets.clone(), client.clone(), connections.ticket()));
            }
            stream = session.accept_stream() => {
                let Ok(mut stream) = stream else { break };
                if connections.is_draining() {
                    stream.reset(CODE_ENDING);
                    continue;
                }
                tokio::spawn(serve_stream(stream, targets.clone(), client.clone(), connections.ticket()));
            }
            deadline = connections.closing() => return drain::close(&session, deadline).await,
        }
    }
    let closed = session.closed().await;
    targets.watch.end(&session);
    match closed.code {
        0 => tracing::info!(%from, "session {} ended", name(&session)),
        // The listener says so, at most once in ten seconds.
        CODE_REPLACED | CODE_REVOKED => tracing::debug!(%from, "session {}: {closed}", name(&session)),
        _ => tracing::warn!(%from, "session {}: {closed}", name(&session)),
    }
    0
}

fn name(session: &Session) -> String {
    session.name().unwrap_or_default()
}

/// Whose stream it is.
struct Client {
    /// The address of the session's first connection.
    from: SocketAddr,
    /// Its key in the list of clients.
    key: Option<PublicKey>,
    /// What its connections and lookups count for.
    sources: Vec<Source>,
    names: SessionNames,
    throttle: Option<Arc<Throttle>>,
}

/// What a stream gets.
enum Opened {
    Target(TcpStream),
    /// The client waits for a byte that says so.
    Destination(TcpStream, DestinationOpen),
    /// The answer to a lookup.
    Answer(Vec<u8>),
}

/// Where a flow of datagrams leads.
enum FlowTo {
    /// The index of a target.
    Target(usize),
    Destination(Destination, DestinationOpen),
}

/// Serves one stream of a session.
async fn serve_stream(mut stream: Stream, targets: Arc<Targets>, client: Arc<Client>, mut ticket: Ticket) {
    let place = targets.places.enter(&client.sources).map_err(OpenError::from);
    let place = place.and_then(|place| Ok((place, stream.carried_on().ok_or(OpenError::NoMemory)?)));
    let rules = targets.rules();
    let _place = match place {
        Ok(place) => place,
        Err(error) => {
            targets.tell(&rules, &error);
            return stream.reset(error.code());
        }
    };
    let ended = stream.session_ended();
    let opened = tokio::select! {
        opened = targets.open(&rules, &mut stream, &client) => opened,
        () = ticket.cut() => return stream.reset(CODE_ENDING),
        // A session whose memory is needed must not hold it until a silent target has been given up.
        () = ended.given_up() => return,
    };
    let (tcp, _shown) = match opened {
        Ok(Opened::Target(tcp)) => (tcp, None),
        Ok(Opened::Destination(tcp, shown)) => {
            if stream.write_chunk(Bytes::from_static(&[0])).await.is_err() {
                return;
            }
            (tcp, Some(shown))
        }
        Ok(Opened::Answer(answer)) => {
            if stream.write_chunk(answer.into()).await.is_ok() {
                let _ = stream.finish();
            }
            return;
        }
        Err(error) => {
            targets.tell(&rules, &error);
            return stream.reset(error.code());
        }
    };
    relay::prepare(&tcp);
    if let Err(error) = relay::relay(tcp, stream, Peer::Target, client.throttle.as_deref(), &mut ticket).await
    {
        tracing::debug!(%error, "connection reset");
    }
}

/// Serves one flow of datagrams, as [`serve_stream`]. A flow has no end that could be waited for, so it ends when the proxy begins to.
async fn serve_flow(flow: Flow, targets: Arc<Targets>, client: Arc<Client>, mut ticket: Ticket) {
    let rules = targets.rules();
    let served = async {
        let _place = targets.places.enter(&client.sources)?;
        let _memory = flow.carried_on().ok_or(OpenError::NoMemory)?;
        let (address, to) = targets.resolve(&rules, &flow, &client).await?;
        let served = udp::serve(&flow, address, client.throttle.as_deref()).await;
        served.map_err(|error| match to {
            FlowTo::Target(index) => udp_unreachable(&rules, index, error),
            FlowTo::Destination(destination, _shown) => {
                let error = DestinationError::Unreachable { destination, error };
                OpenError::Destination { from: client.from, error }
            }
        })
    };
    tokio::select! {
        outcome = served => {
            if let Err(error) = outcome {
                targets.tell(&rules, &error);
                flow.reset(if error.is_refusal() { CODE_REFUSED } else { error.code() });
            }
        }
        () = ticket.draining() => flow.reset(CODE_ENDING),
    }
}

impl OpenError {
    /// Whether nothing listens at the other end.
    fn is_refusal(&self) -> bool {
        let (Self::Unreachable { error, .. }
        | Self::Destination { error: DestinationError::Unreachable { error, .. }, .. }) = self
        else {
            return false;
        };
        error.kind() == std::io::ErrorKind::ConnectionRefused
    }

    fn code(&self) -> u32 {
        match self {
            Self::Unreachable { .. } => CODE_UNREACHABLE,
            Self::Destination { error, .. } => error.code(),
            Self::NoMemory | Self::Crowd(_) => CODE_NO_MEMORY,
            Self::NotForClient { .. } | Self::Revoked => CODE_NOT_ALLOWED,
            _ => CODE_UNKNOWN_TARGET,
        }
    }
}

impl Targets {
    /// `most` connections to targets at a time.
    fn new(rules: Rules, clients: Option<Clients>, watch: Watch, most: usize) -> Self {
        Self {
            rules: RwLock::new(Arc::new(rules)),
            within: CONNECT,
            unknown: RateLimited::default(),
            destinations: Destinations::new(),
            not_allowed: RateLimited::default(),
            clients,
            throttles: Throttles::default(),
            watch,
            places: Shares::new(most),
        }
    }

    /// The rules that are in force now.
    fn rules(&self) -> Arc<Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does what the stream's head asks for.
    async fn open(&self, rules: &Rules, stream: &mut Stream, client: &Client) -> Result<Opened, OpenError> {
        let ServeRules { targets, allow, priorities, .. } = &rules.settings;
        let entry = self.entry(client.key)?;
        let asker = asker(client, entry.as_deref(), allow);
        let refused = |error| OpenError::Destination { from: client.from, error };
        match timeout(CONNECT, Head::read(stream)).await.map_err(|_| OpenError::NoHead)?? {
            Head::Target(name) => {
                let index = find(targets, name.as_ref())?;
                let target = &targets[index];
                check_target(entry.as_deref(), target)?;
                stream.set_priority(priorities.of(target.port, target.name.as_ref(), None));
                Ok(Opened::Target(self.connect(target, index).await?))
            }
            Head::Destination(destination) => {
                stream.set_priority(priorities.of(destination.port, None, None));
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
    async fn resolve(
        &self,
        rules: &Rules,
        flow: &Flow,
        client: &Client,
    ) -> Result<(SocketAddr, FlowTo), OpenError> {
        let ServeRules { udp, allow, .. } = &rules.settings;
        let entry = self.entry(client.key)?;
        let first = timeout(CONNECT, flow.recv_datagram()).await;
        let Ok(Ok(Some(first))) = first else { return Err(OpenError::NoHead) };
        match Head::read(&mut &first.bytes[..]).await? {
            Head::Target(_) if udp.is_empty() => Err(OpenError::NoUdp),
            Head::Target(name) => {
                let index = find(udp, name.as_ref())?;
                let target = &udp[index];
                check_target(entry.as_deref(), target)?;
                let found = timeout(self.within, lookup_host(address(target))).await;
                let found = found.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
                let found =
                    found.and_then(|mut all| all.next().ok_or_else(|| std::io::ErrorKind::NotFound.into()));
                let address = found.map_err(|error| udp_unreachable(rules, index, error))?;
                Ok((address, FlowTo::Target(index)))
            }
            Head::Destination(destination) => {
                let shown = self.watch.open(&destination);
                let asker = asker(client, entry.as_deref(), allow);
                let address = self.destinations.address(&destination, asker, self.within).await;
                let refused = |error| OpenError::Destination { from: client.from, error };
                Ok((address.map_err(refused)?, FlowTo::Destination(destination, shown)))
            }
            Head::Lookup(_) => Err(OpenError::NoUdp),
        }
    }

    fn tell(&self, rules: &Rules, error: &OpenError) {
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

fn udp_unreachable(rules: &Rules, index: usize, error: std::io::Error) -> OpenError {
    let ServeRules { targets, udp, .. } = &rules.settings;
    unreachable(&udp[index], error, targets.len() + index)
}

fn unreachable(target: &Target, error: std::io::Error, index: usize) -> OpenError {
    OpenError::Unreachable { target: target.to_string(), error, index }
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

/// Number of connections to targets for this limit of descriptors: half of them. The other half is for subflows and for
/// connections in their handshake.
fn places_for_targets(descriptors: Option<u64>) -> usize {
    descriptors.and_then(|limit| usize::try_from(limit / 2).ok()).unwrap_or(FEW_TARGETS)
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
        let mut targets =
            Targets::new(Rules::new(rules, false).unwrap(), None, Watch::new(None), FEW_TARGETS);
        assert_eq!(targets.within, CONNECT);
        targets.within = Duration::from_millis(100);
        let error = targets.connect(&target, 0).await.unwrap_err();
        assert_eq!(error.code(), CODE_UNREACHABLE);
        let OpenError::Unreachable { error, .. } = &error else { panic!("{error}") };
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    }
}
