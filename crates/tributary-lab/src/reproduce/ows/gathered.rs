//! The viewers of a cell: who they are, and how they share the links, from its axes.

use std::sync::Arc;

use tributary_sim::run::Viewers;
use tributary_types::Bitrate;
use tributary_video::allocation::Sharing;

use super::audience::Watched;
use super::group::{Group, MOST_VIEWERS};
use super::variant;
use super::viewing::{Task, UPDATED};
use crate::reproduce::matrix::{Cell, CellError};

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
