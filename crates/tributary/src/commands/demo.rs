//! `tributary demo`.

use super::output::{self, Progress};
use crate::cli::DemoArguments;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tributary_lab::demo::{self, Settings};
use tributary_link::Scenario;

/// Where a sample video may lie beside a checkout.
const SAMPLES: &str = "../shared/data/video-overpass";

pub(crate) fn run(arguments: &DemoArguments) -> Result<ExitCode> {
    let settings = Settings {
        scenario: Scenario::find(&arguments.scenario)?.with_seed(arguments.seed),
        video: arguments.video.clone().or_else(|| sample(Path::new(SAMPLES))),
        any_aspect: arguments.any_aspect,
        seconds: arguments.seconds,
        congestion: arguments.congestion.clone(),
        cache: output::cache(),
        command: output::command_line(),
    };
    settings.check()?;
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
    }
    eprintln!("report: {}", page.display());
    Ok(ExitCode::SUCCESS)
}

/// The first .mp4 file of a directory, if there is one.
fn sample(directory: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(|path| path.extension().is_some_and(|extension| extension == "mp4")).min()
}
