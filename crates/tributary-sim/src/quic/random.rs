//! Seeded randomness for the QUIC and TLS crates.
//!
//! rustls takes its source as a `&'static` object. [`Lent`] is that object: it draws from the generator that
//! the caller lends it for one call, so that each endpoint has its own generator and only the hook is global.
//! Not for secrets: the simulator has none.

use std::cell::Cell;

use tributary_types::Rng;

thread_local! {
    static LENT: Cell<Option<Rng>> = const { Cell::new(None) };
}

/// Lends `rng` to all calls of [`fill_lent`] during `act`.
pub(super) fn lending<R>(rng: &mut Rng, act: impl FnOnce() -> R) -> R {
    let before = LENT.replace(Some(rng.clone()));
    let result = act();
    if let Some(used) = LENT.replace(before) {
        *rng = used;
    }
    result
}

/// Fills `bytes` from the lent generator; returns `false` if none is lent.
pub(super) fn fill_lent(bytes: &mut [u8]) -> bool {
    let Some(mut rng) = LENT.take() else { return false };
    fill(&mut rng, bytes);
    LENT.set(Some(rng));
    true
}

/// Fills `bytes` from `rng`, little-endian, eight at a time.
pub(super) fn fill(rng: &mut Rng, bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(8) {
        let word = rng.next_u64().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// `N` bytes from `rng`.
pub(super) fn array<const N: usize>(rng: &mut Rng) -> [u8; N] {
    let mut bytes = [0; N];
    fill(rng, &mut bytes);
    bytes
}

/// A keyed checksum of `data`, for stateless-reset tokens: repeatable and not secret.
pub(super) fn checksum(key: u64, data: &[u8], out: &mut [u8]) {
    let hash = data
        .iter()
        .fold(key, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3).rotate_left(29));
    fill(&mut Rng::new(hash), out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_depend_only_on_the_given_generator() {
        let draw = |rng: &mut Rng| {
            lending(rng, || {
                let mut bytes = [0; 13];
                assert!(fill_lent(&mut bytes));
                bytes
            })
        };
        let (mut one, mut other) = (Rng::new(1), Rng::new(1));
        let first = draw(&mut one);
        assert_eq!(first, draw(&mut other));
        assert_ne!(first, draw(&mut one), "the generator went on");
        assert!(!fill_lent(&mut [0]), "nothing stays lent");
    }
}
