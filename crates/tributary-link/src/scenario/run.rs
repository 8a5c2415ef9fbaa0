//! What to run over a scenario's network, as its file says it. Describes; resolves no name.

use super::{Name, ScenarioError, WrittenAt};
use core::time::Duration;
use tributary_types::{Bitrate, DataSize};

/// The `[run]` table of a scenario. The runner chooses what it leaves out.
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
    /// Connections side by side, each with the whole workload.
    pub connections: Option<u32>,
    /// What the connections carry, all at once.
    pub workloads: Vec<WorkloadSpec>,
    /// What to report.
    pub metrics: Vec<Name>,
    /// Where the file says each of them.
    pub places: Places,
}

/// Places of names in a file; any two compare as equal, so that they do not affect comparisons.
#[derive(Clone, Debug, Default, Eq)]
pub struct Places(pub(super) Vec<WrittenAt>);

impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl RunSpec {
    /// Whether the scenario asks for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The refusal of a field such as `run.subflows`: with file and line if it was read from a file.
    #[must_use]
    pub fn refuse(&self, field: &str, problem: &str) -> ScenarioError {
        match self.places.0.iter().find(|place| place.field == field) {
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

/// What an application sends. Server to client, unless the runner is told otherwise.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadSpec {
    /// One long transfer.
    Bulk {
        /// Its size; `None` lasts as long as the run.
        size: Option<DataSize>,
    },
    /// The same object again and again, each asked for by the client.
    Object {
        /// Size of the object.
        size: DataSize,
        /// How many.
        count: u64,
        /// From the end of one to the request of the next.
        pause: Duration,
    },
    /// Requests as a browser makes them: sizes drawn from a list, thinking in between.
    Request {
        /// `(size, weight)`; weights are relative.
        sizes: Vec<(DataSize, f64)>,
        /// Mean of the exponential time from one answer's end to the next request.
        think: Duration,
    },
    /// A block of data at regular times, whether or not the one before has arrived.
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
    /// Prioritised messages at regular times.
    Messages {
        /// Messages a second.
        per_second: f64,
        /// Size of each.
        size: DataSize,
        /// Priority of their stream; higher is more urgent.
        priority: u8,
        /// How old a message may be when it arrives.
        deadline: Option<Duration>,
    },
}

impl WorkloadSpec {
    /// The kind's name, as files say it.
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
