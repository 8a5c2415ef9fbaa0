//! Verdicts on invented rows.

use super::*;
use crate::reproduce::Sample;

fn row(scenario: &str, transport: &str, seed: u64, mbps: f64) -> Sample {
    let labels = [
        ("scenario", scenario),
        ("transport", transport),
        ("congestion", "cubic"),
        ("rtt", "scenario"),
        ("queue", "20 ms"),
    ];
    let labels = labels.map(|(axis, value)| (axis.to_owned(), value.to_owned())).into();
    let mut sample = Sample { labels, seed, ..Sample::default() };
    for (metric, value) in [("goodput", mbps), ("p10", mbps / 2.0), ("worst_second", mbps / 4.0)] {
        sample.set(metric, Some(value));
    }
    sample
}

fn outcome(samples: &[Sample]) -> Outcome {
    let mut outcome = Outcome { samples: samples.to_vec(), ..Outcome::default() };
    outcome.reproduction.run.seeds = samples.iter().map(|sample| sample.seed).collect();
    outcome.reproduction.run.seeds.sort_unstable();
    outcome.reproduction.run.seeds.dedup();
    outcome
}

fn markdown(samples: &[Sample]) -> String {
    Page::new(&outcome(samples), false).markdown()
}

#[test]
fn the_report_names_rows_in_which_another_transport_is_better() {
    let mut rows = Vec::new();
    for seed in 1..=5 {
        let noise = seed as f64 * 0.1;
        rows.push(row("los", "fbdt", seed, 100.0 + noise));
        rows.push(row("los", "blest", seed, 100.5 + noise));
        rows.push(row("nlos", "fbdt", seed, 80.0 + noise));
        rows.push(row("nlos", "blest", seed, 100.0 + noise));
    }
    let text = markdown(&rows);
    assert!(
        text.contains(
            "By mean: fbdt is the best, or within 1 % of it, in 1 of 2 rows; another is further ahead in 1; 0 are undecided."
        ),
        "{text}"
    );
    let lost = "| nlos, queue 20 ms | cubic | mean | 80.3 | blest | **100.3** | **19.9** | 19.9 to 20.0 | ≤ 1.00 | **fails** |";
    assert!(text.contains(lost), "{text}");
    assert!(!text.contains("| los, queue 20 ms | cubic | mean | 1"), "{text}");
    assert!(text.contains("5 seeds, 1 to 5"), "{text}");
    let html = Page::new(&outcome(&rows), false).html();
    assert!(html.contains("Where fbdt is not the best") && html.contains("blest"));
}

#[test]
fn the_shortest_silence_is_the_best_and_twenty_milliseconds_are_a_tie() {
    let silent = |scenario, transport, seed, ms| {
        let mut row = row(scenario, transport, seed, 100.0);
        row.set("silence", Some(ms));
        row
    };
    let mut rows = Vec::new();
    for seed in 1..=5 {
        let noise = seed as f64;
        rows.push(silent("los", "fbdt", seed, 49.0 + noise));
        rows.push(silent("los", "blest", seed, 30.0 + noise));
        rows.push(silent("nlos", "fbdt", seed, 51.0 + noise));
        rows.push(silent("nlos", "blest", seed, 30.0 + noise));
        rows.push(silent("onoff", "fbdt", seed, 60.0 + noise));
        rows.push(silent("onoff", "blest", seed, 900.0 + noise));
    }
    let made = outcome(&rows);
    let page = Page::new(&made, false);
    let text = page.markdown();
    assert!(
        text.contains(
            "By longest silence: fbdt is the best, or within 20 ms of it, in 2 of 3 rows; another is further ahead in 1;"
        ),
        "{text}"
    );
    let lost = "| nlos, queue 20 ms | cubic | longest silence | 54.0 | blest | **33.0** | **21.0** | 21.0 to 21.0 | ≤ 20.0 | **fails** |";
    assert!(text.contains(lost), "{text}");
    assert!(!text.contains("| cubic | longest silence | 52.0"), "{text}");
    assert!(text.contains("| onoff, queue 20 ms | cubic | **63.0** | 903.0 | fbdt |"), "{text}");
    assert!(page.html().contains("silent for longer"));
}

#[test]
fn the_report_covers_winning_every_row_and_having_no_rows() {
    let rows = [row("los", "fbdt", 1, 100.0), row("los", "blest", 1, 90.0)];
    let made = outcome(&rows);
    let page = Page::new(&made, false);
    assert!(page.html().contains("in every row"));
    assert!(!page.markdown().contains("### Where fbdt"));
    let none = outcome(&[]);
    let empty = Page::new(&none, false);
    assert!(empty.markdown().contains("0 of 0 rows") && empty.html().contains("0 of 0"));
}

#[test]
fn rows_are_counted_in_which_one_transport_is_the_best_by_every_measure() {
    let with = |scenario, transport, seed, mbps, ms| {
        let mut row = row(scenario, transport, seed, mbps);
        row.set("silence", Some(ms));
        row
    };
    let mut rows = Vec::new();
    for seed in 1..=5 {
        rows.push(with("los", "fbdt", seed, 100.0, 20.0));
        rows.push(with("los", "blest", seed, 100.0, 90.0));
        rows.push(with("nlos", "fbdt", seed, 90.0, 90.0));
        rows.push(with("nlos", "blest", seed, 100.0, 20.0));
        rows.push(with("onoff", "fbdt", seed, 90.0, 20.0));
        rows.push(with("onoff", "blest", seed, 100.0, 90.0));
        // The best by the mean, with seeds in which it is far behind.
        rows.push(with("mobility", "fbdt", seed, if seed == 1 { 200.0 } else { 95.0 }, 20.0));
        rows.push(with("mobility", "blest", seed, 100.0, 20.0));
    }
    let text = markdown(&rows);
    let expected = "By all 4 at once: fbdt in 1 of 4 rows, only others in 1. By the means alone: fbdt in 2, only others in 1.";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_single_seed_has_no_interval_and_failures_are_counted() {
    let mut rows = vec![row("los", "fbdt", 1, 80.0), row("los", "blest", 1, 100.0)];
    rows.push(Sample { failure: Some("stopped".to_owned()), ..row("los", "ecf", 1, 0.0) });
    let text = markdown(&rows);
    assert!(text.contains("another is further ahead in 0; 1 are undecided"), "{text}");
    assert!(text.contains("| blest | 1 | 1 |"), "{text}");
}

#[test]
fn results_that_are_equal_for_all_seeds_have_no_interval_and_their_difference_is_exact() {
    let mut rows = Vec::new();
    for seed in 1..=5 {
        rows.push(row("los", "fbdt", seed, 80.0));
        rows.push(row("los", "blest", seed, 100.0));
        rows.push(row("nlos", "fbdt", seed, 80.0 + seed as f64));
    }
    let groups = Group::of(&rows);
    let interval = |at: usize| groups[at].spread("goodput").unwrap().interval;
    assert_eq!((interval(0), interval(1)), (None, None));
    assert!(interval(2).is_some());
    let text = markdown(&rows);
    assert!(text.contains("| **20.0** | 20.0 to 20.0 | ≤ 1.00 | **fails** |"), "{text}");
}
