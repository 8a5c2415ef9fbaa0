//! One window, step by step, compared with the rules' arithmetic.

use super::super::{Ack, Loss, LossKind};
use super::*;

const MSS: u64 = 1000;

fn ack(bytes: u64) -> Ack {
    let rtt = Duration::from_millis(10);
    Ack {
        now: Instant::ZERO,
        bytes,
        in_flight_before: bytes,
        in_flight: 0,
        rtt: Some(rtt),
        srtt: rtt,
        min_rtt: rtt,
        rate: None,
        cwnd_limited: true,
        in_recovery: false,
        round_ended: false,
    }
}

fn loss(kind: LossKind) -> Loss {
    Loss { now: Instant::ZERO, kind, bytes: MSS, in_flight: 10 * MSS }
}

fn reduced(kind: LossKind) -> Cwnd {
    let mut cwnd = Cwnd::new(Setup::new(MSS));
    cwnd.reduce(&loss(kind), cwnd.window() / 2);
    cwnd
}

#[test]
fn slow_start_stops_at_the_threshold_and_hands_the_rest_on() {
    let mut cwnd = reduced(LossKind::Timeout);
    assert_eq!((cwnd.window(), cwnd.threshold()), (1000, 5000));
    assert_eq!(cwnd.slow_start(3000), 0);
    assert_eq!(cwnd.slow_start(3000), 2000);
    assert_eq!(cwnd.window(), 5000);
}

#[test]
fn a_window_rests_in_recovery_and_while_the_application_limits() {
    assert!(Cwnd::new(Setup::new(MSS)).acknowledge(&ack(MSS)));
    assert!(!reduced(LossKind::Fast).acknowledge(&Ack { in_recovery: true, ..ack(MSS) }));
    assert!(!Cwnd::new(Setup::new(MSS)).acknowledge(&Ack { cwnd_limited: false, ..ack(MSS) }));
}

#[test]
fn timeouts_in_a_row_halve_the_threshold_once() {
    let mut cwnd = reduced(LossKind::Timeout);
    assert!(!cwnd.reduce(&loss(LossKind::Timeout), 500));
    assert_eq!(cwnd.threshold(), 5000);
    cwnd.acknowledge(&Ack { in_recovery: true, ..ack(3000) });
    cwnd.slow_start(3000);
    assert!(cwnd.reduce(&loss(LossKind::Timeout), cwnd.window() / 2));
    assert_eq!(cwnd.threshold(), 2000);
}

#[test]
fn a_timeout_in_fast_recovery_keeps_the_threshold_and_a_new_loss_does_not() {
    let mut cwnd = reduced(LossKind::Fast);
    assert!(!cwnd.reduce(&loss(LossKind::Timeout), 2500));
    assert_eq!((cwnd.window(), cwnd.threshold()), (1000, 5000));
    let mut cwnd = reduced(LossKind::Fast);
    cwnd.end_recovery();
    assert!(cwnd.reduce(&loss(LossKind::Timeout), 2500));
    assert_eq!(cwnd.threshold(), 2500);
}

#[test]
fn undo_restores_window_and_threshold_once() {
    let mut cwnd = reduced(LossKind::Timeout);
    assert!(cwnd.undo());
    assert_eq!((cwnd.window(), cwnd.threshold()), (10_000, u64::MAX));
    assert!(!cwnd.undo());
}

#[test]
fn a_penalty_halves_and_spares_the_threshold_in_slow_start() {
    let mut cwnd = Cwnd::new(Setup::new(MSS));
    cwnd.penalise();
    assert_eq!((cwnd.window(), cwnd.threshold()), (5000, u64::MAX));
    let mut cwnd = reduced(LossKind::Fast);
    cwnd.penalise();
    assert_eq!((cwnd.window(), cwnd.threshold()), (2500, 2500));
    for _ in 0..10 {
        cwnd.penalise();
    }
    assert_eq!((cwnd.window(), cwnd.threshold()), (1000, 2000));
}

#[test]
fn bytes_since_and_between_losses() {
    let mut cwnd = Cwnd::new(Setup::new(MSS));
    cwnd.acknowledge(&ack(7000));
    cwnd.reduce(&loss(LossKind::Fast), 5000);
    cwnd.acknowledge(&ack(3000));
    let view = cwnd.view();
    assert_eq!((view.since_loss, view.between_losses), (3000, 7000));
}

#[test]
fn fractions_of_a_byte_add_up() {
    let mut cwnd = Cwnd::new(Setup::new(MSS));
    for _ in 0..8 {
        cwnd.grow(0.25);
    }
    assert_eq!(cwnd.window(), 10_002);
    cwnd.grow(-1e9);
    assert_eq!(cwnd.window(), 2000);
    cwnd.grow(1e300);
    assert_eq!(cwnd.window(), MAX_WINDOW);
}

#[test]
fn an_idle_window_halves_for_each_retransmission_timeout_down_to_the_first_window() {
    let at = Instant::from_millis;
    let grown = |setup| {
        let mut cwnd = Cwnd::new(setup);
        cwnd.acknowledge(&ack(70_000));
        cwnd.slow_start(70_000);
        cwnd.sent(at(0), MSS, 5 * MSS);
        cwnd
    };
    let busy = || grown(Setup::new(MSS));
    // srtt 10 ms and a deviation of 5 ms: 10 + max(200, 20) = 210 ms.
    let mut cwnd = busy();
    assert!(!cwnd.sent(at(210), MSS, MSS));
    assert_eq!(cwnd.window(), 80_000);
    let mut cwnd = busy();
    assert!(cwnd.sent(at(500), MSS, MSS));
    assert_eq!((cwnd.window(), cwnd.threshold()), (20_000, u64::MAX));
    let mut cwnd = busy();
    cwnd.end_slow_start();
    assert!(cwnd.sent(at(5000), MSS, MSS));
    assert_eq!((cwnd.window(), cwnd.threshold()), (10_000, 80_000));
    let mut cwnd = busy();
    assert!(!cwnd.sent(at(5000), MSS, 2 * MSS), "something was in flight");
    let mut cwnd = grown(Setup::new(MSS).without_idle_restart());
    assert!(!cwnd.sent(at(5000), MSS, MSS));
    assert_eq!(cwnd.window(), 80_000);
}
