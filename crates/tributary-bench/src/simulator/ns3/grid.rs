//! The bottlenecks that are compared. Runs nothing.

use super::super::{Bottleneck, Traffic};
use super::{Plan, Subject};
use core::time::Duration;

/// One comparison to make.
#[derive(Clone, Debug)]
pub struct Probe {
    /// What is compared.
    pub subject: Subject,
    /// The cell with its first seed.
    pub cell: Bottleneck,
    /// Its queue in bandwidth-delay products.
    pub buffer_bdp: f64,
    /// Seeds, from 1.
    pub seeds: u64,
}

const RATES: [u64; 4] = [5, 20, 100, 500];
const ROUND_TRIPS: [u64; 4] = [5, 20, 50, 200];
const BUFFERS: [f64; 3] = [0.25, 1.0, 4.0];
/// Rate, round trip and queue of cells with random loss and of short transfers.
const MIDDLING: [(u64, u64, f64); 2] = [(20, 50, 1.0), (100, 20, 1.0)];
const LOSSES: [f64; 2] = [0.001, 0.01];
const SIZES: [u64; 3] = [128 << 10, 1 << 20, 8 << 20];

impl Probe {
    /// In words, for progress.
    pub fn label(&self) -> String {
        let cell = &self.cell;
        let what = match (self.subject, cell.traffic) {
            (Subject::Completion, Traffic::Transfer(bytes)) => format!(", {} KiB", bytes >> 10),
            (Subject::GoodputUnderLoss, _) => format!(", loss {} %", cell.loss * 100.0),
            _ => String::new(),
        };
        let (rate, rtt) = (cell.rate_bps / 1_000_000, cell.rtt.as_millis());
        format!("{} at {rate} Mbit/s, {rtt} ms, {} BDP{what}", cell.congestion, self.buffer_bdp)
    }
}

/// All cells of a plan.
pub fn probes(plan: &Plan) -> Vec<Probe> {
    let mut probes = Vec::new();
    for congestion in &plan.congestions {
        for rate in RATES {
            for rtt in ROUND_TRIPS {
                for buffer in BUFFERS {
                    if plan.full || is_telling(rate, rtt) {
                        probes.push(long(rate, rtt, buffer, congestion));
                    }
                }
            }
        }
        for (rate, rtt, buffer) in MIDDLING {
            let base = long(rate, rtt, buffer, congestion);
            for loss in LOSSES {
                let cell = Bottleneck { loss, duration: Duration::from_secs(60), ..base.cell.clone() };
                let subject = Subject::GoodputUnderLoss;
                probes.push(Probe { subject, cell, buffer_bdp: buffer, seeds: plan.seeds });
            }
            for size in SIZES {
                let traffic = Traffic::Transfer(size);
                let cell = Bottleneck { traffic, duration: Duration::from_secs(120), ..base.cell.clone() };
                probes.push(Probe { subject: Subject::Completion, cell, buffer_bdp: buffer, seeds: 1 });
            }
        }
    }
    probes.sort_by_key(|probe| probe.subject);
    probes
}

/// The selection: each rate with two round trips, small and large bandwidth-delay products, and nothing that
/// takes ns-3 minutes.
fn is_telling(rate: u64, rtt: u64) -> bool {
    matches!((rate, rtt), (5, 20 | 200) | (20, 5 | 50) | (100, 20 | 50) | (500, 5 | 20))
}

fn long(rate: u64, rtt: u64, buffer: f64, congestion: &str) -> Probe {
    let mut cell = Bottleneck::new(rate * 1_000_000, Duration::from_millis(rtt), buffer, congestion);
    // Long enough for many round trips; at 500 Mbit/s ns-3 needs a minute for ten seconds.
    cell.duration = Duration::from_secs(match rate {
        ..=20 => 60,
        21..=100 => 30,
        _ => 15,
    });
    Probe { subject: Subject::Goodput, cell, buffer_bdp: buffer, seeds: 1 }
}
