//! A short reproduction, whole: what is run is measured, judged and printed, and the same each time.

use super::*;

fn short() -> Outcome {
    let settings = Settings {
        seeds: 2,
        seconds: 25,
        message_seconds: 1,
        jobs: NonZeroUsize::new(2),
        command: "test".to_owned(),
    };
    run(&settings, &mut |_, _| {}).expect("the settings are possible")
}

#[test]
fn every_run_is_measured_judged_and_the_same_each_time() {
    let outcome = short();
    assert_eq!((outcome.runs.len(), outcome.messages.len()), (32, 18));
    for run in &outcome.runs {
        let measured = &run.measured;
        assert_eq!(measured.subflow_bytes.len(), 8, "{}", run.scheduler);
        assert!(measured.rtt_ms > 8.0 && measured.rtt_series_ms.len() == 25, "{run:?}");
        // In order: what waited for a hole before the fifteen seconds measured comes in them, but never more
        // than the pathways carried from the beginning.
        let carried = if run.form == Form::SharedAccess { 1.0 } else { 2.0 } * 25.0;
        assert!(measured.throughput_mbps > 0.4 && measured.throughput_mbps * 15.0 < carried, "{run:?}");
        let handed = measured.subflow_bytes.iter().sum::<u64>() as f64 * 8e-6;
        assert!(handed < carried * 1.1, "{run:?}");
        assert!(!measured.prioritised_ms.is_empty(), "{run:?}");
    }
    for run in &outcome.messages {
        assert!(run.made > 500 && run.arrived > 0 && run.bulk_mbps > 1.0, "{run:?}");
    }
    assert_eq!(outcome.reproduction.claims.len(), 24);
    assert!(outcome.reproduction.claims.iter().all(|claim| claim.measured.is_some()));
    let hashes = |outcome: &Outcome| outcome.runs.iter().map(|run| run.measured.hash).collect::<Vec<_>>();
    assert_eq!(hashes(&outcome), hashes(&short()));
    let page = render(&outcome);
    assert!(page.contains("Table II") && markdown(&outcome).contains("avira+fbdt"));
}
