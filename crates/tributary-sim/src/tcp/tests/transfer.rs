//! Clean paths: rates, buffers, acknowledgements, both directions.

use tributary_link::QueueSpec;

use super::pair::{PairSettings, Peer};
use crate::tcp::TcpConfig;

#[test]
fn a_clean_path_is_filled_without_a_retransmission() {
    for controller in ["reno", "cubic", "bbr"] {
        let queue = QueueSpec::Packets(100_000);
        let setting = PairSettings { queue, controller, ..PairSettings::new(50, 20) };
        let pair = setting.run(20_000_000, 20);
        let seconds = pair.expect_complete(20_000_000);
        let ideal = 20_000_000.0 * 8.0 / 50e6 * 1500.0 / 1448.0;
        assert!(seconds > ideal && seconds < ideal + 0.5, "{controller}: {seconds} against {ideal}");
        assert_eq!(pair.info(pair.client).retransmitted, 0);
    }
}

#[test]
fn both_directions_at_once_share_nothing_but_acknowledgements() {
    let setting = PairSettings { controller: "cubic", ..PairSettings::new(20, 20) };
    let mut pair = setting.build(Peer::new(5_000_000), Peer::new(5_000_000));
    pair.run(20);
    for id in [pair.client, pair.server] {
        let peer = pair.peer(id);
        assert_eq!((peer.written, peer.read), (5_000_000, 5_000_000));
        let seconds = peer.finished.unwrap().as_secs_f64();
        assert!((2.0..3.5).contains(&seconds), "{seconds}");
    }
}

#[test]
fn a_small_fixed_window_gives_a_window_a_round_trip() {
    let config = TcpConfig { receive_buffer: 64_000, auto_tune: false, ..TcpConfig::default() };
    let setting = PairSettings { config, ..PairSettings::new(100, 100) };
    let seconds = setting.run(3_200_000, 20).expect_complete(3_200_000);
    assert!((4.9..6.2).contains(&seconds), "{seconds}");
}

#[test]
fn the_window_tunes_itself_to_a_long_fat_path() {
    let queue = QueueSpec::Packets(100_000);
    let setting = PairSettings { queue, controller: "cubic-no-hystart", ..PairSettings::new(100, 200) };
    // 2.5 MB a round trip: forty times the first window.
    let seconds = setting.run(50_000_000, 20).expect_complete(50_000_000);
    assert!(seconds < 4.14 + 2.5, "{seconds}");
}

#[test]
fn every_second_segment_is_acknowledged() {
    let queue = QueueSpec::Packets(100_000);
    let pair = PairSettings { queue, ..PairSettings::new(50, 20) }.run(10_000_000, 20);
    pair.expect_complete(10_000_000);
    let data = pair.world.link_stats(pair.links[0]).delivered.packets;
    let acks = pair.world.link_stats(pair.links[1]).delivered.packets;
    assert!(acks * 2 > data && acks * 2 < data + data / 10 + 40, "{acks} for {data}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_does_not() {
    let run = |seed| {
        let loss = tributary_link::LossSpec::Bernoulli(0.01);
        PairSettings { loss, controller: "cubic", seed, ..PairSettings::new(20, 20) }
            .run(2_000_000, 60)
            .world
            .log()
            .hash()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
