//! A QUIC connection over two radios through a session, beside the same connection on the better radio alone.

use core::time::Duration;

use tributary_link::{DelaySpec, LinkSpec, PathSpec, Scenario};
use tributary_types::Bitrate;

use super::*;
use crate::multipath::rig::{Ends, Rig};

const ENDLESS: u64 = 1 << 40;
const SECOND: Duration = Duration::from_secs(1);

/// Paths of so many Mbit/s and so many milliseconds one way.
fn scenario(paths: &[(u64, u64)]) -> Scenario {
    let mut scenario = Scenario::new("paths").with_rtt(Duration::from_millis(0));
    for (at, (mbps, delay)) in paths.iter().enumerate() {
        let mut link = LinkSpec::constant(Bitrate::from_mbps(*mbps));
        link.delay = DelaySpec::fixed(Duration::from_millis(*delay));
        scenario = scenario.with_path(PathSpec::symmetric(["a", "b"][at], link));
    }
    scenario
}

fn inside(scenario: &Scenario, controller: &str) -> Rig {
    let quic = QuicConfig { controller: controller.to_owned(), ..QuicConfig::default() };
    let mut rig = Rig::new(scenario, ENDLESS, |paths| -> Ends {
        let (client, server) = QuicInSession::pair(&SessionConfig::default(), &quic, paths).unwrap();
        (Box::new(client), Box::new(server))
    });
    rig.run(10 * SECOND);
    rig
}

fn alone(scenario: &Scenario, controller: &str) -> Rig {
    let quic = QuicConfig { controller: controller.to_owned(), ..QuicConfig::default() };
    let mut rig = Rig::new(scenario, ENDLESS, |paths| -> Ends {
        let path = |out, back| QuicPath { path: paths[0].path, out, back };
        let client = QuicTransport::client(&quic, path(paths[0].up, paths[0].down)).unwrap();
        (Box::new(client), Box::new(QuicTransport::server(&quic, path(paths[0].down, paths[0].up)).unwrap()))
    });
    rig.run(10 * SECOND);
    rig
}

/// The rate in a session over the better path's.
fn compared(paths: &[(u64, u64)], controller: &str) -> f64 {
    let (better, both) = (alone(&scenario(&paths[..1]), controller), inside(&scenario(paths), controller));
    let server: &QuicInSession = both.transport(both.server);
    assert_eq!(server.inner.lost(), None);
    let rate = |rig: &Rig| rig.rate(2 * SECOND, 10 * SECOND);
    rate(&both) / rate(&better)
}

#[test]
fn an_inner_connection_over_unequal_paths_has_nearly_what_the_better_one_carries() {
    // Three quarters when segments on the slower path were late. Wanted: 0.98.
    let rate = compared(&[(100, 20), (10, 40)], "quic-cubic");
    assert!(rate >= 0.88, "{rate:.3} of the better path");
}

#[test]
fn an_inner_connection_gets_most_of_two_equal_paths() {
    for controller in ["quic-cubic", "bbr"] {
        let rate = compared(&[(50, 20), (50, 20)], controller);
        assert!(rate >= 1.8, "{controller}: {rate:.3} of one path");
    }
}

#[test]
fn an_inner_connection_with_bbr_goes_on_over_unequal_paths() {
    // It stopped for ever when acknowledgements changed their order.
    let rig = inside(&scenario(&[(100, 20), (10, 40)]), "bbr");
    assert!(rig.worst_second(2, 10) > 30.0, "{:.1} Mbit/s", rig.worst_second(2, 10));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = || inside(&scenario(&[(50, 20), (10, 40)]), "quic-cubic");
    assert_eq!(run().reader().arrivals, run().reader().arrivals);
}
