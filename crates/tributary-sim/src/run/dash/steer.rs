//! Changes paths and transport, by the decision engine with the path controller's measurements, by a threshold of
//! bandwidth, or never.
//!
//! The engine gets the paths' round-trip times from probe packets and their retransmissions from the server's
//! subflows. QUIC connections are made at the start, one for each path, so that a move needs no handshake; on sockets
//! the first path has one, and requests on the others go out with 0-RTT. A move to several paths makes a connection.

use tributary_player::engine::switching::{Action, Switching};
use tributary_player::engine::{Conditions, Decided, Decision, PathReport, Settings, Transport};
use tributary_types::{Instant, PathId};

use super::bandwidth::Threshold;
use super::probe::{Echo, Prober};
use super::{Kind, Playback, RunError, TransportName, refused};
use crate::host::Outbox;
use crate::id::HostId;
use crate::mptcp::MptcpTransport;
use crate::multipath::SubflowPath;
use crate::workload::dash::{Connection, Control, DashClient, DashSpec};

/// Payload of a full segment of MPTCP: retransmissions are counted in segments.
const SEGMENT: u64 = 1420;
/// The session that the engine may choose, and its congestion control.
const SESSION: &str = "min-rtt";
const SESSION_CONGESTION: &str = "cubic";

/// What a path retransmitted, over all its subflows.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// Bytes of the present subflow.
    present: u64,
    /// Bytes of all.
    total: u64,
}

impl Count {
    fn handle_reading(&mut self, bytes: u64) {
        // A new subflow counts from zero.
        let before = if bytes < self.present { 0 } else { self.present };
        self.total += bytes - before;
        self.present = bytes;
    }
}

#[derive(Debug)]
enum Who {
    Nobody,
    Engine(Box<Controlled>),
    Threshold(Threshold),
}

/// The engine with its inputs.
#[derive(Debug)]
struct Controlled {
    settings: Settings,
    /// `None` before the start.
    switching: Option<Switching>,
    /// Congestion control of QUIC connections.
    quic: String,
    prober: HostId,
    /// Whether the client began with a QUIC connection for each path.
    prepared: bool,
    /// Of each path.
    counts: Vec<Count>,
}

/// Control of one playback.
#[derive(Debug)]
pub(super) struct Steer {
    who: Who,
    decisions: Vec<Decided>,
    path_changes: u32,
}

impl Steer {
    pub fn new(spec: &DashSpec, playback: &mut Playback<'_>) -> Self {
        let paths = playback.run.scenario.paths.len();
        let who = match &spec.control {
            Control::None => Who::Nobody,
            Control::Engine { settings, quic } => Who::Engine(Box::new(Controlled {
                settings: *settings,
                switching: None,
                quic: quic.clone(),
                prober: place_probes(playback, paths),
                prepared: false,
                counts: vec![Count::default(); paths],
            })),
            Control::Bandwidth(settings) => Who::Threshold(Threshold::new(*settings, paths)),
        };
        Self { who, decisions: Vec::new(), path_changes: 0 }
    }

    /// The connections at the start. The first is used; the client may move to the others, one for each path.
    pub fn begin(&mut self, now: Instant, playback: &mut Playback<'_>) -> Result<Vec<Connection>, RunError> {
        let mut kinds = Vec::new();
        if let Who::Engine(controlled) = &mut self.who {
            let reports = controlled.reports(now, playback);
            let mut switching = Switching::new(now, controlled.settings, reports, true);
            while let Some(action) = switching.poll_action() {
                match action {
                    Action::Decided(decided) => self.decisions.push(decided),
                    Action::Use(path, used) => {
                        playback.set_path(path.0, used);
                        self.path_changes += 1;
                    }
                    Action::Connect(transport) => {
                        switching.handle_connected(now, &transport, true);
                    }
                    Action::Move(transport) => {
                        playback.kind = controlled.kind(&transport, playback)?;
                        controlled.prepared = transport.paths().len() > 1;
                        switching.handle_moved(now, false);
                    }
                    Action::Settle | Action::Back | Action::Drop(_) => {}
                }
            }
            if controlled.prepared {
                for path in (0..playback.run.scenario.paths.len() as u8).map(PathId) {
                    kinds.push(controlled.kind(&Transport::Quic(path), playback)?);
                }
            }
            controlled.switching = Some(switching);
        }
        kinds.insert(0, playback.kind.clone());
        kinds.iter().map(|kind| playback.connection(kind)).collect()
    }

    /// Handles an answer of the controller that is due.
    ///
    /// # Errors
    /// [`RunError`] when the engine chooses a transport that this network does not have.
    pub fn look(&mut self, now: Instant, playback: &mut Playback<'_>) -> Result<(), RunError> {
        match &mut self.who {
            Who::Nobody => {}
            Who::Threshold(threshold) => {
                for (path, used) in threshold.look(now, &rates(playback)) {
                    playback.set_path(path, used);
                    self.path_changes += 1;
                }
            }
            Who::Engine(controlled) => {
                for decided in controlled.look(now, playback)? {
                    self.path_changes += changes(&decided.decision);
                    self.decisions.push(decided);
                }
            }
        }
        playback.world.act(playback.client, |client: &mut DashClient, now, out| client.look(now, out));
        Ok(())
    }

    pub fn path_changes(&self) -> u32 {
        self.path_changes
    }

    pub fn into_decisions(self) -> Vec<Decided> {
        self.decisions
    }
}

impl Controlled {
    /// Settings of the connections of a transport that the engine chose.
    fn kind(&self, transport: &Transport, playback: &Playback<'_>) -> Result<Kind, RunError> {
        let names = playback.run.scenario.path_names();
        let find = |name: &str| {
            TransportName::find(name, None, &names)
                .map_err(|unknown| refused("transport", unknown.to_string()))
        };
        let (transport, congestion) = match transport {
            Transport::Tcp => (TransportName::Tcp(None), playback.run.congestion.as_str()),
            Transport::Quic(path) => {
                let name = names.get(usize::from(path.0)).map(|name| (*name).to_owned());
                (TransportName::Quic(name), self.quic.as_str())
            }
            Transport::Mptcp(_) => (playback.run.transport.clone(), playback.run.congestion.as_str()),
            Transport::MultipathQuic(_) => (find("mpquic")?, self.quic.as_str()),
            Transport::Session(_) => (find(SESSION)?, SESSION_CONGESTION),
        };
        Ok(Kind { transport, congestion: congestion.to_owned() })
    }

    /// Reports of the controller and the server about the paths.
    fn reports(&mut self, now: Instant, playback: &Playback<'_>) -> Vec<PathReport> {
        let server = playback.server().map(|server| server.transport() as &dyn core::any::Any);
        if let Some(mptcp) = server.and_then(|server| server.downcast_ref::<MptcpTransport>()) {
            for report in mptcp.reports() {
                if let Some(count) = self.counts.get_mut(usize::from(report.path)) {
                    count.handle_reading(report.retransmitted);
                }
            }
        }
        let prober: Option<&Prober> = playback.world.host(self.prober);
        let mut reports = prober.map(|prober| prober.reports(now)).unwrap_or_default();
        for report in &mut reports {
            let count = self.counts.get(usize::from(report.path.0)).copied().unwrap_or_default();
            report.retransmissions = count.total / SEGMENT;
        }
        reports
    }

    /// Gives the engine the present reports and carries out what follows. Returns what was decided.
    fn look(&mut self, now: Instant, playback: &mut Playback<'_>) -> Result<Vec<Decided>, RunError> {
        let reports = self.reports(now, playback);
        let Some(mut switching) = self.switching.take() else { return Ok(Vec::new()) };
        let client = playback.client();
        let conditions = Conditions { level: client.level(now), throughput: client.throughput(), udp: true };
        switching.handle_reports(now, &reports, conditions);
        let mut all = Vec::new();
        while let Some(action) = switching.poll_action() {
            match action {
                Action::Decided(decided) => all.push(decided),
                Action::Use(path, used) => playback.set_path(path.0, used),
                // Requests go out with the handshake: a connection that is made now can be used.
                Action::Connect(transport) => switching.handle_connected(now, &transport, true),
                Action::Move(transport) => {
                    self.move_to(&transport, playback)?;
                    switching.handle_moved(now, false);
                }
                Action::Settle | Action::Back | Action::Drop(_) => {}
            }
        }
        self.switching = Some(switching);
        Ok(all)
    }

    fn move_to(&self, transport: &Transport, playback: &mut Playback<'_>) -> Result<(), RunError> {
        playback.kind = self.kind(transport, playback)?;
        // Of the connections that the client began with, the second and later ones are QUIC's, one for each path.
        let prepared = match transport {
            Transport::Quic(path) => Some(1 + usize::from(path.0)),
            _ => None,
        };
        let ready = prepared.filter(|at| self.prepared && playback.client().is_open(*at));
        let connection = match ready {
            Some(_) => None,
            None => Some(playback.connection(&playback.kind.clone())?),
        };
        playback.world.act(playback.client, |client: &mut DashClient, now, out: &mut Outbox| {
            let at = match connection {
                Some(connection) => client.adopt(now, connection, out),
                None => ready.expect("without one, a connection was made"),
            };
            client.move_to(now, at, out);
        });
        Ok(())
    }
}

/// Number of changes of paths.
fn changes(decision: &Decision) -> u32 {
    match decision {
        Decision::Start(_) | Decision::Move(_) => 0,
        Decision::Remove(_) | Decision::Add(_) => 1,
        Decision::Replace { .. } => 2,
    }
}

/// Bandwidth of the paths in use, bit/s.
fn rates(playback: &Playback<'_>) -> Vec<(u8, f64)> {
    let mut samples = Vec::new();
    if let Some(server) = playback.server() {
        server.transport().sample(&mut samples);
    }
    let measured = samples.iter().filter(|sample| !sample.srtt.is_zero());
    measured.map(|sample| (sample.path, sample.window as f64 * 8.0 / sample.srtt.as_secs_f64())).collect()
}

/// Hosts that send probes on each path and answer them.
fn place_probes(playback: &mut Playback<'_>, paths: usize) -> HostId {
    let Playback { run, world, topology, .. } = playback;
    let (prober, echo) = (world.reserve_host(), world.reserve_host());
    let ways: Vec<SubflowPath> =
        (0..paths).map(|path| topology.ways(&run.scenario, path, world, (prober, echo))).collect();
    world.place_host(prober, Box::new(Prober::new(&ways)));
    world.place_host(echo, Box::new(Echo { ways }));
    prober
}
