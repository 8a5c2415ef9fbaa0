//! The RFC's formulas by hand: C = 0.4, β = 717/1024, α = 9/17.

use super::*;

const MSS: u64 = 1000;
const RTT: Duration = Duration::from_millis(100);

fn ack(now: Instant, bytes: u64) -> Ack {
    Ack {
        now,
        bytes,
        in_flight_before: bytes,
        in_flight: 0,
        rtt: Some(RTT),
        srtt: RTT,
        min_rtt: RTT,
        rate: None,
        cwnd_limited: true,
        in_recovery: false,
        round_ended: true,
    }
}

fn feed(cubic: &mut Cubic, ack: &Ack) {
    let view = [cubic.view()];
    cubic.on_ack(ack, Siblings::new(&view, 0));
}

fn lose(cubic: &mut Cubic, now: Instant, kind: LossKind) {
    let view = [cubic.view()];
    let loss = Loss { now, kind, bytes: MSS, in_flight: cubic.window() };
    cubic.on_loss(&loss, Siblings::new(&view, 0));
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn with_window(segments: u64) -> Cubic {
    Cubic::without_hystart(Setup { initial_window: segments * MSS, ..Setup::new(MSS) })
}

#[test]
fn k_and_the_curve_by_hand() {
    // W_max = 1000, cwnd = 700: K = cbrt(300/0.4) = cbrt(750) = 9.0856 s.
    let epoch = Epoch::begin(at(0), 700.0, 1000.0);
    assert!((epoch.to_origin - 9.085_603).abs() < 1e-6);
    for (t, segments) in [
        (0.0, 700.0),
        (4.0, 947.388), // 1000 − 0.4·5.085_603³
        (9.085_603, 1000.0),
        (10.0, 1000.306), // 1000 + 0.4·0.914397³
        (20.0, 1520.067), // 1000 + 0.4·10.914397³
    ] {
        assert!((epoch.at(t) - segments).abs() <= 1.0, "W({t}) = {}", epoch.at(t));
    }
}

#[test]
fn without_a_larger_window_before_the_curve_begins_at_its_flat_point() {
    let epoch = Epoch::begin(at(0), 50.0, 0.0);
    assert_eq!((epoch.to_origin, epoch.origin, epoch.at(1.0)), (0.0, 50.0, 50.0));
    assert_eq!(epoch.at(2.0), 53.0); // 50 + 0.4·2³, whole segments
}

#[test]
fn a_loss_leaves_seven_tenths_and_a_second_one_below_it_converges_fast() {
    let mut cubic = with_window(1000);
    lose(&mut cubic, at(0), LossKind::Fast);
    assert_eq!((cubic.window(), cubic.slow_start_threshold()), (700_000, 700_000));
    assert_eq!(cubic.curve.w_max, 1000.0);
    lose(&mut cubic, at(10), LossKind::Fast);
    assert_eq!(cubic.window(), 490_000);
    assert_eq!(cubic.curve.w_max, 595.0); // 700·(1 + β)/2 = 595.07
}

#[test]
fn the_window_follows_the_curve_within_a_round_trip() {
    let mut cubic = with_window(1000);
    lose(&mut cubic, at(0), LossKind::Fast);
    let curve = Epoch::begin(at(0), 700.0, 1000.0);
    for millis in (0..=15_000).step_by(100) {
        // Ten acknowledgements per round trip, which together acknowledge a window.
        for part in 0..10 {
            let bytes = cubic.window() / 10;
            feed(&mut cubic, &ack(at(millis + part * 10), bytes));
        }
        let (now, window) = (millis as f64 / 1e3 + 0.09, cubic.window() as f64 / 1e3);
        assert!(window >= curve.at(now) - 1.0, "{window} at {now}");
        assert!(window <= curve.at(now + 0.1) + 1.0, "{window} at {now}");
    }
    assert!(cubic.window() > 1_080_000);
}

#[test]
fn a_loss_leaves_whole_segments_and_two_at_least() {
    for (before, after) in [(2, 2), (3, 2), (4, 2), (5, 3), (10, 7)] {
        let mut cubic = with_window(before);
        lose(&mut cubic, at(0), LossKind::Fast);
        assert_eq!(cubic.window(), after * MSS, "{before} segments");
    }
}

#[test]
fn short_paths_grow_as_reno_does() {
    // W_max = 10, cwnd = 7, a round trip of 10 ms: the curve does not move, but Reno's window does, and grows
    // by 9/17 of a segment above the window of the last loss.
    let mut cubic = with_window(10);
    lose(&mut cubic, at(0), LossKind::Fast);
    for round in 0..60 {
        let near = Duration::from_millis(10);
        let bytes = cubic.window();
        feed(&mut cubic, &Ack { srtt: near, min_rtt: near, ..ack(at(round * 10), bytes) });
    }
    let (window, expected) = (cubic.window() as f64 / 1e3, 7.0 + 60.0 * 9.0 / 17.0);
    assert!((expected - 3.0..=expected + 1.0).contains(&window), "{window}, not about {expected}");
}

#[test]
fn growth_is_recomputed_at_limited_intervals() {
    let mut epoch = Epoch::begin(at(0), 4.0, 4.0);
    let ahead = (Duration::from_millis(5), true);
    epoch.aim(at(0), 4.0, ahead);
    let first = epoch.each;
    epoch.acked = 100.0;
    epoch.aim(at(31), 4.0, ahead);
    assert_eq!((epoch.each, epoch.acked), (first, 100.0));
    epoch.aim(at(32), 4.0, ahead);
    assert_eq!((epoch.each, epoch.acked), (FASTEST, 2.0));
}

#[test]
fn without_an_earlier_loss_the_window_grows_by_a_twentieth_a_round_trip() {
    let mut cubic = with_window(100);
    cubic.cwnd.end_slow_start();
    feed(&mut cubic, &ack(at(0), 100_000));
    assert_eq!(cubic.window(), 105_000);
}

#[test]
fn idle_and_application_limited_time_does_not_count() {
    let run = |pause: u64, idle: bool| {
        let mut cubic = with_window(1000);
        lose(&mut cubic, at(0), LossKind::Fast);
        let mut now = 0;
        for round in 0..60 {
            let bytes = cubic.window();
            feed(&mut cubic, &ack(at(now), bytes));
            now += 100;
            if round == 30 {
                now += pause;
                if idle {
                    cubic.on_sent(at(now), MSS, MSS);
                } else {
                    feed(&mut cubic, &Ack { cwnd_limited: false, ..ack(at(now), MSS) });
                }
            }
        }
        cubic.window()
    };
    assert_eq!(run(0, true), run(20_000, true));
    assert_eq!(run(0, false), run(20_000, false));
}

#[test]
fn undo_restores_the_curve() {
    let mut cubic = with_window(1000);
    lose(&mut cubic, at(0), LossKind::Fast);
    for round in 0..20 {
        let bytes = cubic.window();
        feed(&mut cubic, &ack(at(round * 100), bytes));
    }
    let (window, curve) = (cubic.window(), cubic.curve);
    lose(&mut cubic, at(2000), LossKind::Timeout);
    cubic.on_spurious_loss(at(2050));
    assert_eq!(cubic.window(), window);
    assert_eq!(cubic.curve.w_max, curve.w_max);
    assert_eq!(cubic.curve.epoch.unwrap().start, curve.epoch.unwrap().start);
}

#[test]
fn after_a_timeout_slow_start_to_the_threshold_and_then_the_flat_point() {
    let mut cubic = with_window(100);
    lose(&mut cubic, at(0), LossKind::Timeout);
    assert_eq!((cubic.window(), cubic.slow_start_threshold()), (1000, 70_000));
    feed(&mut cubic, &ack(at(100), 69_000));
    feed(&mut cubic, &ack(at(200), 1000));
    let epoch = cubic.curve.epoch.unwrap();
    assert_eq!((epoch.to_origin, epoch.origin), (0.0, 70.0));
}

#[test]
fn hystart_leaves_on_a_long_train() {
    let mut cubic = Cubic::new(Setup { initial_window: 40 * MSS, ..Setup::new(MSS) });
    // A segment each millisecond: the train is 51 ms long at the 52nd, and half of RTT, with a millisecond
    // for offloaded bursts, is 50.5 ms.
    for i in 0..51 {
        feed(&mut cubic, &Ack { round_ended: i == 0, ..ack(at(i), MSS) });
    }
    assert_eq!((cubic.window(), cubic.slow_start_threshold()), (91_000, u64::MAX));
    feed(&mut cubic, &Ack { round_ended: false, ..ack(at(51), MSS) });
    assert_eq!(cubic.slow_start_threshold(), 91_000);
}

#[test]
fn a_window_spread_over_the_round_trip_is_no_train() {
    let mut cubic = Cubic::new(Setup { initial_window: 40 * MSS, ..Setup::new(MSS) }.without_ack_trains());
    for i in 0..100 {
        feed(&mut cubic, &Ack { round_ended: i == 0, ..ack(at(i), MSS) });
    }
    assert_eq!(cubic.slow_start_threshold(), u64::MAX);
}

#[test]
fn hystart_leaves_on_delay_after_eight_samples() {
    // The threshold is 100 + clamp(12.5, 4, 16) = 112.5 ms; gaps of 3 ms form no train.
    let thresholds: Vec<u64> = [112, 113]
        .into_iter()
        .map(|rtt| {
            let mut cubic = Cubic::new(Setup { initial_window: 40 * MSS, ..Setup::new(MSS) });
            for i in 0..9 {
                let rtt = Some(Duration::from_millis(rtt));
                feed(&mut cubic, &Ack { rtt, round_ended: i == 0, ..ack(at(3 * i), MSS) });
            }
            cubic.slow_start_threshold()
        })
        .collect();
    assert_eq!(thresholds, [u64::MAX, 48_000]);
}

#[test]
fn an_ack_train_is_counted_from_the_beginning_of_its_round_for_any_window() {
    // The window exceeds sixteen segments in the middle of a round whose acknowledgements came with a pause,
    // which ended their train.
    let mut cubic = Cubic::new(Setup { initial_window: 10 * MSS, ..Setup::new(MSS) });
    for i in 0..80 {
        let now = if i < 4 { at(i) } else { at(i + 10) };
        feed(&mut cubic, &Ack { round_ended: i == 0, ..ack(now, MSS) });
    }
    assert_eq!(cubic.slow_start_threshold(), u64::MAX);
}

#[test]
fn offloaded_bursts_lengthen_the_train_that_counts() {
    // 5 ms: half of it is 2.5 ms; two windows of 100 kB in it are 40 MB/s, at which four bursts of 64 KiB
    // take more than the millisecond that is granted: 3 ms.
    let near = Duration::from_millis(5);
    let left_at = |micros: u64| {
        let mut cubic = Cubic::new(Setup { initial_window: 100 * MSS, ..Setup::new(MSS) });
        for at in [0, 1000, 2000, micros] {
            let now = Instant::from_nanos(at * 1000);
            let rtt = Ack { rtt: Some(near), srtt: near, min_rtt: near, ..ack(now, 0) };
            feed(&mut cubic, &Ack { round_ended: at == 0, ..rtt });
        }
        cubic.slow_start_threshold()
    };
    assert_eq!(left_at(2_990), u64::MAX);
    assert_eq!(left_at(3_010), 100 * MSS);
}
