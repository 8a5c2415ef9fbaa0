//! noq-proto on several paths.

use core::any::Any;

use super::*;

const TWO: [TestPath; 2] = [way(30, 10), way(20, 20)];

#[test]
fn two_paths_carry_more_than_the_better_one() {
    let mut rig = Rig::multi(&QuicConfig::default(), &TWO, &bulk(40_000_000));
    rig.run(5_000);
    let goodput = rig.goodput(5_000);
    assert!(goodput > 40.0, "{goodput}");
    for link in &rig.links {
        assert!(rig.world.link_stats(*link).is_conserved());
    }
    let mut samples = Vec::new();
    rig.sender().sample(&mut samples);
    assert_eq!(samples.len(), 2);
}

#[test]
fn when_a_path_dies_the_other_goes_on_and_nothing_is_missing() {
    for dead in 0..2 {
        let mut ways = TWO;
        ways[dead].dead = Some((1_000, 60_000));
        let mut rig = Rig::multi(&QuicConfig::default(), &ways, &bulk(10_000_000));
        rig.run(15_000);
        let sink = rig.sink();
        let stream = sink.streams.values().next().unwrap();
        assert!(stream.bytes == 10_000_000 && stream.ended.is_some(), "path {dead}: {stream:?}");
        // A second until the dead path is abandoned, three PTOs until its data counts as lost.
        let wait = sink.longest_wait.as_secs_f64();
        assert!(wait < 2.5, "path {dead}: {wait}");
    }
}

#[test]
fn a_path_that_only_sends_is_not_given_up() {
    // Data on the second path is acknowledged on the first: the sender hears only keep-alives there.
    let mut rig = Rig::multi(&QuicConfig::default(), &TWO, &bulk(40_000_000));
    let least = (25..250).map(|step| rig.run(20 * step).window(1)).min().unwrap();
    // A new path would begin with ten datagrams; a loss leaves more than half of this one's window.
    assert!(least > 2 * 14_720, "{least}");
    assert!(rig.sink().longest_wait < Duration::from_millis(200), "{:?}", rig.sink().longest_wait);
}

#[test]
fn a_path_that_comes_back_is_used_again() {
    let mut ways = TWO;
    ways[1].dead = Some((1_000, 4_000));
    let mut rig = Rig::multi(&QuicConfig::default(), &ways, &bulk(100_000_000));
    let sent = |rig: &Rig| rig.world.link_stats(rig.links[1]).delivered.packets;
    let before = sent(rig.run(4_000));
    let after = sent(rig.run(8_000));
    assert!(after > before + 1_000, "{before} {after}");
}

#[test]
fn a_link_event_moves_everything_at_once() {
    let mut ways = TWO;
    ways[0].dead = Some((1_000, 60_000));
    let mut rig = Rig::multi(&QuicConfig::default(), &ways, &bulk(8_000_000));
    rig.run(1_000);
    rig.world.path_changed(rig.client, 0, false);
    rig.run(10_000);
    let sink = rig.sink();
    assert_eq!(sink.total, 8_000_000);
    // Its data counts as lost after three PTOs; without the link event it would take a second more.
    assert!(sink.longest_wait < Duration::from_millis(900), "{:?}", sink.longest_wait);
}

#[test]
fn the_same_seed_has_the_same_events_and_another_has_others() {
    let hash = |seed, protection| {
        let config = QuicConfig { seed, protection, ..QuicConfig::default() };
        let mut ways = TWO;
        ways[0].loss = 0.01;
        ways[1].dead = Some((500, 2_000));
        let mut rig = Rig::multi(&config, &ways, &bulk(5_000_000));
        rig.run(4_000).world.log().hash()
    };
    assert_eq!(hash(7, Protection::Null), hash(7, Protection::Null));
    assert_eq!(hash(7, Protection::Tls), hash(7, Protection::Null), "cryptography changes no event");
    assert_ne!(hash(8, Protection::Null), hash(7, Protection::Null));
}

#[test]
fn our_controllers_drive_each_path_and_coupled_ones_read_their_siblings() {
    for name in ["cubic", "lia", "olia", "bbr"] {
        if !quic_controllers().contains(&name) {
            continue;
        }
        let mut rig = Rig::multi(&config(name), &TWO, &bulk(5_000_000));
        rig.run(6_000);
        assert_eq!(rig.sink().total, 5_000_000, "{name}");
    }
}

#[test]
fn losses_of_slow_start_stay_within_a_streams_limit_of_gaps() {
    // With a larger window the receiver would hold too many pieces and close the connection.
    let deep = TestPath { queue: Some(1_250_000), ..way(1000, 5) };
    let lost = |stream_receive_window| {
        let receive_window = 64 << 20;
        let config = QuicConfig { stream_receive_window, receive_window, ..QuicConfig::default() };
        let mut rig = Rig::multi(&config, &[deep], &bulk(100_000_000));
        rig.run(400);
        let client = rig.world.host::<Endpoint>(rig.client).unwrap().transport() as &dyn Any;
        client.downcast_ref::<MultipathQuicTransport>().unwrap().lost().map(str::to_owned)
    };
    assert_eq!(lost(QuicConfig::default().stream_receive_window), None);
    assert!(lost(64 << 20).is_some_and(|reason| reason.contains("too many gaps")));
}
