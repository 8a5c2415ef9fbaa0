//! The HTML report.

use tributary_report::plot::Bar;
use tributary_report::{Bars, Cdf, HtmlReport, Plot, Tone};
use tributary_video::metrics::{MOST_DB, psnr_db};
use tributary_video::rd::Concealment;

use super::Outcome;
use super::curve::ALLOCATORS;
use super::figures::{Figures, Pair, Quality, Where};
use super::matrix::CHAIN;
use super::scene::SCENES;
use super::tables::{STEPS, tables};
use crate::tiled::psnr_cap;

/// The report as one HTML file.
#[must_use]
pub fn render(outcome: &Outcome) -> String {
    let claims = &outcome.reproduction.claims;
    let holding = claims.iter().filter(|claim| claim.met).count();
    let mut report = HtmlReport::new("reproduction · ows");
    report
        .headline(&format!("OWS in the simulator: {holding} of {} claims hold.", claims.len()))
        .lead("Tiled 360° video, live over two radios: what viewers would see, by allocator and transport. Errors of tiles are measured ones unless a clip is marked as drawn; late tiles show the last picture, in one table black.")
        .section("Claims")
        .reproduction(&outcome.reproduction, "A claim is an inequality: it holds or it does not. Intervals: 95 %, bootstrapped over viewings. Paper: its mean gain.")
        .section("Where the gain comes from");
    for (quality, name) in
        [(Quality::Mean, "mean of dB"), (Quality::Pooled, "pooled"), (Quality::Worst, "worst 5 %")]
    {
        report.figure(&steps(outcome, quality, name), "Each bar is what one step adds; steps may cost.");
    }
    report.section("What was seen");
    for (scene, label) in SCENES {
        report
            .figure(&seen(outcome, scene, label), "Share of GoPs at or below a quality, all clips together.");
    }
    if !outcome.pictures.is_empty() {
        report
            .section("A moment of it")
            .text("The worst GoP of FIX on MPTCP in the first viewing, as each chain showed it, decoded from the tiles that arrived.")
            .images(&outcome.pictures);
    }
    if let Some(reason) = &outcome.no_pictures {
        report.text(&format!("No pictures: {reason}."));
    }
    report
        .section("Quality against rate")
        .figure(&curve(outcome), "The least rate for a quality, when capacity is certain.");
    report.section("Motion to high quality").figure(
        &to_quality(outcome),
        "Until a tile that newly came into view has at most twice the error of those in view before, or leaves it again.",
    );
    report.section("Tables");
    for table in tables(outcome) {
        report.table(
            &table,
            &format!("Late and left out: share of the real viewport's solid angle. {}.", psnr_cap()),
        );
    }
    report.render()
}

/// The figures that stand alone, as SVG, by name.
#[must_use]
pub fn drawings(outcome: &Outcome) -> Vec<(&'static str, String)> {
    vec![
        ("ows-gain", gains(outcome).standalone()),
        ("ows-rate", curve(outcome).standalone()),
        ("ows-to-quality", to_quality(outcome).standalone()),
    ]
}

/// The chains that every viewing is run with.
const SHOWN: [(Pair, &str, Tone); 4] = [
    (CHAIN[0], "FIX on MPTCP", Tone::Rival),
    (CHAIN[4], "ows, every tile, on FBDT", Tone::Cousin),
    (CHAIN[5], "ows on FBDT", Tone::Peer),
    (CHAIN[6], "ows-updated on FBDT", Tone::Hero),
];

fn gains(outcome: &Outcome) -> Bars {
    let figures = Figures::new(&outcome.viewings);
    let clips: Vec<usize> = (0..outcome.clips.len()).collect();
    let series = [("mean of dB", Tone::Hero), ("pooled", Tone::Cousin), ("worst 5 %", Tone::Peer)];
    let mut bars = Bars::new("Gain of ows-updated on FBDT over FIX on MPTCP", "dB", &series);
    for (scene, label) in SCENES {
        let at = Where { clips: &clips, scene, concealment: Concealment::Freeze };
        bars.push(
            label,
            [Quality::Mean, Quality::Pooled, Quality::Worst].map(|quality| {
                let gain = figures.gain(quality, &at, CHAIN[6], CHAIN[0]);
                gain.map_or_else(Bar::default, |(gain, interval)| Bar::new(gain).interval(interval))
            }),
        );
    }
    bars
}

/// Motion to high quality, by chain and scene.
fn to_quality(outcome: &Outcome) -> Bars {
    let figures = Figures::new(&outcome.viewings);
    let clips: Vec<usize> = (0..outcome.clips.len()).collect();
    let mut bars = Bars::new(
        "Time until what comes into view is as good as the rest",
        "s",
        &SHOWN.map(|(_, name, tone)| (name, tone)),
    );
    for (scene, label) in SCENES {
        let at = Where { clips: &clips, scene, concealment: Concealment::Freeze };
        bars.push(
            label,
            SHOWN.map(|(pair, ..)| {
                let time = figures.mean(&at, pair, |viewed| viewed.to_quality_s.unwrap_or(0.0));
                time.map_or_else(Bar::default, |(time, interval)| Bar::new(time).interval(interval))
            }),
        );
    }
    bars
}

fn steps(outcome: &Outcome, quality: Quality, name: &str) -> Bars {
    let figures = Figures::new(&outcome.viewings);
    let clips: Vec<usize> = (0..outcome.clips.len()).collect();
    let tones = [Tone::Peer, Tone::Cousin, Tone::Neutral, Tone::Rival, Tone::RadioA, Tone::Hero];
    let series: Vec<(&str, Tone)> = STEPS.into_iter().zip(tones).collect();
    let mut bars = Bars::new(&format!("Gain of each step: {name}"), "dB", &series);
    for (scene, label) in SCENES {
        let at = Where { clips: &clips, scene, concealment: Concealment::Freeze };
        bars.push(
            label,
            CHAIN.windows(2).map(|pair| match figures.gain(quality, &at, pair[1], pair[0]) {
                Some((gain, interval)) => Bar::new(gain).interval(interval),
                None => Bar::default(),
            }),
        );
    }
    bars
}

fn seen(outcome: &Outcome, scene: &str, label: &str) -> Cdf {
    let mut cdf = Cdf::new(&format!("{label}: every GoP of every viewing"), "viewport PSNR (dB)");
    let shown = [
        (CHAIN[0], "FIX on MPTCP", Tone::Rival),
        (CHAIN[1], "FIX on FBDT", Tone::Peer),
        (CHAIN[4], "ows, every tile, on FBDT", Tone::Cousin),
        (CHAIN[5], "ows on FBDT", Tone::Neutral),
        (CHAIN[6], "ows-updated on FBDT", Tone::Hero),
    ];
    for ((transport, allocator), name, tone) in shown {
        let of = outcome.viewings.iter().filter(|viewed| {
            (viewed.scene, viewed.transport, viewed.allocator) == (scene, transport, allocator)
                && viewed.concealment == Concealment::Freeze
        });
        let all: Vec<f64> =
            of.flat_map(|v| &v.errors).map(|error| psnr_db(f64::from(*error)).min(MOST_DB)).collect();
        if !all.is_empty() {
            cdf.push(name, tone, &all);
        }
    }
    cdf
}

fn curve(outcome: &Outcome) -> Bars {
    let tones = [Tone::Peer, Tone::Hero, Tone::Rival];
    let series: Vec<(&str, Tone)> = ALLOCATORS.into_iter().zip(tones).collect();
    let mut bars = Bars::new("Viewport PSNR by rate in Mbit/s", "dB", &series);
    let mut rates: Vec<f64> = outcome.curve.iter().map(|point| point.mbps).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    for rate in rates {
        let bar = |name| {
            let point = outcome.curve.iter().find(|point| point.mbps == rate && point.allocator == name);
            point.map_or_else(Bar::default, |point| Bar::new(point.mean_db))
        };
        bars.push(&format!("{rate:.0}"), ALLOCATORS.map(bar));
    }
    bars
}
