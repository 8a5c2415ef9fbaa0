//! Block erasure codes: any choice of enough blocks restores the others, with every kernel.

use proptest::prelude::*;
use tributary_coding::erasure::{Erasure, cauchy};
use tributary_coding::{Kernel, mul};
use tributary_types::Rng;

fn story(kernel: Kernel, (data, parity, length): (usize, usize, usize), seed: u64) {
    let mut rng = Rng::new(seed);
    let code = Erasure::with_kernel(data, parity, kernel).expect("a shape");
    let sources: Vec<Vec<u8>> =
        (0..data).map(|_| (0..length).map(|_| rng.next_u64() as u8).collect()).collect();
    let mut made = vec![vec![0; length]; parity];
    let inputs: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    code.encode(&inputs, &mut made.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>())
        .expect("its blocks");
    for (row, block) in made.iter().enumerate() {
        for (at, byte) in block.iter().enumerate() {
            let term = |(i, source): (usize, &Vec<u8>)| mul(cauchy(row, i).expect("in range"), source[at]);
            assert_eq!(*byte, sources.iter().enumerate().map(term).fold(0, |sum, term| sum ^ term));
        }
    }
    let whole: Vec<Option<Vec<u8>>> = sources.into_iter().chain(made).map(Some).collect();
    let mut blocks = whole.clone();
    for _ in 0..parity {
        let lost = rng.below(blocks.len() as u64) as usize;
        blocks[lost] = None;
    }
    code.reconstruct(&mut blocks).expect("enough is left");
    assert_eq!(blocks, whole, "{}", kernel.tier().name());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_choice_of_enough_blocks_gives_the_others(
        seed: u64, data in 1_usize..40, parity in 0_usize..12, length in 0_usize..150,
    ) {
        for kernel in Kernel::available() {
            story(kernel, (data, parity, length), seed);
        }
    }
}

#[test]
fn the_largest_systematic_code_works() {
    story(Kernel::best(), (192, 63, 33), 1);
}
