//! A server: accepts connections. Peers with the key can open sessions or join them.
//!
//! A connection without a ticket holds a socket, a task and a few hundred bytes, for a limited time, and their number
//! is limited. Connections with a ticket have separate limits ([`admission`]).

mod admission;
mod instance;
mod open;
#[cfg(feature = "quic")]
mod quic;
mod revocation;
mod tenure;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tributary_proto::OpenError;
use tributary_proto::handshakes::accept;
use tributary_types::SubflowId;

use crate::budget::Budget;
use crate::config::{Common, Limits, ListenConfig, OwnAddress};
use crate::error::{ListenError, explained};
use crate::handshake::{
    Channel, Established, HandshakeError, Tls, prepare, prepared_socket, protect_accepted,
};
use crate::hello::{
    Answer, Auth, HELLO_LENGTH, Hello, HelloError, Intent, Refusal, SessionSecret, SessionTag,
};
use crate::identity::PublicKey;
use crate::passed::{PassedSockets, Port};
use crate::places::Source;
use crate::rate_limited::RateLimited;
use crate::session::Session;
use crate::shared::{Command, Shared};
use crate::sockopt;
use crate::ticket::{Ticket, Tickets, Worth};
use crate::tls;
use admission::{Admission, Standing};
use instance::Instance;

/// Connections the kernel queues for each address.
const BACKLOG: i32 = 1024;

/// A listening server. Dropping it stops listening; its sessions go on.
#[derive(Debug)]
pub struct Listener {
    sessions: mpsc::Receiver<(Session, SocketAddr)>,
    addresses: Vec<SocketAddr>,
    budget: Arc<Budget>,
    _tasks: JoinSet<()>,
}

struct Entry {
    secret: SessionSecret,
    shared: Arc<Shared>,
    /// To whom it belongs: the client, or the address of its first subflow when all clients have the same key.
    owner: Source,
}

/// What all connections of a listener share.
struct Registry {
    common: Common,
    /// Whether a session's events are kept for their first subscriber.
    keep_events: bool,
    limits: Limits,
    budget: Arc<Budget>,
    tls: Tls<tls::Acceptor>,
    /// Its name is part of the identifiers of its sessions.
    instance: Instance,
    /// Where clients reach it itself, for those that join.
    own: Option<OwnAddress>,
    entries: Mutex<HashMap<SessionTag, Entry>>,
    fresh: mpsc::Sender<(Session, SocketAddr)>,
    /// Handshakes in progress.
    admission: Mutex<Admission>,
    /// Tickets that were received lately.
    tickets: Mutex<Tickets>,
    /// Rate-limited log of refused handshakes: one for wrong keys, one for other versions, one for all other reasons, so that
    /// many of these do not hide the others.
    wrong_keys: RateLimited,
    versions: RateLimited,
    refused: RateLimited,
    /// Handshakes that took too long.
    late: RateLimited,
    /// Connections that could not be accepted.
    starved: RateLimited,
    /// Sessions that gave their place to another one.
    replaced: RateLimited,
}

/// The handshake of a connection that holds a place.
type BoxedShake<'a> = Pin<Box<dyn Future<Output = Result<(), HandshakeError>> + Send + 'a>>;

/// Forgets a session when its driver has ended.
struct Registration {
    registry: Arc<Registry>,
    tag: SessionTag,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.entries().remove(&self.tag);
        self.registry.budget.freed().notify_waiters();
    }
}

/// Checks the settings of a listener without listening.
pub(crate) fn check(config: &ListenConfig) -> Result<(), ListenError> {
    config.common.check()?;
    if config.addresses.is_empty() {
        return Err(ListenError::NoAddress);
    }
    Ok(())
}

impl Listener {
    /// Listens on every address of the configuration, and raises the process's soft limit of file descriptors to the
    /// hard limit.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use tributary_net::{Common, Key, ListenConfig, Listener};
    ///
    /// let common = Common::new(Key::load("tributary.key".as_ref())?);
    /// let addresses = vec!["0.0.0.0:7000".parse()?];
    /// let mut listener = Listener::bind(ListenConfig::new(addresses, common)).await?;
    /// while let Some((session, _)) = listener.accept().await {
    ///     tokio::spawn(async move {
    ///         while let Ok(mut stream) = session.accept_stream().await {
    ///             while let Ok(Some(chunk)) = stream.read_chunk().await {
    ///                 println!("{} bytes", chunk.len());
    ///             }
    ///         }
    ///     });
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Cancellation: dropping the future listens nowhere.
    ///
    /// # Errors
    /// [`ListenError`] names the address or the setting.
    pub async fn bind(config: ListenConfig) -> Result<Self, ListenError> {
        Self::bind_keeping_events(config, false).await
    }

    /// As [`Self::bind`]; with `keep` the first subscriber to a session's events gets them from the beginning.
    pub(crate) async fn bind_keeping_events(config: ListenConfig, keep: bool) -> Result<Self, ListenError> {
        check(&config)?;
        let tls = match config.common.plaintext {
            true => Tls::Off,
            false => Tls::On(tls::server_config(&config.common.keys)?),
        };
        match sockopt::raise_descriptor_limit() {
            Ok(limit) => tracing::debug!(limit, "descriptors this process may open"),
            Err(error) => tracing::warn!("cannot raise the descriptor limit (ulimit -n): {error}"),
        }
        let ports = Ports::bind(&config)?;
        let (fresh, sessions) = mpsc::channel(config.limits.sessions.max(1));
        let budget = Budget::new(config.limits.memory.max(Limits::LEAST_MEMORY));
        let registry = Arc::new(Registry {
            keep_events: keep || config.common.session.telemetry,
            common: config.common,
            limits: config.limits,
            budget: budget.clone(),
            tls,
            instance: Instance::here(&ports.addresses),
            own: config.own,
            entries: Mutex::default(),
            fresh,
            admission: Mutex::new(Admission::new(config.limits.half_open)),
            tickets: Mutex::new(Tickets::new(SystemTime::now())),
            wrong_keys: RateLimited::default(),
            versions: RateLimited::default(),
            refused: RateLimited::default(),
            late: RateLimited::default(),
            starved: RateLimited::default(),
            replaced: RateLimited::default(),
        });
        if let Some(clients) = registry.common.keys.clients() {
            tokio::spawn(revocation::watch(Arc::downgrade(&registry), clients.changes()));
        }
        let mut tasks = JoinSet::new();
        for listener in ports.listeners {
            tasks.spawn(accept_loop(listener, registry.clone()));
        }
        #[cfg(feature = "quic")]
        ports
            .endpoints
            .into_iter()
            .for_each(|endpoint| drop(tasks.spawn(quic::accept_loop(endpoint, registry.clone()))));
        Ok(Self { sessions, addresses: ports.addresses, budget, _tasks: tasks })
    }

    /// The memory of all its sessions.
    pub(crate) fn budget(&self) -> Arc<Budget> {
        self.budget.clone()
    }

    /// The addresses it listens on, with the ports the system chose.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The next session that a client opened, and the address its first subflow came from; `None` when the listener has
    /// ended.
    ///
    /// Cancellation: dropping the future loses no session.
    pub async fn accept(&mut self) -> Option<(Session, SocketAddr)> {
        self.sessions.recv().await
    }
}

/// Attempts to find a number that is free for TCP and for UDP, where the system chooses it.
const PORT_ATTEMPTS: usize = 16;

/// The ports on which a server listens.
struct Ports {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    #[cfg(feature = "quic")]
    endpoints: Vec<crate::quic::Endpoint>,
}

impl Ports {
    /// Where the system chooses a TCP port whose number another program has for UDP, it chooses again.
    fn bind(config: &ListenConfig) -> Result<Self, ListenError> {
        let is_taken = |error: &ListenError| match error {
            ListenError::BindUdp { address, error } => {
                error.kind() == std::io::ErrorKind::AddrInUse && !config.addresses.contains(address)
            }
            _ => false,
        };
        for _ in 1..PORT_ATTEMPTS {
            match Self::bind_once(config) {
                Err(error) if is_taken(&error) => {}
                bound => return bound,
            }
        }
        Self::bind_once(config)
    }

    fn bind_once(config: &ListenConfig) -> Result<Self, ListenError> {
        let mut listeners = Vec::new();
        for &address in &config.addresses {
            let only_v6 = is_only_v6(address, &config.addresses);
            listeners.push(listen((address, only_v6), &config.common, &config.passed)?);
        }
        let addresses: Vec<_> = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        Ok(Self {
            #[cfg(feature = "quic")]
            endpoints: quic::bind(&addresses, &config.common, &config.passed)?,
            listeners,
            addresses,
        })
    }
}

/// Whether an address accepts IPv6 only, because another one with its port accepts IPv4.
fn is_only_v6(address: SocketAddr, all: &[SocketAddr]) -> bool {
    all.iter().any(|other| other.is_ipv4() && other.port() == address.port())
}

/// `only_v6`: accept IPv6 only. Without it `[::]` accepts IPv4 too.
fn listen(
    (address, only_v6): (SocketAddr, bool),
    common: &Common,
    passed: &PassedSockets,
) -> Result<TcpListener, ListenError> {
    let bind = |error| ListenError::Bind { address, error: explained(error) };
    if let Some(socket) = passed.take(Port::Tcp(address)).map_err(bind)? {
        prepare(&socket, common)?;
        return TcpListener::from_std(socket.into()).map_err(bind);
    }
    // The controller is chosen here, before `accept`: a socket that is switched later stays paced.
    let socket = prepared_socket(address, common)?;
    socket.set_reuse_address(true).map_err(bind)?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6).map_err(bind)?;
    }
    socket.bind(&address.into()).map_err(bind)?;
    socket.listen(BACKLOG).map_err(bind)?;
    TcpListener::from_std(socket.into()).map_err(bind)
}

async fn accept_loop(listener: TcpListener, registry: Arc<Registry>) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => registry.clone().greet_tcp(stream, from),
            Err(error) => {
                // Out of descriptors, or the connection ended before it was accepted.
                registry.starved.tell(|more| {
                    let advice = "is the descriptor limit reached? see ulimit -n";
                    tracing::warn!("cannot accept connections: {error}; {advice}{more}");
                });
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    }
}

impl Registry {
    fn entries(&self) -> MutexGuard<'_, HashMap<SessionTag, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn greet_tcp(self: Arc<Self>, stream: TcpStream, from: SocketAddr) {
        let shaking = self.clone();
        self.greet(from, move |place| Box::pin(async move { shaking.shake(stream, from, place).await }));
    }

    /// Starts a handshake. If there are too many, another handshake is ended.
    fn greet<S>(self: Arc<Self>, from: SocketAddr, shake: S)
    where
        S: for<'a> FnOnce(&'a mut Place) -> BoxedShake<'a> + Send + 'static,
    {
        let (give, given) = oneshot::channel();
        let task = tokio::spawn(async move {
            let Ok(mut place): Result<Place, _> = given.await else { return };
            let registry = place.registry.clone();
            let within = registry.limits.handshake;
            match tokio::time::timeout(within, shake(&mut place)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    let limited = match error {
                        // Said with the client's key.
                        HandshakeError::Refused(Refusal::UnknownClient) => return,
                        HandshakeError::Hello(HelloError::WrongKey) => &registry.wrong_keys,
                        HandshakeError::Hello(HelloError::Version { .. } | HelloError::OtherForm { .. }) => {
                            &registry.versions
                        }
                        _ => &registry.refused,
                    };
                    limited.tell(|more| tracing::warn!(%from, "connection refused: {error}{more}"));
                }
                Err(_) => registry.late.tell(|more| {
                    tracing::info!(%from, "connection refused: no handshake within {within:?}{more}");
                }),
            }
        });
        let mut admission = self.admission();
        let (standing, source, id) = (Standing::Unauthenticated, Source::of(from), admission.number());
        let loser = admission.enter(standing, source, id, task.abort_handle());
        drop(admission);
        // If the task ended before it got its place, for example because the runtime shuts down, `send` drops the
        // place here. This must not happen under the lock, because dropping a place takes the lock.
        let _ = give.send(Place { registry: self.clone(), standing, source, id });
        if let Some(loser) = loser {
            loser.abort();
        }
    }

    /// Decides how the connection is treated because of its ticket. A replayed ticket is refused.
    fn look(&self, ticket: &Ticket, client: Option<PublicKey>, place: &mut Place) -> Result<(), HelloError> {
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let worth = tickets.look(SystemTime::now(), ticket);
        drop(tickets);
        let is_own = |entry: &Entry| client.is_none_or(|client| entry.owner == Source::Client(client));
        let lives = ticket.session.filter(|tag| self.entries().get(tag).is_some_and(is_own));
        match (worth, lives) {
            (Worth::Seen, _) => return Err(HelloError::Replayed),
            // One of the clocks is wrong: the connection is treated as one without a ticket until its hello.
            (Worth::Undated, _) => {}
            (Worth::Fresh, Some(tag)) => place.advance(Standing::Rejoin, Source::Session(tag)),
            (Worth::Fresh, None) => {
                place.advance(Standing::Known, client.map_or(place.source, Source::Client));
            }
        }
        Ok(())
    }

    async fn shake(
        self: &Arc<Self>,
        stream: TcpStream,
        from: SocketAddr,
        place: &mut Place,
    ) -> Result<(), HandshakeError> {
        if let Some(name) = &self.common.congestion {
            sockopt::assert_congestion(stream.as_fd(), name)?;
        }
        stream.set_nodelay(true)?;
        let admit = |ticket: Ticket, client| self.look(&ticket, client, place);
        let channel = protect_accepted(stream, &self.tls, &self.common.keys, admit).await?;
        self.introduced(channel, from).await
    }

    /// Reads the hello on a connection whose server is authenticated, and does what it asks for.
    async fn introduced(
        self: &Arc<Self>,
        mut channel: Channel,
        from: SocketAddr,
    ) -> Result<(), HandshakeError> {
        let bytes: [u8; HELLO_LENGTH] = channel.receive().await?;
        let hello = Hello::decode(&bytes)?;
        match hello.intent {
            Intent::New => self.open(channel, &bytes, hello, from).await,
            Intent::Join(tag) => self.join(channel, &bytes, hello, tag).await,
        }
    }

    async fn join(
        &self,
        channel: Channel,
        bytes: &[u8; HELLO_LENGTH],
        hello: Hello,
        tag: SessionTag,
    ) -> Result<(), HandshakeError> {
        let binding = channel.binding;
        let secret = channel.secret.clone();
        let auth = Auth::joining(&secret, &binding);
        // A peer without the key gets no answer, not even whether the session exists.
        auth.verify_hello(bytes)?;
        // The session of another client does not exist for this one.
        let is_own = |entry: &&Entry| channel.peer.is_none_or(|peer| entry.owner == Source::Client(peer));
        let known =
            self.entries().get(&tag).filter(is_own).map(|entry| (entry.secret.clone(), entry.shared.clone()));
        let Some((secret, shared)) = &known else {
            let (answer, reason) = match self.instance.has_issued(&tag) {
                true => (Answer::UnknownSession, HandshakeError::UnknownSession),
                false => (Answer::Refused(Refusal::OtherInstance), Refusal::OtherInstance.into()),
            };
            return refuse(channel, auth.seal_reply(bytes, answer, &tag), reason).await;
        };
        let auth = auth.of_session(secret);
        auth.verify_join(bytes)?;
        let refused = |refusal| auth.seal_reply(bytes, Answer::Refused(refusal), &tag);
        let opened = shared.change(|state, now| {
            if !state.takes_subflow() {
                return Err(OpenError::TooMany(state.session.subflow_stats().count()));
            }
            accept(now, &mut state.session, hello.introduction())
        });
        if let Err(error) = opened {
            let refusal = refusal_of(error);
            return refuse(channel, refused(refusal), refusal.into()).await;
        }
        self.hand_over(shared, channel, hello, &auth.seal_reply(bytes, Answer::Accepted, &tag)).await
    }

    /// Sends the reply and gives the connection to the session's driver.
    async fn hand_over(
        &self,
        shared: &Arc<Shared>,
        mut channel: Channel,
        hello: Hello,
        reply: &[u8],
    ) -> Result<(), HandshakeError> {
        let announced = Announced { shared, subflow: Some(hello.subflow) };
        channel.send(reply).await?;
        announced.keep();
        let established = Established { path: hello.path, subflow: hello.subflow, channel, reply: None };
        let _ = shared.commands.send(Command::Opened(Box::new(established)));
        Ok(())
    }
}

/// A handshake's place within the limits; freed when the handshake ends for any reason.
struct Place {
    registry: Arc<Registry>,
    standing: Standing,
    source: Source,
    id: u64,
}

impl Place {
    /// Moves to a place of a higher class.
    fn advance(&mut self, standing: Standing, source: Source) {
        let mut admission = self.registry.admission();
        // If its place was given to another handshake, this handshake is being ended.
        let Some(who) = admission.leave(self.standing, self.source, self.id) else { return };
        (self.standing, self.source) = (standing, source);
        let loser = admission.enter(standing, source, self.id, who);
        drop(admission);
        if let Some(loser) = loser {
            loser.abort();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.registry.admission().leave(self.standing, self.source, self.id);
    }
}

/// A subflow that was announced to the session. If this is dropped before [`Self::keep`], for example because the
/// handshake's task is cancelled, the session is told that the subflow broke.
struct Announced<'a> {
    shared: &'a Shared,
    subflow: Option<SubflowId>,
}

impl Announced<'_> {
    fn keep(mut self) {
        self.subflow = None;
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        if let Some(subflow) = self.subflow {
            let _ = self.shared.commands.send(Command::Broken(subflow));
        }
    }
}

fn refusal_of(error: OpenError) -> Refusal {
    match error {
        OpenError::Reused(_) => Refusal::SubflowReused,
        OpenError::TooMany(_) => Refusal::TooManySubflows,
        OpenError::Superfluous(_) => Refusal::Superfluous,
        OpenError::Closed => Refusal::SessionEnded,
    }
}

async fn refuse(mut channel: Channel, reply: Vec<u8>, reason: HandshakeError) -> Result<(), HandshakeError> {
    channel.send(&reply).await?;
    channel.let_go().await;
    Err(reason)
}

#[cfg(test)]
mod tests;
