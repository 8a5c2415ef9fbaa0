//! Quality against rate, the paper's one curve (OWS figure 3c): what a certain capacity shows the viewer when
//! everything arrives. Allocation alone; no transport.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tributary_video::allocation::{self, Arrival, Capacity, GopProblem, Settings};
use tributary_video::metrics::psnr_db;
use tributary_video::rd::Concealment;

use super::OwsError;
use super::clip::Clip;
use super::display::Display;
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
    let mut points = Vec::new();
    for allocator in ALLOCATORS {
        let made = allocation::create(allocator, Settings::default())?;
        for share in RATES {
            let (mut sum, mut count) = (0.0, 0.0);
            for ((clip, _), task) in &viewings {
                let (clip, watched) = (&clips[*clip], &task.watched);
                let nothing = Display::new(clip.info.tiles, Concealment::Freeze);
                for (gop, views) in watched.views.iter().enumerate() {
                    let at = clip.at(watched.first + gop);
                    let menus = clip.table().menus(at, &watched.outlooks[gop][0], Concealment::Freeze);
                    let capacity = Capacity::certain(share * full * clip.gop_s());
                    let problem = capacity.and_then(|known| GopProblem::new(menus, known, Arrival::InOrder));
                    let Ok(problem) = problem else { continue };
                    let cells = clip.table().gop(at);
                    let concealed = nothing.concealed(cells);
                    let choices = made.allocate(&problem).choices;
                    let shown = choices.iter().enumerate().map(|(tile, choice)| {
                        views[tile].share * choice.map_or(concealed[tile], |choice| cells[tile].mse[choice])
                    });
                    sum += psnr_db(shown.sum::<f64>()).min(100.0);
                    count += 1.0;
                }
            }
            let mbps = share * full * 8e-6;
            points.push(Point { mbps, allocator, mean_db: sum / f64::max(count, 1.0) });
        }
    }
    Ok(points)
}
