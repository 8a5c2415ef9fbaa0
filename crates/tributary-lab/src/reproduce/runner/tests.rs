//! The shipped papers on a few cells each, from end to end.

use super::*;
use crate::reproduce::{EXPERIMENTS, Page};

fn settings(directory: &std::path::Path, selection: Selection) -> Settings {
    Settings {
        selection,
        directory: directory.to_owned(),
        resume: false,
        jobs: NonZeroUsize::new(2),
        command: "test".to_owned(),
        ..Settings::default()
    }
}

/// Runs the same choice in two directories, so that no result is reused, and compares.
fn twice(paper: &Paper, selection: &Selection) -> Outcome {
    let once = || {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = settings(directory.path(), selection.clone());
        run(paper, &EXPERIMENTS, &settings, &mut |_, _| ()).expect("the choice is possible")
    };
    let (first, second) = (once(), once());
    assert_eq!(first.tally.failed, 0, "{:?}", first.samples.iter().find_map(|s| s.failure.clone()));
    assert_eq!((first.tally.now, second.tally.now), (first.samples.len(), first.samples.len()));
    assert!(first.samples == second.samples, "the same seeds gave other results");
    assert_eq!(first.reproduction.claims, second.reproduction.claims);
    first
}

#[test]
fn the_simulated_fbdt_file_is_measured_judged_and_drawn_the_same_each_time() {
    let paper = Paper::find("fbdt").unwrap();
    let selection = Selection {
        world: World::Sim,
        quick: true,
        scenarios: vec!["blackout".to_owned()],
        seeds: Some(1),
        seconds: Some(2),
        ..Selection::default()
    };
    let outcome = twice(&paper, &selection);
    assert_eq!(outcome.samples.len(), 9);
    let claims = &outcome.reproduction.claims;
    assert_eq!(claims.len(), 11, "{claims:#?}");
    assert!(claims.iter().all(|claim| claim.measured.is_some()), "{claims:#?}");
    let page = Page::new(&paper, &outcome);
    let names: Vec<String> = page.drawings().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["fbdt-goodput", "fbdt-seconds-cubic-blackout"]);
    let page = page.html();
    for part in [
        "Mean goodput",
        "Each second as a share of capacity: blackout, cubic",
        "Every second: blackout, cubic",
        "WiGig blocked",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("what all links could carry"), "link capacity is drawn behind the seconds");
}

#[test]
fn the_ablation_has_every_part_in_one_table() {
    let paper = Paper::find("fbdt-ablation").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let selection = Selection {
        world: World::Sim,
        scenarios: vec!["deep-fade".to_owned()],
        seeds: Some(2),
        seconds: Some(4),
        ..Selection::default()
    };
    let outcome = run(&paper, &EXPERIMENTS, &settings(directory.path(), selection), &mut |_, _| ()).unwrap();
    assert_eq!(outcome.samples.len(), 5 * 2);
    let claims = &outcome.reproduction.claims;
    assert!(claims.len() == 5 && claims.iter().all(|claim| claim.measured.is_some()), "{claims:#?}");
    let page = Page::new(&paper, &outcome);
    assert_eq!(page.drawings().len(), 1);
    let text = page.markdown();
    for part in ["WiFi alone", "WiGig alone", "MPTCP", "session, round-robin", "session, fbdt"] {
        assert!(text.lines().any(|line| line.starts_with("| ") && line.contains(part)), "{part}: {text}");
    }
    for column in ["mean (Mbit/s)", "p10 (Mbit/s)", "worst second (Mbit/s)", "longest silence (ms)"] {
        assert!(text.contains(column), "{column}: {text}");
    }
}

#[test]
fn the_pathways_of_avira_are_measured_judged_and_drawn_the_same_each_time() {
    let paper = Paper::find("avira").unwrap();
    let selection = Selection {
        world: World::Sim,
        quick: true,
        scenarios: vec!["two-pathways".to_owned()],
        seeds: Some(2),
        seconds: Some(25),
        ..Selection::default()
    };
    let outcome = twice(&paper, &selection);
    assert_eq!(outcome.samples.len(), 48);
    for sample in &outcome.samples {
        let one = |name: &str| sample.metrics[name][0];
        let sum: f64 = sample.metrics["subflow_bytes"].iter().sum();
        // Data that waited for a gap in the first ten seconds may be delivered later, but the total never exceeds the
        // pathways' capacity since the start.
        let one_link = ["shared-access", "references"].contains(&sample.labels["form"].as_str());
        let carried = if one_link { 1.0 } else { 2.0 } * 25.0;
        assert!(one("mean_rtt") > 8.0 && sample.metrics["rtt_seconds"].len() == 15, "{sample:?}");
        assert!(one("throughput") > 0.4 && one("throughput") * 15.0 < carried, "{sample:?}");
        assert!(sample.metrics["subflow_bytes"].len() == 8 && sum * 8.0 < carried * 1.1, "{sample:?}");
        assert!(one("prioritised") > 0.0, "{sample:?}");
    }
    let claims = &outcome.reproduction.claims;
    assert_eq!(claims.len(), 41, "{claims:#?}");
    assert!(claims.iter().all(|claim| claim.measured.is_some()), "{claims:#?}");
    let page = Page::new(&paper, &outcome).html();
    assert!(page.contains("Table II") && page.contains("Figure 5: traffic of each subflow"));
}

#[test]
fn emulated_runs_are_estimated_before_they_begin() {
    let paper = Paper::find("fbdt").unwrap();
    let of = |world, quick, seconds| {
        let scenarios = vec!["los".to_owned()];
        let selection = Selection { world, quick, scenarios, seconds, ..Selection::default() };
        expected(&paper, &selection).unwrap()
    };
    // Five transports with one seed, seven seconds each, one second of overhead each; at most the limit of a quick
    // run.
    assert_eq!(of(World::Emu, true, None), Duration::from_secs(5 * (7 + 1)));
    assert_eq!(of(World::Emu, true, Some(600)), Duration::from_secs(555));
    assert_eq!(of(World::Sim, true, None), Duration::ZERO);
}

#[test]
fn the_decision_engines_file_is_measured_judged_and_drawn_the_same_each_time() {
    let paper = Paper::find("decision-engine").unwrap();
    let selection = Selection {
        world: World::Sim,
        quick: true,
        seeds: Some(1),
        seconds: Some(20),
        ..Selection::default()
    };
    let outcome = twice(&paper, &selection);
    assert_eq!(outcome.samples.len(), 14 * 6);
    for sample in &outcome.samples {
        let one = |name: &str| sample.metrics[name][0];
        assert!(one("start_up") > 0.1 && one("efficiency") < 100.0, "{sample:?}");
        assert_eq!(
            (sample.metrics["buffer_seconds"].len(), one("throughput") > 0.0),
            (20, true),
            "{sample:?}"
        );
        let is_engine = sample.labels["transport"].starts_with("engine");
        assert_eq!(sample.metrics.contains_key("on_quic"), is_engine, "{sample:?}");
    }
    let claims = &outcome.reproduction.claims;
    assert!(claims.len() >= 20 && claims.iter().all(|claim| claim.measured.is_some()), "{claims:#?}");
    let page = Page::new(&paper, &outcome).html();
    for part in [
        "Figure 5a",
        "Figure 5b",
        "Figure 5c",
        "Figure 5d",
        "Figure 5e",
        "Figure 5f",
        "The play buffer over time: 5 %",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn the_handoff_file_is_measured_judged_and_drawn_the_same_each_time() {
    let paper = Paper::find("handoff").unwrap();
    let selection = Selection {
        world: World::Sim,
        quick: true,
        scenarios: vec!["wifi-wifi-limited".to_owned()],
        seeds: Some(1),
        seconds: Some(8),
        ..Selection::default()
    };
    let outcome = twice(&paper, &selection);
    assert_eq!(outcome.samples.len(), 7 * 4 * 2);
    for sample in &outcome.samples {
        let one = |name: &str| sample.metrics[name][0];
        assert!((0.3..3.0).contains(&one("start_up")) && one("first") > 0.5, "{sample:?}");
        let cut = sample.labels["handoff"] == "silent";
        assert_eq!(sample.metrics.contains_key("silence"), cut, "{sample:?}");
        assert!(!cut || (one("first_after") == 0.0 && one("silence") >= 20.0), "{sample:?}");
        assert_eq!(sample.metrics["second_seconds"].len(), 8);
    }
    let claims = &outcome.reproduction.claims;
    assert!(claims.len() >= 20 && claims.iter().all(|claim| claim.measured.is_some()), "{claims:#?}");
    let page = Page::new(&paper, &outcome).html();
    for part in ["Tables I and II", "Figure 3a", "Figure 6", "Figure 8", "The second flow around the handoff"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("Figure 12"), "its cells were not run");
}

#[test]
fn the_emulated_fbdt_file_runs_at_the_papers_own_rates() {
    let mut paper = Paper::find("fbdt").unwrap();
    let tenth = paper.number("goodput", "los", "wifi", World::Emu).unwrap();
    let scales = |paper: &Paper, world: World| -> Vec<u64> {
        paper.matrix.iter().filter(|matrix| matrix.world == world).map(|matrix| matrix.scale).collect()
    };
    let simulated = scales(&paper, World::Sim);
    paper.set_scale(World::Emu, 1.0).unwrap();
    assert!(scales(&paper, World::Emu).iter().all(|scale| *scale == 10));
    assert_eq!(scales(&paper, World::Sim), simulated);
    assert_eq!((tenth, paper.number("goodput", "los", "wifi", World::Emu)), (47.0, Some(470.0)));
}

#[test]
fn a_scale_that_is_no_multiple_of_the_scenario_files_is_refused_with_the_smallest() {
    for scale in [0.25, 0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
        let refused = Paper::find("fbdt").unwrap().set_scale(World::Emu, scale).unwrap_err();
        assert!(refused.to_string().ends_with("a whole multiple of 0.1, up to 100"), "{refused}");
    }
}

#[test]
fn finished_runs_of_another_version_are_counted_and_made_again() {
    let plan = "name = \"plan\"\n[[matrix]]\nworld = \"sim\"\nscenarios = [\"los\"]\ntransports = [\"wifi\"]\nseeds = 2\nseconds = 2\n";
    let paper = Paper::parse(plan, "plan.toml").expect("a valid plan");
    let directory = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        resume: true,
        ..settings(directory.path(), Selection { world: World::Sim, ..Selection::default() })
    };
    let tally = || measure(&paper, &EXPERIMENTS, &settings, &mut |_, _| ()).expect("it is possible").tally;
    let first = tally();
    assert_eq!((first.now, first.before, first.outdated), (2, 0, 0));
    let stored = directory.path().join("plan-sim-cells/cells.jsonl");
    let text = std::fs::read_to_string(&stored).expect("finished runs");
    // Another version of the models gives other keys.
    std::fs::write(&stored, text.replace("\"key\":\"", "\"key\":\"f")).expect("a file");
    let again = tally();
    assert_eq!((again.now, again.before, again.outdated), (2, 0, 2));
    assert_eq!(tally().outdated, 0, "they are finished now");
}
