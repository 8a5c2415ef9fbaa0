//! `tributary-lab show`.

use super::demo::{SAMPLES, first};
use super::report::cache;
use anyhow::Result;
use clap::Args;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tributary_cli::{Progress, output, quantity};
use tributary_lab::demo;
use tributary_lab::show::{Recording, Settings, Stand};
use tributary_link::Scenario;
use tributary_site::Site;

/// Watch the same 360° video over Tributary and over kernel MPTCP, side by side, and block the radios with a click.
///
/// Prints the URL of a page. Its two videos come through two emulated networks of the same scenario, and a radio that is
/// blocked or dragged to another rate in the page is so in both. Ctrl-C ends it. Needs ffmpeg for the first video, and root or
/// user namespaces. Without --video it takes the sample video if there is one, else a scene that the program renders itself.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab show
  tributary-lab show los-2k --tiles tiles --listen 127.0.0.1:8360
  tributary-lab show deep-fade-2k --record stand.mp4 --seconds 40")]
pub(crate) struct ShowArguments {
    /// Scenario: a name (see `tributary-lab emu list`) or a .toml file
    #[arg(default_value = "deep-fade-2k")]
    pub(crate) scenario: String,
    /// Equirectangular video file; its first eight seconds are played in a loop
    #[arg(long)]
    pub(crate) video: Option<PathBuf>,
    /// Directory of tiles that `tributary ingest` has written
    #[arg(long, value_name = "DIR", conflicts_with = "video")]
    pub(crate) tiles: Option<PathBuf>,
    /// Accept a video whose picture is not twice as wide as high
    #[arg(long)]
    pub(crate) any_aspect: bool,
    /// Allocator of both players, which chooses quality and order of tiles
    #[arg(long, default_value = "ows")]
    pub(crate) allocator: String,
    /// Congestion control of every socket of both ends
    #[arg(long, default_value = "cubic")]
    pub(crate) congestion: String,
    /// Seed of the scenario's random numbers
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Loopback address of the page
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Record the page into this MP4 file instead, while a script blocks the radios; needs Chromium
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "json"])]
    pub(crate) record: Option<PathBuf>,
    /// Length of the recording in seconds
    #[arg(long, default_value_t = 30, requires = "record", value_parser = quantity::seconds_in(5..=600))]
    pub(crate) seconds: u32,
    /// Print the page's URL, and of each side the directory for `TRIBUTARY_RUNTIME_DIR=DIR tributary status`, as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &ShowArguments) -> Result<ExitCode> {
    let scenario = Scenario::find(&arguments.scenario)?.with_seed(arguments.seed);
    let video = arguments.video.clone().or_else(|| first(Path::new(SAMPLES), "mp4"));
    demo::check(video.as_deref())?;
    if let Some(file) = &arguments.record {
        let recording = Recording { file: file.clone(), seconds: arguments.seconds };
        recording.check()?;
        tributary_emu::isolate()?;
        let mut progress = Progress::new();
        let stand = start(arguments, scenario, video.as_deref(), &mut progress)?;
        // The browser is in the same namespaces as this process.
        let site = Site::bind(arguments.listen)?;
        stand.record(site, &recording, &mut |share| progress.at(share, "recording"))?;
        progress.end();
        eprintln!("recording: {}", file.display());
        return Ok(ExitCode::SUCCESS);
    }
    // Listens where the user's browser is, before this process leaves for namespaces of its own.
    let site = Site::bind(arguments.listen)?;
    tributary_emu::isolate()?;
    let mut progress = Progress::new();
    let stand = start(arguments, scenario, video.as_deref(), &mut progress)?;
    progress.end();
    let url = site.0.url();
    if arguments.json {
        let sockets: serde_json::Map<_, _> =
            stand.sockets().map(|(name, at)| (name.to_owned(), at.display().to_string().into())).collect();
        output::line(&serde_json::json!({ "url": url, "sockets": sockets }).to_string())?;
    } else {
        output::line(&url)?;
        eprintln!("Open this page in a browser of this machine. Ctrl-C ends the stand.");
    }
    match stand.serve(site)? {}
}

fn start(
    arguments: &ShowArguments,
    scenario: Scenario,
    video: Option<&Path>,
    progress: &mut Progress,
) -> Result<Stand> {
    let directory = match &arguments.tiles {
        Some(directory) => directory.clone(),
        None => {
            let mut told = |share: f64| progress.at(share, "cutting the video into tiles");
            demo::tiles_of(video, arguments.any_aspect, &cache()?, &mut told)?
        }
    };
    let (allocator, congestion) = (arguments.allocator.clone(), arguments.congestion.clone());
    progress.at(1.0, "starting both sides");
    Ok(Stand::start(&Settings { scenario, directory, allocator, congestion })?)
}
