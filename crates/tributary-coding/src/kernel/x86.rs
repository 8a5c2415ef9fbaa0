//! The tiers of x86-64: byte shuffles of 16, 32 and 64 bytes, and Galois-field instructions (GFNI).
//!
//! A shuffle looks up the products of low and high nibbles. GF2P8AFFINEQB multiplies every byte by an 8 × 8
//! bit matrix, which works for any polynomial; GF2P8MULB supports only 0x11b. With 64-byte vectors one
//! VPTERNLOG adds two products.

use super::strip::{self, Elimination, Product, Vector};
use crate::field::{MATRICES, NIBBLES};
use core::arch::x86_64::*;

/// Ternary logic of three-way XOR.
const XOR3: i32 = 0x96;

/// PSHUFB on 16 bytes.
struct Ssse3;

impl Vector for Ssse3 {
    const BYTES: usize = 16;
    const OUTPUTS: usize = 4;
    type Value = __m128i;
    type Split = [__m128i; 2];
    type Factor = [__m128i; 2];

    #[inline(always)]
    unsafe fn zero() -> __m128i {
        // SAFETY: the caller's promise.
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const u8) {
        // SAFETY: the caller's promise; a prefetch reads nothing and may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m128i {
        // SAFETY: the caller's promise.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, value: __m128i) {
        // SAFETY: the caller's promise.
        unsafe { _mm_storeu_si128(to.cast(), value) }
    }

    #[inline(always)]
    unsafe fn split(value: __m128i) -> [__m128i; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let low = _mm_set1_epi8(15);
            [_mm_and_si128(value, low), _mm_and_si128(_mm_srli_epi64::<4>(value), low)]
        }
    }

    #[inline(always)]
    unsafe fn factor(factor: u8) -> [__m128i; 2] {
        let table = NIBBLES[usize::from(factor)].0.as_ptr().cast::<__m128i>();
        // SAFETY: the caller's promise; the table has 32 bytes and their alignment.
        unsafe { [_mm_load_si128(table), _mm_load_si128(table.add(1))] }
    }

    #[inline(always)]
    unsafe fn add_product(sum: __m128i, factor: [__m128i; 2], split: [__m128i; 2]) -> __m128i {
        // SAFETY: the caller's promise.
        unsafe {
            let (low, high) = (_mm_shuffle_epi8(factor[0], split[0]), _mm_shuffle_epi8(factor[1], split[1]));
            _mm_xor_si128(sum, _mm_xor_si128(low, high))
        }
    }
}

/// VPSHUFB on 32 bytes.
struct Avx2;

impl Vector for Avx2 {
    const BYTES: usize = 32;
    const OUTPUTS: usize = 4;
    type Value = __m256i;
    type Split = [__m256i; 2];
    type Factor = [__m256i; 2];

    #[inline(always)]
    unsafe fn zero() -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const u8) {
        // SAFETY: the caller's promise; a prefetch reads nothing and may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, value: __m256i) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(to.cast(), value) }
    }

    #[inline(always)]
    unsafe fn split(value: __m256i) -> [__m256i; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let low = _mm256_set1_epi8(15);
            [_mm256_and_si256(value, low), _mm256_and_si256(_mm256_srli_epi64::<4>(value), low)]
        }
    }

    #[inline(always)]
    unsafe fn factor(factor: u8) -> [__m256i; 2] {
        let table = NIBBLES[usize::from(factor)].0.as_ptr().cast::<__m128i>();
        // SAFETY: the caller's promise; the table has 32 bytes and their alignment.
        unsafe {
            [
                _mm256_broadcastsi128_si256(_mm_load_si128(table)),
                _mm256_broadcastsi128_si256(_mm_load_si128(table.add(1))),
            ]
        }
    }

    #[inline(always)]
    unsafe fn add_product(sum: __m256i, factor: [__m256i; 2], split: [__m256i; 2]) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            let (low, high) =
                (_mm256_shuffle_epi8(factor[0], split[0]), _mm256_shuffle_epi8(factor[1], split[1]));
            _mm256_xor_si256(sum, _mm256_xor_si256(low, high))
        }
    }
}

/// VPSHUFB on 64 bytes.
struct Avx512;

impl Vector for Avx512 {
    const BYTES: usize = 64;
    const OUTPUTS: usize = 6;
    type Value = __m512i;
    type Split = [__m512i; 2];
    type Factor = [__m512i; 2];

    #[inline(always)]
    unsafe fn zero() -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const u8) {
        // SAFETY: the caller's promise; a prefetch reads nothing and may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, value: __m512i) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(to.cast(), value) }
    }

    #[inline(always)]
    unsafe fn split(value: __m512i) -> [__m512i; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let low = _mm512_set1_epi8(15);
            [_mm512_and_si512(value, low), _mm512_and_si512(_mm512_srli_epi64::<4>(value), low)]
        }
    }

    #[inline(always)]
    unsafe fn factor(factor: u8) -> [__m512i; 2] {
        let table = NIBBLES[usize::from(factor)].0.as_ptr().cast::<__m128i>();
        // SAFETY: the caller's promise; the table has 32 bytes and their alignment.
        unsafe {
            [
                _mm512_broadcast_i32x4(_mm_load_si128(table)),
                _mm512_broadcast_i32x4(_mm_load_si128(table.add(1))),
            ]
        }
    }

    #[inline(always)]
    unsafe fn add_product(sum: __m512i, factor: [__m512i; 2], split: [__m512i; 2]) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let (low, high) =
                (_mm512_shuffle_epi8(factor[0], split[0]), _mm512_shuffle_epi8(factor[1], split[1]));
            _mm512_ternarylogic_epi32::<XOR3>(sum, low, high)
        }
    }
}

/// GF2P8AFFINEQB on 32 bytes.
struct VexGfni;

impl Vector for VexGfni {
    const BYTES: usize = 32;
    const OUTPUTS: usize = 4;
    const PAIRS: bool = true;
    type Value = __m256i;
    type Split = __m256i;
    type Factor = __m256i;

    #[inline(always)]
    unsafe fn zero() -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const u8) {
        // SAFETY: the caller's promise; a prefetch reads nothing and may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, value: __m256i) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(to.cast(), value) }
    }

    #[inline(always)]
    unsafe fn split(value: __m256i) -> __m256i {
        value
    }

    #[inline(always)]
    unsafe fn factor(factor: u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_set1_epi64x(MATRICES[usize::from(factor)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn add_product(sum: __m256i, factor: __m256i, split: __m256i) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_xor_si256(sum, _mm256_gf2p8affine_epi64_epi8::<0>(split, factor)) }
    }
}

/// GF2P8AFFINEQB on 64 bytes.
struct Avx512Gfni;

impl Vector for Avx512Gfni {
    const BYTES: usize = 64;
    const OUTPUTS: usize = 8;
    const PAIRS: bool = true;
    type Value = __m512i;
    type Split = __m512i;
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn zero() -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const u8) {
        // SAFETY: the caller's promise; a prefetch reads nothing and may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, value: __m512i) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(to.cast(), value) }
    }

    #[inline(always)]
    unsafe fn split(value: __m512i) -> __m512i {
        value
    }

    #[inline(always)]
    unsafe fn factor(factor: u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_set1_epi64(MATRICES[usize::from(factor)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn add_product(sum: __m512i, factor: __m512i, split: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_xor_si512(sum, _mm512_gf2p8affine_epi64_epi8::<0>(split, factor)) }
    }

    #[inline(always)]
    unsafe fn add_two(sum: __m512i, factors: [__m512i; 2], splits: [__m512i; 2]) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let first = _mm512_gf2p8affine_epi64_epi8::<0>(splits[0], factors[0]);
            let second = _mm512_gf2p8affine_epi64_epi8::<0>(splits[1], factors[1]);
            _mm512_ternarylogic_epi32::<XOR3>(sum, first, second)
        }
    }
}

/// # Safety
/// The processor has SSSE3.
#[target_feature(enable = "ssse3")]
pub(super) unsafe fn product_ssse3(product: &mut Product<'_, '_>) {
    // SAFETY: the caller's promise.
    unsafe { strip::product::<Ssse3, 2>(product) }
}

/// # Safety
/// The processor has SSSE3.
#[target_feature(enable = "ssse3")]
pub(super) unsafe fn eliminate_ssse3(elimination: &mut Elimination<'_>) {
    // SAFETY: the caller's promise.
    unsafe { strip::eliminate::<Ssse3>(elimination) }
}

/// # Safety
/// The processor has SSSE3.
#[target_feature(enable = "ssse3")]
pub(super) unsafe fn peak_ssse3(repeats: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { strip::peak::<Ssse3, 2>(repeats) }
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn product_avx2(product: &mut Product<'_, '_>) {
    // SAFETY: the caller's promise.
    unsafe { strip::product::<Avx2, 2>(product) }
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn eliminate_avx2(elimination: &mut Elimination<'_>) {
    // SAFETY: the caller's promise.
    unsafe { strip::eliminate::<Avx2>(elimination) }
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn peak_avx2(repeats: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { strip::peak::<Avx2, 2>(repeats) }
}

/// # Safety
/// The processor has AVX2, GFNI.
#[target_feature(enable = "avx2,gfni")]
pub(super) unsafe fn product_vex_gfni(product: &mut Product<'_, '_>) {
    // SAFETY: the caller's promise.
    unsafe { strip::product::<VexGfni, 2>(product) }
}

/// # Safety
/// The processor has AVX2, GFNI.
#[target_feature(enable = "avx2,gfni")]
pub(super) unsafe fn eliminate_vex_gfni(elimination: &mut Elimination<'_>) {
    // SAFETY: the caller's promise.
    unsafe { strip::eliminate::<VexGfni>(elimination) }
}

/// # Safety
/// The processor has AVX2, GFNI.
#[target_feature(enable = "avx2,gfni")]
pub(super) unsafe fn peak_vex_gfni(repeats: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { strip::peak::<VexGfni, 2>(repeats) }
}

/// # Safety
/// The processor has AVX512F, AVX512BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn product_avx512(product: &mut Product<'_, '_>) {
    // SAFETY: the caller's promise.
    unsafe { strip::product::<Avx512, 3>(product) }
}

/// # Safety
/// The processor has AVX512F, AVX512BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn eliminate_avx512(elimination: &mut Elimination<'_>) {
    // SAFETY: the caller's promise.
    unsafe { strip::eliminate::<Avx512>(elimination) }
}

/// # Safety
/// The processor has AVX512F, AVX512BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn peak_avx512(repeats: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { strip::peak::<Avx512, 3>(repeats) }
}

/// # Safety
/// The processor has AVX512F, AVX512BW, GFNI.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) unsafe fn product_avx512_gfni(product: &mut Product<'_, '_>) {
    // SAFETY: the caller's promise.
    unsafe { strip::product::<Avx512Gfni, 2>(product) }
}

/// # Safety
/// The processor has AVX512F, AVX512BW, GFNI.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) unsafe fn eliminate_avx512_gfni(elimination: &mut Elimination<'_>) {
    // SAFETY: the caller's promise.
    unsafe { strip::eliminate::<Avx512Gfni>(elimination) }
}

/// # Safety
/// The processor has AVX512F, AVX512BW, GFNI.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) unsafe fn peak_avx512_gfni(repeats: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { strip::peak::<Avx512Gfni, 2>(repeats) }
}
