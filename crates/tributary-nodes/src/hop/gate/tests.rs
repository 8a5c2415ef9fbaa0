//! Budgets, cookies and limits by source.

use super::*;

const NONE: [u8; COOKIE] = [0; COOKIE];

fn source(host: u8, port: u16) -> SocketAddr {
    ([192, 0, 2, host], port).into()
}

/// A gate in a turn with so many handshakes that the node is under load.
fn loaded(now: Instant) -> Gate {
    let mut gate = Gate::new(now);
    gate.begin_turn(now);
    while now >= gate.loaded_until {
        gate.admit(now, source(1, 1), Age::Fresh, &NONE);
    }
    gate.begin_turn(now);
    gate
}

#[test]
fn a_turn_has_a_budget_whatever_arrives() {
    let now = Instant::from_millis(1);
    let mut gate = Gate::new(now);
    for turn in 0..100 {
        let now = now + Duration::from_millis(turn);
        gate.begin_turn(now);
        let mut hashes = 0;
        for i in 0..1000_u32 {
            let cookie = if i % 2 == 0 { NONE } else { [i as u8 | 1; COOKIE] };
            hashes += match gate.admit(now, source(i as u8, 7), Age::Fresh, &cookie) {
                Verdict::Admit => 1,
                Verdict::GiveCookie(_) => 2,
                Verdict::Drop => 0,
            };
        }
        assert!(hashes > 0 && hashes <= BUDGET, "{hashes} in turn {turn}");
    }
}

#[test]
fn under_load_only_a_source_that_receives_is_admitted() {
    let now = Instant::from_millis(1);
    let mut gate = loaded(now);
    let Verdict::GiveCookie(cookie) = gate.admit(now, source(5, 7), Age::Fresh, &NONE) else {
        panic!("a cookie")
    };
    assert_eq!(gate.admit(now, source(5, 7), Age::Fresh, &cookie), Verdict::Admit);
    for other in [source(5, 8), source(6, 7)] {
        let verdict = gate.admit(now, other, Age::Fresh, &cookie);
        assert!(matches!(verdict, Verdict::GiveCookie(own) if own != cookie), "{verdict:?}");
    }
    let later = now + LOADED;
    gate.begin_turn(later);
    assert_eq!(gate.admit(later, source(6, 7), Age::Fresh, &NONE), Verdict::Admit, "the load is over");
}

#[test]
fn cookies_live_as_long_as_initiators_send_them() {
    let now = Instant::from_millis(1);
    let mut gate = loaded(now);
    let Verdict::GiveCookie(cookie) = gate.admit(now, source(5, 7), Age::Fresh, &NONE) else {
        panic!("a cookie")
    };
    let mut admit_at = |at: Instant| {
        gate.begin_turn(at);
        gate.loaded_until = at + LOADED;
        gate.admit(at, source(5, 7), Age::Fresh, &cookie)
    };
    assert_eq!(admit_at(now + SECRET_LIFE), Verdict::Admit);
    assert!(matches!(admit_at(now + SECRET_LIFE * 2), Verdict::GiveCookie(_)));
}

#[test]
fn a_proven_source_has_a_rate_limit_and_others_are_not_affected() {
    let now = Instant::from_millis(1);
    let mut gate = loaded(now);
    let admitted = |gate: &mut Gate, now, from| {
        gate.begin_turn(now);
        gate.loaded_until = now + LOADED;
        let Verdict::GiveCookie(cookie) = gate.admit(now, from, Age::Fresh, &NONE) else { return false };
        gate.admit(now, from, Age::Fresh, &cookie) == Verdict::Admit
    };
    let first = (0..100).filter(|_| admitted(&mut gate, now, source(5, 7))).count();
    assert_eq!(first, BURST as usize);
    assert!(admitted(&mut gate, now, source(6, 7)));
    let later = now + REFILL * 3;
    assert_eq!((0..100).filter(|_| admitted(&mut gate, later, source(5, 7))).count(), 3);
}

#[test]
fn the_table_of_sources_is_bounded_and_empties_itself() {
    let (mut sources, now) = (Sources::default(), Instant::from_millis(1));
    let address = |i: u32| IpAddr::from(i.to_be_bytes());
    let taken = (0..10_000).filter(|i| sources.take(now, address(*i))).count();
    assert_eq!((taken, sources.full_at.len()), (SOURCES, SOURCES));
    assert!(sources.take(now, address(3)), "known sources keep their tokens");
    assert!(sources.take(now + REFILL * 2, address(20_000)));
    assert!(sources.full_at.len() < SOURCES);
}

#[test]
fn recorded_handshakes_are_limited_by_source_and_do_not_cause_load() {
    let now = Instant::from_millis(1);
    let mut gate = Gate::new(now);
    let mut admitted = 0;
    // One second, a thousand copies, a turn for each.
    for ms in 0..1000 {
        let now = now + Duration::from_millis(ms);
        gate.begin_turn(now);
        admitted += u32::from(gate.admit(now, source(1, 1), Age::Stale, &NONE) == Verdict::Admit);
        assert_eq!(gate.loaded_until, Instant::ZERO);
    }
    let rate = BURST + (1000 / REFILL.as_millis()) as u32;
    assert!(admitted <= rate, "{admitted}");
}
