//! `random`: uniform over the subflows that have room (the comparison of AVIRA §V).

use tributary_types::{Instant, Rng, SubflowId};

use super::{Pick, SubflowView, WindowView, open};

/// The generator.
#[derive(Debug)]
pub(crate) struct Random(pub Rng);

impl Pick for Random {
    const NAME: &'static str = "random";

    fn pick(
        &mut self,
        _now: Instant,
        _window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<SubflowId> {
        let count = open(subflows).count() as u64;
        (count > 0).then(|| self.0.below(count)).and_then(|at| open(subflows).nth(at as usize)).map(|s| s.id)
    }
}
