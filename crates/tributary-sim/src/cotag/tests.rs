//! The schemes on a network with a hundredth of the paper's rates, and their parts.

use core::time::Duration;

use tributary_link::{Link, LinkConfig, LinkSpec, Packet, QueueSpec, RateSpec};
use tributary_types::{Bitrate, Instant};

use super::airtime::Airtime;
use super::*;
use crate::tcp::LossDetection;

/// 100 and 30 Mbit/s, ten flows of 6 and then 20 Mbit/s, packets of 1500 bytes.
fn setting(name: &str, loss: f64) -> Setting {
    Setting {
        scheme: Scheme::find(name).expect("a scheme"),
        radio: Radio { count: 2, correlation: 0.0, divisor: 100, steady: false, change: CHANGE, loss },
        flows: FLOWS,
        packet: 1500,
        rtt: Duration::from_millis(5),
        queue: QUEUE,
        interval: None,
        redundancy: None,
        loss_detection: LossDetection::default(),
        burst: Duration::from_secs(1),
        seed: 1,
    }
}

fn run(name: &str, loss: f64) -> Measured {
    simulate(&setting(name, loss)).expect("it runs")
}

#[test]
fn every_scheme_delivers_within_the_capacity_and_the_same_twice() {
    for name in Scheme::names() {
        let measured = run(name, 0.01);
        assert!(measured.throughput > 0.1 * measured.capacity, "{name}: {measured:?}");
        assert!(measured.throughput < measured.capacity, "{name}: {measured:?}");
        assert_eq!(measured.hash, run(name, 0.01).hash, "{name}");
        if let Some(tunnel) = measured.tunnel {
            assert_eq!(tunnel.unknown, 0, "{name}: what is decoded is what was sent");
            assert!(tunnel.recovered > 0, "{name}: {tunnel:?}");
        }
    }
}

#[test]
fn more_than_two_access_points_and_a_single_one_work() {
    for (count, name) in [(1, "cubic"), (1, "cotag"), (3, "cotag"), (3, "cotag-paper"), (4, "mptcp")] {
        let mut setting = setting(name, 0.0);
        setting.radio.count = count;
        let measured = simulate(&setting).expect("it runs");
        let mut single = setting;
        single.radio.count = 1;
        let single = simulate(&single).expect("it runs");
        assert!(measured.throughput > 0.2 * measured.capacity, "{name} over {count}: {measured:?}");
        assert!(count == 1 || measured.throughput > 1.2 * single.throughput, "{name} over {count}");
    }
}

#[test]
fn coding_hides_random_loss_from_tcp() {
    let steady = |name| {
        let mut setting = setting(name, 0.02);
        // Radios that never fill: every loss is random. Cohorts of about 50 packets, so that the redundancy limit is enough
        // for this loss.
        (setting.radio.steady, setting.radio.count) = (true, 8);
        setting.interval = Some(Duration::from_millis(10));
        simulate(&setting).expect("it runs")
    };
    let (coded, plain) = (steady("cotag"), steady("cubic-balanced"));
    assert!(plain.retransmitted > 1.0, "{plain:?}");
    assert!(coded.retransmitted < 0.1 * plain.retransmitted, "{coded:?}");
}

#[test]
fn the_radios_rates_can_be_given_to_another_run() {
    let setting = setting("cubic", 0.0);
    let (begin, length) = (Duration::from_secs(2), Duration::from_secs(5));
    for (at, rate) in setting.radio_rates().into_iter().enumerate() {
        let own = setting.radio(at).capacity(Instant::ZERO + begin, Instant::ZERO + begin + length);
        let other = LinkConfig::new(LinkSpec::with_rate(rate), 0);
        assert_eq!(other.capacity(Instant::ZERO, Instant::ZERO + length), own);
    }
}

#[test]
fn airtime_ends_when_the_link_has_sent() {
    let turns =
        vec![(Duration::from_millis(3), Bitrate::from_mbps(12)), (Duration::from_millis(2), Bitrate::ZERO)];
    let mut spec = LinkSpec::with_rate(RateSpec::Turns(turns));
    spec.queue = QueueSpec::Packets(100);
    let config = LinkConfig::new(spec, 7);
    let (mut air, mut link) = (Airtime::new(&config), Link::new(config));
    for number in 0..20_u32 {
        air.occupy(Instant::ZERO, 1500);
        link.push(Instant::ZERO, Packet::whole(1500, number));
    }
    let mut last = Instant::ZERO;
    while let Some(at) = link.poll_timeout() {
        while link.poll(at).is_some() {
            last = at;
        }
    }
    assert!(
        air.free().saturating_since(last).max(last.saturating_since(air.free())) < Duration::from_micros(1)
    );
    assert_eq!(air.backlog(air.free()), 0);
}

#[test]
fn redundant_packets_follow_the_loss_of_the_radios() {
    // Radios with room for redundant packets, and cohorts of 50 and then 170 packets, whose limits are 5 and 17. The run is
    // long compared with the time until the losses of all radios are known.
    let redundant = |loss| {
        let mut setting = setting("cotag", loss);
        (setting.radio.steady, setting.radio.count) = (true, 8);
        (setting.interval, setting.burst) = (Some(Duration::from_millis(10)), Duration::from_secs(4));
        simulate(&setting).expect("it runs").tunnel.expect("it codes").redundant
    };
    let (clean, lossy) = (redundant(0.0), redundant(0.02));
    assert!(clean < 3.0, "without loss {clean} % are redundant");
    assert!(lossy > 4.0, "with 2 % loss {lossy} % are redundant");
}
