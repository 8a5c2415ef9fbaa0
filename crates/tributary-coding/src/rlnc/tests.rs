//! Property tests compared with textbook Gaussian elimination on whole payloads, one byte at a time.

use super::*;
use crate::field::{inverse, mul};
use crate::prf::CoefficientKey;
use proptest::prelude::*;
use tributary_types::Rng;

fn key() -> CoefficientKey {
    CoefficientKey::new([9; 32])
}

fn generation(symbols: usize, basis: Basis) -> Generation {
    Generation::new(key(), 77, symbols, basis).expect("a size")
}

fn symbols(rng: &mut Rng, count: usize) -> Vec<Vec<u8>> {
    let one = |rng: &mut Rng| {
        let length = 1 + rng.below(40) as usize;
        (0..length).map(|_| rng.next_u64() as u8).collect()
    };
    (0..count).map(|_| one(rng)).collect()
}

/// The symbols that the rows determine, with their values: elimination on whole rows with payloads.
fn naive(rows: &[(Vec<u8>, Vec<u8>)], n: usize) -> Vec<Option<Vec<u8>>> {
    let longest = rows.iter().map(|(_, payload)| payload.len()).max().unwrap_or(0);
    let join = |(row, payload): &(Vec<u8>, Vec<u8>)| {
        let mut whole = [row.as_slice(), payload].concat();
        whole.resize(n + longest, 0);
        whole
    };
    let mut rows: Vec<Vec<u8>> = rows.iter().map(join).collect();
    let mut done = 0;
    for column in 0..n {
        let Some(pivot) = (done..rows.len()).find(|row| rows[*row][column] != 0) else { continue };
        rows.swap(done, pivot);
        let scale = inverse(rows[done][column]).expect("not zero");
        rows[done].iter_mut().for_each(|x| *x = mul(scale, *x));
        let source = rows[done].clone();
        for (row, other) in rows.iter_mut().enumerate() {
            let scale = if row == done { 0 } else { other[column] };
            other.iter_mut().zip(&source).for_each(|(x, y)| *x ^= mul(scale, *y));
        }
        done += 1;
    }
    let mut known = vec![None; n];
    for row in rows {
        let places: Vec<usize> = (0..n).filter(|i| row[*i] != 0).collect();
        if let [only] = places[..] {
            known[only] = Some(row[n..].to_vec());
        }
    }
    known
}

fn without_padding(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)]
}

/// Sends a random choice of basis vectors and mixes in random order with losses. Checks after every packet
/// whether the generation decodes, and at the end which symbols are known.
fn story(seed: u64, n: usize, basis: Basis, loss: f64) {
    let mut rng = Rng::new(seed);
    let originals = symbols(&mut rng, n);
    let mut encoder = Encoder::new(generation(n, basis), originals.clone());
    let vectors: Vec<Vector> = match basis {
        Basis::Random => (0..n as u16 + 3).map(Vector::Random).collect(),
        Basis::Systematic => (0..n as u16).map(Vector::Original).chain((0..4).map(Vector::Cauchy)).collect(),
    };
    let payloads = encoder.encode(&vectors).expect("vectors of the generation");
    let mut recoder = Recoder::new(generation(n, basis), 5);
    let mut packets: Vec<(Vector, Bytes)> = Vec::new();
    for (vector, payload) in vectors.into_iter().zip(payloads) {
        if rng.uniform() < 0.7 {
            recoder.push(&vector, payload.clone()).expect("a basis vector");
        }
        if rng.uniform() >= loss {
            packets.push((vector, payload));
        }
    }
    packets.extend(recoder.recode(rng.below(4) as usize));
    for i in (1..packets.len()).rev() {
        packets.swap(i, rng.below(i as u64 + 1) as usize);
    }
    let (mut decoder, mut rows) = (Decoder::new(generation(n, basis)), Vec::new());
    for (vector, payload) in packets {
        let coefficients = decoder.generation().clone().coefficients(&vector).expect("of the generation");
        rows.push((coefficients, payload.to_vec()));
        decoder.push(&vector, payload).expect("of the generation");
        let complete = naive(&rows, n).iter().all(Option::is_some);
        assert_eq!(decoder.is_complete(), complete, "after {} packets", rows.len());
    }
    decoder.finish();
    for (i, expected) in naive(&rows, n).into_iter().enumerate() {
        let known = decoder.symbol(i).map(|symbol| without_padding(symbol).to_vec());
        assert_eq!(known, expected.map(|symbol| without_padding(&symbol).to_vec()), "symbol {i}");
        if let Some(known) = known {
            assert_eq!(known, without_padding(&originals[i]));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn the_decoder_agrees_with_gaussian_elimination(
        seed: u64, n in 1_usize..24, random: bool, loss in 0.0..0.4,
    ) {
        story(seed, n, if random { Basis::Random } else { Basis::Systematic }, loss);
    }
}

#[test]
fn a_large_random_generation_reaches_full_rank() {
    // A generator that is linear over GF(2) with 64 bits of state stops at rank 64 here.
    let mut rng = Rng::new(3);
    let originals = symbols(&mut rng, 300);
    let mut encoder = Encoder::new(generation(300, Basis::Random), originals);
    let mut decoder = Decoder::new(generation(300, Basis::Random));
    for number in 0..303 {
        let vector = Vector::Random(number);
        let payload = encoder.encode(core::slice::from_ref(&vector)).expect("a vector").remove(0);
        if decoder.push(&vector, payload) == Ok(Progress::Complete) {
            return;
        }
    }
    panic!("303 random vectors of 300 symbols lack {}", decoder.lacks());
}

#[test]
fn small_random_generations_are_singular_as_often_as_uniform_ones() {
    // n uniform vectors over GF(256) are singular with probability 3.9e-3; 4000 trials: 15.6 ± 4.
    let singular = (0..4000)
        .filter(|number| {
            let mut generation = Generation::new(key(), *number, 6, Basis::Random).expect("a size");
            let row = |i| generation.coefficients(&Vector::Random(i)).expect("a vector");
            let rows: Vec<u8> = (0..6).flat_map(row).collect();
            solve_rank(&rows, 6) < 6
        })
        .count();
    assert!((4..=30).contains(&singular), "{singular} of 4000 are singular");
}

fn solve_rank(rows: &[u8], n: usize) -> usize {
    rows.len() / n - crate::solve::solve(Kernel::best(), rows, n).dependent.len()
}

#[test]
fn vectors_of_another_generation_are_refused() {
    let mut systematic = Decoder::new(generation(10, Basis::Systematic));
    let payload = || Bytes::from_static(b"x");
    let outside = |place| Err(VectorError::Outside { place, symbols: 10 });
    assert_eq!(systematic.push(&Vector::Original(10), payload()), outside(10));
    assert_eq!(systematic.push(&Vector::Cauchy(246), payload()), outside(256));
    assert_eq!(systematic.push(&Vector::Random(0), payload()), Err(VectorError::Basis));
    let nothing = Vector::Recoded { number: 0, over: VectorSet::default() };
    assert_eq!(systematic.push(&nothing, payload()), Err(VectorError::Empty));
    let far = Vector::Recoded { number: 0, over: VectorSet::of([2000].into_iter()) };
    assert_eq!(systematic.push(&far, payload()), outside(2000));
    let mut recoder = Recoder::new(generation(10, Basis::Systematic), 0);
    assert_eq!(recoder.push(&far, payload()), Err(VectorError::Mixed));
    assert!(recoder.recode(3).is_empty());
    assert!(Generation::new(key(), 0, 256, Basis::Systematic).is_none());
    assert!(Generation::new(key(), 0, 0, Basis::Random).is_none());
    assert!(VectorSet::from_bytes(&[0; 257]).is_none());
}

#[test]
fn the_same_packet_again_and_again_takes_no_room() {
    let mut encoder = Encoder::new(generation(8, Basis::Random), vec![vec![1; 4]; 8]);
    let vector = Vector::Random(0);
    let payload = encoder.encode(core::slice::from_ref(&vector)).expect("a vector").remove(0);
    let mut decoder = Decoder::new(generation(8, Basis::Random));
    for _ in 0..100 {
        decoder.push(&vector, payload.clone()).expect("a vector");
        assert!(decoder.combinations() < 8);
    }
    assert!(!decoder.finish());
}
