//! The tier without special instructions: computes eight multiples of an input by powers of two, and a
//! factor's bits select among them. The compiler vectorises it with the target's baseline instructions.

use super::strip::{self, Elimination, Product, Vector};

/// Four 64-bit words.
struct Words;

type Value = [u64; 4];

const fn each_byte(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Every byte times two, reduced by the field's polynomial.
#[inline(always)]
fn double(value: Value) -> Value {
    value.map(|word| {
        let carry = word >> 7 & each_byte(1);
        (word << 1 & each_byte(0xfe)) ^ carry.wrapping_mul(0x1d)
    })
}

impl Vector for Words {
    const BYTES: usize = 32;
    const OUTPUTS: usize = 4;
    type Value = Value;
    type Split = [Value; 8];
    type Factor = [u64; 8];

    #[inline(always)]
    unsafe fn zero() -> Value {
        [0; 4]
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Value {
        // SAFETY: the caller's promise: 32 readable bytes.
        unsafe { from.cast::<Value>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, value: Value) {
        // SAFETY: the caller's promise: 32 writable bytes.
        unsafe { to.cast::<Value>().write_unaligned(value) }
    }

    #[inline(always)]
    unsafe fn split(value: Value) -> [Value; 8] {
        let mut power = value;
        core::array::from_fn(|_| {
            let present = power;
            power = double(power);
            present
        })
    }

    #[inline(always)]
    unsafe fn factor(factor: u8) -> [u64; 8] {
        core::array::from_fn(|bit| 0_u64.wrapping_sub(u64::from(factor >> bit & 1)))
    }

    #[inline(always)]
    unsafe fn add_product(mut sum: Value, factor: [u64; 8], split: [Value; 8]) -> Value {
        for (mask, power) in factor.iter().zip(&split) {
            for (sum, power) in sum.iter_mut().zip(power) {
                *sum ^= power & mask;
            }
        }
        sum
    }
}

pub(super) fn product(product: &mut Product<'_, '_>) {
    // SAFETY: needs no special instructions.
    unsafe { strip::product::<Words, 1>(product) }
}

pub(super) fn eliminate(elimination: &mut Elimination<'_>) {
    // SAFETY: needs no special instructions.
    unsafe { strip::eliminate::<Words>(elimination) }
}

pub(super) fn peak(repeats: usize) -> usize {
    // SAFETY: needs no special instructions.
    unsafe { strip::peak::<Words, 1>(repeats) }
}
