//! A tiny reproduction from end to end.

use super::*;
use crate::reproduce::{Page, Sample};
use std::sync::LazyLock;

fn settings(directory: &tempfile::TempDir) -> Settings {
    Settings {
        world: World::Sim,
        tiled: Vec::new(),
        heads: None,
        viewings: 1,
        gops: 4,
        loads: vec![0.2], // keeps the simulation short
        viewers: Vec::new(),
        networks: Vec::new(),
        jobs: None,
        resume: true,
        limit: None,
        directory: directory.path().to_owned(),
        command: "tributary-lab reproduce ows".to_owned(),
    }
}

/// A reproduction with two added networks: their names, and what came of it. One for several tests, because it takes a minute.
static WITH_NETWORKS: LazyLock<([String; 2], Reproduced)> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("walk.toml");
    let path = |name: &str, rate: &str| format!("[[path]]\nname = \"{name}\"\ndown.rate = \"{rate}\"\n");
    let paths = path("a", "20 Mbit/s") + &path("b", "4 Mbit/s");
    std::fs::write(&file, format!("name = \"walk\"\nduration = \"20 s\"\nrtt = \"30 ms\"\n{paths}")).unwrap();
    let networks = ["normal".to_owned(), file.to_str().unwrap().to_owned()];
    let settings = Settings { networks: networks.to_vec(), ..settings(&directory) };
    let reproduced = run(&settings, &mut |_, _| ()).unwrap();
    (networks, reproduced)
});

#[test]
fn a_reproduction_is_judged_and_rendered() {
    let (networks, Reproduced { paper, outcome, .. }) = &*WITH_NETWORKS;
    let own = |sample: &&Sample| !networks.contains(&sample.labels["scenario"]);
    let of = |transport: &str| {
        let of = |sample: &&Sample| own(sample) && sample.labels["transport"] == transport;
        outcome.samples.iter().filter(of).collect::<Vec<_>>()
    };
    // One viewing of two clips: in five scenes, nine allocators on MPTCP and fourteen on FBDT, and three pairs with black
    // concealment; two connection times; and known capacity with three allocators at nine rates.
    assert_eq!(of("mptcp").len() + of("fbdt").len(), 2 * 5 * (9 + 14 + 3) + 2);
    assert_eq!(of("certain").len(), 2 * 3 * 9);
    let claims = outcome.reproduction.claims.iter().filter(|claim| !claim.id.starts_with("networks-"));
    let claims: Vec<_> = claims.collect();
    // Six claims of gain in each scene, and two of the paper's pair and of FIX with the same plans; two of the variance, four
    // about the other allocators, two about late tiles, and two about connecting.
    assert_eq!(claims.len(), (6 + 2) * 5 + 2 + 4 + 2 + 2);
    assert!(claims.iter().all(|claim| claim.measured.is_some()), "{claims:#?}");
    assert!(claims.iter().any(|claim| claim.paper == Some(13.0)));
    for sample in outcome.samples.iter().filter(own).filter(|s| s.labels.contains_key("concealment")) {
        let number = |name: &str| sample.metrics[name][0];
        assert_eq!(sample.metrics["errors"].len(), 2);
        assert!(number("quality") > 20.0 && number("late") <= 100.0, "{sample:?}");
        if !["ows", "ows-updated", "ows-known"].contains(&sample.labels["allocator"].as_str()) {
            assert_eq!(number("left_out"), 0.0, "{sample:?}");
        }
    }
    let page = Page::new(paper, outcome);
    let drawings = page.drawings();
    assert!(drawings.len() == 4 && drawings.iter().all(|(_, svg)| svg.trim_end().ends_with("</svg>")));
    let html = page.html();
    assert!(html.contains("step by step") && html.contains("drawn-moving"));
    assert!(page.markdown().contains("| transport |"));
}

#[test]
fn added_networks_are_runs_with_loads_relative_to_their_capacity() {
    let (networks, Reproduced { paper, outcome, .. }) = &*WITH_NETWORKS;
    let of = |network: &str| {
        outcome.samples.iter().filter(|s| s.labels["scenario"] == network).collect::<Vec<_>>()
    };
    // Ten chains and two clips.
    let [first, second] = networks.each_ref().map(|network| of(network));
    assert_eq!((first.len(), second.len()), (20, 20));
    // The finest quality has a fifth of the capacity, 3 Mbyte/s, so everything is in time soon.
    let most = second.iter().map(|sample| sample.metrics["in_time"][0]).fold(0.0, f64::max);
    assert!((0.4..0.7).contains(&most), "{most} MB of 0.6 in a GoP");
    let claims = outcome.reproduction.claims.iter().filter(|claim| claim.id.starts_with("networks-"));
    let claims: Vec<_> = claims.collect();
    assert_eq!(claims.len(), 5);
    assert!(claims.iter().all(|claim| claim.measured.is_some()), "{claims:#?}");
    let page = Page::new(paper, outcome);
    assert!(page.markdown().contains("| walk |"));
    assert!(page.drawings().iter().any(|(name, _)| name == "ows-networks"));
    let directory = tempfile::tempdir().unwrap();
    let absent = Settings { networks: vec!["no/such.toml".to_owned()], ..settings(&directory) };
    assert!(matches!(run(&absent, &mut |_, _| ()), Err(OwsError::Scenario(_))));
}

#[test]
fn several_loads_give_the_gain_at_each_and_the_same_again() {
    let directory = tempfile::tempdir().unwrap();
    let at_both = Settings { loads: vec![0.1, 0.5], ..settings(&directory) };
    let Reproduced { paper, outcome, .. } = run(&at_both, &mut |_, _| ()).unwrap();
    let fresh = tempfile::tempdir().unwrap();
    let again = run(&Settings { directory: fresh.path().to_owned(), ..at_both }, &mut |_, _| ()).unwrap();
    assert_eq!(again.outcome.samples, outcome.samples);
    // Two loads and clips in three scenes: three pairs, and two allocators at two known rates.
    assert_eq!(outcome.samples.len(), 2 * 2 * 3 * (3 + 2 * 2));
    let claims = &outcome.reproduction.claims;
    assert_eq!(claims.len(), 3 * 3 * 2);
    assert!(claims.iter().all(|claim| claim.measured.is_some() && claim.paper >= Some(10.0)), "{claims:#?}");
    let quality = |load: &str| {
        let of = |s: &&Sample| s.labels["load"] == load && s.labels["transport"] == "certain";
        outcome.samples.iter().filter(of).map(|s| s.metrics["quality"][0]).fold(0.0, f64::max)
    };
    // What fits at the lower load does not at the higher one, where the same capacity shows less.
    assert!(quality("0.1") >= quality("0.5"));
    let page = Page::new(&paper, &outcome);
    assert!(page.markdown().contains("| LoS | 0.5 |") && page.drawings().len() == 3);
}

#[test]
fn several_viewers_share_the_radios_of_one() {
    let directory = tempfile::tempdir().unwrap();
    let together = Settings { viewers: vec![1, 3], loads: vec![0.5], ..settings(&directory) };
    let Reproduced { paper, outcome, .. } = run(&together, &mut |_, _| ()).unwrap();
    let failed: Vec<_> = outcome.samples.iter().filter_map(|sample| sample.failure.as_ref()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let of = |viewers: &str, sharing: &str| {
        let of = |s: &&Sample| {
            s.labels["viewers"] == viewers && s.labels["sharing"] == sharing && s.labels["allocator"] == "ows"
        };
        outcome.samples.iter().filter(of).map(|s| &s.metrics).collect::<Vec<_>>()
    };
    // One viewer gets the same whether or not he plans for himself, over links of his own or not.
    let alone = of("1", "alone");
    for sharing in ["sum", "sum-db", "max-min"] {
        for metrics in of("1", sharing) {
            assert!(alone.contains(&metrics) && metrics["even_rate"] == [1.0], "{sharing}: {metrics:?}");
        }
        assert!(of("3", sharing).iter().all(|metrics| metrics["viewer_quality"].len() == 3));
    }
    // Together three have the bytes of one, and are measured in as many GoPs each.
    let whole = |all: Vec<&std::collections::BTreeMap<String, Vec<f64>>>| all[0]["in_time"][0];
    let (one, three) = (whole(of("1", "alone")), whole(of("3", "sum")));
    assert!((0.8..1.25).contains(&(three / one)), "{three} MB for {one} MB");
    assert_eq!(of("3", "sum")[0]["errors"].len(), 3 * of("1", "sum")[0]["errors"].len());
    assert!(outcome.reproduction.claims.iter().all(|claim| claim.measured.is_some()));
    assert!(Page::new(&paper, &outcome).markdown().contains("sum of errors (paper)"));
    let live = Settings { world: World::Emu, ..together.clone() };
    assert!(matches!(run(&live, &mut |_, _| ()), Err(OwsError::Viewers)));
}

#[test]
fn impossible_settings_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let live = Settings { world: World::Emu, loads: vec![1.0, 2.0], ..settings(&directory) };
    assert!(matches!(run(&live, &mut |_, _| ()), Err(OwsError::Loads)));
    let few = Settings { gops: 2, ..settings(&directory) };
    assert!(matches!(run(&few, &mut |_, _| ()), Err(OwsError::Short { gops: 2 })));
    let nowhere = Settings { tiled: vec!["no/such/place".into()], ..settings(&directory) };
    assert!(matches!(run(&nowhere, &mut |_, _| ()), Err(OwsError::Clip(ClipError::Open { .. }))));
    let settings = settings(&directory);
    let clips = clips(&settings, 1.0).unwrap();
    let twice = [clips[0].clone(), clips[0].clone()];
    assert!(matches!(paper(&twice, &settings), Err(OwsError::SameName(_))));
}
