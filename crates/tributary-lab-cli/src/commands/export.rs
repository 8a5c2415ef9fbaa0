//! `tributary-lab export`: playbacks in the forms of other programs.

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tributary_cli::{output, quantity};
use tributary_lab::export::e3po;
use tributary_lab::export::p1203::{Input, Video};

/// Print a playback in the form of another program.
#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    P1203(P1203Arguments),
    E3po(E3poArguments),
}

/// Print what a tiled viewing decided to load, as E3PO's decision.json.
///
/// FILE is what `tributary stream play --json` prints. E3PO numbers tiles row by row from 0, as here.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary stream play --path any=203.0.113.5:7000 --json > viewing.json
  tributary-lab export e3po viewing.json > decision.json")]
pub(crate) struct E3poArguments {
    /// The viewing
    #[arg(value_name = "FILE")]
    viewing: PathBuf,
    /// End the name of each tile in its quality: _quality_0, the finest
    #[arg(long)]
    qualities: bool,
}

/// Print a DASH playback as the input of ITU-T P.1203's reference implementation, mode 0.
///
/// FILE is what `tributary dash play --json` prints. Segments that were shown have the nominal bitrate of their quality; stalls
/// and start-up are those of the playback; there is no audio. The program that judges it is at github.com/itu-p1203/itu-p1203,
/// under its own licence.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary dash play http://203.0.113.5:8080/manifest.mpd --json > playback.json
  tributary-lab export p1203 playback.json --segment 2 --resolutions 640x360,1280x720,1920x1080 > p1203.json
  python3 -m itu_p1203 p1203.json")]
pub(crate) struct P1203Arguments {
    /// The playback
    #[arg(value_name = "FILE")]
    playback: PathBuf,
    /// Length of a segment in seconds
    #[arg(long, value_name = "SECONDS", value_parser = quantity::part_seconds_in(0.1..=60.0))]
    segment: f64,
    /// Resolution of each quality, the lowest first
    #[arg(long, required = true, value_delimiter = ',', value_name = "WIDTHxHEIGHT")]
    resolutions: Vec<String>,
    /// Frames a second
    #[arg(long, default_value_t = 25.0, value_parser = quantity::number_in(1.0..=240.0))]
    fps: f64,
    /// Codec, as the implementation names it
    #[arg(long, default_value = "h264")]
    codec: String,
    /// Where it is watched
    #[arg(long, default_value = "pc", value_parser = ["pc", "mobile"])]
    device: String,
    /// Resolution of the display
    #[arg(long, default_value = "1920x1080", value_name = "WIDTHxHEIGHT")]
    display: String,
    /// Distance of the viewer
    #[arg(long, default_value = "150cm")]
    distance: String,
}

pub(crate) fn run(export: &Export) -> Result<ExitCode> {
    match export {
        Export::P1203(arguments) => p1203(arguments),
        Export::E3po(arguments) => e3po(arguments),
    }
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn e3po(arguments: &E3poArguments) -> Result<ExitCode> {
    let decisions = e3po::decisions(&read(&arguments.viewing)?, arguments.qualities)
        .with_context(|| arguments.viewing.display().to_string())?;
    output::line(&serde_json::to_string_pretty(&decisions)?)?;
    Ok(ExitCode::SUCCESS)
}

fn p1203(arguments: &P1203Arguments) -> Result<ExitCode> {
    let json = read(&arguments.playback)?;
    let video = Video {
        segment: Duration::from_secs_f64(arguments.segment),
        resolutions: arguments.resolutions.clone(),
        fps: arguments.fps,
        codec: arguments.codec.clone(),
        device: arguments.device.clone(),
        display: arguments.display.clone(),
        distance: arguments.distance.clone(),
    };
    let input = Input::new(&json, &video).with_context(|| arguments.playback.display().to_string())?;
    output::line(&serde_json::to_string_pretty(&input)?)?;
    Ok(ExitCode::SUCCESS)
}
