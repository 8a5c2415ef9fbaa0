//! Workloads: what applications write and when, and what arrives of it. Knows no transport.
//!
//! A workload has two halves. The client asks, reads and records; the server answers requests, or pushes
//! data by the clock. Streams carry numbers of bytes only, so both halves hold one [`Exchange`]: what a
//! request asks for and when a message was made travel beside the bytes, as in a packet's contents.
//! The workloads themselves are described by [`tributary_link::WorkloadSpec`].

mod arrivals;
mod client;
mod exchange;
mod pull;
mod push;
mod server;
pub mod tiled;

pub use arrivals::{Arrivals, BIN, Silence};
pub use client::Client;
pub use exchange::Exchange;
pub use server::Server;

use core::time::Duration;
use tributary_link::WorkloadSpec;
use tributary_types::{Instant, Rng};

/// Bytes of a request, about those of a short HTTP request.
pub const REQUEST: u64 = 256;

/// When and with which randomness workloads run.
#[derive(Clone, Debug)]
pub struct Terms {
    /// No request and no message before this.
    pub from: Instant,
    /// No message and no byte of an endless transfer from this on.
    pub to: Instant,
    /// Sizes and thinking times are drawn from it.
    pub rng: Rng,
}

impl Terms {
    /// From the beginning without an end.
    #[must_use]
    pub fn always(rng: Rng) -> Self {
        Self { from: Instant::ZERO, to: Instant::MAX, rng }
    }
}

/// Both halves of `workloads` on one connection. Transports with a single stream take a single workload.
#[must_use]
pub fn pair(workloads: &[WorkloadSpec], terms: &Terms) -> (Client, Server) {
    let exchange = Exchange::new(workloads.len());
    let client = Client::new(workloads, exchange.clone(), terms);
    (client, Server::new(workloads, exchange, terms))
}

/// What one workload of one connection recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowRecord {
    /// Kind of the workload, as scenario files say it.
    pub kind: &'static str,
    /// Bytes that arrived in order.
    pub bytes: u64,
    /// From the first request, or for pushed data from the connection, to the first byte.
    pub first_byte: Option<Duration>,
    /// What arrived when.
    pub arrivals: Arrivals,
    /// Transfers of known size that are complete, in order.
    pub completions: Vec<Completion>,
    /// Requests that were to be made and are not complete.
    pub unfinished: u64,
    /// How long the request under way had taken at the end: a lower bound.
    pub pending: Option<Duration>,
    /// Messages, bursts or packets that were made.
    pub made: u64,
    /// From making to complete arrival, of those that arrived, in order.
    pub latencies: Vec<Duration>,
    /// Those that arrived after their deadline, or not at all although it has passed.
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
