//! Input and results of a run in either simulator.

use core::time::Duration;
use serde::{Deserialize, Serialize};

/// Bytes of a full IP packet.
const PACKET: u64 = 1500;
/// Header bytes that ns-3's point-to-point link adds to each packet.
const LINK_HEADER: u64 = 2;
/// Suffix of CUBIC with the slow start of RFC 5681; an option in ns-3.
const NO_HYSTART: &str = "-no-hystart";
/// Payload bytes of a full packet.
pub(super) const SEGMENT: u64 = 1448;

/// Load of each flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// As much as possible, to the end of the run.
    Endless,
    /// This many bytes.
    Transfer(u64),
}

/// Flows over one bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// Rate in bit/s, counted in IP packets.
    pub rate_bps: u64,
    /// Round trip without queues.
    pub rtt: Duration,
    /// Queue limit in full packets, without the one in transmission.
    pub buffer_packets: u64,
    /// Congestion control, by the simulator's name.
    pub congestion: String,
    /// Number of flows, which start together.
    pub flows: u32,
    /// Simulated time.
    pub duration: Duration,
    /// Load of each flow.
    pub traffic: Traffic,
    /// Probability that a packet to the receiver is lost.
    pub loss: f64,
    /// Seed of the losses.
    pub seed: u64,
    /// Whether to record the first flow's window every 10 ms.
    pub windows: bool,
}

impl Bottleneck {
    /// One endless flow without loss, with a queue of this many bandwidth-delay products.
    pub fn new(rate_bps: u64, rtt: Duration, buffer_bdp: f64, congestion: &str) -> Self {
        let mut cell = Self {
            rate_bps,
            rtt,
            buffer_packets: 0,
            congestion: congestion.to_owned(),
            flows: 1,
            duration: Duration::from_secs(10),
            traffic: Traffic::Endless,
            loss: 0.0,
            seed: 1,
            windows: false,
        };
        let packets = buffer_bdp * cell.product_bytes() / PACKET as f64;
        // With a queue of fewer than two packets, pairs of segments would never pass completely.
        cell.buffer_packets = (packets.round() as u64).max(2);
        cell
    }

    /// The bandwidth-delay product in bytes.
    pub fn product_bytes(&self) -> f64 {
        self.rate_bps as f64 / 8.0 * self.rtt.as_secs_f64()
    }

    /// The queue's limit in our simulator, where it includes the packet in transmission.
    pub fn queue_bytes(&self) -> u64 {
        (self.buffer_packets + 1) * PACKET
    }

    /// Socket buffers that never limit: four times what path and queue hold.
    pub fn socket_bytes(&self) -> u64 {
        let held = self.product_bytes() + (self.buffer_packets * PACKET) as f64;
        ((4.0 * held / f64::from(self.flows)) as u64).max(256 << 10)
    }

    /// The ns-3 driver's arguments for the same packets per second and the same packets in the queue.
    pub(super) fn driver_arguments(&self) -> Vec<String> {
        let rate = u128::from(self.rate_bps) * u128::from(PACKET + LINK_HEADER) / u128::from(PACKET);
        let transfer = match self.traffic {
            Traffic::Endless => 0,
            Traffic::Transfer(bytes) => bytes,
        };
        let sample = if self.windows { 0.01 } else { 0.0 };
        vec![
            format!("--rate={rate}"),
            format!("--delay={}", self.rtt.as_micros() / 2),
            format!("--buffer={}", self.buffer_packets * (PACKET + LINK_HEADER)),
            format!("--cc={}", self.congestion.strip_suffix(NO_HYSTART).unwrap_or(&self.congestion)),
            format!("--hystart={}", u8::from(!self.congestion.ends_with(NO_HYSTART))),
            format!("--flows={}", self.flows),
            format!("--duration={}", self.duration.as_secs_f64()),
            format!("--transfer={transfer}"),
            format!("--loss={}", self.loss),
            format!("--seed={}", self.seed),
            format!("--window={}", self.socket_bytes()),
            format!("--sample={sample}"),
        ]
    }
}

/// The results of a run in one simulator. Field names are those of the ns-3 driver's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Payload bytes that arrived in order.
    pub received_bytes: u64,
    /// Goodput over the run, or until the transfers were complete, bit/s.
    pub goodput_bps: f64,
    /// When the last transfer was complete, counted from the first data packet.
    #[serde(default, rename = "completed_s")]
    pub completed: Option<f64>,
    /// Full segments that arrived.
    pub data_packets: u64,
    /// Packets that found the queue full.
    pub dropped_packets: u64,
    /// Wall time of the event loop in seconds.
    pub wall_s: f64,
    /// Processor time of the event loop in seconds.
    pub cpu_s: f64,
    /// Resident memory before hosts and links were created, kB.
    pub base_rss_kb: u64,
    /// Peak resident memory, kB.
    pub peak_rss_kb: u64,
    /// Goodput of each whole second, bit/s.
    pub goodput_bps_per_second: Vec<f64>,
    /// The first flow's congestion window: seconds, bytes.
    pub cwnd_bytes: Vec<(f64, u64)>,
}

impl Measured {
    /// Data packets per second of processor time.
    pub fn packets_per_second(&self) -> f64 {
        self.data_packets as f64 / self.cpu_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_simulators_get_the_same_packet_rate_and_queue() {
        let cell = Bottleneck::new(12_000_000, Duration::from_millis(100), 1.0, "cubic-no-hystart");
        assert_eq!(cell.buffer_packets, 100);
        assert_eq!(cell.queue_bytes(), 101 * 1500);
        let arguments = cell.driver_arguments();
        assert!(arguments.contains(&"--rate=12016000".to_owned()), "{arguments:?}");
        assert!(arguments.contains(&"--buffer=150200".to_owned()));
        assert!(arguments.contains(&"--delay=50000".to_owned()));
        assert!(arguments.contains(&"--cc=cubic".to_owned()));
        assert!(arguments.contains(&"--hystart=0".to_owned()));
        assert!(arguments.contains(&format!("--window={}", 4 * 300_000)));
    }

    #[test]
    fn a_queue_holds_at_least_two_packets() {
        assert_eq!(Bottleneck::new(1_000_000, Duration::from_millis(1), 0.25, "cubic").buffer_packets, 2);
    }

    #[test]
    fn the_driver_answers_in_the_same_words() {
        let text = r#"{"simulator":"ns-3 3.37","congestion":"cubic","received_bytes":6000,"goodput_bps":8000,
            "data_packets":4,"offered_packets":5,"dropped_packets":1,"wall_s":0.5,"cpu_s":0.25,
            "base_rss_kb":1,"peak_rss_kb":2,"goodput_bps_per_second":[1000,2000,3000,5000],"cwnd_bytes":[[0.01,14480]]}"#;
        let measured: Measured = serde_json::from_str(text).unwrap();
        assert_eq!(measured.completed, None);
        assert_eq!(measured.packets_per_second(), 16.0);
        assert_eq!(measured.cwnd_bytes, [(0.01, 14_480)]);
    }
}
