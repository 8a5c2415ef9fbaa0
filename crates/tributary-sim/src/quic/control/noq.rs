//! [`Driven`] and noq-proto's own controllers behind noq-proto's trait.

use super::twins::controller;

controller! {
    noq_proto {
        fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, _: u64, _: bool, rtt: &RttEstimator) {
            self.acknowledged(virtual_time(sent), bytes, rtt.get());
        }

        fn on_congestion_event(
            &mut self,
            now: Instant,
            sent: Instant,
            persistent: bool,
            _: bool,
            lost_bytes: u64,
            _: u64,
        ) {
            self.lost(virtual_time(now), virtual_time(sent), lost_bytes, persistent);
        }

        fn on_spurious_congestion_event(&mut self) {
            self.spurious();
        }

        fn metrics(&self) -> ControllerMetrics {
            let mut metrics = ControllerMetrics::default();
            metrics.congestion_window = self.window();
            metrics.ssthresh = self.threshold();
            metrics.pacing_rate = self.pacing_rate();
            metrics
        }
    }
}
