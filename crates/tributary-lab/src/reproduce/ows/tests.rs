//! A tiny reproduction from end to end, and plans.

use super::audience::Watched;
use super::planner::Planner;
use super::*;
use tributary_sim::workload::tiled::{PARTS, TilePlanner};
use tributary_video::prediction::TileOutlook;
use tributary_video::rd::Concealment;

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

#[test]
fn plans_keep_to_what_was_carried_and_send_the_view_first() {
    let clip = Arc::new(Clip::drawn(20e6).unwrap().remove(0));
    let tiles = clip.info.tiles;
    let outlook: Vec<TileOutlook> = (0..tiles)
        .map(|tile| if tile == 9 { TileOutlook { seen: 1.0, share: 1.0 } } else { TileOutlook::default() })
        .collect();
    let watched = Arc::new(Watched {
        outlooks: vec![vec![outlook]],
        later: vec![vec![vec![TileOutlook::default(); tiles]]],
        heads: Vec::new(),
        first: 0,
        views: Vec::new(),
    });
    let mut planner = Planner::new(
        "ows",
        clip.clone(),
        watched.clone(),
        Concealment::Freeze,
        &[[5e5; PARTS], [6e5; PARTS]],
    )
    .unwrap();
    let plan = planner.plan(0, 0, &[]).unwrap();
    assert_eq!(plan[0].tile, 9);
    assert!(plan.iter().map(|message| message.bytes).sum::<u64>() <= 5_000_000);
    assert!(Planner::new("none", clip, watched, Concealment::Freeze, &[]).is_err());
}
