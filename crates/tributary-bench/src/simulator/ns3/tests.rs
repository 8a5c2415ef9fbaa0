//! The comparison with invented results: ratios, means, failures and the tables.

use super::*;

fn answer(goodput_mbps: f64, completed: Option<f64>) -> Measured {
    Measured {
        received_bytes: 0,
        goodput_bps: goodput_mbps * 1e6,
        completed,
        data_packets: 0,
        dropped_packets: 0,
        wall_s: 1.0,
        cpu_s: 1.0,
        base_rss_kb: 0,
        peak_rss_kb: 0,
        // Slow in the first second, then at the given rate.
        goodput_bps_per_second: vec![1e6, goodput_mbps * 1e6, goodput_mbps * 1e6],
        cwnd_bytes: Vec::new(),
    }
}

fn probe(subject: Subject, traffic: Traffic) -> Probe {
    let cell = Bottleneck::new(20_000_000, Duration::from_millis(50), 1.0, "cubic");
    Probe { subject, cell: Bottleneck { traffic, ..cell }, buffer_bdp: 1.0, seeds: 2 }
}

#[test]
fn goodput_is_compared_as_the_mean_over_seeds() {
    let probe = probe(Subject::GoodputUnderLoss, Traffic::Endless);
    let row = row(&probe, &[answer(10.0, None), answer(10.8, None)], &[answer(10.0, None)], None);
    assert_eq!((row.ours, row.peer), (10.4, Some(10.0)));
    assert_eq!(row.agrees(), Some(true));
    assert_eq!(row.settled_ratio, Some(1.04));
    assert!(!within_band(1.06) && !within_band(0.94));
}

#[test]
fn completion_times_are_compared_without_a_settled_part() {
    let probe = probe(Subject::Completion, Traffic::Transfer(1_000_000));
    let row = row(&probe, &[answer(0.0, Some(1.2))], &[answer(0.0, Some(1.0))], None);
    assert_eq!(row.ratio, Some(1.2));
    assert_eq!((row.agrees(), row.settled_ratio), (Some(false), None));
}

#[test]
fn a_cell_that_ns_3_cannot_run_counts_as_neither_agreement_nor_miss() {
    let probe = probe(Subject::Goodput, Traffic::Endless);
    let row = row(&probe, &[answer(10.0, None)], &[], Some("it ended with signal: 11".to_owned()));
    assert_eq!(row.agrees(), None);
    let report = Report { rows: vec![row], band: BAND };
    let text = report.to_markdown();
    assert!(text.contains("crashed"), "{text}");
    assert!(text.contains("undecided"), "{text}");
}

#[test]
fn the_selection_has_every_rate_and_the_whole_grid_every_cell() {
    let selected = grid::probes(&Plan::default());
    let full = grid::probes(&Plan { full: true, ..Plan::default() });
    let long = |probes: &[Probe]| probes.iter().filter(|probe| probe.subject == Subject::Goodput).count();
    assert_eq!(long(&full), 3 * 48);
    assert_eq!(long(&selected), 3 * 24);
    for rate in [5, 20, 100, 500] {
        assert!(selected.iter().any(|probe| probe.cell.rate_bps == rate * 1_000_000));
    }
}
