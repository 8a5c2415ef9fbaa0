//! Values and intervals of invented runs with known results.

use super::*;

const METRICS: [Metric; 4] = [
    Metric::new("seconds", "Mbit/s", "every second"),
    Metric::new("goodput", "Mbit/s", "mean").of(Statistic::Mean, "seconds"),
    Metric::new("silence", "ms", "longest"),
    Metric::new("errors", "", "each frame"),
];

fn sample(transport: &str, seed: u64, seconds: &[f64]) -> Sample {
    let labels = [("transport", transport), ("scenario", "los")];
    let labels = labels.map(|(axis, value)| (axis.to_owned(), value.to_owned())).into();
    let mut sample = Sample { labels, seed, ..Sample::default() };
    sample.set("goodput", stats::mean(seconds));
    sample.set("silence", Some(seed as f64));
    sample.series("seconds", seconds.to_vec());
    sample
}

fn measured(samples: &[Sample], text: &str, method: Method) -> Measured {
    let expression = Expression::parse(text).unwrap();
    let subjects = BTreeMap::new();
    let measurements = Measurements { samples, subjects: &subjects, metrics: &METRICS, pool: &[] };
    let bound = measurements.bind(&expression, &Labels::new()).unwrap();
    measure(&[bound], |values| values[0], method)
}

#[test]
fn ratios_are_formed_seed_by_seed() {
    // Seeds differ tenfold; the ratio is always two.
    let samples: Vec<Sample> = (1..=5)
        .flat_map(|seed| {
            let rate = 10.0 * seed as f64;
            [sample("ours", seed, &[2.0 * rate; 4]), sample("theirs", seed, &[rate; 4])]
        })
        .collect();
    let of = |text: &str| measured(&samples, text, Method::Bootstrap);
    let ratio = of("mean(ours.goodput / theirs.goodput)");
    assert_eq!((ratio.value, ratio.interval), (Some(2.0), Some(Interval { low: 2.0, high: 2.0 })));
    let of_means = of("median(ours.goodput) / median(theirs.goodput)");
    assert_eq!((of_means.value, of_means.interval, of_means.seeds), (Some(2.0), ratio.interval, 5));
    let alone = of("mean(ours.goodput)").interval.unwrap();
    assert!(alone.low < 50.0 && alone.high > 70.0, "{alone:?}");
    assert_eq!(of("min(ours.seconds / theirs.seconds)").value, Some(2.0));
    assert_eq!(of("max(run_max(ours.seconds) - run_min(theirs.seconds))").value, Some(50.0));
    let range = measured(&samples, "median(ours.silence)", Method::Range);
    assert_eq!((range.value, range.interval), (Some(3.0), Some(Interval { low: 1.0, high: 5.0 })));
    let student = measured(&samples, "mean(ours.silence)", Method::Student).interval;
    assert_eq!(student, stats::mean_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]));
}

#[test]
fn pooled_networks_count_as_further_runs() {
    // Three networks of one seed; ours has 2, 3 and 4 times their rate.
    let networks = [("car", 2.0), ("train", 3.0), ("home", 4.0)];
    let on = |scenario: &str, sample: Sample| {
        let labels =
            sample.labels.into_iter().chain([("scenario".to_owned(), scenario.to_owned())]).collect();
        Sample { labels, ..sample }
    };
    let samples: Vec<Sample> = networks
        .iter()
        .flat_map(|&(name, factor)| {
            let rate = 10.0 * factor * factor;
            [on(name, sample("ours", 1, &[rate * factor; 4])), on(name, sample("theirs", 1, &[rate; 4]))]
        })
        .collect();
    let (subjects, pool) = (BTreeMap::new(), ["scenario".to_owned()]);
    let measurements =
        Measurements { samples: &samples, subjects: &subjects, metrics: &METRICS, pool: &pool };
    let expression = Expression::parse("mean(ours.goodput / theirs.goodput)").unwrap();
    let bound = measurements.bind(&expression, &Labels::new()).unwrap();
    let ratio = measure(&[bound], |values| values[0], Method::Range);
    assert_eq!((ratio.value, ratio.seeds), (Some(3.0), 3));
    assert_eq!(ratio.interval, Some(Interval { low: 2.0, high: 4.0 }), "over the networks");
    assert!(!ratio.deterministic);
}

#[test]
fn the_seeds_of_a_pooled_network_are_drawn_together() {
    // Two networks: all seeds of one have the rate 1, all of the other have 3.
    let on = |scenario: &str, seed, rate| {
        let mut sample = sample("ours", seed, &[rate; 4]);
        sample.labels.insert("scenario".to_owned(), scenario.to_owned());
        sample
    };
    let samples: Vec<Sample> =
        (1..=20).flat_map(|seed| [on("car", seed, 1.0), on("train", seed, 3.0)]).collect();
    let (subjects, pool) = (BTreeMap::new(), ["scenario".to_owned()]);
    let measurements =
        Measurements { samples: &samples, subjects: &subjects, metrics: &METRICS, pool: &pool };
    let expression = Expression::parse("mean(ours.goodput)").unwrap();
    let interval = |method| {
        let bound = measurements.bind(&expression, &Labels::new()).unwrap();
        measure(&[bound], |values| values[0], method).interval.unwrap()
    };
    assert_eq!(interval(Method::Pooled), Interval { low: 1.0, high: 3.0 });
    let runs = interval(Method::Bootstrap);
    assert!(runs.low > 1.5 && runs.high < 2.5, "{runs:?}");
}

#[test]
fn only_seeds_common_to_all_cells_count() {
    let mut samples =
        vec![sample("ours", 1, &[4.0]), sample("ours", 2, &[100.0]), sample("theirs", 1, &[2.0])];
    assert_eq!(
        measured(&samples, "mean(ours.goodput) / mean(theirs.goodput)", Method::Bootstrap).value,
        Some(2.0)
    );
    samples[2].failure = Some("no route".to_owned());
    let none = measured(&samples, "mean(ours.goodput / theirs.goodput)", Method::Bootstrap);
    assert_eq!(none, Measured::default());
}

#[test]
fn a_single_run_has_an_interval_only_for_series() {
    let samples = [sample("ours", 1, &[8.0, 12.0, 9.0, 11.0]), sample("theirs", 1, &[4.0, 6.0, 4.5, 5.5])];
    let ratio = measured(&samples, "mean(ours.goodput) / mean(theirs.goodput)", Method::Bootstrap);
    assert_eq!(ratio.value, Some(2.0));
    // The same seconds are drawn from both runs, so the ratio never changes.
    assert!(ratio.interval.is_some_and(|i| (i.low - 2.0).abs() < 1e-9 && (i.high - 2.0).abs() < 1e-9));
    let mean = measured(&samples, "mean(ours.goodput)", Method::Bootstrap).interval.unwrap();
    assert!(mean.low < 10.0 && mean.high > 10.0);
    assert_eq!(measured(&samples, "mean(ours.silence)", Method::Bootstrap).interval, None);
}

#[test]
fn equal_results_for_every_seed_count_as_one_run() {
    let same = |seed| Sample { seed, ..sample("ours", 1, &[8.0, 12.0, 9.0, 11.0]) };
    let mut samples: Vec<Sample> = (1..=5).map(same).collect();
    for method in [Method::Bootstrap, Method::Student, Method::Range] {
        let mean = measured(&samples, "mean(ours.goodput)", method);
        let interval = mean.interval.expect("seconds are resampled");
        assert!(mean.deterministic && interval.low < 10.0 && interval.high > 10.0, "{mean:?}");
        let silence = measured(&samples, "mean(ours.silence)", method);
        assert!(silence.deterministic && silence.interval.is_none(), "{silence:?}");
    }
    // With one different seed the runs are no longer all the same; the median's interval may have zero width.
    samples[4] = sample("ours", 5, &[1.0, 2.0, 3.0, 4.0]);
    assert!(!measured(&samples, "median(ours.goodput)", Method::Bootstrap).deterministic);
}

#[test]
fn ambiguous_subjects_are_refused() {
    let mut samples = vec![sample("ours", 1, &[1.0]), sample("ours", 1, &[2.0])];
    samples[1].labels.insert("scenario".to_owned(), "nlos".to_owned());
    let expression = Expression::parse("mean(ours.goodput)").unwrap();
    let subjects = BTreeMap::new();
    let measurements = Measurements { samples: &samples, subjects: &subjects, metrics: &METRICS, pool: &[] };
    let refused = measurements.bind(&expression, &Labels::new()).err().unwrap().to_string();
    assert!(refused.contains("los") && refused.contains("nlos") && refused.contains("`each`"), "{refused}");
    let at = [("scenario".to_owned(), "nlos".to_owned())].into();
    let bound = measurements.bind(&expression, &at).unwrap();
    assert_eq!(measure(&[bound], |values| values[0], Method::Bootstrap).value, Some(2.0));
}
