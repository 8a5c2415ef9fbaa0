//! The client side of the proxy: every local TCP connection becomes a stream of the session.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tributary_tun::Tun;

use super::drain::{Drain, Drained, Ticket};
use super::priority::{LivePriorities, Priority};
use super::relay::{self, Peer};
use super::requested::Requested;
use super::sessions::{Missing, Sessions};
use super::target::{Entrance, Head, LeadsTo, TargetName};
use super::udp::{Listening, Packets};
use super::watch::Watch;
use super::{PriorityRules, ProxyError, intake, names};
use crate::config::{ConnectConfig, PathConfig};
use crate::destination::Destination;
use crate::error::explained;
use crate::event_log::{EventLog, EventLogConfig};
use crate::rate_limited::RateLimited;
use crate::session::{self, Session};

/// The client side waits this long for the first session before it listens without one.
const FIRST: Duration = Duration::from_secs(1);

/// Settings of the client side.
#[derive(Clone, Debug)]
pub struct ForwardConfig {
    /// The session's paths and settings. `timeout` also limits how long a local connection waits for a new session
    /// after the old one has ended. `unsent` limits the data of a connection that the proxy holds, in the session and
    /// in sockets together.
    pub connect: ConnectConfig,
    /// Local addresses for applications, and where each leads.
    pub listen: Vec<Entrance>,
    /// The same for datagrams (UDP). Each sender is a flow of its own.
    pub udp: Vec<Entrance>,
    /// Which data of this end is sent first: rules by the port that an application connected to, by target, and by
    /// the DSCP of its first packet.
    pub priorities: PriorityRules,
    /// File that gets a line of JSON for every event of the session.
    pub json_events: Option<EventLogConfig>,
    /// Give up when no path is up within this time; `None`: keep trying.
    pub wait: Option<Duration>,
}

impl ForwardConfig {
    /// Entrances to a session: all data with the same priority, and no limit to the time until a path is up.
    #[must_use]
    pub fn new(connect: ConnectConfig, listen: Vec<Entrance>) -> Self {
        let (udp, priorities) = (Vec::new(), PriorityRules::default());
        Self { connect, listen, udp, priorities, json_events: None, wait: None }
    }

    /// Checks the settings without listening or connecting.
    ///
    /// # Errors
    /// [`ProxyError`]: a wrong setting.
    pub fn check(&self) -> Result<(), ProxyError> {
        session::check(&self.connect).map_err(|error| ProxyError::Connect(Arc::new(error)))?;
        let entrances = self.listen.iter().chain(&self.udp);
        let leads: Vec<_> =
            entrances.map(|entrance| (entrance.address.port(), entrance.leads_to.clone())).collect();
        check_priorities(&self.priorities, &leads)
    }
}

/// Sockets of a network namespace whose programs are to use the session.
#[derive(Debug, Default)]
pub struct Redirected {
    /// To these listeners the namespace redirects connections to any destination, which the kernel remembers
    /// (`SO_ORIGINAL_DST`).
    pub listeners: Vec<std::net::TcpListener>,
    /// On these sockets questions to DNS servers arrive.
    pub names: Vec<std::net::UdpSocket>,
    /// The device to which the namespace sends everything else.
    pub device: Option<Tun>,
}

/// The client side, connected and listening.
#[derive(Debug)]
pub struct Forwarder {
    listeners: Vec<(TcpListener, LeadsTo)>,
    redirected: Vec<TcpListener>,
    names: Vec<UdpSocket>,
    packets: Option<Packets>,
    udp: Vec<Listening>,
    sessions: Arc<Sessions>,
    priorities: LivePriorities,
    control: ForwardControl,
}

/// Changes a running client. It does not keep the client running.
#[derive(Clone, Debug)]
pub struct ForwardControl {
    paths: Arc<watch::Sender<Vec<PathConfig>>>,
    priorities: LivePriorities,
    /// Ports of the listeners, those for datagrams too, and where they lead.
    entrances: Arc<[(u16, LeadsTo)]>,
}

impl ForwardControl {
    /// The configured paths.
    #[must_use]
    pub fn paths(&self) -> Vec<PathConfig> {
        self.paths.borrow().clone()
    }

    /// Replaces the configured paths, of the session that is open and of those to come. Paths in both lists go on without a pause;
    /// data on one that is removed is sent on the others.
    ///
    /// # Errors
    /// [`ProxyError::Connect`]: no path, more than eight, or two over one radio; nothing is changed then.
    pub fn replace_paths(&self, paths: Vec<PathConfig>) -> Result<(), ProxyError> {
        session::check_paths(&paths).map_err(|error| ProxyError::Connect(Arc::new(error)))?;
        self.paths.send_replace(paths);
        Ok(())
    }

    /// Replaces the priority rules, for connections that come from now on.
    ///
    /// # Errors
    /// [`ProxyError::Priority`]: a rule that can match no connection; nothing is changed then.
    pub fn replace_priorities(&self, rules: PriorityRules) -> Result<(), ProxyError> {
        check_priorities(&rules, &self.entrances)?;
        self.priorities.replace(rules);
        Ok(())
    }
}

impl Forwarder {
    /// Listens locally and begins to connect. It returns when the first session is up, or after one second without a
    /// session. In that case it keeps connecting, and applications are refused until a path is up.
    ///
    /// Cancellation: dropping the future ends the attempt.
    ///
    /// # Errors
    /// [`ProxyError`]: a wrong setting or key, a local port in use; with `wait`, no path within that time.
    pub async fn bind(config: ForwardConfig) -> Result<Self, ProxyError> {
        let mut listeners = Vec::new();
        for Entrance { address, leads_to } in config.listen {
            let bound = bind(address).await;
            listeners.push((bound.map_err(unusable(address))?, leads_to));
        }
        let mut udp = Vec::new();
        for entrance in &config.udp {
            let bound = Listening::bind(entrance).await;
            udp.push(bound.map_err(unusable(entrance.address))?);
        }
        let of_udp = udp.iter().zip(&config.udp);
        let of_udp =
            of_udp.filter_map(|(bound, entrance)| Some((bound.address()?.port(), entrance.leads_to.clone())));
        let entrances: Arc<[_]> = listeners.iter().filter_map(entrance).chain(of_udp).collect();
        check_priorities(&config.priorities, &entrances)?;
        let mut connect = config.connect;
        let unsent = &mut connect.common.session.unsent;
        *unsent = intake::of_the_session(*unsent);
        let log = match &config.json_events {
            Some(log) => {
                connect.common.session.telemetry = log.decisions;
                Some(EventLog::create(log).await?)
            }
            None => None,
        };
        let sessions = Sessions::start(connect, log);
        let priorities = LivePriorities::new(config.priorities);
        match (sessions.first(config.wait.unwrap_or(FIRST)).await, config.wait) {
            (Ok(()), _) => {}
            (Err(Missing::Fatal(error)), _) => return Err(ProxyError::Connect(error)),
            (Err(Missing::Down(said)), Some(wait)) => return Err(ProxyError::NoPath { wait, said }),
            (Err(Missing::Down(said)), None) => {
                tracing::warn!("no path is up yet: {said}; applications are refused until one is");
            }
        }
        Ok(Self {
            listeners,
            redirected: Vec::new(),
            names: Vec::new(),
            packets: None,
            udp,
            control: ForwardControl { paths: sessions.paths(), priorities: priorities.clone(), entrances },
            sessions: Arc::new(sessions),
            priorities,
        })
    }

    /// Serves the programs of a network namespace, too.
    ///
    /// # Errors
    /// The system's, when the descriptors are not of the kind.
    pub fn serve_redirected(&mut self, sockets: Redirected) -> std::io::Result<()> {
        for listener in sockets.listeners {
            listener.set_nonblocking(true)?;
            intake::limit_segments(listener.as_fd())?;
            crate::sockopt::keep_opening_packets(listener.as_fd())?;
            self.redirected.push(TcpListener::from_std(listener)?);
        }
        for socket in sockets.names {
            socket.set_nonblocking(true)?;
            self.names.push(UdpSocket::from_std(socket)?);
        }
        self.packets = sockets.device.map(Packets::new).transpose()?;
        Ok(())
    }

    /// The local addresses for datagrams, with the ports the system chose.
    #[must_use]
    pub fn udp_addresses(&self) -> Vec<SocketAddr> {
        self.udp.iter().filter_map(Listening::address).collect()
    }

    /// The local addresses, with the ports the system chose.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|(listener, _)| listener.local_addr().ok()).collect()
    }

    /// The session that new connections use now; `None` while a lost one is being replaced.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        self.sessions.current()
    }

    /// Changes it while it runs.
    #[must_use]
    pub fn control(&self) -> ForwardControl {
        self.control.clone()
    }

    /// The status of the running proxy.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.sessions.watch()
    }

    /// Forwards until the future is dropped.
    ///
    /// Cancellation: dropping the future resets every connection.
    pub async fn run(self) {
        self.run_until(std::future::pending(), Duration::ZERO).await;
    }

    /// Forwards until `stop`. Then no new connection is accepted, and existing ones have the time `drain` to
    /// finish. After that the others are reset and the session is closed. It returns at most two seconds after
    /// that time.
    ///
    /// Cancellation: dropping the future resets every connection.
    pub async fn run_until(self, stop: impl Future<Output = ()>, drain: Duration) -> Drained {
        let connections = Arc::new(Drain::new());
        let mut loops = JoinSet::new();
        loops.spawn(self.watch().sample());
        let requested = Arc::new(Requested::new(self.sessions.clone(), self.priorities.clone()));
        let accepting = |leads_to| Accepting {
            leads_to,
            sessions: self.sessions.clone(),
            priorities: self.priorities.clone(),
            requested: requested.clone(),
            connections: connections.clone(),
        };
        for (listener, leads_to) in self.listeners {
            let accepting = accepting(Way::Listen(leads_to));
            loops.spawn(async move { accepting.run(&listener).await });
        }
        // Programs have ended when these stop, so what they sent and opened last is taken, too.
        let (ended, mut last) = (CancellationToken::new(), JoinSet::new());
        for listener in self.redirected {
            let (accepting, ended) = (accepting(Way::Redirected(self.packets.clone())), ended.clone());
            last.spawn(async move { accepting.run_until(&listener, ended).await });
        }
        if let Some(packets) = self.packets.clone() {
            last.spawn(packets.run(self.sessions.clone(), self.priorities.clone(), ended.clone()));
        }
        for socket in self.names {
            loops.spawn(names::answer_all(socket, self.sessions.clone()));
        }
        for listening in self.udp {
            loops.spawn(listening.run(self.sessions.clone(), self.priorities.clone()));
        }
        stop.await;
        ended.cancel();
        last.join_all().await;
        loops.shutdown().await;
        let deadline = Instant::now() + drain;
        tracing::info!(connections = connections.open(), "ending; connections have {drain:?} to finish");
        let reset = connections.finish(deadline).await;
        let drained = Drained { reset, undelivered: self.sessions.close(deadline).await };
        // Not earlier: without the device the kernel sends the programs' packets past the session.
        drop(self.packets);
        drained
    }
}

/// Port of a listener, and where its connections lead.
fn entrance((listener, to): &(TcpListener, LeadsTo)) -> Option<(u16, LeadsTo)> {
    Some((listener.local_addr().ok()?.port(), to.clone()))
}

/// The address cannot be listened on.
fn unusable(address: SocketAddr) -> impl FnOnce(io::Error) -> ProxyError {
    move |error| ProxyError::Bind { address, error: explained(error) }
}

/// Refuses rules that can match no connection to these ports.
fn check_priorities(rules: &PriorityRules, listeners: &[(u16, LeadsTo)]) -> Result<(), ProxyError> {
    let listening: Vec<u16> = listeners.iter().map(|(port, _)| *port).collect();
    // Applications that choose their destination choose its port.
    let is_open = listeners.is_empty() || listeners.iter().any(|(_, to)| *to == LeadsTo::Requested);
    if let Some(port) = rules.ports().find(|port| !is_open && !listening.contains(port)) {
        let problem = format!("no listen address has port {port}; the listen addresses are {listening:?}");
        return Err(ProxyError::Priority(problem));
    }
    let is_led_to = |name: &TargetName| {
        listeners.iter().any(|(_, to)| matches!(to, LeadsTo::Target(Some(target)) if target == name))
    };
    if let Some(name) = rules.targets().find(|name| !is_led_to(name)) {
        return Err(ProxyError::Priority(format!("no listen address leads to the target `{name}`")));
    }
    Ok(())
}

async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    intake::limit_segments(listener.as_fd())?;
    crate::sockopt::keep_opening_packets(listener.as_fd())?;
    Ok(listener)
}

/// How connections to a listener find out where they lead.
enum Way {
    Listen(LeadsTo),
    /// With the device: its addresses are the connections' own, so a connection needs it until its program has been told of the end.
    Redirected(Option<Packets>),
}

/// State shared by the connections to one local address.
struct Accepting {
    leads_to: Way,
    sessions: Arc<Sessions>,
    priorities: LivePriorities,
    requested: Arc<Requested>,
    connections: Arc<Drain>,
}

impl Accepting {
    /// Accepts until `ended`, and then the connections that are waiting.
    async fn run_until(self, listener: &TcpListener, ended: CancellationToken) {
        tokio::select! {
            () = self.run(listener) => {}
            () = ended.cancelled() => {}
        }
        // Not `accept`, which may not have heard of them yet.
        while let Ok((socket, _)) = SockRef::from(listener).accept() {
            let nonblocking = socket.set_nonblocking(true);
            if let Ok(tcp) = nonblocking.and_then(|()| TcpStream::from_std(socket.into())) {
                self.take(tcp, 0);
            }
        }
    }

    async fn run(&self, listener: &TcpListener) {
        let port = listener.local_addr().map_or(0, |address| address.port());
        let failures = RateLimited::default();
        loop {
            match listener.accept().await {
                Ok((tcp, _)) => self.take(tcp, port),
                Err(error) => {
                    failures.tell(|more| {
                        let advice = "is the descriptor limit reached? see ulimit -n";
                        tracing::warn!("cannot accept connections: {error}; {advice}{more}");
                    });
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    /// Starts to serve an accepted connection.
    fn take(&self, tcp: TcpStream, port: u16) {
        relay::prepare(&tcp);
        let ticket = self.connections.ticket();
        let dscp = crate::sockopt::opening_code_point(tcp.as_fd());
        match &self.leads_to {
            Way::Listen(LeadsTo::Target(target)) => {
                let priority = self.priorities.of(port, target.as_ref(), dscp);
                let head = Head::Target(target.clone()).encode_with(dscp);
                tokio::spawn(forward(tcp, self.sessions.clone(), (priority, head), ticket));
            }
            Way::Listen(LeadsTo::Requested) => {
                tokio::spawn(self.requested.clone().serve(tcp, dscp, ticket));
            }
            Way::Redirected(device) => {
                if let Some(destination) = original_destination(&tcp) {
                    let (requested, device) = (self.requested.clone(), device.clone());
                    tokio::spawn(async move {
                        requested.serve_redirected(tcp, (destination, dscp), ticket).await;
                        drop(device);
                    });
                }
            }
        }
    }
}

/// The destination of a redirected connection; `None` for a connection to the listener itself.
fn original_destination(tcp: &TcpStream) -> Option<Destination> {
    let socket = SockRef::from(tcp);
    let local = tcp.local_addr().ok()?;
    let original = if local.is_ipv4() { socket.original_dst_v4() } else { socket.original_dst_v6() };
    let original = original.ok()?.as_socket()?;
    (original != local).then(|| original.into())
}

async fn forward(
    tcp: TcpStream,
    sessions: Arc<Sessions>,
    (priority, head): (Priority, Vec<u8>),
    mut ticket: Ticket,
) {
    let opening = tokio::select! {
        opening = sessions.open(&tcp, priority) => opening,
        () = ticket.draining() => return,
    };
    let mut stream = match opening {
        Ok(stream) => stream,
        Err(refused) => return sessions.tell(&refused),
    };
    // Sent at once: in many protocols (SMTP, SSH) the server speaks first.
    if stream.write_chunk(head.into()).await.is_err() {
        return;
    }
    let Err(error) = relay::relay(tcp, stream, Peer::Application, None, &mut ticket).await else { return };
    tracing::debug!(%error, "connection reset");
    if let Some(meaning) = error.code().and_then(relay::meaning) {
        sessions.resets.tell(|more| tracing::warn!("connection reset: {meaning}{more}"));
    }
}
