//! The order of the scores, and the weights that are refused.

use core::time::Duration;

use proptest::prelude::*;
use tributary_types::{Bitrate, PathId};

use super::*;
use crate::scheduler::forecast::Latency;

fn view(id: u32, srtt: u64, mbps: u64) -> SubflowView {
    SubflowView {
        id: SubflowId(id),
        path: PathId(0),
        room: 1,
        srtt: Duration::from_millis(srtt),
        rttvar: Duration::ZERO,
        min_rtt: Duration::from_millis(srtt),
        least_delay: Duration::from_millis(srtt),
        usual_blockage: Duration::ZERO,
        cwnd: 10,
        in_flight: 0,
        delivered: 0,
        rate: Some(Bitrate::from_mbps(mbps)),
        long_rate: None,
        sustained_rate: None,
        oldest_sent: None,
        silent: false,
        rank: 0,
    }
}

fn winner(subflows: &[SubflowView], weights: Weights) -> Option<SubflowId> {
    let tracker = Tracker::new(Latency::RoundTrip);
    best((Instant::ZERO, &tracker, &weights), subflows, |_| true).map(|choice| choice.subflow)
}

#[test]
fn less_latency_and_more_throughput_are_better_and_ties_go_to_the_first() {
    let weights = Weights::default();
    assert_eq!(winner(&[view(0, 20, 10), view(1, 10, 10)], weights), Some(SubflowId(1)));
    assert_eq!(winner(&[view(0, 10, 10), view(1, 10, 20)], weights), Some(SubflowId(1)));
    assert_eq!(winner(&[view(1, 10, 10), view(0, 10, 10)], weights), Some(SubflowId(0)));
    let by_throughput = Weights { latency: 0.001, throughput: -1.0 };
    assert_eq!(winner(&[view(0, 10, 10), view(1, 90, 20)], by_throughput), Some(SubflowId(1)));
    assert_eq!(winner(&[], weights), None);
}

#[test]
fn silent_subflows_are_used_only_when_all_are_silent() {
    let mut subflows = [view(0, 1, 100), view(1, 500, 1)];
    subflows[0].silent = true;
    assert_eq!(winner(&subflows, Weights::default()), Some(SubflowId(1)));
    subflows[1].silent = true;
    assert_eq!(winner(&subflows, Weights::default()), Some(SubflowId(0)));
}

#[test]
fn weights_out_of_range_are_refused_with_the_range() {
    for latency in [0.0, -1.0, 1000.1, f64::NAN, f64::INFINITY] {
        let error = Weights { latency, ..Weights::default() }.check().unwrap_err().to_string();
        assert!(error.contains("`latency`") && error.contains("from 0.001 to 1000"), "{error}");
    }
    for throughput in [0.1, -1000.1, f64::NAN, f64::NEG_INFINITY] {
        let error = Weights { throughput, ..Weights::default() }.check().unwrap_err().to_string();
        assert!(error.contains("`throughput`") && error.contains("from -1000 to 0"), "{error}");
    }
}

proptest! {
    /// The paper's sigmoid gives the same order as the scores, except where rounding makes two sigmoids equal.
    #[test]
    fn the_sigmoid_keeps_the_order(a in -50.0_f64..50.0, b in -50.0_f64..50.0) {
        let sigmoid = |score: f64| 1.0 / (1.0 + libm::exp(-score));
        prop_assert!(a > b || sigmoid(a) <= sigmoid(b));
    }
}
