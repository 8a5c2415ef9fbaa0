//! Result of a run. Independent of how fast the run was.

use core::time::Duration;
use tributary_link::{Direction, LinkStats};
use tributary_types::Instant;

use super::topology::Topology;
use super::trace::{Recorder, Trace};
use super::{Pair, SimRun};
use crate::transport::{Counters, Endpoint};
use crate::workload::{ArrivalSeries, Client, FlowRecord};
use crate::world::World;

/// One connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConnectionRecord {
    /// Records of its workloads.
    pub flows: Vec<FlowRecord>,
    /// Counters at the client.
    pub client: Counters,
    /// Counters at the server, which sends.
    pub server: Counters,
    /// Number of subflows at the server at the end.
    pub subflows: usize,
}

/// One link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkReport {
    /// Name of its path or shared link.
    pub name: String,
    /// Direction.
    pub direction: Direction,
    /// Counters of its packets.
    pub stats: LinkStats,
    /// Bytes delivered in every 100 ms.
    pub delivered: Vec<u64>,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Virtual duration.
    pub duration: Duration,
    /// Every connection.
    pub connections: Vec<ConnectionRecord>,
    /// Every link.
    pub links: Vec<LinkReport>,
    /// Whether every packet is accounted for exactly once on every link.
    pub conserved: bool,
    /// Hash of the event log: the same for the same run on every machine.
    pub hash: u64,
    /// Events that happened.
    pub events: u64,
    /// Packets that hosts sent.
    pub packets: u64,
    /// Windows, round-trip times and losses over time, if requested.
    pub trace: Option<Trace>,
}

impl Outcome {
    pub(super) fn read(
        run: &SimRun,
        world: &World,
        topology: &Topology,
        pairs: &[Pair],
        recorder: Recorder,
    ) -> Self {
        let end = Instant::ZERO + run.scenario.duration;
        let links: Vec<LinkReport> = topology
            .links
            .iter()
            .zip(recorder.delivered)
            .map(|(link, delivered)| LinkReport {
                name: link.name.clone(),
                direction: link.direction,
                stats: *world.link_stats(link.id),
                delivered,
            })
            .collect();
        Self {
            duration: run.scenario.duration,
            connections: pairs.iter().map(|pair| connection(world, *pair, end)).collect(),
            conserved: links.iter().all(|link| link.stats.is_conserved()),
            links,
            hash: world.log().hash(),
            events: world.events(),
            packets: world.packets_sent(),
            trace: recorder.trace,
        }
    }

    /// Every workload of every connection.
    pub fn flows(&self) -> impl Iterator<Item = &FlowRecord> {
        self.connections.iter().flat_map(|connection| &connection.flows)
    }

    /// Arrivals of all workloads together; the silences are those of the first workload of the first
    /// connection.
    #[must_use]
    pub fn arrivals(&self) -> ArrivalSeries {
        let mut flows = self.flows();
        let mut sum = flows.next().map(|flow| flow.arrivals.clone()).unwrap_or_default();
        flows.for_each(|flow| sum.add(&flow.arrivals));
        sum
    }

    /// Counters of all sending ends together; the mean round-trip time is the mean over connections.
    #[must_use]
    pub fn sent(&self) -> Counters {
        total(self.connections.iter().map(|connection| &connection.server))
    }

    /// Counters of all receiving ends together.
    #[must_use]
    pub fn received(&self) -> Counters {
        total(self.connections.iter().map(|connection| &connection.client))
    }
}

fn connection(world: &World, pair: Pair, end: Instant) -> ConnectionRecord {
    let (client, server) = (world.host::<Endpoint>(pair.client), world.host::<Endpoint>(pair.server));
    let mut samples = Vec::new();
    if let Some(server) = server {
        server.transport().sample(&mut samples);
    }
    let flows = client.and_then(|client| Some(client.application::<Client>()?.records(end)));
    ConnectionRecord {
        flows: flows.unwrap_or_default(),
        client: client.map(|client| client.transport().counters()).unwrap_or_default(),
        server: server.map(|server| server.transport().counters()).unwrap_or_default(),
        subflows: samples.len(),
    }
}

fn total<'a>(ends: impl Iterator<Item = &'a Counters>) -> Counters {
    let mut sum = Counters::default();
    let mut count = 0;
    let mut srtt = Duration::ZERO;
    for end in ends {
        count += 1;
        srtt += end.mean_srtt;
        sum.sent += end.sent;
        sum.retransmitted += end.retransmitted;
        sum.reinjected += end.reinjected;
        sum.duplicates += end.duplicates;
        sum.timeouts += end.timeouts;
        sum.receive_held_most = sum.receive_held_most.max(end.receive_held_most);
    }
    sum.mean_srtt = srtt / count.max(1);
    sum
}
