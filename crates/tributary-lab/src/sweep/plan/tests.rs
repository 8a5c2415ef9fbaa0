//! The cells of plans, and the positions of errors.

use std::path::Path;

use super::*;

const PLAN: &str = r#"
name = "little"
scenarios = ["los", "mobility"]
transports = ["wifi", "mptcp", "fbdt"]
schedulers = ["linux-default", "blest"]
congestion = ["cubic", "bbr"]
rtt = ["scenario", "20 ms"]
queue = ["scenario", "100 kB", "20 ms"]
seeds = ["1-3", 7]
held-back = ["1001-1002"]
seconds = 4
"#;

fn parse(text: &str) -> Result<Plan, PlanError> {
    Plan::parse(text, "little.toml", Path::new("."))
}

fn refused(text: &str, parts: &[&str]) {
    let error = parse(text).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

#[test]
fn the_grid_has_every_combination_once() {
    let plan = parse(PLAN).unwrap();
    let cells = plan.cells(Seeds::Working).unwrap();
    // wifi and fbdt have no choice of scheduler, mptcp has two.
    assert_eq!(cells.len(), 2 * 2 * 3 * 2 * 4 * 4);
    let names: std::collections::BTreeSet<String> =
        cells.iter().map(|cell| cell.simulation.transport.name()).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["fbdt", "mptcp", "mptcp/blest", "wifi"]);
    let keys: std::collections::BTreeSet<&String> = cells.iter().map(|cell| &cell.key).collect();
    assert_eq!(keys.len(), cells.len());
    assert!(cells.iter().all(|cell| cell.simulation.scenario.duration == Duration::from_secs(4)));
    let held: Vec<u64> =
        plan.cells(Seeds::HeldBack).unwrap().iter().map(|c| c.simulation.scenario.seed).collect();
    assert!(held.iter().all(|seed| [1001, 1002].contains(seed)));
}

#[test]
fn keys_do_not_depend_on_the_place_or_name_of_a_plan() {
    let one = parse(PLAN).unwrap().cells(Seeds::Working).unwrap();
    let two = PLAN.replace("little", "other").replace("\"1-3\", 7", "7, \"1-3\"");
    let two =
        Plan::parse(&two, "/elsewhere/other.toml", Path::new("/")).unwrap().cells(Seeds::Working).unwrap();
    let keys =
        |cells: &[Planned]| cells.iter().map(|c| c.key.clone()).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(keys(&one), keys(&two));
    let longer = parse(&PLAN.replace("seconds = 4", "seconds = 5")).unwrap().cells(Seeds::Working).unwrap();
    assert!(keys(&one).is_disjoint(&keys(&longer)));
}

#[test]
fn a_plan_with_too_many_cells_is_refused_with_its_factors() {
    let plan = parse(&PLAN.replace("\"1-3\", 7", "\"2000-1001999\"")).unwrap();
    let error = plan.cells(Seeds::Working).unwrap_err().to_string();
    for part in
        ["little", "2 scenarios", "3 transports", "1000000 seeds", "= 144000000 runs", "100000", "--limit"]
    {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    let enough = Plan { limit: 200_000_000, seeds: vec![1], ..plan };
    assert!(enough.cells(Seeds::Working).is_ok());
}

#[test]
fn every_refusal_has_file_line_and_field() {
    let with = |from: &str, to: &str| PLAN.replace(from, to);
    refused(&with("\"los\", ", "\"mars\", "), &["little.toml:3: scenarios[0]", "`mars`", "blackout"]);
    refused(&with("\"fbdt\"", "\"fdbt\""), &["little.toml:4: transports[2]", "`fdbt`", "fbdt-paper"]);
    refused(&with("\"blest\"", "\"best\""), &["little.toml:5: schedulers[1]", "`best`", "blest"]);
    refused(&with("\"bbr\"", "\"bbr9\""), &["little.toml:6: congestion[1]", "`bbr9`", "cubic"]);
    refused(&with("\"20 ms\"]\nqueue", "\"-1 ms\"]\nqueue"), &["little.toml:7: rtt[1]", "-1 ms"]);
    refused(&with("100 kB", "300"), &["little.toml:8: queue[1]", "300 kB"]);
    refused(&with("1-3", "3-1"), &["little.toml:9: seeds[0]", "3-1"]);
    refused(&with("7]", "2]"), &["little.toml:9: seeds", "seed 2 is listed twice"]);
    refused(&with("1001-1002", "3-4"), &["little.toml:10: held-back", "seed 3"]);
    refused(&with("seconds = 4", "seconds = 0"), &["little.toml:11: seconds", "0 is not"]);
    refused(&with("seconds", "minutes"), &["little.toml:11: minutes", "unknown key", "held-back"]);
    refused(&with("\"1-3\", 7", ""), &["little.toml:9: seeds", "is empty"]);
    refused(&with("scenarios = [\"los\", \"mobility\"]", ""), &["little.toml:1: scenarios", "is missing"]);
    refused("name = ", &["little.toml:1"]);
    let error = Plan::load(Path::new("/nowhere/plan.toml")).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/plan.toml: "), "{error}");
}

#[test]
fn scenarios_beside_the_plan_are_found_and_errors_name_their_file() {
    let directory = tempfile::tempdir().unwrap();
    let network = "name = \"own\"\nduration = \"3 s\"\n[[path]]\nname = \"wifi\"\ndown.rate = \"8 Mbit/s\"\n";
    std::fs::write(directory.path().join("own.toml"), network).unwrap();
    let text = "scenarios = [\"own.toml\"]\ntransports = [\"wifi\"]\nseeds = [1]\n";
    let plan = Plan::parse(text, "p.toml", directory.path()).unwrap();
    assert_eq!(plan.cells(Seeds::Working).unwrap().len(), 1);
    std::fs::write(directory.path().join("own.toml"), network.replace("8 Mbit/s", "0 Mbit/s")).unwrap();
    let error = Plan::parse(text, "p.toml", directory.path()).unwrap_err().to_string();
    assert!(error.contains("own.toml:5") && error.contains("rate"), "{error}");
}

#[test]
fn settings_without_effect_and_too_long_lists_are_refused() {
    let with = |from: &str, to: &str| PLAN.replace(from, to);
    let none = with("\"wifi\", \"mptcp\", \"fbdt\"", "\"wifi\", \"fbdt\"");
    refused(&none, &["little.toml:5: schedulers", "no transport of the plan supports one"]);
    let many = "[\"1-1000000\", \"1000001-2000000\"]";
    refused(&with("[\"1-3\", 7]", many), &["little.toml:9: seeds[1]", "1000000 seeds"]);
    refused(&with("100 kB", "20.9 ms"), &["little.toml:8: queue[1]", "20.9 ms", "whole number"]);
    let two = with("\"bbr\"", "\"quic-cubic\"");
    refused(&two, &["little.toml:6: congestion[1]", "wifi with quic-cubic", "scenario los"]);
    let one = with("\"cubic\", \"bbr\"", "\"quic-cubic\"");
    refused(&one, &["little.toml:4: transports[0]", "wifi with quic-cubic"]);
    let unheld = parse(&with("held-back = [\"1001-1002\"]", "")).unwrap();
    assert!(unheld.cells(Seeds::HeldBack).unwrap_err().to_string().contains("no held-back seeds"));
}

#[test]
fn two_networks_of_one_name_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let own = "name = \"los\"\nduration = \"3 s\"\n[[path]]\nname = \"wifi\"\ndown.rate = \"8 Mbit/s\"\n";
    std::fs::write(directory.path().join("own.toml"), own).unwrap();
    let text = "scenarios = [\"los\", \"own.toml\"]\ntransports = [\"wifi\"]\nseeds = [1]\n";
    let error = Plan::parse(text, "p.toml", directory.path()).unwrap_err().to_string();
    assert!(error.contains("p.toml:1: scenarios[1]") && error.contains("`los`"), "{error}");
    let scenarios = vec![Scenario::builtin("los").unwrap(), Scenario::builtin("los").unwrap().with_seed(2)];
    assert!(Plan::new("made", scenarios, &["wifi"]).cells(Seeds::Working).is_err());
}
