//! A cell in our simulator: two links, n TCP connections, one bulk transfer on each.
//!
//! Built from hosts and links, not from a scenario, so that sockets have ns-3's settings: buffers of full
//! size from the beginning that never limit, and no bursts of segmentation offload. All other TCP settings
//! are as in every other run.

use super::bottleneck::{Bottleneck, Measured, SEGMENT, Traffic};
use crate::procfs::status_kb;
use crate::{BenchError, cpu_time, failed};
use core::time::Duration;
use std::rc::Rc;
use std::time::Instant as WallTime;
use tributary_cc::{self as congestion, CongestionController, Setup};
use tributary_link::{LinkConfig, LinkSpec, LossSpec, QueueSpec, WorkloadSpec};
use tributary_sim::workload::{self, Client, FlowRecord, Terms};
use tributary_sim::{Endpoint, HostId, LinkId, TcpConfig, TcpTransport, World};
use tributary_types::{Bitrate, DataSize, Instant, Rng};

/// Interval at which windows are recorded.
const SAMPLE: Duration = Duration::from_millis(10);
/// Length of a step of virtual time when no windows are recorded.
const STRIDE: Duration = Duration::from_secs(1);
/// Bytes of a queue that never fills.
const ENDLESS: u64 = 1 << 30;

/// Runs a cell in this process.
///
/// # Errors
/// [`BenchError`]: an unknown congestion control, or a run that does not end.
pub fn run(cell: &Bottleneck) -> Result<Measured, BenchError> {
    let base_rss_kb = status_kb("self", "VmRSS:")?;
    let mut net = Net::build(cell)?;
    let (start, processor) = (WallTime::now(), cpu_time());
    let cwnd_bytes = net.pass_time(cell)?;
    let (wall, processor) = (start.elapsed(), cpu_time() - processor);
    let mut measured = net.read(cell);
    measured.cwnd_bytes = cwnd_bytes;
    measured.wall_s = wall.as_secs_f64();
    measured.cpu_s = processor.as_secs_f64();
    measured.base_rss_kb = base_rss_kb;
    measured.peak_rss_kb = status_kb("self", "VmHWM:")?;
    Ok(measured)
}

struct Net {
    world: World,
    down: LinkId,
    clients: Vec<HostId>,
    servers: Vec<HostId>,
}

impl Net {
    fn build(cell: &Bottleneck) -> Result<Self, BenchError> {
        let mut world = World::new(u64::MAX);
        let down = world.add_link(link(cell, cell.queue_bytes(), cell.loss));
        let up = world.add_link(link(cell, ENDLESS, 0.0));
        let mut net = Self { world, down, clients: Vec::new(), servers: Vec::new() };
        let size = match cell.traffic {
            Traffic::Endless => None,
            Traffic::Transfer(bytes) => Some(DataSize::from_bytes(bytes)),
        };
        let workload = [WorkloadSpec::Bulk { size }];
        let config = Rc::new(config(cell));
        for flow in 0..cell.flows {
            let (client, server) = (net.world.reserve_host(), net.world.reserve_host());
            let (ask, answer) = (net.world.add_route(&[up], server), net.world.add_route(&[down], client));
            let terms = Terms::always(Rng::new(cell.seed).child(&format!("flow {flow}")));
            let (asks, answers) = workload::pair(&workload, &terms);
            let transport = TcpTransport::client(config.clone(), controller(cell)?, ask);
            net.world.place_host(client, Box::new(Endpoint::new(Box::new(transport), Box::new(asks))));
            let transport = TcpTransport::server(config.clone(), controller(cell)?, answer);
            net.world.place_host(server, Box::new(Endpoint::new(Box::new(transport), Box::new(answers))));
            net.clients.push(client);
            net.servers.push(server);
        }
        Ok(net)
    }

    /// Runs for the cell's duration, or until the transfers are complete; returns the first flow's windows.
    fn pass_time(&mut self, cell: &Bottleneck) -> Result<Vec<(f64, u64)>, BenchError> {
        let mut windows = Vec::new();
        let end = Instant::ZERO + cell.duration;
        let step = if cell.windows { SAMPLE } else { STRIDE };
        let mut until = Instant::ZERO;
        while until < end && !self.is_complete(cell) {
            until = (until + step).min(end);
            self.world.run_until(until).map_err(|error| failed("simulator", error))?;
            if cell.windows
                && let Some(server) = self.world.host::<Endpoint>(self.servers[0])
            {
                let mut samples = Vec::new();
                server.transport().sample(&mut samples);
                windows.extend(samples.first().map(|path| (until.as_secs_f64(), path.window)));
            }
        }
        Ok(windows)
    }

    fn is_complete(&self, cell: &Bottleneck) -> bool {
        cell.traffic != Traffic::Endless && self.records(cell).iter().all(|flow| !flow.completions.is_empty())
    }

    fn records(&self, cell: &Bottleneck) -> Vec<FlowRecord> {
        let end = Instant::ZERO + cell.duration;
        let client = |host: &HostId| self.world.host::<Endpoint>(*host)?.application::<Client>();
        self.clients.iter().filter_map(client).flat_map(|client| client.records(end)).collect()
    }

    fn read(&self, cell: &Bottleneck) -> Measured {
        let records = self.records(cell);
        let received_bytes = records.iter().map(|flow| flow.bytes).sum();
        let mut arrivals = tributary_sim::workload::ArrivalSeries::default();
        records.iter().for_each(|flow| arrivals.add(&flow.arrivals));
        let completed = records.iter().map(|flow| Some(flow.completions.first()?.took));
        let completed: Option<Vec<Duration>> = completed.collect();
        let latest = completed.and_then(|times| times.into_iter().max());
        // Half a round trip belongs to the request; the rest begins with the first data packet.
        let completed = latest.map(|took| took.saturating_sub(cell.rtt / 2).as_secs_f64());
        let passed = completed.unwrap_or(cell.duration.as_secs_f64());
        Measured {
            received_bytes,
            goodput_bps: received_bytes as f64 * 8.0 / passed,
            completed,
            data_packets: received_bytes / SEGMENT,
            dropped_packets: self.world.link_stats(self.down).overflowed.packets,
            wall_s: 0.0,
            cpu_s: 0.0,
            base_rss_kb: 0,
            peak_rss_kb: 0,
            goodput_bps_per_second: arrivals.mbps_per_second().iter().map(|mbps| mbps * 1e6).collect(),
            cwnd_bytes: Vec::new(),
        }
    }
}

fn link(cell: &Bottleneck, queue: u64, loss: f64) -> LinkConfig {
    let mut spec = LinkSpec::constant(Bitrate::from_bps(cell.rate_bps));
    spec.queue = QueueSpec::Bytes(DataSize::from_bytes(queue));
    spec.loss = if loss > 0.0 { LossSpec::Bernoulli(loss) } else { LossSpec::default() };
    let mut config = LinkConfig::new(spec, cell.seed);
    config.extra_delay = cell.rtt / 2;
    config
}

fn config(cell: &Bottleneck) -> TcpConfig {
    let bytes = cell.socket_bytes();
    TcpConfig {
        receive_buffer: bytes,
        send_buffer: bytes,
        auto_tune: false,
        // ns-3 has no segmentation offload: a segment is sent when the window has room for it.
        segmentation_offload: false,
        ..TcpConfig::default()
    }
}

fn controller(cell: &Bottleneck) -> Result<Box<dyn CongestionController>, BenchError> {
    let setup = Setup { seed: cell.seed, ..Setup::new(TcpConfig::default().mss) };
    congestion::create(&cell.congestion, setup).ok_or_else(|| {
        let known = congestion::names().join(", ");
        failed("simulator", format!("unknown congestion control `{}`; known: {known}", cell.congestion))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_report::stats;

    fn cell() -> Bottleneck {
        let mut cell = Bottleneck::new(10_000_000, Duration::from_millis(20), 1.0, "reno");
        cell.duration = Duration::from_secs(5);
        cell
    }

    #[test]
    fn a_flow_fills_a_bottleneck_with_room_for_its_product() {
        let measured = run(&Bottleneck { windows: true, ..cell() }).unwrap();
        let settled = stats::mean(&measured.goodput_bps_per_second[1..]).unwrap();
        let share = settled / (10e6 * 1448.0 / 1500.0);
        assert!((0.96..=1.001).contains(&share), "{share}");
        assert!(measured.dropped_packets > 0);
        assert_eq!(measured.cwnd_bytes.len(), 500);
        assert_eq!(measured.goodput_bps_per_second.len(), 5);
    }

    #[test]
    fn a_short_transfer_takes_its_round_trips() {
        // Ten segments fit into the first window: half a round trip, and ten transmissions.
        let measured = run(&Bottleneck { traffic: Traffic::Transfer(14_480), ..cell() }).unwrap();
        let expected = 0.010 + 10.0 * 1500.0 * 8.0 / 10e6;
        let took = measured.completed.unwrap();
        assert!((took - expected).abs() < 0.0005, "{took} s, {expected} expected");
    }

    #[test]
    fn an_unknown_control_is_refused_with_those_there_are() {
        let error = run(&Bottleneck { congestion: "newton".to_owned(), ..cell() }).unwrap_err().to_string();
        assert!(error.contains("newton") && error.contains("cubic"), "{error}");
    }
}
