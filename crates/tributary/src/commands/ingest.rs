//! `tributary ingest`.

use super::stop;
use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tributary_cli::{Progress, output, quantity};
use tributary_report::{Column, Table, TableCell};
use tributary_tiles::ingest::{self, Estimate, IngestError, Prepared, Settings, Stage, Watch};
use tributary_tiles::layout::LOW;
use tributary_tiles::{FrameRate, Record, TiledVideo, source};
use tributary_video::metrics::psnr_db;
use tributary_video::projection::Projection;
use tributary_video::tiles::TileGrid;

/// Cut a 360° video into independently coded tiles × qualities × one-second GoPs, and measure them.
///
/// Encodes with ffmpeg and libx264 on all cores (closed GoPs, no B-pictures, constant QP) and decodes the result to
/// measure it. The directory gets fMP4 segments, an MPD with the position of every tile, the source's pictures
/// without loss, a table of measured sizes and errors, the first track of sound as Opus, and a low-resolution stream for players that cannot
/// decode the tiles. Time and size are estimated before it begins. Ctrl-C stops
/// it; the same command then continues after the last finished second. The picture must divide into equal tiles of
/// even size.
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
    /// Tiles across and down, of each eye's picture
    #[arg(long, default_value = "8x4", value_parser = grid)]
    grid: TileGrid,
    /// Quantisation parameters, from 1 (finest) to 51
    #[arg(long, value_delimiter = ',', default_value = "22,27,32,37,42")]
    qps: Vec<u8>,
    /// Eyes to take of a stereo video, for headsets `both`; `top-bottom` is both, of a file that does not say how they are stored
    #[arg(long, value_enum, default_value_t = Eyes::Left)]
    eyes: Eyes,
    /// Output directory
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Seconds from the beginning [default: all]
    #[arg(long, value_parser = quantity::seconds_in(1..=86_400))]
    seconds: Option<u32>,
    /// Scale the pictures, each eye's, to this size [default: as they are]
    #[arg(long, value_name = "WxH", value_parser = size)]
    size: Option<(usize, usize)>,
    /// Pictures a second, as 30 or 30000/1001; others are dropped or repeated [default: the video's]
    #[arg(long)]
    rate: Option<FrameRate>,
    /// Accept a video whose picture is not twice as wide as high
    #[arg(long)]
    any_aspect: bool,
    /// libx264's preset
    #[arg(long, default_value = "fast", value_parser = ingest::PRESETS)]
    preset: String,
    /// Leave the sound out
    #[arg(long)]
    no_sound: bool,
    /// Leave the low-resolution stream out: 640 pixels wide, for browsers that cannot decode the tiles
    #[arg(long)]
    no_low_resolution: bool,
    /// Encoders at the same time [default: one per core]
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// See [`source::Eyes`].
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Eyes {
    Left,
    Both,
    TopBottom,
}

impl From<Eyes> for source::Eyes {
    fn from(eyes: Eyes) -> Self {
        match eyes {
            Eyes::Left => Self::Left,
            Eyes::Both => Self::Both,
            Eyes::TopBottom => Self::TopBottom,
        }
    }
}

pub(super) fn grid(text: &str) -> Result<TileGrid, String> {
    TileGrid::parse(text, Projection::Equirectangular).map_err(|error| error.to_string())
}

pub(super) fn size(text: &str) -> Result<(usize, usize), String> {
    let sides = text.split_once(['x', '×']).and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    sides.ok_or_else(|| format!("`{text}` is not a size; write 2048x1024"))
}

/// The output of `--json`.
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
    /// Bytes more than the untiled video, as a share of its bytes; one GoP in ten is compared.
    overhead: f64,
    /// PSNR of those GoPs, tiled and untiled.
    compared_psnr_db: f64,
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
        eyes: arguments.eyes.into(),
        any_aspect: arguments.any_aspect,
        preset: arguments.preset,
        sound: !arguments.no_sound,
        jobs: arguments.jobs,
    };
    let stop = stop::flag()?;
    let shown = Shown { progress: Mutex::new((Progress::new(), None)), stop };
    let prepared = Prepared::of(&arguments.video, &settings)?;
    if prepared.finished(&arguments.out)?.is_none() {
        match prepared.estimate() {
            Some(estimate) => shown.note(&estimated(&estimate)),
            None => shown.note("no estimate of time and size: the file cannot be read from its middle on"),
        }
    }
    let low = prepared.low().filter(|_| !arguments.no_low_resolution);
    let made = prepared.make(&arguments.out, &shown).and_then(|video| {
        low.map_or(Ok(()), |low| low.make(&arguments.out.join(LOW), &shown).map(drop))?;
        Ok(video)
    });
    shown.end();
    let video = match made {
        Err(error @ IngestError::Stopped { .. }) => {
            eprintln!("{error}");
            return Ok(ExitCode::from(128 + shown.stop.load(Ordering::Relaxed)));
        }
        made => made?,
    };
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

/// The progress bar, with the time at which the stage began and the work that was done by then.
struct Shown {
    progress: Mutex<(Progress, Option<Begun>)>,
    stop: Arc<AtomicU8>,
}

#[derive(Clone, Copy)]
struct Begun {
    stage: Stage,
    at: Instant,
    share: f64,
}

impl Shown {
    fn note(&self, text: &str) {
        self.progress.lock().unwrap_or_else(|e| e.into_inner()).0.note(text);
    }

    fn end(&self) {
        self.progress.lock().unwrap_or_else(|e| e.into_inner()).0.end();
    }
}

impl Watch for Shown {
    fn at(&self, at: ingest::Progress) {
        let mut guard = self.progress.lock().unwrap_or_else(|e| e.into_inner());
        let (progress, begun) = &mut *guard;
        let share = at.done as f64 / at.total.max(1) as f64;
        let start = match begun {
            Some(start) if start.stage == at.stage => *start,
            _ => {
                progress.begin_part();
                *begun.insert(Begun { stage: at.stage, at: Instant::now(), share })
            }
        };
        let stage = match at.stage {
            Stage::Source => "decoding the source",
            Stage::Tiles => "encoding and measuring",
        };
        let picture = at.done * at.pictures / at.total.max(1);
        let mut text = format!("{stage}: {picture} of {} pictures", at.pictures);
        // Less than 1 % of the work is too little for an estimate of the rest.
        if share - start.share > 0.01 {
            let left = start.at.elapsed().mul_f64((1.0 - share) / (share - start.share));
            text.push_str(&format!(", {} left", spoken(left)));
        }
        progress.at(share, &text);
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed) > 0
    }
}

fn estimated(of: &Estimate) -> String {
    let ((width, height), megabytes) = (of.size, of.bytes as f64 * 1e-6);
    let Estimate { pictures, jobs, .. } = of;
    format!(
        "{pictures} pictures of {width}×{height}: about {} with {jobs} encoders, about {megabytes:.0} MB on disk",
        spoken(of.time)
    )
}

/// A time as text: `40 s`, `3 min 20 s`, `2 h 5 min`.
fn spoken(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn qualities(video: &TiledVideo) -> Vec<Quality> {
    let table = video.table();
    let cells = || (0..table.gops()).flat_map(|gop| table.gop(gop));
    let count = (table.gops() * video.grid().tiles()) as f64;
    let one = |(index, of): (usize, &tributary_tiles::Overhead)| Quality {
        qp: of.qp,
        mbit_s: cells().map(|cell| cell.bytes[index]).sum::<u64>() as f64 * 8e-6 / table.duration_s(),
        psnr_db: psnr_db(cells().map(|cell| cell.mse[index]).sum::<f64>() / count),
        compared_psnr_db: psnr_db(of.tiled_mse),
        overhead: of.share(),
        untiled_psnr_db: psnr_db(of.untiled_mse),
    };
    video.record().overhead.iter().enumerate().map(one).collect()
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
        ("PSNR lost by tiling", "dB"),
    ];
    let mut table =
        Table::new(&title).columns(headings.map(|(heading, unit)| Column::right(heading).unit(unit)));
    for of in qualities {
        let numbers = [
            (f64::from(of.qp), 0),
            (of.mbit_s, 2),
            (of.psnr_db, 2),
            (of.overhead * 100.0, 1),
            (of.untiled_psnr_db - of.compared_psnr_db, 2),
        ];
        table.push(numbers.map(|(number, decimals)| TableCell::number(number, decimals)));
    }
    table
}
