//! The tiled demo: one viewer watches a tiled 360° video twice over the same emulated radios, once with the product
//! (OWS on an FBDT session) and once with the rival (FIX on kernel MPTCP).
//!
//! Both ends are the program's own commands, `stream serve` and `stream play`, each in its namespace.
//! Decoding and measuring follow after both viewings.

use core::time::Duration;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tributary_emu::{Network, NetworkError};
use tributary_link::Scenario;
use tributary_report::{RunInfo, schema};
use tributary_tiles::{TiledError, TiledVideo};

use super::Progress;
use crate::ends::{Ends, EndsError};
use crate::process::{Process, ProcessError};
use crate::result::AuditNote;
use tributary_report::machine;
use tributary_stream::viewing::{
    self, Beside, Kept, Played, Spool, StillError, TiledResult, ViewError, Viewed, ViewerConfig, Viewpoint,
};

/// Timeout for a client to exit after its last picture.
const GRACE: Duration = Duration::from_secs(30);
/// The rival: the paper's simple allocator on the kernel's multipath TCP.
const RIVAL: (&str, &str) = ("fix", "mptcp");

/// Settings of a demonstration.
#[derive(Debug, Clone)]
pub struct TiledSettings {
    /// The network.
    pub scenario: Scenario,
    /// The tiled video.
    pub directory: PathBuf,
    /// The viewer, with the product's allocator; the rival uses its own.
    pub viewer: ViewerConfig,
    /// Seconds of playing time.
    pub seconds: u32,
    /// Congestion control of every socket.
    pub congestion: String,
    /// The command line, for the report.
    pub command: String,
}

/// Why a demo failed.
#[derive(Debug, Error)]
pub enum TiledDemoError {
    /// The tiled video cannot be used.
    #[error(transparent)]
    Video(#[from] TiledError),
    /// The viewer's settings are invalid.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The emulated network failed.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A process failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The ends do not run.
    #[error(transparent)]
    Ends(#[from] EndsError),
    /// Received data cannot be stored.
    #[error("cannot store received data: {0}")]
    Files(#[from] std::io::Error),
    /// A picture for the report cannot be made.
    #[error(transparent)]
    Still(#[from] StillError),
}

/// The measurements of a demo, the product first.
#[derive(Debug, Serialize, Deserialize)]
pub struct TiledOutcome {
    /// The two viewings.
    pub viewings: Vec<TiledResult>,
    /// How it was made.
    pub run: RunInfo,
}

/// Plays twice and measures; returns the numbers and the page.
///
/// # Errors
/// [`TiledDemoError`]; bad performance is a result, not an error.
pub fn run_tiled(
    settings: &TiledSettings,
    progress: Progress<'_>,
) -> Result<(TiledOutcome, String), TiledDemoError> {
    let began = std::time::Instant::now();
    let video = TiledVideo::open(&settings.directory)?;
    let files = tempfile::tempdir()?;
    let mut kept = Vec::new();
    let mut audits = Vec::new();
    let contestants = [(settings.viewer.allocator.as_str(), "session"), RIVAL];
    for (at, (allocator, transport)) in contestants.iter().enumerate() {
        let label = viewing::label(&transport.parse().expect("both are names of the registry"));
        progress(0.35 * at as f64, &format!("{allocator} on {label}: playing {} s", settings.seconds));
        let (played, audit) = play_emulated(settings, (allocator, transport), files.path())?;
        kept.push((*allocator, label, played));
        audits.push(audit);
    }
    let mut viewed = Vec::new();
    for (at, (allocator, label, played)) in kept.into_iter().enumerate() {
        let viewpoint = viewpoint(settings, allocator)?;
        let text = format!("{allocator} on {label}: decoding and measuring");
        let mut report = |share: f64| progress(0.7 + 0.15 * (at as f64 + share), &text);
        viewed.push(viewpoint.judge(&label, played, Some(&video), &mut report)?);
    }
    let moments = moments(&mut viewed)?;
    progress(0.99, "encoding the two views side by side");
    let video = viewing::side_by_side(&viewing::recorded(&viewed))?;
    let mut info = machine::run_info(&settings.command);
    info.seconds = Some(began.elapsed().as_secs_f64());
    info.seeds = vec![settings.scenario.seed];
    info.congestion = format!("{}, set on every socket of both ends", settings.congestion);
    info.audit = Some(joined(&contestants, &audits));
    let mut set = |name: &str, value: String| _ = info.configuration.insert(name.to_owned(), value);
    set("scenario", format!("{}: {}", settings.scenario.name, settings.scenario.description));
    set("base RTT", format!("{} ms", settings.scenario.rtt.as_secs_f64() * 1e3));
    set("viewing", format!("{} s, one after the other through the same trace", settings.seconds));
    let viewings: Vec<TiledResult> = viewed.into_iter().map(|viewed| viewed.result).collect();
    let title = format!("demo · tiled 360° · {}", settings.scenario.name);
    let page = viewing::page(&title, &viewings.iter().collect::<Vec<_>>(), video.as_ref(), &moments, &info);
    progress(1.0, "writing the report");
    Ok((TiledOutcome { viewings, run: info }, page))
}

fn viewpoint(settings: &TiledSettings, allocator: &str) -> Result<Viewpoint, ViewError> {
    Viewpoint::new(ViewerConfig { record: true, ..viewer(settings, allocator) })
}

/// The viewer with this allocator; the rival plans as in its paper.
fn viewer(settings: &TiledSettings, allocator: &str) -> ViewerConfig {
    let ours = allocator == settings.viewer.allocator;
    ViewerConfig {
        allocator: allocator.to_owned(),
        seconds: Some(settings.seconds),
        plans: settings.viewer.plans.filter(|_| ours),
        ..settings.viewer.clone()
    }
}

/// One viewing in a fresh emulated network: an allocator over a transport, named as in `stream`. The folder
/// `files` keeps the output of both ends.
///
/// # Errors
/// [`TiledDemoError`]; a transport that performs badly is a result.
pub(crate) fn play_emulated(
    settings: &TiledSettings,
    (allocator, transport): (&str, &str),
    files: &Path,
) -> Result<(Played, AuditNote), TiledDemoError> {
    let duration = Duration::from_secs(u64::from(settings.seconds) + 10);
    let network = Network::start(&settings.scenario.clone().with_duration(duration))?;
    let ends = Ends::start(&network, (transport, &settings.congestion), &settings.directory, files)?;
    let spool = files.join(format!("{transport}.spool"));
    let mut play = ends.player(&network);
    play.arg("--keep").arg(&spool);
    play.args(["--allocator", allocator, "--seconds", &settings.seconds.to_string()]);
    play.args(viewer_arguments(&viewer(settings, allocator)));
    // The trace starts when the viewer starts.
    network.rewind()?;
    let client = Process::start("client", play)?;
    let kept: Kept = client.answer(duration + GRACE)?;
    let audit = AuditNote::new(&network.audit()?);
    let spool = Spool::open(&spool, kept.tiles)?;
    Ok((Played { viewing: kept.viewing, video: None, spool }, audit))
}

fn joined(contestants: &[(&str, &str)], audits: &[AuditNote]) -> schema::Audit {
    let words = |note: &AuditNote| match note.valid {
        true => format!("valid, delay error p99 {:.0} µs", note.delay_error_p99_us),
        false => note.reasons.join(", "),
    };
    let detail = contestants.iter().zip(audits);
    let detail = detail.map(|((allocator, _), note)| format!("{allocator}: {}", words(note)));
    schema::Audit {
        valid: audits.iter().all(|note| note.valid),
        detail: detail.collect::<Vec<_>>().join("; "),
    }
}

/// The viewer's settings as arguments of `stream play`.
fn viewer_arguments(viewer: &ViewerConfig) -> Vec<std::ffi::OsString> {
    let mut arguments: Vec<std::ffi::OsString> = Vec::new();
    let mut add = |name: &str, value: &std::ffi::OsStr| arguments.extend([name.into(), value.to_owned()]);
    if let Some((path, format)) = &viewer.head {
        add("--head", path.as_os_str());
        add("--head-format", format.as_ref());
    }
    for path in &viewer.crowd {
        add("--crowd", path.as_os_str());
    }
    add("--concealment", viewing::concealment_name(viewer.concealment).as_ref());
    add("--assumed-rate", (viewer.assumed.as_bps() / 1_000_000).max(1).to_string().as_ref());
    add("--field", format!("{}x{}", viewer.field.0, viewer.field.1).as_ref());
    if let Some(plans) = viewer.plans {
        add("--plans", plans.to_string().as_ref());
    }
    if viewer.exact {
        arguments.push("--exact".into());
    }
    arguments
}

/// The worst moment with the rival, the worst moment with the product, and the middle of the viewing, each with both
/// pictures and the original.
fn moments(viewed: &mut [Viewed]) -> Result<Vec<Beside>, StillError> {
    let worst = |viewed: &Viewed| viewed.result.quality.as_ref().map(|quality| quality.worst_slot);
    let mut slots: Vec<(u32, String)> = Vec::new();
    for at in viewed.iter().rev() {
        let Some(slot) = worst(at).filter(|slot| slots.iter().all(|known| known.0 != *slot)) else {
            continue;
        };
        let words =
            format!("Second {slot}, the worst one of {} on {}:", at.result.allocator, at.result.transport);
        slots.push((slot, words));
    }
    // The middle of the viewing, as an ordinary moment.
    let middle = viewed.first().map_or(0, |viewed| viewed.result.record.slots.len() as u32 / 2);
    if slots.iter().all(|known| known.0 != middle) {
        slots.push((middle, format!("Second {middle}, the middle of the viewing:")));
    }
    let mut moments = Vec::new();
    for (slot, words) in slots {
        let mut pictures = Vec::new();
        let mut original = None;
        for viewed in viewed.iter_mut() {
            let Viewed { result, measured: Some(measured) } = viewed else { continue };
            let Some((seen, source)) = measured.stills.at(slot)? else { continue };
            let gop = result.quality.iter().flat_map(|quality| &quality.gops).find(|gop| gop.slot == slot);
            let Some(gop) = gop else { continue };
            let decibels = tributary_video::metrics::psnr_db(gop.viewport_mse);
            let late = 100.0 * gop.late_share;
            let caption = format!(
                "{} on {}: {decibels:.1} dB, {late:.0} % of the view late",
                result.allocator, result.transport
            );
            pictures.push((seen, caption));
            original = Some(source);
        }
        pictures.extend(original.map(|source| (source, "the original".to_owned())));
        let captioned: Vec<_> = pictures.iter().map(|(picture, words)| (picture, words.clone())).collect();
        moments.push(Beside { words, images: viewing::pictures(&captioned)? });
    }
    Ok(moments)
}
