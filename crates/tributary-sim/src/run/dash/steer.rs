//! Changes paths and transport, by the decision engine with the path controller's measurements, by a threshold of
//! bandwidth, or never.
//!
//! The engine gets the paths' round-trip times from probe packets and their retransmissions from the server's
//! subflows. QUIC connections are made beforehand, one for each path, so that a move needs no handshake; on sockets
//! the first path has one, and requests on the others go out with 0-RTT.

use tributary_player::engine::{Decided, Decision, Engine, PathReport, Transport};
use tributary_types::{Instant, PathId};

use super::bandwidth::Threshold;
use super::probe::{Echo, Prober};
use super::{Kind, Playback, RunError, TransportName};
use crate::host::Outbox;
use crate::id::HostId;
use crate::mptcp::MptcpTransport;
use crate::multipath::SubflowPath;
use crate::workload::dash::{Connection, Control, DashClient, DashSpec};

/// Payload of a full segment of MPTCP: retransmissions are counted in segments.
const SEGMENT: u64 = 1420;

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
    engine: Engine,
    /// Congestion control of QUIC connections.
    quic: String,
    prober: HostId,
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
        let paths = playback.cell.scenario.paths.len();
        let who = match &spec.control {
            Control::None => Who::Nobody,
            Control::Engine { settings, quic } => Who::Engine(Box::new(Controlled {
                engine: Engine::new(*settings),
                quic: quic.clone(),
                prober: place_probes(playback, paths),
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
            let decided = controlled.engine.start(now, &reports, true);
            let paths = (0..playback.cell.scenario.paths.len() as u8).map(PathId);
            match &decided.decision {
                Decision::Start(Transport::Mptcp(used)) => {
                    kinds.extend(paths.clone().map(|path| controlled.quic(path, playback)));
                    for path in paths.filter(|path| !used.contains(path)) {
                        playback.set_path(path.0, false);
                        self.path_changes += 1;
                    }
                }
                Decision::Start(Transport::Quic(path)) => playback.kind = controlled.quic(*path, playback),
                _ => playback.kind.transport = TransportName::Tcp(None),
            }
            self.decisions.push(decided);
        }
        kinds.insert(0, playback.kind.clone());
        kinds.iter().map(|kind| playback.connection(kind)).collect()
    }

    /// Handles an answer of the controller that is due.
    pub fn look(&mut self, now: Instant, playback: &mut Playback<'_>) {
        match &mut self.who {
            Who::Nobody => {}
            Who::Threshold(threshold) => {
                for (path, used) in threshold.look(now, &rates(playback)) {
                    playback.set_path(path, used);
                    self.path_changes += 1;
                }
            }
            Who::Engine(controlled) => {
                let reports = controlled.reports(now, playback);
                let level = playback.client().level(now);
                for decided in controlled.engine.update(now, &reports, level, true) {
                    self.path_changes += controlled.carry_out(&decided.decision, playback);
                    self.decisions.push(decided);
                }
            }
        }
        playback.world.act(playback.client, |client: &mut DashClient, now, out| client.look(now, out));
    }

    pub fn path_changes(&self) -> u32 {
        self.path_changes
    }

    pub fn into_decisions(self) -> Vec<Decided> {
        self.decisions
    }
}

impl Controlled {
    fn quic(&self, path: PathId, playback: &Playback<'_>) -> Kind {
        let names = playback.cell.scenario.path_names();
        let name = names.get(usize::from(path.0)).map(|name| (*name).to_owned());
        Kind { transport: TransportName::Quic(name), congestion: self.quic.clone() }
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

    /// Changes of paths.
    fn carry_out(&self, decision: &Decision, playback: &mut Playback<'_>) -> u32 {
        match decision {
            Decision::Start(_) => 0,
            Decision::Remove(path) => {
                playback.set_path(path.0, false);
                1
            }
            Decision::Add(path) => {
                playback.set_path(path.0, true);
                1
            }
            Decision::Replace { out, with } => {
                playback.set_path(with.0, true);
                playback.set_path(out.0, false);
                2
            }
            Decision::MoveToQuic(path) => {
                playback.kind = self.quic(*path, playback);
                // Behind the connection that the client began with.
                let connection = 1 + usize::from(path.0);
                let to =
                    |client: &mut DashClient, now, out: &mut Outbox| client.move_to(now, connection, out);
                playback.world.act(playback.client, to);
                0
            }
        }
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
    let Playback { cell, world, topology, .. } = playback;
    let (prober, echo) = (world.reserve_host(), world.reserve_host());
    let ways: Vec<SubflowPath> =
        (0..paths).map(|path| topology.ways(&cell.scenario, path, world, (prober, echo))).collect();
    world.place_host(prober, Box::new(Prober::new(&ways)));
    world.place_host(echo, Box::new(Echo { ways }));
    prober
}
