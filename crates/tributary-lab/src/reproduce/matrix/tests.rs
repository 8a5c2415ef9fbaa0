//! The cells of matrices, and choices that are refused.

use super::*;
use crate::reproduce::Paper;

const PLAN: &str = r#"
name = "little"
world = "sim"
[[matrix]]
world = "sim"
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

fn cells(text: &str, chosen: &Selection) -> Result<Vec<Cell>, String> {
    let paper = Paper::parse(text, "little.toml").map_err(|error| error.to_string())?;
    let chosen = Selection { world: World::Sim, ..chosen.clone() };
    paper.cells(&chosen).map_err(|error| error.to_string())
}

#[test]
fn every_combination_is_there_once_and_only_mptcp_and_sessions_have_a_choice_of_scheduler() {
    let all = cells(PLAN, &Selection::default()).unwrap();
    assert_eq!(all.len(), 2 * 2 * 3 * 2 * 4 * 4);
    let distinct: BTreeSet<_> = all.iter().map(|cell| (&cell.labels, cell.seed)).collect();
    assert_eq!(distinct.len(), all.len());
    assert!(all.iter().all(|cell| (cell.label("transport") == "mptcp") == cell.scheduler().is_some()));
    assert!(all.is_sorted_by_key(|cell| cell.seed));
    let held = cells(PLAN, &Selection { held_back: true, ..Selection::default() }).unwrap();
    assert_eq!((held.len(), held[0].seed), (all.len() / 2, 1001));
}

#[test]
fn a_plan_with_too_many_runs_is_refused_with_its_factors() {
    let many = PLAN.replace("\"1-3\", 7", "\"2000-1001999\"");
    let error = cells(&many, &Selection::default()).unwrap_err();
    for part in
        ["little", "2 scenario", "3 transport", "1000000 seeds", "= 144000000 runs", "100000", "--limit"]
    {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    let enough = Selection { limit: Some(200_000_000), seeds: Some(1), ..Selection::default() };
    assert!(cells(&many, &enough).is_ok());
}

#[test]
fn seeds_that_are_no_list_are_refused_with_file_and_line() {
    for (seeds, part) in [
        ("\"3-1\"", "`3-1` is not a range"),
        ("\"1-3\", 2", "seed 2 is listed twice"),
        ("\"1-1000000\", \"1000001-2000000\"", "more than 1000000 seeds"),
    ] {
        let error = cells(&PLAN.replace("\"1-3\", 7", seeds), &Selection::default()).unwrap_err();
        assert!(error.starts_with("little.toml:12: ") && error.contains(part), "{error}");
    }
    let without = PLAN.replace("held-back = [\"1001-1002\"]\n", "");
    let error = cells(&without, &Selection { held_back: true, ..Selection::default() }).unwrap_err();
    assert!(error.contains("no held-back seeds"), "{error}");
}

#[test]
fn the_shipped_plan_is_possible() {
    let plan = Paper::find("../../scenarios/plans/shoot-out.toml").unwrap();
    let all = plan.cells(&Selection { world: World::Sim, held_back: true, ..Selection::default() }).unwrap();
    assert_eq!(all.len() % (18 * 8 * 5), 0, "18 transports, 8 congestion controls, 5 seeds");
}

#[test]
fn recordings_of_one_run_begin_at_the_same_moment() {
    let directory = tempfile::tempdir().unwrap();
    let rates: String = (1..=60).map(|mbps| format!("{mbps}\n")).collect();
    std::fs::write(directory.path().join("rates.csv"), format!("mbps\n{rates}")).unwrap();
    let path =
        "[[path]]\ndown.rate = { trace = { file = \"rates.csv\", every = \"1 s\", rate = \"mbps\" } }\n";
    let file = directory.path().join("recorded.toml");
    let named = |name: &str| path.replace("down", &format!("name = \"{name}\"\ndown"));
    let scenario = format!("name = \"recorded\"\nduration = \"60 s\"\n{}{}", named("a"), named("b"));
    std::fs::write(&file, scenario).unwrap();
    let plan = PLAN
        .replace("[\"los\", \"mobility\"]", &format!("[{:?}]\nany-phase = true", file.display().to_string()));
    let networks: Vec<Scenario> = cells(&plan, &Selection::default())
        .unwrap()
        .iter()
        .filter(|cell| cell.label("transport") == "fbdt" && cell.label("rtt") == "scenario")
        .map(|cell| cell.network().unwrap())
        .collect();
    assert!(networks.iter().all(|network| network.paths[0].down.rate == network.paths[1].down.rate));
    let first = &networks[0].paths[0].down.rate;
    assert!(networks.iter().any(|network| network.paths[0].down.rate != *first), "seeds differ");
}
