//! The cells that are compared. Runs nothing.

use super::{Group, Plan};
use core::time::Duration;
use tributary_link::{LinkSpec, LossSpec, PathSpec, QueueSpec, Scenario, ScenarioError};
use tributary_sim::workload::BIN;
use tributary_types::{Bitrate, DataSize};

/// The only path of networks built here.
const PATH: &str = "link";
/// The smallest queue: two full packets.
const LEAST_QUEUE: u64 = 3000;
/// The queue of acknowledgements never fills.
const RETURN_QUEUE: u64 = 1 << 20;
const CONTROLS: [&str; 3] = ["reno", "cubic", "bbr"];
const RATES: [u64; 4] = [5, 20, 100, 500];
const ROUND_TRIPS: [u64; 4] = [5, 20, 50, 200];
const BUFFERS: [f64; 3] = [0.25, 1.0, 4.0];
const LOSSES: [f64; 4] = [0.001, 0.005, 0.01, 0.02];
const SCHEDULERS: [&str; 6] = ["fbdt", "fbdt-paper", "min-rtt", "round-robin", "blest", "ecf"];
const CONDITIONS: [&str; 5] = ["los", "deep-fade", "blackout", "loss-wigig", "delay-wigig"];
/// Scenario and path of links with changing rates.
const CHANGING: [(&str, &str); 4] =
    [("deep-fade", "wigig"), ("blackout", "wigig"), ("onoff", "wigig"), ("blockage-short", "lte")];
/// Long enough for a controller that adds one segment a round trip to fill the queue several times.
const EBPF_SECONDS: f64 = 30.0;
/// Simulated runs of a cell for each of the kernel's.
const SIMULATED: u64 = 1;

/// One comparison to make.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub group: Group,
    pub scenario: Scenario,
    /// The network in words.
    pub network: String,
    /// A path's name or a scheduler.
    pub transport: String,
    pub congestion: String,
    pub seconds: f64,
    /// The kernel's runs, with seeds from 1.
    pub seeds: u64,
    overlay: Option<String>,
}

impl Probe {
    /// In words, for progress and to tell cells apart.
    pub fn label(&self) -> String {
        if self.transport == PATH {
            return format!("{} over {}", self.congestion, self.network);
        }
        format!("{} by {} over {}", self.transport, self.congestion, self.network)
    }

    pub fn kernel_seeds(&self) -> impl Iterator<Item = u64> + use<> {
        1..=self.seeds
    }

    pub fn simulated_seeds(&self) -> impl Iterator<Item = u64> + use<> {
        1..=if self.has_seeds() { SIMULATED * self.seeds } else { 1 }
    }

    /// Whether it has randomness that depends on the seed.
    pub fn has_seeds(&self) -> bool {
        self.group == Group::Loss
    }

    /// Name of the plot of its windows, if it has one.
    pub fn overlay(&self) -> Option<String> {
        self.overlay.clone()
    }

    /// In the emulator connections are up when time begins. In the simulator the handshake takes a round
    /// trip, so its run is longer by that time and its first bins do not count. Not so with changing rates,
    /// where the same times must be compared.
    pub fn handshake(&self) -> Duration {
        match self.group {
            Group::Steady | Group::Loss | Group::Ebpf => self.scenario.rtt,
            Group::Changing | Group::Schedulers => Duration::ZERO,
        }
    }

    /// Bins of a run.
    pub fn bins(&self) -> usize {
        (self.seconds / BIN.as_secs_f64()).round() as usize
    }
}

/// All cells of a plan.
pub(super) fn probes(plan: &Plan) -> Vec<Probe> {
    let mut probes = Vec::new();
    for group in &plan.groups {
        match group {
            Group::Steady => steady(plan, &mut probes),
            Group::Loss => losses(plan, &mut probes),
            Group::Changing => changing(plan, &mut probes),
            Group::Schedulers => schedulers(plan, &mut probes),
            Group::Ebpf => ebpf(&mut probes),
        }
    }
    probes
}

fn steady(plan: &Plan, probes: &mut Vec<Probe>) {
    let rates = RATES.into_iter().filter(|rate| *rate <= plan.fastest_mbps);
    for (rate, rtt) in rates.flat_map(|rate| ROUND_TRIPS.map(|rtt| (rate, rtt))) {
        // Small and large bandwidth-delay products.
        let telling = matches!((rate, rtt), (5, 50) | (20, 20) | (100, 20 | 50) | (500, 20));
        for (buffer, congestion) in BUFFERS.into_iter().flat_map(|b| CONTROLS.map(|c| (b, c))) {
            if plan.full || telling {
                probes.push(single(Group::Steady, (rate, rtt, buffer, 0.0), congestion));
            }
        }
    }
}

fn ebpf(probes: &mut Vec<Probe>) {
    for congestion in tributary_bpf::CONTROLLERS {
        let probe = single(Group::Ebpf, (20, 50, 1.0, 0.0), congestion);
        let overlay = Some(format!("cwnd-{congestion}-20-50-1"));
        probes.push(Probe { seconds: EBPF_SECONDS, overlay, ..probe });
    }
}

fn losses(plan: &Plan, probes: &mut Vec<Probe>) {
    for (rate, rtt, loss) in [20, 100]
        .into_iter()
        .flat_map(|rate| [20, 50].map(|rtt| LOSSES.map(|loss| (rate, rtt, loss))))
        .flatten()
    {
        let telling = matches!((rate, rtt), (20, 50)) && loss == 0.005
            || matches!((rate, rtt), (100, 20)) && loss == 0.01;
        for congestion in CONTROLS {
            if plan.full || telling {
                let seeds = if plan.full { plan.seeds } else { 1 };
                let probe = single(Group::Loss, (rate, rtt, 1.0, loss), congestion);
                probes.push(Probe { seeds: seeds.max(1), ..probe });
            }
        }
    }
}

/// One connection over a link of constant rate.
fn single(group: Group, (rate, rtt, buffer, loss): (u64, u64, f64, f64), congestion: &str) -> Probe {
    let product = rate * 1_000_000 / 8 * rtt / 1000;
    let queue = ((product as f64 * buffer) as u64).max(LEAST_QUEUE);
    let mut down = LinkSpec::constant(Bitrate::from_bps(rate * 1_000_000));
    down.queue = QueueSpec::Bytes(DataSize::from_bytes(queue));
    let mut up = down.clone();
    up.queue = QueueSpec::Bytes(DataSize::from_bytes(queue.max(RETURN_QUEUE)));
    let mut network = format!("{rate} Mbit/s, {rtt} ms, {buffer} BDP");
    if loss > 0.0 {
        down.loss = LossSpec::Bernoulli(loss);
        network += &format!(", {} % lost", loss * 100.0);
    }
    let path = PathSpec { down, up: up.clone(), ..PathSpec::symmetric(PATH, up) };
    let scenario = Scenario::new("bottleneck").with_path(path).with_rtt(Duration::from_millis(rtt));
    // Long enough for many round trips, and for many random losses.
    let least = if group == Group::Loss { 15.0 } else { 8.0 };
    let seconds = (rtt as f64 * 0.06).max(least);
    let worth_showing = matches!((rate, rtt), (100, 50) | (20, 20)) && loss == 0.0
        || matches!((rate, rtt), (20, 50)) && loss == 0.005;
    let overlay = worth_showing.then(|| {
        let lost = if loss > 0.0 { "-loss" } else { "" };
        format!("cwnd-{congestion}-{rate}-{rtt}-{buffer}{lost}")
    });
    Probe {
        group,
        scenario,
        network,
        transport: PATH.to_owned(),
        congestion: congestion.to_owned(),
        seconds,
        seeds: 1,
        overlay,
    }
}

fn changing(plan: &Plan, probes: &mut Vec<Probe>) {
    for ((name, path), rtt) in CHANGING.into_iter().flat_map(|place| [5, 20].map(|rtt| (place, rtt))) {
        for congestion in CONTROLS {
            let telling = rtt == 20 && matches!(name, "deep-fade" | "blackout");
            if (plan.full || telling)
                && let Ok(scenario) = Scenario::builtin(name).map(|scenario| scenario.only(path))
                && let Some(scenario) = scenario
            {
                let scenario = at(scenario, rtt);
                let overlay = (name == "deep-fade" && rtt == 20).then(|| format!("cwnd-{congestion}-{name}"));
                let network = format!("{name}'s {path} alone, {rtt} ms");
                let (transport, congestion) = (path.to_owned(), congestion.to_owned());
                let group = Group::Changing;
                probes.push(Probe {
                    group,
                    scenario,
                    network,
                    transport,
                    congestion,
                    seconds: 16.0,
                    seeds: 1,
                    overlay,
                });
            }
        }
    }
}

fn schedulers(plan: &Plan, probes: &mut Vec<Probe>) {
    for (name, rtt) in CONDITIONS.into_iter().flat_map(|name| [5, 20].map(|rtt| (name, rtt))) {
        for scheduler in SCHEDULERS {
            let telling = rtt == 5 && matches!(scheduler, "fbdt" | "min-rtt");
            let Ok(scenario) = condition(name, rtt) else { continue };
            if plan.full || telling {
                probes.push(Probe {
                    group: Group::Schedulers,
                    scenario,
                    network: format!("{name}, {rtt} ms"),
                    transport: scheduler.to_owned(),
                    congestion: "cubic".to_owned(),
                    seconds: 10.0,
                    seeds: 1,
                    overlay: None,
                });
            }
        }
    }
}

fn condition(name: &str, rtt: u64) -> Result<Scenario, ScenarioError> {
    Scenario::builtin(name).map(|scenario| at(scenario, rtt))
}

fn at(scenario: Scenario, rtt: u64) -> Scenario {
    scenario.with_rtt(Duration::from_millis(rtt))
}
