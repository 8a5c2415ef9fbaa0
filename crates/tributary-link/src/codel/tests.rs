//! CoDel compared with the behaviour in RFC 8289.

use super::*;

const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(100);
const MUCH: u64 = 1 << 20;

/// Drop times in nanoseconds, with a call every `step` and a constant waiting time.
fn drops(codel: &mut Codel, from: u64, to: u64, waited: Duration) -> Vec<u64> {
    let step = 10_000; // 1500 B at 1.2 Gbit/s
    let mut at = Vec::new();
    for nanos in (from..to).step_by(step) {
        while codel.drops(Instant::from_nanos(nanos), waited, 1500, MUCH) {
            at.push(nanos);
        }
    }
    at
}

#[test]
fn drops_begin_after_an_interval_and_become_more_frequent_with_the_square_root() {
    let mut codel = Codel::new(TARGET, INTERVAL);
    let at = drops(&mut codel, 0, 2_000_000_000, Duration::from_millis(6));
    assert_eq!(at[0], 100_000_000);
    for (n, pair) in at.windows(2).enumerate() {
        let expected = 1e8 / ((n + 1) as f64).sqrt();
        let got = (pair[1] - pair[0]) as f64;
        assert!((got - expected).abs() <= 10_000.0, "drop {n} after {got} ns, not {expected}");
    }
    assert_eq!(at.len(), 105, "1 / sqrt(1) + … + 1 / sqrt(104) is just below 19");
}

#[test]
fn nothing_is_dropped_below_target_or_before_an_interval_has_passed() {
    let mut codel = Codel::new(TARGET, INTERVAL);
    assert!(drops(&mut codel, 0, 1_000_000_000, Duration::from_micros(4_999)).is_empty());
    for burst in 0..20_u64 {
        let begin = 1_000_000_000 + burst * 200_000_000;
        assert!(drops(&mut codel, begin, begin + 99_000_000, Duration::from_secs(1)).is_empty());
        // One packet with a short wait ends the burst of drops.
        assert!(!codel.drops(Instant::from_nanos(begin + 99_500_000), TARGET / 2, 1500, MUCH));
    }
}

#[test]
fn the_last_packet_is_never_dropped() {
    let mut codel = Codel::new(TARGET, INTERVAL);
    for i in 0..1_000_u64 {
        assert!(!codel.drops(Instant::from_millis(i), Duration::from_secs(1), 1500, 1500));
    }
}

#[test]
fn dropping_resumes_near_its_last_rate_unless_sixteen_intervals_have_passed() {
    let late = Duration::from_millis(6);
    let second = |pause: u64| {
        let mut codel = Codel::new(TARGET, INTERVAL);
        let first = drops(&mut codel, 0, 1_000_000_000, late);
        assert!(first.len() > 10);
        codel.found_empty();
        let begin = 1_000_000_000 + pause;
        let again = drops(&mut codel, begin, begin + 400_000_000, late);
        assert_eq!(again[0], begin + 100_000_000, "the first drop comes after a whole interval again");
        again[1] - again[0]
    };
    assert!(second(0) < 35_000_000, "the second drop follows at the last rate");
    assert_eq!(second(2_000_000_000), 100_000_000, "or an interval later, after a long time without drops");
}
