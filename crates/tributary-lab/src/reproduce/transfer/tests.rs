//! Scaling, and turns that begin anywhere.

use super::*;
use tributary_link::Direction;
use tributary_types::Instant;

#[test]
fn rates_and_queues_are_multiplied_and_times_are_not() {
    for name in
        ["los", "nlos", "mobility", "onoff", "blackout", "dead-wigig", "normal", "loss-wifi", "delay-wifi"]
    {
        let small = Scenario::builtin(name).unwrap();
        let large = scaled(&small, 10);
        large.check().unwrap();
        for path in 0..small.paths.len() {
            let end = Instant::from_millis(10_000);
            let bytes = |s: &Scenario| s.capacity(path, Direction::Down, Instant::ZERO, end).as_bytes();
            let ratio = bytes(&large) as f64 / bytes(&small).max(1) as f64;
            assert!((ratio - 10.0).abs() < 1e-6, "{name}: {ratio}");
        }
        assert_eq!(large.rtt, small.rtt);
    }
}

#[test]
fn turns_begin_anywhere_and_go_on_as_before() {
    let ms = Duration::from_millis;
    let turns = [(ms(1500), Bitrate::from_mbps(140)), (ms(1000), Bitrate::from_mbps(3))];
    let at = |turns: &[(Duration, Bitrate)], ms: u64| {
        let period: u128 = turns.iter().map(|turn| turn.0.as_millis()).sum();
        let mut left = u128::from(ms) % period;
        let inside = |turn: &&(Duration, Bitrate)| {
            let inside = left < turn.0.as_millis();
            left = left.saturating_sub(turn.0.as_millis());
            inside
        };
        turns.iter().find(inside).map(|turn| turn.1)
    };
    for (phase, skipped) in [(0, 0), (1, 10), (150, 1500), (249, 2490), (250, 0), (401, 1510)] {
        let begun = turned(&turns, phase, ms(10));
        for ms in (0..5000).step_by(10) {
            assert_eq!(at(&begun, ms), at(&turns, ms + skipped), "phase {phase}, {ms} ms");
        }
    }
}

#[test]
fn a_radio_that_dies_and_comes_back_is_told() {
    let scenario = Scenario::builtin("dead-wigig").unwrap().with_duration(Duration::from_secs(6));
    let mut sample = Sample::default();
    // Dead from a third to two thirds of six seconds; it carries again at 4.3 s.
    let tenths = [vec![140.0; 20], vec![0.0; 23], vec![140.0; 17]].concat();
    let silences = [(500.0, 900.0), (2000.0, 60.0)].map(|(at_ms, length_ms)| Silence { at_ms, length_ms });
    dead_radio(&mut sample, &scenario, &silences, &[("wigig".to_owned(), tenths)].into());
    assert_eq!(sample.metrics["dead_silence"], [60.0], "the one before does not count");
    assert!((0.2..=0.5).contains(&sample.metrics["back_after"][0]), "{:?}", sample.metrics);
    dead_radio(&mut sample, &scenario, &[], &[("wigig".to_owned(), vec![0.0; 60])].into());
    assert_eq!(sample.metrics["dead_silence"], [UNRECORDED_MS]);
    assert!(sample.metrics["back_after"][0] > 3600.0, "never used again misses every bound");
}
