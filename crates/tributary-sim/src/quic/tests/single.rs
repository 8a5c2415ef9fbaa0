//! quinn-proto on one path.

use super::*;

#[test]
fn a_transfer_fills_the_link_and_arrives_whole() {
    let mut rig = Rig::single(&QuicConfig::default(), way(50, 10), &bulk(10_000_000));
    rig.run(5_000);
    let stream = *rig.sink().streams.values().next().unwrap();
    assert_eq!(stream.bytes, 10_000_000);
    // 10 MB in full packets of 1500 over 50 Mbit/s take 1.66 s.
    let took = stream.ended.unwrap().as_secs_f64();
    assert!((1.66..1.85).contains(&took), "{took}");
}

#[test]
fn every_controller_delivers_everything_under_loss() {
    for name in quic_controllers() {
        let lossy = TestPath { loss: 0.01, ..way(20, 15) };
        let mut rig = Rig::single(&config(name), lossy, &bulk(1_000_000));
        rig.run(20_000);
        let stream = rig.sink().streams.values().next().copied().unwrap_or_default();
        assert!(stream.bytes == 1_000_000 && stream.ended.is_some(), "{name}: {stream:?}");
        assert!(rig.sender().counters().retransmitted > 0, "{name}");
    }
}

#[test]
fn a_blackout_is_survived() {
    let dark = TestPath { dead: Some((500, 1_500)), ..way(20, 10) };
    let mut rig = Rig::single(&QuicConfig::default(), dark, &bulk(5_000_000));
    rig.run(10_000);
    let sink = rig.sink();
    assert_eq!(sink.total, 5_000_000);
    // Probes back off to at most twice the silence.
    let wait = sink.longest_wait.as_secs_f64();
    assert!((1.0..2.2).contains(&wait), "{wait}");
}

fn hash(config: &QuicConfig) -> u64 {
    let lossy = TestPath { loss: 0.02, dead: Some((700, 900)), ..way(30, 12) };
    let mut rig = Rig::single(config, lossy, &bulk(2_000_000));
    rig.run(3_000).world.log().hash()
}

#[test]
fn the_same_seed_has_the_same_events_and_another_has_others() {
    for protection in [Protection::Null, Protection::Tls] {
        let with = |seed| QuicConfig { seed, protection, ..QuicConfig::default() };
        assert_eq!(hash(&with(7)), hash(&with(7)), "{protection:?}");
        assert_ne!(hash(&with(7)), hash(&with(8)), "{protection:?}");
    }
}

#[test]
fn cryptography_changes_no_event() {
    let with = |protection| QuicConfig { protection, seed: 3, ..QuicConfig::default() };
    assert_eq!(hash(&with(Protection::Null)), hash(&with(Protection::Tls)));
}

#[test]
fn more_urgent_streams_are_sent_first() {
    let writes = [2_000_000, 500_000, 100_000];
    let writes = [0, 1, 2].map(|priority| Write { priority, bytes: writes[usize::from(priority)] });
    let mut rig = Rig::single(&QuicConfig::default(), way(20, 10), &writes);
    rig.run(4_000);
    let ended: Vec<Instant> = rig.sink().streams.values().map(|stream| stream.ended.unwrap()).collect();
    assert!(ended[2] < ended[1] && ended[1] < ended[0], "{ended:?}");
    // The most urgent stream has the whole link: 100 kB take 42 ms of it, and three round trips of slow
    // start.
    assert!(ended[2] < Instant::from_millis(180), "{ended:?}");
}

#[test]
fn a_receiver_that_cannot_keep_up_stops_the_sender() {
    let config = QuicConfig { receive_window: 100_000, ..QuicConfig::default() };
    let mut rig = Rig::single(&config, way(100, 50), &bulk(50_000_000));
    rig.run(5_000);
    // One window per round trip: 8 Mbit/s.
    let goodput = rig.goodput(5_000);
    assert!((6.0..8.2).contains(&goodput), "{goodput}");
}

#[test]
fn an_idle_time_out_ends_the_connection() {
    let config = QuicConfig { idle_timeout: Some(Duration::from_secs(1)), ..QuicConfig::default() };
    let dark = TestPath { dead: Some((300, 60_000)), ..way(20, 10) };
    let mut rig = Rig::single(&config, dark, &bulk(5_000_000));
    rig.run(10_000);
    assert!(rig.world.host::<Endpoint>(rig.server).unwrap().application::<Source>().unwrap().closed);
}

#[test]
fn nonsense_is_refused() {
    let path = QuicPath { path: 0, out: RouteId(0), back: RouteId(1) };
    let refused = |config: QuicConfig| QuicTransport::client(&config, path).unwrap_err().to_string();
    let unknown = refused(config("warp"));
    assert!(unknown.contains("`warp`") && unknown.contains("quic-cubic"), "{unknown}");
    let small = refused(QuicConfig { datagram: 600, ..QuicConfig::default() });
    assert!(small.contains("`datagram` is 600"), "{small}");
    let none = MultipathQuicTransport::client(&QuicConfig::default(), &[]).unwrap_err().to_string();
    assert!(none.contains("`paths` is 0"), "{none}");
}
