//! Reassembly against an obviously correct map of bytes, arrivals against a plain set.

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;
use tributary_types::DataSeq;

use super::{ArrivedNumbers, MOST_BLOCKS, Pins, RecvStream};

fn content(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 7) as u8
}

proptest! {
    // With a scale of 1 all pieces are short enough to be copied; with 100 the long ones pin their receive blocks.
    #[test]
    fn reassembly_agrees_with_a_byte_map(
        pieces in prop::collection::vec((0..400_usize, 0..60_usize), 0..80),
        scale in prop::sample::select(vec![1_usize, 100]),
        reads in any::<bool>(),
        most in prop::sample::select(vec![7_usize, usize::MAX]),
    ) {
        let (mut stream, mut pins) = (RecvStream::new(u64::MAX), Pins::default());
        let mut held = vec![false; 460 * scale];
        let mut read = Vec::new();
        for (offset, length) in pieces {
            let range = offset * scale..(offset + length) * scale;
            let bytes: Vec<u8> = range.clone().map(|o| content(o as u64)).collect();
            let new = held[range.clone()].iter().filter(|held| !**held).count();
            held[range.clone()].fill(true);
            pins.begin();
            let got = stream.insert(range.start as u64, Bytes::from(bytes), &mut pins);
            prop_assert_eq!(got.new, new);
            prop_assert!(pins.blocks() <= MOST_BLOCKS);
            while reads && let Some(chunk) = stream.read(&mut pins, most) {
                read.extend_from_slice(&chunk);
            }
        }
        while let Some(chunk) = stream.read(&mut pins, most) {
            read.extend_from_slice(&chunk);
        }
        let in_order = held.iter().take_while(|held| **held).count();
        let expected: Vec<u8> = (0..in_order as u64).map(content).collect();
        prop_assert_eq!(read, expected);
        prop_assert!(stream.ahead() <= 80);
        let waiting = held.iter().filter(|held| **held).count() - in_order;
        prop_assert_eq!(stream.waiting() as usize, waiting);
        prop_assert_eq!(stream.discard(&mut pins) as usize, waiting);
        prop_assert_eq!(pins.blocks(), 0);
    }

    #[test]
    fn arrivals_agree_with_a_set(numbers in prop::collection::vec(0..200_u64, 0..400)) {
        let mut arrivals = ArrivedNumbers::default();
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
