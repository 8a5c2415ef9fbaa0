//! Quality against rate (OWS figure 3c): the viewer's quality at a known capacity. Only allocation, no transport. If
//! not even the coarsest tiles fit into the capacity, the last tiles of the plan are frozen.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tributary_types::Bitrate;
use tributary_video::allocation::{self, ArrivalOrder, Capacity, GopProblem, Settings, TileChoice};
use tributary_video::metrics::{MOST_DB, psnr_db};
use tributary_video::prediction::TileOutlook;
use tributary_video::rd::{Concealment, TileCells};

use super::OwsError;
use super::audience::AudienceError;
use super::viewing::Task;

/// The predicted view of each GoP of a viewing at the start of its sending; the same for every capacity and
/// allocator.
type Outlook = Arc<Vec<Vec<TileOutlook>>>;
/// Outlooks by clip and viewing.
pub(super) type Outlooks = Mutex<BTreeMap<(String, usize), Outlook>>;

/// Viewport PSNR in dB, mean over the GoPs of a viewing, with a known capacity: `rate`.
pub(super) fn quality(task: &Task, rate: Bitrate, outlooks: &Outlooks) -> Result<f64, OwsError> {
    let (clip, outlook) = (&task.clip, outlook(task, outlooks)?);
    let allocator = allocation::create(&task.allocator, Settings::default())?;
    let bytes = rate.as_bps() as f64 / 8.0 * clip.gop_s();
    let (mut sum, mut count) = (0.0, 0.0);
    for (gop, views) in task.watched.views.iter().enumerate() {
        let at = clip.at(task.watched.first + gop);
        let menus = clip.table().menus(at, &outlook[gop], Concealment::Freeze);
        let problem =
            Capacity::certain(bytes).and_then(|known| GopProblem::new(menus, known, ArrivalOrder::InOrder));
        let Ok(problem) = problem else { continue };
        let errors = arrived(clip.table().gop(at), &allocator.allocate(&problem).order, bytes);
        let shown = errors.iter().zip(views).map(|(error, view)| error * view.share);
        sum += psnr_db(shown.sum::<f64>()).min(MOST_DB);
        count += 1.0;
    }
    Ok(sum / f64::max(count, 1.0))
}

fn outlook(task: &Task, outlooks: &Outlooks) -> Result<Outlook, OwsError> {
    let key = (task.clip.info.name.clone(), task.viewing);
    let known = || outlooks.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(outlook) = known().get(&key) {
        return Ok(outlook.clone());
    }
    let (clip, gops) = (&task.clip, task.watched.views.len() as u32);
    let planning =
        task.planner("fix", Duration::ZERO)?.begin(&clip.video(), gops).map_err(AudienceError::from)?;
    let of = |gop: u32| planning.outlook((f64::from(gop) - 1.0) * clip.gop_s(), gop);
    let outlook = Arc::new((0..gops).map(of).collect::<Vec<_>>());
    known().insert(key, outlook.clone());
    Ok(outlook)
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
    fn tiles_that_do_not_fit_are_frozen() {
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
