//! MPTCP over simulated TCP: radios that fade, fail and return, and one test driver for every scheduler.

use tributary_cc as congestion;
use tributary_link::{LinkSpec, Moment, PathSpec, Scenario};
use tributary_types::Bitrate;

use super::*;
use crate::multipath::rig::{Ends, Rig};
use crate::session::tests::random_scenario;

const ENDLESS: u64 = 1 << 40;
const SECOND: Duration = Duration::from_secs(1);

fn ends(config: &MptcpConfig) -> impl FnOnce(&[SubflowPath]) -> Ends {
    let config = config.clone();
    move |paths| {
        let (client, server) = MptcpTransport::pair(&config, paths).unwrap();
        (Box::new(client), Box::new(server))
    }
}

fn with_scheduler(name: &str) -> MptcpConfig {
    MptcpConfig { scheduler: name.to_owned(), ..MptcpConfig::default() }
}

fn download(scenario: &Scenario, config: &MptcpConfig, bytes: u64, seconds: u64) -> Rig {
    let mut rig = Rig::new(scenario, bytes, ends(config));
    rig.run(Duration::from_secs(seconds));
    rig
}

fn client(rig: &Rig) -> &MptcpTransport {
    rig.transport(rig.client)
}

#[test]
fn the_second_path_joins_a_round_trip_after_the_first_and_both_are_filled() {
    let scenario = Scenario::builtin("los").unwrap();
    let mut rig = Rig::new(&scenario, ENDLESS, ends(&MptcpConfig::default()));
    rig.run(Duration::from_millis(9));
    assert_eq!(client(&rig).subflows(), 1);
    rig.run(Duration::from_millis(20));
    assert_eq!(client(&rig).subflows(), 2);
    rig.run(11 * SECOND);
    let rate = rig.rate(SECOND, 11 * SECOND);
    assert!(rate > 0.94 * 187.0, "{rate:.1} of 187 Mbit/s");
    assert!(rate < 0.947 * 187.0, "{rate:.1} of 187 Mbit/s leaves no room for headers");
}

#[test]
fn a_blocked_radio_holds_the_kernels_connection_up_until_data_goes_elsewhere() {
    for name in ["deep-fade", "blackout"] {
        let scenario = Scenario::builtin(name).unwrap();
        let rig = download(&scenario, &MptcpConfig::default(), ENDLESS, 11);
        let rate = rig.rate(SECOND, 11 * SECOND);
        assert!((85.0..125.0).contains(&rate), "{name}: {rate:.1} Mbit/s");
        // Everything in the send buffers waits for the blocked radio, including data that WiFi could carry.
        let blocked = rig.rate(4 * SECOND, 5 * SECOND);
        assert!(blocked < 10.0, "{name}: {blocked:.1} Mbit/s in a second without WiGig");
        let silence = rig.longest_silence();
        let usual = Duration::from_millis(100)..Duration::from_millis(1000);
        assert!(usual.contains(&silence), "{name}: {silence:?}");
        assert!(client(&rig).subflows() == 2);
    }
}

#[test]
fn with_half_a_second_on_one_path_the_send_buffers_bound_what_a_round_trip_carries() {
    // The kernel holds 1.4 MB of unacknowledged payload, 4608 bytes for each segment of both windows. That is
    // half a second until the DATA_ACK.
    let rig = download(&Scenario::builtin("delay-wifi").unwrap(), &MptcpConfig::default(), ENDLESS, 8);
    let rate = rig.rate(4 * SECOND, 8 * SECOND);
    assert!((16.0..30.0).contains(&rate), "{rate:.1} Mbit/s");
}

#[test]
fn a_radio_that_dies_for_good_leaves_the_other_working() {
    for name in scheduler::names() {
        let mut scenario = Scenario::builtin("los").unwrap();
        let wigig = scenario.paths.iter_mut().find(|p| p.name == "wigig").unwrap();
        wigig.dead = vec![(Moment::At(SECOND), Moment::Share(1.0))];
        let rig =
            download(&scenario.with_duration(Duration::from_secs(60)), &with_scheduler(name), ENDLESS, 6);
        let rate = rig.rate(4 * SECOND, 6 * SECOND);
        assert!((40.0..46.0).contains(&rate), "{name}: {rate:.1} Mbit/s");
    }
}

#[test]
fn an_absence_closes_the_subflow_and_its_data_goes_elsewhere_at_once() {
    let mut scenario = Scenario::builtin("los").unwrap();
    let wigig = scenario.paths.iter_mut().find(|p| p.name == "wigig").unwrap();
    wigig.absent = vec![(Moment::At(3 * SECOND), Moment::At(6 * SECOND))];
    let mut rig = Rig::new(&scenario, ENDLESS, ends(&MptcpConfig::default()));
    rig.run(4 * SECOND);
    assert_eq!(client(&rig).subflows(), 1);
    rig.run(10 * SECOND);
    assert_eq!(client(&rig).subflows(), 2);
    let again = rig.rate(7 * SECOND, 10 * SECOND);
    assert!(again > 140.0, "{again:.1} Mbit/s");
    assert!(rig.longest_silence() < Duration::from_millis(250), "{:?}", rig.longest_silence());
}

#[test]
fn an_interval_without_any_path_is_survived() {
    let scenario = crate::session::tests::leaving_in_turn();
    for name in ["linux-default", "min-rtt", "redundant", "fbdt"] {
        let rig = download(&scenario, &with_scheduler(name), 60_000_000, 12);
        assert_eq!(rig.reader().received, 60_000_000, "{name}");
        assert!(rig.reader().finished_at.is_some(), "{name}");
    }
}

#[test]
fn the_shared_buffer_is_never_exceeded_and_a_slow_reader_is_waited_for() {
    let slow = PathSpec::symmetric("slow", LinkSpec::constant(Bitrate::from_mbps(5)));
    let fast = PathSpec::symmetric("fast", LinkSpec::constant(Bitrate::from_mbps(200)));
    let scenario =
        Scenario::new("uneven").with_path(slow).with_path(fast).with_rtt(Duration::from_millis(40));
    for (name, buffer) in [("linux-default", 1 << 20), ("min-rtt", 300_000), ("round-robin", 70_000)] {
        let tcp = TcpConfig { receive_buffer: buffer, ..TcpConfig::default() };
        let config = MptcpConfig { tcp, ..with_scheduler(name) };
        let pace = Some((500_000, Duration::from_millis(100)));
        let mut rig = Rig::paced(&scenario, 8_000_000, pace, ends(&config));
        rig.run(Duration::from_secs(60));
        assert_eq!(rig.reader().received, 8_000_000, "{name}");
        let held = client(&rig).counters().receive_held_most;
        assert!((buffer / 2..=buffer).contains(&held), "{name}: {held} of {buffer}");
    }
}

#[test]
fn min_rtt_penalises_the_subflow_that_holds_up_a_full_window() {
    // A long and a short path, and a window too small for both.
    let mut long = LinkSpec::constant(Bitrate::from_mbps(20));
    long.delay = tributary_link::DelaySpec::fixed(Duration::from_millis(100));
    let short = PathSpec::symmetric("short", LinkSpec::constant(Bitrate::from_mbps(20)));
    let scenario = Scenario::new("uneven")
        .with_path(short)
        .with_path(PathSpec::symmetric("long", long))
        .with_rtt(Duration::from_millis(10));
    let tcp = TcpConfig { receive_buffer: 200_000, ..TcpConfig::default() };
    let rate = |name: &str| {
        let config = MptcpConfig { tcp: tcp.clone(), ..with_scheduler(name) };
        let rig = download(&scenario, &config, ENDLESS, 15);
        (rig.rate(5 * SECOND, 15 * SECOND), rig.transport::<MptcpTransport>(rig.server).counters().reinjected)
    };
    let (min_rtt, reinjected) = rate("min-rtt");
    let (round_robin, _) = rate("round-robin");
    assert!(reinjected > 0, "the window's head goes out again on the short path");
    assert!(min_rtt > round_robin, "{min_rtt:.1} against {round_robin:.1} Mbit/s");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_a_different_one() {
    let run = |seed| {
        let scenario = Scenario::builtin("loss-wigig").unwrap().with_seed(seed);
        download(&scenario, &MptcpConfig::default(), ENDLESS, 3).world.log().hash()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn every_congestion_control_carries_a_connection() {
    let scenario = Scenario::builtin("deep-fade").unwrap();
    for name in congestion::names() {
        let config = MptcpConfig { congestion: name.to_owned(), ..MptcpConfig::default() };
        let rate = download(&scenario, &config, ENDLESS, 3).rate(SECOND, 3 * SECOND);
        assert!(rate > 35.0, "{name}: {rate:.1} Mbit/s");
    }
}

#[test]
fn every_scheduler_delivers_everything_in_any_network() {
    for name in scheduler::names() {
        let mut rng = Rng::new(12).child(name);
        for round in 0..6 {
            let scenario = random_scenario(&mut rng);
            let buffer = 100_000 + rng.below(2_000_000);
            let tcp = TcpConfig { receive_buffer: buffer, ..TcpConfig::default() };
            let bytes = 200_000 + rng.below(1_500_000);
            let rig = download(&scenario, &MptcpConfig { tcp, ..with_scheduler(name) }, bytes, 60);
            let reader = rig.reader();
            assert_eq!(reader.received, bytes, "{name} round {round} of {scenario:?}");
            assert!(reader.finished_at.is_some(), "{name} round {round} does not end");
            assert!(client(&rig).counters().receive_held_most <= buffer, "{name} round {round}");
        }
    }
}

#[test]
fn impossible_settings_are_refused() {
    let path = SubflowPath { path: 0, up: crate::RouteId(0), down: crate::RouteId(1) };
    let error = |config: &MptcpConfig, paths: &[SubflowPath]| {
        MptcpTransport::pair(config, paths).unwrap_err().to_string()
    };
    let config = MptcpConfig { congestion: "none".to_owned(), ..MptcpConfig::default() };
    assert!(error(&config, &[path]).contains("known: "));
    assert!(error(&with_scheduler("none"), &[path]).contains("linux-default"));
    assert!(error(&MptcpConfig::default(), &[path; 129]).contains("129 subflow paths"));
}
