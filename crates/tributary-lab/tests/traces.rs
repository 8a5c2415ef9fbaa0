//! The measured pairs of `scenarios/traces`: each can be loaded, carries data, and is part of a plan that compares
//! transports on it.
//!
//! The traces are in `../shared/data`, beside the repository, and are not part of it. Without them, only the error
//! message of the plans is tested.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tributary_lab::reproduce::{Paper, PaperError};
use tributary_link::{Direction, Scenario};
use tributary_types::Instant;

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn plan(name: &str) -> Result<Paper, PaperError> {
    Paper::find(&scenarios().join("papers").join(name).display().to_string())
}

fn have_traces() -> bool {
    let have = tributary_testing::data("").is_some();
    if !have {
        let refused = plan("traces.toml").expect_err("its traces are missing").to_string();
        assert!(refused.contains("traces.toml needs the folder"), "{refused}");
    }
    have
}

#[test]
fn every_pair_carries_data_and_is_compared() {
    if !have_traces() {
        return;
    }
    let plans = ["traces.toml", "handoff-5g.toml"].map(|name| plan(name).unwrap());
    let matrices = plans.iter().flat_map(|plan| &plan.matrix);
    let planned: BTreeSet<String> = matrices.flat_map(|matrix| matrix.scenarios.clone()).collect();
    let (mut pairs, mut forms) = (0, BTreeSet::new());
    for entry in std::fs::read_dir(scenarios().join("traces")).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let scenario = Scenario::load(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(format!("{}.toml", scenario.name), name);
        assert!(planned.contains(&format!("../traces/{name}")), "{name} is in no plan");
        let minute = Instant::from_millis(60_000);
        for path in 0..2 {
            let bytes = scenario.capacity(path, Direction::Down, Instant::ZERO, minute).as_bytes();
            assert!(bytes > 500_000, "{name}: path {path} carries {bytes} bytes in a minute");
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let files = text.split('"').filter(|quoted| quoted.contains("/data/"));
        forms.extend(files.map(|file| Path::new(file).extension().map(|e| e.to_string_lossy().into_owned())));
        pairs += 1;
    }
    assert!(pairs >= 20, "{pairs} pairs");
    let has = |extension: &str| forms.contains(&Some(extension.to_owned()));
    assert!(has("csv") && has("json") && has("txt") && has("down") && forms.contains(&None), "{forms:?}");
}
