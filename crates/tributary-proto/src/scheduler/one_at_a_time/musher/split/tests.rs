//! The search rules with numbers computed by hand, and two radios whose best ratio is known.

use super::*;

/// A ratio under test, with a clock.
struct Bench {
    split: Split,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self { split: Split::default(), now: Instant::ZERO }
    }

    /// After a first search that found nothing better than 50, with a reference of 2000 Mbit/s and 200 kB, and
    /// `rest` after that search began.
    fn watching(rest: Duration) -> Self {
        let mut bench = Self::new();
        (0..5).for_each(|_| bench.sample(2000.0, 200_000.0));
        let began = bench.now;
        assert_eq!(bench.split.period(), SEARCH_SAMPLE);
        (0..3).for_each(|_| bench.sample(2000.0, 200_000.0)); // the rate at 50, at 55, at 45
        assert_eq!((bench.split.ratio(), bench.split.period()), (50, SAMPLE));
        (0..5).for_each(|_| bench.sample(2000.0, 200_000.0));
        assert!(matches!(bench.split.state, State::Watch { by_rate: 0, by_queue: 0, .. }));
        bench.now = bench.now.max(began + rest);
        bench
    }

    fn sample(&mut self, rate: f64, queue: f64) {
        self.now += self.split.period();
        self.split.handle_sample(self.now, Sample { rate, queue });
    }

    /// Runs for a time over radios of these rates.
    fn run(&mut self, seconds: u64, [first, second]: [f64; 2]) {
        let until = self.now + Duration::from_secs(seconds);
        while self.now < until {
            let share = f64::from(self.split.ratio()) / 100.0;
            self.sample((first / share).min(second / (1.0 - share)), 0.0);
        }
    }

    fn searches(&self) -> bool {
        matches!(self.split.state, State::Search(_))
    }
}

#[test]
fn the_first_search_finds_the_ratio_of_the_radios_at_once() {
    for (rates, best) in
        [([470.0, 1400.0], 25), ([470.0, 750.0], 40), ([1400.0, 470.0], 75), ([10.0, 1000.0], 5)]
    {
        let mut bench = Bench::new();
        bench.run(3, rates);
        assert_eq!(bench.split.ratio(), best, "{rates:?}");
        assert!(!bench.searches(), "{rates:?}");
    }
}

#[test]
fn a_change_of_the_channel_is_followed() {
    let mut bench = Bench::new();
    bench.run(6, [470.0, 1400.0]);
    bench.run(4, [470.0, 750.0]);
    assert_eq!(bench.split.ratio(), 40);
}

#[test]
fn a_drift_from_the_reference_must_last_five_samples() {
    // A rate that was never seen raises the threshold: 2201 · 200 / 2000 = 220.
    let cases =
        [(-201.0, 5, true), (-201.0, 4, false), (-199.0, 20, false), (201.0, 20, false), (250.0, 5, true)];
    for (drift, samples, found) in cases {
        let mut bench = Bench::watching(REST);
        (0..samples).for_each(|_| bench.sample(2000.0 + drift, 200_000.0));
        assert_eq!(bench.searches(), found, "{drift} Mbit/s in {samples} samples");
    }
    let mut bench = Bench::watching(REST);
    for rate in [1500.0; 4].into_iter().chain([2000.0]).chain([1500.0; 4]) {
        bench.sample(rate, 200_000.0);
    }
    assert!(!bench.searches(), "four, one without, and four again");
}

#[test]
fn a_drift_in_small_steps_counts_from_the_reference() {
    let mut bench = Bench::watching(REST);
    // 150, 210, 270, … below: the first one is within 200 Mbit/s, the sixth makes five.
    (0..5).for_each(|n| bench.sample(1850.0 - 60.0 * f64::from(n), 200_000.0));
    assert!(!bench.searches());
    bench.sample(1550.0, 200_000.0);
    assert!(bench.searches());
}

#[test]
fn queues_that_stay_75_kilobytes_below_the_reference_begin_a_search() {
    for (drained, found) in [(76_000.0, true), (74_000.0, false), (-76_000.0, false)] {
        let mut bench = Bench::watching(REST);
        (0..4).for_each(|_| bench.sample(2000.0, 200_000.0 - drained));
        assert!(!bench.searches());
        bench.sample(2000.0, 200_000.0 - drained);
        assert_eq!(bench.searches(), found, "{drained} bytes");
    }
}

#[test]
fn a_change_within_three_seconds_of_a_search_becomes_the_new_reference() {
    let mut bench = Bench::watching(Duration::ZERO);
    (0..5).for_each(|_| bench.sample(1000.0, 200_000.0));
    assert!(matches!(bench.split.state, State::Reference { samples: 0, .. }));
    (0..40).for_each(|_| bench.sample(1000.0, 200_000.0));
    assert!(!bench.searches(), "the new rate has become the reference");
}

#[test]
fn a_search_goes_on_while_the_rate_does_not_fall_and_stops_at_the_bounds() {
    let mut bench = Bench::watching(REST);
    (0..5).for_each(|_| bench.sample(1000.0, 200_000.0));
    // 5 Mbit/s more make the first step; then the same rate suffices, and 5 less.
    for (rate, ratio) in [(1000.0, 55), (1005.1, 60), (1005.1, 65), (1000.2, 70), (990.0, 65)] {
        bench.sample(rate, 200_000.0);
        assert_eq!(bench.split.ratio(), ratio, "{rate} Mbit/s");
    }
    assert!(!bench.searches());
    let mut bench = Bench::watching(REST);
    (0..5).for_each(|_| bench.sample(1000.0, 200_000.0));
    (0..20).for_each(|n| bench.sample(1010.0 + 10.0 * f64::from(n), 200_000.0));
    assert_eq!((bench.split.ratio(), bench.searches()), (95, false));
}
