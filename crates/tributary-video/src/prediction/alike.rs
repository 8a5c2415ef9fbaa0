//! Who of the crowd looks where a viewer looks: those say more of where he will look than the whole crowd does.
//!
//! Each other viewer counts by how near his direction is now, and by a little in any case: a viewer who is alone
//! where he looks has the whole crowd. (After the clusters of Xie et al., "CLS: A Cross-user Learning based System for
//! Improving QoE in 360-degree Video Adaptive Streaming", ACM MM 2018; a smooth weight instead of clusters.)

use super::{Population, TileOutlook};
use crate::head::HeadTrace;

/// Concentration of the weight over directions (von Mises–Fisher): it falls to 1/e at 29 degrees.
const CONCENTRATION: f64 = 8.0;
/// What a viewer counts however far he looks away.
const ANYWAY: f64 = 0.02;

/// How much each viewer says of viewer `of`, in 0…1, by where they look at `now_s`; nobody of himself.
///
/// # Panics
/// There is no viewer `of`.
#[must_use]
pub fn alike(traces: &[HeadTrace], of: usize, now_s: f64) -> Vec<f64> {
    let own = traces[of].at(now_s).ahead();
    let weight = |(viewer, trace): (usize, &HeadTrace)| {
        if viewer == of {
            return 0.0;
        }
        let away = 1.0 - trace.at(now_s).ahead().dot(own);
        ANYWAY + (1.0 - ANYWAY) * libm::exp(-CONCENTRATION * away)
    };
    traces.iter().enumerate().map(weight).collect()
}

impl Population {
    /// What is expected of GoP `gop` of viewer `of` of `traces`, knowing where all look at `now_s`: [`alike`] viewers
    /// count most.
    ///
    /// # Panics
    /// There is no such GoP or viewer, or `traces` are not those of this population.
    #[must_use]
    pub fn outlook_alike(
        &self,
        (traces, of): (&[HeadTrace], usize),
        now_s: f64,
        gop: usize,
    ) -> Vec<TileOutlook> {
        self.outlook_weighted(gop, &alike(traces, of, now_s))
    }
}
