//! Paths that lose packets, die and return; windows that close.

use tributary_link::{LossSpec, QueueSpec};
use tributary_types::{DataSize, Instant};

use super::pair::{PairSettings, Peer};
use crate::tcp::{LossDetection, TcpConfig, TcpError};

#[test]
fn random_and_bursty_losses_cost_throughput_and_nothing_else() {
    let bursts = LossSpec::GilbertElliott { to_bad: 0.002, to_good: 0.3, loss_good: 0.0, loss_bad: 0.7 };
    for loss in [LossSpec::Bernoulli(0.01), bursts] {
        for loss_detection in [LossDetection::Rack, LossDetection::DupAck, LossDetection::NewReno] {
            for controller in ["reno", "cubic", "bbr"] {
                let config = TcpConfig { loss_detection, ..TcpConfig::default() };
                let setting =
                    PairSettings { loss: loss.clone(), controller, config, ..PairSettings::new(20, 20) };
                let pair = setting.run(4_000_000, 200);
                let seconds = pair.expect_complete(4_000_000);
                assert!(seconds < 15.0, "{controller} {loss_detection:?} {loss:?}: {seconds}");
                assert!(pair.info(pair.client).retransmitted > 0);
            }
        }
    }
}

#[test]
fn overflowing_queues_are_recovered_from_without_timeouts() {
    for controller in ["reno", "cubic"] {
        let mut setting = PairSettings { controller, ..PairSettings::new(50, 40) };
        setting.queue = QueueSpec::Bytes(DataSize::from_bytes(125_000));
        let pair = setting.run(30_000_000, 60);
        let seconds = pair.expect_complete(30_000_000);
        let info = pair.info(pair.client);
        assert!(info.retransmitted > 0 && info.timeouts == 0, "{info:?}");
        assert!(seconds < 7.5, "{controller}: {seconds}");
    }
}

#[test]
fn a_blackout_of_three_seconds_is_survived_and_the_path_taken_up_again() {
    for controller in ["reno", "cubic", "bbr"] {
        let setting = PairSettings { dead: vec![(1_000, 4_000)], controller, ..PairSettings::new(20, 30) };
        let pair = setting.run(10_000_000, 60);
        let seconds = pair.expect_complete(10_000_000);
        // Four seconds of transmission, three of blackout, the rest of a doubled timeout, slow start.
        assert!((7.0..12.0).contains(&seconds), "{controller}: {seconds}");
        assert!(pair.info(pair.client).timeouts >= 2);
    }
}

#[test]
fn a_path_that_dies_for_ever_ends_the_connection_with_an_error() {
    let setting = PairSettings { dead: vec![(500, u64::MAX / 2_000_000)], ..PairSettings::new(20, 30) };
    let pair = setting.run(100_000_000, 4_000);
    let socket = pair.transport(pair.client).socket();
    assert_eq!(socket.error(), Some(TcpError::TimedOut(15)));
    let closed = pair.peer(pair.client).closed.expect("the application is told");
    assert!(closed > Instant::from_millis(500_000) && closed < Instant::from_millis(1_200_000), "{closed}");
}

#[test]
fn nobody_answering_a_syn_is_an_error_too() {
    let setting = PairSettings { dead: vec![(0, u64::MAX / 2_000_000)], ..PairSettings::new(20, 30) };
    let pair = setting.run(1, 1_000);
    assert_eq!(pair.transport(pair.client).socket().error(), Some(TcpError::TimedOut(7)));
    // 1 + 2 + 4 + 8 + 16 + 32 + 64 seconds, each rounded up by a clock that is coarser for longer waits.
    let closed = pair.peer(pair.client).closed.expect("the application is told");
    assert!(closed >= Instant::from_millis(127_000) && closed < Instant::from_millis(132_000), "{closed}");
}

#[test]
fn a_lost_syn_is_repeated_after_a_second() {
    let setting = PairSettings { dead: vec![(0, 500)], ..PairSettings::new(20, 30) };
    let seconds = setting.run(1_000, 10).expect_complete(1_000);
    assert!((1.0..1.2).contains(&seconds), "{seconds}");
}

#[test]
fn a_closed_window_is_probed_and_opens_when_the_application_reads() {
    let config = TcpConfig { receive_buffer: 100_000, ..TcpConfig::default() };
    let setting = PairSettings { config, ..PairSettings::new(20, 30) };
    let mut pair =
        setting.build(Peer::new(2_000_000), Peer::new(0).reading_from(Instant::from_millis(5_000)));
    pair.run(4);
    let (client, server) = (pair.info(pair.client), pair.info(pair.server));
    assert_eq!((client.peer_window, client.in_flight), (0, 0), "{client:?}");
    assert!((64_000..=100_000).contains(&server.receive_held), "{server:?}");
    assert_eq!(client.timeouts, 0);
    pair.run(10);
    let seconds = pair.expect_complete(2_000_000);
    assert!(seconds < 7.0, "{seconds}");
}

#[test]
fn a_tiny_receive_window_is_slow_and_works() {
    let config = TcpConfig { receive_buffer: 2_000, auto_tune: false, ..TcpConfig::default() };
    let setting = PairSettings { config, ..PairSettings::new(20, 10) };
    let pair = setting.run(100_000, 60);
    let seconds = pair.expect_complete(100_000);
    assert!(seconds < 5.0, "{seconds}");
    assert!(pair.transport(pair.server).socket().receive_held_most() <= 2_000);
}
