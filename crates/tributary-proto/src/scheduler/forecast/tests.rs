//! Forecasts are finite for every history, and exact for histories that are straight lines.

use proptest::prelude::*;
use tributary_types::PathId;

use super::history::KEPT;
use super::*;

fn sample(at: u64, latency: u64, throughput: u64) -> Sample {
    Sample::new(Instant::from_nanos(at), latency as f64 * 1e-9, throughput as f64)
}

proptest! {
    #[test]
    fn any_history_has_a_finite_forecast_that_is_not_negative(
        samples in prop::collection::vec(any::<(u64, u64, u64)>(), 0..200),
        now in any::<u64>(),
    ) {
        let mut history = History::default();
        for &(at, latency, throughput) in &samples {
            history.push(sample(at, latency, throughput));
            let forecast = history.forecast(Instant::from_nanos(now)).expect("it has an observation");
            prop_assert!(forecast.latency.is_finite() && forecast.latency >= 0.0, "{forecast:?}");
            prop_assert!(forecast.throughput.is_finite() && forecast.throughput >= 0.0, "{forecast:?}");
        }
    }

    #[test]
    fn a_straight_line_is_continued_exactly(
        start in 0_u64..1 << 60,
        count in 2_usize..150,
        step in 1_000_u64..100_000_000,
        slope in -0.9_f64..0.9,
        ahead in 0_u64..64,
    ) {
        // Latency in ns grows by `slope` a ns from a value that keeps it positive; the start is hours or
        // years after the origin.
        let first = 1e9 + step as f64 * 300.0;
        let value = |i: u64| first + slope * (i * step) as f64;
        let mut history = History::default();
        for i in 0..count as u64 {
            history.push(sample(start + i * step, value(i).round() as u64, 5_000_000));
        }
        let at = count as u64 - 1 + ahead.min(count.min(KEPT) as u64 - 1);
        let forecast = history.forecast(Instant::from_nanos(start + at * step)).unwrap();
        let error = (forecast.latency * 1e9 - value(at)).abs();
        prop_assert!(error <= 8.0 + value(at) * 1e-9, "off by {error} ns of {}", value(at));
        prop_assert!((forecast.throughput - 5e6).abs() < 1e-3);
    }
}

#[test]
fn without_two_distinct_times_it_is_the_mean() {
    let mut history = History::default();
    assert_eq!(history.forecast(Instant::ZERO), None);
    for latency in [10, 20, 60] {
        history.push(sample(7, latency, 0));
    }
    let forecast = history.forecast(Instant::from_nanos(1 << 40)).unwrap();
    assert!((forecast.latency - 30e-9).abs() < 1e-15, "{forecast:?}");
}

#[test]
fn only_the_newest_observations_count() {
    let mut history = History::default();
    for i in 0..10 * KEPT as u64 {
        let latency = if i < 9 * KEPT as u64 { 1_000_000_000 } else { 5_000_000 };
        history.push(sample(i * 1000, latency, 1));
    }
    let forecast = history.forecast(Instant::from_nanos(1 << 30)).unwrap();
    assert!((forecast.latency - 0.005).abs() < 1e-12, "{forecast:?}");
}

fn view(in_flight: u64, rate: u64, oldest_sent: Option<Instant>) -> SubflowView {
    SubflowView {
        id: SubflowId(1),
        path: PathId(1),
        room: 1,
        srtt: Duration::from_millis(20),
        rttvar: Duration::ZERO,
        min_rtt: Duration::from_millis(10),
        least_delay: Duration::from_millis(10),
        usual_blockage: Duration::ZERO,
        cwnd: 1 << 16,
        in_flight,
        delivered: 0,
        rate: Some(Bitrate::from_bps(rate)),
        long_rate: None,
        sustained_rate: None,
        oldest_sent,
        silent: false,
        rank: 0,
    }
}

#[test]
fn a_path_at_rest_is_not_forecast_to_be_fast() {
    let mut tracker = Tracker::new(Latency::Arrival);
    tracker.up(SubflowId(1));
    let mut now = Instant::from_millis(100);
    let since = now;
    // A subflow that stands still has a latency of one second, not the hour that a rate of 1 bit/s would give.
    let still = view(400_000, 1, Some(since));
    for _ in 0..20 {
        now += EVERY;
        tracker.observe(now, &[still]);
    }
    let forecast = tracker.forecast(now, &still, 0);
    assert!((forecast.latency - LONGEST).abs() < 1e-9, "{forecast:?}");
    // The subflow is slow and its line falls steeply, to zero soon. But 400 kB at 3 Mbit/s take a second.
    for kilobytes in (300..400).rev() {
        now += EVERY;
        let creeping = view(kilobytes * 1000, 3_000_000, Some(now));
        tracker.observe(now, &[creeping]);
        let forecast = tracker.forecast(now, &creeping, 0);
        assert!(forecast.latency >= 0.79, "{kilobytes} kB: {forecast:?}");
    }
}

#[test]
fn running_sums_do_not_drift() {
    let mut history = History::default();
    let mut rng = tributary_types::Rng::new(5);
    let mut at = 0;
    for _ in 0..100_000 {
        // With pauses of minutes, and now and then a value far above all others.
        at += if rng.below(1000) == 0 { 100_000_000_000 } else { 5_000_000 + rng.below(1_000_000) };
        let spike = if rng.below(500) == 0 { 1_000_000_000_000_000 } else { 0 };
        history.push(sample(at, spike + rng.below(50_000_000), rng.below(1 << 30)));
    }
    for _ in 0..KEPT {
        at += 5_000_000;
        history.push(sample(at, 20_000_000, 7_000_000));
    }
    let forecast = history.forecast(Instant::from_nanos(at + 100_000_000)).unwrap();
    assert!((forecast.latency - 0.02).abs() < 1e-8, "{forecast:?}");
    assert!((forecast.throughput - 7e6).abs() < 1.0, "{forecast:?}");
}
