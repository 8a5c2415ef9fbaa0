//! Algorithm 1 in single situations, and the effect of hysteresis and dwell time.

use super::*;

const WIFI: PathId = PathId(0);
const LTE: PathId = PathId(1);
const MMWAVE: PathId = PathId(2);
const FULL: Duration = Duration::from_secs(30);

fn path(path: PathId, rtt_ms: f64, retransmissions: u64) -> PathReport {
    PathReport { retransmissions, ..PathReport::new(path, PathReport::rtt_from_millis(rtt_ms)) }
}

/// Downloads carry 1.3 Mbit/s.
fn with(level: Duration, udp: bool) -> Conditions {
    Conditions { level, throughput: Some(1.3e6), udp }
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
        assert_eq!(engine.update(at(10 + second as u64), &reports, with(FULL, true)), []);
    }
    // From the least RTT on, the ratio counts: 9.1 ms beside 1 ms or less.
    let far = [path(WIFI, 0.05, 0), path(LTE, 9.1, 0)];
    assert_eq!(engine.update(at(20), &far, with(FULL, true)), []);
    let decided = engine.update(at(25), &far, with(FULL, true));
    assert_eq!(decisions(&decided), [(Decision::Remove(LTE), Reason::Rtt)]);
    // It rejoins below 0.8 of the threshold.
    let near = [path(WIFI, 0.05, 0), path(LTE, 7.1, 0)];
    assert_eq!(
        decisions(&engine.update(at(30), &near, with(FULL, true))),
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
    let decided = engine.update(at(1), &slow, with(FULL, true));
    let replaced = Decision::Replace { out: LTE, with: MMWAVE };
    assert_eq!(decisions(&decided), [(replaced, Reason::Rtt)]);
    let slower = [path(WIFI, 10.0, 0), path(LTE, 120.0, 0), path(MMWAVE, 300.0, 0)];
    let decided = engine.update(at(2), &slower, with(FULL, true));
    assert_eq!(decisions(&decided), [(Decision::Remove(MMWAVE), Reason::Rtt)]);
    assert_eq!(decided[0].paths, slower, "a decision carries its inputs");
}

#[test]
fn retransmissions_above_those_of_the_slowest_path_remove_one() {
    let (mut engine, _, _) = start(Settings::paper(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    let even = [path(WIFI, 10.0, 110), path(LTE, 40.0, 100)];
    assert_eq!(engine.update(at(1), &even, with(FULL, true)), []);
    let lossy = [path(WIFI, 10.0, 112), path(LTE, 40.0, 100)];
    let decided = engine.update(at(2), &lossy, with(FULL, true));
    assert_eq!(decisions(&decided), [(Decision::Remove(WIFI), Reason::Retransmissions)]);
}

#[test]
fn as_in_the_paper_retransmissions_count_though_no_probe_was_lost() {
    let reports = |wifi: u64| {
        [path(WIFI, 10.0, wifi), path(LTE, 40.0, 100)].map(|of| PathReport { loss: Some(0.0), ..of })
    };
    let (mut engine, _, _) = start(Settings::paper(), &reports(0));
    let decided = engine.update(at(2), &reports(112), with(FULL, true));
    assert_eq!(decisions(&decided), [(Decision::Remove(WIFI), Reason::Retransmissions)]);
}

#[test]
fn a_path_removed_for_retransmissions_stays_out_until_it_is_the_only_one_that_answers() {
    let lossy = [path(WIFI, 10.0, 112), path(LTE, 40.0, 100)];
    let dead = [path(WIFI, 10.0, 112), PathReport { retransmissions: 100, ..PathReport::new(LTE, None) }];
    let (mut engine, _, _) = start(Settings::paper(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    engine.update(at(1), &lossy, with(FULL, true));
    for second in 2..300 {
        assert_eq!(
            engine.update(at(second), &lossy, with(FULL, true)),
            [],
            "an unused path shows no retransmissions"
        );
    }
    let decided = engine.update(at(300), &dead, with(FULL, true));
    let replaced = Decision::Replace { out: LTE, with: WIFI };
    assert_eq!(decisions(&decided), [(replaced, Reason::Unreachable)]);
}

#[test]
fn a_path_removed_for_retransmissions_is_tried_again_after_its_probation() {
    let lossy = [path(WIFI, 10.0, 300), path(LTE, 40.0, 100)];
    let (mut engine, _, _) = start(Settings::default(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    assert_eq!(engine.update(at(9), &lossy, with(FULL, false)), [], "nobody waits");
    let decided = engine.update(at(10), &lossy, with(Duration::from_secs(5), false));
    assert_eq!(decisions(&decided), [(Decision::Remove(WIFI), Reason::Retransmissions)]);
    assert_eq!(engine.update(at(24), &lossy, with(FULL, false)), []);
    let decided = engine.update(at(25), &lossy, with(FULL, false));
    assert_eq!(decisions(&decided), [(Decision::Add(WIFI), Reason::Recovered)]);
    assert_eq!(
        engine.update(at(35), &lossy, with(Duration::from_secs(5), false)),
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
                !engine.update(at(second), &reports, with(Duration::ZERO, false)).is_empty()
            })
        });
        runs.count()
    };
    assert!(removed(Settings::paper()) > 50, "the paper's threshold compares bare counts");
    assert_eq!(removed(Settings::default()), 0);
}

#[test]
fn a_path_flapping_around_the_threshold_stays() {
    let near = [path(WIFI, 10.0, 0), path(LTE, 85.0, 0)];
    let far = [path(WIFI, 10.0, 0), path(LTE, 95.0, 0)];
    for (settings, most) in [(Settings::paper(), 60), (Settings::default(), 0)] {
        let (mut engine, _, _) = start(settings, &near);
        let mut changes = 0;
        for second in 1..=60 {
            let report = if second % 2 == 0 { &near } else { &far };
            changes += engine.update(at(second), report, with(FULL, false)).len();
        }
        assert_eq!(changes, most, "{settings:?}");
    }
}

#[test]
fn a_removed_path_rejoins_when_it_has_improved() {
    let (mut engine, _, _) = start(Settings::default(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    let bad = [path(WIFI, 10.0, 0), path(LTE, 100.0, 0)];
    assert_eq!(engine.update(at(6), &bad, with(FULL, true)), [], "it may be a queue");
    assert_eq!(
        decisions(&engine.update(at(11), &bad, with(FULL, true))),
        [(Decision::Remove(LTE), Reason::Rtt)]
    );
    let good = [path(WIFI, 10.0, 0), path(LTE, 50.0, 0)];
    assert_eq!(engine.update(at(13), &good, with(FULL, true)), [], "it dwells for five seconds");
    let decided = engine.update(at(16), &good, with(FULL, true));
    assert_eq!(decisions(&decided), [(Decision::Add(LTE), Reason::Recovered)]);
}

#[test]
fn a_dead_path_leaves_after_five_seconds_or_at_once_with_little_buffered() {
    let (mut engine, _, _) = start(Settings::default(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    let dead = [PathReport::new(WIFI, None), path(LTE, 40.0, 0)];
    let removed = [(Decision::Remove(WIFI), Reason::Unreachable)];
    let mut little = engine.clone();
    let decided = little.update(at(1), &dead, with(Duration::from_secs(3), false));
    assert_eq!(decisions(&decided), removed);
    (1..6).for_each(|second| assert_eq!(engine.update(at(second), &dead, with(FULL, true)), []));
    assert_eq!(decisions(&engine.update(at(6), &dead, with(FULL, true))), removed);
}

#[test]
fn paths_are_still_controlled_when_a_move_to_quic_has_failed() {
    let (mut engine, _, _) = start(Settings::default(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    let bad = [path(WIFI, 10.0, 0), path(LTE, 400.0, 0)];
    let decided = engine.update(at(6), &bad, with(Duration::from_secs(3), true));
    assert_eq!(
        decisions(&decided),
        [
            (Decision::Remove(LTE), Reason::Rtt),
            (Decision::Move(Transport::Quic(WIFI)), Reason::BufferCritical)
        ]
    );
    engine.set_back(at(7));
    let good = [path(WIFI, 10.0, 0), path(LTE, 50.0, 0)];
    let decided = engine.update(at(12), &good, with(FULL, true));
    assert_eq!(decisions(&decided), [(Decision::Add(LTE), Reason::Recovered)]);
}

#[test]
fn the_last_path_moves_to_quic_when_the_buffer_is_nearly_empty() {
    let (mut engine, _, _) = start(Settings::default(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    let bad = [path(WIFI, 10.0, 0), path(LTE, 400.0, 0)];
    engine.update(at(6), &bad, with(Duration::from_secs(3), false));
    assert_eq!(engine.update(at(7), &bad, with(Duration::from_secs(3), false)), [], "UDP is blocked");
    let decided = engine.update(at(7), &bad, with(Duration::from_secs(3), true));
    assert_eq!(decisions(&decided), [(Decision::Move(Transport::Quic(WIFI)), Reason::BufferCritical)]);
    assert_eq!(engine.update(at(8), &bad, with(Duration::ZERO, true)), [], "it moves once");
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
            engine.update(at(second), &reports(&mut rng), with(level, true));
            assert!(!multipath || engine.used().count() >= 1);
        }
    }
}

fn losing(path: PathId, loss: f64) -> PathReport {
    PathReport { loss: Some(loss), ..PathReport::new(path, Some(Duration::from_millis(120))) }
}

#[test]
fn a_path_that_loses_a_tenth_is_removed_with_a_full_buffer_and_rejoins_when_it_has_recovered() {
    let (mut engine, _, _) = start(Settings::default(), &[losing(WIFI, 0.0), losing(LTE, 0.0)]);
    let bad = [losing(WIFI, 0.0), losing(LTE, 0.1)];
    assert_eq!(
        decisions(&engine.update(at(5), &bad, with(FULL, false))),
        [(Decision::Remove(LTE), Reason::Loss)]
    );
    for second in 6..60 {
        assert_eq!(engine.update(at(second), &bad, with(FULL, false)), [], "its probes are still lost");
    }
    let good = [losing(WIFI, 0.0), losing(LTE, 0.0)];
    let mut back = (60..90).flat_map(|second| engine.update(at(second), &good, with(FULL, false)));
    let back = back.next().unwrap();
    // The last lossy report was at 59 s.
    assert_eq!((back.decision, back.reason, back.at), (Decision::Add(LTE), Reason::Recovered, at(74)));
}

#[test]
fn a_path_that_turns_lossy_again_and_again_is_tried_ever_more_seldom() {
    let (mut engine, _, _) = start(Settings::default(), &[losing(WIFI, 0.0), losing(LTE, 0.0)]);
    let mut changes = Vec::new();
    for second in 1..=600 {
        // Unused it looks good.
        let used = engine.used().any(|path| path == LTE);
        let loss = if used { 0.1 } else { 0.0 };
        let decided = engine.update(at(second), &[losing(WIFI, 0.0), losing(LTE, loss)], with(FULL, false));
        changes.extend(decided.iter().map(|decided| decided.at.as_nanos() / 1_000_000_000));
    }
    assert_eq!(changes, [5, 20, 25, 55, 60, 120, 125, 245, 250, 370, 375, 495, 500]);
}

#[test]
fn loss_on_all_paths_removes_none() {
    // Probes of five seconds on two paths that lose 5 % each way.
    let mut removed = 0;
    for seed in 1..=100 {
        let mut rng = tributary_types::Rng::new(seed);
        let mut fates = [const { Vec::new() }; 2];
        let (mut engine, _, _) = start(Settings::default(), &[losing(WIFI, 0.05), losing(LTE, 0.05)]);
        for second in 1..=360 {
            for fates in &mut fates {
                fates.extend((0..10).map(|_| rng.chance(0.0975)));
            }
            let loss = |path: usize| {
                let last = fates[path].iter().rev().take(50);
                let count = last.clone().count() as f64;
                let lost = last.filter(|lost| **lost).count() as f64;
                1.0 - libm::sqrt(1.0 - lost / count)
            };
            let reports = [losing(WIFI, loss(0)), losing(LTE, loss(1))];
            let decided = engine.update(at(second), &reports, with(FULL, true));
            removed += decided.iter().filter(|decided| decided.reason == Reason::Loss).count();
        }
    }
    assert!(removed <= 5, "{removed} of 100 playbacks of six minutes");
}

#[test]
fn a_late_path_is_used_at_once_on_mptcp_and_on_quic() {
    let (wifi, lte) = (path(WIFI, 10.0, 0), path(LTE, 40.0, 0));
    let (mut engine, decision, _) = start(Settings::default(), &[wifi]);
    assert_eq!(decision, Decision::Start(Transport::Quic(WIFI)));
    assert_eq!(engine.update(at(1), &[wifi], with(FULL, true)), []);
    let decided = engine.update(at(2), &[wifi, lte], with(FULL, true));
    let both = Decision::Move(Transport::Mptcp(vec![WIFI, LTE]));
    assert_eq!(decisions(&decided), [(both, Reason::Recovered)]);
    let decided = engine.update(at(3), &[wifi, lte, path(MMWAVE, 10.0, 0)], with(FULL, true));
    assert_eq!(decisions(&decided), [(Decision::Add(MMWAVE), Reason::Recovered)]);
}

#[test]
fn a_playback_on_quic_leaves_a_dead_path_and_stays_when_nothing_answers() {
    let (wifi, lte) = (path(WIFI, 10.0, 0), path(LTE, 200.0, 0));
    let (mut engine, _, _) = start(Settings::default(), &[wifi, lte]);
    let dead = [PathReport::new(WIFI, None), PathReport::new(LTE, None)];
    assert_eq!(engine.update(at(6), &dead, with(FULL, true)), []);
    let decided = engine.update(at(7), &[dead[0], lte], with(FULL, true));
    let other = Decision::Move(Transport::Quic(LTE));
    assert_eq!(decisions(&decided), [(other, Reason::Unreachable)]);
    // LTE's RTT is twenty times WiFi's, so that it does not stay when WiFi is back.
    let decided = engine.update(at(11), &[wifi, lte], with(FULL, true));
    let back = Decision::Move(Transport::Quic(WIFI));
    assert_eq!(decisions(&decided), [(back, Reason::Recovered)]);
    assert_eq!(engine.update(at(12), &[wifi, lte], with(FULL, true)), []);
    let near = [wifi, path(LTE, 40.0, 0)];
    assert_eq!(engine.update(at(20), &near, with(FULL, true)), [], "it left for the second time");
    let decided = engine.update(at(21), &near, with(FULL, true));
    assert!(matches!(decided[0].decision, Decision::Move(Transport::Mptcp(_))), "{decided:?}");
}

#[test]
fn with_more_to_choose_from_loss_leads_to_multipath_quic_or_a_session_and_back() {
    let settings = Settings { several: Several::Any { lossy: 0.01, session: 0.03 }, ..Settings::default() };
    let both = |loss: f64| [losing(WIFI, loss), losing(LTE, loss)];
    let (mut engine, decision, _) = start(settings, &both(0.0));
    assert_eq!(decision, Decision::Start(Transport::Mptcp(vec![WIFI, LTE])));
    let mut moves = Vec::new();
    for second in 1..=300 {
        let loss = if (100..200).contains(&second) { 0.05 } else { 0.0 };
        for decided in engine.update(at(second), &both(loss), with(FULL, true)) {
            moves.push((second, decided.decision, decided.reason));
        }
    }
    let used = || vec![WIFI, LTE];
    let session = Decision::Move(Transport::Session(used()));
    let quic = || Decision::Move(Transport::MultipathQuic(used()));
    let mptcp = Decision::Move(Transport::Mptcp(used()));
    // The mean of 5 % loss is above 1 % after 30 ln(5 / 4) s, above 3 % after 30 ln(5 / 2) s.
    let expected = [
        (106, quic(), Reason::Loss),
        (127, session, Reason::Loss),
        (234, quic(), Reason::LossEnded),
        (266, mptcp, Reason::LossEnded),
    ];
    assert_eq!(moves, expected);
    let mut blocked = Engine::new(settings);
    blocked.start(at(0), &both(0.02), false);
    let decided = blocked.update(at(6), &both(0.02), with(FULL, false));
    assert_eq!(decisions(&decided), [(Decision::Move(Transport::Session(used())), Reason::Loss)]);
}

#[test]
fn a_lossy_path_stays_while_it_carries_much() {
    let on = |rtt: u64| {
        let near = |path: PathId, loss: f64| PathReport {
            loss: Some(loss),
            ..PathReport::new(path, Some(Duration::from_millis(rtt)))
        };
        let (mut engine, _, _) = start(Settings::default(), &[near(WIFI, 0.0), near(LTE, 0.0)]);
        engine.update(at(5), &[near(WIFI, 0.0), near(LTE, 0.1)], with(FULL, true)).len()
    };
    // TCP could have 0.37 Mbit/s with 120 ms, and 1.1 Mbit/s with 40 ms; an equal share is 0.65 Mbit/s.
    assert_eq!([on(120), on(40)], [1, 0]);
}

#[test]
fn a_path_that_was_removed_by_chance_comes_back_although_it_goes_on_losing() {
    let near = |path, loss| PathReport {
        loss: Some(loss),
        ..PathReport::new(path, Some(Duration::from_millis(40)))
    };
    let (mut engine, _, _) = start(Settings::default(), &[near(WIFI, 0.0), near(LTE, 0.0)]);
    let decided = engine.update(at(5), &[near(WIFI, 0.0), near(LTE, 0.5)], with(FULL, false));
    assert_eq!(decisions(&decided), [(Decision::Remove(LTE), Reason::Loss)]);
    // Half of the loss with which TCP has its share is 15 %.
    let back = |loss: f64| {
        let mut engine = engine.clone();
        let mut look =
            |second| engine.update(at(second), &[near(WIFI, 0.0), near(LTE, loss)], with(FULL, false));
        (6..=20).find(|second| !look(*second).is_empty())
    };
    assert_eq!([back(0.1), back(0.2)], [Some(20), None]);
}

#[test]
fn a_distant_path_does_not_join_because_the_near_one_has_a_queue() {
    let (mut engine, decision, _) = start(Settings::default(), &[path(WIFI, 40.0, 0), path(LTE, 400.0, 0)]);
    assert_eq!(decision, Decision::Start(Transport::Quic(WIFI)));
    for second in 1..=120 {
        // A download every eight seconds.
        let rtt = if second % 8 < 6 { 240.0 } else { 41.0 };
        assert_eq!(
            engine.update(at(second), &[path(WIFI, rtt, 0), path(LTE, 400.0, 0)], with(FULL, true)),
            []
        );
    }
    let decided = engine.update(at(121), &[path(WIFI, 41.0, 0), path(LTE, 100.0, 0)], with(FULL, true));
    assert!(matches!(decided[0].decision, Decision::Move(Transport::Mptcp(_))), "{decided:?}");
}

#[test]
fn a_playback_that_stays_on_its_last_path_moves_to_quic_with_a_full_buffer() {
    let (mut engine, _, _) = start(Settings::default(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    let dead = [path(WIFI, 10.0, 0), PathReport::new(LTE, None)];
    assert_eq!(engine.update(at(10), &dead, with(FULL, true)), []);
    assert_eq!(engine.update(at(15), &dead, with(FULL, true)).len(), 1);
    assert_eq!(engine.update(at(19), &dead, with(FULL, true)), []);
    let decided = engine.update(at(20), &dead, with(FULL, true));
    assert_eq!(decisions(&decided), [(Decision::Move(Transport::Quic(WIFI)), Reason::OnePath)]);
}

#[test]
fn a_move_to_several_paths_that_fails_is_tried_again_later() {
    let both = [path(WIFI, 10.0, 0), path(LTE, 40.0, 0)];
    let (mut engine, _, _) = start(Settings::default(), &both[..1]);
    let mut moves = Vec::new();
    for second in 1..=100 {
        for decided in engine.update(at(second), &both, with(FULL, true)) {
            assert!(matches!(decided.decision, Decision::Move(Transport::Mptcp(_))), "{decided:?}");
            engine.set_back(at(second));
            assert_eq!(engine.used().collect::<Vec<_>>(), [WIFI]);
            moves.push(second);
        }
    }
    assert_eq!(moves, [1, 16, 46]);
}

#[test]
fn short_outages_change_nothing_and_a_path_is_used_again_at_once_after_a_long_one() {
    let (mut engine, _, _) = start(Settings::default(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
    let mut changes = Vec::new();
    for second in 1..=100 {
        // An outage of ten seconds, and from 60 s on one of a second every four seconds.
        let out = (20..30).contains(&second) || (second >= 60 && second % 4 == 0);
        let lte = if out { PathReport::new(LTE, None) } else { path(LTE, 40.0, 0) };
        let decided = engine.update(at(second), &[path(WIFI, 10.0, 0), lte], with(FULL, false));
        changes.extend(decided.iter().map(|_| second));
    }
    assert_eq!(changes, [25, 30]);
}

#[test]
fn the_number_of_changes_is_bounded_whatever_is_reported() {
    let (mut most, mut all) = (0, 0);
    for seed in 1..=200 {
        let mut rng = tributary_types::Rng::new(seed);
        let (mut engine, _, _) = start(Settings::default(), &[path(WIFI, 10.0, 0), path(LTE, 40.0, 0)]);
        // What is reported stays for this time on average.
        let change = 1.0 / (1.0 + rng.below(30) as f64);
        let mut reports = [path(WIFI, 10.0, 0), path(LTE, 40.0, 0)];
        let mut changes = 0;
        for second in 1..=600 {
            for (at, report) in reports.iter_mut().enumerate() {
                if rng.chance(change) {
                    let rtt = [None, Some(10.0), Some(40.0), Some(400.0)][rng.below(4) as usize];
                    let rtt = rtt.and_then(PathReport::rtt_from_millis);
                    let loss = Some([0.0, 0.0, 0.1, 0.3][rng.below(4) as usize]);
                    *report = PathReport { loss, ..PathReport::new(PathId(at as u8), rtt) };
                }
            }
            let level = Duration::from_secs(rng.below(12));
            changes += engine.update(at(second), &reports, with(level, true)).len();
        }
        most = most.max(changes);
        all += changes;
    }
    // Out of use and back again, and the moves with it, every 20 s for each of two paths.
    assert!(most <= 4 * 600 / 20 && all > 200, "{most} changes in ten minutes, {all} in all");
}
