//! Virtual time for the QUIC crates: `std::time::Instant`s at fixed distances from one base.
//!
//! The crates compare and subtract instants but never read the time. The base is the simulator's only clock
//! reading, because an `Instant` cannot be made otherwise. Nothing depends on its value.

use std::sync::LazyLock;
use std::time::{Duration, Instant as Opaque};

use tributary_types::Instant;

/// A day after the reading, so that `instant - duration` inside the crates stays representable on machines
/// that count from their boot.
#[expect(
    clippy::disallowed_methods,
    reason = "the opaque base of virtual time; only distances to it are used"
)]
static BASE: LazyLock<Opaque> = LazyLock::new(|| Opaque::now() + Duration::from_secs(86_400));

/// The moment `at` of virtual time.
pub(super) fn opaque(at: Instant) -> Opaque {
    *BASE + Duration::from_nanos(at.as_nanos())
}

/// The inverse; times before the origin become the origin.
pub(super) fn virtual_time(at: Opaque) -> Instant {
    let since = at.saturating_duration_since(*BASE);
    Instant::ZERO + since
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_convert_there_and_back_without_loss() {
        for nanos in [0, 1, 999_999_999, 1_000_000_001, 86_400_000_000_123] {
            let at = Instant::from_nanos(nanos);
            assert_eq!(virtual_time(opaque(at)), at);
        }
        assert_eq!(opaque(Instant::from_nanos(5)) - opaque(Instant::from_nanos(2)), Duration::from_nanos(3));
    }
}
