//! Each rule is broken on purpose: by a fault that happens and that the rules do not know, or by an end that does what it may not.

use super::super::script::{Operation, TrialPath, Way};
use super::super::shrink::shrink;
use super::*;

fn trial(paths: usize, operations: &[(u64, Act)]) -> Trial {
    let path = TrialPath { up_kbps: 8000, down_kbps: 8000, rtt_ms: 20, queue: 64_000, loss_ppm: 0 };
    let operations = operations.iter().cloned().map(|(at_ms, act)| Operation { at_ms, act });
    Trial {
        seed: 1,
        scheduler: "fbdt".to_owned(),
        congestion: "cubic".to_owned(),
        tls: true,
        early: true,
        receive_credit: 4 << 20,
        send_buffer: 4 << 20,
        paths: vec![path; paths],
        operations: operations.collect(),
    }
}

/// The client writes without a pause.
fn bulk(for_ms: u64) -> (u64, Act) {
    (0, Act::Bulk { end: End::Client, stream: 0, for_ms })
}

fn dead(path: u8, at_ms: u64, for_ms: u64) -> (u64, Act) {
    (at_ms, Act::Dead { path, way: Way::Both, for_ms })
}

fn suspend(end: End, for_ms: u64) -> Act {
    Act::Suspend { end, for_ms }
}

/// The rule that is broken when the rules know `known`, and `happens` happens; they pass if they know it all.
fn broken(known: &Trial, happens: &Trial) -> Rule {
    judged(happens, happens).expect("known faults break no rule");
    judged(known, happens).expect_err("an unknown fault breaks a rule").rule
}

/// A run at this time.
fn begun_until(trial: &Trial, ms: u64) -> Run<'_> {
    let mut run = Run::new(trial, trial);
    while run.world.now() < Instant::from_millis(ms) {
        run.tick().expect("nothing has happened yet");
    }
    run
}

/// A run with a second of upload behind it.
fn begun(trial: &Trial) -> Run<'_> {
    let run = begun_until(trial, 1000);
    assert!(run.node(End::Server).lines.all[0].read > 100_000);
    run
}

/// The rule that the run breaks in its remaining time.
fn breaks(mut run: Run<'_>) -> Rule {
    loop {
        if let Err(fault) = run.tick() {
            return fault.rule;
        }
        assert!(run.world.now() < run.trial.ends(), "no rule is broken");
    }
}

#[test]
fn a_reader_that_waits_on_a_living_path_is_found() {
    let (known, happens) = (trial(1, &[bulk(40_000)]), trial(1, &[bulk(40_000), dead(0, 2000, 20_000)]));
    assert_eq!(broken(&known, &happens), Rule::Liveness);
}

#[test]
fn long_packets_that_vanish_and_an_end_that_sleeps_hold_up_readers() {
    let known = trial(1, &[bulk(40_000)]);
    let faults =
        [Act::Mtu { path: 0, way: Way::Both, bytes: 400, for_ms: 20_000 }, suspend(End::Client, 20_000)];
    for act in faults {
        assert_eq!(broken(&known, &trial(1, &[bulk(40_000), (2000, act)])), Rule::Liveness);
    }
}

#[test]
fn a_path_that_drops_long_packets_carries_small_segments() {
    let took = |bytes| {
        let write = Act::Write { end: End::Client, stream: 0, bytes: 1_500_000, priority: 0, finish: true };
        let hole = Act::Mtu { path: 0, way: Way::Both, bytes, for_ms: 60_000 };
        let trial = trial(1, &[(0, write), (1000, hole)]);
        judged(&trial, &trial).expect("no rule is broken").last_read
    };
    let [none, small, nothing] = [1500, 1300, 1100].map(took);
    assert!(none < Instant::from_millis(2500), "{none}");
    assert!(small < Instant::from_millis(15_000), "{small}");
    assert!(nothing > Instant::from_millis(60_000), "{nothing}");
}

#[test]
fn an_end_that_sleeps_sends_nothing_and_sees_link_events_when_it_wakes() {
    let absent = Act::Absent { path: 1, both_told: false, for_ms: 10_000 };
    let trial = trial(2, &[bulk(4000), (1000, suspend(End::Client, 2000)), (1500, absent)]);
    let mut run = begun_until(&trial, 1050);
    let sent = run.world.packets_sent();
    let subflows = |run: &Run<'_>| run.node(End::Client).transport.subflows();
    while run.world.now() < Instant::from_millis(2950) {
        run.tick().expect("no rule is broken");
    }
    assert_eq!(subflows(&run), 2);
    // Only acknowledgements of what was under way, and the server's probes.
    assert!(run.world.packets_sent() < sent + 200, "{} after {sent}", run.world.packets_sent());
    run.tick().expect("no rule is broken");
    run.tick().expect("no rule is broken");
    assert_eq!(subflows(&run), 1);
}

#[test]
fn what_does_not_arrive_is_found() {
    let write = (0, Act::Write { end: End::Client, stream: 0, bytes: 10_000_000, priority: 0, finish: true });
    let slow = (0, Act::Rate { path: 0, way: Way::Both, kbps: 1000, for_ms: 200_000 });
    assert_eq!(broken(&trial(1, std::slice::from_ref(&write)), &trial(1, &[write, slow])), Rule::Delivery);
}

#[test]
fn more_memory_than_allowed_is_found() {
    let stall = (0, Act::Stall { end: End::Server, stream: 0, for_ms: 5000 });
    let happens = trial(1, &[bulk(5000), stall]);
    let known = Trial { receive_credit: 100_000, ..happens.clone() };
    assert_eq!(broken(&known, &happens), Rule::Memory);
    let happens = trial(1, &[bulk(5000)]);
    let known = Trial { send_buffer: 1000, ..happens.clone() };
    assert_eq!(broken(&known, &happens), Rule::Memory);
}

#[test]
fn more_connections_than_allowed_are_found() {
    let happens = trial(1, &[bulk(5000)]);
    let known = Trial { paths: Vec::new(), ..happens.clone() };
    assert_eq!(broken(&known, &happens), Rule::Places);
}

#[test]
fn less_than_the_best_path_carries_is_found() {
    let slow = |path| (0, Act::Rate { path, way: Way::Both, kbps: 1000, for_ms: 20_000 });
    let (known, happens) = (trial(2, &[bulk(20_000)]), trial(2, &[bulk(20_000), slow(0), slow(1)]));
    assert_eq!(broken(&known, &happens), Rule::BestPath);
}

#[test]
fn wrong_bytes_are_found() {
    let trial = trial(1, &[bulk(5000)]);
    let mut run = begun(&trial);
    run.act(End::Server, |node, _, _| node.lines.all[0].read += 1);
    assert_eq!(breaks(run), Rule::Content);
}

#[test]
fn a_session_that_ends_before_its_time_is_found() {
    let trial = trial(1, &[bulk(5000)]);
    let mut run = begun(&trial);
    run.act(End::Client, |node, now, out| node.close(now, out));
    assert_eq!(breaks(run), Rule::Closed);
}

#[test]
fn an_abandoned_session_whose_peer_does_not_learn_the_reason_is_found() {
    let abandon = (1500, Act::Abandon { end: End::Client, code: 77 });
    let known = trial(1, &[bulk(5000), abandon.clone()]);
    // Nothing that the client sends arrives any more.
    let cut = (1499, Act::Dead { path: 0, way: Way::Up, for_ms: 60_000 });
    let happens = trial(1, &[bulk(5000), abandon, cut]);
    let outcome = judged(&known, &known).expect("the peer learns it");
    assert!(outcome.read > 100_000 && outcome.last_read < Instant::from_millis(2000), "{outcome:?}");
    assert_eq!(judged(&known, &happens).unwrap_err().rule, Rule::Closed);
}

#[test]
fn a_translator_that_answers_ends_connections_sooner_than_a_silent_one() {
    let took = |answers| {
        let write = |at_ms, finish| {
            (at_ms, Act::Write { end: End::Client, stream: 0, bytes: 1000, priority: 0, finish })
        };
        let rebind = (2000, Act::Rebind { path: 0, answers });
        let mut trial = trial(1, &[write(0, false), rebind, write(3000, true)]);
        trial.paths[0].rtt_ms = 200;
        judged(&trial, &trial).expect("a new connection carries the rest").last_read
    };
    // A reset is there in a round trip, and silence is noticed later.
    let (answered, silent) = (took(true), took(false));
    assert!(answered + Duration::from_millis(100) < silent, "{answered} and {silent}");
}

#[test]
fn an_abandon_is_left_out_while_only_one_end_has_the_session() {
    let by = |end| (1120, Act::Abandon { end, code: 77 });
    for end in End::BOTH {
        // The client has sent its hello after a second and counts as connected; the server gets it a quarter of a second later.
        let mut trial = trial(1, &[bulk(3000), by(end)]);
        trial.paths[0].rtt_ms = 500;
        let mut run = begun_until(&trial, 1100);
        assert_eq!(End::BOTH.map(|end| run.node(end).transport.is_connected()), [true, false]);
        run.operations().expect("nothing happens");
        assert!(run.end().expect("no rule is broken").read > 100_000);
    }
    // The client has been started again, and the server has its old session.
    let restart = (1000, Act::Restart { end: End::Client });
    let trial = trial(1, &[bulk(3000), restart, (1005, Act::Abandon { end: End::Server, code: 77 })]);
    judged(&trial, &trial).expect("no rule is broken");
}

#[test]
fn an_abandoned_session_ends_without_a_word_where_no_path_lives() {
    let dead = |at_ms| (at_ms, Act::Dead { path: 0, way: Way::Both, for_ms: 60_000 });
    for end in End::BOTH {
        let trial = trial(1, &[bulk(5000), dead(1400), (1500, Act::Abandon { end, code: 77 })]);
        let outcome = judged(&trial, &trial).expect("nobody can tell the other end");
        assert!(outcome.last_read < Instant::from_millis(2000), "{outcome:?}");
    }
}

#[test]
fn events_without_progress_are_found() {
    let trial = trial(1, &[bulk(5000)]);
    let mut run = begun(&trial);
    let nodes = run.hosts.map(|host| run.world.host(host).unwrap());
    let now = run.world.now();
    run.rules.check(now, run.world.events(), nodes).unwrap();
    assert_eq!(run.rules.check(now, run.world.events() + 1_000_000, nodes).unwrap_err().rule, Rule::Rest);
}

#[test]
fn a_panic_is_found() {
    let fault = guarded(|| -> Result<(), Fault> { panic!("on purpose") }).unwrap_err();
    assert_eq!((fault.rule, fault.text.as_str()), (Rule::Panic, "on purpose"));
}

#[test]
fn a_trial_is_shortened_to_what_breaks_the_same_rule() {
    let fault = |rule| Fault { rule, at: Instant::ZERO, text: String::new() };
    // Two rules are broken; the shorter trial must break the one that the long one breaks.
    let judge = |trial: &Trial| -> Result<(), Fault> {
        let is_dead = |operation: &Operation| matches!(operation.act, Act::Dead { .. });
        match trial.operations.iter().any(is_dead) {
            true => Err(fault(Rule::Liveness)),
            false => Err(fault(Rule::Rest)),
        }
    };
    let slow = |at| (at, Act::Delay { path: 0, way: Way::Up, ms: 5, for_ms: 10 });
    let operations = [bulk(5000), slow(1), slow(2), dead(2, 800, 100), slow(3), slow(4)];
    let (short, broken) = shrink(&trial(3, &operations), fault(Rule::Liveness), judge);
    assert_eq!(broken.rule, Rule::Liveness);
    assert_eq!((short.paths.len(), short.operations.len()), (1, 1), "{}", short.text());
    assert_eq!(short.operations[0].act.path(), Some(0));
    assert!(short.operations[0].at_ms < 800);
}
