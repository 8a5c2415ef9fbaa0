//! Arithmetic in GF(2^8) with the polynomial x⁸+x⁴+x³+x²+1 (0x11d), one byte at a time.
//!
//! The reference for tests of every kernel, and the source of the kernels' tables. Not fast: blocks of bytes
//! are multiplied by [`Kernel`](crate::Kernel). The polynomial is that of ISA-L and of most storage codes, so
//! that parity can be compared byte by byte.

/// The field's polynomial without its leading term.
const POLYNOMIAL: u8 = 0x1d;

const EXP: [u8; 510] = exponentials();
const LOG: [u8; 256] = logarithms();

/// Products of one factor with the 16 low nibbles, then with the 16 high nibbles. A shuffle instruction looks
/// up 16 products at a time.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct Nibbles(pub(crate) [u8; 32]);

/// Nibble tables of every factor: 8 KiB, so that they stay in the first-level cache.
pub(crate) static NIBBLES: [Nibbles; 256] = nibbles();

/// The 8 × 8 bit matrix of every factor, in the format of GF2P8AFFINEQB.
pub(crate) static MATRICES: [u64; 256] = matrices();

const fn double(a: u8) -> u8 {
    (a << 1) ^ (if a & 0x80 != 0 { POLYNOMIAL } else { 0 })
}

const fn exponentials() -> [u8; 510] {
    let mut table = [0; 510];
    let (mut power, mut i) = (1, 0);
    while i < 510 {
        table[i] = power;
        power = double(power);
        i += 1;
    }
    table
}

const fn logarithms() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 255 {
        table[EXP[i] as usize] = i as u8;
        i += 1;
    }
    table
}

const fn nibbles() -> [Nibbles; 256] {
    let mut table = [Nibbles([0; 32]); 256];
    let mut factor = 0;
    while factor < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            table[factor].0[nibble] = mul(factor as u8, nibble as u8);
            table[factor].0[16 + nibble] = mul(factor as u8, (nibble as u8) << 4);
            nibble += 1;
        }
        factor += 1;
    }
    table
}

const fn matrices() -> [u64; 256] {
    let mut table = [0; 256];
    let mut factor = 0;
    while factor < 256 {
        // Bit `b` of the product is the parity of the input and matrix byte 7 - b.
        let mut b = 0;
        while b < 8 {
            let (mut row, mut j) = (0_u64, 0);
            while j < 8 {
                row |= ((mul(factor as u8, 1 << j) >> b & 1) as u64) << j;
                j += 1;
            }
            table[factor] |= row << (8 * (7 - b));
            b += 1;
        }
        factor += 1;
    }
    table
}

/// The product of `a` and `b`.
#[must_use]
pub const fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[LOG[a as usize] as usize + LOG[b as usize] as usize]
}

/// The multiplicative inverse of `a`; `None` for zero.
#[must_use]
pub const fn inverse(a: u8) -> Option<u8> {
    if a == 0 { None } else { Some(EXP[255 - LOG[a as usize] as usize]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication by definition: shift, add, reduce.
    fn schoolbook(a: u8, b: u8) -> u8 {
        let (mut product, mut power) = (0, a);
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                product ^= power;
            }
            power = double(power);
        }
        product
    }

    /// What GF2P8AFFINEQB does to one byte (Intel SDM volume 2).
    fn affine(matrix: u64, x: u8) -> u8 {
        (0..8).map(|b| (((matrix.to_le_bytes()[7 - b] & x).count_ones() & 1) as u8) << b).sum()
    }

    #[test]
    fn tables_agree_with_the_definition() {
        for a in 0..=255 {
            for b in 0..=255 {
                let product = schoolbook(a, b);
                assert_eq!(mul(a, b), product);
                let nibbles = &NIBBLES[usize::from(a)].0;
                assert_eq!(nibbles[usize::from(b & 15)] ^ nibbles[16 + usize::from(b >> 4)], product);
                assert_eq!(affine(MATRICES[usize::from(a)], b), product, "{a} times {b}");
            }
        }
    }

    #[test]
    fn every_element_but_zero_has_an_inverse() {
        assert_eq!(inverse(0), None);
        for a in 1..=255 {
            assert_eq!(mul(a, inverse(a).expect("not zero")), 1);
        }
    }
}
