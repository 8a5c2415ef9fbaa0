//! A tiny reproduction from end to end.

use super::*;

fn settings() -> Settings {
    Settings {
        tiled: Vec::new(),
        heads: None,
        viewings: 2,
        aside: 1,
        gops: 4,
        load: 0.2, // little to simulate
        jobs: None,
        command: "tributary reproduce ows".to_owned(),
    }
}

#[test]
fn a_reproduction_is_judged_rendered_and_repeatable() {
    let outcome = run(&settings(), &mut |_, _| ()).unwrap();
    // Four main pairs, and aside eleven and three in black, of two clips in three scenes.
    assert_eq!(outcome.viewings.len(), 2 * 3 * (2 * 4 + 14));
    let claims = &outcome.reproduction.claims;
    assert!(claims.iter().all(|claim| claim.measured.is_some()), "{claims:#?}");
    assert!(claims.iter().any(|claim| claim.paper == Some(13.0)));
    for viewed in &outcome.viewings {
        assert_eq!(viewed.errors.len(), 2);
        assert!(viewed.mean_db > 20.0 && viewed.late_percent <= 100.0, "{viewed:?}");
        if !["ows", "ows-updated"].contains(&viewed.allocator) {
            assert_eq!(viewed.left_out_percent, 0.0, "{viewed:?}");
        }
    }
    let drawings = drawings(&outcome);
    assert!(
        drawings.len() == 3
            && drawings.iter().all(|(_, svg)| svg.ends_with("</svg>\n") || svg.ends_with("</svg>"))
    );
    let page = render(&outcome);
    assert!(page.contains("Where the gain comes from") && page.contains("drawn-moving"));
    assert!(markdown(&outcome).contains("| transport |"));
    let json = serde_json::to_value(&outcome).unwrap();
    assert!(json["claims"].as_array().unwrap().len() > 20 && json["curve"][0]["mean_db"].is_number());
    // Fewer viewings, and none aside: those that are left come out the same.
    let again = run(&Settings { viewings: 1, aside: 0, ..settings() }, &mut |_, _| ()).unwrap();
    assert_eq!(again.viewings.len(), 2 * 3 * 4);
    assert!(again.viewings.iter().all(|viewed| outcome.viewings.contains(viewed)));
}

#[test]
fn what_cannot_be_run_is_refused() {
    let few = Settings { gops: 2, ..settings() };
    assert!(matches!(run(&few, &mut |_, _| ()), Err(OwsError::Short { gops: 2 })));
    let nowhere = Settings { tiled: vec!["no/such/place".into()], ..settings() };
    assert!(matches!(run(&nowhere, &mut |_, _| ()), Err(OwsError::Clip(ClipError::Open { .. }))));
}
