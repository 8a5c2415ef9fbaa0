//! The rules of LIA, OLIA and BALIA compared with values computed by hand.

use core::time::Duration;

use super::super::balia::Balia;
use super::super::lia::Lia;
use super::super::olia::Olia;
use super::super::{Loss, LossKind};
use super::*;

const MSS: u64 = 1000;

/// `window` segments, `rtt` milliseconds, ℓ of `transit` bytes.
fn view(window: u64, rtt: u64, transit: u64) -> SiblingView {
    SiblingView {
        window: window * MSS,
        mss: MSS,
        srtt: Duration::from_millis(rtt),
        base_rtt: Duration::from_millis(rtt),
        since_loss: transit,
        between_losses: 0,
    }
}

fn increase<R: Rule>(views: &[SiblingView], own: usize) -> f64 {
    R::increase(&Paths::new(Siblings::new(views, own), &views[own]).unwrap())
}

fn decrease<R: Rule>(views: &[SiblingView], own: usize) -> f64 {
    R::decrease(&Paths::new(Siblings::new(views, own), &views[own]).unwrap())
}

#[track_caller]
fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-12_f64.max(expected.abs() * 1e-9), "{value} is not {expected}");
}

#[test]
fn alone_every_rule_is_reno() {
    let one = [view(20, 30, 5000)];
    for value in [increase::<Lia>(&one, 0), increase::<Olia>(&one, 0), increase::<Balia>(&one, 0)] {
        close(value, 1.0 / 20.0);
    }
    close(decrease::<Balia>(&one, 0), 0.5);
}

#[test]
fn siblings_without_a_round_trip_time_do_not_count() {
    let two = [view(20, 30, 5000), view(10, 0, 0)];
    close(increase::<Lia>(&two, 0), 0.05);
    close(increase::<Olia>(&two, 0), 0.05);
    assert!(Paths::new(Siblings::new(&two, 1), &two[1]).is_none());
}

#[test]
fn lia_with_equal_round_trip_times() {
    // 10 and 30 segments at 100 ms. α = 40 · (30/0.01) / (400)² = 0.75; α/total = 0.01875.
    let two = [view(10, 100, 0), view(30, 100, 0)];
    close(increase::<Lia>(&two, 0), 0.018_75);
    close(increase::<Lia>(&two, 1), 0.018_75);
}

#[test]
fn lia_with_different_round_trip_times() {
    // 10 segments at 10 ms, 20 at 100 ms: rates 1000 and 200, α = 30 · 100 000 / 1200² = 2.08333;
    // α/total = 0.0694444, above 1/20 of the second alone.
    let two = [view(10, 10, 0), view(20, 100, 0)];
    close(increase::<Lia>(&two, 0), 100_000.0 / 1_440_000.0);
    close(increase::<Lia>(&two, 1), 0.05);
}

#[test]
fn lia_counts_windows_of_different_segment_sizes_in_bytes() {
    // 10 · 1000 and 20 · 500 bytes at 100 ms: 1e6/(2e5)² = 2.5e-5 a byte, times the own segment.
    let small = SiblingView { window: 10_000, mss: 500, ..view(0, 100, 0) };
    let two = [view(10, 100, 0), small];
    close(increase::<Lia>(&two, 0), 0.025);
    close(increase::<Lia>(&two, 1), 0.0125);
}

#[test]
fn olia_moves_window_from_the_largest_to_the_best() {
    // Rates 100 and 300: 10/0.01/160 000 = 1/160 and 30/0.01/160 000 = 3/160.
    // B = {0} by ℓ, M = {1}: α = +1/2 and −1/2.
    let two = [view(10, 100, 90_000), view(30, 100, 10_000)];
    close(increase::<Olia>(&two, 0), 1.0 / 160.0 + 0.5 / 10.0);
    close(increase::<Olia>(&two, 1), 3.0 / 160.0 - 0.5 / 30.0);
}

#[test]
fn olia_leaves_windows_alone_when_the_best_is_the_largest() {
    let two = [view(10, 100, 10_000), view(30, 100, 90_000)];
    close(increase::<Olia>(&two, 0), 1.0 / 160.0);
    close(increase::<Olia>(&two, 1), 3.0 / 160.0);
}

#[test]
fn olia_divides_the_shift_among_the_sets() {
    // Three subflows: 0 and 1 are the largest, 2 is the best by ℓ/rtt² (90 000/0.04 = 2.25e6 against
    // 10 000/0.01 = 1e6). Rates 200, 200, 50: sum 450. α = −1/6, −1/6, +1/3.
    let three = [view(20, 100, 10_000), view(20, 100, 10_000), view(10, 200, 90_000)];
    let square = 450.0 * 450.0;
    close(increase::<Olia>(&three, 0), 2000.0 / square - 1.0 / 6.0 / 20.0);
    close(increase::<Olia>(&three, 2), 250.0 / square + 1.0 / 3.0 / 10.0);
    // A subflow in neither set: rates 200, 50 and 100.
    let middle = [view(20, 100, 10_000), view(5, 100, 90_000), view(10, 100, 20_000)];
    let rates = 350.0 * 350.0;
    close(increase::<Olia>(&middle, 2), 1000.0 / rates);
}

#[test]
fn olia_takes_the_larger_of_both_distances_between_losses() {
    let before = SiblingView { since_loss: 10, between_losses: 90_000, ..view(10, 100, 0) };
    let two = [before, view(30, 100, 10_000)];
    close(increase::<Olia>(&two, 0), 1.0 / 160.0 + 0.5 / 10.0);
}

#[test]
fn balia_by_hand() {
    // Rates 100 and 300: (100 + 300)(400 + 300)/(160 000 · 10 · 10) = 0.0175 and
    // (600)(1500)/(160 000 · 10 · 30) = 0.01875.
    let two = [view(10, 100, 0), view(30, 100, 0)];
    close(increase::<Balia>(&two, 0), 0.0175);
    close(increase::<Balia>(&two, 1), 0.018_75);
    // The bound is 1.5: three times behind is limited, 1.2 times is not.
    close(decrease::<Balia>(&two, 0), 0.75);
    close(decrease::<Balia>(&two, 1), 0.5);
    close(decrease::<Balia>(&[view(10, 100, 0), view(12, 100, 0)], 0), 0.6);
}

#[test]
fn balia_keeps_a_quarter_on_the_subflow_that_is_behind() {
    let mut behind = Coupled::<Balia>::new(Setup { initial_window: 20 * MSS, ..Setup::new(MSS) });
    let views = [view(20, 100, 0), view(60, 100, 0)];
    let rtt = Duration::from_millis(100);
    let ack = Ack {
        now: Instant::ZERO,
        bytes: MSS,
        in_flight_before: MSS,
        in_flight: 0,
        rtt: Some(rtt),
        srtt: rtt,
        min_rtt: rtt,
        rate: None,
        cwnd_limited: false,
        in_recovery: false,
        round_ended: false,
    };
    behind.on_ack(&ack, Siblings::new(&views, 0));
    let loss = Loss { now: Instant::ZERO, kind: LossKind::Fast, bytes: MSS, in_flight: 20 * MSS };
    behind.on_loss(&loss, Siblings::new(&views, 0));
    assert_eq!(behind.window(), 5000);
}
