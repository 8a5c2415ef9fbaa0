//! Seeded randomness: xoshiro256++ seeded through SplitMix64 (Blackman and Vigna, 2019).
//!
//! Each component has its own generator, derived from one seed by a label, so an additional draw in one
//! component changes no other. Logarithm and cosine come from `libm`, whose results do not depend on the
//! machine's C library: a seed gives the same numbers on every machine. Not for secrets.

/// A repeatable pseudo-random generator.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
    seed: u64,
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// A generator seeded with `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut mix = seed;
        let state = core::array::from_fn(|_| splitmix(&mut mix));
        Self { state, seed }
    }

    /// The generator of the component `label`. It depends only on the seed and the label, not on the number
    /// of values drawn before.
    #[must_use]
    pub fn child(&self, label: &str) -> Self {
        // FNV-1a over the label, mixed with the seed.
        let hash = label
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let mut mix = self.seed ^ hash;
        Self::new(splitmix(&mut mix))
    }

    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `[0, 1)`.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in `0..n`.
    ///
    /// # Panics
    /// When `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "an empty range has no element to draw");
        // Lemire's multiply-shift; the bias is below 2⁻⁶⁴·n.
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Exponential with the given mean, in the mean's unit.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.uniform())
    }

    /// Normal by Box–Muller.
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = (-2.0 * libm::log(1.0 - self.uniform())).sqrt();
        mean + deviation * radius * libm::cos(core::f64::consts::TAU * self.uniform())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers_and_children_are_independent_of_draws() {
        let mut a = Rng::new(7);
        let b = Rng::new(7);
        let from_fresh = b.child("loss").next_u64();
        a.next_u64();
        assert_eq!(a.child("loss").next_u64(), from_fresh);
        assert_ne!(a.child("delay").next_u64(), from_fresh);
        assert_ne!(Rng::new(8).child("loss").next_u64(), from_fresh);
    }

    #[test]
    fn a_seed_means_the_same_bits_on_every_machine() {
        let mut rng = Rng::new(7).child("pinned");
        let uniform = rng.next_u64();
        let drawn =
            [rng.exponential(1e6), rng.exponential(1e6), rng.normal(10.0, 3.0), rng.normal(10.0, 3.0)];
        assert_eq!(uniform, 16_141_701_636_437_838_291);
        let pinned = [
            4_697_041_521_617_057_903,
            4_687_865_872_468_694_333,
            4_624_135_851_537_349_498,
            4_623_327_634_130_799_441,
        ];
        assert_eq!(drawn.map(f64::to_bits), pinned);
    }

    #[test]
    fn means_are_right() {
        let mut rng = Rng::new(1);
        let n = 100_000;
        let mean = (0..n).map(|_| rng.exponential(3.0)).sum::<f64>() / f64::from(n);
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
        let hits = (0..n).filter(|_| rng.chance(0.05)).count();
        assert!((4_500..5_500).contains(&hits), "{hits}");
        assert!((0..n).all(|_| rng.below(7) < 7));
    }
}
