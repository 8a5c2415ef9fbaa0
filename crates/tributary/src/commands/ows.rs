//! `tributary reproduce ows`.

use super::output::{self, Form, Progress, Report};
use super::page::PageArguments;
use crate::cli::WorldArgument;
use anyhow::{Context, Result};
use clap::Args;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_lab::demo::{generated_head, tiles_of};
use tributary_lab::reproduce::Page;
use tributary_lab::reproduce::ows::{self, Reproduced, STARTING, Settings};
use tributary_lab::tiled::{ViewerConfig, Viewpoint, psnr_cap};
use tributary_video::head::Format;

/// OWS: what viewers see of tiled 360° video over WiFi and WiGig, by allocator and
/// transport.
///
/// A claim holds or fails when its whole interval is on one side of the bound, else it is undecided; the exit
/// code is 0 in each case. The same tables and recordings give the same numbers on every machine. Finished viewings are
/// kept in the report's directory, and a run that was stopped continues from them. Without --tiled the sizes and errors of
/// tiles are synthetic, without --heads the head movement is generated; every result says so.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary reproduce ows --quick
  tributary reproduce ows --tiled clip-a --tiled clip-b --heads jin22:traces --out ows
  tributary reproduce ows --quick --json
  tributary reproduce ows --quick --page docs/reproductions/ows.md --part 'Drawn clips'
  tributary reproduce ows --world emu --tiled tiles --heads plain:viewers")]
pub(crate) struct OwsArguments {
    /// sim: many viewings in virtual time; emu: one live viewing of each kind in each scene, decoded and measured
    #[arg(long, value_enum, default_value_t = WorldArgument::Sim)]
    pub(crate) world: WorldArgument,
    /// Few viewings: within ten minutes on two cores
    #[arg(long)]
    pub(crate) quick: bool,
    /// Directory that `tributary ingest` has written; repeatable
    #[arg(long)]
    pub(crate) tiled: Vec<PathBuf>,
    /// Recorded head movement, FORMAT:FOLDER; formats: nasrabadi19, jin22, wu17, plain
    #[arg(long)]
    pub(crate) heads: Option<String>,
    /// Viewings of each clip in each scene [default: 36, quick 6]
    #[arg(long, value_parser = clap::value_parser!(u16).range(2..=9999))]
    pub(crate) viewings: Option<u16>,
    /// Viewings of each clip in each scene with the other allocators, for comparison [default: 12, quick 2]
    #[arg(long)]
    pub(crate) aside: Option<u16>,
    /// GoPs of a viewing; the first two are not counted
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(STARTING as i64 + 1..=40))]
    pub(crate) gops: u16,
    /// Bytes of the finest quality relative to what both radios carry in line of sight
    #[arg(long, default_value_t = 2.0, value_parser = load)]
    pub(crate) load: f64,
    /// Viewings at once [default: one a core]
    #[arg(long)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Directory for ows-sim.html, ows-sim.json, ows-sim.md and the figures
    #[arg(long, default_value = "tributary-reproduction")]
    pub(crate) out: PathBuf,
    /// Print the outcome as one JSON object
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Print the tables as Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
    #[command(flatten)]
    pub(crate) documentation: PageArguments,
}

fn load(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(load) if (0.01..=100.0).contains(&load) => Ok(load),
        _ => Err("a load is a number from 0.01 to 100".to_owned()),
    }
}

pub(crate) fn run(arguments: &OwsArguments) -> Result<ExitCode> {
    if arguments.world == WorldArgument::Emu {
        return live(arguments);
    }
    let heads = heads(arguments)?;
    let beside = arguments.documentation.open()?;
    let (viewings, aside) = if arguments.quick { (6, 2) } else { (36, 12) };
    let settings = Settings {
        tiled: arguments.tiled.clone(),
        heads,
        viewings: arguments.viewings.map_or(viewings, u32::from),
        aside: arguments.aside.map_or(aside, u32::from),
        gops: usize::from(arguments.gops),
        load: arguments.load,
        jobs: arguments.jobs,
        directory: arguments.out.clone(),
        command: output::command_line(),
    };
    output::directory(&arguments.out)?;
    let mut progress = Progress::new();
    let reproduced = ows::run(&settings, &mut |share, text| progress.at(share, text))?;
    progress.end();
    let Reproduced { paper, outcome, pictures, no_pictures } = &reproduced;
    let page = Page::new(paper, outcome);
    for (name, drawing) in page.drawings() {
        output::file(&arguments.out, &format!("{name}.svg"), &drawing)?;
    }
    let mut html = page.report();
    if !pictures.is_empty() {
        html.section("A moment of it")
            .text("The worst GoP of FIX on MPTCP in the first viewing, as each chain showed it, decoded from the tiles that arrived.")
            .images(pictures);
    }
    if let Some(reason) = no_pictures {
        html.text(&format!("No pictures: {reason}."));
    }
    let report = Report {
        name: outcome.reproduction.name.clone(),
        json: serde_json::to_string(outcome)?,
        markdown: page.markdown(),
        html: Some(html.render()),
        text: format!("{}\n{}", page.text(), psnr_cap()),
    };
    let form = Form { json: arguments.json, markdown: arguments.markdown };
    report.publish(&arguments.out, form, beside.as_ref())?;
    Ok(ExitCode::SUCCESS)
}

fn heads(arguments: &OwsArguments) -> Result<Option<(Format, PathBuf)>> {
    let Some(text) = &arguments.heads else { return Ok(None) };
    let (format, folder) =
        text.split_once(':').context("--heads takes FORMAT:FOLDER, such as jin22:traces")?;
    Ok(Some((format.parse()?, PathBuf::from(folder))))
}

/// The first clip and the first head, live.
fn live(arguments: &OwsArguments) -> Result<ExitCode> {
    let beside = arguments.documentation.open()?;
    let cache = output::cache();
    let head = match heads(arguments)? {
        Some((format, folder)) => {
            let file = super::demo::first(&folder, "csv");
            let file = file.with_context(|| format!("no .csv file in {}", folder.display()))?;
            (file, format.to_string())
        }
        None => (generated_head(&cache).context("the cache")?, "plain".to_owned()),
    };
    let viewer = ViewerConfig { head: Some(head), ..ViewerConfig::default() };
    Viewpoint::new(viewer.clone())?;
    tributary_emu::isolate()?;
    output::directory(&arguments.out)?;
    let mut progress = Progress::new();
    let directory = match arguments.tiled.first() {
        Some(directory) => directory.clone(),
        None => tiles_of(None, false, &cache, &mut |share| progress.at(0.0, &cutting(share)))?,
    };
    let seconds = if arguments.quick { 10 } else { 27 };
    let settings = ows::LiveSettings { directory, viewer, seconds, command: output::command_line() };
    let outcome = ows::run_live(&settings, &mut |share, text| progress.at(share, text))?;
    progress.end();
    let (table, claims) = (ows::live_table(&outcome), outcome.reproduction.table());
    let made = outcome.reproduction.run.marker();
    let report = Report {
        name: "ows-emulated".to_owned(),
        json: serde_json::to_string(&outcome)?,
        markdown: format!(
            "{made}\n\n{}\n### Claims\n\n{}\n{}\n",
            table.to_section(),
            claims.to_markdown(),
            psnr_cap()
        ),
        html: None,
        text: format!("{}\n{}\n{}", table.to_text(), claims.to_text(), psnr_cap()),
    };
    let form = Form { json: arguments.json, markdown: arguments.markdown };
    report.publish(&arguments.out, form, beside.as_ref())?;
    Ok(ExitCode::SUCCESS)
}

fn cutting(share: f64) -> String {
    format!("cutting a scene into tiles: {:.0} %", 10.0 * (10.0 * share).floor())
}
