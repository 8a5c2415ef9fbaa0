//! The HTML report of viewings: numbers per GoP, and the viewers' pictures beside the original. All numbers in its
//! sentences are measured.

use tributary_report::{
    Column, HtmlReport, KeyFigure, Layout, Media, Plot, RunInfo, Series, Table, TableCell, TimeSeries,
    plot::Tone,
};
use tributary_video::metrics::psnr_db;

use super::measure::GopQuality;
use super::outcome::{self, TiledResult};

/// Colours of viewings, in their order.
const TONES: [Tone; 4] = [Tone::Hero, Tone::Rival, Tone::Cousin, Tone::Peer];
/// Upper end of plots in dB; identical pictures would have an infinite value.
const TOP_DB: f64 = 60.0;

/// Pictures of one moment, with a caption.
#[derive(Debug, Clone)]
pub struct Beside {
    /// The caption.
    pub words: String,
    /// The pictures as seen, and the original.
    pub images: Vec<Media>,
}

/// The quality of every GoP as a separate SVG picture.
#[must_use]
pub fn figure(results: &[&TiledResult]) -> String {
    Plot::standalone(&quality(results))
}

/// The report of viewings of the same clip, the product's first. `video` shows what their viewers saw.
#[must_use]
pub fn page(
    title: &str,
    results: &[&TiledResult],
    video: Option<&Media>,
    moments: &[Beside],
    run: &RunInfo,
) -> String {
    let mut report = HtmlReport::new(title);
    let Some(first) = results.first() else { return report.render() };
    report.headline(&headline(results)).lead(&lead(first));
    if let Some(video) = video {
        report.video(video);
    }
    for card in cards(results) {
        report.card(card);
    }
    report.section("Quality of the view");
    for moment in moments {
        report.text(&moment.words).images(&moment.images);
    }
    report.table(
        &outcome::table(results),
        &format!("PSNR of the viewport's luma against the source seen through the same viewport, every picture: mean of the GoPs' decibels; \
         decibels of the mean error; the worst 5 % of GoPs (at least one). Late view: share of the viewport's solid angle whose tiles \
         were requested but not in time; left out: not requested. WS: the whole panorama, weighted by solid angle. \
         Start-up: from the request for the start to the first picture. To good: how long a tile that comes into view is more than six QP \
         coarser than the finest in view. {}.", outcome::psnr_cap()),
    );
    if first.quality.is_some() {
        report
            .figure(
                &quality(results),
                &format!("Each GoP's mean error in the viewport, as decibels, at most {TOP_DB:.0}."),
            )
            .figure(&late(results), "Late and left-out tiles, weighted by their share of the view.");
    }
    report.section("Requested and received media");
    report.figure(
        &load(results),
        "Media requested, and the part of it that was in time. Capacity as known at each plan: the mean of the samples.",
    );
    report.table(
        &tiles(results),
        "Tiles over the whole viewing; dropped: the server could not begin them in time.",
    );
    report.made(&made(results, run));
    report.render()
}

/// What each viewer saw, in a few words.
fn headline(results: &[&TiledResult]) -> String {
    let short = |result: &&TiledResult| {
        let quality = result.quality.as_ref()?;
        let late = match quality.late_percent {
            late if late < 0.05 => "nothing late".to_owned(),
            late if late < 10.0 => format!("{late:.1} % of the view late"),
            late => format!("{late:.0} % of the view late"),
        };
        Some(format!("{}: {:.1} dB, {late}.", spoken(&result.transport), quality.viewport.mean_db))
    };
    match results {
        [only] => only.sentence(),
        several => match several.iter().map(short).collect::<Option<Vec<_>>>() {
            Some(sentences) => sentences.join(" "),
            None => several.first().map(|first| first.sentence()).unwrap_or_default(),
        },
    }
}

/// A transport's name at the beginning of a sentence. The default scheduler is the product's name.
pub(super) fn spoken(transport: &str) -> String {
    let transport = if transport == "fbdt" { "Tributary" } else { transport };
    let mut letters = transport.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

fn lead(result: &TiledResult) -> String {
    format!(
        "{}. Head movement: {}. Tiles were pushed live, one GoP of {:.0} ms after the other, in the order and quality that the \
         player had planned from the head's position and from the tiles that had arrived. Tiles missing when their GoP began were {} on \
         the screen.",
        result.clip,
        result.head,
        result.gop_ms,
        outcome::concealment(result.concealment)
    )
}

fn cards(results: &[&TiledResult]) -> Vec<KeyFigure> {
    let (ours, theirs) = (results[0], results.get(1));
    let card = |label: &str, unit: &str, digits: usize, of: &dyn Fn(&TiledResult) -> Option<f64>| {
        let mine = of(ours)?;
        let figure = KeyFigure::new(label, &format!("{mine:.digits$}"), unit);
        let other = theirs.and_then(|other| Some((other, of(other)?)));
        Some(match other {
            Some((other, value)) => figure.note(&format!("{} {value:.digits$}", name(other, results))),
            None => figure,
        })
    };
    let all = [
        card("Viewport PSNR, mean of GoPs", "dB", 1, &|r| Some(r.quality.as_ref()?.viewport.mean_db)),
        card("PSNR of the mean error", "dB", 1, &|r| Some(r.quality.as_ref()?.viewport.pooled_db)),
        card("Worst 5 % of GoPs", "dB", 1, &|r| Some(r.quality.as_ref()?.viewport.worst_db)),
        card("View that was late", "%", 2, &|r| Some(r.quality.as_ref()?.late_percent)),
        card("Start-up", "ms", 0, &|r| r.start_up_ms),
        card("Motion to high quality", "ms", 0, &|r| r.quality.as_ref()?.motion.mean_ms),
    ];
    all.into_iter().flatten().collect()
}

/// What tells a viewing from the others: its transport, or the allocator too where another viewing has the same transport.
fn name(result: &TiledResult, results: &[&TiledResult]) -> String {
    match results.iter().filter(|other| other.transport == result.transport).count() {
        1 => spoken(&result.transport),
        _ => format!("{} on {}", result.allocator, result.transport),
    }
}

/// One curve per viewing with one value per GoP.
fn lines(
    plot: &mut TimeSeries,
    results: &[&TiledResult],
    suffix: &str,
    of: impl Fn(&TiledResult) -> Vec<f64>,
) {
    for (at, result) in results.iter().enumerate() {
        let gop_s = result.gop_ms / 1e3;
        let points =
            of(result).into_iter().enumerate().map(|(at, value)| (at as f64 * gop_s, value)).collect();
        let label = format!("{}{suffix}", name(result, results));
        plot.series.push(Series::new(&label, TONES[at % TONES.len()], points));
    }
}

fn of_gops(result: &TiledResult, of: impl Fn(&GopQuality) -> f64) -> Vec<f64> {
    result.quality.iter().flat_map(|quality| &quality.gops).map(of).collect()
}

fn quality(results: &[&TiledResult]) -> TimeSeries {
    let mut plot = TimeSeries::per_second("Viewport PSNR, every GoP", "dB");
    plot.description = headline(results);
    lines(&mut plot, results, "", |r| of_gops(r, |gop| psnr_db(gop.viewport_mse).min(TOP_DB)));
    plot
}

fn late(results: &[&TiledResult]) -> TimeSeries {
    let mut plot = TimeSeries::per_second("Share of the view that was missing", "%");
    lines(&mut plot, results, ", late or left out", |r| {
        of_gops(r, |gop| 100.0 * (gop.late_share + gop.left_out_share))
    });
    plot
}

fn load(results: &[&TiledResult]) -> TimeSeries {
    let mut plot = TimeSeries::per_second("Media in time, every GoP", "Mbit/s");
    plot.layout = if results.len() > 1 { Layout::Stacked } else { Layout::Overlaid };
    let mbps = |result: &TiledResult, bytes: f64| bytes * 8.0 / 1e3 / result.gop_ms.max(1.0);
    for (at, result) in results.iter().enumerate() {
        let slots = || result.record.slots.iter();
        let gop_s = result.gop_ms / 1e3;
        let points = |of: &dyn Fn(&crate::tiled::SlotRecord) -> f64| {
            slots().map(|slot| (f64::from(slot.slot) * gop_s, mbps(result, of(slot)))).collect::<Vec<_>>()
        };
        let tone = TONES[at % TONES.len()];
        if results.len() == 1 {
            let known = points(&|slot| slot.capacity_mean);
            plot.series.push(Series::new("known capacity", Tone::Neutral, known));
            plot.series.push(Series::new(
                "asked for",
                Tone::Rival,
                points(&|slot| slot.planned_bytes as f64),
            ));
        }
        let note = format!(
            "requested {:.1}, in time {:.1} Mbit/s",
            result.load.planned_mbps, result.load.in_time_mbps
        );
        let in_time = points(&|slot| slot.bytes_in_time() as f64);
        let series_name = if results.len() == 1 { "in time".to_owned() } else { name(result, results) };
        plot.series.push(Series::new(&series_name, tone, in_time).note(&note));
    }
    plot
}

fn tiles(results: &[&TiledResult]) -> Table {
    let mut table = Table::new("").columns([
        Column::left("viewing"),
        Column::right("asked for"),
        Column::right("in time"),
        Column::right("late"),
        Column::right("dropped"),
        Column::right("left out"),
        Column::right("came into view"),
        Column::right("good at once"),
        Column::right("left before good"),
        Column::right("to good, 95 %").unit("ms"),
    ]);
    for result in results {
        let load = result.load;
        let motion = result.quality.as_ref().map(|quality| quality.motion);
        let count = |value: u64| TableCell::number(value as f64, 0);
        let moved = |of: fn(&super::Motion) -> f64| TableCell::optional_number(motion.as_ref().map(of), 0);
        table.push([
            TableCell::text(&name(result, results)),
            count(load.tiles_planned),
            count(load.tiles_in_time),
            count(load.tiles_late),
            count(load.tiles_dropped),
            count(load.tiles_left_out),
            moved(|m| f64::from(m.came)),
            moved(|m| f64::from(m.good_at_once)),
            moved(|m| f64::from(m.left_before)),
            TableCell::optional_number(motion.and_then(|m| m.p95_ms), 0),
        ]);
    }
    table
}

fn made(results: &[&TiledResult], run: &RunInfo) -> RunInfo {
    let mut run = run.clone();
    let mut set = |name: &str, value: String| _ = run.configuration.insert(name.to_owned(), value);
    for result in results {
        let of = |what: &str| {
            if results.len() > 1 { format!("{what}, {}", name(result, results)) } else { what.to_owned() }
        };
        set(&of("capacity"), result.capacity_words());
        set(&of("plans a GoP"), result.plans.to_string());
        set(&of("paths in use"), result.paths_up.to_string());
    }
    let first = results[0];
    set("clip", first.clip.clone());
    set("head", first.head.clone());
    set("concealment", outcome::concealment(first.concealment).to_owned());
    run
}
