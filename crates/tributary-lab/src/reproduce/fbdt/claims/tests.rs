//! Claims judged on made-up runs whose verdicts are known.

use super::*;
use crate::contestant::Contestant;
use crate::reproduce::fbdt::CONDITIONS;
use crate::result::{AuditNote, Cpu, Goodput};
use crate::run::Queue;
use crate::workload::Record;
use core::time::Duration;
use tributary_stream::{BulkRecord, Silence};

fn run(scenario: &str, transport: &str, per_second: &[f64], silence_ms: f64) -> RunResult {
    let measured = &per_second[1..];
    RunResult {
        world: crate::result::World::Emu,
        scenario: scenario.to_owned(),
        contestant: Contestant::Mptcp,
        transport: transport.to_owned(),
        congestion: "cubic".to_owned(),
        workload: "bulk".to_owned(),
        seed: 1,
        rtt_ms: 5.0,
        queue: String::new(),
        goodput: Some(Goodput {
            skipped_seconds: 1,
            mean_mbps: stats::mean(measured).unwrap(),
            worst_second_mbps: stats::minimum(measured).unwrap(),
            p10_mbps: 0.0,
            per_second_mbps: per_second.to_vec(),
            capacity_per_second_mbps: vec![131.0; per_second.len()],
            share_of_capacity: stats::mean(measured).unwrap() / 131.0,
        }),
        longest_silence_ms: Some(silence_ms),
        silences: vec![Silence { at_ms: 2000.0, length_ms: silence_ms }],
        cpu: Cpu::default(),
        duplicates_percent: (transport == "fbdt").then_some(1.5),
        session: None,
        paths_up: 2,
        fallback: false,
        links: [("wigig".to_owned(), [vec![140.0; 20], vec![0.0; 23], vec![140.0; 17]].concat())].into(),
        audit: AuditNote::default(),
        record: Record::Bulk(BulkRecord::default()),
        windows: Vec::new(),
        messages: Vec::new(),
    }
}

fn judged(runs: Vec<RunResult>, scenarios: &[&str]) -> Vec<Claim> {
    let settings = Settings {
        quick: true,
        congestion: None,
        conditions: CONDITIONS.iter().collect(),
        transports: Vec::new(),
        seeds: 1,
        seconds: 6,
        rtt: Duration::from_millis(5),
        queue: Queue::Scenario,
        command: String::new(),
    };
    let conditions = CONDITIONS.iter().filter(|c| scenarios.contains(&c.scenario));
    let planned: Vec<_> = conditions.map(|c| (c, "cubic".to_owned())).collect();
    judge(&Runs(runs), &planned, &settings)
}

fn claim<'a>(claims: &'a [Claim], id: &str) -> &'a Claim {
    claims.iter().find(|claim| claim.id == id).unwrap_or_else(|| panic!("no claim {id}"))
}

#[test]
fn a_blackout_that_goes_well() {
    let runs = vec![
        run("blackout", "wifi", &[40.0, 45.0, 45.0], 20.0),
        run("blackout", "wigig", &[130.0, 130.0, 10.0], 1000.0),
        run("blackout", "mptcp", &[170.0, 180.0, 4.0], 480.0),
        run("blackout", "fbdt", &[170.0, 185.0, 60.0], 40.0),
    ];
    let claims = judged(runs, &["blackout"]);
    let sum = claim(&claims, "blackout-of-sum-cubic");
    assert!(sum.holds && (sum.measured.unwrap() - 122.5 / 115.0).abs() < 1e-9);
    assert!(sum.interval.is_some());
    assert_eq!(claim(&claims, "blackout-worst-second-cubic").measured, Some(15.0));
    assert_eq!(claim(&claims, "blackout-silence-cubic").measured, Some(40.0));
    assert!(claim(&claims, "blackout-silence-of-mptcp-cubic").holds);
    let seconds = claim(&claims, "never-below-wifi-cubic");
    assert!((seconds.measured.unwrap() - 60.0 / 45.0).abs() < 1e-9 && seconds.claim.contains("blackout"));
    assert!(claims.iter().all(|claim| claim.holds), "{claims:#?}");
}

#[test]
fn what_was_not_measured_does_not_hold_and_the_worst_cell_is_named() {
    let runs = vec![
        run("los", "wifi", &[0.0, 45.0, 45.0], 20.0),
        run("los", "wigig", &[0.0, 130.0, 130.0], 20.0),
        run("los", "mptcp", &[0.0, 170.0, 170.0], 20.0),
        run("los", "fbdt", &[0.0, 100.0, 40.0], 20.0),
    ];
    let claims = judged(runs, &["los", "mobility"]);
    let below = claim(&claims, "never-below-better-radio-cubic");
    assert!(!below.holds && below.claim.ends_with("LoS (cubic)"), "{}", below.claim);
    assert!(!claim(&claims, "never-below-wifi-cubic").holds);
    let missing = claim(&claims, "mobility-of-sum-cubic");
    assert!(!missing.holds && missing.measured.is_none() && missing.paper.is_some());
    let mut ids: Vec<&str> = claims.iter().map(|claim| claim.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), claims.len());
}

#[test]
fn the_dying_radio() {
    // Dead from a third to two thirds of six seconds; the series shows it carrying again at 4.3 s.
    let wifi = run("dead-wigig", "wifi", &[40.0, 45.0, 45.0, 45.0, 45.0, 45.0], 20.0);
    let ours = run("dead-wigig", "fbdt", &[90.0, 180.0, 46.0, 46.0, 100.0, 180.0], 60.0);
    let claims = judged(vec![wifi, ours], &["dead-wigig"]);
    assert_eq!(claim(&claims, "dead-silence-cubic").measured, Some(60.0));
    assert!(claim(&claims, "dead-silence-cubic").holds);
    let back = claim(&claims, "dead-used-again-cubic").measured.unwrap();
    assert!((0.2..=0.5).contains(&back), "{back}");
    assert!(claim(&claims, "dead-seconds-cubic").holds);
}
