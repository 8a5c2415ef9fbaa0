//! Random coefficients by number: a keyed pseudo-random function, ChaCha with 8 rounds.
//!
//! Both ends know the key, so a packet carries the number of its vector instead of the coefficients. The
//! function must not be linear over GF(2): vectors of a linear generator such as xorshift with 64 bits of
//! state span at most 64 dimensions, so a larger generation would never decode. ChaCha (Bernstein, 2008;
//! layout of RFC 8439 §2.3) is not linear and has no tables, and a seeded test finds no rank deficit beyond
//! that of uniform vectors. It does not keep the payload secret: the nodes encrypt per hop.

use zeroize::Zeroizing;

const ROUNDS: usize = 8;

/// The key of a code's coefficients. It is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct CoefficientKey(Zeroizing<[u32; 8]>);

impl core::fmt::Debug for CoefficientKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("CoefficientKey(..)")
    }
}

impl CoefficientKey {
    /// A key of 32 bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        let bytes = Zeroizing::new(bytes);
        let (words, _) = bytes.as_chunks::<4>();
        Self(Zeroizing::new(core::array::from_fn(|i| u32::from_le_bytes(words[i]))))
    }

    /// The coefficients of vector `number` of generation `generation`, an endless sequence.
    #[must_use]
    pub fn coefficients(&self, generation: u64, number: u32) -> Coefficients<'_> {
        let nonce = [number, generation as u32, (generation >> 32) as u32];
        Coefficients { key: &self.0, nonce, counter: 0, block: [0; 64], used: 64 }
    }
}

/// The coefficients of one vector, uniform in 0..=255.
#[derive(Clone, Debug)]
pub struct Coefficients<'a> {
    key: &'a [u32; 8],
    nonce: [u32; 3],
    counter: u32,
    block: [u8; 64],
    used: usize,
}

impl Coefficients<'_> {
    /// Fills `row` with the next coefficients.
    pub fn fill(&mut self, mut row: &mut [u8]) {
        while !row.is_empty() {
            if self.used == self.block.len() {
                self.block = block::<ROUNDS>(self.key, self.counter, &self.nonce);
                self.counter = self.counter.wrapping_add(1);
                self.used = 0;
            }
            let left = &self.block[self.used..];
            let (part, rest) = row.split_at_mut(left.len().min(row.len()));
            part.copy_from_slice(&left[..part.len()]);
            self.used += part.len();
            row = rest;
        }
    }
}

fn quarter(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (left, right) in [(16, 12), (8, 7)] {
        state[a] = state[a].wrapping_add(state[b]);
        state[d] = (state[d] ^ state[a]).rotate_left(left);
        state[c] = state[c].wrapping_add(state[d]);
        state[b] = (state[b] ^ state[c]).rotate_left(right);
    }
}

/// One block. RFC 8439 §2.3, with the number of rounds as a parameter.
fn block<const ROUNDS: usize>(key: &[u32; 8], counter: u32, nonce: &[u32; 3]) -> [u8; 64] {
    let mut state = [0_u32; 16];
    state[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
    state[4..12].copy_from_slice(key);
    state[12] = counter;
    state[13..].copy_from_slice(nonce);
    let before = state;
    for _ in 0..ROUNDS / 2 {
        for i in 0..4 {
            quarter(&mut state, [i, 4 + i, 8 + i, 12 + i]);
        }
        for i in 0..4 {
            quarter(&mut state, [i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4]);
        }
    }
    let mut bytes = [0; 64];
    for (place, (after, before)) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(state.iter().zip(before)) {
        *place = after.wrapping_add(before).to_le_bytes();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_rounds_give_the_block_of_rfc_8439() {
        // RFC 8439 §2.3.2.
        let key = CoefficientKey::new(core::array::from_fn(|i| i as u8));
        let bytes = block::<20>(&key.0, 1, &[0x0900_0000, 0x4a00_0000, 0]);
        assert_eq!(bytes[..8], [0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15]);
        assert_eq!(bytes[60..], [0xa2, 0x50, 0x3c, 0x4e]);
    }

    #[test]
    fn a_vector_does_not_depend_on_how_it_is_read() {
        let key = CoefficientKey::new([7; 32]);
        let (mut whole, mut parts) = ([0; 200], [0; 200]);
        key.coefficients(3, 9).fill(&mut whole);
        let mut reader = key.coefficients(3, 9);
        parts.chunks_mut(7).for_each(|part| reader.fill(part));
        assert_eq!(whole, parts);
        let mut other = [0; 200];
        key.coefficients(4, 9).fill(&mut other);
        assert_ne!(whole, other);
    }
}
