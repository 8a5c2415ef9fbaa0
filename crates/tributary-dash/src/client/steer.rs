//! The decision engine on sockets: queries the path controller, carries out decisions, and logs them.
//!
//! [`tributary_player::engine`] makes the decisions. When the controller does not answer, or reports impossible
//! values, playback stays on its transport. A path is judged by its RTT and its loss, which the controller measures: the
//! client's own sockets send little data, so their retransmissions would show nothing.

use std::time::Duration;

use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tributary_net::PathConfig;
use tributary_net::transport::{Certificates, Handshake, TransportConfig, TransportError, TransportName};
use tributary_player::engine::{self, Conditions, Decided, Engine, PathReport, Transport};
use tributary_types::{Instant, PathId};

use super::{ClientError, LogEvent};
use crate::controller::{Controller, ControllerError, Path, Token};
use crate::fetch::HttpConnection;

/// Interval between two queries of the controller.
const EVERY: Duration = Duration::from_secs(1);
/// Time limit for the first measurement of the controller's paths.
const FIRST: Duration = Duration::from_secs(3);
/// Timeout of a QUIC connection attempt; if it fails, UDP counts as blocked.
const QUIC: Duration = Duration::from_secs(3);

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
    pub paths: Vec<Report>,
    /// Level of the play buffer.
    pub buffer_s: f64,
}

/// A path's state at a decision.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The controller's name of the path.
    pub path: String,
    /// Mean RTT; `null` if the path is not reachable.
    pub rtt_ms: Option<f64>,
    /// Share of probes lost in each direction while no queue was long, 0 to 1; `null` while it is not known.
    pub random_loss: Option<f64>,
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
    engine: Engine,
    seen: Seen,
    /// The controller's answers, once a second.
    news: mpsc::Receiver<Result<Seen, ControllerError>>,
    /// Paths to start or stop using.
    orders: mpsc::Sender<(Path, bool)>,
    /// Connections being opened: the one of QUIC that is kept ready, and the one to move to.
    dialling: JoinSet<(Transport, Result<HttpConnection, TransportError>)>,
    ready: Option<(PathId, HttpConnection)>,
    /// A connection in use whose handshake has not finished, and the time limit of the handshake.
    settling: Option<(Handshake, tokio::time::Instant)>,
    udp: bool,
    /// The transport to move to when it is connected.
    moving: Option<Transport>,
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
        let mut engine = Engine::new(settings);
        let (mut controller, seen) = first_look(&steering, began, log).await;
        let reports: Vec<PathReport> = seen.iter().map(|(_, report)| *report).collect();
        let mut decided = engine.start(Instant::ZERO, &reports, steering.quic.is_some());
        log.push(LogEvent::decided(&decided, &seen));
        if let engine::Decision::Start(Transport::Mptcp(used)) = &decided.decision {
            for (path, _) in seen.iter().filter(|(_, report)| !used.contains(&report.path)) {
                let Some(controller) = &mut controller else { break };
                if let Err(error) = controller.set(path, false).await {
                    log.push(LogEvent::notice(format!(
                        "path {} could not be taken out of use: {error}",
                        path.id
                    )));
                }
            }
        }
        let transport = loop {
            let engine::Decision::Start(transport) = &decided.decision else { break Transport::Tcp };
            match steering.connect(transport, &seen).await {
                Ok(connection) => {
                    return Ok(Self::with(steering, engine, (controller, seen), connection, began));
                }
                Err(error) if matches!(transport, Transport::Quic(_)) => {
                    log.push(LogEvent::notice(format!(
                        "no QUIC ({error}): UDP may be blocked; continuing with TCP"
                    )));
                    decided = engine.start(Instant::ZERO, &reports, false);
                    log.push(LogEvent::decided(&decided, &seen));
                }
                Err(error) if matches!(transport, Transport::Mptcp(_)) => {
                    log.push(LogEvent::notice(format!("no MPTCP ({error}); continuing with TCP")));
                    engine.set_tcp();
                    break Transport::Tcp;
                }
                Err(error) => return Err(error.into()),
            }
        };
        let connection = steering.connect(&transport, &seen).await?;
        Ok(Self::with(steering, engine, (controller, seen), connection, began))
    }

    fn with(
        steering: Steering,
        engine: Engine,
        (controller, seen): (Option<Controller>, Seen),
        connection: (HttpConnection, &'static str),
        began: tokio::time::Instant,
    ) -> (Self, HttpConnection, String) {
        let (tell, news) = mpsc::channel(1);
        let (orders, to_do) = mpsc::channel(16);
        let mut asking = JoinSet::new();
        if let Some(controller) = controller {
            asking.spawn(ask(controller, began, tell, to_do));
        }
        let (connection, name) = connection;
        let mut steer = Self {
            steering,
            engine,
            seen,
            news,
            orders,
            dialling: JoinSet::new(),
            ready: None,
            settling: None,
            udp: name == "quic",
            moving: None,
            lost: false,
            _asking: asking,
        };
        // Open a QUIC connection in advance. It shows whether UDP packets arrive, and provides session tickets. A
        // move to its path then needs no handshake; a move to another path sends requests with 0-RTT.
        let first = steer.engine.used().next();
        if let Some(path) = first.filter(|_| name == "mptcp" && steer.steering.quic.is_some()) {
            steer.dial(Transport::Quic(path));
        }
        (steer, connection, name.to_owned())
    }

    fn dial(&mut self, transport: Transport) {
        let (steering, seen) = (self.steering.clone(), self.seen.clone());
        self.dialling.spawn(async move {
            let connected = steering.connect(&transport, &seen).await;
            (transport, connected.map(|(connection, _)| connection))
        });
    }

    /// Waits for the next action. Whether QUIC can be used is known here.
    pub(super) async fn next(
        &mut self,
        conditions: Conditions,
        now: Instant,
        log: &mut Vec<LogEvent>,
    ) -> Switch {
        tokio::select! {
            Some(news) = self.news.recv() => self.heard(news, conditions, now, log),
            Some(dialled) = self.dialling.join_next() => match dialled {
                Ok(dialled) => self.dialled(dialled, now, log),
                Err(_) => Switch::Stay,
            },
            taken = settled(&mut self.settling) => self.settled(taken, now, log),
        }
    }

    fn heard(
        &mut self,
        news: Result<Seen, ControllerError>,
        conditions: Conditions,
        now: Instant,
        log: &mut Vec<LogEvent>,
    ) -> Switch {
        match news {
            Err(error) => {
                if !std::mem::replace(&mut self.lost, true) {
                    log.push(LogEvent::notice(format!("controller: {error}; staying on this transport")));
                }
                return Switch::Stay;
            }
            Ok(seen) => self.seen = seen,
        }
        if std::mem::replace(&mut self.lost, false) {
            log.push(LogEvent::notice("controller: its answers are valid again".to_owned()));
        }
        let reports: Vec<PathReport> = self.seen.iter().map(|(_, report)| *report).collect();
        let mut switch = Switch::Stay;
        let conditions = Conditions { udp: self.udp, ..conditions };
        for decided in self.engine.update(now, &reports, conditions) {
            log.push(LogEvent::decided(&decided, &self.seen));
            match decided.decision {
                engine::Decision::Remove(path) => self.order(path, false, log),
                engine::Decision::Add(path) => self.order(path, true, log),
                engine::Decision::Replace { out, with } => {
                    self.order(with, true, log);
                    self.order(out, false, log);
                }
                engine::Decision::Move(transport) => {
                    if transport.paths().len() > 1 {
                        for path in reports.iter().map(|report| report.path) {
                            self.order(path, transport.paths().contains(&path), log);
                        }
                    }
                    let ready = self.ready.take_if(|(on, _)| transport == Transport::Quic(*on));
                    match ready.filter(|(_, ready)| !ready.has_ended()) {
                        Some((_, ready)) => switch = self.move_to(ready, &transport, log),
                        None => {
                            self.moving = Some(transport.clone());
                            self.dial(transport);
                        }
                    }
                }
                engine::Decision::Start(_) => {}
            }
        }
        switch
    }

    /// Continues over this connection, whether or not its handshake has finished.
    fn move_to(&mut self, to: HttpConnection, transport: &Transport, log: &mut Vec<LogEvent>) -> Switch {
        let moved_to = name(transport);
        let shaking = to.handshake().filter(|handshake| !handshake.is_over());
        self.settling = shaking.map(|handshake| (handshake.clone(), tokio::time::Instant::now() + QUIC));
        let settled = self.settling.is_none();
        if settled {
            let zero_rtt = to.handshake().and_then(Handshake::outcome) == Some(true);
            log.push(LogEvent::Moved { moved_to, zero_rtt });
        }
        Switch::Move(Box::new(to), moved_to, settled)
    }

    fn settled(&mut self, taken: Option<bool>, now: Instant, log: &mut Vec<LogEvent>) -> Switch {
        self.settling = None;
        if let Some(zero_rtt) = taken {
            log.push(LogEvent::Moved { moved_to: "quic", zero_rtt });
            return Switch::Settle;
        }
        self.udp = false;
        self.engine.set_back(now);
        log.push(LogEvent::notice(format!(
            "no QUIC within {QUIC:?}: UDP may be blocked; back on the transport before"
        )));
        Switch::Back
    }

    fn order(&self, path: PathId, used: bool, log: &mut Vec<LogEvent>) {
        let Some((path, _)) = self.seen.iter().find(|(_, report)| report.path == path) else { return };
        if self.orders.try_send((path.clone(), used)).is_err() {
            log.push(LogEvent::notice(format!("path {}: the controller does not accept commands", path.id)));
        }
    }

    fn dialled(
        &mut self,
        (transport, dialled): (Transport, Result<HttpConnection, TransportError>),
        now: Instant,
        log: &mut Vec<LogEvent>,
    ) -> Switch {
        let moving = self.moving.take_if(|to| *to == transport).is_some();
        match (dialled, &transport) {
            (Ok(connection), _) if moving => return self.move_to(connection, &transport, log),
            (Ok(connection), Transport::Quic(path)) => {
                self.udp = true;
                self.ready = Some((*path, connection));
            }
            // The engine has decided otherwise in the meantime.
            (Ok(_), _) => {}
            (Err(error), of) => {
                if moving {
                    self.engine.set_back(now);
                }
                let (name, why) = match of {
                    Transport::Quic(_) => ("QUIC", ": UDP may be blocked"),
                    _ => ("MPTCP", ""),
                };
                self.udp &= name != "QUIC";
                log.push(LogEvent::notice(format!("no {name} ({error}){why}; staying on this transport")));
            }
        }
        Switch::Stay
    }
}

/// Waits for the end of a handshake. Returns whether 0-RTT was accepted, or `None` when the time limit has passed.
/// Never returns if there is no handshake.
async fn settled(settling: &mut Option<(Handshake, tokio::time::Instant)>) -> Option<bool> {
    let Some((handshake, until)) = settling else { return std::future::pending().await };
    tokio::time::timeout_at(*until, handshake.over()).await.ok().flatten()
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
        config.timeout = QUIC;
        let malformed = |error: tributary_net::PathError| TransportError::Tls(error.to_string());
        let path: PathConfig = text.parse().map_err(malformed)?;
        Ok((HttpConnection::connect(&config, &[path]).await?, name(transport)))
    }
}

impl LogEvent {
    pub(super) fn notice(notice: String) -> Self {
        tracing::warn!("{notice}");
        Self::Notice { notice }
    }

    fn decided(decided: &Decided, seen: &Seen) -> Self {
        let name = |id: PathId| {
            let found = seen.iter().find(|(_, report)| report.path == id);
            found.map_or_else(|| format!("{id:?}"), |(path, _)| path.id.clone())
        };
        let report = |report: &PathReport| Report {
            path: name(report.path),
            rtt_ms: report.rtt.map(|rtt| rtt.as_secs_f64() * 1000.0),
            random_loss: report.loss,
        };
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
