//! Cost of each congestion controller: nanoseconds per acknowledgement, with one subflow and with two.
//!
//! A loss every two thousand acknowledgements keeps the windows at typical values in congestion avoidance.
//! The time includes creating the event, which is the same for all.
//!
//! `cargo run --release -p tributary-cc --example cost`

use core::hint::black_box;
use core::time::Duration;
use std::time::Instant as Clock;

use tributary_cc::{
    Ack, CongestionController, Loss, LossKind, RateSample, Setup, SiblingView, Siblings, create, names,
};
use tributary_types::{Bitrate, Instant};

const MSS: u64 = 1460;
const ACKS: u64 = 4_000_000;

fn main() {
    println!("controller          1 subflow   2 subflows   (ns per acknowledgement)");
    for name in names() {
        let [one, two] = [1, 2].map(|subflows| best_of(5, || measure(name, subflows)));
        println!("{name:<18} {one:>10.1} {two:>12.1}");
    }
}

fn best_of(times: usize, mut measure: impl FnMut() -> f64) -> f64 {
    (0..times).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

#[expect(
    clippy::disallowed_methods,
    reason = "this measures the machine from outside; the machine itself has no clock"
)]
fn measure(name: &str, subflows: usize) -> f64 {
    let mut controller = create(name, Setup::new(MSS)).expect("a name of the registry");
    let view = SiblingView {
        window: 40 * MSS,
        mss: MSS,
        srtt: Duration::from_millis(30),
        base_rtt: Duration::from_millis(25),
        since_loss: 300 * MSS,
        between_losses: 500 * MSS,
    };
    let views = [view; 2];
    let siblings = Siblings::new(&views[..subflows], 0);
    let mut delivered = 0;
    let started = Clock::now();
    for nth in 1..=ACKS {
        let now = Instant::from_nanos(nth * 200_000);
        if nth % 2000 == 0 {
            let loss = Loss { now, kind: LossKind::Fast, bytes: MSS, in_flight: controller.window() };
            controller.on_loss(&loss, siblings);
            controller.on_recovery_end(now);
        }
        delivered += MSS;
        acknowledge(&mut *controller, now, delivered, siblings);
    }
    let elapsed = started.elapsed();
    black_box(controller.window());
    elapsed.as_nanos() as f64 / ACKS as f64
}

fn acknowledge(to: &mut dyn CongestionController, now: Instant, delivered: u64, siblings: Siblings<'_>) {
    let window = to.window();
    let rtt = Duration::from_micros(20_000 + delivered % 1000);
    let rate = RateSample {
        rate: Bitrate::from_bps(58_000_000 + delivered % 1_000_000),
        app_limited: false,
        delivered,
        prior_delivered: delivered.saturating_sub(window),
        lost: 0,
    };
    let ack = Ack {
        now,
        bytes: MSS,
        in_flight_before: window,
        in_flight: window.saturating_sub(MSS),
        rtt: Some(rtt),
        srtt: rtt,
        min_rtt: Duration::from_millis(20),
        rate: Some(rate),
        cwnd_limited: true,
        in_recovery: false,
        round_ended: delivered.is_multiple_of(100 * MSS),
    };
    to.on_ack(black_box(&ack), siblings);
}
