//! The shipped claims judged on invented runs with known verdicts, and the guide's example.

use super::*;
use crate::reproduce::matrix::CellError;
use crate::reproduce::transfer::METRICS;
use crate::reproduce::{EXPERIMENTS, Page, Selection, Settings, papers, run};
use std::path::Path;
use tributary_report::Verdict;
use tributary_report::stats;

fn sample(scenario: &str, transport: &str, seed: u64, seconds: &[f64], silence: f64) -> Sample {
    let labels = [("scenario", scenario), ("transport", transport), ("congestion", "cubic")];
    let labels = labels.map(|(axis, value)| (axis.to_owned(), value.to_owned())).into();
    let mut sample = Sample { labels, seed, ..Sample::default() };
    sample.series("seconds", seconds.to_vec());
    sample.series("capacity", vec![131.0; seconds.len()]);
    sample.set("goodput", stats::mean(seconds));
    sample.set("worst_second", stats::minimum(seconds));
    sample.set("silence", Some(silence));
    sample.set("rtt", Some(5.0));
    sample.set("sent_again", Some(1.5));
    sample
}

fn judged(samples: &[Sample]) -> Vec<Claim> {
    let paper = Paper::find("fbdt").unwrap();
    let mut planned: Vec<Labels> = samples.iter().map(|sample| sample.labels.clone()).collect();
    planned.dedup();
    let measurements = Measurements { samples, subjects: &paper.subject, metrics: &METRICS, pool: &[] };
    claims(&paper, World::Emu, &planned, measurements).unwrap()
}

fn claim<'a>(claims: &'a [Claim], id: &str) -> &'a Claim {
    claims.iter().find(|claim| claim.id == id).unwrap_or_else(|| panic!("no claim {id}: {claims:#?}"))
}

#[test]
fn a_good_blackout_run_meets_the_claims() {
    let samples = [
        sample("blackout", "wifi", 1, &[45.0, 45.0], 20.0),
        sample("blackout", "wigig", 1, &[130.0, 10.0], 1000.0),
        sample("blackout", "mptcp", 1, &[180.0, 4.0], 480.0),
        sample("blackout", "fbdt", 1, &[185.0, 60.0], 40.0),
    ];
    let claims = judged(&samples);
    let sum = claim(&claims, "blackout-of-sum-cubic");
    assert!(sum.met && (sum.measured.unwrap() - 122.5 / 115.0).abs() < 1e-9 && sum.interval.is_some());
    assert_eq!(claim(&claims, "blackout-worst-second-cubic").measured, Some(15.0));
    let silence = claim(&claims, "blackout-silence-cubic");
    assert_eq!(
        (silence.measured, silence.verdict),
        (Some(40.0), Verdict::Undecided),
        "one run is not enough"
    );
    assert!(claim(&claims, "blackout-silence-of-mptcp-cubic").met);
    let seconds = claim(&claims, "never-below-wifi-cubic");
    assert!((seconds.measured.unwrap() - 60.0 / 45.0).abs() < 1e-9 && seconds.claim.contains("blackout"));
    assert_eq!(seconds.verdict, Verdict::Holds);
    assert!(claims.iter().all(|claim| claim.met), "{claims:#?}");
}

#[test]
fn the_worst_cell_is_named_and_unmeasured_claims_are_undecided() {
    let mut samples: Vec<Sample> = (1..=3)
        .flat_map(|seed| {
            [
                sample("los", "wifi", seed, &[45.0, 45.0], 20.0),
                sample("los", "wigig", seed, &[130.0, 130.0], 20.0),
                sample("los", "mptcp", seed, &[170.0, 170.0], 20.0),
                sample("los", "fbdt", seed, &[100.0, 40.0], 20.0),
            ]
        })
        .collect();
    let claims = judged(&samples);
    let below = claim(&claims, "never-below-better-radio-cubic");
    assert!(
        below.verdict == Verdict::Fails
            && below.claim.ends_with(": LoS; deterministic, the same for every seed"),
        "{}",
        below.claim
    );
    assert_eq!(claim(&claims, "los-of-sum-cubic").paper.map(|v| (v * 100.0).round()), Some(103.0));
    for sample in samples.iter_mut().filter(|sample| sample.labels["transport"] == "fbdt") {
        sample.failure = Some("no route".to_owned());
    }
    let missing = judged(&samples);
    let missing = claim(&missing, "los-of-sum-cubic");
    assert!(missing.verdict == Verdict::Undecided && missing.measured.is_none() && missing.paper.is_some());
    let mut ids: Vec<&str> = claims.iter().map(|claim| claim.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), claims.len());
}

#[test]
fn a_claim_over_cells_names_those_without_a_result() {
    let cells = |scenario| {
        ["wifi", "wigig", "mptcp", "fbdt"]
            .map(|transport| sample(scenario, transport, 1, &[100.0, 90.0], 20.0))
    };
    let mut samples = [cells("los"), cells("nlos")].concat();
    for sample in samples.iter_mut().filter(|s| s.labels["scenario"] == "nlos") {
        sample.failure = Some("no time left".to_owned());
    }
    let claims = judged(&samples);
    let below = claim(&claims, "never-below-mptcp-cubic");
    assert!(below.measured.is_none() && below.claim.ends_with("; without a result: nLoS"), "{}", below.claim);
}

#[test]
fn shipped_papers_name_only_what_experiments_measure() {
    let metrics: Vec<_> = EXPERIMENTS.iter().flat_map(|e| e.metrics()).copied().collect();
    // The experiment of the others is in `tributary-bench`.
    for name in papers().filter(|name| !name.starts_with("simulator-")) {
        Paper::find(name).unwrap().check_metrics(&metrics).unwrap();
    }
    let refused = Paper::find("fdbt").unwrap_err().to_string();
    assert!(
        refused.contains("`fdbt`") && refused.contains("avira") && refused.contains(".toml"),
        "{refused}"
    );
}

#[test]
fn no_claim_of_a_shipped_file_names_several_cells() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("papers");
    let mut checked = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        let text = std::fs::read_to_string(&file).unwrap();
        let paper = Paper { beside: file.parent().unwrap().into(), ..Paper::parse(&text, "a file").unwrap() };
        for (world, quick) in [World::Sim, World::Emu].into_iter().flat_map(|w| [(w, false), (w, true)]) {
            let chosen = Selection { world, quick, ..Selection::default() };
            if matches!(paper.cells(&chosen), Err(CellError::Empty { .. })) {
                continue; // The paper has no runs in this world.
            }
            check(&paper, &chosen).unwrap_or_else(|error| panic!("{}, {world}: {error}", file.display()));
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

#[test]
fn an_ambiguous_claim_is_refused_before_the_runs() {
    let ambiguous = example().replace("[\"cubic\"]", "[\"cubic\", \"bbr\"]");
    let paper = Paper::parse(&ambiguous, "example.toml").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut runs = 0;
    let refused = run(&paper, &EXPERIMENTS, &settings(short(), directory.path()), &mut |_, _| runs += 1);
    let refused = refused.unwrap_err();
    assert!(matches!(refused, ReproduceError::Ambiguous { .. }), "{refused}");
    assert_eq!(runs, 0);
}

/// The example file of the guide.
fn example() -> String {
    let guide = include_str!("../../../../../docs/guide/reproductions.md");
    let (_, rest) = guide.split_once("```toml\n").expect("the guide has an example");
    rest.split_once("```").expect("the example ends").0.to_owned()
}

/// One seed of two seconds.
fn short() -> Selection {
    Selection { seeds: Some(1), seconds: Some(2), ..Selection::default() }
}

/// The selection in the simulator, with the report in this directory.
fn settings(selection: Selection, directory: &Path) -> Settings {
    Settings {
        selection: Selection { world: World::Sim, ..selection },
        directory: directory.to_owned(),
        resume: false,
        jobs: None,
        command: "tributary-lab reproduce example.toml --world sim".to_owned(),
        ..Settings::default()
    }
}

#[test]
fn the_guides_example_is_run_resumed_judged_and_printed() {
    let paper = Paper::parse(&example(), "example.toml").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(Selection { quick: true, ..Selection::default() }, directory.path());
    let outcome = run(&paper, &EXPERIMENTS, &settings, &mut |_, _| ()).unwrap();
    assert_eq!(outcome.tally.failed, 0, "{:?}", outcome.samples.iter().find_map(|s| s.failure.clone()));
    assert!(
        outcome.reproduction.claims.iter().all(|claim| claim.measured.is_some() && claim.interval.is_some())
    );
    let page = Page::new(&paper, &outcome);
    let markdown = page.markdown();
    assert!(markdown.starts_with("Generated by `tributary-lab reproduce example.toml"), "{markdown}");
    assert!(markdown.contains("≥ 1.15") && page.html().contains("promise kept"), "{markdown}");
    let again = run(&paper, &EXPERIMENTS, &settings, &mut |_, _| ()).unwrap();
    assert_eq!((again.tally.now, again.samples), (0, outcome.samples));
}

#[test]
fn a_report_without_claims_has_no_table_of_claims() {
    let example = example();
    let (cells, rest) = example.split_once("[[claim]]").unwrap();
    let (_, table) = rest.split_once("[[table]]").unwrap();
    let paper = Paper::parse(&format!("{cells}[[table]]{table}"), "example.toml").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(short(), directory.path());
    let outcome = run(&paper, &EXPERIMENTS, &settings, &mut |_, _| ()).unwrap();
    let page = Page::new(&paper, &outcome);
    for report in [page.markdown(), page.text(), page.html()] {
        assert!(report.contains("Mbit/s"), "{report}");
        assert!(!report.contains("laims") && !report.contains("verdict"), "{report}");
    }
}

#[test]
fn a_table_shows_only_cells_with_the_one_value_of_an_axis_without_rows() {
    let text = example()
        .replace("scenarios = [\"blackout\"]", "scenarios = [\"blackout\", \"los\"]")
        .replace("id = \"silence\"", "id = \"silence-{scenario}\"\neach = { scenario = [\"*\"] }")
        .replace(
            "rows = [\"scenario\", \"transport\"]",
            "rows = [\"transport\"]\nonly = { scenario = [\"los\"] }",
        );
    let paper = Paper::parse(&text, "example.toml").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(short(), directory.path());
    let outcome = run(&paper, &EXPERIMENTS, &settings, &mut |_, _| ()).unwrap();
    let of_los = |s: &&Sample| s.labels["scenario"] == "los" && s.labels["transport"] == "fbdt";
    let goodput =
        outcome.samples.iter().find(of_los).and_then(|s| stats::mean(&s.metrics["seconds"])).unwrap();
    let page = Page::new(&paper, &outcome);
    let table = page.tables().into_iter().next().expect("the paper's table").to_markdown();
    assert_eq!(table.lines().count(), 2 + 3, "a row for each transport: {table}");
    let row = table.lines().find(|line| line.contains("fbdt")).expect("a row of fbdt");
    assert!(row.contains(&format!("{goodput:.1}")), "{goodput} in {row}");
}

#[test]
fn errors_in_a_file_name_their_place() {
    let example = example();
    for (from, to, hints) in [
        (
            "rows = [\"scenario\", ",
            "only = { scenario = [\"los\", \"nlos\"] }\nrows = [",
            vec!["table `Goodput`", "2 values of `scenario`", "`rows`"],
        ),
        ("wanted = \">= 1.15\"", "wanted = \"1.15\"", vec!["wanted", ">= BOUND"]),
        ("mean(fbdt.goodput", "(fbdt.goodput", vec!["claim", "mean(…)"]),
        ("fbdt.goodput", "fbdt.godput", vec!["godput", "known: seconds"]),
        ("seeds =", "sedes =", vec!["sedes", "example.toml:15: "]),
        ("each = { scenario", "each = { scenery", vec!["`scenery` is not an axis", "scenario"]),
    ] {
        assert!(example.contains(from), "{from}");
        let text = example.replace(from, to);
        let paper = Paper::parse(&text, "example.toml");
        let error = match paper {
            Ok(paper) => paper.check_metrics(&METRICS).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(hints.iter().all(|hint| error.contains(hint)), "{error}");
    }
}
