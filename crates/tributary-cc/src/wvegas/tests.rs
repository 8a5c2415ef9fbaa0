//! Rounds by hand: ten segments in queues for the connection, at least two per subflow.

use core::time::Duration;

use super::super::{Loss, LossKind};
use super::*;

const MSS: u64 = 1000;

/// Three acknowledgements, the last of which ends the round, at `rtt` ms over a base of 100 ms.
fn round(wvegas: &mut WVegas, rtt: u64, sibling: Option<SiblingView>) {
    let rtt = Duration::from_millis(rtt);
    for nth in 0..3 {
        let own = wvegas.view();
        let views: Vec<SiblingView> = core::iter::once(own).chain(sibling).collect();
        let ack = Ack {
            now: Instant::ZERO,
            bytes: MSS,
            in_flight_before: own.window,
            in_flight: 0,
            rtt: Some(rtt),
            srtt: rtt,
            min_rtt: Duration::from_millis(100),
            rate: None,
            cwnd_limited: true,
            in_recovery: false,
            round_ended: nth == 2,
        };
        wvegas.on_ack(&ack, Siblings::new(&views, 0));
    }
}

fn avoiding(segments: u64) -> WVegas {
    let mut wvegas = WVegas::new(Setup { initial_window: 2 * segments * MSS, ..Setup::new(MSS) });
    let view = [wvegas.view()];
    let loss = Loss { now: Instant::ZERO, kind: LossKind::Fast, bytes: MSS, in_flight: 0 };
    wvegas.on_loss(&loss, Siblings::new(&view, 0));
    wvegas.on_recovery_end(Instant::ZERO);
    wvegas
}

#[test]
fn slow_start_ends_when_more_than_a_segment_is_queued() {
    let mut wvegas = WVegas::new(Setup { initial_window: 20 * MSS, ..Setup::new(MSS) });
    round(&mut wvegas, 104, None);
    // 22 segments: 22 · 4/104 = 0.85 queued, so slow start goes on.
    assert_eq!((wvegas.window(), wvegas.slow_start_threshold()), (23_000, u64::MAX));
    round(&mut wvegas, 125, None);
    // 25 segments: 25 · 0.2 = 5 queued. 25 · 0.8 + 1 = 21, and the last acknowledgement does not grow the
    // window.
    assert_eq!((wvegas.window(), wvegas.slow_start_threshold()), (21_000, 21_000));
}

#[test]
fn fewer_segments_in_the_queue_than_alpha_add_one() {
    let mut wvegas = avoiding(20);
    round(&mut wvegas, 105, None); // 20 · 5/105 = 0.95 < 2
    assert_eq!(wvegas.window(), 21_000);
}

#[test]
fn alone_the_whole_ten_belong_to_the_subflow() {
    let mut wvegas = avoiding(49);
    round(&mut wvegas, 125, None); // 49 · 0.2 = 9.8 queued: above two, below ten
    assert_eq!((wvegas.window(), wvegas.alpha), (50_000, 10.0));
    let mut wvegas = avoiding(60);
    round(&mut wvegas, 125, None); // 12 > 10
    assert_eq!(wvegas.window(), 59_000);
}

#[test]
fn the_ten_are_shared_by_rate() {
    // 50 segments at 125 ms are 400/s; the sibling's 60 at 100 ms 600/s: α = 10 · 0.4 = 4.
    let sibling = SiblingView {
        window: 60 * MSS,
        mss: MSS,
        srtt: Duration::from_millis(100),
        ..SiblingView::default()
    };
    let mut wvegas = avoiding(50);
    round(&mut wvegas, 125, Some(sibling));
    assert!((wvegas.alpha - 4.0).abs() < 1e-9);
    assert_eq!(wvegas.window(), 49_000);
}

#[test]
fn twice_the_least_queueing_delay_drains_the_queue() {
    let mut wvegas = avoiding(20);
    round(&mut wvegas, 104, None);
    assert_eq!((wvegas.window(), wvegas.least_delay.is_some()), (21_000, true));
    round(&mut wvegas, 110, None);
    // 21 · 10/110 = 1.9 < 2 adds one; 10 ms are more than 2 · 4: 22 000 · 100/220.
    assert_eq!((wvegas.window(), wvegas.least_delay), (10_000, None));
}

#[test]
fn an_empty_path_does_not_drain() {
    let mut wvegas = avoiding(20);
    for _ in 0..5 {
        round(&mut wvegas, 100, None);
    }
    assert_eq!(wvegas.window(), 25_000);
}
