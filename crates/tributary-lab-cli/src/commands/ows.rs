//! `tributary-lab reproduce ows`.

use super::page::PageArguments;
use super::paper;
use super::report::{Form, Rendered, cache};
use crate::cli::WorldArgument;
use anyhow::{Context, Result, bail};
use clap::Args;
use core::time::Duration;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_cli::{Progress, output};
use tributary_lab::World;
use tributary_lab::demo::tiles_of;
use tributary_lab::reproduce::ows::{self, MOST_VIEWERS, Reproduced, STARTING, Settings};
use tributary_lab::reproduce::{Outcome, Page};
use tributary_stream::viewing::psnr_cap;
use tributary_video::head::Format;

/// OWS: quality of tiled 360° video over WiFi and WiGig, by allocator and transport.
///
/// A claim holds or fails when its whole interval is on one side of the bound; otherwise it is undecided. The exit
/// code is 0 in each case, and 1 when viewings gave no result. In the simulator the same tables and recordings give the
/// same numbers on every machine. Finished viewings are kept in the report's directory, and a run that was stopped
/// continues from them. With --world emu each viewing is played on real sockets through the emulator, at a hundredth of
/// the paper's rates, and decoded; the same viewing is simulated beside it. Without --tiled the sizes and errors of tiles
/// are synthetic (emulator: a rendered scene), without --heads the head movement is generated; every result says so.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab reproduce ows --quick
  tributary-lab reproduce ows --tiled clip-a --tiled clip-b --heads jin22:traces --out ows
  tributary-lab reproduce ows --quick --json
  tributary-lab reproduce ows --quick --load 1,2,4,6,8
  tributary-lab reproduce ows --quick --viewers 2,4,8
  tributary-lab reproduce ows --quick --add-scenarios scenarios/traces/car-*.toml
  tributary-lab reproduce ows --quick --page docs/reproductions/ows.md --part 'Drawn clips'
  tributary-lab reproduce ows --world emu --quick --tiled tiles --heads jin22:traces")]
pub(crate) struct OwsArguments {
    /// sim: many viewings in virtual time; emu: live viewings of the first clip, decoded, each also simulated
    #[arg(long, value_enum, default_value_t = WorldArgument::Sim)]
    pub(crate) world: WorldArgument,
    /// Few viewings: takes up to ten minutes on two cores
    #[arg(long)]
    pub(crate) quick: bool,
    /// Directory written by `tributary ingest`; repeatable
    #[arg(long)]
    pub(crate) tiled: Vec<PathBuf>,
    /// Recorded head movement, FORMAT:FOLDER; formats: nasrabadi19, jin22, wu17, plain
    #[arg(long)]
    pub(crate) heads: Option<String>,
    /// Viewings per clip and scene [default: 12, quick 2; emulator: 3, quick 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=9999))]
    pub(crate) viewings: Option<u16>,
    /// GoPs per viewing; the first two are not counted
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(STARTING as i64 + 1..=40))]
    pub(crate) gops: u16,
    /// Bytes of the finest quality relative to the capacity of both radios in line of sight; simulator only. With several,
    /// the gain over FIX on MPTCP at each load is measured instead of everything at one
    #[arg(long, default_values_t = [2.0], value_parser = load, value_delimiter = ',')]
    pub(crate) load: Vec<f64>,
    /// Numbers of viewers who watch at the same time and together have the load; simulator only. How they share the radios is
    /// measured instead of everything for one
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=MOST_VIEWERS as i64), value_delimiter = ',')]
    pub(crate) viewers: Vec<u32>,
    /// Networks in addition to the paper's: names of scenarios, or files; simulator only. The finest quality has --load times
    /// the network's mean capacity. Each network is one run, and intervals are over the networks
    #[arg(long, value_name = "SCENARIO", num_args = 1.., value_delimiter = ',')]
    pub(crate) add_scenarios: Vec<String>,
    /// Viewings at the same time [default: one per core]
    #[arg(long)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Emulator: reuse viewings that an earlier run into the same directory has finished
    #[arg(long)]
    pub(crate) resume: bool,
    /// Directory for ows-sim.html, ows-sim.json, ows-sim.md (or ows-emu.*) and the figures
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
    let world = World::from(arguments.world);
    if world == World::Emu && !arguments.add_scenarios.is_empty() {
        bail!("--add-scenarios is for the simulator only; leave out --world emu");
    }
    if arguments.load.len() > 1 && (world == World::Emu || !arguments.add_scenarios.is_empty()) {
        bail!("several loads are for the paper's simulated conditions; give one --load");
    }
    let beside = arguments.documentation.open()?;
    if world == World::Emu {
        tributary_emu::isolate()?;
    }
    output::directory(&arguments.out)?;
    let (outcome, report) = measured(arguments, None)?;
    let form = Form { json: arguments.json, markdown: arguments.markdown };
    paper::publish(&outcome, &report, (&arguments.out, form), beside.as_ref())
}

/// Makes the viewings that are missing, none after `limit`, judges the claims and writes the drawings.
pub(super) fn measured(arguments: &OwsArguments, limit: Option<Duration>) -> Result<(Outcome, Rendered)> {
    let world = World::from(arguments.world);
    let mut progress = Progress::new();
    let tiled = match world {
        World::Emu if arguments.tiled.is_empty() => {
            vec![tiles_of(None, false, &cache()?, &mut |share| progress.at(0.0, &cutting(share)))?]
        }
        _ => arguments.tiled.clone(),
    };
    let viewings = match (world, arguments.quick) {
        (World::Sim, false) => 12,
        (World::Sim, true) => 2,
        (World::Emu, false) => 3,
        (World::Emu, true) => 1,
    };
    let settings = Settings {
        world,
        tiled,
        heads: heads(arguments)?,
        viewings: arguments.viewings.map_or(viewings, u32::from),
        gops: usize::from(arguments.gops),
        loads: arguments.load.clone(),
        viewers: arguments.viewers.clone(),
        networks: arguments.add_scenarios.clone(),
        jobs: arguments.jobs,
        resume: arguments.resume,
        limit,
        directory: arguments.out.clone(),
        command: output::command_line(),
    };
    let reproduced = ows::run(&settings, &mut |share, text| progress.at(share, text))?;
    progress.end();
    let Reproduced { paper, outcome, pictures, no_pictures } = reproduced;
    let page = Page::new(&paper, &outcome);
    for (name, drawing) in page.drawings() {
        output::file(&arguments.out, &format!("{name}.svg"), &drawing)?;
    }
    let mut html = page.report();
    if !pictures.is_empty() {
        html.section("One moment in pictures")
            .text("The worst GoP of FIX on MPTCP in the first viewing, as the player showed it in each viewing, decoded from the tiles that arrived.")
            .images(&pictures);
    }
    if let Some(reason) = no_pictures {
        html.text(&format!("No pictures: {reason}."));
    }
    let report = Rendered {
        name: outcome.reproduction.name.clone(),
        json: serde_json::to_string(&outcome)?,
        markdown: page.markdown(),
        html: Some(html.render()),
        text: format!("{}\n{}", page.text(), psnr_cap()),
    };
    Ok((outcome, report))
}

fn heads(arguments: &OwsArguments) -> Result<Option<(Format, PathBuf)>> {
    let Some(text) = &arguments.heads else { return Ok(None) };
    let (format, folder) =
        text.split_once(':').context("--heads takes FORMAT:FOLDER, such as jin22:traces")?;
    Ok(Some((format.parse()?, PathBuf::from(folder))))
}

fn cutting(share: f64) -> String {
    format!("cutting a scene into tiles: {:.0} %", 10.0 * (10.0 * share).floor())
}
