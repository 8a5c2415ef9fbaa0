//! Matrix times blocks of bytes over GF(2^8): `outputs[j] = Σ matrix[j][i] · inputs[i]`, with the widest
//! instructions of the processor.
//!
//! A tier is one set of instructions. [`Kernel::best`] detects the processor's once. Work is divided to fit
//! the registers: one pass over a strip of all inputs makes up to eight outputs, because they share the loads
//! and splits of an input; a pass that makes one output runs at about half the speed. Not here: choosing the
//! matrix (`erasure`, `rlnc`).

mod strip;

#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::OnceLock;
use strip::{Elimination, Product};

/// One set of instructions, the fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// GF2P8AFFINEQB on 64 bytes.
    Avx512Gfni,
    /// VPSHUFB on 64 bytes.
    Avx512,
    /// GF2P8AFFINEQB on 32 bytes.
    VexGfni,
    /// VPSHUFB on 32 bytes.
    Avx2,
    /// PSHUFB on 16 bytes.
    Ssse3,
    /// TBL on 16 bytes.
    Neon,
    /// No special instructions: bit masks over 64-bit words.
    Portable,
}

impl Tier {
    /// Every tier, including those that this processor lacks.
    pub const ALL: [Self; 7] =
        [Self::Avx512Gfni, Self::Avx512, Self::VexGfni, Self::Avx2, Self::Ssse3, Self::Neon, Self::Portable];

    /// A short name for tables and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avx512Gfni => "avx512-gfni",
            Self::Avx512 => "avx512",
            Self::VexGfni => "vex-gfni",
            Self::Avx2 => "avx2",
            Self::Ssse3 => "ssse3",
            Self::Neon => "neon",
            Self::Portable => "portable",
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn is_here(self) -> bool {
        use std::arch::is_x86_feature_detected as has;
        match self {
            Self::Avx512Gfni => has!("avx512f") && has!("avx512bw") && has!("gfni"),
            Self::Avx512 => has!("avx512f") && has!("avx512bw"),
            Self::VexGfni => has!("avx2") && has!("gfni"),
            Self::Avx2 => has!("avx2"),
            Self::Ssse3 => has!("ssse3"),
            Self::Neon => false,
            Self::Portable => true,
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn is_here(self) -> bool {
        match self {
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            other => other == Self::Portable,
        }
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn is_here(self) -> bool {
        self == Self::Portable
    }
}

/// Multiplies with a tier that this processor supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(Tier);

impl Kernel {
    /// The fastest kernel of this processor.
    #[must_use]
    pub fn best() -> Self {
        static BEST: OnceLock<Kernel> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().next().expect("the portable tier runs everywhere"))
    }

    /// The kernel of `tier`; `None` if this processor lacks its instructions.
    #[must_use]
    pub fn of(tier: Tier) -> Option<Self> {
        tier.is_here().then_some(Self(tier))
    }

    /// Every kernel of this processor, the fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Tier::ALL.into_iter().filter_map(Self::of)
    }

    /// The tier.
    #[must_use]
    pub const fn tier(self) -> Tier {
        self.0
    }

    /// `outputs[j] = Σ matrix[j · inputs.len() + i] · inputs[i]`.
    ///
    /// # Panics
    /// When the blocks are not all of one length, or the matrix does not have
    /// `outputs.len() × inputs.len()` elements.
    pub fn multiply(self, outputs: &mut [&mut [u8]], matrix: &[u8], inputs: &[&[u8]]) {
        self.run(outputs, matrix, inputs, false);
    }

    /// `outputs[j] += Σ matrix[j · inputs.len() + i] · inputs[i]`.
    ///
    /// # Panics
    /// As [`multiply`](Self::multiply).
    pub fn multiply_add(self, outputs: &mut [&mut [u8]], matrix: &[u8], inputs: &[&[u8]]) {
        self.run(outputs, matrix, inputs, true);
    }

    /// Repeats the kernel's inner step with operands in registers and the first-level cache, to measure the
    /// maximum speed of its instructions. Returns the product bytes. For benchmarks.
    #[must_use]
    pub fn peak(self, repeats: usize) -> usize {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `of` saw the tier's features on this processor.
        return unsafe {
            match self.0 {
                Tier::Avx512Gfni => x86::peak_avx512_gfni(repeats),
                Tier::Avx512 => x86::peak_avx512(repeats),
                Tier::VexGfni => x86::peak_vex_gfni(repeats),
                Tier::Avx2 => x86::peak_avx2(repeats),
                Tier::Ssse3 => x86::peak_ssse3(repeats),
                Tier::Neon | Tier::Portable => portable::peak(repeats),
            }
        };
        #[cfg(target_arch = "aarch64")]
        return match self.0 {
            // SAFETY: `of` saw NEON on this processor.
            Tier::Neon => unsafe { neon::peak(repeats) },
            _ => portable::peak(repeats),
        };
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        return portable::peak(repeats);
    }

    fn run(self, outputs: &mut [&mut [u8]], matrix: &[u8], inputs: &[&[u8]], add: bool) {
        let Some(length) = outputs.first().map(|output| output.len()) else { return };
        let one_length = outputs.iter().all(|output| output.len() == length)
            && inputs.iter().all(|input| input.len() == length);
        assert!(one_length, "blocks of one multiplication have one length");
        let (rows, columns) = (outputs.len(), inputs.len());
        assert_eq!(matrix.len(), rows * columns, "the matrix has one element per output and input");
        let mut product = Product { outputs, matrix, inputs, length, add };
        self.product(&mut product);
    }

    /// One step of Gauss-Jordan elimination in place. Scales row `pivot` of a matrix so that its element in `pivot_column`
    /// becomes one, and subtracts multiples of it from every other row so that theirs become zero. The column then has
    /// the column of the inverse: what the same steps make of the pivot row's column of a unit matrix. Rows are `stride`
    /// bytes.
    ///
    /// # Panics
    /// The pivot is zero or outside the matrix.
    pub(crate) fn eliminate(self, matrix: &mut [u8], stride: usize, pivot: usize, pivot_column: usize) {
        assert!(stride > 0 && matrix.len().is_multiple_of(stride), "whole rows");
        assert!(pivot < matrix.len() / stride && pivot_column < stride, "the pivot is in the matrix");
        let mut elimination = Elimination { matrix, stride, pivot, column: pivot_column };
        self.elimination(&mut elimination);
    }

    #[cfg(target_arch = "x86_64")]
    fn product(self, product: &mut Product<'_, '_>) {
        // SAFETY: `of` saw the tier's features on this processor.
        unsafe {
            match self.0 {
                Tier::Avx512Gfni => x86::product_avx512_gfni(product),
                Tier::Avx512 => x86::product_avx512(product),
                Tier::VexGfni => x86::product_vex_gfni(product),
                Tier::Avx2 => x86::product_avx2(product),
                Tier::Ssse3 => x86::product_ssse3(product),
                Tier::Neon | Tier::Portable => portable::product(product),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn elimination(self, elimination: &mut Elimination<'_>) {
        // SAFETY: `of` saw the tier's features on this processor.
        unsafe {
            match self.0 {
                Tier::Avx512Gfni => x86::eliminate_avx512_gfni(elimination),
                Tier::Avx512 => x86::eliminate_avx512(elimination),
                Tier::VexGfni => x86::eliminate_vex_gfni(elimination),
                Tier::Avx2 => x86::eliminate_avx2(elimination),
                Tier::Ssse3 => x86::eliminate_ssse3(elimination),
                Tier::Neon | Tier::Portable => portable::eliminate(elimination),
            }
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn product(self, product: &mut Product<'_, '_>) {
        match self.0 {
            // SAFETY: `of` saw NEON on this processor.
            Tier::Neon => unsafe { neon::product(product) },
            _ => portable::product(product),
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn elimination(self, elimination: &mut Elimination<'_>) {
        match self.0 {
            // SAFETY: `of` saw NEON on this processor.
            Tier::Neon => unsafe { neon::eliminate(elimination) },
            _ => portable::eliminate(elimination),
        }
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn product(self, product: &mut Product<'_, '_>) {
        portable::product(product);
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn elimination(self, elimination: &mut Elimination<'_>) {
        portable::eliminate(elimination);
    }
}

#[cfg(test)]
mod tests;
