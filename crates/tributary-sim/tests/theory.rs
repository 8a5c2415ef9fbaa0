//! The simulator compared with theory: queueing theory and the conservation of packets.
//!
//! Every run has a fixed seed, so a test always passes or always fails. Bounds are several standard errors of
//! the estimate wide, and each test shows how it would detect an error. Source: Kleinrock, *Queueing
//! Systems*, vol. 1, 1975, §5.6 (Pollaczek and Khinchine's formula); Mathis, Semke, Mahdavi, Ott, *The
//! Macroscopic Behavior of the TCP Congestion Avoidance Algorithm*, CCR 27(3), 1997; Ott, Kemperman, Mathis,
//! *The Stationary Behavior of Ideal TCP Congestion Avoidance*, 1996; Padhye, Firoiu, Towsley, Kurose,
//! *Modeling TCP Throughput*, SIGCOMM 1998.

#[path = "theory/poisson.rs"]
mod poisson;
#[path = "theory/transfer.rs"]
mod transfer;

use core::time::Duration;
use poisson::Queue;
use transfer::Transfer;

/// Mean waiting time of M/D/1 in service times: ρ / 2(1 − ρ).
fn mean_wait(load: f64) -> f64 {
    load / (2.0 * (1.0 - load))
}

#[test]
fn poisson_arrivals_at_a_link_wait_as_m_d_1_says() {
    for (load, band) in [(0.3, 0.02), (0.6, 0.02), (0.8, 0.03), (0.9, 0.06)] {
        let queue = Queue::run(load, 400_000, 7);
        let measured = queue.mean_wait_in_services();
        let ratio = measured / mean_wait(load);
        println!("M/D/1 at load {load}: mean wait {measured:.4} services, {ratio:.4} of theory");
        assert!((ratio - 1.0).abs() < band, "load {load}: {ratio:.4} of theory");
        // Poisson arrivals see time averages: the share that waits is the load.
        let waited = queue.share_that_waited();
        assert!((waited - load).abs() < 0.01, "load {load}: {waited:.4} of the packets waited");
    }
}

#[test]
fn a_regular_stream_below_the_rate_never_waits() {
    // Shows that the test above does not pass with any queue.
    let queue = Queue::run_regular(0.9, 10_000);
    assert_eq!(queue.mean_wait_in_services(), 0.0);
}

#[test]
fn packets_in_time_average_are_rate_times_sojourn() {
    // Little's law connects the link's counters with the delays measured at its ends.
    let queue = Queue::run(0.8, 200_000, 3);
    let (in_system, expected) = (queue.mean_in_system(), queue.arrival_rate() * queue.mean_sojourn());
    assert!(
        (in_system / expected - 1.0).abs() < 0.02,
        "{in_system} in the system, {expected} by Little's law"
    );
}

#[test]
fn a_short_queue_loses_what_m_d_1_k_says() {
    // Room for one packet in service and none waiting: Erlang's loss formula, ρ / (1 + ρ), which holds for
    // any service time.
    let load = 0.7;
    let queue = Queue::run_with_room(load, 300_000, 1, 11);
    let lost = queue.share_lost();
    assert!((lost - load / (1.0 + load)).abs() < 0.005, "lost {lost}");
    assert!(queue.link.is_conserved());
    assert_eq!(queue.link.delivered.packets + queue.link.overflowed.packets, 300_000);
    assert!(queue.longest_sojourn() <= queue.service + Duration::from_nanos(1));
}

/// Mathis et al. (1): packets per round trip at loss rate p, with growth at every packet and losses at equal
/// distances. Independent losses give 1.31 instead of √(3/2) = 1.22 (Ott et al.).
fn mathis(loss: f64) -> f64 {
    (1.5 / loss).sqrt()
}

#[test]
fn reno_under_random_loss_follows_the_square_root_law() {
    for loss in [0.0005, 0.002, 0.008] {
        let transfer = Transfer { loss, ..Transfer::spacious("reno") };
        let ratio = transfer.packets_per_round_trip(4) / mathis(loss);
        println!("Reno at loss {loss}: {ratio:.3} of the square-root law");
        // Ott's 1.07 for large windows; less where a window is a few packets and its half is rounded down.
        assert!((0.88..=1.12).contains(&ratio), "loss {loss}: {ratio:.3} of the law");
    }
}

#[test]
fn four_times_the_loss_halves_reno() {
    // The exponent, independent of the constant.
    let rate = |loss| Transfer { loss, ..Transfer::spacious("reno") }.packets_per_round_trip(4);
    let ratio = rate(0.001) / rate(0.004);
    assert!((1.8..=2.2).contains(&ratio), "{ratio}");
}

/// RFC 9438 §5.1: packets per round trip for C = 0.4 and β = 0.7, with losses at equal distances, beyond the
/// Reno-friendly region.
fn cubic_law(loss: f64, rtt: Duration) -> f64 {
    (0.4_f64 * 3.7 / 1.2).powf(0.25) * (rtt.as_secs_f64() / loss).powf(0.75)
}

#[test]
fn cubic_under_random_loss_follows_its_law() {
    let cell = |loss, millis| Transfer {
        loss,
        rtt: Duration::from_millis(millis),
        time: Duration::from_secs(300),
        ..Transfer::spacious("cubic")
    };
    let rate = |loss, millis| {
        let packets = cell(loss, millis).packets_per_round_trip(4);
        let ratio = packets / cubic_law(loss, Duration::from_millis(millis));
        println!("CUBIC at loss {loss}, {millis} ms: {ratio:.3} of RFC 9438's law");
        // Independent losses give more than equidistant ones, because the gain of a gap grows with its cube.
        assert!((1.0..=1.4).contains(&ratio), "loss {loss}, {millis} ms: {ratio:.3} of the law");
        packets
    };
    let (base, less_loss, longer) = (rate(0.0005, 200), rate(0.0002, 200), rate(0.0005, 400));
    // Both exponents of the law are 3/4.
    let (of_loss, of_rtt) = ((less_loss / base).log(2.5), (longer / base).log2());
    assert!((of_loss - 0.75).abs() < 0.1 && (of_rtt - 0.75).abs() < 0.1, "{of_loss:.3}, {of_rtt:.3}");
}

#[test]
fn every_packet_is_accounted_for_under_every_control() {
    for congestion in tributary_cc::names() {
        let transfer = Transfer { loss: 0.003, ..Transfer::cramped(congestion) };
        let outcome = transfer.run(5);
        assert!(outcome.down.is_conserved() && outcome.up.is_conserved(), "{congestion}");
        assert!(outcome.down.overflowed.packets > 0 || outcome.down.lost.packets > 0, "{congestion}");
        // Everything that the receiver read crossed the link, once.
        assert!(outcome.received <= outcome.down.delivered.bytes, "{congestion}");
        assert!(outcome.received > 0, "{congestion}");
    }
}
