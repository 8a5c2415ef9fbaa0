//! Paths with a cap over simulated TCP: the cap is kept, and the other radio loses nothing by it.

use super::*;

/// Mbit/s that the server sends over each path, and that arrive, from 2 to 8 s.
fn rates(scenario: &Scenario, config: &SessionConfig) -> (Vec<f64>, f64) {
    let mut rig = Rig::new(scenario, ENDLESS, ends(config));
    let sent = |rig: &Rig| {
        let session = rig.transport::<SessionTransport>(rig.server).session().expect("it is open");
        let mut sent: Vec<_> = session.subflow_stats().map(|stats| (stats.path, stats.sent)).collect();
        sent.sort_unstable();
        sent
    };
    rig.run(2 * SECOND);
    let before = sent(&rig);
    rig.run(8 * SECOND);
    let rate = |((_, before), (_, after)): (&(_, u64), &(_, u64))| (after - before) as f64 * 8.0 / 6e6;
    (before.iter().zip(&sent(&rig)).map(rate).collect(), rig.rate(2 * SECOND, 8 * SECOND))
}

#[test]
fn a_capped_radio_carries_its_cap_and_the_other_one_all_that_it_can() {
    let scenario = Scenario::builtin("los").unwrap();
    let of = |path: usize| if scenario.paths[path].name == "wifi" { 47.0 } else { 140.0 };
    for congestion in ["cubic", "bbr"] {
        for (path, cap) in [(0, 10), (1, 10), (0, 30), (1, 60)] {
            let caps = [(path, Bitrate::from_mbps(cap))].into();
            let congestion = congestion.to_owned();
            let config = SessionConfig { caps, congestion, ..SessionConfig::default() };
            let (rates, all) = rates(&scenario, &config);
            let (capped, cap) = (rates[path], cap as f64);
            let case = format!(
                "{cap} Mbit/s on path {path} with {}: {rates:.1?}, {all:.1} arrive",
                config.congestion
            );
            assert!(capped > 0.95 * cap && capped < 1.01 * cap, "{case}");
            // Heads of TCP, TLS and IP, and what loss costs.
            assert!(all > 0.90 * (cap + of(1 - path)), "{case}");
        }
    }
}

#[test]
fn a_cap_above_the_radios_rate_changes_little() {
    let scenario = Scenario::builtin("deep-fade").unwrap();
    let caps = [(0, Bitrate::from_mbps(400)), (1, Bitrate::from_mbps(400))].into();
    let (_, capped) = rates(&scenario, &SessionConfig { caps, ..SessionConfig::default() });
    let (_, free) = rates(&scenario, &SessionConfig::default());
    assert!(capped > 0.97 * free, "{capped:.1} instead of {free:.1} Mbit/s");
}

#[test]
fn a_blocked_radio_costs_no_more_with_a_cap_on_the_other() {
    let scenario = Scenario::builtin("blackout").unwrap();
    let wifi = scenario.paths.iter().position(|path| path.name == "wifi").unwrap();
    let config = SessionConfig { caps: [(wifi, Bitrate::from_mbps(20))].into(), ..SessionConfig::default() };
    let rig = download(&scenario, &config, ENDLESS, 9);
    let silence = rig.longest_silence_from(2 * SECOND);
    assert!(silence < Duration::from_millis(150), "{silence:?}");
}
