//! Everything written is read, once and in order, on networks from random seeds; reordering and duplicates
//! are recognised.

use core::time::Duration;

use proptest::prelude::*;

use super::wire::{Weather, Wire};
use crate::tcp::{LossDetection, TcpConfig};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn data_arrives_unchanged_over_any_wire(
        seed in 0_u64..1 << 32,
        loss in 0.0_f64..0.3,
        repeat in 0.0_f64..0.1,
        jitter in 0_u64..40,
        totals in (0_u64..200_000, 0_u64..60_000),
        controller in prop::sample::select(vec!["reno", "cubic", "bbr"]),
        loss_detection in prop::sample::select(vec![LossDetection::Rack, LossDetection::DupAck, LossDetection::NewReno]),
        buffer in 1_000_u64..100_000,
    ) {
        let config = TcpConfig { loss_detection, receive_buffer: buffer, retries: 40, syn_retries: 40, ..TcpConfig::default() };
        let weather = Weather { loss, repeat, jitter: Duration::from_millis(jitter), ..Weather::default() };
        let mut wire = Wire::new(&config, controller, weather, seed);
        (wire.flows[0].total, wire.flows[1].total) = totals;
        prop_assert!(wire.run(Duration::from_secs(100_000)), "{:#?}", wire.ends.map(|end| end.info()));
        for flow in wire.flows {
            prop_assert_eq!((flow.read, flow.written), (flow.total, flow.total));
        }
        for end in &wire.ends {
            prop_assert_eq!(end.error(), None);
            prop_assert!(end.receive_held_most() <= buffer.max(1));
        }
    }
}

/// Sends `bytes` one way and returns the wire, with the sender's numbers and the time it took.
fn send(bytes: u64, config: &TcpConfig, weather: Weather) -> Wire {
    let mut wire = Wire::new(config, "reno", weather, 1);
    wire.flows[0].total = bytes;
    assert!(wire.run(Duration::from_secs(1000)));
    assert_eq!(wire.flows[0].read, bytes);
    wire
}

#[test]
fn reordering_within_a_quarter_of_the_round_trip_costs_next_to_nothing() {
    let weather = Weather { jitter: Duration::from_millis(4), ..Weather::default() };
    let info = send(3_000_000, &TcpConfig::default(), weather).ends[0].info();
    assert!(info.retransmitted < 60_000, "{info:?}");
    assert_eq!(info.timeouts, 0);
}

#[test]
fn packets_duplicated_by_the_network_are_not_taken_for_losses() {
    let weather = Weather { repeat: 0.05, ..Weather::default() };
    let info = send(3_000_000, &TcpConfig::default(), weather).ends[0].info();
    assert_eq!((info.retransmitted, info.timeouts), (0, 0), "{info:?}");
}

#[test]
fn a_lost_tail_is_probed_for_instead_of_timed_out() {
    // With some seed the last of few segments is lost; with a probe no timeout is needed.
    let mut probed = 0;
    for seed in 0..40 {
        let weather = Weather { loss: 0.1, ..Weather::default() };
        let mut wire = Wire::new(&TcpConfig::default(), "reno", weather, seed);
        wire.flows[0].total = 10 * 1448;
        assert!(wire.run(Duration::from_secs(1000)));
        let info = wire.ends[0].info();
        probed += u32::from(info.retransmitted > 0 && info.timeouts == 0);
    }
    assert!(probed >= 10, "{probed}");
}

#[test]
fn a_delay_that_rises_beyond_the_timeout_is_recognised_and_undone() {
    let config = TcpConfig::default();
    let mut wire = Wire::new(&config, "reno", Weather::default(), 1);
    wire.flows[0].total = 2_000_000;
    wire.run(Duration::from_millis(150));
    let before = wire.ends[0].info();
    wire.weather.delay = Duration::from_millis(500);
    wire.run(Duration::from_millis(1_500));
    let after = wire.ends[0].info();
    assert!(after.timeouts > 0 && after.spurious > 0, "{after:?}");
    assert!(after.cwnd >= before.cwnd, "{before:?} {after:?}");
    assert!(wire.run(Duration::from_secs(100)));
}
