//! OLIA, opportunistic linked increases (Khalili et al., "MPTCP is not Pareto-optimal"): increases by the
//! subflows' rates, and moves window from the largest subflows to the best ones while these differ.

use super::coupled::{Path, Paths, Rule};

/// The rule.
#[derive(Clone, Debug, Default)]
pub(super) struct Olia;

impl Rule for Olia {
    const NAME: &'static str = "olia";

    fn increase(paths: &Paths<'_>) -> f64 {
        let own = paths.own();
        let rates = paths.sum(|path| path.rate());
        own.window / (own.rtt * own.rtt) / (rates * rates) + shift(paths) / own.window
    }
}

/// α of this subflow: positive on the best subflows while others have the largest windows, negative on those,
/// else zero.
fn shift(paths: &Paths<'_>) -> f64 {
    // ℓ/rtt²: the square of TCP's rate with one loss per ℓ bytes.
    let quality = |path: Path| path.transit / (path.rtt * path.rtt);
    let (best, largest) = (paths.max(quality), paths.max(|path| path.window));
    let is_largest = |path: Path| path.window >= largest;
    let collected = |path: Path| quality(path) >= best && !is_largest(path);
    let count = |of: &dyn Fn(Path) -> bool| paths.iter().filter(|path| of(*path)).count() as f64;
    let better = count(&collected);
    if better == 0.0 {
        return 0.0;
    }
    let all = paths.iter().count() as f64;
    if collected(paths.own()) {
        1.0 / (all * better)
    } else if is_largest(paths.own()) {
        -1.0 / (all * count(&is_largest))
    } else {
        0.0
    }
}
