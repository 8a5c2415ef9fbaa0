//! Viewings over both kinds of transport: what is planned arrives in order, what is late is not sent.

use core::time::Duration;
use std::cell::RefCell;
use std::rc::Rc;

use tributary_link::{Scenario, WorkloadSpec};
use tributary_types::Instant;

use super::*;
use crate::run::{Cell, TiledOutcome, TransportName};

/// The same messages for every plan; counts the calls.
#[derive(Debug)]
struct Fixed {
    sizes: Vec<u64>,
    replan: bool,
    calls: Rc<RefCell<Vec<(usize, usize, usize)>>>,
}

impl TilePlanner for Fixed {
    fn plan(&mut self, gop: usize, part: usize, records: &[GopRecord]) -> Option<Vec<TileMessage>> {
        self.calls.borrow_mut().push((gop, part, records.len()));
        let message = |(tile, bytes): (usize, &u64)| TileMessage { tile, choice: part, bytes: *bytes };
        (part == 0 || self.replan).then(|| self.sizes.iter().enumerate().map(message).collect())
    }
}

fn watch(scene: &str, transport: &str, sizes: &[u64], spec: TiledSpec) -> TiledOutcome {
    let mut scenario = Scenario::builtin(scene).unwrap();
    scenario.duration = spec.gop * (spec.gops as u32 + 1);
    let choice = TransportName::find(transport, None, &scenario.path_names()).unwrap();
    let cell = Cell::new(&scenario, &choice, "cubic", &WorkloadSpec::Bulk { size: None });
    let planner = Fixed { sizes: sizes.to_vec(), replan: spec.plans > 1, calls: Rc::default() };
    cell.run_tiled(&spec, Box::new(planner)).unwrap()
}

fn spec(gops: usize) -> TiledSpec {
    TiledSpec { gops, gop: Duration::from_millis(500), ..TiledSpec::default() }
}

#[test]
fn what_fits_arrives_whole_and_what_matters_first() {
    for transport in ["fbdt", "mptcp", "wifi"] {
        let sizes = [200_000, 0, 90_000, 300_000, 1];
        let outcome = watch("los", transport, &sizes, spec(3));
        assert_eq!(outcome.record.gops.len(), 3, "{transport}");
        for gop in &outcome.record.gops {
            assert!(gop.complete().is_some(), "{transport}: {gop:?}");
            assert_eq!(gop.bytes_in_time, sizes.iter().sum::<u64>(), "{transport}");
            let arrived = |at: usize| gop.planned[at].arrived.unwrap();
            assert!(arrived(0) <= arrived(3), "{transport}");
            assert_eq!(gop.deadline, gop.asked + Duration::from_millis(500));
        }
    }
}

#[test]
fn too_much_is_cut_off_at_the_deadline_and_the_next_gop_is_not_delayed() {
    for transport in ["fbdt", "mptcp"] {
        // Three times what both radios carry in half a second.
        let outcome = watch("los", transport, &[1_200_000; 30], spec(4));
        for gop in &outcome.record.gops[1..] {
            let in_time = gop.in_time().count();
            assert!((3..=9).contains(&in_time), "{transport}: {in_time}");
            let first = gop.planned[0].arrived.unwrap().saturating_since(gop.asked);
            assert!(first < Duration::from_millis(250), "{transport}: {first:?}");
            assert!(gop.planned[20..].iter().all(|planned| planned.arrived.is_none()));
        }
    }
}

#[test]
fn a_later_plan_replaces_what_has_not_begun() {
    let outcome = watch("los", "fbdt", &[1_200_000; 30], TiledSpec { plans: 2, ..spec(2) });
    let gop = &outcome.record.gops[1];
    assert_eq!(gop.planned.len(), 60);
    assert!(gop.planned[..30].iter().any(|planned| planned.withdrawn && planned.arrived.is_none()));
    assert!(gop.planned[..3].iter().all(|planned| !planned.withdrawn));
    assert!(gop.in_time().any(|message| message.choice == 1));
}

#[test]
fn plans_know_the_past_alone_and_the_same_viewing_comes_out_the_same() {
    let calls = Rc::new(RefCell::new(Vec::new()));
    let mut scenario = Scenario::builtin("mobility").unwrap();
    scenario.duration = Duration::from_secs(2);
    let choice = TransportName::find("fbdt", None, &scenario.path_names()).unwrap();
    let cell = Cell::new(&scenario, &choice, "cubic", &WorkloadSpec::Bulk { size: None });
    let run = || {
        let planner = Fixed { sizes: vec![300_000; 9], replan: true, calls: calls.clone() };
        let spec = TiledSpec { plans: 2, from: Instant::from_millis(300), ..spec(3) };
        cell.run_tiled(&spec, Box::new(planner)).unwrap()
    };
    let first = run();
    assert_eq!(*calls.borrow(), [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2), (2, 0, 2), (2, 1, 3)]);
    assert_eq!(first.record.started, Some(Instant::from_millis(300)));
    assert_eq!(run(), first);
}
