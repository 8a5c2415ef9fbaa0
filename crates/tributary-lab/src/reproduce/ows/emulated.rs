//! OWS live: real tiles over real sockets through the emulator, decoded and measured, in the three scenes.
//!
//! One viewing of each kind in each scene, so there are no intervals: it shows that the simulator's story is true
//! of kernels and pictures, and how large the figures are there. The viewings are the demo's.

use std::path::PathBuf;

use serde::Serialize;
use thiserror::Error;
use tributary_link::{Scenario, ScenarioError};
use tributary_report::{Cell, Claim, Column, Expectation, Reproduction, Table};

use crate::demo::{Progress, TiledDemoError, TiledOutcome, TiledSettings, run_tiled};
use crate::machine;
use crate::tiled::{Quality, TiledResult, ViewerConfig};

/// Scenarios, their names in claims, and the paper's gain in PSNR (OWS §6.3, figure 6f).
const SCENES: [(&str, &str, f64); 3] =
    [("los-2k", "LoS", 10.0), ("nlos-2k", "nLoS", 13.0), ("mobility-2k", "mobility", 13.0)];
const CONGESTION: &str = "cubic";

/// What to play.
#[derive(Clone, Debug)]
pub struct LiveSettings {
    /// The tiled video.
    pub directory: PathBuf,
    /// The viewer.
    pub viewer: ViewerConfig,
    /// Seconds of playing time in each scene.
    pub seconds: u32,
    /// The command line, for the report.
    pub command: String,
}

/// Why nothing came out.
#[derive(Debug, Error)]
pub enum LiveError {
    /// A scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A viewing.
    #[error(transparent)]
    Demo(#[from] TiledDemoError),
}

/// Result of a run.
#[derive(Debug, Serialize)]
pub struct LiveOutcome {
    /// Claims and how they were measured.
    #[serde(flatten)]
    pub reproduction: Reproduction,
    /// Scene by scene, the product first.
    pub scenes: Vec<LiveScene>,
}

/// Two viewings of one scene.
#[derive(Debug, Serialize)]
pub struct LiveScene {
    /// The scenario's name.
    pub scenario: String,
    /// OWS on FBDT, then FIX on kernel MPTCP.
    pub viewings: Vec<TiledResult>,
}

/// Plays all scenes one after the other and judges the claims.
///
/// # Errors
/// [`LiveError`]; a claim that does not hold is a result.
pub fn run_live(settings: &LiveSettings, progress: Progress<'_>) -> Result<LiveOutcome, LiveError> {
    let began = std::time::Instant::now();
    let (mut scenes, mut claims, mut audits) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (name, label, paper)) in SCENES.into_iter().enumerate() {
        let demo = TiledSettings {
            scenario: Scenario::builtin(name)?,
            directory: settings.directory.clone(),
            viewer: settings.viewer.clone(),
            seconds: settings.seconds,
            congestion: CONGESTION.to_owned(),
            command: settings.command.clone(),
        };
        let mut told = |share: f64, text: &str| {
            progress((at as f64 + share) / SCENES.len() as f64, &format!("{label}: {text}"));
        };
        let (TiledOutcome { viewings, run }, _) = run_tiled(&demo, &mut told)?;
        if let [ours, theirs] = viewings.as_slice() {
            claims.extend(judge((label, paper), ours, theirs));
        }
        audits.extend(run.audit.map(|audit| (label, audit)));
        scenes.push(LiveScene { scenario: name.to_owned(), viewings });
    }
    let mut info = machine::run_info(&settings.command);
    info.seconds = Some(began.elapsed().as_secs_f64());
    info.seeds = vec![1];
    info.congestion = format!("{CONGESTION}, set on every socket of both ends");
    info.audit = Some(tributary_report::schema::Audit {
        valid: audits.iter().all(|(_, audit)| audit.valid),
        detail: audits
            .iter()
            .map(|(label, audit)| format!("{label}: {}", audit.detail))
            .collect::<Vec<_>>()
            .join("; "),
    });
    if let Some(first) = scenes.first().and_then(|scene| scene.viewings.first()) {
        let mut set = |name: &str, value: String| _ = info.configuration.insert(name.to_owned(), value);
        set("clip", first.clip.clone());
        set("head", first.head.clone());
        set("concealment", crate::tiled::concealment_name(first.concealment).to_owned());
    }
    let reproduction = Reproduction { name: "ows-emulated".to_owned(), claims, run: info };
    Ok(LiveOutcome { reproduction, scenes })
}

/// What is claimed of one scene.
fn judge((scene, paper): (&str, f64), ours: &TiledResult, theirs: &TiledResult) -> [Claim; 5] {
    let gain = |of: fn(&Quality) -> f64| Some(of(ours.quality.as_ref()?) - of(theirs.quality.as_ref()?));
    let claim = |id: &str, text: &str, measured, expected, unit: &str| {
        let text = format!("{scene}, live: {text}");
        Claim::judge(&format!("live-{id}-{}", scene.to_lowercase()), &text, measured, expected).unit(unit)
    };
    let over = "ows on fbdt over fix on kernel MPTCP";
    let round_trips = ours.start_up_ms.map(|start| (start - ours.gop_ms) / ours.rtt_ms.max(1e-3));
    let late = ours.quality.as_ref().map(|quality| quality.late_percent);
    [
        claim(
            "mean",
            &format!("{over}, mean of GoPs"),
            gain(|q| q.viewport.mean_db),
            Expectation::AtLeast(4.5),
            "dB",
        )
        .paper(paper),
        claim(
            "pooled",
            &format!("{over}, pooled"),
            gain(|q| q.viewport.pooled_db),
            Expectation::AtLeast(4.5),
            "dB",
        ),
        claim(
            "worst",
            &format!("{over}, worst 5 % of GoPs"),
            gain(|q| q.viewport.worst_db),
            Expectation::AtLeast(4.5),
            "dB",
        ),
        claim("late", "share of the view that was late", late, Expectation::AtMost(0.5), "%"),
        // A hundredth of a round trip for the clock that is read twice.
        claim(
            "start-up",
            "start-up behind one GoP, in round trips",
            round_trips,
            Expectation::AtMost(2.01),
            "RTT",
        ),
    ]
}

/// The viewings as a table.
#[must_use]
pub fn live_table(outcome: &LiveOutcome) -> Table {
    let mut table = Table::new("Live through the emulator: viewport PSNR").columns([
        Column::left("Scene"),
        Column::left("Viewing"),
        Column::right("mean").unit("dB"),
        Column::right("pooled").unit("dB"),
        Column::right("worst 5 %").unit("dB"),
        Column::right("late view").unit("%"),
        Column::right("in time").unit("Mbit/s"),
        Column::right("start-up").unit("ms"),
        Column::right("to good").unit("ms"),
    ]);
    for scene in &outcome.scenes {
        for (at, viewing) in scene.viewings.iter().enumerate() {
            let quality = viewing.quality.as_ref();
            let number = |of: fn(&Quality) -> f64, digits| Cell::optional_number(quality.map(of), digits);
            let row = [
                Cell::text(&scene.scenario),
                Cell::text(&format!("{} on {}", viewing.allocator, viewing.transport)),
                number(|q| q.viewport.mean_db, 1),
                number(|q| q.viewport.pooled_db, 1),
                number(|q| q.viewport.worst_db, 1),
                number(|q| q.late_percent, 2),
                Cell::number(viewing.load.in_time_mbps, 1),
                Cell::optional_number(viewing.start_up_ms, 0),
                Cell::optional_number(quality.and_then(|q| q.motion.mean_ms), 0),
            ];
            if at == 0 { table.push_highlighted(row) } else { table.push(row) }
        }
    }
    table
}
