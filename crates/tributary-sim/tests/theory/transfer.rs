//! One long TCP transfer over one bottleneck.

use core::time::Duration;

use tributary_cc::{self as congestion, CongestionController, Setup};
use tributary_link::{LinkConfig, LinkSpec, LinkStats, LossSpec, QueueSpec, WorkloadSpec};
use tributary_sim::workload::{self, Client, Terms};
use tributary_sim::{Endpoint, TcpConfig, TcpTransport, World};
use tributary_types::{Bitrate, DataSize, Instant, Rng};

/// Payload of a full packet.
const SEGMENT: f64 = 1448.0;

/// Settings of a transfer.
#[derive(Clone, Debug)]
pub struct Transfer {
    pub congestion: &'static str,
    pub rate: Bitrate,
    pub rtt: Duration,
    pub queue: u64,
    pub loss: f64,
    pub time: Duration,
}

/// Results of a transfer.
pub struct Outcome {
    pub received: u64,
    pub down: LinkStats,
    pub up: LinkStats,
}

impl Transfer {
    /// A link so fast that only random losses limit; 200 s.
    pub fn spacious(congestion: &'static str) -> Self {
        let (rate, rtt) = (Bitrate::from_mbps(400), Duration::from_millis(50));
        Self { congestion, rate, rtt, queue: 1 << 24, loss: 0.0, time: Duration::from_secs(200) }
    }

    /// A queue of a quarter of the bandwidth-delay product; 10 s.
    pub fn cramped(congestion: &'static str) -> Self {
        let (rate, rtt) = (Bitrate::from_mbps(20), Duration::from_millis(40));
        Self { congestion, rate, rtt, queue: 25_000, loss: 0.0, time: Duration::from_secs(10) }
    }

    /// Packets that arrived in order per round trip, averaged over this many seeds.
    pub fn packets_per_round_trip(&self, seeds: u64) -> f64 {
        let received: u64 = (1..=seeds).map(|seed| self.run(seed).received).sum();
        received as f64 / SEGMENT / seeds as f64 / (self.time.as_secs_f64() / self.rtt.as_secs_f64())
    }

    /// Runs the transfer.
    pub fn run(&self, seed: u64) -> Outcome {
        let mut world = World::new(u64::MAX);
        let down = world.add_link(self.link(self.queue, self.loss, seed));
        let up = world.add_link(self.link(1 << 30, 0.0, seed));
        let (client, server) = (world.reserve_host(), world.reserve_host());
        let (ask, answer) = (world.add_route(&[up], server), world.add_route(&[down], client));
        let terms = Terms::always(Rng::new(seed));
        let (asks, answers) = workload::pair(&[WorkloadSpec::Bulk { size: None }], &terms);
        let config = TcpConfig {
            receive_buffer: 1 << 26,
            send_buffer: 1 << 26,
            auto_tune: false,
            ..TcpConfig::default()
        };
        let transport = TcpTransport::client(config.clone(), self.controller(seed), ask);
        world.place_host(client, Box::new(Endpoint::new(Box::new(transport), Box::new(asks))));
        let transport = TcpTransport::server(config, self.controller(seed), answer);
        world.place_host(server, Box::new(Endpoint::new(Box::new(transport), Box::new(answers))));
        let end = Instant::ZERO + self.time;
        world.run_until(end).expect("the budget is without end");
        let endpoint = world.host::<Endpoint>(client).expect("placed above");
        let records = endpoint.application::<Client>().expect("placed above").records(end);
        Outcome { received: records[0].bytes, down: *world.link_stats(down), up: *world.link_stats(up) }
    }

    fn link(&self, queue: u64, loss: f64, seed: u64) -> LinkConfig {
        let mut spec = LinkSpec::constant(self.rate);
        spec.queue = QueueSpec::Bytes(DataSize::from_bytes(queue));
        if loss > 0.0 {
            spec.loss = LossSpec::Bernoulli(loss);
        }
        let mut config = LinkConfig::new(spec, seed);
        config.extra_delay = self.rtt / 2;
        config
    }

    fn controller(&self, seed: u64) -> Box<dyn CongestionController> {
        let setup = Setup { seed, ..Setup::new(TcpConfig::default().mss) };
        congestion::create(self.congestion, setup).expect("the registry has it")
    }
}
