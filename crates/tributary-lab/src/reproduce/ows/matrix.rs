//! Which viewings there are, and running them side by side.

use core::time::Duration;
use std::sync::Arc;

use tributary_types::Rng;
use tributary_video::rd::Concealment;

use super::audience::{Audience, Stage, Watched};
use super::by_gain::BY_GAIN;
use super::clip::Clip;
use super::scene::{self, SCENES};
use super::viewing::{Task, UPDATED};
use super::{OwsError, Settings};

/// The rival, and the product's.
pub(super) const TRANSPORTS: [&str; 2] = ["mptcp", "fbdt"];
/// Steps from the baseline to the whole chain: transport and allocator.
pub(super) const CHAIN: [(&str, &str); 7] = [
    ("mptcp", "fix"),
    ("fbdt", "fix"),
    ("fbdt", "fix-q"),
    ("fbdt", BY_GAIN),
    ("fbdt", "ows-every-tile"),
    ("fbdt", "ows"),
    ("fbdt", UPDATED),
];
/// Of these every viewing is run.
const MAIN: [(&str, &str); 4] = [CHAIN[0], CHAIN[4], CHAIN[5], CHAIN[6]];
/// Of these some.
const ASIDE: [(&str, &str); 11] = [
    CHAIN[1],
    CHAIN[2],
    CHAIN[3],
    ("mptcp", "fix-q"),
    ("mptcp", "ows-paper"),
    ("mptcp", "two-class"),
    ("mptcp", "ows"),
    ("mptcp", UPDATED),
    ("fbdt", "ows-paper"),
    ("fbdt", "ows-paper-descending"),
    ("fbdt", "two-class"),
];
/// Some with black in place of freezing.
const BLACK: [(&str, &str); 3] = [CHAIN[0], CHAIN[4], CHAIN[6]];

/// Every viewing that the settings ask for.
pub(super) fn tasks(
    settings: &Settings,
    clips: &[Arc<Clip>],
    audiences: &[Audience],
) -> Result<Vec<Task>, OwsError> {
    let assumed = scene::assumed()?;
    let mut tasks = Vec::new();
    for (index, clip) in clips.iter().enumerate() {
        let grid = clip.table().layout().grid;
        let stages: Vec<Stage<'_>> =
            audiences.iter().map(|audience| audience.before(grid, clip.gop_s())).collect::<Result<_, _>>()?;
        for viewing in 0..settings.viewings {
            let first = Rng::new(viewing as u64).child("first GoP").below(clip.info.gops as u64) as usize;
            let eyes = Arc::new(Watched { first, ..eyes(&stages, viewing, settings.gops)? });
            for (scene, _) in SCENES {
                let mut push = |(transport, allocator), concealment| -> Result<(), OwsError> {
                    let watched = eyes.clone();
                    let clip = (index, clip.clone());
                    tasks.push(Task {
                        clip,
                        viewing,
                        watched,
                        scene,
                        transport,
                        allocator,
                        concealment,
                        assumed,
                    });
                    Ok(())
                };
                MAIN.into_iter().try_for_each(|pair| push(pair, Concealment::Freeze))?;
                if viewing < settings.aside {
                    ASIDE.into_iter().try_for_each(|pair| push(pair, Concealment::Freeze))?;
                    BLACK.into_iter().try_for_each(|pair| push(pair, Concealment::Black))?;
                }
            }
        }
    }
    Ok(tasks)
}

/// Videos in turn, so that few viewings have viewers of all.
fn eyes(stages: &[Stage<'_>], viewing: usize, gops: usize) -> Result<Watched, OwsError> {
    let stage = &stages[viewing % stages.len()];
    Ok(stage.watch(viewing / stages.len() % stage.viewers(), gops)?)
}

/// How long each transport connects in line of sight before the start can be asked for, ms.
pub(super) fn connecting(tasks: &[Task]) -> Result<Vec<(&'static str, f64)>, OwsError> {
    let mut all = Vec::new();
    for transport in TRANSPORTS {
        let scene = SCENES[0].0;
        let first = tasks.iter().find(|task| (task.scene, task.transport) == (scene, transport));
        let outcome = first.map(|task| task.outcome(Duration::ZERO)).transpose()?;
        let Some(started) = outcome.and_then(|outcome| outcome.started) else {
            return Err(OwsError::NothingSeen { scene, transport });
        };
        all.push((transport, started.as_secs_f64() * 1e3));
    }
    Ok(all)
}
