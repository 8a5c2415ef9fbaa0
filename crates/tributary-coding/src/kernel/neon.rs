//! The tier of 64-bit ARM: TBL looks up 16 nibble products at a time.

use super::strip::{self, Elimination, Product, Vector};
use crate::field::NIBBLES;
use core::arch::aarch64::*;

struct Neon;

impl Vector for Neon {
    const BYTES: usize = 16;
    const OUTPUTS: usize = 6;
    type Value = uint8x16_t;
    type Split = [uint8x16_t; 2];
    type Factor = [uint8x16_t; 2];

    #[inline(always)]
    unsafe fn zero() -> uint8x16_t {
        // SAFETY: the caller's promise: NEON.
        unsafe { vdupq_n_u8(0) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> uint8x16_t {
        // SAFETY: the caller's promise: NEON and 16 readable bytes.
        unsafe { vld1q_u8(from) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, value: uint8x16_t) {
        // SAFETY: the caller's promise: NEON and 16 writable bytes.
        unsafe { vst1q_u8(to, value) }
    }

    #[inline(always)]
    unsafe fn split(value: uint8x16_t) -> [uint8x16_t; 2] {
        // SAFETY: the caller's promise: NEON.
        unsafe { [vandq_u8(value, vdupq_n_u8(15)), vshrq_n_u8::<4>(value)] }
    }

    #[inline(always)]
    unsafe fn factor(factor: u8) -> [uint8x16_t; 2] {
        let table = NIBBLES[usize::from(factor)].0.as_ptr();
        // SAFETY: the caller's promise: NEON; the table has 32 bytes.
        unsafe { [vld1q_u8(table), vld1q_u8(table.add(16))] }
    }

    #[inline(always)]
    unsafe fn add_product(sum: uint8x16_t, factor: [uint8x16_t; 2], split: [uint8x16_t; 2]) -> uint8x16_t {
        // SAFETY: the caller's promise: NEON.
        unsafe {
            let product = veorq_u8(vqtbl1q_u8(factor[0], split[0]), vqtbl1q_u8(factor[1], split[1]));
            veorq_u8(sum, product)
        }
    }
}

/// # Safety
/// The processor has NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn product(product: &mut Product<'_, '_>) {
    // SAFETY: the caller's promise.
    unsafe { strip::product::<Neon, 2>(product) }
}

/// # Safety
/// The processor has NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn eliminate(elimination: &mut Elimination<'_>) {
    // SAFETY: the caller's promise.
    unsafe { strip::eliminate::<Neon>(elimination) }
}

/// # Safety
/// The processor has NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn peak(repeats: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { strip::peak::<Neon, 2>(repeats) }
}
