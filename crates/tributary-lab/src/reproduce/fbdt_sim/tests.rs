//! A tiny reproduction from end to end, and the scaling.

use super::*;
use tributary_link::Direction;
use tributary_types::Instant as Moment;

fn settings(directory: PathBuf) -> Settings {
    Settings {
        quick: true,
        congestion: vec!["cubic".to_owned()],
        seeds: 1,
        seconds: 2,
        rtt: Duration::from_millis(5),
        queue: Queue::Scenario,
        directory,
        jobs: None,
        command: "tributary reproduce fbdt --world sim".to_owned(),
    }
}

#[test]
fn rates_and_queues_are_ten_times_those_of_the_files_and_times_are_not() {
    for condition in CONDITIONS {
        let small = Scenario::builtin(condition.scenario).unwrap();
        let large = at_paper_rates(&small);
        large.check().unwrap();
        for path in 0..small.paths.len() {
            let end = Moment::from_millis(10_000);
            let bytes = |s: &Scenario| s.capacity(path, Direction::Down, Moment::ZERO, end).as_bytes();
            let ratio = bytes(&large) as f64 / bytes(&small).max(1) as f64;
            assert!((ratio - 10.0).abs() < 1e-6, "{}: {ratio}", condition.scenario);
        }
        assert_eq!(large.rtt, small.rtt);
    }
}

#[test]
fn a_reproduction_is_resumed_judged_and_rendered() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path().to_owned());
    settings.queue = Queue::Millis(5);
    let outcome = run(&settings, &mut |_, _| ()).unwrap();
    assert_eq!(outcome.rows.len(), QUICK_CONDITIONS.len() * QUICK_TRANSPORTS.len());
    assert_eq!(outcome.report.failed, 0, "{:?}", outcome.rows.iter().find(|row| row.failure.is_some()));
    let again = run(&settings, &mut |_, _| ()).unwrap();
    assert_eq!((again.report.now, again.report.before), (0, outcome.rows.len()));
    assert_eq!(again.rows, outcome.rows);
    let claims = &outcome.reproduction.claims;
    assert!(claims.iter().all(|claim| claim.measured.is_some()), "{claims:?}");
    let text = goodput(&outcome).to_text();
    assert!(text.contains("1920") && text.contains("musher"), "{text}");
    let page = render(&outcome);
    assert!(page.contains("Every second of every seed") && page.contains("of every seed"));
    assert!(markdown(&outcome).contains("1 seeds, 1 to 1"));
    let json = serde_json::to_value(&outcome).unwrap();
    assert!(json["claims"].as_array().unwrap().len() > 15 && json["cells"][0]["goodput_mbps"].is_number());
}
