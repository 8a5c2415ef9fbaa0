//! All settings of one run on real sockets: scenario, transport, congestion control, workload. Not here: the run
//! itself ([`crate::run()`]).

use crate::messages::MessageFlow;
use crate::transport::SessionSettings;
use crate::workload::{Video, Workload};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use tributary_link::Scenario;
use tributary_net::transport::TransportName;
use tributary_types::DataSize;

/// Default maximum number of attempts for a run whose audit is invalid.
const ATTEMPTS: u32 = 3;

/// The limit of every link's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// The scenario's own queue.
    #[default]
    Scenario,
    /// This many bytes.
    Bytes(u64),
    /// This many milliseconds at the link's current rate.
    Millis(u64),
}

impl Queue {
    /// The scenario with this queue at every link.
    #[must_use]
    pub fn of(self, scenario: Scenario) -> Scenario {
        match self {
            Self::Scenario => scenario,
            Self::Bytes(bytes) => scenario.with_queue_bytes(DataSize::from_bytes(bytes)),
            Self::Millis(millis) => scenario.with_queue_time(Duration::from_millis(millis)),
        }
    }
}

impl std::fmt::Display for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scenario => write!(f, "as the scenario says"),
            Self::Bytes(bytes) => write!(f, "{} kB", bytes / 1000),
            Self::Millis(millis) => write!(f, "{millis} ms at the link's current rate"),
        }
    }
}

/// All settings of one run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The network, with its seed and base RTT.
    pub scenario: Scenario,
    /// Queue of every link.
    pub queue: Queue,
    /// The transport.
    pub transport: TransportName,
    /// Settings of a session; unused by other transports.
    pub session: SessionSettings,
    /// Congestion controller of every socket of both ends.
    pub congestion: String,
    /// Congestion controller of a QUIC connection that carries the workload in datagrams of the session, relayed by the product's
    /// proxy; `None`: the workload uses the session's streams. Unused by other transports.
    pub inner_quic: Option<String>,
    /// The workload that the client requests.
    pub workload: Workload,
    /// The video that live streams send.
    pub video: Option<Video>,
    /// Threads of each endpoint's runtime.
    pub threads: usize,
    /// Whether to record the window and the round trip of a single TCP or QUIC connection over time.
    pub windows: bool,
    /// Messages sent beside the workload; each kind has its own stream or connection.
    pub messages: Vec<MessageFlow>,
    /// Maximum number of attempts for a run that the emulator finds invalid. The last attempt is kept and marked.
    pub attempts: u32,
}

impl Run {
    /// A run with one thread at each end, the scenario's own queue and a synthetic video.
    #[must_use]
    pub fn new(
        scenario: &Scenario,
        transport: &TransportName,
        congestion: &str,
        workload: &Workload,
    ) -> Self {
        let video = matches!(workload, Workload::Live { .. }).then(Video::synthetic);
        Self {
            scenario: scenario.clone(),
            queue: Queue::Scenario,
            transport: transport.clone(),
            session: SessionSettings::default(),
            congestion: congestion.to_owned(),
            inner_quic: None,
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

    /// The scenario with the run's queue and length.
    #[must_use]
    pub fn network(&self) -> Scenario {
        self.queue.of(self.scenario.clone().with_duration(self.workload.duration()))
    }
}
