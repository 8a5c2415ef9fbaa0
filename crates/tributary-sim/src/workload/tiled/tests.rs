//! Viewings over both kinds of transport: planned tiles arrive, and late data is not sent.

use core::time::Duration;
use std::sync::Arc;

use tributary_link::{Scenario, WorkloadSpec};
use tributary_player::tiled::{End, Planner, PlayerSettings, SlotRecord, allocator};
use tributary_types::{Bitrate, Instant};
use tributary_video::allocation::Sharing;
use tributary_video::head::{HeadSample, HeadTrace};
use tributary_video::projection::Projection;
use tributary_video::rd::{Concealment, RdTable, TableLayout, TileCells};
use tributary_video::sphere::Orientation;
use tributary_video::tiles::TileGrid;
use tributary_video::viewport::FieldOfView;

use super::*;
use crate::run::{SimRun, TiledOutcome, TransportName, Viewers};

const TILES: usize = 8;

fn table(sizes: [u64; 3]) -> Arc<RdTable> {
    let grid = TileGrid::new(4, 2, Projection::Equirectangular).unwrap();
    let layout = TableLayout { grid, width: 64, height: 32, gop_duration_s: 0.5, qps: vec![22, 32, 42] };
    let cells =
        TileCells { bytes: sizes.to_vec(), mse: vec![4.0, 20.0, 90.0], freeze_mse: 600.0, black_mse: 9000.0 };
    Arc::new(RdTable::new(layout, vec![cells; 3 * TILES]).unwrap())
}

/// A viewer of half-second GoPs, who requests the start at 0.3 s and looks in one direction.
fn viewer((name, plans): (&str, u16), sizes: [u64; 3], seconds: u32) -> TiledSpec {
    let at = |time_s| HeadSample { time_s, orientation: Orientation::default() };
    let planner = Planner {
        allocator: allocator(name, plans, false).unwrap(),
        field: FieldOfView::default(),
        trace: HeadTrace::from_samples(vec![at(0.0), at(1.0)]).unwrap(),
        crowd: Vec::new(),
        concealment: Concealment::Freeze,
    };
    let settings = PlayerSettings::new(Some(seconds), Bitrate::from_mbps(100), plans);
    TiledSpec { table: table(sizes), settings, planner, from: Instant::from_millis(300) }
}

fn over(scene: &str, transport: &str, millis: u64) -> SimRun {
    let mut scenario = Scenario::builtin(scene).unwrap();
    scenario.duration = Duration::from_millis(millis);
    let choice = TransportName::find(transport, None, &scenario.path_names()).unwrap();
    SimRun::new(&scenario, &choice, "cubic", &WorkloadSpec::Bulk { size: None })
}

/// Six GoPs.
fn watch(scene: &str, transport: &str, plans: (&str, u16), sizes: [u64; 3]) -> TiledOutcome {
    over(scene, transport, 4000).run_tiled(viewer(plans, sizes, 3)).unwrap()
}

#[test]
fn tiles_that_fit_arrive_in_time_over_every_transport() {
    for transport in ["fbdt", "mptcp", "wifi"] {
        let outcome = watch("los", transport, ("fix", 1), [200_000, 90_000, 30_000]);
        assert_eq!((outcome.started, outcome.record.slots.len()), (Some(Instant::from_millis(300)), 6));
        assert_eq!(outcome.record.end, End::Complete, "{transport}");
        let whole = |slot: &SlotRecord| (0..TILES as u16).all(|tile| slot.in_time(tile).is_some());
        assert!(outcome.record.slots.iter().all(whole), "{transport}: {:?}", outcome.record.slots);
        // The time of one GoP and two round trips.
        let start_up = outcome.record.start_up_ms.unwrap();
        assert!((start_up - 500.0 - 2.0 * outcome.record.rtt_ms).abs() < 0.1, "{transport}: {start_up}");
        assert_eq!(outcome.pushed.expired, 0, "{transport}");
    }
}

#[test]
fn too_much_is_cut_off_at_the_deadline_and_the_next_gop_is_not_delayed() {
    for transport in ["fbdt", "mptcp"] {
        // The coarsest tiles are three times what both radios carry.
        let outcome = watch("los", transport, ("fix", 1), [4_000_005, 4_000_004, 4_000_003]);
        assert!(outcome.pushed.expired > 10, "{transport}: {:?}", outcome.pushed);
        for slot in &outcome.record.slots[1..] {
            let in_time = slot.arrived.iter().filter(|tile| tile.in_time).count();
            assert!((1..=4).contains(&in_time), "{transport}: {slot:?}");
        }
    }
}

/// A viewing's event log is the same on every machine. A change of the player, of a session or of another model changes it.
#[test]
fn a_viewing_is_the_run_that_it_was() {
    let found = GOLDEN.map(|(scene, transport, plans, _)| {
        let outcome = watch(scene, transport, plans, [800_000, 300_000, 100_000]);
        (scene, transport, plans, outcome.hash)
    });
    assert_eq!(found, GOLDEN, "hashes as they are now: {found:#x?}");
}

const GOLDEN: [(&str, &str, (&str, u16), u64); 3] = [
    ("deep-fade", "fbdt", ("ows", 4), 0x2aad_e3dd_278e_2044),
    ("mobility", "fbdt", ("ows-paper", 1), 0x35c0_9d0d_679a_bbf9),
    ("los", "mptcp", ("fix", 1), 0xc89d_abab_6a75_7139),
];

#[test]
fn a_repeated_viewing_is_identical_and_plans_again_while_a_gop_is_sent() {
    let run = || watch("deep-fade", "fbdt", ("ows", 4), [800_000, 300_000, 100_000]);
    let first = run();
    assert!(first.record.slots.iter().all(|slot| slot.plans > 1), "{:?}", first.record.slots);
    assert!(first.pushed.replaced > 0, "{:?}", first.pushed);
    assert_eq!(run(), first);
}

/// Sizes of which both radios carry about the middle ones, for one viewer.
const SIZES: [u64; 3] = [800_000, 300_000, 100_000];

fn rate(outcome: &TiledOutcome) -> f64 {
    outcome.record.slots[2..].iter().map(|slot| slot.bytes_in_time() as f64).sum()
}

#[test]
fn one_viewer_planned_by_the_server_is_the_viewing_that_it_was() {
    for (transport, plans) in [("fbdt", ("ows", 1)), ("mptcp", ("ows-paper", 1)), ("fbdt", ("ows", 4))] {
        let alone = watch("deep-fade", transport, plans, SIZES);
        for (sharing, own_links) in [(Sharing::Sum, false), (Sharing::MaxMin, true)] {
            let viewers = Viewers { own_links, sharing: Some(sharing) };
            let run = over("deep-fade", transport, 4000);
            let together = run.run_viewers(vec![viewer(plans, SIZES, 3)], viewers).unwrap();
            assert_eq!(together, std::slice::from_ref(&alone), "{transport} {plans:?} {sharing:?}");
        }
    }
}

#[test]
fn viewers_over_links_of_their_own_do_not_notice_each_other() {
    let alone = watch("deep-fade", "fbdt", ("ows", 4), SIZES);
    let run = |own_links| {
        let specs = [(); 2].map(|()| viewer(("ows", 4), SIZES, 3)).into();
        over("deep-fade", "fbdt", 4000).run_viewers(specs, Viewers { own_links, sharing: None }).unwrap()
    };
    assert_eq!(run(true)[0].record, alone.record);
    let shared = run(false);
    assert!(shared.iter().all(|outcome| rate(outcome) < 0.8 * rate(&alone)), "of {}", rate(&alone));
    assert!(shared.iter().map(rate).sum::<f64>() > 0.8 * rate(&alone));
}

#[test]
fn identical_viewers_get_equal_quality_for_themselves_and_together() {
    let objectives = [None, Some(Sharing::Sum), Some(Sharing::SumDb), Some(Sharing::MaxMin)];
    for (sharing, transport) in objectives.into_iter().flat_map(|s| ["fbdt", "mptcp"].map(|t| (s, t))) {
        let specs = (0..4).map(|_| viewer(("ows", 1), SIZES.map(|bytes| bytes / 4), 6)).collect();
        let viewers = Viewers { own_links: false, sharing };
        let all = over("los", transport, 7000).run_viewers(specs, viewers).unwrap();
        let rates: Vec<f64> = all.iter().map(rate).collect();
        let mean = rates.iter().sum::<f64>() / 4.0;
        let apart = rates.iter().map(|rate| (rate / mean - 1.0).abs()).fold(0.0, f64::max);
        assert!(apart < 0.15, "{transport} {sharing:?}: {rates:?}");
    }
}

#[test]
fn a_viewer_who_leaves_frees_his_share() {
    for sharing in [None, Some(Sharing::Sum), Some(Sharing::MaxMin)] {
        let specs =
            [3, 3, 3, 12].map(|seconds| viewer(("ows", 1), SIZES.map(|bytes| bytes * 2), seconds)).into();
        let viewers = Viewers { own_links: false, sharing };
        let all = over("los", "fbdt", 13_500).run_viewers(specs, viewers).unwrap();
        let lengths: Vec<usize> = all.iter().map(|outcome| outcome.record.slots.len()).collect();
        assert_eq!(lengths, [6, 6, 6, 24], "{sharing:?}");
        let slots = &all[3].record.slots;
        let mean = |slots: &[SlotRecord]| {
            slots.iter().map(|slot| slot.bytes_in_time() as f64).sum::<f64>() / slots.len() as f64
        };
        let (with, without) = (mean(&slots[2..6]), mean(&slots[16..]));
        assert!(without > 2.0 * with, "{sharing:?}: {with} and {without} bytes of a GoP");
    }
}
