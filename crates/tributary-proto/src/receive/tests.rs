//! Reassembly against an obviously correct map of bytes, arrivals against a plain set.

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;
use tributary_types::DataSeq;

use super::{Arrivals, RecvStream};

fn content(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 7) as u8
}

proptest! {
    #[test]
    fn reassembly_agrees_with_a_byte_map(pieces in prop::collection::vec((0..400_u64, 0..60_usize), 0..80)) {
        let mut stream = RecvStream::new(u64::MAX);
        let mut held = BTreeSet::new();
        let mut read = Vec::new();
        for (offset, length) in pieces {
            let bytes: Vec<u8> = (offset..offset + length as u64).map(content).collect();
            let new = (offset..offset + length as u64).filter(|o| held.insert(*o)).count();
            let got = stream.insert(offset, Bytes::from(bytes), offset % 2 == 0);
            prop_assert_eq!(got.new, new);
            while let Some(chunk) = stream.read() {
                read.extend_from_slice(&chunk);
            }
        }
        let in_order = (0..).take_while(|o| held.contains(o)).count();
        let expected: Vec<u8> = (0..in_order as u64).map(content).collect();
        prop_assert_eq!(read, expected);
        prop_assert!(stream.pieces().ahead <= 80);
        prop_assert_eq!(stream.discard() as usize, held.len() - in_order);
    }

    #[test]
    fn arrivals_agree_with_a_set(numbers in prop::collection::vec(0..200_u64, 0..400)) {
        let mut arrivals = Arrivals::default();
        let mut set = BTreeSet::new();
        for n in numbers {
            prop_assert_eq!(arrivals.contains(DataSeq(n)), set.contains(&n));
            prop_assert_eq!(arrivals.insert(DataSeq(n)), set.insert(n));
            let next = (0..).find(|i| !set.contains(i)).unwrap();
            prop_assert_eq!(arrivals.next(), DataSeq(next));
            let mut listed = BTreeSet::new();
            let mut edge = next;
            for (start, end) in arrivals.ranges() {
                prop_assert!(start.0 > edge && end > start, "ranges are apart and ascending");
                edge = end.0;
                listed.extend(start.0..end.0);
            }
            let above: BTreeSet<_> = set.iter().copied().filter(|i| *i > next).collect();
            prop_assert_eq!(listed, above);
        }
    }
}
