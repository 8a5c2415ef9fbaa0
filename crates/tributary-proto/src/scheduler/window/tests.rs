//! Every segment is taken exactly once under any interleaving, and the split is that of the paper's equation 1.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tributary_types::{DataSeq, SubflowId};

use super::{Role, TransmissionWindow};

fn role(subflow: u32, of: u32) -> Role {
    match subflow {
        0 => Role::Forward,
        s if s + 1 == of => Role::Backward,
        _ => Role::Inside,
    }
}

proptest! {
    #[test]
    fn every_segment_is_taken_exactly_once(
        subflows in 1..9_u32,
        length in 0..300_u64,
        turns in prop::collection::vec((0..8_u32, any::<bool>()), 0..900),
    ) {
        let (first, end) = (DataSeq(17), DataSeq(17 + length));
        let mut window = TransmissionWindow::new(first, end);
        let mut taken = BTreeSet::new();
        for (subflow, leaves) in turns {
            let subflow = subflow % subflows;
            if leaves {
                window.release(SubflowId(subflow));
            }
            match window.take(SubflowId(subflow), role(subflow, subflows)) {
                Some(seq) => prop_assert!(seq >= first && seq < end && taken.insert(seq), "{seq} twice"),
                None => prop_assert!(window.met()),
            }
            prop_assert_eq!(window.remaining(), length - taken.len() as u64);
        }
        while let Some(seq) = window.take(SubflowId(0), Role::Forward) {
            prop_assert!(taken.insert(seq));
        }
        prop_assert_eq!(taken.len() as u64, length);
    }
}

#[test]
fn two_cursors_meet_where_the_rates_put_them() {
    // FBDT eq. 1: with rates 1 : 3, a quarter of the window goes forward.
    let mut window = TransmissionWindow::new(DataSeq(0), DataSeq(64));
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    while !window.met() {
        forward.extend(window.take(SubflowId(0), Role::Forward));
        for _ in 0..3 {
            backward.extend(window.take(SubflowId(1), Role::Backward));
        }
    }
    assert_eq!(forward, (0..16).map(DataSeq).collect::<Vec<_>>());
    assert_eq!(backward, (16..64).rev().map(DataSeq).collect::<Vec<_>>());
}

#[test]
fn a_third_subflow_starts_in_the_middle_of_the_largest_gap() {
    let mut window = TransmissionWindow::new(DataSeq(0), DataSeq(30));
    assert_eq!(window.take(SubflowId(0), Role::Forward), Some(DataSeq(0)));
    assert_eq!(window.take(SubflowId(1), Role::Backward), Some(DataSeq(29)));
    assert_eq!(window.take(SubflowId(2), Role::Inside), Some(DataSeq(15)));
    assert_eq!(window.take(SubflowId(2), Role::Inside), Some(DataSeq(16)));
    assert_eq!(window.take(SubflowId(0), Role::Forward), Some(DataSeq(1)));
}
