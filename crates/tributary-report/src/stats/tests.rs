//! All expected numbers are computed by hand.

use super::*;

fn close(a: Option<f64>, b: f64) {
    let a = a.expect("there are samples");
    assert!((a - b).abs() < 1e-9, "{a} is not {b}");
}

#[test]
fn mean_median_and_percentiles_of_a_known_set() {
    let samples = [4.0, 1.0, 3.0, 2.0];
    close(mean(&samples), 2.5);
    close(median(&samples), 2.5);
    close(percentile(&samples, 0.0), 1.0);
    close(percentile(&samples, 100.0), 4.0);
    close(percentile(&samples, 25.0), 1.75); // place 0.75 between 1 and 2
    close(p10(&samples), 1.3); // place 0.3
    close(p10(&(0..=10).map(f64::from).collect::<Vec<_>>()), 1.0);
    close(deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), (32.0_f64 / 7.0).sqrt());
}

#[test]
fn non_finite_values_are_ignored_and_an_empty_set_gives_none() {
    let broken = [f64::NAN, 5.0, f64::INFINITY];
    close(mean(&broken), 5.0);
    close(median(&broken), 5.0);
    close(maximum(&broken), 5.0);
    assert_eq!(mean(&[]), None);
    assert_eq!(percentile(&[f64::NAN], 10.0), None);
    assert_eq!(deviation(&[1.0]), None);
    assert_eq!(mean_interval(&[1.0]), None);
    assert_eq!(bootstrap_interval(&[1.0], median, 100, 1), None);
    assert!(cdf(&[f64::NAN]).is_empty());
    close(percentile(&[1.0, 2.0, 3.0], f64::NAN), 2.0);
}

#[test]
fn the_interval_of_a_percentile_is_two_of_the_samples() {
    // Of the binomial distribution with n = 100 and a half: P(≤ 39) = 0.018, P(≤ 40) = 0.028, P(≤ 60) = 0.982.
    let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
    assert_eq!(percentile_interval(&samples, 50.0), Some(Interval { low: 40.0, high: 61.0 }));
    assert_eq!(
        percentile_interval(&samples, 99.0),
        None,
        "0.99^100 > 0.025: the 99th percentile may be beyond all"
    );
    assert_eq!(percentile_interval(&[], 50.0), None);
    assert_eq!(percentile_interval(&samples, 100.0), None);
}

#[test]
fn cdf_merges_equal_values_and_ends_at_one() {
    assert_eq!(cdf(&[3.0, 1.0, 1.0, 2.0]), vec![(1.0, 0.5), (2.0, 0.75), (3.0, 1.0)]);
}

#[test]
fn t_interval_of_three_seeds() {
    // Mean 10, deviation 1, n = 3: half width 4.303 / √3 = 2.484.
    let interval = mean_interval(&[9.0, 10.0, 11.0]).unwrap();
    assert!((interval.low - 7.5157).abs() < 1e-3 && (interval.high - 12.4843).abs() < 1e-3, "{interval:?}");
}

#[test]
fn bootstrap_is_repeatable_and_brackets_the_median() {
    let samples: Vec<f64> = (0..101).map(f64::from).collect();
    let a = bootstrap_interval(&samples, median, 500, 7).unwrap();
    assert_eq!(Some(a), bootstrap_interval(&samples, median, 500, 7));
    assert!(a.low < 50.0 && a.high > 50.0 && a.low > 30.0 && a.high < 70.0, "{a:?}");
    // All samples equal: the interval is that point.
    assert_eq!(bootstrap_interval(&[4.0; 5], mean, 50, 1), Some(Interval { low: 4.0, high: 4.0 }));
}

#[test]
fn silence_counts_both_ends_and_ignores_arrivals_outside() {
    assert_eq!(longest_silence(&[1.0, 1.5, 4.0], 0.0, 5.0), 2.5);
    assert_eq!(longest_silence(&[2.5], 0.0, 10.0), 7.5);
    assert_eq!(longest_silence(&[], 1.0, 3.0), 2.0);
    assert_eq!(longest_silence(&[100.0], 0.0, 3.0), 3.0);
    assert_eq!(longest_silence(&[], 3.0, 1.0), 0.0);
}

#[test]
fn only_whole_seconds_count() {
    // Ten bins of 100 ms with 125 000 B each: 1.25 MB a second = 10 Mbit/s; the last half second is dropped.
    let bins = [125_000_u64; 15];
    assert_eq!(mbps_per_second(&bins, Duration::from_millis(100)), vec![10.0]);
    assert!(mbps_per_second(&bins, Duration::ZERO).is_empty());
    assert!(mbps_per_second(&bins, Duration::from_secs(2)).is_empty());
}

#[test]
fn fairness_has_its_two_extremes() {
    close(fairness(&[3.0, 3.0, 3.0, 3.0]), 1.0);
    close(fairness(&[8.0, 0.0, 0.0, 0.0]), 0.25);
    assert_eq!(fairness(&[0.0, 0.0]), None);
}

#[test]
fn a_slope_is_found_with_its_interval() {
    // R: confint(lm(c(1, 3, 2, 5, 4) ~ c(1, 2, 3, 4, 5))) is 0.8 ± 1.1023.
    let points = [(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 5.0), (5.0, 4.0)];
    let (slope, interval) = slope_interval(&points).unwrap();
    close(Some(slope), 0.8);
    assert!((interval.high - 1.9023).abs() < 1e-3 && (interval.low + 0.3023).abs() < 1e-3, "{interval:?}");
    let line: Vec<(f64, f64)> = (0..1000).map(|n| (f64::from(n), 3.0 - f64::from(n) * 0.5)).collect();
    let (slope, interval) = slope_interval(&line).unwrap();
    close(Some(slope), -0.5);
    assert!(interval.high - interval.low < 1e-9);
    assert!(slope_interval(&[(1.0, 1.0), (2.0, 2.0)]).is_none());
    assert!(slope_interval(&[(1.0, 1.0), (1.0, 2.0), (1.0, 4.0)]).is_none());
}

#[test]
fn growth_is_that_of_the_second_half() {
    let warm = [10.0, 40.0, 55.0, 60.0, 60.1, 59.9, 60.0, 60.1, 60.0];
    let (each, interval) = settled_growth(&warm).unwrap();
    assert!(each.abs() < 0.1 && interval.low < 0.0 && interval.high > 0.0, "{each} {interval:?}");
    let leak = warm.iter().enumerate().map(|(at, value)| value + 3.0 * at as f64);
    assert!(settled_growth(&leak.collect::<Vec<_>>()).unwrap().1.low > 2.0);
    assert!(settled_growth(&warm[..4]).is_none());
}
