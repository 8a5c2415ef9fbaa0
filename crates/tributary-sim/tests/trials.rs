//! Random trials that break no rule, single faults with their limits, and shortened trials that once broke a rule.

use std::fs;
use std::path::Path;

use tributary_sim::trial::{Trial, cases, run};
use tributary_types::Instant;

/// A few seconds; `tributary-lab soak` runs a hundred thousand.
const SEEDS: u64 = 300;

#[test]
fn no_trial_breaks_a_rule() {
    for seed in 0..SEEDS {
        run(&Trial::draw(seed))
            .unwrap_or_else(|fault| panic!("tributary-lab soak --seed {seed} --seeds 1: {fault}"));
    }
}

#[test]
fn shortened_trials_break_no_rule_any_more() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trials");
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        let trial = Trial::parse(&fs::read_to_string(&file).unwrap());
        let trial = trial.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        run(&trial).unwrap_or_else(|fault| panic!("{}: {fault}", file.display()));
    }
}

#[test]
fn a_single_fault_in_a_download_costs_no_more_than_its_limit() {
    let took = cases().into_iter().map(|case| {
        let outcome = run(&case.trial).unwrap_or_else(|fault| panic!("{}: {fault}", case.name));
        assert!(outcome.read > 0, "{}: nothing was read", case.name);
        (case.name, outcome.last_read.saturating_since(Instant::ZERO), case.within)
    });
    let late: Vec<_> = took.filter(|(_, took, within)| took > within).collect();
    assert!(late.is_empty(), "{late:?}");
}
