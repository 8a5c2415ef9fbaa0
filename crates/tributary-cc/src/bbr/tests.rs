//! BBR on a path of 12 Mbit/s and 40 ms (60 000 bytes, 60 segments), and its parts alone.

use std::collections::VecDeque;

use super::super::RateSample;
use super::*;

const MSS: u64 = 1000;
/// Bytes a second.
const RATE: u64 = 1_500_000;
const RTT: Duration = Duration::from_millis(40);

/// A path with an endless queue and a sender that keeps the window full, in steps of a millisecond.
struct Path {
    bbr: Bbr,
    now: u64,
    /// (bytes in, when out, delivered when sent, when sent)
    flying: VecDeque<(u64, u64, u64)>,
    delivered: u64,
    tokens: f64,
    queue: u64,
}

impl Path {
    fn new(seed: u64) -> Self {
        Self {
            bbr: Bbr::new(Setup::new(MSS).with_seed(seed)),
            now: 0,
            flying: VecDeque::new(),
            delivered: 0,
            tokens: 0.0,
            queue: 0,
        }
    }

    fn in_flight(&self) -> u64 {
        self.flying.len() as u64 * MSS
    }

    /// One millisecond: arrivals are acknowledged, and as much is sent as pacing and window allow.
    fn step(&mut self) {
        self.now += 1;
        let now = Instant::from_millis(self.now);
        while self.flying.front().is_some_and(|(due, ..)| *due <= self.now * 1000) {
            let in_flight_before = self.in_flight();
            let (_, prior, sent) = self.flying.pop_front().unwrap();
            self.delivered += MSS;
            let rtt = Duration::from_millis((self.now - sent).max(1));
            let interval = rtt.as_secs_f64();
            let rate = ((self.delivered - prior) as f64 / interval).min(RATE as f64);
            let sample = RateSample {
                rate: Bitrate::from_bps(8 * rate as u64),
                app_limited: false,
                delivered: self.delivered,
                prior_delivered: prior,
                lost: 0,
            };
            let ack = Ack {
                now,
                bytes: MSS,
                in_flight_before,
                in_flight: self.in_flight(),
                rtt: Some(rtt),
                srtt: rtt,
                min_rtt: RTT,
                rate: Some(sample),
                cwnd_limited: true,
                in_recovery: false,
                round_ended: false,
            };
            let view = [self.bbr.view()];
            self.bbr.on_ack(&ack, Siblings::new(&view, 0));
        }
        self.tokens += self.bbr.pacing / 1e3;
        while self.tokens >= MSS as f64 && self.in_flight() + MSS <= self.bbr.window() {
            self.tokens -= MSS as f64;
            // The bottleneck serves packets one after the other, microseconds.
            self.queue = self.queue.max(self.now * 1000) + MSS * 1_000_000 / RATE;
            self.flying.push_back((self.queue + 40_000, self.delivered, self.now));
            self.bbr.on_sent(now, MSS, self.in_flight());
        }
        self.tokens = self.tokens.min(2.0 * MSS as f64);
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.step();
        }
    }
}

#[test]
fn startup_finds_the_rate_drains_and_cruises() {
    let mut path = Path::new(1);
    path.run(200);
    assert_eq!(path.bbr.mode, Mode::Startup);
    path.run(1800);
    assert_eq!(path.bbr.mode, Mode::ProbeBandwidth);
    let bandwidth = path.bbr.bandwidth.max();
    assert!((1.4e6..=1.5e6).contains(&bandwidth), "{bandwidth}");
    let (rtt, _) = path.bbr.min_rtt.unwrap();
    assert!((40..=42).contains(&rtt.as_millis()), "{rtt:?}");
    // Twice the product of 60 to 63 segments, and what bursts and aggregation need.
    assert!((120_000..=160_000).contains(&path.bbr.window()), "{}", path.bbr.window());
}

#[test]
fn the_path_stays_busy_and_the_queue_short() {
    let mut path = Path::new(1);
    path.run(2000);
    let before = path.delivered;
    let mut most = 0;
    for _ in 0..6000 {
        path.step();
        most = most.max(path.in_flight());
    }
    let share = (path.delivered - before) as f64 / (6.0 * RATE as f64);
    assert!((0.95..=1.01).contains(&share), "{share}");
    assert!(most < 100_000, "{most} in flight on a path of 60 000");
}

#[test]
fn the_gains_go_round_in_order() {
    let mut path = Path::new(3);
    path.run(2000);
    let mut phases = vec![path.bbr.phase];
    for _ in 0..1000 {
        path.step();
        if *phases.last().unwrap() != path.bbr.phase {
            phases.push(path.bbr.phase);
        }
    }
    assert!(phases.len() > 16, "{phases:?}");
    assert!(phases.windows(2).all(|two| two[1] == (two[0] + 1) % 8), "{phases:?}");
}

#[test]
fn the_first_phase_comes_from_the_seed_and_never_drains() {
    let first = |seed| {
        let mut bbr = Bbr::new(Setup::new(MSS).with_seed(seed));
        bbr.probe_bandwidth(Instant::ZERO);
        bbr.phase
    };
    let seen: Vec<usize> = (0..64).map(first).collect();
    assert_eq!(seen, (0..64).map(first).collect::<Vec<_>>());
    assert!(!seen.contains(&1));
    assert!((2..8).chain([0]).all(|phase| seen.contains(&phase)), "{seen:?}");
}

#[test]
fn after_ten_seconds_without_a_smaller_round_trip_the_window_is_four_segments_for_a_while() {
    let mut path = Path::new(1);
    path.run(2000);
    // The path has become 20 ms longer: no sample is as small as before.
    let mut waited = 0;
    while path.bbr.mode != Mode::ProbeRtt {
        path.step();
        if let Some(last) = path.flying.back_mut() {
            last.0 = last.0.max((path.now + 60) * 1000);
        }
        waited += 1;
        assert!(waited < 12_000, "no probing of the round-trip time");
    }
    let (bandwidth, window) = (path.bbr.bandwidth.max(), path.bbr.prior_window);
    let mut small = 0;
    while path.bbr.mode == Mode::ProbeRtt {
        path.step();
        small += 1;
        assert!(path.bbr.window() <= 4 * MSS || path.bbr.mode != Mode::ProbeRtt);
        assert!(small < 500);
    }
    assert!(small >= 200, "{small}");
    assert!(path.bbr.window() >= window);
    assert_eq!(path.bbr.bandwidth.max(), bandwidth, "slow on purpose says nothing of the path");
}

#[test]
fn a_loss_conserves_for_a_round_and_recovery_gives_the_window_back() {
    let mut path = Path::new(1);
    path.run(2000);
    let window = path.bbr.window();
    let in_flight = path.in_flight();
    let now = Instant::from_millis(path.now);
    let view = [path.bbr.view()];
    let loss = Loss { now, kind: LossKind::Fast, bytes: MSS, in_flight };
    path.bbr.on_loss(&loss, Siblings::new(&view, 0));
    assert_eq!(path.bbr.window(), in_flight);
    path.bbr.on_recovery_end(now);
    assert_eq!(path.bbr.window(), window);
}

#[test]
fn a_timeout_leaves_a_segment_and_what_arrives_brings_the_window_back() {
    let mut path = Path::new(1);
    path.run(2000);
    let window = path.bbr.window();
    let view = [path.bbr.view()];
    let now = Instant::from_millis(path.now);
    let loss = Loss { now, kind: LossKind::Timeout, bytes: MSS, in_flight: 60 * MSS };
    path.bbr.on_loss(&loss, Siblings::new(&view, 0));
    assert_eq!(path.bbr.window(), MSS);
    path.step();
    assert!(path.bbr.window() >= 4 * MSS);
    path.bbr.on_recovery_end(now);
    assert!(path.bbr.window() >= window);
}

#[test]
fn the_pacing_rate_before_and_after_the_first_round_trip() {
    let mut path = Path::new(1);
    // 739/256 · 0.99 · 10 000 bytes in a millisecond, then in the first round trip of 41 ms.
    assert_eq!(path.bbr.pacing_rate(), Some(Bitrate::from_bps(228_628_125)));
    while !path.bbr.has_rtt {
        path.step();
    }
    assert_eq!(path.bbr.pacing_rate(), Some(Bitrate::from_bps(5_576_295)));
}

#[test]
fn the_bandwidth_is_the_greatest_of_ten_rounds() {
    let mut bandwidth = Bandwidth::default();
    let mut naive: Vec<(u64, f64)> = Vec::new();
    let mut rng = Rng::new(7);
    for round in 1..500_u64 {
        for _ in 0..1 + rng.below(3) {
            let bits = 8 * rng.below(1000);
            let sample = RateSample {
                rate: Bitrate::from_bps(bits),
                app_limited: rng.chance(0.2),
                delivered: round,
                prior_delivered: round - 1,
                lost: 0,
            };
            let greatest = |naive: &[(u64, f64)]| naive.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
            if !sample.app_limited || (bits / 8) as f64 >= greatest(&naive) {
                naive.push((round, (bits / 8) as f64));
                naive.retain(|(at, _)| round - at <= 10);
            }
            bandwidth.on_ack(&sampled(sample));
            assert_eq!(bandwidth.max(), greatest(&naive), "round {round}");
        }
    }
}

fn sampled(sample: RateSample) -> Ack {
    Ack {
        now: Instant::ZERO,
        bytes: 1,
        in_flight_before: 1,
        in_flight: 0,
        rtt: Some(RTT),
        srtt: RTT,
        min_rtt: RTT,
        rate: Some(sample),
        cwnd_limited: true,
        in_recovery: false,
        round_ended: false,
    }
}

#[test]
fn a_pipe_is_full_after_three_rounds_without_a_quarter_more() {
    let mut full = FullPipe::default();
    let round = Update { round_started: true, limited: false };
    for bandwidth in [100.0, 200.0, 249.0, 249.0] {
        full.on_ack(round, bandwidth);
    }
    full.on_ack(Update { limited: true, ..round }, 249.0);
    full.on_ack(Update { round_started: false, ..round }, 249.0);
    assert!(!full.reached());
    full.on_ack(round, 249.0);
    assert!(full.reached());
}
