//! The server side of the proxy: every stream becomes a TCP connection to the target or destination that it names.

mod destinations;
mod rules;
mod targets;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;

use destinations::{DestinationError, SessionNames};
use rules::Rules;
use targets::{Client, FlowTo, OpenError, Opened, Targets, udp_unreachable};

pub use rules::ServeRules;

use super::drain::{self, Drain, Drained, Ticket};
use super::intake;
use super::relay::{self, CODE_ENDING, CODE_REFUSED, Peer};
use super::target::Target;
use super::udp;
use super::watch::Watch;
use super::{PriorityRules, ProxyError};
use crate::allow::AllowRules;
use crate::budget::Budget;
use crate::config::ListenConfig;
use crate::event_log::{EventLog, EventLogConfig};
use crate::flow::Flow;
use crate::listener::{self, Listener};
use crate::places::Source;
use crate::session::Session;
use crate::shared::{CODE_REPLACED, CODE_REVOKED};
use crate::sockopt;
use crate::stream::Stream;

/// Number of connections to targets when the limit of descriptors is unknown.
const FEW_TARGETS: usize = 512;

/// Settings of the server side.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Addresses and settings for incoming sessions.
    pub listen: ListenConfig,
    /// One target, or several of which at most one has no name; none only with `allow`.
    pub targets: Vec<Target>,
    /// Targets of datagrams; without them flows lead to allowed destinations only.
    pub udp: Vec<Target>,
    /// Destinations that applications may choose; the default allows none.
    pub allow: AllowRules,
    /// Which data of this end is sent first: rules by the target's port or name, or by the DSCP of the application's first
    /// packet, which the client tells.
    pub priorities: PriorityRules,
    /// File that gets a line of JSON for every event of the sessions.
    pub json_events: Option<EventLogConfig>,
}

impl ServeConfig {
    /// Carries streams to these targets and to no other destination, all with the same priority.
    #[must_use]
    pub fn new(listen: ListenConfig, targets: Vec<Target>) -> Self {
        let (udp, allow, priorities) = (Vec::new(), AllowRules::default(), PriorityRules::default());
        Self { listen, targets, udp, allow, priorities, json_events: None }
    }

    /// Checks the settings without listening.
    ///
    /// # Errors
    /// [`ProxyError`]: a wrong setting.
    pub fn check(&self) -> Result<(), ProxyError> {
        listener::check(&self.listen)?;
        Rules::new(self.rules(), self.listen.common.keys.clients().is_some()).map(drop)
    }

    /// What can be replaced while it runs.
    #[must_use]
    pub fn rules(&self) -> ServeRules {
        let Self { targets, udp, allow, priorities, .. } = self.clone();
        ServeRules { targets, udp, allow, priorities }
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
        self.targets.replace_rules(rules)
    }

    /// Replaces [`Limits::memory`](crate::Limits::memory). Sessions beyond a smaller limit go on, and give memory back as they
    /// would when others need it.
    pub fn set_memory(&self, bytes: u64) {
        self.budget.set_total(bytes);
    }
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
        let rules = Rules::new(config.rules(), clients.is_some())?;
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

    /// Serves until the future is dropped.
    ///
    /// Cancellation: dropping the future resets every connection.
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
        throttle: key.zip(targets.clients.as_ref()).map(|(key, all)| all.throttle(key)),
    });
    loop {
        tokio::select! {
            flow = session.accept_flow() => {
                let Ok(flow) = flow else { break };
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

/// Number of connections to targets for this limit of descriptors: half of them. The other half is for subflows and for
/// connections in their handshake.
fn places_for_targets(descriptors: Option<u64>) -> usize {
    descriptors.and_then(|limit| usize::try_from(limit / 2).ok()).unwrap_or(FEW_TARGETS)
}
