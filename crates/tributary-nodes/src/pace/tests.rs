//! A radio link in virtual time: rate, delay, loss, silence.

use super::*;

const PACKET: usize = 1500;

/// Sends as fast as the window allows for `millis` over a link of `rate` bytes a second and `delay` each way.
/// Returns the used share of the link and the longest queue in milliseconds, both in the second half.
fn run(rate: u64, delay: Duration, millis: u64) -> (f64, f64) {
    let mut pace = Pace::new(true);
    let mut now = Instant::from_millis(1);
    let end = now + Duration::from_millis(millis);
    let half = now + Duration::from_millis(millis / 2);
    let each = Duration::from_nanos(PACKET as u64 * 1_000_000_000 / rate);
    let (mut free, mut number, mut arrivals) = (now, 0_u64, VecDeque::new());
    let (mut carried, mut longest) = (0_u64, Duration::ZERO);
    let mut backwards: VecDeque<(Instant, Feedback)> = VecDeque::new();
    let unlimited = Feedback { room: u32::MAX, capacity: u32::MAX, ..Feedback::default() };
    while now < end {
        now += Duration::from_micros(50);
        let mut newest = None;
        while arrivals.front().is_some_and(|(at, _)| *at <= now) {
            newest = arrivals.pop_front();
        }
        if let Some((at, number)) = newest {
            let age = now.saturating_since(at).as_micros() as u32;
            backwards.push_back((now + delay, Feedback { newest: number, age, ..unlimited }));
        }
        while backwards.front().is_some_and(|(at, _)| *at <= now) {
            let (_, feedback) = backwards.pop_front().expect("there is one");
            pace.on_feedback(now, &feedback);
        }
        while pace.space() >= PACKET as u64 {
            pace.on_sent(now, number, PACKET);
            free = free.max(now) + each;
            if now >= half {
                carried += PACKET as u64;
                longest = longest.max(free.saturating_since(now));
            }
            // Every fiftieth packet is lost.
            if !number.is_multiple_of(50) {
                arrivals.push_back((free + delay, number));
            }
            number += 1;
        }
    }
    (carried as f64 / (rate as f64 * millis as f64 / 2000.0), longest.as_secs_f64() * 1e3)
}

#[test]
fn a_lossy_link_is_filled_and_its_queue_stays_short() {
    for (rate, delay) in [(2_500_000, 5), (25_000_000, 5), (125_000_000, 1), (62_500_000, 20)] {
        let (used, queue) = run(rate, Duration::from_millis(delay), 3000);
        let round_trip = 2.0 * delay as f64;
        let packets = LEAST_WINDOW as f64 / rate as f64 * 1e3;
        assert!(used > 0.95 && used < 1.05, "{rate} B/s, {delay} ms: {used}");
        assert!(queue < 0.5 * round_trip + 6.0 + packets, "{rate} B/s, {delay} ms: {queue} ms");
    }
}

#[test]
fn a_silent_link_stalls_and_comes_back_with_the_first_feedback() {
    let mut pace = Pace::new(true);
    let now = Instant::from_millis(1);
    pace.on_sent(now, 0, PACKET);
    let at = pace.poll_timeout().expect("a packet is under way");
    pace.handle_timeout(at);
    assert!(pace.is_stalled());
    assert_eq!((pace.space(), pace.in_flight(), pace.offer(0).0), (0, 0, 0));
    pace.on_feedback(at, &Feedback { newest: 0, age: 0, room: 9000, capacity: 9000 });
    assert_eq!((pace.is_stalled(), pace.space()), (false, 9000));
}

#[test]
fn room_shrinks_with_held_bytes_and_any_feedback_is_survived() {
    let mut pace = Pace::new(false);
    let now = Instant::from_millis(1);
    pace.on_feedback(now, &Feedback { newest: u64::MAX, age: u32::MAX, room: 3000, capacity: 0 });
    assert_eq!(pace.space(), 3000);
    assert!(pace.ease() > 0);
    pace.on_sent(now, 0, PACKET);
    assert_eq!(pace.space(), 1500);
    let radio = Pace::new(true);
    let (all, capacity) = radio.offer(0);
    assert_eq!(all, capacity);
    assert_eq!(radio.offer(3000).0, all - 3000);
    assert_eq!(radio.offer(u64::from(u32::MAX)).0, 0);
}
