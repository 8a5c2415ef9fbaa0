//! Reassembly against an obviously correct map of bytes, and its worst cost.

use bytes::Bytes;
use proptest::prelude::*;

use super::{MOST_BLOCKS, Pins, RecvStream};
use crate::work::steps;

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
        let (mut stream, mut pins) = (RecvStream::new(u64::MAX / 4, u64::MAX / 2), Pins::default());
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
}

/// Pieces of one byte, from the middle outwards, so that each is put between others.
#[test]
fn a_piece_between_many_others_takes_few_steps() {
    let (mut stream, mut pins) = (RecvStream::new(u64::MAX / 4, u64::MAX / 2), Pins::default());
    let count = 30_000;
    let order = (0..count).map(|i| if i % 2 == 0 { count + i } else { count - i });
    for offset in order {
        pins.begin();
        let steps = steps(|| {
            stream.insert(1 + 2 * offset, Bytes::from_static(&[1]), &mut pins);
        });
        assert!(steps <= 1, "{steps} steps");
    }
    assert_eq!(stream.ahead(), count as usize);
    // In-order bytes take no step through the map.
    let mut stream = RecvStream::new(u64::MAX / 4, u64::MAX / 2);
    let steps = steps(|| {
        for offset in 0..1000 {
            stream.insert(offset, Bytes::from_static(&[1]), &mut pins);
        }
    });
    assert_eq!((steps, stream.ahead()), (0, 0));
}
