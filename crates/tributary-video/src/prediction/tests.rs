//! Predictions of invented viewers and, if the data sets are beside the checkout, of real ones.

use proptest::prelude::*;

use super::*;
use crate::head::HeadSample;
use crate::projection::Projection;
use crate::sphere::Orientation;
use crate::tiles::TileGrid;
use crate::viewport::FieldOfView;

const CLOCK: GopClock = GopClock { gop_duration_s: 1.0, gops: 8, moments: 3 };

fn viewer() -> Viewer {
    Viewer::new(FieldOfView::default(), grid())
}

fn grid() -> TileGrid {
    TileGrid::new(8, 4, Projection::Equirectangular).expect("a grid")
}

/// A head that turns steadily.
fn turning(start_deg: f64, per_second_deg: f64) -> HeadTrace {
    let sample = |at: usize| {
        let time_s = at as f64 * 0.1;
        let orientation = Orientation::from_degrees(start_deg + per_second_deg * time_s, 0.0, 0.0);
        HeadSample { time_s, orientation }
    };
    HeadTrace::from_samples((0..=80).map(sample).collect()).expect("a trace")
}

fn viewing(start_deg: f64) -> Viewing {
    Viewing::of(&turning(start_deg, 0.0), &viewer(), CLOCK).expect("long enough")
}

#[test]
fn a_viewer_is_left_out_of_their_own_prediction() {
    let population =
        Population::new(vec![viewing(0.0), viewing(0.0), viewing(180.0)]).expect("the same GoPs and tiles");
    let (behind, ahead) = (grid().columns() * 2, grid().columns() * 2 + 4);
    let all = population.outlook(0, None);
    assert!((all[behind].seen - 1.5 / 4.0).abs() < 1e-12);
    let others = population.outlook(0, Some(2));
    assert!((others[behind].seen - 0.5 / 3.0).abs() < 1e-12 && others[behind].share == 0.0);
    assert!((others[ahead].seen - 2.5 / 3.0).abs() < 1e-12);
    let shares: f64 = others.iter().map(|tile| tile.share).sum();
    assert!((shares - 1.0).abs() < 1e-9);
    assert!(Population::new(vec![viewing(0.0)]).expect("one").outlook(0, Some(0)).is_empty());
}

#[test]
fn similar_viewers_predict_best() {
    // Two viewers who look ahead and then apart, and one who always looks behind.
    let traces = [turning(0.0, 0.0), turning(0.0, 0.0), turning(180.0, 0.0)];
    let weights = similarity(traces[0].at(1.0), &traces[1..], 1.0);
    assert_eq!(weights[0], 1.0);
    assert!(weights[1] > 0.0 && weights[1] < 0.05, "{weights:?}");
    let viewings = traces.iter().map(|trace| Viewing::of(trace, &viewer(), CLOCK).expect("long enough"));
    let population = Population::new(viewings.collect()).expect("the same GoPs and tiles");
    let own = population.viewings()[0].gop(3);
    let asked = population.outlook_weighted(3, &[0.0, weights[0], weights[1]]);
    assert!(share_distance(&asked, own) < 0.05);
    assert!(share_distance(&population.outlook(3, Some(0)), own) > 0.4);
    assert!((asked.iter().map(|tile| tile.share).sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(asked.iter().all(|tile| (0.0..=1.0).contains(&tile.seen)));
    assert!(population.outlook_weighted(3, &[0.0; 3]).is_empty());
}

#[test]
fn viewers_of_different_videos_do_not_mix() {
    let short = GopClock { gops: 4, ..CLOCK };
    let other = Viewing::of(&turning(0.0, 0.0), &viewer(), short).expect("long enough");
    let error = Population::new(vec![viewing(0.0), other]).expect_err("they differ").to_string();
    assert!(error.contains("viewer 1 has 128 values and the first 256"), "{error}");
    let long = GopClock { gops: 20, ..CLOCK };
    assert!(matches!(Viewing::of(&turning(0.0, 0.0), &viewer(), long), Err(TraceError::Short { .. })));
}

#[test]
fn calibration_by_hand() {
    let mut calibration = Calibration::new(2);
    for (probability, seen) in [(0.25, false), (0.25, true), (1.0, true), (0.5, true)] {
        calibration.add(probability, seen);
    }
    assert!((calibration.brier() - (0.0625 + 0.5625 + 0.0 + 0.25) / 4.0).abs() < 1e-12);
    let loss = -(libm::log(0.75) + libm::log(0.25) + libm::log(0.999) + libm::log(0.5)) / 4.0;
    assert!((calibration.log_loss() - loss).abs() < 1e-12);
    let bins = calibration.reliability();
    assert_eq!(bins[0], ReliabilityBin { count: 2, predicted: 0.25, observed: 0.5 });
    assert_eq!(bins[1], ReliabilityBin { count: 2, predicted: 0.75, observed: 1.0 });
    assert!((calibration.calibration_error() - 0.25).abs() < 1e-12);
    assert_eq!(Calibration::new(0).brier(), 0.0);
}

/// The mean share of the viewport expected in the wrong place, over all GoPs that can be predicted.
fn mistaken(settings: LiveSettings, trace: &HeadTrace) -> f64 {
    let live = Live::new(settings, FieldOfView::default(), grid());
    let seen = Viewing::of(trace, &viewer(), CLOCK).expect("long enough");
    let one = |gop: usize| {
        let outlook = live.outlook(trace, gop as f64 - 0.5, (CLOCK, gop), &[]);
        share_distance(&outlook, seen.gop(gop))
    };
    (1..CLOCK.gops).map(one).sum::<f64>() / (CLOCK.gops - 1) as f64
}

#[test]
fn a_steady_head_is_predicted() {
    let sharp = LiveSettings { spread_deg: 0.0, damping_s: 1e9, ..LiveSettings::default() };
    let still = LiveSettings { motion: Motion::Still, ..sharp };
    assert!(mistaken(still, &turning(30.0, 0.0)) < 0.05);
    // Also across the seam behind: 60° per second from 100°.
    let (linear, still) = (mistaken(sharp, &turning(100.0, 60.0)), mistaken(still, &turning(100.0, 60.0)));
    assert!(linear < 0.05 && still > 0.3, "{linear} {still}");
}

#[test]
fn the_future_is_not_read() {
    let live = Live::new(LiveSettings::default(), FieldOfView::default(), grid());
    let whole = turning(0.0, 40.0);
    let known = HeadTrace::from_samples(whole.samples()[..=25].to_vec()).expect("a trace");
    let ask = |trace: &HeadTrace| live.outlook(trace, 2.5, (CLOCK, 4), &[]);
    assert_eq!(ask(&whole), ask(&known));
}

#[test]
fn far_ahead_the_crowd_decides() {
    let crowd = vec![TileOutlook { seen: 0.125, share: 1.0 / 32.0 }; 32];
    let live = Live::new(LiveSettings::default(), FieldOfView::default(), grid());
    let distance = |gop: usize| {
        let outlook = live.outlook(&turning(0.0, 0.0), 0.2, (CLOCK, gop), &crowd);
        outlook.iter().zip(&crowd).map(|(a, b)| (a.share - b.share).abs()).sum::<f64>()
    };
    assert!(distance(7) < 0.6 * distance(1));
    let alone = LiveSettings { crowd_s: 0.0, ..LiveSettings::default() };
    let live = Live::new(alone, FieldOfView::default(), grid());
    let outlook = live.outlook(&turning(0.0, 0.0), 0.2, (CLOCK, 1), &crowd);
    assert!(outlook.iter().zip(&crowd).all(|(a, b)| (a.seen - b.seen).abs() < 1e-6));
}

proptest! {
    #[test]
    fn outlooks_are_probabilities(
        start in -180.0f64..180.0,
        rate in -300.0f64..300.0,
        now_s in 0.0f64..9.0,
        gop in 0usize..8,
        spread_deg in 0.0f64..200.0,
    ) {
        let settings = LiveSettings { spread_deg, ..LiveSettings::default() };
        let live = Live::new(settings, FieldOfView::default(), grid());
        let outlook = live.outlook(&turning(start, rate), now_s, (CLOCK, gop), &[]);
        prop_assert!(outlook.iter().all(|tile| (0.0..=1.0).contains(&tile.seen) && tile.share >= 0.0));
        prop_assert!((outlook.iter().map(|tile| tile.share).sum::<f64>() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn calibration_accepts_any_input(probability in any::<f64>(), seen in any::<bool>()) {
        let mut calibration = Calibration::new(10);
        calibration.add(probability, seen);
        prop_assert!((0.0..=1.0).contains(&calibration.brier()) && calibration.log_loss().is_finite());
    }
}
