//! One run: a scenario, a contestant, a congestion control, a workload. Fresh namespaces every time, so
//! that nothing a kernel remembers of one contestant reaches the next.

use crate::contestant::Contestant;
use crate::endpoint::{ClientReport, Plan, Reply, Role, ServerReport};
use crate::kernel;
use crate::messages::MessageFlow;
use crate::process::Endpoint;
use crate::result::{NetworkReport, RunResult};
use crate::workload::{Video, Workload};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;
use tributary_emu::{Network, NetworkError, Side};
use tributary_link::Scenario;
use tributary_net::Key;
use tributary_types::DataSize;

/// A run with an invalid audit is usually made this often.
const ATTEMPTS: u32 = 3;
/// Time for an endpoint to start and connect, video from the cache included.
const START: Duration = Duration::from_secs(60);
/// Time beyond the workload's own for the client's answer.
const GRACE: Duration = Duration::from_secs(10);

/// The limit of every link's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// As the scenario says.
    #[default]
    Scenario,
    /// This many bytes.
    Bytes(u64),
    /// This many milliseconds at the present rate.
    Millis(u64),
}

impl std::fmt::Display for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scenario => write!(f, "as the scenario says"),
            Self::Bytes(bytes) => write!(f, "{} kB", bytes / 1000),
            Self::Millis(millis) => write!(f, "{millis} ms at the present rate"),
        }
    }
}

/// All settings of one run.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The network, with its seed and base RTT.
    pub scenario: Scenario,
    /// Queue of every link.
    pub queue: Queue,
    /// The transport.
    pub contestant: Contestant,
    /// Congestion control of every socket of both ends.
    pub congestion: String,
    /// What is asked for.
    pub workload: Workload,
    /// What live streams are made of.
    pub video: Option<Video>,
    /// Threads of each endpoint's runtime.
    pub threads: usize,
    /// The window of a single TCP connection is noted over time.
    pub windows: bool,
    /// Messages beside the workload, each kind on a stream or a connection of its own.
    pub messages: Vec<MessageFlow>,
    /// How often a run that the emulator finds invalid is made until it is kept and marked.
    pub attempts: u32,
}

impl Cell {
    /// A run with one thread at each end, the scenario's own queue and a synthetic video.
    #[must_use]
    pub fn new(scenario: &Scenario, contestant: &Contestant, congestion: &str, workload: &Workload) -> Self {
        let video = matches!(workload, Workload::Live { .. }).then(Video::synthetic);
        Self {
            scenario: scenario.clone(),
            queue: Queue::Scenario,
            contestant: contestant.clone(),
            congestion: congestion.to_owned(),
            workload: workload.clone(),
            video,
            threads: 1,
            windows: false,
            messages: Vec::new(),
            attempts: ATTEMPTS,
        }
    }

    /// With this queue on every link.
    #[must_use]
    pub fn with_queue(mut self, queue: Queue) -> Self {
        self.queue = queue;
        self
    }

    fn network(&self) -> Result<Network, LabError> {
        let scenario = self.scenario.clone().with_duration(self.workload.duration());
        let scenario = match self.queue {
            Queue::Scenario => scenario,
            Queue::Bytes(bytes) => scenario.with_queue_bytes(DataSize::from_bytes(bytes)),
            Queue::Millis(millis) => scenario.with_queue_time(Duration::from_millis(millis)),
        };
        Ok(Network::start(&scenario)?)
    }

    fn plan(&self, key: &str, role: Role) -> Plan {
        Plan {
            contestant: self.contestant.clone(),
            congestion: self.congestion.clone(),
            key: key.to_owned(),
            limit: (START + self.workload.duration() + GRACE).as_secs_f64(),
            threads: self.threads,
            windows: self.windows,
            messages: self.messages.iter().map(MessageFlow::bounded).collect(),
            role,
        }
    }
}

/// Why a run gave no result.
#[derive(Debug, Error)]
pub enum LabError {
    /// The emulated network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A socket of the kernel runs another congestion control.
    #[error("on the {side} a subflow runs congestion control `{actual}`, not `{wanted}`")]
    Congestion {
        /// Which end.
        side: &'static str,
        /// What was asked for.
        wanted: String,
        /// What it runs.
        actual: String,
    },
    /// A program that sets something up.
    #[error("cannot run `{program}` (Debian package {package}): {reason}")]
    Program {
        /// Program and arguments.
        program: String,
        /// Where it comes from.
        package: &'static str,
        /// What it said.
        reason: String,
    },
    /// An endpoint process could not be started or talked to.
    #[error("the {name} process: {source}")]
    Process {
        /// Which.
        name: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// An endpoint process reported a failure.
    #[error("the {name}: {reason}")]
    Endpoint {
        /// Which.
        name: &'static str,
        /// Its words.
        reason: String,
    },
    /// No random bytes for a key.
    #[error(transparent)]
    Key(#[from] tributary_net::KeyError),
}

/// Makes one run; again when the emulator finds it invalid, up to [`Cell::attempts`] times.
///
/// # Errors
/// [`LabError`]; a transport that merely performs badly is a result.
pub fn run(cell: &Cell) -> Result<RunResult, LabError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let mut result = once(cell)?;
        result.audit.attempts = attempts;
        if result.audit.valid || attempts >= cell.attempts {
            return Ok(result);
        }
        tracing::info!("repeated, the emulator was not exact: {}", result.audit.reasons.join("; "));
    }
}

fn once(cell: &Cell) -> Result<RunResult, LabError> {
    let network = cell.network()?;
    if cell.contestant == Contestant::Mptcp {
        kernel::prepare_mptcp(&network)?;
    }
    let key = Key::generate()?.to_line();
    let used = cell.contestant.paths(&cell.scenario);
    let mut server = start_server(cell, &network, &key, &used)?;
    let listening = match server.answer(START)? {
        Reply::Ready(addresses) => addresses,
        other => return Err(unexpected("server", &other)),
    };
    let client = measure(cell, &network, &key, (&used, &listening))?;
    let report = NetworkReport { audit: network.audit()?, links: network.link_log()? };
    server.close();
    let served = match server.answer(GRACE)? {
        Reply::Served(served) => served,
        other => return Err(unexpected("server", &other)),
    };
    check_congestion(cell, &client, &served)?;
    let cell = Cell { scenario: network.scenario().clone(), ..cell.clone() };
    Ok(RunResult::new(&cell, client, &served, &report))
}

fn start_server(cell: &Cell, network: &Network, key: &str, used: &[usize]) -> Result<Endpoint, LabError> {
    let addresses = used.iter().map(|path| Side::Server.address(*path)).collect();
    let role = Role::Server { addresses, video: cell.video.clone() };
    Endpoint::start("server", network.command(Side::Server, own_program()?), &cell.plan(key, role))
}

/// Connects a client, starts the scenario anew, and lets the client begin in the same moment.
fn measure(
    cell: &Cell,
    network: &Network,
    key: &str,
    (used, listening): (&[usize], &[SocketAddr]),
) -> Result<ClientReport, LabError> {
    let paths = used.iter().zip(listening).map(|(path, server)| (Side::Client.address(*path), *server));
    let role = Role::Client { paths: paths.collect(), workload: cell.workload.clone() };
    let command = network.command(Side::Client, own_program()?);
    let mut client = Endpoint::start("client", command, &cell.plan(key, role))?;
    match client.answer(START)? {
        Reply::Connected => {}
        other => return Err(unexpected("client", &other)),
    }
    for side in [Side::Client, Side::Server] {
        kernel::assert_congestion(network, side, &cell.congestion)?;
    }
    network.rewind()?;
    client.tell("begin")?;
    match client.answer(cell.workload.duration() + GRACE)? {
        Reply::Measured(report) => Ok(*report),
        other => Err(unexpected("client", &other)),
    }
}

fn unexpected(name: &'static str, reply: &Reply) -> LabError {
    LabError::Endpoint { name, reason: format!("answered out of turn: {reply:?}") }
}

pub(crate) fn own_program() -> Result<PathBuf, LabError> {
    std::env::current_exe().map_err(|source| LabError::Process { name: "endpoint", source })
}

fn check_congestion(cell: &Cell, client: &ClientReport, server: &ServerReport) -> Result<(), LabError> {
    for (name, seen) in [("client", &client.congestion), ("server", &server.congestion)] {
        if seen.as_slice() != [cell.congestion.as_str()] {
            let reason = format!("ran congestion control {seen:?}, not {}", cell.congestion);
            return Err(LabError::Endpoint { name, reason });
        }
    }
    Ok(())
}
