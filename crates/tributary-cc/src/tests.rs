//! Properties of every controller, tested by one driver of random operations, and closed loops over a model
//! of shared bottlenecks.

mod bottleneck;
mod fluid;
mod operations;
mod response;

use super::*;

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
        round_ended: true,
    }
}

#[test]
fn reno_doubles_then_adds_a_segment_a_round_trip_and_halves() {
    let mut reno = create("reno", Setup::new(1000)).unwrap();
    let step = |reno: &mut Box<dyn CongestionController>| {
        let view = [reno.view()];
        reno.on_ack(&ack(reno.window()), Siblings::new(&view, 0));
        reno.window()
    };
    assert_eq!(step(&mut reno), 20_000);
    let loss = Loss { now: Instant::ZERO, kind: LossKind::Fast, bytes: 1000, in_flight: 20_000 };
    let view = [reno.view()];
    reno.on_loss(&loss, Siblings::new(&view, 0));
    assert_eq!(reno.window(), 10_000);
    assert_eq!(step(&mut reno), 11_000);
    assert_eq!(step(&mut reno), 12_000);
}

#[test]
fn names_are_in_order_and_every_controller_knows_its_own() {
    assert!(names().is_sorted());
    for name in names() {
        let controller = create(name, Setup::new(1460)).unwrap();
        assert_eq!(controller.name(), name);
        assert_eq!((controller.window(), controller.slow_start_threshold()), (14_600, u64::MAX));
        assert_eq!(controller.owns_recovery(), name == "bbr");
    }
    assert!(create("vegas", Setup::new(1460)).is_none());
}
