//! A tiny reproduction from end to end.

use super::*;
use crate::reproduce::Page;

fn settings(directory: &tempfile::TempDir) -> Settings {
    Settings {
        world: World::Sim,
        tiled: Vec::new(),
        heads: None,
        viewings: 2,
        aside: 1,
        gops: 4,
        load: 0.2, // keeps the simulation short
        networks: Vec::new(),
        jobs: None,
        resume: true,
        directory: directory.path().to_owned(),
        command: "tributary-lab reproduce ows".to_owned(),
    }
}

#[test]
fn a_reproduction_is_judged_rendered_and_repeatable() {
    let directory = tempfile::tempdir().unwrap();
    let Reproduced { paper, outcome, .. } = run(&settings(&directory), &mut |_, _| ()).unwrap();
    let of = |transport: &str| {
        outcome.samples.iter().filter(|s| s.labels["transport"] == transport).collect::<Vec<_>>()
    };
    // For each of two clips: four main pairs of transport and allocator in five scenes with two viewings; seventeen others, and
    // three with black concealment, in five scenes with one viewing; two connection times; and known capacity with
    // three allocators at nine rates.
    assert_eq!(of("mptcp").len() + of("fbdt").len(), 2 * (4 * 2 * 5 + 5 * 20) + 2);
    assert_eq!(of("certain").len(), 3 * 9 * 2);
    let claims = &outcome.reproduction.claims;
    // Six claims of gain in each scene, four about the other allocators, two about late tiles, and two about connecting.
    assert_eq!(claims.len(), 6 * 5 + 4 + 2 + 2);
    assert!(claims.iter().all(|claim| claim.measured.is_some()), "{claims:#?}");
    assert!(claims.iter().any(|claim| claim.paper == Some(13.0)));
    for sample in outcome.samples.iter().filter(|s| s.labels.contains_key("concealment")) {
        let number = |name: &str| sample.metrics[name][0];
        assert_eq!(sample.metrics["errors"].len(), 2);
        assert!(number("quality") > 20.0 && number("late") <= 100.0, "{sample:?}");
        if !["ows", "ows-updated", "ows-known"].contains(&sample.labels["allocator"].as_str()) {
            assert_eq!(number("left_out"), 0.0, "{sample:?}");
        }
    }
    let page = Page::new(&paper, &outcome);
    let drawings = page.drawings();
    assert!(drawings.len() == 3 && drawings.iter().all(|(_, svg)| svg.trim_end().ends_with("</svg>")));
    let html = page.html();
    assert!(html.contains("step by step") && html.contains("drawn-moving"));
    assert!(page.markdown().contains("| transport |"));
    // With fewer viewings, and without other allocators, the remaining results are the same.
    let fresh = tempfile::tempdir().unwrap();
    let fewer = Settings { viewings: 1, aside: 0, ..settings(&fresh) };
    let again = run(&fewer, &mut |_, _| ()).unwrap().outcome;
    assert_eq!(again.samples.len(), 2 * 4 * 5 + 2);
    assert!(again.samples.iter().all(|sample| outcome.samples.contains(sample)));
}

#[test]
fn added_networks_are_runs_with_loads_relative_to_their_capacity() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("walk.toml");
    let path = |name: &str, rate: &str| format!("[[path]]\nname = \"{name}\"\ndown.rate = \"{rate}\"\n");
    let paths = path("a", "20 Mbit/s") + &path("b", "4 Mbit/s");
    std::fs::write(&file, format!("name = \"walk\"\nduration = \"20 s\"\nrtt = \"30 ms\"\n{paths}")).unwrap();
    let networks = vec!["normal".to_owned(), file.to_str().unwrap().to_owned()];
    let settings = Settings { viewings: 1, aside: 0, networks, ..settings(&directory) };
    let Reproduced { paper, outcome, .. } = run(&settings, &mut |_, _| ()).unwrap();
    let of = |network: &str| {
        outcome.samples.iter().filter(|s| s.labels["scenario"] == network).collect::<Vec<_>>()
    };
    // Ten chains and two clips.
    let [first, second] = [0, 1].map(|network: usize| of(&settings.networks[network]));
    assert_eq!((first.len(), second.len()), (20, 20));
    // The finest quality has a fifth of the capacity, 3 Mbyte/s, so everything is in time soon.
    let most = second.iter().map(|sample| sample.metrics["in_time"][0]).fold(0.0, f64::max);
    assert!((0.4..0.7).contains(&most), "{most} MB of 0.6 in a GoP");
    let claims = outcome.reproduction.claims.iter().filter(|claim| claim.id.starts_with("networks-"));
    let claims: Vec<_> = claims.collect();
    assert_eq!(claims.len(), 5);
    assert!(claims.iter().all(|claim| claim.measured.is_some()), "{claims:#?}");
    let page = Page::new(&paper, &outcome);
    assert!(page.markdown().contains("| walk |"));
    assert!(page.drawings().iter().any(|(name, _)| name == "ows-networks"));
    let absent = Settings { networks: vec!["no/such.toml".to_owned()], ..settings };
    assert!(matches!(run(&absent, &mut |_, _| ()), Err(OwsError::Scenario(_))));
}

#[test]
fn impossible_settings_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let few = Settings { gops: 2, ..settings(&directory) };
    assert!(matches!(run(&few, &mut |_, _| ()), Err(OwsError::Short { gops: 2 })));
    let nowhere = Settings { tiled: vec!["no/such/place".into()], ..settings(&directory) };
    assert!(matches!(run(&nowhere, &mut |_, _| ()), Err(OwsError::Clip(ClipError::Open { .. }))));
    let settings = settings(&directory);
    let clips = clips(&settings).unwrap();
    let twice = [clips[0].clone(), clips[0].clone()];
    assert!(matches!(paper(&twice, &settings), Err(OwsError::SameName(_))));
}
