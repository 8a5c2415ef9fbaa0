//! The delay window by hand: α = 1/8, k = 3/4, γ = 30, ζ = 1.

use core::time::Duration;

use super::*;

const MSS: u64 = 1000;

fn round(compound: &mut Compound, rtt: u64) {
    let rtt = Duration::from_millis(rtt);
    let bytes = compound.window();
    let view = [compound.view()];
    let ack = Ack {
        now: Instant::ZERO,
        bytes,
        in_flight_before: bytes,
        in_flight: 0,
        rtt: Some(rtt),
        srtt: rtt,
        min_rtt: Duration::from_millis(100),
        rate: None,
        cwnd_limited: true,
        in_recovery: false,
        round_ended: true,
    };
    compound.on_ack(&ack, Siblings::new(&view, 0));
}

fn lose(compound: &mut Compound, kind: LossKind) {
    let view = [compound.view()];
    let loss = Loss { now: Instant::ZERO, kind, bytes: MSS, in_flight: compound.window() };
    compound.on_loss(&loss, Siblings::new(&view, 0));
}

/// In congestion avoidance with a Reno component of `segments`.
fn avoiding(segments: u64) -> Compound {
    let mut compound = Compound::new(Setup { initial_window: 2 * segments * MSS, ..Setup::new(MSS) });
    lose(&mut compound, LossKind::Fast);
    compound.delay_window = 0.0;
    compound.on_recovery_end(Instant::ZERO);
    compound
}

#[test]
fn the_delay_window_by_hand() {
    // An empty path: 256^0.75/8 − 1 = 7; 16 segments are the least that grow: 16^0.75/8 = 1.
    assert_eq!(adjust(5.0, 256.0, 0.1, 0.1), 12.0);
    assert_eq!(adjust(5.0, 16.0, 0.1, 0.1), 5.0);
    assert_eq!(adjust(5.0, 4.0, 0.1, 0.1), 5.0);
    // 200 segments at 100 ms and 125 ms: 200 · (1 − 0.8) = 40 queued.
    assert!((adjust(100.0, 200.0, 0.1, 0.125) - 60.0).abs() < 1e-9);
    assert_eq!(adjust(10.0, 200.0, 0.1, 0.125), 0.0);
}

#[test]
fn a_round_adds_a_segment_and_the_scalable_part() {
    let mut compound = avoiding(255);
    round(&mut compound, 100);
    // Reno's 255 + 1, then 256^0.75/8 − 1 = 7.
    assert_eq!((compound.cwnd.window(), compound.window()), (256_000, 263_000));
}

#[test]
fn a_loss_halves_both_together() {
    let mut compound = avoiding(100);
    compound.delay_window = 60.0;
    lose(&mut compound, LossKind::Fast);
    // 160/2 − 50 = 30 beside 50.
    assert_eq!((compound.cwnd.window(), compound.window()), (50_000, 80_000));
    compound.on_spurious_loss(Instant::ZERO);
    assert_eq!(compound.window(), 160_000);
}

#[test]
fn a_timeout_leaves_no_delay_window_and_slow_start_none_either() {
    let mut compound = avoiding(100);
    compound.delay_window = 60.0;
    lose(&mut compound, LossKind::Timeout);
    assert_eq!(compound.window(), 1000);
    round(&mut compound, 100);
    round(&mut compound, 100);
    assert_eq!((compound.window(), compound.delay_window), (4000, 0.0));
}

#[test]
fn a_queue_leaves_reno_alone() {
    let mut compound = avoiding(200);
    compound.delay_window = 20.0;
    round(&mut compound, 125);
    // (201 + 20)/5 = 44 queued: more than the delay window has.
    assert_eq!((compound.cwnd.window(), compound.delay_window), (201_000, 0.0));
}
