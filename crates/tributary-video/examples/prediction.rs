//! Evaluates predictions of the view on a folder of head-movement traces.
//!
//! ```text
//! cargo run --release -p tributary-video --example prediction -- FORMAT FOLDER [SECONDS [SETTINGS]]
//! ```
//! FORMAT is `jin22`, `nasrabadi19`, `wu17` or `plain`. Files that name the same video (`video<V>_user<U>` or
//! `<USER>_<VIDEO>`) form one population. SETTINGS is JSON such as `{"spread_deg":20}`. For each viewer, GoPs
//! of one second are predicted one and two seconds before their middle, on 6 × 4 tiles. The output depends
//! only on the files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;

use tributary_video::head::{Format, HeadTrace, read};
use tributary_video::prediction::{
    Calibration, GopClock, Live, LiveSettings, Motion, Population, TileOutlook, Viewing, share_distance,
    similarity,
};
use tributary_video::projection::Projection;
use tributary_video::tiles::TileGrid;
use tributary_video::viewport::{FieldOfView, Viewer};

/// All viewers of one video: their traces, and their viewings.
type Watching<'a> = (&'a Vec<HeadTrace>, &'a Population);
type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prediction: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [format, folder, rest @ ..] = &arguments[..] else { return Err("give FORMAT and FOLDER".into()) };
    let seconds = rest.first().map_or(Ok(50), |text| text.parse())?;
    let given = rest.get(1).map(|text| serde_json::from_str(text)).transpose()?;
    let (settings, similar) =
        given.map_or((LiveSettings::default(), LiveSettings::with_similar_viewers()), |given| (given, given));
    let videos = traces(&format.parse()?, Path::new(folder))?;
    let clock = GopClock { gop_duration_s: 1.0, gops: seconds, moments: 5 };
    println!(
        "{} videos, {} viewers, {seconds} s each, 6x4 tiles, 110x90 degrees",
        videos.len(),
        videos.values().map(Vec::len).sum::<usize>()
    );
    println!("{:<34} {:>7} {:>8} {:>8} {:>8}", "", "Brier", "log loss", "calibr.", "misplaced");
    let populations =
        videos.values().map(|traces| population(traces, clock)).collect::<Result<Vec<_>, Error>>()?;
    let pairs: Vec<Watching<'_>> = videos.values().zip(&populations).collect();
    row("base rate of each row of tiles", &pairs, clock, |(_, population), _, viewer, _| {
        by_row(population, viewer)
    });
    row("other viewers", &pairs, clock, |(_, population), _, viewer, gop| {
        population.outlook(gop, Some(viewer))
    });
    for lead_s in [1.0, 2.0] {
        for (name, settings) in variants(settings) {
            let live = Live::new(settings, FieldOfView::default(), grid());
            let name = format!("{name}, {lead_s} s ahead");
            row(&name, &pairs, clock, |(_, population), trace, viewer, gop| {
                let now_s = (gop as f64 + 0.5 - lead_s).max(0.0);
                live.outlook(trace, now_s, (clock, gop), &population.outlook(gop, Some(viewer)))
            });
        }
        let live = Live::new(similar, FieldOfView::default(), grid());
        row(
            &format!("own head and similar viewers, {lead_s} s ahead"),
            &pairs,
            clock,
            |(traces, population), trace, viewer, gop| {
                let now_s = (gop as f64 + 0.5 - lead_s).max(0.0);
                let mut weights = similarity(trace.at(now_s), traces, now_s);
                weights[viewer] = 0.0;
                live.outlook(trace, now_s, (clock, gop), &population.outlook_weighted(gop, &weights))
            },
        );
    }
    Ok(())
}

fn variants(settings: LiveSettings) -> Vec<(&'static str, LiveSettings)> {
    let alone = LiveSettings { crowd_s: f64::INFINITY, ..settings };
    vec![
        ("last orientation, certain", LiveSettings { motion: Motion::Still, spread_deg: 0.0, ..alone }),
        ("own head, still, spread", LiveSettings { motion: Motion::Still, ..alone }),
        ("own head, linear, spread", alone),
        ("own head and crowd", settings),
    ]
}

fn grid() -> TileGrid {
    TileGrid::new(6, 4, Projection::Equirectangular).expect("a valid grid")
}

fn traces(format: &Format, folder: &Path) -> Result<BTreeMap<String, Vec<HeadTrace>>, Error> {
    let mut paths: Vec<_> = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut videos: BTreeMap<String, Vec<HeadTrace>> = BTreeMap::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "csv")) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (left, right) = stem.split_once('_').unwrap_or((&stem, "all"));
        let video = if left.starts_with("video") { left } else { right }.to_owned();
        let trace = read(File::open(path)?, format.clone())
            .map_err(|error| format!("{}: {error}", path.display()))?;
        videos.entry(video).or_default().push(trace);
    }
    videos.retain(|_, traces| traces.len() > 1);
    if videos.is_empty() { Err("no video with two viewers there".into()) } else { Ok(videos) }
}

fn population(traces: &[HeadTrace], clock: GopClock) -> Result<Population, Error> {
    let viewer = Viewer::new(FieldOfView::default(), grid());
    let viewings =
        traces.iter().map(|trace| Viewing::of(trace, &viewer, clock)).collect::<Result<Vec<_>, _>>()?;
    Ok(Population::new(viewings)?)
}

/// Prediction without yaw: how often the others saw tiles of a row.
fn by_row(population: &Population, without: usize) -> Vec<TileOutlook> {
    let (columns, gops) = (grid().columns(), population.viewings()[0].gops());
    let mut rows = vec![TileOutlook::default(); grid().rows()];
    for gop in 0..gops {
        for (tile, outlook) in population.outlook(gop, Some(without)).iter().enumerate() {
            rows[tile / columns].seen += outlook.seen / (gops * columns) as f64;
            rows[tile / columns].share += outlook.share / (gops * columns) as f64;
        }
    }
    (0..grid().tiles()).map(|tile| rows[tile / columns]).collect()
}

fn row(
    name: &str,
    videos: &[Watching<'_>],
    clock: GopClock,
    predict: impl Fn(Watching<'_>, &HeadTrace, usize, usize) -> Vec<TileOutlook>,
) {
    let mut calibration = Calibration::new(10);
    let (mut misplaced, mut count) = (0.0, 0.0);
    for (traces, population) in videos {
        for (viewer, trace) in traces.iter().enumerate() {
            // From the third GoP on, so that every prediction has past samples; every second GoP is enough.
            for gop in (2..clock.gops).step_by(2) {
                let outlook = predict((*traces, *population), trace, viewer, gop);
                let views = population.viewings()[viewer].gop(gop);
                calibration.add_gop(&outlook, views);
                misplaced += share_distance(&outlook, views);
                count += 1.0;
            }
        }
    }
    println!(
        "{name:<34} {:>7.4} {:>8.4} {:>8.4} {:>8.1} %",
        calibration.brier(),
        calibration.log_loss(),
        calibration.calibration_error(),
        100.0 * misplaced / count
    );
}
