//! `tributary-lab demo`.

use super::report::cache;
use crate::cli::DemoArguments;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tributary_cli::{Progress, output};
use tributary_lab::demo::{self, Settings, TiledSettings};
use tributary_link::Scenario;
use tributary_report::schema::RunInfo;
use tributary_stream::viewing;

/// Possible directory of a sample video beside a checkout.
pub(crate) const SAMPLES: &str = "../shared/data/video-overpass";

/// Possible directory of a sample viewer's head movement beside a checkout, and its format.
const HEADS: (&str, &str) = ("../shared/data/head-nasrabadi19/traces_full", "nasrabadi19");

pub(crate) fn run(arguments: &DemoArguments) -> Result<ExitCode> {
    // `--imu` sends its messages beside the untiled video.
    if arguments.untiled || arguments.imu { untiled(arguments) } else { tiles(arguments) }
}

fn tiles(arguments: &DemoArguments) -> Result<ExitCode> {
    let scenario = Scenario::find(arguments.scenario.as_deref().unwrap_or("deep-fade-2k"))?;
    let mut viewer = arguments.viewer.config(None)?;
    if viewer.head.is_none() {
        viewer.head = Some(match first(Path::new(HEADS.0), "csv") {
            Some(path) => (path, HEADS.1.to_owned()),
            None => (demo::generated_head(&cache()?).context("the cache")?, "plain".to_owned()),
        });
    }
    // Refuse wrong names and traces before the long work begins.
    viewing::Viewpoint::new(viewer.clone())?;
    let video = arguments.video.clone().or_else(|| first(Path::new(SAMPLES), "mp4"));
    demo::check(video.as_deref())?;
    tributary_emu::isolate()?;
    output::directory(&arguments.out)?;
    let mut progress = Progress::new();
    let directory = match &arguments.tiles {
        Some(directory) => directory.clone(),
        None => {
            let mut told = |share: f64| progress.at(0.3 * share, "cutting the video into tiles");
            let tiles = demo::tiles_of(video.as_deref(), arguments.any_aspect, &cache()?, &mut told)?;
            if let Some(path) = &video {
                let (seconds, path) = (demo::LOOPED_SECONDS, path.display());
                progress.note(&format!("plays the first {seconds} seconds of {path} in a loop"));
            }
            tiles
        }
    };
    let settings = TiledSettings {
        scenario: scenario.with_seed(arguments.seed),
        directory,
        viewer,
        seconds: arguments.seconds,
        congestion: arguments.congestion.clone(),
        command: output::command_line(),
    };
    let (outcome, page) =
        demo::run_tiled(&settings, &mut |share, text| progress.at(0.3 + 0.7 * share, text))?;
    progress.end();
    let json = serde_json::to_string(&outcome)?;
    output::file(&arguments.out, "demo.json", &json)?;
    let results: Vec<_> = outcome.viewings.iter().collect();
    output::file(&arguments.out, "demo.svg", &viewing::figure(&results))?;
    let page = output::file(&arguments.out, "demo.html", &page)?;
    if arguments.json {
        output::line(&json)?;
        eprintln!("report: {}", page.display());
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&viewing::table(&results).to_text())?;
    warn(&outcome.run);
    for result in &results {
        output::line(&result.sentence())?;
    }
    let conditions = results.first().map(|result| result.conditions()).context("a demo has viewings")?;
    output::line(&conditions)?;
    for result in &results {
        output::line(&result.load_words())?;
    }
    output::line(&format!("report: {}", page.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn untiled(arguments: &DemoArguments) -> Result<ExitCode> {
    let scenario = arguments.scenario.as_deref().unwrap_or("blackout");
    let settings = Settings {
        scenario: Scenario::find(scenario)?.with_seed(arguments.seed),
        video: arguments.video.clone().or_else(|| first(Path::new(SAMPLES), "mp4")),
        any_aspect: arguments.any_aspect,
        seconds: arguments.seconds,
        congestion: arguments.congestion.clone(),
        cache: cache()?,
        command: output::command_line(),
    };
    demo::check(settings.video.as_deref())?;
    tributary_emu::isolate()?;
    output::directory(&arguments.out)?;
    if arguments.imu {
        return imu(arguments, &settings);
    }
    let mut progress = Progress::new();
    let outcome = demo::run(&settings, &mut |share, text| progress.at(share, text))?;
    let page = demo::page(&settings, &outcome)?;
    progress.end();
    let json = serde_json::to_string(&outcome)?;
    output::file(&arguments.out, "demo.json", &json)?;
    output::file(&arguments.out, "demo.svg", &outcome.figure())?;
    let page = output::file(&arguments.out, "demo.html", &page)?;
    if arguments.json {
        output::line(&json)?;
        eprintln!("report: {}", page.display());
    } else {
        warn(&outcome.run);
        output::line(&format!(
            "{}\n{}\nreport: {}",
            outcome.table().to_text(),
            outcome.headline,
            page.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn imu(arguments: &DemoArguments, settings: &Settings) -> Result<ExitCode> {
    let mut progress = Progress::new();
    let outcome = demo::imu::run(settings, &mut |share, text| progress.at(share, text))?;
    progress.end();
    let json = serde_json::to_string(&outcome)?;
    output::file(&arguments.out, "imu.json", &json)?;
    let page = output::file(&arguments.out, "imu.html", &outcome.page())?;
    if arguments.json {
        output::line(&json)?;
    } else {
        output::line(&outcome.table().to_text())?;
        warn(&outcome.run);
    }
    eprintln!("report: {}", page.display());
    Ok(ExitCode::SUCCESS)
}

/// Says that the numbers are not to be used, if the emulator was not exact.
fn warn(run: &RunInfo) {
    run.warning().into_iter().for_each(|warning| eprintln!("{warning}"));
}

/// The first file of a directory with this ending, if there is one.
pub(crate) fn first(directory: &Path, ending: &str) -> Option<PathBuf> {
    let files = std::fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(|path| path.extension().is_some_and(|extension| extension == ending)).min()
}
