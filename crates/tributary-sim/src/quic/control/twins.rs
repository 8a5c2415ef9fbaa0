//! What the congestion traits of quinn-proto and noq-proto have in common: they are the same traits in two crates. The methods
//! that differ are in `quinn.rs` and `noq.rs`.

/// Puts [`super::Driven`] and the own controllers of `$quic` behind its traits; `$methods` are those in which the crates differ.
macro_rules! controller {
    ($quic:ident { $($methods:item)* }) => {
        use std::any::Any;
        use std::sync::Arc;
        use std::time::Instant;

        use $quic::RttEstimator;
        use $quic::congestion::{Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig};

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
            $($methods)*

            fn on_sent(&mut self, now: Instant, bytes: u64, _: u64) {
                self.sent(virtual_time(now), bytes);
            }

            fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
                self.acknowledgement_ended(virtual_time(now), in_flight, app_limited);
            }

            fn on_mtu_update(&mut self, _: u16) {} // datagrams keep their size: no MTU discovery

            fn window(&self) -> u64 {
                self.window()
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
    };
}

pub(super) use controller;
