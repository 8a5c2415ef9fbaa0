//! The paper's network in the simulator, and one run on it.
//!
//! Five nodes: a source, a sink, and two pathways between them, one over one intermediate node and one over two.
//! Every link has 1 Mbit/s, 2 ms and a drop-tail queue of 100 packets. That is ns-3's default, and it explains the
//! paper's round trips of 900 ms. Four subflows on each pathway, one bulk transfer, one segment in 500 prioritised.
//! AVIRA §IV and table I.
//!
//! Deviates: in the paper the source has one device, so one link of 1 Mbit/s precedes both pathways. Then all
//! subflows share one queue, and the scheduler has no effect. [`Form::SharedAccess`] models this;
//! [`Form::References`] does so with the rules of the ns-3 model that the paper extends (mkheirkhah/mptcp).

use core::time::Duration;

use tributary_link::{DelaySpec, LinkConfig, LinkSpec, QueueSpec, WorkloadSpec};
use tributary_sim::workload::{self, Client, Terms};
use tributary_sim::{
    Endpoint, HostId, LinkId, LossDetection, MptcpConfig, MptcpTransport, SubflowPath, SubflowReport,
    TcpConfig, World,
};
use tributary_types::{Bitrate, DataSize, Instant, Rng};

use super::Form;

/// AVIRA, table I.
const RATE: Bitrate = Bitrate::from_mbps(1);
const DELAY: Duration = Duration::from_millis(2);
const SUBFLOWS_ON_EACH: usize = 4;
/// One segment in this many is prioritised.
const PRIORITISED: u64 = 500;
/// Default size of ns-3's `DropTailQueue`, packets.
const QUEUE: u64 = 100;
/// Queue in [`Form::References`], chosen so that the default's mean round trip is near the paper's 927 ms.
const REFERENCES_QUEUE: u64 = 130;
/// Maximum random delay per packet and link, which makes seeds differ: a quarter of a packet's transmission time.
const JITTER: Duration = Duration::from_millis(3);
/// Bytes of a segment in the ns-3 model.
const SEGMENT: u64 = 1400;
/// Nine tenths of the capacity of two pathways, without headers.
const OFFERED: Bitrate = Bitrate::from_bps(1_800_000);
/// Seconds at the beginning in which queues are still filling.
pub(super) const WARM_UP: u64 = 10;

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// Scheduler.
    pub scheduler: String,
    /// Congestion control of every subflow.
    pub congestion: String,
    /// Interpretation of the paper.
    pub(super) form: Form,
    /// Seed of everything random.
    pub seed: u64,
    /// Length, seconds.
    pub seconds: u64,
}

/// Results of one run without its first ten seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Mean of the smoothed round-trip time over all acknowledgements, milliseconds.
    pub rtt_ms: f64,
    /// Its standard deviation.
    pub rtt_deviation_ms: f64,
    /// Mean of each second, milliseconds.
    pub rtt_series_ms: Vec<f64>,
    /// In-order bytes at the sink, Mbit/s.
    pub throughput_mbps: f64,
    /// Payload sent again on the same subflow, per cent of what was sent.
    pub retransmitted_percent: f64,
    /// Duplicate acknowledgements, fast recoveries and segments marked as lost, of all subflows over the whole run.
    pub duplicate_acks: u64,
    pub fast_retransmissions: u64,
    pub lost_segments: u64,
    /// Bytes handed to each subflow.
    pub subflow_bytes: Vec<u64>,
    /// Every prioritised segment, from being handed to a subflow to its acknowledgement, milliseconds.
    pub prioritised_ms: Vec<f64>,
    /// Hash of the event log.
    pub hash: u64,
}

struct Network {
    world: World,
    client: HostId,
    server: HostId,
    paths: Vec<SubflowPath>,
}

impl Network {
    fn build(setting: &Setting) -> Self {
        // Budget of events: packets of 1.5 kB at 1 Mbit/s are about a hundred per second on each of a few links.
        let mut world = World::new(setting.seconds.saturating_mul(1_000_000).max(1_000_000));
        let (client, server) = (world.reserve_host(), world.reserve_host());
        let rng = Rng::new(setting.seed).child("links");
        let mut number = 0;
        let mut link = |world: &mut World| {
            number += 1;
            let delay = DelaySpec { jitter: JITTER, ..DelaySpec::fixed(DELAY) };
            let queue =
                QueueSpec::Packets(if setting.form == Form::References { REFERENCES_QUEUE } else { QUEUE });
            let spec = LinkSpec { delay, queue, ..LinkSpec::constant(RATE) };
            world.add_link(LinkConfig::new(spec, rng.child(&number.to_string()).next_u64()))
        };
        // From the sink to the source and back.
        let mut chain = |world: &mut World, hops: usize| -> [Vec<LinkId>; 2] {
            [(); 2].map(|()| (0..hops).map(|_| link(world)).collect())
        };
        let shared = matches!(setting.form, Form::SharedAccess | Form::References);
        let ends = shared.then(|| [chain(&mut world, 1), chain(&mut world, 1)]);
        let inner = if ends.is_some() { [1, 2] } else { [2, 3] };
        let pathways = inner.map(|hops| chain(&mut world, hops));
        let mut hash = Rng::new(setting.seed).child("hash");
        let mut paths = Vec::new();
        for subflow in 0..SUBFLOWS_ON_EACH * pathways.len() {
            let path = match setting.form {
                Form::References => hash.below(pathways.len() as u64) as usize,
                _ => subflow / SUBFLOWS_ON_EACH,
            };
            let route = |direction: usize| match &ends {
                Some([first, last]) => [&first[direction], &pathways[path][direction], &last[direction]]
                    .map(Vec::as_slice)
                    .concat(),
                None => pathways[path][direction].clone(),
            };
            let (up, down) = (world.add_route(&route(0), server), world.add_route(&route(1), client));
            paths.push(SubflowPath { path: path as u8, up, down });
        }
        Self { world, client, server, paths }
    }

    fn reports(&self) -> Vec<SubflowReport> {
        let server = self.world.host::<Endpoint>(self.server).expect("it was placed");
        let transport: &dyn core::any::Any = server.transport();
        let transport = transport.downcast_ref::<MptcpTransport>().expect("it is what was placed");
        transport.reports().collect()
    }

    fn received(&self, at: Instant) -> u64 {
        let client = self.world.host::<Endpoint>(self.client).expect("it was placed");
        let client = client.application::<Client>().expect("it is what was placed");
        client.records(at).iter().map(|flow| flow.bytes).sum()
    }
}

/// Simulates one run.
///
/// # Errors
/// The simulator's errors.
pub(super) fn simulate(setting: &Setting) -> Result<Measured, tributary_sim::run::RunError> {
    let mut network = Network::build(setting);
    let loss_detection = match setting.form {
        Form::References => LossDetection::NewReno,
        _ => LossDetection::default(),
    };
    let tcp = TcpConfig { mss: SEGMENT, loss_detection, ..TcpConfig::default() };
    let config = MptcpConfig {
        scheduler: setting.scheduler.clone(),
        congestion: setting.congestion.clone(),
        prioritise_every: PRIORITISED,
        seed: setting.seed,
        tcp,
        ..MptcpConfig::default()
    };
    let (client, server) = MptcpTransport::pair(&config, &network.paths)?;
    let terms = Terms::always(Rng::new(setting.seed).child("workload"));
    let source = match setting.form {
        Form::Limited => WorkloadSpec::Constant { rate: OFFERED, packet: DataSize::from_bytes(SEGMENT) },
        _ => WorkloadSpec::Bulk { size: None },
    };
    let (reader, writer) = workload::pair(&[source], &terms);
    let world = &mut network.world;
    world.place_host(network.server, Box::new(Endpoint::new(Box::new(server), Box::new(writer))));
    world.place_host(network.client, Box::new(Endpoint::new(Box::new(client), Box::new(reader))));
    let mut measured = Measured::default();
    let (mut before, mut first) = (Sum::default(), (Sum::default(), 0));
    for second in 1..=setting.seconds {
        network.world.run_until(Instant::from_millis(second * 1000))?;
        let sum = Sum::of(&network.reports());
        measured.rtt_series_ms.push(sum.mean_since(&before));
        before = sum;
        if second == WARM_UP {
            first = (before, network.received(network.world.now()));
        }
    }
    let end = network.world.now();
    let seconds = setting.seconds.saturating_sub(WARM_UP).max(1) as f64;
    measured.rtt_ms = before.mean_since(&first.0);
    measured.rtt_deviation_ms = before.deviation_since(&first.0);
    measured.throughput_mbps = (network.received(end) - first.1) as f64 * 8e-6 / seconds;
    let server = network.world.host::<Endpoint>(network.server).expect("it was placed");
    let counters = server.transport().counters();
    measured.retransmitted_percent = 100.0 * counters.retransmitted as f64 / counters.sent.max(1) as f64;
    for report in network.reports() {
        measured.duplicate_acks += report.duplicate_acks;
        measured.fast_retransmissions += report.fast_recoveries;
        measured.lost_segments += report.lost / SEGMENT;
        measured.subflow_bytes.push(report.handed);
        measured.prioritised_ms.extend(report.prioritised.iter().map(|took| took.as_secs_f64() * 1e3));
    }
    measured.hash = network.world.log().hash();
    Ok(measured)
}

/// Sums of the round-trip times of all subflows up to a point in time.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Sum {
    fn of(reports: &[SubflowReport]) -> Self {
        reports.iter().fold(Self::default(), |sum, report| Self {
            count: sum.count + report.round_trips as f64,
            sum: sum.sum + report.round_trip_sum,
            squares: sum.squares + report.round_trip_squares,
        })
    }

    fn mean_since(&self, before: &Self) -> f64 {
        1e3 * (self.sum - before.sum) / (self.count - before.count).max(1.0)
    }

    fn deviation_since(&self, before: &Self) -> f64 {
        let count = (self.count - before.count).max(1.0);
        let mean = (self.sum - before.sum) / count;
        1e3 * ((self.squares - before.squares) / count - mean * mean).max(0.0).sqrt()
    }
}
