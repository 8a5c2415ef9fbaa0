//! Throughput and latency estimated from finished downloads: two exponentially weighted averages with different
//! half-lives; the more pessimistic one is used. Source: dash.js' `ThroughputHistory`, MMSys 2018 §4.

use core::time::Duration;

/// Half-lives of the averages, in seconds of download time.
const HALF_LIVES: [f64; 2] = [3.0, 8.0];

/// Expected throughput and latency of the next download.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Bit/s while bytes arrive.
    pub throughput: f64,
    /// From a request to its first byte.
    pub latency: Duration,
}

/// Averages over downloads.
#[derive(Clone, Debug, Default)]
pub struct ThroughputEstimate {
    throughput: [f64; HALF_LIVES.len()],
    latency: [f64; HALF_LIVES.len()],
    /// Total time of the downloads, seconds.
    time: f64,
    /// Number of downloads.
    downloads: f64,
}

impl ThroughputEstimate {
    /// Adds a download: `bits` arrived in `time` after a `latency` until the first byte. `segment` is the duration
    /// of its media. Downloads without bits or time are ignored.
    pub fn add(&mut self, bits: f64, time: Duration, latency: Duration, segment: Duration) {
        let (time, segment) = (time.as_secs_f64(), segment.as_secs_f64());
        if time <= 0.0 || bits <= 0.0 || segment <= 0.0 {
            return;
        }
        for (at, half_life) in HALF_LIVES.into_iter().enumerate() {
            let keep = libm::pow(0.5, time / half_life);
            self.throughput[at] = keep * self.throughput[at] + (1.0 - keep) * bits / time;
            let keep = libm::pow(0.5, segment / half_life);
            self.latency[at] = keep * self.latency[at] + (1.0 - keep) * latency.as_secs_f64();
        }
        self.time += time;
        self.downloads += segment;
    }

    /// The estimate; `None` before the first download.
    #[must_use]
    pub fn estimate(&self) -> Option<Estimate> {
        if self.time <= 0.0 {
            return None;
        }
        let mut throughput = f64::INFINITY;
        let mut latency: f64 = 0.0;
        for (at, half_life) in HALF_LIVES.into_iter().enumerate() {
            // Removes the bias of an average that starts at zero.
            let weight = 1.0 - libm::pow(0.5, self.time / half_life);
            throughput = throughput.min(self.throughput[at] / weight);
            let weight = 1.0 - libm::pow(0.5, self.downloads / half_life);
            latency = latency.max(self.latency[at] / weight);
        }
        Some(Estimate { throughput, latency: super::seconds(latency) })
    }
}
