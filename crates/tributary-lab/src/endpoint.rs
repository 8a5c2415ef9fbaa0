//! Endpoint processes: the server and the client of one run, each in its own namespace.
//!
//! The lab starts the program itself twice with the hidden command `endpoint run`. Each reads its [`Task`] from the first
//! line of standard input and answers with JSON lines ([`Reply`]) on standard output. The server ends when its
//! standard input ends. Both end when their time limit has passed.

mod client;
mod datagrams;
mod inner;
mod input;
mod messages;
mod server;
pub mod trial;
pub(crate) mod usage;
mod windows;

use crate::messages::{MessageFlow, MessageRecord};
use crate::process::{self, reply};
use crate::transport::{self, PathsMissing, SessionSettings};
use crate::workload::{Record, Video, Workload};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use thiserror::Error;
use tributary_net::Key;
use tributary_net::proxy::ProxyError;
use tributary_net::transport::{TransportConfig, TransportError, TransportName};
use tributary_stream::{FetchError, LadderError};

/// Settings of an endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The transport. Its path is among those of the role.
    #[serde(with = "transport::text")]
    pub transport: TransportName,
    /// Settings of a session; unused by other transports.
    pub session: SessionSettings,
    /// Congestion control of every socket.
    pub congestion: String,
    /// Congestion control of a QUIC connection inside the session.
    #[serde(default)]
    pub inner_quic: Option<String>,
    /// The session's key, in the form of a key file's line.
    pub key: String,
    /// The process ends after this many seconds at the latest.
    pub limit: f64,
    /// Threads of the runtime; with 1, only the calling thread.
    pub threads: usize,
    /// Whether the server records the window of a single TCP or QUIC connection over time.
    pub windows: bool,
    /// Messages sent beside the workload; each kind has its own stream or connection.
    #[serde(default)]
    pub messages: Vec<MessageFlow>,
    /// Which end.
    pub role: Role,
}

impl Task {
    fn config(&self) -> Result<TransportConfig, EndpointError> {
        let key = Key::parse(&self.key, "the task")?;
        Ok(transport::config(&self.transport, &self.congestion, key, &self.session))
    }

    /// Congestion control of the QUIC connection inside the session, if there is one.
    fn inner_quic(&self) -> Option<&str> {
        let is_session = matches!(self.transport, TransportName::Session { .. });
        self.inner_quic.as_deref().filter(|_| is_session)
    }
}

/// The role of an endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Serves any workload.
    Server {
        /// Addresses to listen on.
        addresses: Vec<Ipv4Addr>,
        /// The video that live streams send.
        video: Option<Video>,
    },
    /// Requests one workload.
    Client {
        /// Local address and server of each path.
        paths: Vec<(Ipv4Addr, SocketAddr)>,
        /// The workload to request.
        workload: Workload,
    },
    /// One end of a trial.
    Trial(Box<trial::TrialEnd>),
}

/// A reply of an endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The server listens on these addresses.
    Ready(Vec<SocketAddr>),
    /// The client is connected over all its paths and waits for a line on its input to begin.
    Connected,
    /// The client's measurement.
    Measured(Box<ClientReport>),
    /// The server's report when it ends.
    Served(ServerReport),
    /// One end of a trial at a moment.
    Trial(Box<trial::Seen>),
}

/// Report of the client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientReport {
    /// Bytes and messages that arrived.
    pub record: Record,
    /// Processor seconds from the beginning to the end of the workload.
    pub cpu_seconds: f64,
    /// Paths that were in use when the workload began.
    pub paths_up: usize,
    /// An MPTCP connection fell back to plain TCP.
    pub fallback: bool,
    /// Counters of a Tributary session.
    pub session: Option<Counters>,
    /// Messages beside the workload.
    #[serde(default)]
    pub messages: Vec<MessageRecord>,
}

/// Report of the server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServerReport {
    /// Processor seconds since it was ready.
    pub cpu_seconds: f64,
    /// An MPTCP connection fell back to plain TCP.
    pub fallback: bool,
    /// Counters of a Tributary session.
    pub session: Option<Counters>,
    /// The window of a single TCP or QUIC connection, if it was requested.
    pub windows: Vec<WindowSample>,
}

/// The window at a moment (`TCP_INFO`, or QUIC's own).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowSample {
    /// Milliseconds since the request arrived.
    pub at_ms: f64,
    /// Congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Smoothed round-trip time in milliseconds.
    pub srtt_ms: f64,
}

/// Counters of one end of a Tributary session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Payload bytes sent for the first time.
    pub sent: u64,
    /// Payload bytes sent again.
    pub sent_again: u64,
    /// Payload bytes received, copies not counted.
    pub received: u64,
    /// Payload bytes received that were there already.
    pub duplicates: u64,
    /// Times a path fell silent.
    pub silences: u64,
    /// Largest number of payload bytes held for reassembly.
    pub receive_held_most: u64,
}

impl From<tributary_proto::SessionStats> for Counters {
    fn from(stats: tributary_proto::SessionStats) -> Self {
        Self {
            sent: stats.sent,
            sent_again: stats.sent_again,
            received: stats.received,
            duplicates: stats.duplicates,
            silences: stats.silences,
            receive_held_most: stats.receive_held_most,
        }
    }
}

/// Why an endpoint failed.
#[derive(Debug, Error)]
pub enum EndpointError {
    /// The experiment ended before the start.
    #[error("the experiment has ended")]
    Ended,
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// The operation.
        doing: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The transport cannot be used.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The key is invalid.
    #[error(transparent)]
    Key(#[from] tributary_net::KeyError),
    /// The measurement failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The video cannot be used.
    #[error(transparent)]
    Ladder(#[from] LadderError),
    /// Not all paths came up.
    #[error(transparent)]
    Paths(#[from] PathsMissing),
    /// The proxy around a QUIC connection does not run.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
}

fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> EndpointError {
    let doing = doing.into();
    move |source| EndpointError::System { doing, source }
}

/// Runs the endpoint that standard input describes. Returns whether it succeeded; a failure was reported.
#[must_use]
pub fn run() -> bool {
    process::carry_out(|task: Task| {
        watchdog(Duration::from_secs_f64(task.limit.clamp(1.0, 86_400.0)));
        let runtime = runtime(task.threads).map_err(system("starting the runtime"))?;
        runtime.block_on(async {
            match task.role.clone() {
                Role::Server { addresses, video } => server::run(&task, &addresses, video).await,
                Role::Client { paths, workload } => client::run(&task, &paths, &workload).await,
                Role::Trial(end) => trial::run(&task, &end).await,
            }
        })
    })
}

fn runtime(threads: usize) -> io::Result<tokio::runtime::Runtime> {
    if threads <= 1 {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    } else {
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()
    }
}

/// Ends the process when its time limit has passed, so that a hanging endpoint cannot block the experiment.
fn watchdog(limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        process::fail(format!("not finished after {} s", limit.as_secs()));
        std::process::exit(3);
    });
}
