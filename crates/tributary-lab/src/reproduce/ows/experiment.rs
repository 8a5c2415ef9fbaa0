//! The experiment of `scenarios/papers/ows.toml`. A cell is one viewing of one clip over one transport with one
//! allocator; a seed is a viewer and a start position in the clip.
//!
//! In the emulator a viewing is played on real sockets, and again in the simulator (`live`). Two kinds of cells are
//! not viewings: allocator `connecting` measures the connection time of a transport, and transport `certain` the
//! quality with a known capacity (`curve`).

use core::time::Duration;
use std::sync::Arc;

use tributary_report::Media;
use tributary_stream::tiled;
use tributary_types::{Bitrate, Rng};
use tributary_video::rd::Concealment;

use super::audience::{Audience, Stage, Watched};
use super::clip::Clip;
use super::curve::{self, Outlooks};
use super::gathered::gathered;
use super::scene::{self, Scene};
use super::variant;
use super::viewing::{Task, UPDATED};
use super::{OwsError, Settings, eyes, live};
use crate::reproduce::matrix::{Cell, CellError, failed};
use crate::reproduce::runner::Experiment;
use crate::reproduce::sample::{Metric, Sample};
use crate::result::World;
use crate::store::key;
use tributary_stream::viewing::ViewerConfig;

/// The metrics.
const METRICS: [Metric; 20] = [
    Metric::new("quality", "dB", "mean of the viewport's PSNR"),
    Metric::new("errors", "", "mean squared error in the viewport of each GoP"),
    Metric::new("gop_quality", "dB", "PSNR in the viewport of each GoP, at most 100"),
    Metric::new("late", "%", "share of the viewport whose tiles were sent but late"),
    Metric::new("left_out", "%", "share of the viewport whose tiles the plan left out"),
    Metric::new("in_time", "MB", "data of a GoP that arrived in time"),
    Metric::new(
        "to_quality",
        "s",
        "time from a tile's coming into view until it is as good as the others; 0 if none came into view",
    ),
    Metric::new("budget", "MB", "mean capacity with which a GoP is planned first; simulator only"),
    Metric::new("viewer_quality", "dB", "`quality` of each viewer, where there are several"),
    Metric::new("viewer_late", "%", "`late` of each viewer"),
    Metric::new("even_quality", "", "Jain's index of the viewers' `quality`"),
    Metric::new("even_rate", "", "Jain's index of the viewers' `in_time`"),
    Metric::new("first_late", "%", "late share of the viewport in the first GoP"),
    Metric::new("connecting", "ms", "time from the first packet to the first request"),
    Metric::new("start_up", "RTT", "time to the first picture less one GoP; emulator only"),
    Metric::new("simulated_quality", "dB", "`quality` of the same viewing in the simulator; emulator only"),
    Metric::new("simulated_late", "%", "`late` of the same viewing in the simulator; emulator only"),
    Metric::new("simulated_left_out", "%", "`left_out` of the same viewing in the simulator; emulator only"),
    Metric::new("simulated_in_time", "MB", "`in_time` of the same viewing in the simulator; emulator only"),
    Metric::new(
        "composed_quality",
        "dB",
        "`simulated_quality` computed from the table, without decoding; emulator only",
    ),
];

/// Clips and their viewers.
pub(super) struct Viewings {
    /// The clips at each load, by its label. Cells without a load have the first.
    loads: Vec<(String, Vec<Arc<Clip>>)>,
    /// Viewers of each clip, viewing by viewing.
    watched: Vec<Vec<Arc<Watched>>>,
    /// Viewings in addition to the seeds', for other networks or other viewers at the same time.
    further: usize,
    assumed: Bitrate,
    /// Networks that the user added.
    networks: Vec<Network>,
    outlooks: Outlooks,
    /// Settings that decide the result of a cell, in addition to its labels.
    identity: String,
}

/// A network that the user added.
struct Network {
    scene: Arc<Scene>,
    /// The clips with sizes relative to this network's mean capacity.
    clips: Vec<Arc<Clip>>,
    /// The rate that is assumed until one has been measured.
    assumed: Bitrate,
}

impl Viewings {
    pub(super) fn new(
        settings: &Settings,
        loads: Vec<(String, Vec<Arc<Clip>>)>,
        audiences: &[Audience],
    ) -> Result<Self, OwsError> {
        let clips = &loads[0].1;
        // Each added network shows another viewing, and so does each viewer.
        let most = settings.viewers.iter().copied().max().unwrap_or(1) as usize;
        let further = settings.networks.len().max(most).saturating_sub(1);
        let mut watched = Vec::new();
        for clip in clips {
            let grid = clip.table().layout().grid;
            let stages = audiences.iter().map(|audience| audience.before(grid, clip.gop_s()));
            let stages: Vec<Stage<'_>> = stages.collect::<Result<_, _>>()?;
            let all = (0..settings.viewings + further as u32).map(|viewing| {
                let first = match settings.world {
                    World::Sim => {
                        Rng::new(viewing.into()).child("first GoP").below(clip.info.gops as u64) as usize
                    }
                    World::Emu => 0, // a server always starts at the beginning of its video
                };
                Ok(Arc::new(Watched { first, ..eyes(&stages, viewing as usize, settings.gops)? }))
            });
            watched.push(all.collect::<Result<Vec<_>, OwsError>>()?);
        }
        let tables: Vec<_> = clips.iter().map(|clip| clip.table()).collect();
        let tables = key::of(&format!("{tables:?}"));
        let identity = format!("{tables} {:?} {} {}", settings.heads, settings.gops, loads[0].0);
        let assumed = match settings.world {
            World::Sim => scene::assumed()?,
            World::Emu => ViewerConfig::default().assumed,
        };
        let full = scene::full_rate()?;
        let network = |name: &String| {
            let scene = Arc::new(Scene::added(name)?);
            let ratio = scene.mean_rate() / full;
            let clips = clips.iter().map(|clip| Arc::new(clip.scaled(ratio))).collect();
            let assumed = Bitrate::from_bps((assumed.as_bps() as f64 * ratio) as u64);
            Ok::<Network, OwsError>(Network { scene, clips, assumed })
        };
        let networks = settings.networks.iter().map(network).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { loads, watched, further, assumed, networks, outlooks: Outlooks::default(), identity })
    }

    pub(super) fn clips(&self) -> &[Arc<Clip>] {
        &self.loads[0].1
    }

    /// Pictures of the first viewing of a clip with tiles on disk, in deep fades: baseline, product, original.
    pub(super) fn moment(&self) -> (Vec<Media>, Option<String>) {
        let Some(clip) = self.clips().iter().position(|clip| clip.directory().is_some()) else {
            return Default::default();
        };
        let Ok(scene) = Scene::condition("deep-fade").map(Arc::new) else { return Default::default() };
        let task = |transport: &str, allocator: &str| Task {
            transport: transport.to_owned(),
            allocator: allocator.to_owned(),
            ..self.task_of(&scene, clip, 0)
        };
        eyes::moment(&task("mptcp", "fix"), &task("fbdt", UPDATED))
    }

    /// Checks that a viewing can be played live: it needs tiles on disk, and an allocator of the product.
    fn check_live(&self, task: &Task) -> Result<(), CellError> {
        if task.clip.directory().is_none() {
            return Err(failed(OwsError::NoTiles(task.clip.info.name.clone())));
        }
        tiled::allocator(live::product_name(&task.allocator), 1, false).map_err(failed)?;
        Ok(())
    }

    fn task_of(&self, scene: &Arc<Scene>, clip: usize, viewing: usize) -> Task {
        Task {
            clip: self.clips()[clip].clone(),
            viewing,
            watched: self.watched[clip][viewing].clone(),
            scene: scene.clone(),
            transport: String::new(),
            allocator: String::new(),
            concealment: Concealment::Freeze,
            assumed: self.assumed,
            group: None,
        }
    }

    /// A viewing in one of the paper's conditions or in an added network.
    fn task_in(&self, scenario: &str, clip: usize, viewing: usize) -> Result<Task, OwsError> {
        let Some(number) = self.networks.iter().position(|network| network.scene.name == scenario) else {
            return Ok(self.task_of(&Arc::new(Scene::condition(scenario)?), clip, viewing));
        };
        let Network { scene, clips, assumed } = &self.networks[number];
        let task = self.task_of(scene, clip, viewing + number);
        Ok(Task { clip: clips[clip].clone(), assumed: *assumed, ..task })
    }

    fn task(&self, cell: &Cell) -> Result<Task, CellError> {
        let named = |clip: &Arc<Clip>| clip.info.name == cell.label("clip");
        let clip = self.clips().iter().position(named).ok_or_else(|| {
            let known: Vec<&str> = self.clips().iter().map(|clip| clip.info.name.as_str()).collect();
            cell.refused("clip", &format!("one of {}", known.join(", ")))
        })?;
        let last = self.watched[clip].len() - self.further;
        let viewing = usize::try_from(cell.seed - 1).ok().filter(|at| *at < last);
        let viewing = viewing.ok_or_else(|| failed(format!("no viewing {}", cell.seed)))?;
        let concealment = match cell.label("concealment") {
            "" | "freeze" => Concealment::Freeze,
            "black" => Concealment::Black,
            _ => return Err(cell.refused("concealment", "freeze or black")),
        };
        let (transport, allocator) = (cell.label("transport").to_owned(), cell.label("allocator").to_owned());
        let mut task = self.task_in(cell.label("scenario"), clip, viewing).map_err(failed)?;
        if !cell.label("load").is_empty() {
            let at_load = self.loads.iter().find(|(load, _)| load == cell.label("load"));
            task.clip = at_load.ok_or_else(|| cell.refused("load", "one of --load"))?.1[clip].clone();
        }
        let task = Task { transport, allocator, concealment, ..task };
        if cell.label("viewers").is_empty() { Ok(task) } else { gathered(task, cell, &self.watched[clip]) }
    }
}

impl Experiment for Viewings {
    fn name(&self) -> &'static str {
        "viewing"
    }

    fn metrics(&self) -> &[Metric] {
        &METRICS
    }

    fn identity(&self, cell: &Cell) -> String {
        let network = self.task_in(cell.label("scenario"), 0, 0).map(|task| task.scene.key.clone());
        let network = network.unwrap_or_default(); // `check` refuses a scenario that does not exist
        format!("{} {network} {}", self.identity, cell.identity())
    }

    fn check(&self, cell: &Cell) -> Result<(), CellError> {
        let task = self.task(cell)?;
        if cell.world == World::Emu {
            return self.check_live(&task);
        }
        if task.transport == CERTAIN {
            capacity(cell)?;
        }
        if task.allocator != CONNECTING && !variant::NAMES.contains(&task.allocator.as_str()) {
            task.planner(&task.allocator, Duration::ZERO).map_err(failed)?;
        }
        Ok(())
    }

    fn measure(&self, cell: &Cell) -> Result<Sample, CellError> {
        let task = self.task(cell)?;
        if cell.world == World::Emu {
            return task.live(cell.attempts).map_err(failed);
        }
        if task.transport == CERTAIN {
            let quality = curve::quality(&task, capacity(cell)?, &self.outlooks).map_err(failed)?;
            let mut sample = Sample::default();
            sample.set("quality", Some(quality));
            return Ok(sample);
        }
        if task.allocator == CONNECTING {
            return connecting(&task).map_err(failed);
        }
        task.run().map_err(failed)
    }
}

/// The transport of a cell in which capacity is known.
const CERTAIN: &str = "certain";
/// The allocator of a cell that measures only the connection time.
const CONNECTING: &str = "connecting";

/// A capacity such as `155 Mbit/s`.
fn capacity(cell: &Cell) -> Result<Bitrate, CellError> {
    let number = cell.label("capacity").strip_suffix("Mbit/s");
    let number = number.and_then(|number| number.trim().parse::<u32>().ok());
    let rate = number.map(|mbps| Bitrate::from_bps(u64::from(mbps) * 1_000_000));
    rate.ok_or_else(|| cell.refused("capacity", "a rate such as 155 Mbit/s, in whole Mbit/s"))
}

/// Time for the transport to connect, before the client can request the start.
fn connecting(task: &Task) -> Result<Sample, OwsError> {
    let fix = Task { allocator: "fix".to_owned(), ..task.clone() };
    let Some(started) = fix.outcome(Duration::ZERO)?.started else {
        let (scene, transport) = (task.scene.name.clone(), task.transport.clone());
        return Err(OwsError::NothingSeen { scene, transport });
    };
    let mut sample = Sample::default();
    sample.set("connecting", Some(started.as_secs_f64() * 1e3));
    Ok(sample)
}

/// Takes videos in turn, so that even a few viewings include viewers of every video.
fn eyes(stages: &[Stage<'_>], viewing: usize, gops: usize) -> Result<Watched, OwsError> {
    let stage = &stages[viewing % stages.len()];
    Ok(stage.watch(viewing / stages.len() % stage.viewers(), gops)?)
}
