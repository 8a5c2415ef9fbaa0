//! OWS: the quality that viewers of tiled video see over two radios, by allocator and transport. Viewings are live
//! and closed-loop, in the simulator or on real sockets through the emulator.
//!
//! Cells, claims, tables and figures are data (`scenarios/papers/ows.toml`), run and judged like those of any paper;
//! this module has the clips, the viewers and the experiment. Real are: sizes and errors of tiles, head movement, and
//! the product's player, pusher and session. Modelled is the kernel's MPTCP. In the simulator the quality is computed
//! from measured errors; live viewings are decoded. Source: the OWS paper §4, §6.3. Deviations:
//! `docs/reproductions/ows.md`.

pub mod audience;
pub mod clip;
mod curve;
pub(crate) mod elsewhere;
mod experiment;
mod eyes;
mod gathered;
mod group;
mod live;
mod motion;
mod scene;
mod variant;
mod viewing;

use core::time::Duration;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tributary_link::ScenarioError;
use tributary_report::Media;
use tributary_sim::run::RunError;
use tributary_video::allocation::UnknownAllocator;
use tributary_video::head::Format;

use super::{Outcome, Paper, PaperError, ReproduceError, Selection};
use crate::demo::{Progress, TiledDemoError};
use crate::result::World;
use tributary_stream::viewing::{ViewerConfig, psnr_cap};

use audience::{Audience, AudienceError};
use clip::{Clip, ClipError, ClipInfo};
use experiment::Viewings;
pub use group::MOST_VIEWERS;
pub use motion::STARTING;
use scene::Scene;

/// The paper's data.
const PAPER: &str = include_str!("../../papers/ows.toml");
/// The same pair of schemes at several loads.
const LOADS: &str = include_str!("../../papers/ows-load.toml");
/// Several viewers at the same time.
const VIEWERS: &str = include_str!("../../papers/ows-viewers.toml");

/// Settings of the reproduction.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The world in which viewings are played.
    pub world: World,
    /// Directories of tiles. If empty, synthetic clips are used, in the simulator only.
    pub tiled: Vec<PathBuf>,
    /// Recorded head movement: format and folder; `None`: generated.
    pub heads: Option<(Format, PathBuf)>,
    /// Viewings of each clip in each scene.
    pub viewings: u32,
    /// GoPs of a viewing, [`STARTING`] included.
    pub gops: usize,
    /// Bytes of the finest quality relative to the capacity of both radios in line of sight; in an added network
    /// relative to its mean capacity. Live viewings use the tiles unchanged. With several loads, the gain at each is
    /// measured instead of everything at one (simulator only).
    pub loads: Vec<f64>,
    /// Numbers of viewers who watch at the same time, at most [`MOST_VIEWERS`]: how they share the radios is measured instead of everything
    /// for one. With one load and the paper's radio conditions, in the simulator.
    pub viewers: Vec<u32>,
    /// Networks in addition to the paper's radio conditions: names of scenarios, or files; simulator only.
    pub networks: Vec<String>,
    /// Parallel viewings; `None`: one per core.
    pub jobs: Option<NonZeroUsize>,
    /// Whether finished live viewings are reused; finished simulated ones always are.
    pub resume: bool,
    /// No viewing is begun after this time.
    pub limit: Option<Duration>,
    /// Directory for finished viewings.
    pub directory: PathBuf,
    /// The command line, for the report.
    pub command: String,
}

/// Result of a run.
#[derive(Debug)]
pub struct Reproduced {
    /// The paper with the clips' names.
    pub paper: Paper,
    /// All viewings and the claims.
    pub outcome: Outcome,
    /// One moment as two transports and allocators showed it, and the original; empty for synthetic clips.
    pub pictures: Vec<Media>,
    /// Why there are no pictures, if there are tiles.
    pub no_pictures: Option<String>,
}

/// Why a reproduction failed.
#[derive(Debug, Error)]
pub enum OwsError {
    /// A clip cannot be used.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// The viewers' head movement cannot be used.
    #[error(transparent)]
    Audience(#[from] AudienceError),
    /// The simulator refuses a run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A scenario is missing.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// An allocator is missing.
    #[error(transparent)]
    Allocator(#[from] UnknownAllocator),
    /// The paper's file is invalid.
    #[error(transparent)]
    Paper(#[from] PaperError),
    /// The runner failed.
    #[error(transparent)]
    Reproduce(#[from] ReproduceError),
    /// No load is given, or several for live viewings.
    #[error("give one load; the simulator also takes several")]
    Loads,
    /// Several viewers at the same time, live, at several loads or in added networks.
    #[error("several viewers are for the simulator, with one load and no added networks")]
    Viewers,
    /// The viewings are too short to be measured.
    #[error("{gops} GoPs; the first {STARTING} are not counted, so at least {} are needed", STARTING + 1)]
    Short {
        /// The requested number of GoPs.
        gops: usize,
    },
    /// A live viewing needs tiles on disk.
    #[error("clip `{0}` has no tiles on disk; give a directory that `tributary ingest` has written")]
    NoTiles(String),
    /// A live viewing failed.
    #[error(transparent)]
    Live(#[from] TiledDemoError),
    /// Two directories have the same name, which is the clip's name.
    #[error("two clips are called `{0}`; rename one directory")]
    SameName(String),
    /// A connection delivered nothing.
    #[error("{scene} over {transport}: no GoP was requested")]
    NothingSeen {
        /// Radio condition.
        scene: String,
        /// Transport.
        transport: String,
    },
}

/// Runs the experiment and judges the claims. Finished viewings are kept, so a stopped reproduction can be resumed.
///
/// # Errors
/// [`OwsError`]; a claim that does not hold is a result.
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Reproduced, OwsError> {
    if settings.gops <= STARTING {
        return Err(OwsError::Short { gops: settings.gops });
    }
    if settings.loads.is_empty() || settings.world == World::Emu && settings.loads.len() > 1 {
        return Err(OwsError::Loads);
    }
    let one = settings.world == World::Sim && settings.loads.len() == 1 && settings.networks.is_empty();
    if !settings.viewers.is_empty() && !one {
        return Err(OwsError::Viewers);
    }
    let at = |load: &f64| Ok((load.to_string(), clips(settings, *load)?));
    let loads = settings.loads.iter().map(at).collect::<Result<Vec<_>, OwsError>>()?;
    let audiences = match &settings.heads {
        Some((format, folder)) => Audience::read(format, folder)?,
        None => Audience::generated(),
    };
    let paper = paper(&loads[0].1, settings)?;
    let viewings = Viewings::new(settings, loads, &audiences)?;
    let selection =
        Selection { world: settings.world, seeds: Some(settings.viewings), ..Selection::default() };
    let runner = super::Settings {
        selection,
        directory: settings.directory.clone(),
        resume: settings.resume,
        jobs: settings.jobs,
        limit: settings.limit,
        command: settings.command.clone(),
        ..super::Settings::default()
    };
    let mut outcome = super::run(&paper, &[&viewings], &runner, progress)?;
    describe(&mut outcome, settings, &viewings, &audiences)?;
    let (pictures, no_pictures) = match settings.world {
        World::Sim => viewings.moment(),
        World::Emu => Default::default(),
    };
    Ok(Reproduced { paper, outcome, pictures, no_pictures })
}

/// The paper with the names of the clips and of the added networks filled in.
fn paper(clips: &[Arc<Clip>], settings: &Settings) -> Result<Paper, OwsError> {
    let mut paper = match (settings.loads.len(), settings.viewers.is_empty()) {
        (1, true) => Paper::parse(PAPER, "scenarios/papers/ows.toml")?,
        (_, true) => Paper::parse(LOADS, "scenarios/papers/ows-load.toml")?,
        (_, false) => Paper::parse(VIEWERS, "scenarios/papers/ows-viewers.toml")?,
    };
    let names = |of: &dyn Fn(&ClipInfo) -> bool| -> Vec<String> {
        clips.iter().filter(|clip| of(&clip.info)).map(|clip| clip.info.name.clone()).collect()
    };
    let all = names(&|_| true);
    if let Some(twice) = all.iter().enumerate().find(|(at, name)| all[..*at].contains(name)) {
        return Err(OwsError::SameName(twice.1.clone()));
    }
    paper.fill("load", "all", &settings.loads.iter().map(f64::to_string).collect::<Vec<_>>());
    paper.fill("viewers", "all", &settings.viewers.iter().map(u32::to_string).collect::<Vec<_>>());
    paper.fill("clip", "first", &all[..1]);
    paper.fill("clip", "all", &all);
    paper.fill("clip", "moving", &names(&|info| info.moving));
    paper.fill("scenario", "added", &settings.networks);
    let labels = paper.label.entry("scenario".to_owned()).or_default();
    for network in &settings.networks {
        let stem = Path::new(network).file_stem().unwrap_or_default().to_string_lossy();
        labels.entry(network.clone()).or_insert_with(|| stem.into_owned());
    }
    Ok(paper)
}

fn clips(settings: &Settings, load: f64) -> Result<Vec<Arc<Clip>>, OwsError> {
    let bytes = load * scene::full_rate()?;
    let clips = if settings.tiled.is_empty() {
        Clip::drawn(bytes)?
    } else {
        let load = (settings.world == World::Sim).then_some(bytes);
        settings.tiled.iter().map(|directory| Clip::read(directory, load)).collect::<Result<_, _>>()?
    };
    Ok(clips.into_iter().map(Arc::new).collect())
}

/// Adds the clips, viewers and settings to the description of the run.
fn describe(
    outcome: &mut Outcome,
    settings: &Settings,
    viewings: &Viewings,
    audiences: &[Audience],
) -> Result<(), OwsError> {
    let configuration = &mut outcome.reproduction.run.configuration;
    let mut set = |name: &str, value: String| _ = configuration.insert(name.to_owned(), value);
    let viewers: usize = audiences.iter().map(Audience::viewers).sum();
    let kind = match &settings.heads {
        Some((format, _)) => format!(
            "recorded ({format}), {} videos, {viewers} recordings, of other videos than the clips",
            audiences.len()
        ),
        None => "generated: no recordings were given".to_owned(),
    };
    set("head movement", kind);
    let (begins, assumed) = match settings.world {
        World::Sim => ("any of the clip", scene::assumed()?),
        World::Emu => ("the clip's first", ViewerConfig::default().assumed),
    };
    let text = format!(
        "a seed is a viewing of each clip in each scene, {} GoPs each, starting at {begins}; the first {STARTING} are not counted",
        settings.gops
    );
    set("viewings", text);
    let text = "a GoP is planned when it begins and must be there one GoP later, when it is shown";
    set("deadline", text.to_owned());
    let text = format!(
        "what the player measured since the viewing began; {:.0} Mbit/s assumed at first",
        assumed.as_mbps_f64()
    );
    set("known of capacity", text);
    set("PSNR", psnr_cap());
    set("each run", format!("{} GoPs", settings.gops));
    if !settings.networks.is_empty() {
        let text = format!(
            "{}; the finest quality has {} times a network's mean capacity, and the assumed rate is scaled alike; a viewing starts anywhere in it; one viewing of each clip, another one in each network",
            settings.networks.len(),
            settings.loads[0]
        );
        set("added networks", text);
    }
    for clip in viewings.clips() {
        set(&format!("clip {}", clip.info.name), told(&clip.info, settings.world)?);
    }
    Ok(())
}

/// Description of a clip.
fn told(clip: &ClipInfo, world: World) -> Result<String, OwsError> {
    let load = |(scene, name): (&str, &str)| {
        let load = clip.finest_bytes / Scene::condition(scene)?.mean_rate();
        Ok::<String, OwsError>(format!("{load:.2} {name}"))
    };
    let conditions = scene::conditions(world);
    let loads = conditions.into_iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let los = Scene::condition(conditions[0].0)?.mean_rate();
    let tiling = match (clip.tiling_percent.first(), clip.tiling_percent.last()) {
        (Some((_, finest)), Some((_, coarsest))) => {
            format!(", tiling adds {finest:.1} % (finest) to {coarsest:.1} % (coarsest) bytes")
        }
        _ => String::new(),
    };
    Ok(format!(
        "{}, {} GoPs, {} tiles, QP {}…{}{tiling}, {} (freezing {:.1} dB); sizes × {:.3}; finest/capacity {}; coarsest {:.2} of LoS",
        clip.origin,
        clip.gops,
        clip.tiles,
        clip.qps[0],
        clip.qps[clip.qps.len() - 1],
        if clip.moving { "moving" } else { "still" },
        clip.freeze_db,
        clip.factor,
        loads.join(", "),
        clip.coarsest_bytes / los,
    ))
}

#[cfg(test)]
mod tests;
