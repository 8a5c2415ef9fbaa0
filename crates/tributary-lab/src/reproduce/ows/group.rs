//! Several viewers of one server at the same time: the same clip at the same place, each with a head movement of its own.
//!
//! Together they have the load and the assumed rate of one viewer: each gets a clip of one *n*th of the size. They share the
//! scenario's links, or each has links with one *n*th of the rates and queues. They plan each for itself, or together
//! (`tributary_player::tiled::plan_together`). Source: the OWS paper §4.1, which has no measurement of it (§6).

use std::sync::Arc;

use tributary_report::stats::{self, fairness};
use tributary_sim::run::Viewers;

use super::audience::Watched;
use crate::reproduce::sample::Sample;

/// Most viewers of a cell.
pub const MOST_VIEWERS: usize = 8;

/// The others, and what all share.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub others: Vec<Arc<Watched>>,
    pub share: Viewers,
}

/// The results of all viewers from those of each: means, the sum of the data, the GoPs of all, and how even the viewers are.
pub(super) fn joined(viewers: &[Sample]) -> Sample {
    let each = |name: &str| viewers.iter().filter_map(|viewer| viewer.first(name)).collect::<Vec<f64>>();
    let mut sample = Sample::default();
    for name in ["quality", "late", "left_out", "first_late", "to_quality"] {
        sample.set(name, stats::mean(&each(name)));
    }
    sample.set("in_time", Some(each("in_time").iter().sum()));
    for name in ["errors", "gop_quality"] {
        sample.series(name, viewers.iter().flat_map(|viewer| viewer.metrics[name].clone()).collect());
    }
    sample.set("even_quality", fairness(&each("quality")));
    sample.set("even_rate", fairness(&each("in_time")));
    sample.series("viewer_late", each("late"));
    sample.series("viewer_quality", each("quality"));
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_viewers_results_are_joined() {
        let one = |quality: f64, in_time: f64, errors: &[f64]| {
            let mut sample = Sample::default();
            for (name, value) in [("quality", quality), ("in_time", in_time), ("late", 1.0)] {
                sample.set(name, Some(value));
            }
            sample.series("errors", errors.to_vec());
            sample.series("gop_quality", errors.to_vec());
            sample
        };
        let all = joined(&[one(30.0, 3.0, &[1.0, 2.0]), one(40.0, 1.0, &[3.0, 4.0])]);
        assert_eq!([all.first("quality"), all.first("in_time")], [Some(35.0), Some(4.0)]);
        assert_eq!(all.metrics["errors"], [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(all.metrics["viewer_quality"], [30.0, 40.0]);
        // Jain: (3 + 1)² / (2 · (9 + 1)).
        assert_eq!(all.first("even_rate"), Some(0.8));
    }
}
