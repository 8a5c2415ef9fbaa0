//! Cost of one packet in a simulator: `push` and `poll` of single packets, in nanoseconds of one core.
//!
//! `cargo run --release -p tributary-link --example link_speed [PACKETS]`. Prints the best of 25 short runs, because
//! other load on the machine only adds time. This is not a test and has no limit.

use core::time::Duration;
use std::process::ExitCode;
use tributary_link::{DelaySpec, Link};
use tributary_link::{LinkConfig, LinkSpec, LossSpec, Packet, QueueSpec, RateSpec};
use tributary_types::{Bitrate, DataSize, Instant};

/// Cost per packet of a run.
struct Outcome {
    nanos_per_packet: f64,
    wake_ups_per_packet: f64,
}

fn spec(rate: Bitrate) -> LinkSpec {
    LinkSpec { delay: DelaySpec::fixed(Duration::from_millis(5)), ..LinkSpec::constant(rate) }
}

#[expect(clippy::disallowed_methods, reason = "an example that measures is a driver: it owns the clock")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// Offers `packets` at nine tenths of the link's rate, as an event loop would: waits for the next packet or
/// the link's timeout, whichever comes first.
fn run(spec: &LinkSpec, rate: Bitrate, packets: u32) -> Outcome {
    let mut link: Link<u32> = Link::new(LinkConfig::new(spec.clone(), 1));
    let gap = rate.time_for(DataSize::from_bytes(1500)).unwrap_or_default() * 10 / 9;
    let (mut sent, mut wake_ups, mut handles) = (0, 0_u64, 0_u64);
    let mut next = Instant::ZERO;
    let begun = clock();
    loop {
        let due = link.poll_timeout();
        if sent < packets && due.is_none_or(|at| next <= at) {
            link.push(next, Packet::whole(1500, sent));
            sent += 1;
            next += gap;
            continue;
        }
        let Some(now) = due else { break };
        wake_ups += 1;
        while let Some(chunk) = link.poll(now) {
            handles += u64::from(chunk.handle);
        }
    }
    let nanos = begun.elapsed().as_nanos() as f64;
    std::hint::black_box(handles);
    assert!(link.stats().is_conserved() && link.stats().queued.packets == 0);
    Outcome {
        nanos_per_packet: nanos / f64::from(packets),
        wake_ups_per_packet: wake_ups as f64 / f64::from(packets),
    }
}

fn main() -> ExitCode {
    let packets = match std::env::args().nth(1).map(|word| word.parse::<u32>()) {
        None => 200_000,
        Some(Ok(packets @ 1..)) => packets,
        Some(_) => {
            eprintln!("usage: link_speed [PACKETS]");
            return ExitCode::FAILURE;
        }
    };
    let codel = QueueSpec::Codel {
        target: QueueSpec::CODEL_TARGET,
        interval: QueueSpec::CODEL_INTERVAL,
        limit: QueueSpec::CODEL_LIMIT,
    };
    println!("{:<34} {:>10} {:>18}", "link", "ns/packet", "wake-ups/packet");
    for mbps in [10, 1_000, 10_000] {
        let rate = Bitrate::from_mbps(mbps);
        let plain = spec(rate);
        let turns = vec![(Duration::from_millis(15), rate), (Duration::from_millis(10), rate)];
        let jitter = DelaySpec { jitter: Duration::from_millis(1), ..plain.delay.clone() };
        let variants = [
            ("constant", plain.clone()),
            ("constant, no delay", LinkSpec { delay: DelaySpec::default(), ..plain.clone() }),
            ("loss 1 %", LinkSpec { loss: LossSpec::Bernoulli(0.01), ..plain.clone() }),
            ("jitter 1 ms", LinkSpec { delay: jitter, ..plain.clone() }),
            ("turns", LinkSpec { rate: RateSpec::Turns(turns), ..plain.clone() }),
            ("CoDel", LinkSpec { queue: codel.clone(), ..plain }),
        ];
        for (name, spec) in variants {
            let runs = (0..25).map(|_| run(&spec, rate, packets));
            let best = runs.min_by(|a, b| a.nanos_per_packet.total_cmp(&b.nanos_per_packet));
            let best = best.expect("there are 25 runs");
            let name = format!("{mbps} Mbit/s, {name}");
            println!("{name:<34} {:>10.1} {:>18.2}", best.nanos_per_packet, best.wake_ups_per_packet);
        }
    }
    ExitCode::SUCCESS
}
