//! Demonstrations over one emulated trace. Tiled: what one viewer sees, with the product and with kernel MPTCP.
//! Untiled: a live 360° video and a bulk transfer over each radio alone, kernel MPTCP, `fbdt-paper` and `fbdt`. This
//! module measures and describes; the caller writes the files.

mod head;
pub mod imu;
mod outcome;
mod page;
mod stills;
mod tiled;
mod tiles;

use crate::audits;
use crate::cell::Run;
use crate::error::LabError;
use crate::run::run as measure;
use crate::transport;
use crate::workload::{Content, Video, Workload};
use core::time::Duration;
pub use head::generated_head;
pub use outcome::{Outcome, Transport};
use std::path::{Path, PathBuf};
use std::time::Instant;
use thiserror::Error;
pub(crate) use tiled::play_emulated;
pub use tiled::{TiledDemoError, TiledOutcome, TiledSettings, run_tiled};
pub use tiles::{LOOPED_SECONDS, TilesError, tiles_of};
use tributary_link::Scenario;
use tributary_proto::transport::{TransportName, UnknownName};
use tributary_report::machine;
use tributary_stream::LadderError;

/// Distance of the player to the live edge: a GoP of one second, and half a second to bridge a blockage.
const START_UP: Duration = Duration::from_millis(1500);
/// Seconds of video before it repeats.
const DISTINCT: u32 = 4;
/// Width to which the video is scaled.
const WIDTH: u32 = 2048;

/// Settings of a demonstration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The network.
    pub scenario: Scenario,
    /// The video; `None`: a rendered scene.
    pub video: Option<PathBuf>,
    /// Whether a video that is not equirectangular is accepted.
    pub any_aspect: bool,
    /// Seconds per transport: two fifths bulk, the rest live.
    pub seconds: u32,
    /// Congestion control of every socket.
    pub congestion: String,
    /// Folder in which encoded videos are cached.
    pub cache: PathBuf,
    /// The command line, for the report.
    pub command: String,
}

/// Why a demo failed.
#[derive(Debug, Error)]
pub enum DemoError {
    /// The video cannot be used.
    #[error(transparent)]
    Ladder(#[from] LadderError),
    /// A run failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A scheduler is missing from the registry.
    #[error(transparent)]
    Transport(#[from] UnknownName),
}

/// Callback for progress: completed share, 0 to 1, and the current step.
pub type Progress<'a> = &'a mut dyn FnMut(f64, &str);

impl Settings {
    /// Seconds of bulk and GoPs of live video per transport.
    #[must_use]
    pub fn split(&self) -> (u32, u32) {
        let bulk = (self.seconds * 2 / 5).max(3);
        (bulk, self.seconds.saturating_sub(bulk).max(3))
    }

    fn encoded(&self) -> Video {
        Video {
            content: Content::Encoded {
                file: self.video.clone(),
                seconds: DISTINCT,
                width: Some(WIDTH),
                any_aspect: self.any_aspect,
                cache: self.cache.clone(),
            },
            ..Video::synthetic()
        }
    }
}

/// Checks that the video, if there is one, can be opened, before a long run begins.
///
/// # Errors
/// [`LadderError::Unreadable`] names the file.
pub fn check(video: Option<&Path>) -> Result<(), LadderError> {
    let Some(path) = video else { return Ok(()) };
    let opened = std::fs::File::open(path);
    opened.map(drop).map_err(|source| LadderError::Unreadable { path: path.to_owned(), source })
}

/// Runs all measurements.
///
/// # Errors
/// [`DemoError`]; bad performance is a result, not an error.
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Outcome, DemoError> {
    let began = Instant::now();
    let video = settings.encoded();
    let names = transports(&settings.scenario)?;
    let share = 0.12; // estimated share of the time for the first encoding
    let ladder = video.build(&mut |part| progress(part * share, "encoding the video"))?;
    let (bulk_seconds, gops) = settings.split();
    let mut transports = Vec::new();
    let step = (1.0 - share) / names.len() as f64;
    for (index, name) in names.iter().enumerate() {
        let before = share + step * index as f64;
        let label = transport::label(name);
        progress(before, &format!("{label}: bulk, {bulk_seconds} s"));
        let bulk = Workload::Bulk { seconds: f64::from(bulk_seconds) };
        let bulk = measure(&Run::new(&settings.scenario, name, &settings.congestion, &bulk))?;
        progress(before + step * 0.4, &format!("{label}: live video, {gops} s"));
        let live = Workload::Live { gops, start_up_ms: START_UP.as_millis() as u64 };
        let mut cell = Run::new(&settings.scenario, name, &settings.congestion, &live);
        cell.video = Some(video.clone());
        transports.push(Transport { label, bulk, live: measure(&cell)? });
    }
    let mut info = machine::run_info(&settings.command);
    info.seconds = Some(began.elapsed().as_secs_f64());
    info.seeds = vec![settings.scenario.seed];
    info.congestion = format!("{}, asserted on both ends of every transport", settings.congestion);
    let runs = transports.iter().flat_map(|t| [&t.bulk, &t.live]);
    info.audit = Some(audits::of_runs(runs));
    let mut set = |name: &str, value: String| _ = info.configuration.insert(name.to_owned(), value);
    set("scenario", format!("{}: {}", settings.scenario.name, settings.scenario.description));
    set("base RTT", format!("{} ms", settings.scenario.rtt.as_secs_f64() * 1e3));
    set("video", settings.video.as_ref().map_or("rendered scene".to_owned(), |v| file_name(v)));
    if !ladder.notes().is_empty() {
        set("pictures", ladder.notes().join("; "));
    }
    let each = format!(
        "{bulk_seconds} s of bulk, then {gops} GoPs of one second, played {START_UP:?} behind the live edge"
    );
    set("each transport", each);
    set("ladder", format!("{:?} Mbit/s", Video::LADDER));
    progress(1.0, "writing the report");
    Ok(Outcome::new(settings.scenario.clone(), transports, info))
}

/// Each radio alone, kernel MPTCP, the scheduler as published, and the product's.
fn transports(scenario: &Scenario) -> Result<Vec<TransportName>, UnknownName> {
    let radios = scenario.path_names();
    let names = radios.iter().copied().chain(["mptcp", "fbdt-paper", "fbdt"]);
    names.map(|name| TransportName::find(name, None, &radios)).collect()
}

fn file_name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The report as one HTML file, with pictures from the cached video.
///
/// # Errors
/// [`LadderError`] when the pictures cannot be decoded.
pub fn page(settings: &Settings, outcome: &Outcome) -> Result<String, LadderError> {
    let ladder = settings.encoded().build(&mut |_| ())?;
    let stills = stills::worst_second(outcome, &ladder)?;
    Ok(page::render(outcome, &stills))
}
