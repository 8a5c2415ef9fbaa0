//! Quality against rate, the paper's one curve (OWS figure 3c): what a certain capacity shows the viewer. Allocation
//! alone; no transport. Where a plan has more than that, because not even the coarsest tiles fit, its end is frozen.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tributary_video::allocation::{self, Arrival, Capacity, GopProblem, Settings, TileChoice};
use tributary_video::metrics::{MOST_DB, psnr_db};
use tributary_video::prediction::TileOutlook;
use tributary_video::rd::{Concealment, TileCells};

use super::OwsError;
use super::audience::AudienceError;
use super::clip::Clip;
use super::viewing::Task;

/// Shares of both radios' rate in line of sight that are shown, the smallest first.
const RATES: [f64; 8] = [0.05, 0.1, 0.15, 0.25, 0.4, 0.6, 0.8, 1.0];
/// Rate selection by P, the same by the view's share, and the habit of the field.
pub(super) const ALLOCATORS: [&str; 3] = ["fix", "ows-every-tile", "two-class"];
/// Viewings of each clip that are averaged.
const VIEWINGS: usize = 12;

/// Mean over clips, viewers and GoPs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Capacity, Mbit/s.
    pub mbps: f64,
    /// Allocator.
    pub allocator: &'static str,
    /// Mean of the viewport's PSNR, dB.
    pub mean_db: f64,
}

pub(super) fn points(clips: &[Arc<Clip>], tasks: &[Task]) -> Result<Vec<Point>, OwsError> {
    let full = super::scene::full_rate()?;
    // One task for each viewing: whichever comes first.
    let mut viewings: BTreeMap<(usize, usize), &Task> = BTreeMap::new();
    for task in tasks.iter().filter(|task| task.viewing < VIEWINGS) {
        viewings.entry((task.clip.0, task.viewing)).or_insert(task);
    }
    // What the player expects of each GoP of each viewing when it begins to be sent.
    let outlook = |task: &Task| -> Result<Vec<Vec<TileOutlook>>, OwsError> {
        let (clip, gops) = (&task.clip.1, task.watched.views.len() as u32);
        let planning = task.planner("fix")?.begin(&clip.video(), gops).map_err(AudienceError::from)?;
        Ok((0..gops).map(|gop| planning.outlook((f64::from(gop) - 1.0) * clip.gop_s(), gop)).collect())
    };
    let expected: Vec<_> = viewings.values().map(|task| outlook(task)).collect::<Result<_, _>>()?;
    let mut points = Vec::new();
    for allocator in ALLOCATORS {
        let made = allocation::create(allocator, Settings::default())?;
        for share in RATES {
            let (mut sum, mut count) = (0.0, 0.0);
            for (((clip, _), task), outlooks) in viewings.iter().zip(&expected) {
                let (clip, watched) = (&clips[*clip], &task.watched);
                for (gop, views) in watched.views.iter().enumerate() {
                    let at = clip.at(watched.first + gop);
                    let menus = clip.table().menus(at, &outlooks[gop], Concealment::Freeze);
                    let capacity = Capacity::certain(share * full * clip.gop_s());
                    let problem = capacity.and_then(|known| GopProblem::new(menus, known, Arrival::InOrder));
                    let Ok(problem) = problem else { continue };
                    let cells = clip.table().gop(at);
                    let errors = arrived(cells, &made.allocate(&problem).order, share * full * clip.gop_s());
                    let shown = errors.iter().zip(views).map(|(error, view)| error * view.share);
                    sum += psnr_db(shown.sum::<f64>()).min(MOST_DB);
                    count += 1.0;
                }
            }
            let mbps = share * full * 8e-6;
            points.push(Point { mbps, allocator, mean_db: sum / f64::max(count, 1.0) });
        }
    }
    Ok(points)
}

/// Per tile, the error shown when the first `bytes` of an order arrive.
fn arrived(cells: &[TileCells], order: &[TileChoice], bytes: f64) -> Vec<f64> {
    let mut errors: Vec<f64> = cells.iter().map(|cell| cell.freeze_mse).collect();
    let mut through = 0.0;
    for TileChoice { tile, choice } in order {
        through += cells[*tile].bytes[*choice] as f64;
        if through > bytes {
            break;
        }
        errors[*tile] = cells[*tile].mse[*choice];
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_frozen() {
        let cell =
            TileCells { bytes: vec![9, 4], mse: vec![2.0, 20.0], freeze_mse: 300.0, black_mse: 9000.0 };
        let order = [(1, 1), (1, 0), (0, 1)].map(|(tile, choice)| TileChoice { tile, choice });
        let cells = [cell.clone(), cell];
        assert_eq!(arrived(&cells, &order, 3.0), [300.0, 300.0]);
        assert_eq!(arrived(&cells, &order, 4.0), [300.0, 20.0]);
        assert_eq!(arrived(&cells, &order, 16.0), [300.0, 2.0]);
        assert_eq!(arrived(&cells, &order, 17.0), [20.0, 2.0]);
    }
}
