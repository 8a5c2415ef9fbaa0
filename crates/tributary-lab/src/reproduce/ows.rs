//! OWS in the simulator: what viewers would see of tiled video over two radios, by allocator and transport, live
//! and in a closed loop.
//!
//! Real sizes and errors of tiles, real head movement, the product's player, pusher and session, and a model of the
//! kernel's MPTCP, in virtual time. No pictures are decoded here: what is seen is put together from measured errors.
//! Source: the OWS paper §4, §6.3. Deviations: `docs/reproductions/ows.md`.

pub mod audience;
mod by_gain;
mod claims;
pub mod clip;
mod curve;
mod emulated;
mod eyes;
mod figures;
mod matrix;
mod motion;
mod page;
mod scene;
mod tables;
mod viewing;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use thiserror::Error;
use tributary_link::ScenarioError;
use tributary_report::{Image, Reproduction, RunInfo};
use tributary_sim::run::RunError;
use tributary_video::allocation::UnknownAllocator;
use tributary_video::head::Format;

use crate::demo::Progress;
use crate::machine;
use crate::side_by_side::side_by_side;

use audience::{Audience, AudienceError};
use clip::{Clip, ClipError, ClipInfo};
pub use curve::Point;
pub use emulated::{LiveError, LiveOutcome, LiveScene, LiveSettings, live_table, run_live};
pub use page::{drawings, render};
pub use tables::{markdown, tables};
pub use viewing::{STARTING, Viewed};

/// What to reproduce.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directories of tiles; none takes clips that the program draws.
    pub tiled: Vec<PathBuf>,
    /// Recorded head movement: format and folder; `None` generates some.
    pub heads: Option<(Format, PathBuf)>,
    /// Viewings of each clip in each scene.
    pub viewings: usize,
    /// So many of them also with the allocators that no main claim is about.
    pub aside: usize,
    /// GoPs of a viewing, [`STARTING`] included.
    pub gops: usize,
    /// Bytes of the finest quality relative to what both radios carry in line of sight.
    pub load: f64,
    /// Viewings at once; `None` is one a core.
    pub jobs: Option<NonZeroUsize>,
    /// The command line, for the report.
    pub command: String,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Claims and how they were measured.
    #[serde(flatten)]
    pub reproduction: Reproduction,
    /// The videos.
    pub clips: Vec<ClipInfo>,
    /// Time from the first packet to the first request, ms, by transport.
    pub connecting_ms: Vec<(&'static str, f64)>,
    /// Every viewing.
    pub viewings: Vec<Viewed>,
    /// Quality against rate.
    pub curve: Vec<Point>,
    /// One moment as two chains showed it, and the original; empty for drawn clips.
    #[serde(skip)]
    pub pictures: Vec<Image>,
    /// Why there are no pictures although there are tiles.
    pub no_pictures: Option<String>,
}

/// Why there is no reproduction.
#[derive(Debug, Error)]
pub enum OwsError {
    /// A clip cannot be used.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// Nobody watches.
    #[error(transparent)]
    Audience(#[from] AudienceError),
    /// The simulator refuses.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A scenario is missing.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// An allocator is missing.
    #[error(transparent)]
    Allocator(#[from] UnknownAllocator),
    /// Too short to say anything.
    #[error("{gops} GoPs; the first {STARTING} are not counted, so at least {} are needed", STARTING + 1)]
    Short {
        /// GoPs asked for.
        gops: usize,
    },
    /// A connection that carried nothing.
    #[error("{scene} over {transport}: no GoP was ever asked for")]
    NothingSeen {
        /// Radio condition.
        scene: &'static str,
        /// Transport.
        transport: &'static str,
    },
}

/// Runs the experiment and judges the claims.
///
/// # Errors
/// [`OwsError`]; a claim that does not hold is a result.
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Outcome, OwsError> {
    let began = Instant::now();
    if settings.gops <= STARTING {
        return Err(OwsError::Short { gops: settings.gops });
    }
    let clips = clips(settings)?;
    let audiences = match &settings.heads {
        Some((format, folder)) => Audience::read(*format, folder)?,
        None => Audience::generated(),
    };
    let tasks = matrix::tasks(settings, &clips, &audiences)?;
    let connecting_ms = matrix::connecting(&tasks)?;
    let mut viewings = Vec::new();
    for viewed in side_by_side(settings.jobs, &tasks, viewing::Task::run, ("viewings", progress)) {
        viewings.push(viewed?);
    }
    viewings.sort_by_key(|v| (v.concealment as u8, v.clip, v.scene, v.transport, v.allocator, v.viewing));
    let curve = curve::points(&clips, &tasks)?;
    let (pictures, no_pictures) = eyes::moment(&tasks);
    let infos: Vec<ClipInfo> = clips.iter().map(|clip| clip.info.clone()).collect();
    let mut info = describe(settings, &infos, &audiences)?;
    info.seconds = Some(began.elapsed().as_secs_f64());
    let claims = claims::judge(&infos, &viewings, &connecting_ms);
    let reproduction = Reproduction { name: "ows".to_owned(), claims, run: info };
    Ok(Outcome { reproduction, clips: infos, connecting_ms, viewings, curve, pictures, no_pictures })
}

fn clips(settings: &Settings) -> Result<Vec<Arc<Clip>>, OwsError> {
    let bytes = settings.load * scene::full_rate()?;
    let clips = if settings.tiled.is_empty() {
        Clip::drawn(bytes)?
    } else {
        settings.tiled.iter().map(|directory| Clip::read(directory, bytes)).collect::<Result<_, _>>()?
    };
    Ok(clips.into_iter().map(Arc::new).collect())
}

fn describe(settings: &Settings, clips: &[ClipInfo], audiences: &[Audience]) -> Result<RunInfo, OwsError> {
    let mut info = machine::run_info(&settings.command);
    info.seeds = (0..settings.viewings as u64).collect();
    info.congestion = scene::CONGESTION.to_owned();
    let mut set = |name: &str, value: String| _ = info.configuration.insert(name.to_owned(), value);
    set("world", "simulated: the same on every machine for the same tables and recordings".to_owned());
    let viewers: usize = audiences.iter().map(Audience::viewers).sum();
    let kind = match &settings.heads {
        Some((format, _)) => format!(
            "recorded ({format}), {} videos, {viewers} recordings, of other videos than the clips",
            audiences.len()
        ),
        None => "generated: no recordings were given".to_owned(),
    };
    set("head movement", kind);
    set(
        "viewings",
        format!(
            "{} of each clip in each scene, {} GoPs each from any of the clip on, the first {STARTING} not counted",
            settings.viewings, settings.gops
        ),
    );
    set(
        "deadline",
        "a GoP is planned when it begins and must be there one GoP later, when it is shown".to_owned(),
    );
    let assumed = scene::assumed()?.as_mbps_f64();
    set(
        "known of capacity",
        format!("what the player measured since the viewing began; {assumed:.0} Mbit/s assumed at first"),
    );
    let full = scene::full_rate()?;
    for clip in clips {
        let load = |scene| Ok::<f64, OwsError>(clip.finest_bytes / scene::mean_rate(scene)?);
        let text = format!(
            "{}, {} GoPs, {} tiles, QP {}…{}{}, {} (freezing {:.1} dB); sizes × {:.3}; finest/capacity {:.2} LoS, {:.2} nLoS, {:.2} mobility; coarsest {:.2} of LoS",
            clip.origin,
            clip.gops,
            clip.tiles,
            clip.qps[0],
            clip.qps[clip.qps.len() - 1],
            match (clip.tiling_percent.first(), clip.tiling_percent.last()) {
                (Some((_, finest)), Some((_, coarsest))) =>
                    format!(", tiling costs {finest:.1} % (finest) … {coarsest:.1} % (coarsest) more bytes"),
                _ => String::new(),
            },
            if clip.moving { "moving" } else { "still" },
            clip.freeze_db,
            clip.factor,
            load("los")?,
            load("nlos")?,
            load("mobility")?,
            clip.coarsest_bytes / full,
        );
        set(&format!("clip {}", clip.name), text);
    }
    Ok(info)
}

#[cfg(test)]
mod tests;
