//! Transports and workloads to run over a scenario's network, as written in its file. Names are not resolved here.

use super::{Name, ScenarioError, WrittenAt};
use core::time::Duration;
use tributary_types::{Bitrate, DataSize};

/// The `[run]` table of a scenario. The runner chooses values that are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSpec {
    /// Transport.
    pub transport: Option<Name>,
    /// Scheduler, for transports that have one.
    pub scheduler: Option<Name>,
    /// Congestion control of the subflows.
    pub congestion: Option<Name>,
    /// Subflows on each path.
    pub subflows: Option<u32>,
    /// Number of connections at the same time, each with all workloads.
    pub connections: Option<u32>,
    /// The workloads of each connection, at the same time.
    pub workloads: Vec<WorkloadSpec>,
    /// Metrics to report.
    pub metrics: Vec<Name>,
    /// Lines of these fields in the file.
    pub lines: Lines,
}

/// Lines of names in a file. All compare as equal, so that they do not affect comparisons of scenarios.
#[derive(Clone, Debug, Default, Eq)]
pub struct Lines(pub(super) Vec<WrittenAt>);

impl PartialEq for Lines {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl RunSpec {
    /// Whether the scenario has no `run` table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The error for a field such as `run.subflows`, with file and line if it was read from a file.
    #[must_use]
    pub fn refuse(&self, field: &str, problem: &str) -> ScenarioError {
        match self.lines.0.iter().find(|line| line.field == field) {
            Some(WrittenAt { file, line, .. }) => ScenarioError::Field {
                file: file.clone(),
                line: *line,
                field: field.to_owned(),
                problem: problem.to_owned(),
            },
            None => ScenarioError::Name { name: field.to_owned(), problem: problem.to_owned() },
        }
    }
}

/// Data that an application sends, from the server to the client unless the runner reverses it.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadSpec {
    /// One long transfer.
    Bulk {
        /// Its size; `None`: data is sent to the end of the run.
        size: Option<DataSize>,
    },
    /// Repeated requests for the same object.
    Object {
        /// Size of the object.
        size: DataSize,
        /// Number of requests.
        count: u64,
        /// Time from the end of one object to the next request.
        pause: Duration,
    },
    /// Requests like a browser's: random sizes from a list, with pauses.
    Request {
        /// `(size, weight)`; weights are relative.
        sizes: Vec<(DataSize, f64)>,
        /// Mean pause from the end of one answer to the next request, exponential.
        think: Duration,
    },
    /// A block of data at regular intervals, even if the previous one has not arrived.
    Burst {
        /// Size of a block.
        size: DataSize,
        /// Time between blocks.
        every: Duration,
    },
    /// Packets at a constant rate.
    Constant {
        /// Rate of application data.
        rate: Bitrate,
        /// Size of each write.
        packet: DataSize,
    },
    /// Prioritised messages at regular intervals.
    Messages {
        /// Messages a second.
        per_second: f64,
        /// Size of each.
        size: DataSize,
        /// Priority of their stream; higher is more urgent.
        priority: u8,
        /// Maximum age at which a message is useful.
        deadline: Option<Duration>,
    },
}

impl WorkloadSpec {
    /// The kind's name in scenario files.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Bulk { .. } => "bulk",
            Self::Object { .. } => "object",
            Self::Request { .. } => "request",
            Self::Burst { .. } => "burst",
            Self::Constant { .. } => "constant",
            Self::Messages { .. } => "messages",
        }
    }
}
