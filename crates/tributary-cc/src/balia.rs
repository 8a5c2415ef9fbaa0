//! BALIA, balanced linked adaptation (Peng et al., "Multipath TCP: analysis, design, and
//! implementation"; draft-walid-mptcp-congestion-control): between LIA's friendliness and OLIA's balance.

use super::coupled::{Paths, Rule};

/// The rule.
#[derive(Clone, Debug, Default)]
pub(super) struct Balia;

impl Rule for Balia {
    const NAME: &'static str = "balia";

    fn increase(paths: &Paths<'_>) -> f64 {
        let (own, most) = (paths.own(), paths.max(|path| path.rate()));
        let (rate, rates) = (own.rate(), paths.sum(|path| path.rate()));
        // A segment for every (Σx)²·10·w/((x + max)(4x + max)) acknowledged.
        (rate + most) * (4.0 * rate + most) / (rates * rates * 10.0 * own.window)
    }

    fn decrease(paths: &Paths<'_>) -> f64 {
        let behind = paths.max(|path| path.rate()) / paths.own().rate();
        behind.min(1.5) / 2.0
    }
}
