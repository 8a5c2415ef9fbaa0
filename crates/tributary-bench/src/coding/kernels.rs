//! Products of every kernel tier, and block codes compared with other libraries using the same matrix.

use super::contest::{Contest, Entrant};
use super::isal::Isal;
use super::{Data, RING, SYMBOL, blocks, copier, places};
use core::hint::black_box;
use tributary_coding::erasure::Erasure;
use tributary_coding::{Kernel, Tier};

const INPUTS: usize = 128;
const PEAK: &str = "in-register peak";
const TWELVE: &str = "12 outputs of 128 inputs";

/// Product bytes (input bytes times outputs) of every tier, compared with memcpy and the tier's own peak.
pub(super) fn products(rounds: u32, _: bool) -> Vec<Contest> {
    let data = Data::new(INPUTS);
    let sets = data.slices();
    let tier = |kernel: Kernel| {
        let mut entrants = vec![copier(&sets)];
        entrants.push(Entrant::new(PEAK, move |_| kernel.peak(2000)));
        for rows in [1, 3, 6, 12] {
            let matrix: Vec<u8> = (0..rows * INPUTS).map(|i| (i * 7 + 3) as u8).collect();
            let (mut outputs, sets) = (blocks(rows), &sets);
            entrants.push(Entrant::new(format!("{rows} outputs of {INPUTS} inputs"), move |i| {
                kernel.multiply(&mut places(&mut outputs), &matrix, &sets[i % RING]);
                black_box(&outputs);
                rows * INPUTS * SYMBOL
            }));
        }
        let name = kernel.tier().name();
        let mut contest = Contest::hold(&format!("products, {name}"), rounds, entrants);
        let is_fast = matches!(kernel.tier(), Tier::Avx512Gfni | Tier::VexGfni);
        contest.aim(TWELVE, "memcpy", (kernel.tier() == Tier::Avx512Gfni).then_some(4.5));
        contest.aim(TWELVE, PEAK, (!is_fast && kernel.tier() != Tier::Portable).then_some(0.8));
        contest
    };
    Kernel::available().map(tier).collect()
}

/// The same matrix and the same blocks.
pub(super) fn block_codes((data, parity): (usize, usize), rounds: u32, of_memcpy: Option<f64>) -> Contest {
    let input = Data::new(data);
    let sets = input.slices();
    let code = Erasure::new(data, parity).expect("a shape");
    let matrix: Vec<u8> = (0..parity).flat_map(|row| code.row(row)).copied().collect();
    let identity = (0..data * data).map(|i| u8::from(i / data == i % data));
    let whole: Vec<u8> = identity.chain(matrix.iter().copied()).collect();
    let peer_matrix = rusty_erasure::Matrix::from_bytes(data + parity, data, whole).expect("a matrix");
    let rusty = rusty_erasure::coder(peer_matrix).expect("a coder");
    let isal = Isal::load(&matrix, data, parity);
    let mut expected = blocks(parity);
    code.encode(&sets[0], &mut places(&mut expected)).expect("its blocks");
    let mut check = blocks(parity);
    rusty.encode(&sets[0], &mut places(&mut check)).expect("its blocks");
    assert_eq!(check, expected, "rusty_erasure makes other parity");

    let (mut own, mut theirs, mut other) = (blocks(parity), blocks(parity), blocks(parity));
    let mut entrants = vec![copier(&sets)];
    let sets = &sets;
    entrants.push(Entrant::new("tributary", |i| {
        code.encode(&sets[i % RING], &mut places(&mut own)).expect("its blocks");
        data * SYMBOL
    }));
    entrants.push(Entrant::new("rusty_erasure", |i| {
        rusty.encode(&sets[i % RING], &mut places(&mut theirs)).expect("its blocks");
        data * SYMBOL
    }));
    if let Some(isal) = &isal {
        isal.encode(&sets[0], &mut places(&mut check));
        assert_eq!(check, expected, "ISA-L makes other parity");
        entrants.push(Entrant::new("isa-l", |i| {
            isal.encode(&sets[i % RING], &mut places(&mut other));
            data * SYMBOL
        }));
    }
    let title = format!("encode {data} blocks + {parity} parity, input bytes");
    let mut contest = Contest::hold(&title, rounds, entrants);
    contest.aim("tributary", "memcpy", of_memcpy);
    let better = contest.fastest(&["rusty_erasure", "isa-l"]);
    contest.aim("tributary", better.unwrap_or_default(), Some(1.0));
    contest
}
