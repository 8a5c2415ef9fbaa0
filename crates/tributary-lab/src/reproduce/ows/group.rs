//! Several viewers of one server at the same time: the same clip at the same place, each with a head movement of its own.
//!
//! Together they have the load and the assumed rate of one viewer: each gets a clip of one *n*th of the size. They share the
//! scenario's links, or each has links with one *n*th of the rates and queues. They plan each for itself, or together
//! (`tributary_player::tiled::plan_together`). Source: the OWS paper §4.1, which has no measurement of it (§6).

use std::sync::Arc;

use tributary_report::stats::{self, fairness};
use tributary_sim::run::Viewers;
use tributary_types::Bitrate;
use tributary_video::allocation::Sharing;

use super::audience::Watched;
use super::variant;
use super::viewing::{Task, UPDATED};
use crate::reproduce::matrix::{Cell, CellError};
use crate::reproduce::sample::Sample;

/// Most viewers of a cell.
pub const MOST_VIEWERS: usize = 8;

/// The others, and what all share.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub others: Vec<Arc<Watched>>,
    pub share: Viewers,
}

/// The task for the viewers of a cell; `watched` are all viewings of its clip, of which that of the task and the next ones are
/// taken.
///
/// # Errors
/// A value of the cell's axes does not exist.
pub(super) fn gathered(task: Task, cell: &Cell, watched: &[Arc<Watched>]) -> Result<Task, CellError> {
    let most = MOST_VIEWERS.min(watched.len() - task.viewing);
    let viewers = cell.label("viewers").parse().ok().filter(|viewers| (1..=most).contains(viewers));
    let viewers =
        viewers.ok_or_else(|| cell.refused("viewers", &format!("a number of --viewers, at most {most}")))?;
    let own_links = match cell.label("links") {
        "shared" => false,
        "own" => true,
        _ => return Err(cell.refused("links", "shared or own")),
    };
    let once = |name: &str| name != UPDATED && !variant::NAMES.contains(&name);
    let sharing = match cell.label("sharing") {
        "alone" => None,
        _ if !once(cell.label("allocator")) => {
            return Err(cell.refused(
                "sharing",
                "alone for an allocator that plans more than once or knows the capacity",
            ));
        }
        name => Some(
            Sharing::find(name).map_err(|error| cell.refused("sharing", &format!("alone, or {error}")))?,
        ),
    };
    let with = |at: usize| Arc::new(Watched { first: task.watched.first, ..Watched::clone(&watched[at]) });
    let group = Group {
        others: (task.viewing + 1..task.viewing + viewers).map(with).collect(),
        share: Viewers { own_links, sharing },
    };
    Ok(Task {
        clip: Arc::new(task.clip.scaled(1.0 / viewers as f64)),
        assumed: Bitrate::from_bps(task.assumed.as_bps() / viewers as u64),
        group: Some(group),
        ..task
    })
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
