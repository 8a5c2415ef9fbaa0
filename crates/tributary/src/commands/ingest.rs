//! `tributary ingest`.

use super::output::{self, Progress};
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use tributary_report::{Cell, Column, Table};
use tributary_tiles::ingest::{self, Settings};
use tributary_tiles::{FrameRate, Record, TiledVideo};
use tributary_video::metrics::psnr_db;
use tributary_video::projection::Projection;
use tributary_video::tiles::TileGrid;

/// Cut a 360° video into independently coded tiles × qualities × one-second GoPs, and measure them.
///
/// Encodes with ffmpeg and libx264 on all cores (closed GoPs, no B-pictures, constant QP) and decodes what
/// it has written: the directory gets fMP4 segments, an MPD with the place of every tile, the source's
/// pictures without loss, and a table of real bytes and errors. What was stopped goes on where it was when
/// the same command is given again. The picture must divide into equal tiles of even size.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary ingest panorama.mp4 --out panorama.tiles
  tributary ingest panorama.mp4 --grid 12x6 --qps 22,27,32,37,42 --seconds 20 --out tiles
  tributary ingest panorama-1440.mp4 --size 1440x720 --grid 6x4 --out tiles --json
  tributary ingest cropped.mp4 --any-aspect --rate 30 --out tiles")]
pub(crate) struct IngestArguments {
    /// Equirectangular video: any file that ffmpeg reads
    #[arg(value_name = "VIDEO")]
    video: PathBuf,
    /// Tiles beside and above each other
    #[arg(long, default_value = "8x4", value_parser = grid)]
    grid: TileGrid,
    /// Quantisation parameters, from 1 (finest) to 51
    #[arg(long, value_delimiter = ',', default_value = "22,27,32,37,42")]
    qps: Vec<u8>,
    /// Directory to make
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Seconds from the beginning [default: all]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,
    /// Scale the pictures to this size [default: as they are]
    #[arg(long, value_name = "WxH", value_parser = size)]
    size: Option<(usize, usize)>,
    /// Pictures a second, as 30 or 30000/1001; others are dropped or repeated [default: the video's]
    #[arg(long)]
    rate: Option<FrameRate>,
    /// Accept a video whose picture is not twice as wide as high
    #[arg(long)]
    any_aspect: bool,
    /// libx264's preset
    #[arg(long, default_value = "medium", value_parser = ingest::PRESETS)]
    preset: String,
    /// Encoders at once [default: one a core]
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Print what was made as one JSON object
    #[arg(long)]
    json: bool,
}

fn grid(text: &str) -> Result<TileGrid, String> {
    TileGrid::parse(text, Projection::Equirectangular).map_err(|error| error.to_string())
}

fn size(text: &str) -> Result<(usize, usize), String> {
    let sides = text.split_once(['x', '×']).and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    sides.ok_or_else(|| format!("`{text}` is no size; write 2048x1024"))
}

/// What `--json` prints.
#[derive(Serialize)]
struct Made<'a> {
    directory: &'a PathBuf,
    gops: usize,
    gop_duration_s: f64,
    grid: TileGrid,
    width: usize,
    height: usize,
    qualities: Vec<Quality>,
    record: &'a Record,
}

/// All tiles at one QP.
#[derive(Serialize)]
struct Quality {
    qp: u8,
    mbit_s: f64,
    psnr_db: f64,
    /// How many more bytes than the untiled video, as a share of its bytes.
    overhead: f64,
    untiled_psnr_db: f64,
}

pub(crate) fn run(arguments: IngestArguments) -> Result<ExitCode> {
    let mut qps = arguments.qps;
    qps.sort_unstable();
    let settings = Settings {
        grid: arguments.grid,
        qps,
        size: arguments.size,
        seconds: arguments.seconds,
        rate: arguments.rate,
        any_aspect: arguments.any_aspect,
        preset: arguments.preset,
        jobs: arguments.jobs,
    };
    let progress = Mutex::new(Progress::new());
    let video = ingest::ingest(&arguments.video, &settings, &arguments.out, &|at| {
        let mut progress = progress.lock().unwrap_or_else(|e| e.into_inner());
        // Hundredths of the work, so that a log has few lines of it.
        let hundredths = at.done * 100 / at.total.max(1);
        if at.done == 1 {
            progress.begin_part();
        }
        progress.at(
            hundredths as f64 / 100.0,
            if at.done == 0 { "decoding the source" } else { "encoding and measuring" },
        );
    })?;
    progress.into_inner().unwrap_or_else(|e| e.into_inner()).end();
    let qualities = qualities(&video);
    if arguments.json {
        let (width, height) = video.size();
        let made = Made {
            directory: &arguments.out,
            gops: video.gops(),
            gop_duration_s: video.table().layout().gop_duration_s,
            grid: video.grid(),
            width,
            height,
            qualities,
            record: video.record(),
        };
        output::line(&serde_json::to_string(&made)?)?;
    } else {
        output::line(&table(&video, &qualities).to_text())?;
        for note in &video.record().notes {
            output::line(&format!("note: {note}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn qualities(video: &TiledVideo) -> Vec<Quality> {
    let one = |of: &tributary_tiles::Overhead| Quality {
        qp: of.qp,
        mbit_s: of.tiled_bytes as f64 * 8e-6 / video.table().duration_s(),
        psnr_db: psnr_db(of.tiled_mse),
        overhead: of.share(),
        untiled_psnr_db: psnr_db(of.untiled_mse),
    };
    video.record().overhead.iter().map(one).collect()
}

fn table(video: &TiledVideo, qualities: &[Quality]) -> Table {
    let ((width, height), grid) = (video.size(), video.grid());
    let title = format!(
        "{}: {width}×{height}, {}×{} tiles, {} GoPs of {:.3} s",
        video.source().name,
        grid.columns(),
        grid.rows(),
        video.gops(),
        video.table().layout().gop_duration_s
    );
    let headings = [
        ("QP", ""),
        ("all tiles", "Mbit/s"),
        ("PSNR", "dB"),
        ("more than untiled", "%"),
        ("untiled PSNR", "dB"),
    ];
    let mut table =
        Table::new(&title).columns(headings.map(|(heading, unit)| Column::right(heading).unit(unit)));
    for of in qualities {
        let numbers = [
            (f64::from(of.qp), 0),
            (of.mbit_s, 2),
            (of.psnr_db, 2),
            (of.overhead * 100.0, 1),
            (of.untiled_psnr_db, 2),
        ];
        table.push(numbers.map(|(number, decimals)| Cell::number(number, decimals)));
    }
    table
}
