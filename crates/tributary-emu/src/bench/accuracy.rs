//! Rate error and error of the added delay, idle and under a saturating TCP flow.

use super::{BenchError, goodput_of, probe, steady};
use crate::audit::Verdict;
use crate::forward::ForwardOptions;
use crate::histogram::{Histogram, Percentiles};
use crate::network::Network;
use crate::traffic::TcpFlow;
use core::time::Duration;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use tributary_types::Bitrate;

/// Settings of a measurement.
#[derive(Clone, Debug)]
pub struct AccuracyPlan {
    /// Rates of the path.
    pub rates: Vec<Bitrate>,
    /// Time of each measurement.
    pub time: Duration,
}

impl Default for AccuracyPlan {
    /// 10, 100, 500 and 1000 Mbit/s for five seconds each.
    fn default() -> Self {
        let rates = [10, 100, 500, 1000].map(Bitrate::from_mbps).to_vec();
        Self { rates, time: Duration::from_secs(5) }
    }
}

/// Load of the path besides the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Only the probes.
    Idle,
    /// One TCP flow that fills the path, in the direction of the probes.
    Tcp,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Accuracy {
    /// Configured rate, Mbit/s.
    pub rate_mbps: f64,
    /// Load of the path.
    pub load: Load,
    /// Goodput of the TCP flow, Mbit/s.
    pub goodput_mbps: Option<f64>,
    /// Relative error of the rate, from the goodput and the share of headers.
    pub rate_error: Option<f64>,
    /// Error of the delay of single datagrams: measured minus configured.
    pub delay_error: Percentiles,
    /// Probes that arrived earlier than the model allows.
    pub early: u64,
    /// Processor time of the forwarding thread as a share of one core.
    pub cpu_share: f64,
    /// The emulator's own verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Measures every rate of the plan, idle and under load. `progress` gets the name of each step.
pub fn accuracy(plan: &AccuracyPlan, progress: &mut dyn FnMut(&str)) -> Result<Vec<Accuracy>, BenchError> {
    let mut rows = Vec::new();
    for &rate in &plan.rates {
        for load in [Load::Idle, Load::Tcp] {
            progress(&format!("{rate}, {load:?}"));
            rows.push(measure(rate, load, plan.time)?);
        }
    }
    Ok(rows)
}

fn measure(rate: Bitrate, load: Load, time: Duration) -> Result<Accuracy, BenchError> {
    let options = ForwardOptions { probe_port: Some(probe::PORT), ..ForwardOptions::default() };
    let network = Network::start_with(&steady(rate), options)?;
    let stop = AtomicBool::new(false);
    let (measured, goodput) = std::thread::scope(|scope| {
        let probing = scope.spawn(|| probe::one_way_delays(&network, &stop));
        let goodput = match load {
            Load::Idle => {
                std::thread::sleep(time); // the length of the measurement
                Ok(None)
            }
            Load::Tcp => TcpFlow { measured: time, ..TcpFlow::on_path(0) }.run(&network).map(Some),
        };
        stop.store(true, Ordering::Relaxed);
        let measured = probing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, BenchError>((measured?, goodput?))
    })?;
    let mut errors = Histogram::new();
    let mut early = 0;
    for probe in network.probes()? {
        if let Some(delay) = measured.get(&probe.number) {
            early += u64::from(*delay < probe.asked);
            errors.record(delay.abs_diff(probe.asked), 1);
        }
    }
    let audit = network.audit()?;
    // The probes use a small part of the rate: 228 bytes each.
    let probes_mbps = measured.len() as f64 * 228.0 * 8e-6 / audit.seconds;
    let whole = |goodput: Bitrate| goodput.as_mbps_f64() / (goodput_of(rate) - probes_mbps) - 1.0;
    Ok(Accuracy {
        rate_mbps: rate.as_mbps_f64(),
        load,
        goodput_mbps: goodput.map(Bitrate::as_mbps_f64),
        rate_error: goodput.map(whole),
        delay_error: errors.percentiles(),
        early,
        cpu_share: audit.cpu_share,
        verdict: audit.verdict(),
    })
}

/// Finds the highest accurate rate: TCP at increasing rates, until the audit finds a run invalid or the goodput
/// misses the rate by 2 %. The last row is the first failure.
pub fn ceiling(time: Duration, progress: &mut dyn FnMut(&str)) -> Result<Vec<Accuracy>, BenchError> {
    let mut rows = Vec::new();
    for mbps in [2_000, 3_000, 4_000, 6_000, 8_000, 10_000] {
        progress(&format!("ceiling: {mbps} Mbit/s"));
        let row = measure(Bitrate::from_mbps(mbps), Load::Tcp, time)?;
        let missed = row.verdict != Verdict::Valid || row.rate_error.is_none_or(|error| error.abs() > 0.02);
        rows.push(row);
        if missed {
            break;
        }
    }
    Ok(rows)
}
