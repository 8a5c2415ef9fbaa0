//! Tables, for the terminal, the report and the documentation.

use tributary_report::{Cell, Column, Table};
use tributary_video::rd::Concealment;

use super::Outcome;
use super::curve::ALLOCATORS;
use super::figures::{Figures, Pair, Quality, Value, Where};
use super::matrix::CHAIN;
use super::scene::SCENES;
use crate::tiled::psnr_cap;

/// What each step of [`CHAIN`] adds.
pub(super) const STEPS: [&str; 6] =
    ["transport", "quantile", "order", "allocation", "leaving out", "updates"];
const QUALITIES: [Quality; 3] = [Quality::Mean, Quality::Pooled, Quality::Worst];
/// Shown first to last.
const ORDER: [&str; 9] = [
    "fix",
    "fix-q",
    "fix-q-by-gain",
    "ows-paper",
    "ows-paper-descending",
    "two-class",
    "ows-every-tile",
    "ows",
    "ows-updated",
];

fn with_interval(value: Option<Value>, decimals: usize) -> String {
    match value {
        Some((value, Some(i))) => {
            format!("{value:+.decimals$} [{:+.decimals$}, {:+.decimals$}]", i.low, i.high)
        }
        Some((value, None)) => format!("{value:+.decimals$}"),
        None => "–".to_owned(),
    }
}

/// The split, every allocator, every clip, and quality against rate.
#[must_use]
pub fn tables(outcome: &Outcome) -> Vec<Table> {
    let figures = Figures::new(&outcome.viewings);
    let all: Vec<usize> = (0..outcome.clips.len()).collect();
    let mut tables = vec![split(&figures, &all)];
    tables.push(allocators(
        &figures,
        &all,
        Concealment::Freeze,
        "Every allocator, means of the clips; freezing",
    ));
    tables.push(allocators(&figures, &all, Concealment::Black, "Black in place of freezing"));
    tables.extend(all.iter().map(|clip| {
        let info = &outcome.clips[*clip];
        let kind = if info.moving { "moving" } else { "still" };
        let title = format!(
            "{} ({}, {kind}; finest quality {:.1} MB a GoP)",
            info.name,
            info.origin,
            info.finest_bytes / 1e6
        );
        allocators(&figures, &[*clip], Concealment::Freeze, &title)
    }));
    tables.push(curve(outcome));
    tables
}

fn split(figures: &Figures<'_>, clips: &[usize]) -> Table {
    let mut columns = vec![Column::left("scene"), Column::left("figure")];
    columns.extend(STEPS.map(|step| Column::right(step).unit("dB")));
    columns.push(Column::right("together").unit("dB"));
    let mut table = Table::new("From FIX on MPTCP to ows-updated on FBDT, step by step, means of the clips")
        .columns(columns);
    for (scene, label) in SCENES {
        let at = Where { clips, scene, concealment: Concealment::Freeze };
        for (quality, name) in QUALITIES.into_iter().zip(["mean dB", "pooled", "worst 5 %"]) {
            let mut row = vec![Cell::text(label), Cell::text(name)];
            row.extend(CHAIN.windows(2).map(|pair| {
                let gain = figures.gain(quality, &at, pair[1], pair[0]).map(|(gain, _)| gain);
                Cell::optional(gain.map(|gain| format!("{gain:+.2}")))
            }));
            let whole = figures.gain(quality, &at, CHAIN[6], CHAIN[0]);
            row.push(Cell::text(&with_interval(whole, 2)).strong());
            table.push(row);
        }
    }
    table
}

fn allocators(figures: &Figures<'_>, clips: &[usize], concealment: Concealment, title: &str) -> Table {
    let mut table = Table::new(title).columns([
        Column::left("scene"),
        Column::left("transport"),
        Column::left("allocator"),
        Column::right("viewings"),
        Column::right("mean of dB").unit("dB"),
        Column::right("pooled").unit("dB"),
        Column::right("worst 5 %").unit("dB"),
        Column::right("late").unit("%"),
        Column::right("left out").unit("%"),
        Column::right("in time").unit("MB a GoP"),
        Column::right("to high quality").unit("s"),
        Column::right("mean over FIX on MPTCP").unit("dB"),
    ]);
    for (scene, label) in SCENES {
        let at = Where { clips, scene, concealment };
        for transport in ["mptcp", "fbdt"] {
            for allocator in ORDER {
                let pair: Pair = (transport, allocator);
                let count = figures.count(&at, pair);
                if count == 0 {
                    continue;
                }
                let quality = |quality| Cell::optional_number(figures.quality(quality, &at, pair), 2);
                let mean = |number| figures.mean(&at, pair, number).map(|(mean, _)| mean);
                let row = [
                    Cell::text(label),
                    Cell::text(transport),
                    Cell::text(allocator),
                    Cell::number(count as f64, 0),
                    quality(Quality::Mean),
                    quality(Quality::Pooled),
                    quality(Quality::Worst),
                    Cell::optional_number(mean(|viewed| viewed.late_percent), 2),
                    Cell::optional_number(mean(|viewed| viewed.left_out_percent), 2),
                    Cell::optional_number(mean(|viewed| viewed.in_time_bytes / 1e6), 2),
                    Cell::optional_number(mean(|viewed| viewed.to_quality_s.unwrap_or(0.0)), 2),
                    Cell::text(&with_interval(figures.gain(Quality::Mean, &at, pair, CHAIN[0]), 2)),
                ];
                if pair == CHAIN[6] { table.push_highlighted(row) } else { table.push(row) }
            }
        }
    }
    table
}

fn curve(outcome: &Outcome) -> Table {
    let mut columns = vec![Column::right("rate").unit("Mbit/s")];
    columns.extend(ALLOCATORS.map(|name| Column::right(name).unit("dB")));
    let mut table = Table::new("Quality against rate: the viewport's mean PSNR when capacity is certain")
        .columns(columns);
    let mut rates: Vec<f64> = outcome.curve.iter().map(|point| point.mbps).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    for rate in rates {
        let mut row = vec![Cell::number(rate, 1)];
        row.extend(ALLOCATORS.map(|name| {
            let point = outcome.curve.iter().find(|point| point.mbps == rate && point.allocator == name);
            Cell::optional_number(point.map(|point| point.mean_db), 2)
        }));
        table.push(row);
    }
    table
}

/// All tables as Markdown, with how they were made.
#[must_use]
pub fn markdown(outcome: &Outcome) -> String {
    let run = &outcome.reproduction.run;
    let mut text = format!("`{}`, version {}.", run.command, run.version);
    for (name, value) in &run.configuration {
        text.push_str(&format!(" {name}: {value}."));
    }
    text.push_str(&format!(" {}.\n\n", psnr_cap()));
    text.push_str(&outcome.reproduction.table().to_markdown());
    for table in tables(outcome) {
        text.push_str(&format!("\n{}", table.to_markdown()));
    }
    text
}
