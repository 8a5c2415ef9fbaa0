//! LIA, linked increases (RFC 6356): together the subflows take at most as much as one Reno flow on the best
//! path.

use super::coupled::{Paths, Rule};

/// The rule.
#[derive(Clone, Debug, Default)]
pub(super) struct Lia;

impl Rule for Lia {
    const NAME: &'static str = "lia";

    fn increase(paths: &Paths<'_>) -> f64 {
        let own = paths.own();
        // RFC 6356 §3: α·bytes·mss/total, with α = total · max(w/rtt²) / (Σ w/rtt)²; the total cancels.
        // Windows in bytes, as there: subflows may differ in segment size.
        let best = paths.max(|path| path.window * path.mss / (path.rtt * path.rtt));
        let rates = paths.sum(|path| path.rate() * path.mss);
        (own.mss * best / (rates * rates)).min(1.0 / own.window)
    }
}
