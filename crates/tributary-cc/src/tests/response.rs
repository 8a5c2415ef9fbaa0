//! Response functions: the average window with one loss per given number of segments, compared with the
//! published ones (RFC 9438 §5.1, table 1; RFC 5681's by Mathis et al.). A path of 100 ms, no queue.

use super::*;

const MSS: u64 = 1000;
const RTT: u64 = 100;

/// Average window in segments with one segment lost of `every`.
fn average(name: &str, every: u64) -> f64 {
    let mut controller = create(name, Setup::new(MSS)).unwrap();
    let rtt = Duration::from_millis(RTT);
    let (mut now, mut until_loss, mut losses) = (0, every * MSS, 0);
    let (mut sum, mut rounds) = (0.0, 0.0);
    while losses < 60 {
        let window = controller.window();
        for part in 0..10 {
            let at = Instant::from_millis(now + part * RTT / 10);
            let view = [controller.view()];
            let siblings = Siblings::new(&view, 0);
            let bytes = window / 10;
            if until_loss <= bytes {
                until_loss = every * MSS;
                losses += 1;
                let loss = Loss { now: at, kind: LossKind::Fast, bytes: MSS, in_flight: window };
                controller.on_loss(&loss, siblings);
                controller.on_recovery_end(at);
                break;
            }
            until_loss -= bytes;
            let times = Ack { now: at, rtt: Some(rtt), srtt: rtt, min_rtt: rtt, ..ack(bytes) };
            controller.on_ack(&Ack { round_ended: part == 0, ..times }, siblings);
        }
        now += RTT;
        // The first losses end slow start and its effects.
        if losses >= 20 {
            sum += window as f64 / MSS as f64;
            rounds += 1.0;
        }
    }
    sum / rounds
}

#[track_caller]
fn near(name: &str, every: u64, published: f64) {
    let average = average(name, every);
    println!("{name:<18} a loss of {every:>7} segments: {average:>7.1}, published {published}");
    assert!((0.9 * published..=1.1 * published).contains(&average), "{name}: {average} is not {published}");
}

#[test]
fn reno_as_the_square_root_of_the_loss_rate() {
    // √(3/2p)
    near("reno", 1_000, 38.7);
    near("reno", 10_000, 122.5);
    near("reno", 100_000, 387.3);
}

#[test]
fn cubic_as_its_table_says() {
    // Linux's integer algorithm (`tcp_cubic.c`) under the same losses. Above the 38 and 187 of the RFC's
    // table, because it follows the faster of its two curves at any time, and because with whole segments a
    // loss at the plateau rarely counts as lost ground.
    near("cubic-no-hystart", 1_000, 47.6);
    near("cubic-no-hystart", 10_000, 220.2);
    // RFC 9438 §5.1, table 1, C = 0.4: 1.054 (RTT/p)^¾.
    near("cubic-no-hystart", 100_000, 1054.0);
    near("cubic", 1_000_000, 5926.0);
}

#[test]
fn alone_the_coupled_controllers_respond_as_reno_does() {
    for name in ["lia", "olia", "balia"] {
        near(name, 10_000, 122.5);
    }
}
