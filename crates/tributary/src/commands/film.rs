//! `tributary film`.

use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_cli::{output, quantity};
use tributary_stream::film::{Film, Source, make};
use tributary_types::Bitrate;

/// Make a video file of one bitrate for progressive playback: H.264 in an MPEG transport stream.
///
/// ffmpeg encodes it from any file that it can read; a file that is too short is repeated. Without an input the film
/// is a moving test picture with noise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary film --out film.ts
  tributary film concert.mkv --out film.ts --mbps 5.24 --seconds 624")]
pub(crate) struct FilmArguments {
    /// Any video file [default: a test picture]
    #[arg(value_name = "VIDEO")]
    video: Option<PathBuf>,
    /// Output file; an existing one is replaced
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Bitrate of the file, Mbit/s
    #[arg(long, default_value_t = Film::default().bitrate.as_mbps_f64())]
    mbps: f64,
    /// Length
    #[arg(long, default_value_t = Film::default().seconds, value_parser = quantity::seconds_in(1..=86_400))]
    seconds: u32,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &FilmArguments) -> Result<ExitCode> {
    anyhow::ensure!((0.1..=1000.0).contains(&arguments.mbps), "--mbps must be from 0.1 to 1000");
    let bitrate = Bitrate::from_bps((arguments.mbps * 1e6) as u64);
    let film = Film { bitrate, seconds: arguments.seconds, ..Film::default() };
    let source = arguments.video.as_deref().map_or(Source::Synthetic, Source::File);
    let mbps = make(source, &film, &arguments.out)?.as_mbps_f64();
    if arguments.json {
        let made = serde_json::json!({ "file": arguments.out, "mbps": mbps, "seconds": film.seconds });
        output::line(&made.to_string())?;
    } else {
        output::line(&format!("{}: {mbps:.2} Mbit/s, {} s", arguments.out.display(), film.seconds))?;
    }
    Ok(ExitCode::SUCCESS)
}
