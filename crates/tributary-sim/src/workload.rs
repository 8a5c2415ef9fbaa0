//! Workloads: what applications write and when, and what arrives. Independent of the transport.
//!
//! A workload has two halves. The client sends requests, reads and records; the server answers requests, or pushes
//! data at fixed times. A simulated stream carries only numbers of bytes. So both halves share an [`Exchange`],
//! which carries what the bytes would say: the size that a request asks for, and the time at which a message was
//! made. The workloads are described by [`tributary_link::WorkloadSpec`].

mod arrivals;
mod client;
pub mod dash;
mod exchange;
pub mod progressive;
mod pull;
mod push;
mod server;
pub mod tiled;

pub use arrivals::{ArrivalSeries, BIN, SilentSpan};
pub use client::Client;
pub use exchange::Exchange;
pub use server::Server;

use core::time::Duration;
use tributary_link::WorkloadSpec;
use tributary_types::{Instant, Rng};

/// Bytes of a request, about as many as a short HTTP request has.
pub const REQUEST: u64 = 256;

/// The time during which workloads run, and their randomness.
#[derive(Clone, Debug)]
pub struct Terms {
    /// No request and no message before this.
    pub from: Instant,
    /// No message and no byte of an endless transfer at or after this.
    pub to: Instant,
    /// Source of random sizes and thinking times.
    pub rng: Rng,
}

impl Terms {
    /// From the beginning of the run, without an end.
    #[must_use]
    pub fn always(rng: Rng) -> Self {
        Self { from: Instant::ZERO, to: Instant::MAX, rng }
    }
}

/// Client and server of `workloads` on one connection. Transports with a single stream take a single workload.
#[must_use]
pub fn pair(workloads: &[WorkloadSpec], terms: &Terms) -> (Client, Server) {
    let exchange = Exchange::new(workloads.len());
    let client = Client::new(workloads, exchange.clone(), terms);
    (client, Server::new(workloads, exchange, terms))
}

/// Record of one workload of one connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowRecord {
    /// Kind of the workload, as scenario files say it.
    pub kind: &'static str,
    /// Bytes that arrived in order.
    pub bytes: u64,
    /// Time to the first byte: from the first request or, for pushed data, from the time the connection was up.
    pub first_byte: Option<Duration>,
    /// When bytes arrived.
    pub arrivals: ArrivalSeries,
    /// Complete transfers of known size, in order.
    pub completions: Vec<Completion>,
    /// Requests that were to be made and are not complete.
    pub unfinished: u64,
    /// Time that the request in progress had taken at the end. It would have taken at least this long.
    pub pending: Option<Duration>,
    /// Number of messages, bursts or packets that were made.
    pub made: u64,
    /// Time from making a message to its complete arrival, for messages that arrived, in order.
    pub latencies: Vec<Duration>,
    /// Number of messages that arrived after their deadline, or did not arrive although it has passed.
    pub late: u64,
}

/// One complete transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Bytes.
    pub size: u64,
    /// From the request to the first byte.
    pub first_byte: Duration,
    /// From the request to the last byte.
    pub took: Duration,
}

#[cfg(test)]
mod tests;
