//! [`Driven`] and quinn-proto's own controllers behind quinn-proto's trait.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig};

use super::super::clock::virtual_time;
use super::{Driven, Maker, OWN_CUBIC, OWN_NEW_RENO};

/// The factory of controllers called `name`, for datagrams of `mtu` bytes; `None` if there are none.
pub(in super::super) fn factory(
    name: &str,
    mtu: u16,
    seed: u64,
) -> Option<Arc<dyn ControllerFactory + Send + Sync + 'static>> {
    let initial = 10 * u64::from(mtu); // RFC 9002 §7.2, and TCP's initial window here
    Some(match name {
        OWN_CUBIC => {
            let mut config = CubicConfig::default();
            config.initial_window(initial);
            Arc::new(config)
        }
        OWN_NEW_RENO => {
            let mut config = NewRenoConfig::default();
            config.initial_window(initial);
            Arc::new(config)
        }
        _ => Arc::new(Maker::new(name, seed)?),
    })
}

impl ControllerFactory for Maker {
    fn build(self: Arc<Self>, _: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(self.make(mtu))
    }
}

impl Controller for Driven {
    fn on_sent(&mut self, now: Instant, bytes: u64, _: u64) {
        self.sent(virtual_time(now), bytes);
    }

    fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, _: bool, rtt: &RttEstimator) {
        self.acknowledged(virtual_time(sent), bytes, rtt.get());
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        self.acknowledgement_ended(virtual_time(now), in_flight, app_limited);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost_bytes: u64) {
        self.lost(virtual_time(now), virtual_time(sent), lost_bytes, persistent);
    }

    fn on_mtu_update(&mut self, _: u16) {} // datagrams keep their size: no MTU discovery

    fn window(&self) -> u64 {
        self.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh = self.threshold();
        metrics.pacing_rate = self.pacing_rate().map(|rate| 8 * rate);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.another())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
