//! The decision engine on sockets: queries the path controller, carries out decisions, and logs them.
//!
//! [`tributary_player::engine`] makes the decisions, and its [`Switching`] says what follows from them. When the controller
//! does not answer, or reports impossible values, playback stays on its transport. A path is judged by its RTT and its loss,
//! which the controller measures: the client's own sockets send little data, so their retransmissions would show nothing.

use std::time::Duration;

use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tributary_net::PathConfig;
use tributary_net::transport::{Certificates, Handshake, TransportConfig, TransportError, TransportName};
use tributary_player::engine::switching::{Action, HANDSHAKE, Switching};
use tributary_player::engine::{self, Conditions, Decided, PathReport, Transport};
use tributary_types::{Instant, PathId};

use super::{ClientError, LogEvent};
use crate::controller::{Controller, ControllerError, Path, Token};
use crate::fetch::HttpConnection;

/// Interval between two queries of the controller.
const EVERY: Duration = Duration::from_secs(1);
/// Time limit for the first measurement of the controller's paths.
const FIRST: Duration = Duration::from_secs(3);

/// Configuration of the engine.
#[derive(Clone, Debug)]
pub struct Steering {
    /// URL of the controller.
    pub controller: String,
    /// The token that the controller requires. Tributary's own always does.
    pub token: Option<Token>,
    /// Thresholds.
    pub settings: engine::Settings,
    /// The media server, `HOST:PORT`, for TCP and MPTCP.
    pub server: String,
    /// Port of the media server for HTTP/3, and the trusted certificates. Without it playback never moves to QUIC.
    pub quic: Option<(u16, Certificates)>,
    /// Congestion control of the client's sockets.
    pub congestion: Option<String>,
}

/// A decision with its inputs, for the log.
#[derive(Clone, Debug, Serialize)]
pub struct Decision {
    /// The decision.
    pub decision: String,
    /// The reason.
    pub reason: String,
    /// The paths as the controller reported them.
    pub paths: Vec<MeasuredPath>,
    /// Level of the play buffer.
    pub buffer_s: f64,
}

/// A path's state at a decision.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredPath {
    /// The controller's name of the path.
    pub path: String,
    /// Mean RTT; `null` if the path is not reachable.
    pub rtt_ms: Option<f64>,
    /// Share of probes lost in each direction while no queue was long, 0 to 1; `null` while it is not known.
    pub random_loss: Option<f64>,
}

/// A path as the engine saw it last.
#[derive(Clone, Debug, Serialize)]
pub struct EnginePath {
    /// What the controller measured.
    #[serde(flatten)]
    pub measured: MeasuredPath,
    /// Whether the engine uses it.
    pub used: bool,
}

/// The next action of a playback.
#[derive(Debug)]
pub(super) enum Switch {
    /// Stay on the transport. The set of paths may have changed.
    Stay,
    /// Continue over this connection of the named transport. If the flag is false, keep the previous connection until
    /// `Settle` or `Back`.
    Move(Box<HttpConnection>, &'static str, bool),
    /// The new connection is up.
    Settle,
    /// The new connection failed: go back to the previous connection.
    Back,
}

type Seen = Vec<(Path, PathReport)>;

/// The engine of one playback.
pub(super) struct Steer {
    steering: Steering,
    switching: Switching,
    seen: Seen,
    /// The controller's answers, once a second.
    news: mpsc::Receiver<Result<Seen, ControllerError>>,
    /// Paths to start or stop using.
    orders: mpsc::Sender<(Path, bool)>,
    /// Connections being opened: the one of QUIC that is kept ready, and the one to move to.
    dialling: JoinSet<(Transport, Result<HttpConnection, TransportError>)>,
    /// Connections that are up and not in use yet.
    held: Vec<(Transport, HttpConnection)>,
    /// The handshake of the connection in use, and the connection's transport.
    shaking: Option<(Handshake, &'static str)>,
    began: tokio::time::Instant,
    /// The controller's last answer was unusable.
    lost: bool,
    _asking: JoinSet<()>,
}

impl Steer {
    /// Queries the controller, decides, and connects. Adds its events to `log`.
    pub(super) async fn start(
        steering: Steering,
        log: &mut Vec<LogEvent>,
    ) -> Result<(Self, HttpConnection, String), ClientError> {
        let began = tokio::time::Instant::now();
        let settings = engine::Settings { several: engine::Several::Mptcp, ..steering.settings };
        let (mut controller, seen) = first_look(&steering, began, log).await;
        let reports = seen.iter().map(|(_, report)| *report).collect();
        let mut switching = Switching::new(Instant::ZERO, settings, reports, steering.quic.is_some());
        let mut connected = None;
        loop {
            let action = switching.poll_action().expect("TCP is the last transport that is tried");
            match action {
                Action::Decided(decided) => log.push(LogEvent::decided(&decided, &seen)),
                Action::Use(id, used) => {
                    let path = seen.iter().find(|(_, report)| report.path == id).map(|(path, _)| path);
                    let Some((path, controller)) = path.zip(controller.as_mut()) else { continue };
                    if let Err(error) = controller.set(path, used).await {
                        log.push(LogEvent::notice(format!(
                            "path {} could not be taken out of use: {error}",
                            path.id
                        )));
                    }
                }
                Action::Connect(transport) => {
                    match steering.connect(&transport, &seen).await {
                        Ok(connection) => connected = Some(connection),
                        Err(error) => log.push(not_connected(&transport, error)?),
                    }
                    switching.handle_connected(now(began), &transport, connected.is_some());
                }
                Action::Move(_) => break,
                Action::Settle | Action::Back | Action::Drop(_) => {}
            }
        }
        switching.handle_moved(now(began), false);
        let connection = connected.expect("a transport is used after it was connected");
        Ok(Self::with(steering, switching, (controller, seen), connection, began))
    }

    fn with(
        steering: Steering,
        switching: Switching,
        (controller, seen): (Option<Controller>, Seen),
        (connection, name): (HttpConnection, &'static str),
        began: tokio::time::Instant,
    ) -> (Self, HttpConnection, String) {
        let (tell, news) = mpsc::channel(1);
        let (orders, to_do) = mpsc::channel(16);
        let mut asking = JoinSet::new();
        if let Some(controller) = controller {
            asking.spawn(ask(controller, began, tell, to_do));
        }
        let mut steer = Self {
            steering,
            switching,
            seen,
            news,
            orders,
            dialling: JoinSet::new(),
            held: Vec::new(),
            shaking: None,
            began,
            lost: false,
            _asking: asking,
        };
        // Nothing moves at the start: QUIC may be dialled in advance.
        steer.carry_out(&mut Vec::new());
        (steer, connection, name.to_owned())
    }

    /// The paths as they were reported last.
    pub(super) fn paths(&self) -> Vec<EnginePath> {
        let path = |(path, report): &(Path, PathReport)| EnginePath {
            measured: MeasuredPath::new(path.id.clone(), report),
            used: self.switching.uses(report.path),
        };
        self.seen.iter().map(path).collect()
    }

    /// Waits for the next action. Whether QUIC can be used is known here.
    pub(super) async fn next(&mut self, conditions: Conditions, log: &mut Vec<LogEvent>) -> Switch {
        let until = self.switching.poll_timeout().map(|at| self.began + Duration::from_nanos(at.as_nanos()));
        tokio::select! {
            Some(news) = self.news.recv() => self.heard(news, conditions, log),
            Some(dialled) = self.dialling.join_next() => {
                if let Ok((transport, dialled)) = dialled {
                    self.dialled(transport, dialled, log);
                }
            }
            ended = settled(&mut self.shaking, until) => self.settled(ended, log),
        }
        self.carry_out(log)
    }

    fn heard(
        &mut self,
        news: Result<Seen, ControllerError>,
        conditions: Conditions,
        log: &mut Vec<LogEvent>,
    ) {
        match news {
            Err(error) => {
                if !std::mem::replace(&mut self.lost, true) {
                    log.push(LogEvent::notice(format!("controller: {error}; staying on this transport")));
                }
                return;
            }
            Ok(seen) => self.seen = seen,
        }
        if std::mem::replace(&mut self.lost, false) {
            log.push(LogEvent::notice("controller: its answers are valid again".to_owned()));
        }
        for (transport, _) in self.held.extract_if(.., |(_, held)| held.has_ended()) {
            self.switching.handle_ended(&transport);
        }
        let reports: Vec<PathReport> = self.seen.iter().map(|(_, report)| *report).collect();
        self.switching.handle_reports(now(self.began), &reports, conditions);
    }

    fn dialled(
        &mut self,
        transport: Transport,
        dialled: Result<HttpConnection, TransportError>,
        log: &mut Vec<LogEvent>,
    ) {
        let connected = dialled.is_ok();
        match dialled {
            Ok(connection) => self.held.push((transport.clone(), connection)),
            Err(error) => {
                let (name, why) = match transport {
                    Transport::Quic(_) => ("QUIC", ": UDP may be blocked"),
                    _ => ("MPTCP", ""),
                };
                log.push(LogEvent::notice(format!("no {name} ({error}){why}; staying on this transport")));
            }
        }
        self.switching.handle_connected(now(self.began), &transport, connected);
    }

    /// The handshake of the connection in use has ended (whether 0-RTT was accepted), or has failed or taken too long.
    fn settled(&mut self, ended: Option<bool>, log: &mut Vec<LogEvent>) {
        let Some((_, moved_to)) = self.shaking.take() else { return };
        log.push(match ended {
            Some(zero_rtt) => LogEvent::Moved { moved_to, zero_rtt },
            None => LogEvent::notice(format!(
                "no QUIC within {HANDSHAKE:?}: UDP may be blocked; back on the transport before"
            )),
        });
        self.switching.handle_settled(now(self.began), ended.is_some());
    }

    /// Carries out what the machine says; returns what is left for the playback.
    fn carry_out(&mut self, log: &mut Vec<LogEvent>) -> Switch {
        let mut switch = Switch::Stay;
        while let Some(action) = self.switching.poll_action() {
            match action {
                Action::Decided(decided) => log.push(LogEvent::decided(&decided, &self.seen)),
                Action::Use(path, used) => self.order(path, used, log),
                Action::Connect(transport) => self.dial(transport),
                Action::Move(transport) => {
                    let held = self.held.iter().rposition(|(of, _)| *of == transport);
                    let (_, to) = self.held.remove(held.expect("only connected transports are moved to"));
                    switch = self.move_to(to, &transport, log);
                }
                Action::Settle => match &mut switch {
                    Switch::Move(_, _, settled) => *settled = true,
                    other => *other = Switch::Settle,
                },
                Action::Back => switch = Switch::Back,
                Action::Drop(transport) => self.held.retain(|(of, _)| *of != transport),
            }
        }
        switch
    }

    fn dial(&mut self, transport: Transport) {
        let (steering, seen) = (self.steering.clone(), self.seen.clone());
        self.dialling.spawn(async move {
            let connected = steering.connect(&transport, &seen).await;
            (transport, connected.map(|(connection, _)| connection))
        });
    }

    /// Continues over this connection, whether or not its handshake has finished.
    fn move_to(&mut self, to: HttpConnection, transport: &Transport, log: &mut Vec<LogEvent>) -> Switch {
        let moved_to = name(transport);
        let shaking = to.handshake().filter(|handshake| !handshake.is_over());
        self.shaking = shaking.map(|handshake| (handshake.clone(), moved_to));
        if self.shaking.is_none() {
            let zero_rtt = to.handshake().and_then(Handshake::outcome) == Some(true);
            log.push(LogEvent::Moved { moved_to, zero_rtt });
        }
        self.switching.handle_moved(now(self.began), self.shaking.is_some());
        Switch::Move(Box::new(to), moved_to, false)
    }

    fn order(&self, path: PathId, used: bool, log: &mut Vec<LogEvent>) {
        let Some((path, _)) = self.seen.iter().find(|(_, report)| report.path == path) else { return };
        if self.orders.try_send((path.clone(), used)).is_err() {
            log.push(LogEvent::notice(format!("path {}: the controller does not accept commands", path.id)));
        }
    }
}

/// Why a transport to begin with could not be connected. The failure of TCP, the last one, is the playback's.
fn not_connected(transport: &Transport, error: TransportError) -> Result<LogEvent, TransportError> {
    match transport {
        Transport::Quic(_) => {
            Ok(LogEvent::notice(format!("no QUIC ({error}): UDP may be blocked; continuing with TCP")))
        }
        Transport::Mptcp(_) => Ok(LogEvent::notice(format!("no MPTCP ({error}); continuing with TCP"))),
        _ => Err(error),
    }
}

/// Waits for the end of a handshake. Returns whether 0-RTT was accepted, or `None` when it has failed or its time is over.
/// Never returns if there is no handshake.
async fn settled(
    shaking: &mut Option<(Handshake, &'static str)>,
    until: Option<tokio::time::Instant>,
) -> Option<bool> {
    let Some(((handshake, _), until)) = shaking.as_mut().zip(until) else {
        return std::future::pending().await;
    };
    tokio::time::timeout_at(until, handshake.over()).await.ok().flatten()
}

/// Connects to the controller and waits until its paths are measured. Fails if it has no paths.
async fn first_look(
    steering: &Steering,
    began: tokio::time::Instant,
    log: &mut Vec<LogEvent>,
) -> (Option<Controller>, Seen) {
    let mut controller = match Controller::connect(&steering.controller, steering.token.as_ref()).await {
        Ok(controller) => controller,
        Err(error) => {
            log.push(LogEvent::notice(format!("controller: {error}; continuing with TCP")));
            return (None, Vec::new());
        }
    };
    loop {
        match controller.paths(now(began)).await {
            Ok(seen) => return (Some(controller), seen),
            Err(ControllerError::Unmeasured(_)) if began.elapsed() < FIRST => {
                tokio::time::sleep(EVERY / 4).await
            }
            Err(error) => {
                log.push(LogEvent::notice(format!("controller: {error}; continuing with TCP")));
                return (Some(controller), Vec::new());
            }
        }
    }
}

/// A transport as the outcome lists it.
fn name(transport: &Transport) -> &'static str {
    match transport {
        Transport::Tcp => "tcp",
        Transport::Quic(_) => "quic",
        Transport::Mptcp(_) => "mptcp",
        Transport::MultipathQuic(_) => "mpquic",
        Transport::Session(_) => "session",
    }
}

fn now(began: tokio::time::Instant) -> Instant {
    Instant::from_nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Queries the controller once a second and sends orders to it, until the receiver is dropped.
async fn ask(
    mut controller: Controller,
    began: tokio::time::Instant,
    tell: mpsc::Sender<Result<Seen, ControllerError>>,
    mut orders: mpsc::Receiver<(Path, bool)>,
) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let news = tokio::select! {
            _ = ticks.tick() => controller.paths(now(began)).await,
            order = orders.recv() => {
                let Some((path, used)) = order else { return };
                match controller.set(&path, used).await {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                }
            }
        };
        if tell.send(news).await.is_err() {
            return;
        }
    }
}

impl Steering {
    /// Connects a transport chosen by the engine.
    async fn connect(
        &self,
        transport: &Transport,
        seen: &Seen,
    ) -> Result<(HttpConnection, &'static str), TransportError> {
        let path = |id: PathId| seen.iter().find(|(_, report)| report.path == id).map(|(path, _)| path);
        let any = || format!("any={}", self.server);
        let on = |path: Option<&Path>, port: Option<u16>| match (path, port) {
            (Some(path), Some(port)) => {
                format!("{}={}", path.local, std::net::SocketAddr::from((path.remote, port)))
            }
            _ => any(),
        };
        let port = self.server.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let (kind, text) = match transport {
            Transport::Tcp => (TransportName::Tcp(None), any()),
            // On sockets the engine has MPTCP for several paths: `Steer::start`.
            Transport::Mptcp(paths) | Transport::MultipathQuic(paths) | Transport::Session(paths) => {
                let first = paths.first().copied();
                ("mptcp".parse()?, on(first.and_then(path), port))
            }
            Transport::Quic(id) => {
                let quic = self.quic.as_ref().map(|(port, _)| *port);
                (TransportName::Quic(None), on(path(*id), quic))
            }
        };
        let mut config = TransportConfig::new(kind);
        config.congestion.clone_from(&self.congestion);
        config.certificates = self.quic.as_ref().map(|(_, certificates)| certificates.clone());
        config.timeout = HANDSHAKE;
        let malformed = |error: tributary_net::PathError| TransportError::Tls(error.to_string());
        let path: PathConfig = text.parse().map_err(malformed)?;
        Ok((HttpConnection::connect(&config, &[path]).await?, name(transport)))
    }
}

impl MeasuredPath {
    fn new(path: String, report: &PathReport) -> Self {
        let rtt_ms = report.rtt.map(|rtt| rtt.as_secs_f64() * 1000.0);
        Self { path, rtt_ms, random_loss: report.loss }
    }
}

impl LogEvent {
    pub(crate) fn notice(notice: String) -> Self {
        tracing::warn!("{notice}");
        Self::Notice { notice }
    }

    fn decided(decided: &Decided, seen: &Seen) -> Self {
        let name = |id: PathId| {
            let found = seen.iter().find(|(_, report)| report.path == id);
            found.map_or_else(|| format!("{id:?}"), |(path, _)| path.id.clone())
        };
        let report = |report: &PathReport| MeasuredPath::new(name(report.path), report);
        let described = |transport: &Transport| {
            let kind = match transport {
                Transport::Tcp => "TCP",
                Transport::Quic(_) => "QUIC",
                Transport::Mptcp(_) => "MPTCP",
                Transport::MultipathQuic(_) => "multipath QUIC",
                Transport::Session(_) => "a session",
            };
            let names: Vec<String> = transport.paths().iter().map(|path| name(*path)).collect();
            if names.is_empty() { kind.to_owned() } else { format!("{kind} over {}", names.join(", ")) }
        };
        let decision = match &decided.decision {
            engine::Decision::Start(transport) => format!("start on {}", described(transport)),
            engine::Decision::Move(transport) => format!("move to {}", described(transport)),
            engine::Decision::Remove(path) => format!("remove {}", name(*path)),
            engine::Decision::Add(path) => format!("add {}", name(*path)),
            engine::Decision::Replace { out, with } => format!("replace {} with {}", name(*out), name(*with)),
        };
        let reason = format!("{:?}", decided.reason);
        tracing::info!(%decision, %reason);
        Self::Decision(Decision {
            decision,
            reason,
            paths: decided.paths.iter().map(report).collect(),
            buffer_s: decided.level.as_secs_f64(),
        })
    }
}
