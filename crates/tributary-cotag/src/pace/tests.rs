//! A radio link in virtual time: rate, delay, loss, silence.

use super::*;

const PACKET: usize = 1500;

/// A radio link whose sender uses its window fully, or sends little.
struct Link {
    now: Instant,
    pace: Pace,
    /// Bytes a second, and the delay each way.
    rate: u64,
    delay: Duration,
    /// When the link has sent everything, and the packets and feedback on it.
    free: Instant,
    number: u64,
    arrivals: VecDeque<(Instant, u64)>,
    backwards: VecDeque<(Instant, Feedback)>,
    /// The receiver does nothing for this long in every 50 ms.
    pause: Duration,
    /// The time between two packets of a sender that has no more, and when it sends the next.
    every: Option<Duration>,
    next: Instant,
    /// Bytes sent, and the longest queue in front of the link.
    carried: u64,
    longest: Duration,
}

const STEP: Duration = Duration::from_micros(50);

impl Link {
    fn new(rate: u64, delay: Duration) -> Self {
        let now = Instant::from_millis(1);
        Self {
            now,
            pace: Pace::new(true),
            rate,
            delay,
            free: now,
            number: 0,
            arrivals: VecDeque::new(),
            backwards: VecDeque::new(),
            pause: Duration::ZERO,
            every: None,
            next: now,
            carried: 0,
            longest: Duration::ZERO,
        }
    }

    /// Runs for `time`. Returns the used share of the link and the longest queue in milliseconds.
    fn run(&mut self, time: Duration) -> (f64, f64) {
        (self.carried, self.longest) = (0, Duration::ZERO);
        let end = self.now + time;
        while self.now < end {
            self.now += STEP;
            self.receive();
            self.pace.handle_timeout(self.now);
            while self.backwards.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, feedback) = self.backwards.pop_front().expect("there is one");
                self.pace.on_feedback(self.now, &feedback);
            }
            while self.pace.space() >= PACKET as u64 {
                if self.every.is_some() && self.now < self.next {
                    self.pace.on_pause();
                    break;
                }
                self.send();
                self.next = self.now + self.every.unwrap_or_default();
            }
        }
        (self.carried as f64 / (self.rate as f64 * time.as_secs_f64()), self.longest.as_secs_f64() * 1e3)
    }

    fn receive(&mut self) {
        if self.now.as_nanos() % 50_000_000 < self.pause.as_nanos() as u64 {
            return;
        }
        let mut newest = None;
        while self.arrivals.front().is_some_and(|(at, _)| *at <= self.now) {
            newest = self.arrivals.pop_front();
        }
        let Some((_, number)) = newest else { return };
        // A receiver that was interrupted does not know when a packet had arrived.
        let unlimited = Feedback { room: u32::MAX, capacity: u32::MAX, ..Feedback::default() };
        self.backwards.push_back((self.now + self.delay, Feedback { newest: number, ..unlimited }));
    }

    /// The radio sends nothing for `time`. What has left it arrives.
    fn block(&mut self, time: Duration) {
        let now = self.now;
        let waiting = self.arrivals.iter_mut().filter(|(at, _)| *at - self.delay > now);
        waiting.for_each(|(at, _)| *at += time);
        self.free = self.free.max(now) + time;
    }

    fn send(&mut self) {
        self.pace.on_sent(self.now, self.number, PACKET);
        let each = Duration::from_nanos(PACKET as u64 * 1_000_000_000 / self.rate);
        self.free = self.free.max(self.now) + each;
        self.carried += PACKET as u64;
        self.longest = self.longest.max(self.free.saturating_since(self.now));
        // Every fiftieth packet is lost.
        if !self.number.is_multiple_of(50) {
            self.arrivals.push_back((self.free + self.delay, self.number));
        }
        self.number += 1;
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_lossy_link_is_filled_and_its_queue_stays_short() {
    for (rate, delay) in [(2_500_000, 5), (25_000_000, 5), (125_000_000, 1), (62_500_000, 20)] {
        let mut link = Link::new(rate, Duration::from_millis(delay));
        link.run(SECOND * 3 / 2);
        let (used, queue) = link.run(SECOND * 3 / 2);
        let round_trip = 2.0 * delay as f64;
        let packets = LEAST_WINDOW as f64 / rate as f64 * 1e3;
        assert!(used > 0.95 && used < 1.05, "{rate} B/s, {delay} ms: {used}");
        assert!(queue < 0.5 * round_trip + 6.0 + packets, "{rate} B/s, {delay} ms: {queue} ms");
    }
}

#[test]
fn a_radio_that_becomes_slower_soon_has_a_short_queue_again() {
    for delay in [0, 5] {
        let mut link = Link::new(25_000_000, Duration::from_millis(delay));
        link.run(SECOND);
        link.rate = 7_500_000;
        link.run(Duration::from_millis(150));
        let (used, queue) = link.run(Duration::from_millis(300));
        assert!(used > 0.9, "{delay} ms: {used}");
        assert!(queue < 15.0 + delay as f64, "{delay} ms: {queue} ms");
        link.rate = 25_000_000;
        link.run(Duration::from_millis(300));
        let (used, _) = link.run(SECOND);
        assert!(used > 0.95, "{delay} ms: {used}");
    }
}

#[test]
fn a_sender_with_little_to_send_does_not_lower_the_rate() {
    for delay in [0, 5] {
        let mut link = Link::new(25_000_000, Duration::from_millis(delay));
        link.every = Some(Duration::from_millis(3));
        link.run(SECOND);
        assert!(!link.pace.is_rate_known(), "{delay} ms");
        link.every = None;
        link.run(SECOND);
        assert!(link.pace.is_rate_known(), "{delay} ms");
        link.every = Some(Duration::from_millis(3));
        link.run(3 * SECOND);
        assert!(link.pace.rate() > 23_000_000, "{delay} ms: {} B/s", link.pace.rate());
        // The radio has become slower meanwhile.
        (link.rate, link.every) = (7_500_000, None);
        link.run(Duration::from_millis(150));
        let (used, queue) = link.run(Duration::from_millis(300));
        assert!(used > 0.9 && queue < 15.0 + delay as f64, "{delay} ms: {used}, {queue} ms");
    }
}

#[test]
fn a_queue_of_other_traffic_does_not_take_the_link() {
    let mut link = Link::new(25_000_000, Duration::from_millis(5));
    link.run(SECOND);
    // 20 ms more for every packet, however few are in flight.
    link.delay = Duration::from_millis(15);
    link.run(Duration::from_millis(200));
    let (used, _) = link.run(Duration::from_millis(300));
    assert!(used > 0.3, "{used}");
}

#[test]
fn a_receiver_that_is_interrupted_does_not_make_the_link_look_fast() {
    let mut link = Link::new(50_000_000, Duration::from_micros(100));
    link.pause = Duration::from_millis(4);
    link.run(SECOND);
    let (used, queue) = link.run(SECOND);
    assert!(used > 0.95, "{used}");
    assert!(queue < 12.0, "{queue} ms");
}

#[test]
fn redundant_packets_have_time_on_a_long_link_that_does_not_queue() {
    let mut link = Link::new(50_000_000, Duration::from_millis(5));
    link.run(SECOND);
    let rate = link.pace.rate();
    // A full link without a queue, one with a queue, and one that is silent.
    let in_flight =
        |millis| Pace { total: in_time(rate, Duration::from_millis(millis)), off: 0, ..Pace::new(true) };
    for (millis, is_spare) in [(1, true), (10, true), (15, false)] {
        let mut pace = in_flight(millis);
        (pace.rate, pace.rtt, pace.room) = (link.pace.rate, link.pace.rtt, u64::MAX);
        assert_eq!(pace.is_spare(), is_spare, "{millis} ms in flight");
        pace.stalled = true;
        assert!(!pace.is_spare());
    }
}

#[test]
fn a_radio_that_was_blocked_gets_no_second_window_while_it_sends_the_first() {
    let mut link = Link::new(50_000_000, Duration::from_millis(5));
    link.run(SECOND);
    link.block(Duration::from_millis(400));
    link.run(Duration::from_millis(30));
    assert!(link.pace.is_quiet(), "before the device gives up its cohorts");
    assert_eq!(link.pace.offer(0).0, 0);
    link.run(Duration::from_millis(369));
    assert!(link.pace.is_stalled());
    let (used, queue) = link.run(Duration::from_millis(100));
    assert!(queue < 15.0, "{queue} ms");
    assert!(used > 0.7 && !link.pace.is_quiet(), "{used}");
    let (used, queue) = link.run(Duration::from_millis(200));
    assert!(used > 0.95 && queue < 10.0, "{used}, {queue} ms");
}

#[test]
fn a_radio_is_not_quiet_while_it_answers_or_has_nothing_to_answer() {
    let mut link = Link::new(25_000_000, Duration::from_millis(5));
    link.pause = Duration::from_millis(4);
    for _ in 0..200 {
        link.run(Duration::from_millis(5));
        assert!(!link.pace.is_quiet());
    }
    let later = link.now + SECOND;
    link.pace.on_feedback(link.now, &Feedback { newest: link.number, ..Feedback::default() });
    link.pace.handle_timeout(later);
    assert_eq!((link.pace.in_flight(), link.pace.is_quiet()), (0, false));
}

#[test]
fn a_silent_link_stalls_and_comes_back_with_the_first_feedback() {
    let mut pace = Pace::new(true);
    let now = Instant::from_millis(1);
    pace.on_sent(now, 0, PACKET);
    let at = pace.poll_timeout().expect("a packet is under way");
    pace.handle_timeout(at);
    assert!(pace.is_stalled());
    assert_eq!((pace.space(), pace.in_flight(), pace.offer(0).0), (0, PACKET as u64, 0));
    assert_eq!(pace.poll_timeout(), None, "it stalls once");
    pace.on_feedback(at, &Feedback { newest: 0, age: 0, room: 9000, capacity: 9000, ..Feedback::default() });
    assert_eq!((pace.is_stalled(), pace.space()), (false, 9000));
}

#[test]
fn room_shrinks_with_held_bytes_and_any_feedback_is_survived() {
    let mut pace = Pace::new(false);
    let now = Instant::from_millis(1);
    pace.on_feedback(
        now,
        &Feedback { newest: u64::MAX, age: u32::MAX, room: 3000, capacity: 0, ..Feedback::default() },
    );
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
