//! Settings of a session. Values are checked once, here.

use core::time::Duration;

use thiserror::Error;

use crate::scheduler::{self, Weights, WeightsError};

/// Settings of one side of a session. `Default` suits two to four radios up to 2 Gbit/s · 50 ms.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the scheduler of the data this side sends; see [`scheduler::names`].
    pub scheduler: String,
    /// Weights in the choice of the subflow for prioritised segments, for schedulers that forecast.
    pub weights: Weights,
    /// Transmission window, bytes (FBDT §3.2 fixes 1 MiB). 64 KiB to 16 MiB.
    pub window: usize,
    /// Bytes of received payload this side holds at most before the application reads them.
    /// Waiting payload pins at most 96 of the driver's receive blocks (24 MiB with the runtime's); more is copied.
    pub receive_credit: u64,
    /// Bytes the application may have written that the peer has not acknowledged.
    pub send_buffer: usize,
    /// Limit on a stream's bytes queued but not yet given to a subflow, as time at the rate of all subflows together.
    /// Example: 200 ms at 100 Mbit/s = 2.5 MB. A subflow with nothing to send may exceed it. `None`: only
    /// `send_buffer` limits them.
    pub unsent: Option<Duration>,
    /// Keeps the queue of the fastest subflow as short as the others' (about 15 ms), for applications that replace
    /// queued data by more urgent data. Costs goodput on links whose rate varies.
    pub short_queues: bool,
    /// The subflows' congestion control is coupled ([`crate::coupling`]): it may keep a subflow slow for a long time, so
    /// a slow connection is replaced only after a blockage. The runtime sets it.
    pub coupled: bool,
    /// Streams the peer may have open at once.
    pub max_streams: u32,
    /// Streams that this side opens in the life of a session at most, up to 2³⁰, because their identifiers have 31 bits and
    /// none is used twice. The same limit holds for flows of datagrams.
    pub stream_numbers: u32,
    /// Subflows open at once, over all paths.
    pub max_subflows: usize,
    /// Idle timeout of the session: without any input for this long it ends.
    pub idle_timeout: Duration,
    /// A ping is sent on a subflow that is idle for this long.
    pub keep_alive: Duration,
    /// Emit the events that describe decisions ([`crate::Event::is_telemetry`]).
    pub telemetry: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            scheduler: "fbdt".to_owned(),
            weights: Weights::default(),
            window: 1 << 20,
            receive_credit: 64 << 20,
            send_buffer: 44 << 20,
            unsent: None,
            short_queues: false,
            coupled: false,
            max_streams: 1024,
            stream_numbers: 1 << 30,
            max_subflows: 16,
            idle_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(10),
            telemetry: false,
        }
    }
}

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// No scheduler has this name.
    #[error("unknown scheduler `{name}`; known: {}; priorities first: avira+NAME", known.join(", "))]
    UnknownScheduler {
        /// The requested value.
        name: String,
        /// Every name there is.
        known: Vec<&'static str>,
    },
    /// A weight is outside its range.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A value is outside its range.
    #[error("`{field}` is {value}; it must be from {least} to {most}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// Smallest allowed.
        least: u64,
        /// Largest allowed.
        most: u64,
    },
}

impl Config {
    /// Checks every value.
    ///
    /// # Errors
    /// [`ConfigError`] names the first field that is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let within = |field, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::OutOfRange { field, value, least, most })
            }
        };
        within("window", self.window as u64, 64 << 10, 16 << 20)?;
        within("receive_credit", self.receive_credit, 256 << 10, 1 << 30)?;
        within("send_buffer", self.send_buffer as u64, 64 << 10, 1 << 30)?;
        within("max_streams", u64::from(self.max_streams), 1, 1 << 20)?;
        within("stream_numbers", u64::from(self.stream_numbers), 1, 1 << 30)?;
        within("max_subflows", self.max_subflows as u64, 1, 64)?;
        self.weights.check()?;
        if scheduler::is_known(&self.scheduler) {
            Ok(())
        } else {
            Err(ConfigError::UnknownScheduler { name: self.scheduler.clone(), known: scheduler::names() })
        }
    }
}
