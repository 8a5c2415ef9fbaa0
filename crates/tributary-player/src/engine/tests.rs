//! Algorithm 1 in single situations, and the effect of hysteresis and dwell time.

use super::*;

const WIFI: PathId = PathId(0);
const LTE: PathId = PathId(1);
const MMWAVE: PathId = PathId(2);
const FULL: Duration = Duration::from_secs(30);

fn path(path: PathId, rtt_ms: f64, retransmissions: u64) -> PathReport {
    PathReport { path, rtt: PathReport::rtt_from_millis(rtt_ms), retransmissions }
}

fn at(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1000)
}

fn start(settings: Settings, paths: &[PathReport]) -> (Engine, Decision, Reason) {
    let mut engine = Engine::new(settings);
    let decided = engine.start(at(0), paths, true);
    (engine, decided.decision, decided.reason)
}

fn decisions(decided: &[Decided]) -> Vec<(Decision, Reason)> {
    decided.iter().map(|decided| (decided.decision.clone(), decided.reason)).collect()
}

#[test]
fn one_path_begins_on_quic() {
    let (_, decision, reason) = start(Settings::paper(), &[path(LTE, 40.0, 0)]);
    assert_eq!((decision, reason), (Decision::Start(Transport::Quic(LTE)), Reason::OnePath));
}

#[test]
fn two_paths_begin_on_mptcp_up_to_nine_times_the_rtt() {
    let (_, near, _) = start(Settings::paper(), &[path(WIFI, 10.0, 0), path(LTE, 89.0, 0)]);
    assert_eq!(near, Decision::Start(Transport::Mptcp(vec![WIFI, LTE])));
    let (_, far, reason) = start(Settings::paper(), &[path(LTE, 90.0, 0), path(WIFI, 10.0, 0)]);
    assert_eq!((far, reason), (Decision::Start(Transport::Quic(WIFI)), Reason::Rtt));
}

#[test]
fn rtts_below_the_least_one_count_as_equal() {
    let noisy = [path(WIFI, 0.1, 0), path(LTE, 0.95, 0)];
    let both = Decision::Start(Transport::Mptcp(vec![WIFI, LTE]));
    assert_eq!(start(Settings::paper(), &noisy).1, Decision::Start(Transport::Quic(WIFI)));
    let (mut engine, decision, _) = start(Settings::default(), &noisy);
    assert_eq!(decision, both);
    // RTTs below 1 ms count as 1 ms: the ratio is at most 8.9 in either direction, and no path is removed.
    for (second, [wifi, lte]) in [[0.05, 0.99], [0.8, 0.05], [0.05, 8.9]].into_iter().enumerate() {
        let reports = [path(WIFI, wifi, 0), path(LTE, lte, 0)];
        assert_eq!(engine.update(at(10 + second as u64), &reports, FULL, true), []);
    }
    // From the least RTT on, the ratio counts: 9.1 ms beside 1 ms or less.
    let far = [path(WIFI, 0.05, 0), path(LTE, 9.1, 0)];
    let decided = engine.update(at(20), &far, FULL, true);
    assert_eq!(decisions(&decided), [(Decision::Remove(LTE), Reason::Rtt)]);
    // It rejoins below 0.8 of the threshold.
    let near = [path(WIFI, 0.05, 0), path(LTE, 7.1, 0)];
    assert_eq!(
        decisions(&engine.update(at(30), &near, FULL, true)),
        [(Decision::Add(LTE), Reason::Recovered)]
    );
}

#[test]
fn of_three_paths_the_distant_one_is_left_out() {
    let three = [path(WIFI, 10.0, 0), path(LTE, 60.0, 0), path(MMWAVE, 200.0, 0)];
    let (engine, decision, _) = start(Settings::paper(), &three);
    assert_eq!(decision, Decision::Start(Transport::Mptcp(vec![WIFI, LTE])));
    assert_eq!(engine.used().collect::<Vec<_>>(), [WIFI, LTE]);
}

#[test]
fn without_a_controller_or_udp_the_engine_uses_tcp_and_reports_it() {
    let mut engine = Engine::new(Settings::default());
    let none = engine.start(at(0), &[], true);
    assert_eq!((none.decision, none.reason), (Decision::Start(Transport::Tcp), Reason::NoController));
    let blocked = engine.start(at(0), &[path(WIFI, 10.0, 0)], false);
    assert_eq!((blocked.decision, blocked.reason), (Decision::Start(Transport::Tcp), Reason::UdpBlocked));
}

#[test]
fn impossible_reports_of_the_controller_are_ignored() {
    for lie in [f64::NAN, -3.0, 0.0, f64::INFINITY, 1e12] {
        assert_eq!(PathReport::rtt_from_millis(lie), None, "{lie} ms");
    }
    let (_, decision, _) = start(Settings::default(), &[path(WIFI, f64::NAN, 0), path(LTE, 30.0, 0)]);
    assert_eq!(decision, Decision::Start(Transport::Quic(LTE)));
}

#[test]
fn a_slow_path_is_replaced_by_a_better_one_or_removed() {
    let three = [path(WIFI, 10.0, 0), path(LTE, 20.0, 0), path(MMWAVE, 200.0, 0)];
    let (mut engine, _, _) = start(Settings::paper(), &three);
    let slow = [path(WIFI, 10.0, 0), path(LTE, 120.0, 0), path(MMWAVE, 30.0, 0)];
    let decided = engine.update(at(1), &slow, FULL, true);
    let replaced = Decision::Replace { out: LTE, with: MMWAVE };
    assert_eq!(decisions(&decided), [(replaced, Reason::Rtt)]);
    let slower = [path(WIFI, 10.0, 0), path(LTE, 120.0, 0), path(MMWAVE, 300.0, 0)];
    let decided = engine.update(at(2), &slower, FULL, true);
    assert_eq!(decisions(&decided), [(Decision::Remove(MMWAVE), Reason::Rtt)]);
    assert_eq!(decided[0].paths, slower, "a decision carries its inputs");
}

#[test]
fn retransmissions_above_those_of_the_slowest_path_remove_one() {
    let (mut engine, _, _) = start(Settings::paper(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    let even = [path(WIFI, 10.0, 110), path(LTE, 40.0, 100)];
    assert_eq!(engine.update(at(1), &even, FULL, true), []);
    let lossy = [path(WIFI, 10.0, 112), path(LTE, 40.0, 100)];
    let decided = engine.update(at(2), &lossy, FULL, true);
    assert_eq!(decisions(&decided), [(Decision::Remove(WIFI), Reason::Retransmissions)]);
}

#[test]
fn a_path_removed_for_retransmissions_stays_out_until_it_is_the_only_one_that_answers() {
    let lossy = [path(WIFI, 10.0, 112), path(LTE, 40.0, 100)];
    let dead = [path(WIFI, 10.0, 112), PathReport { path: LTE, rtt: None, retransmissions: 100 }];
    let (mut engine, _, _) = start(Settings::paper(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    engine.update(at(1), &lossy, FULL, true);
    for second in 2..300 {
        assert_eq!(
            engine.update(at(second), &lossy, FULL, true),
            [],
            "an unused path shows no retransmissions"
        );
    }
    let decided = engine.update(at(300), &dead, FULL, true);
    let replaced = Decision::Replace { out: LTE, with: WIFI };
    assert_eq!(decisions(&decided), [(replaced, Reason::Unreachable)]);
}

#[test]
fn a_path_removed_for_retransmissions_is_tried_again_after_its_probation() {
    let lossy = [path(WIFI, 10.0, 300), path(LTE, 40.0, 100)];
    let (mut engine, _, _) = start(Settings::default(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    assert_eq!(engine.update(at(9), &lossy, FULL, true), [], "nobody waits");
    let decided = engine.update(at(10), &lossy, Duration::from_secs(5), true);
    assert_eq!(decisions(&decided), [(Decision::Remove(WIFI), Reason::Retransmissions)]);
    assert_eq!(engine.update(at(39), &lossy, FULL, true), []);
    let decided = engine.update(at(40), &lossy, FULL, true);
    assert_eq!(decisions(&decided), [(Decision::Add(WIFI), Reason::Recovered)]);
    assert_eq!(
        engine.update(at(50), &lossy, Duration::from_secs(5), true),
        [],
        "only what it retransmits from here on counts"
    );
}

#[test]
fn equal_loss_on_both_paths_removes_none_of_them() {
    // Both lose at the same rate, about two packets a second for six minutes; the counts differ by chance alone.
    let removed = |settings: Settings| {
        let runs = (1..=100).filter(|seed| {
            let mut rng = tributary_types::Rng::new(*seed);
            let mut counts = [0, 0];
            let (mut engine, _, _) = start(settings, &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
            (1..=360).any(|second| {
                for _ in 0..20 {
                    counts[0] += u64::from(rng.chance(0.1));
                    counts[1] += u64::from(rng.chance(0.1));
                }
                let reports = [path(WIFI, 10.0, counts[0]), path(LTE, 40.0, counts[1])];
                !engine.update(at(second), &reports, Duration::ZERO, false).is_empty()
            })
        });
        runs.count()
    };
    assert!(removed(Settings::paper()) > 50, "the paper's threshold compares bare counts");
    assert_eq!(removed(Settings::default()), 0);
}

#[test]
fn a_path_flapping_around_the_threshold_changes_once_a_dwell_time() {
    let near = [path(WIFI, 10.0, 0), path(LTE, 85.0, 0)];
    let far = [path(WIFI, 10.0, 0), path(LTE, 95.0, 0)];
    for (settings, most) in [(Settings::paper(), 60), (Settings::default(), 1)] {
        let (mut engine, _, _) = start(settings, &near);
        let mut changes = 0;
        for second in 1..=60 {
            let report = if second % 2 == 0 { &near } else { &far };
            changes += engine.update(at(second), report, FULL, true).len();
        }
        assert_eq!(changes, most, "{settings:?}");
    }
}

#[test]
fn a_removed_path_rejoins_when_it_has_improved() {
    let (mut engine, _, _) = start(Settings::default(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    let bad = [path(WIFI, 10.0, 0), path(LTE, 100.0, 0)];
    assert_eq!(decisions(&engine.update(at(6), &bad, FULL, true)), [(Decision::Remove(LTE), Reason::Rtt)]);
    let good = [path(WIFI, 10.0, 0), path(LTE, 50.0, 0)];
    assert_eq!(engine.update(at(8), &good, FULL, true), [], "it dwells for five seconds");
    let decided = engine.update(at(11), &good, FULL, true);
    assert_eq!(decisions(&decided), [(Decision::Add(LTE), Reason::Recovered)]);
}

#[test]
fn a_dead_path_leaves_at_once() {
    let (mut engine, _, _) = start(Settings::default(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    let dead = [PathReport { path: WIFI, rtt: None, retransmissions: 0 }, path(LTE, 40.0, 0)];
    let decided = engine.update(at(1), &dead, FULL, true);
    assert_eq!(decisions(&decided), [(Decision::Remove(WIFI), Reason::Unreachable)]);
}

#[test]
fn paths_are_still_controlled_when_a_move_to_quic_has_failed() {
    let (mut engine, _, _) = start(Settings::default(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    let bad = [path(WIFI, 10.0, 0), path(LTE, 400.0, 0)];
    let decided = engine.update(at(6), &bad, Duration::from_secs(3), true);
    assert_eq!(
        decisions(&decided),
        [(Decision::Remove(LTE), Reason::Rtt), (Decision::MoveToQuic(WIFI), Reason::BufferCritical)]
    );
    engine.set_mptcp(true);
    let good = [path(WIFI, 10.0, 0), path(LTE, 50.0, 0)];
    let decided = engine.update(at(12), &good, FULL, true);
    assert_eq!(decisions(&decided), [(Decision::Add(LTE), Reason::Recovered)]);
}

#[test]
fn the_last_path_moves_to_quic_when_the_buffer_is_nearly_empty() {
    let (mut engine, _, _) = start(Settings::default(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    let bad = [path(WIFI, 10.0, 0), path(LTE, 400.0, 0)];
    engine.update(at(6), &bad, FULL, true);
    assert_eq!(engine.update(at(7), &bad, Duration::from_secs(3), false), [], "UDP is blocked");
    let decided = engine.update(at(7), &bad, Duration::from_secs(3), true);
    assert_eq!(decisions(&decided), [(Decision::MoveToQuic(WIFI), Reason::BufferCritical)]);
    assert_eq!(engine.update(at(8), &bad, Duration::ZERO, true), [], "it moves once");
}

#[test]
fn a_session_keeps_a_path_for_any_report() {
    let mut rng = tributary_types::Rng::new(1);
    for _ in 0..2000 {
        let reports = |rng: &mut tributary_types::Rng| -> Vec<PathReport> {
            let count = rng.below(5);
            (0..count as u8)
                .map(|id| path(PathId(id), rng.uniform() * 400.0 - 40.0, rng.below(200)))
                .collect()
        };
        let (mut engine, decision, _) = start(Settings::paper(), &reports(&mut rng));
        let multipath = matches!(decision, Decision::Start(Transport::Mptcp(_)));
        for second in 1..20 {
            let level = Duration::from_secs(rng.below(10));
            engine.update(at(second), &reports(&mut rng), level, true);
            assert!(!multipath || engine.used().count() >= 1);
        }
    }
}
