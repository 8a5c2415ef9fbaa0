//! QUIC's events are converted into those of our controllers.

use super::*;

const MTU: u16 = 1472;

fn driven(name: &str) -> Driven {
    Maker::new(name, 1).unwrap().make(MTU)
}

fn millis(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

const RTT: Duration = Duration::from_millis(20);

/// A full window sent at `at`, acknowledged a round trip later.
fn round(driven: &mut Driven, at: u64) {
    let packets = driven.window() / u64::from(MTU);
    for _ in 0..packets {
        driven.sent(millis(at), u64::from(MTU));
    }
    for left in (0..packets).rev() {
        driven.acknowledged(millis(at), u64::from(MTU), RTT);
        driven.acknowledgement_ended(millis(at + 20), left * u64::from(MTU), false);
    }
}

#[test]
fn a_round_trip_of_slow_start_doubles_the_window() {
    let mut driven = driven("reno");
    assert_eq!(driven.window(), 14_720);
    round(&mut driven, 0);
    assert_eq!(driven.window(), 29_440);
}

#[test]
fn losses_of_one_window_are_one_loss() {
    let mut driven = driven("reno");
    round(&mut driven, 0);
    driven.lost(millis(50), millis(25), 1472, false);
    let after = driven.window();
    assert_eq!(after, 29_440 / 2);
    driven.lost(millis(51), millis(26), 1472, false);
    assert_eq!(driven.window(), after, "sent before the recovery began");
    driven.lost(millis(90), millis(60), 1472, false);
    assert!(driven.window() < after, "sent after it");
}

#[test]
fn the_group_contains_only_open_subflows() {
    let maker = Maker::new("reno", 1).unwrap();
    let (one, two) = (maker.make(MTU), maker.make(MTU));
    assert_eq!(lock(&maker.family).views.len(), 2);
    drop(one);
    assert_eq!(lock(&maker.family).members, [two.member]);
}

#[test]
fn the_delivery_rate_is_the_links() {
    let mut meter = RateMeter::default();
    let gap = Duration::from_micros(1472 * 8 / 10); // 10 Mbit/s
    let at = |index: u32| Instant::ZERO + gap * index;
    let mut samples = Vec::new();
    // Seventeen gaps make a round trip of 20 ms.
    for index in 0..67_u32 {
        if let Some(acknowledged) = index.checked_sub(17) {
            samples.extend(meter.acknowledged(at(index), at(acknowledged), 1472, false));
        }
        if index < 50 {
            meter.sent(at(index), 1472, u64::from(index.min(17)) * 1472);
        }
    }
    let last = samples.last().unwrap();
    let rate = last.rate.as_bps();
    assert!((9_900_000..10_200_000).contains(&rate), "{rate}");
    assert_eq!(last.delivered, 50 * 1472);
}
