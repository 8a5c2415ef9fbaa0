//! Compares TCP over super-frames with TCP over single packets, under random loss.
//!
//! Runs the same link with the same seeds twice: with super-frames, lost segment by segment, and with a
//! device that delivers single packets. Dropping whole super-frames would give TCP several times the goodput.

use super::{BenchError, steady};
use crate::forward::ForwardOptions;
use crate::network::Network;
use crate::traffic::TcpFlow;
use core::time::Duration;
use serde::Serialize;
use tributary_link::LossSpec;
use tributary_types::Bitrate;

/// Goodput with super-frames compared with goodput packet by packet.
#[derive(Clone, Debug, Serialize)]
pub struct LossEquivalence {
    /// Rate, Mbit/s.
    pub rate_mbps: f64,
    /// Share of segments lost.
    pub loss: f64,
    /// Number of pairs of runs.
    pub seeds: u64,
    /// Mean goodput with super-frames, Mbit/s.
    pub super_frames_mbps: f64,
    /// Mean goodput packet by packet, Mbit/s.
    pub packets_mbps: f64,
    /// `super_frames_mbps` / `packets_mbps`.
    pub ratio: f64,
    /// Standard error of the ratio.
    pub standard_error: f64,
}

/// Runs both for every seed, `time` each, on 100 Mbit/s with 10 ms RTT and 0.5 % loss.
pub fn loss_equivalence(
    seeds: u64,
    time: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<LossEquivalence, BenchError> {
    let (rate, loss) = (Bitrate::from_mbps(100), 0.005);
    let mut runs = [Vec::new(), Vec::new()];
    for seed in 1..=seeds {
        progress(&format!("loss equivalence: seed {seed} of {seeds}"));
        for (super_frames, results) in [true, false].into_iter().zip(&mut runs) {
            let mut scenario = steady(rate).with_seed(seed);
            scenario.paths[0].down.loss = LossSpec::Bernoulli(loss);
            let options = ForwardOptions { super_frames, ..ForwardOptions::default() };
            let network = Network::start_with(&scenario, options)?;
            let warm_up = Duration::from_millis(500);
            let flow = TcpFlow { warm_up, measured: time, ..TcpFlow::on_path(0) };
            results.push(flow.run(&network)?.as_mbps_f64());
        }
    }
    let [(with, with_error), (without, without_error)] = [mean(&runs[0]), mean(&runs[1])];
    let ratio = with / without;
    let relative = ((with_error / with).powi(2) + (without_error / without).powi(2)).sqrt();
    Ok(LossEquivalence {
        rate_mbps: rate.as_mbps_f64(),
        loss,
        seeds,
        super_frames_mbps: with,
        packets_mbps: without,
        ratio,
        standard_error: ratio * relative,
    })
}

/// Mean and its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, (variance / n).sqrt())
}
