//! Writes a report with made-up numbers to the file named on the command line, as a sample of the design.
//!
//! `cargo run -p tributary-report --example report -- report.html`

use std::io::Write as _;
use tributary_report::plot::Bar;
use tributary_report::schema::{Audit, Expectation, Interval};
use tributary_report::*;
use tributary_types::Rng;

const SECONDS: usize = 40;
const NAMES: [(&str, Tone); 5] = [
    ("WiFi alone", Tone::RadioA),
    ("WiGig alone", Tone::RadioB),
    ("kernel MPTCP", Tone::Rival),
    ("fbdt-paper", Tone::Cousin),
    ("fbdt", Tone::Hero),
];

/// Share of each second in which WiGig is blocked: 1.5 s open, 1 s blocked.
fn blocked(second: usize) -> f64 {
    let inside = (0..100).filter(|i| (second as f64 + f64::from(*i) / 100.0) % 2.5 >= 1.5).count();
    inside as f64 / 100.0
}

fn made_up(index: usize, rng: &mut Rng) -> Vec<f64> {
    (0..SECONDS)
        .map(|s| {
            let (wifi, wigig) = (44.8, 133.0 * (1.0 - blocked(s)));
            let noise = rng.normal(1.0, 0.02);
            noise
                * match index {
                    0 => wifi,
                    1 => wigig * 0.85,
                    2 if rng.chance(0.2) => rng.uniform() * 12.0,
                    2 => 0.78 * (wifi + wigig),
                    3 => 0.8 * (wifi + wigig),
                    _ => 0.965 * (wifi + wigig),
                }
        })
        .collect()
}

fn time_plot(samples: &[Vec<f64>], layout: Layout, bands: &[Band]) -> TimeSeries {
    let capacity: Vec<f64> = (0..SECONDS).map(|s| 47.0 + 140.0 * (1.0 - blocked(s))).collect();
    let mut plot = TimeSeries::per_second("Goodput, every second", "Mbit/s");
    plot.description = "Goodput of five transports over 40 seconds under on/off blockage.".into();
    plot.capacity = Some(Series::per_second("capacity of both links", Tone::Neutral, &capacity));
    plot.bands = bands.to_vec();
    plot.layout = layout;
    for ((name, tone), values) in NAMES.iter().zip(samples) {
        if layout == Layout::Overlaid && !matches!(tone, Tone::Hero | Tone::Rival | Tone::RadioA) {
            continue;
        }
        let (mean, p10) = (stats::mean(values).unwrap_or(0.0), stats::p10(values).unwrap_or(0.0));
        let note =
            if layout == Layout::Stacked { format!("mean {mean:.0} · p10 {p10:.0}") } else { String::new() };
        plot.series.push(Series::per_second(name, *tone, values).note(&note));
    }
    plot
}

fn table(samples: &[Vec<f64>]) -> Table {
    let mut table = Table::new("").columns([
        Column::left("transport"),
        Column::right("mean").unit("Mbit/s"),
        Column::right("p10").unit("Mbit/s"),
        Column::right("of the sum").unit("%"),
        Column::right("of capacity").unit("%"),
        Column::right("GoPs in time"),
        Column::right("stalls"),
        Column::right("longest silence").unit("ms"),
        Column::right("CPU").unit("s/GB"),
    ]);
    let sum: f64 = samples[..2].iter().filter_map(|s| stats::mean(s)).sum();
    let late = [
        (40, 0, 17.0, 1.1),
        (24, 9, 1033.0, 0.9),
        (31, 6, 488.0, 1.6),
        (35, 3, 210.0, 3.9),
        (40, 0, 31.0, 3.2),
    ];
    for (((name, tone), values), (in_time, stalls, silence, cpu)) in NAMES.iter().zip(samples).zip(late) {
        let mean = stats::mean(values).unwrap_or(f64::NAN);
        let row = [
            TableCell::text(name),
            TableCell::number(mean, 1).strong(),
            TableCell::optional_number(stats::p10(values), 1),
            TableCell::number(mean / sum * 100.0, 0),
            TableCell::number(mean / 131.0 * 100.0, 0),
            TableCell::text(&format!("{in_time}/40")),
            if stalls == 0 {
                TableCell::number(0.0, 0).good()
            } else {
                TableCell::number(f64::from(stalls), 0).bad()
            },
            TableCell::number(silence, 0),
            TableCell::number(cpu, 1),
        ];
        if *tone == Tone::Hero { table.push_highlighted(row) } else { table.push(row) }
    }
    table
}

fn bars() -> Bars {
    let mut bars = Bars::new(
        "Paper and this run, scaled to the paper's rates",
        "Mbit/s",
        &[
            ("WiFi alone", Tone::RadioA),
            ("WiGig alone", Tone::RadioB),
            ("kernel MPTCP", Tone::Rival),
            ("fbdt", Tone::Hero),
        ],
    );
    let spread = |v: f64| Some(Interval { low: v * 0.97, high: v * 1.03 });
    for (name, ours, paper) in [
        ("LoS", [448.0, 1320.0, 1690.0, 1760.0], [470.0, 1400.0, 1550.0, 1920.0]),
        ("nLoS", [448.0, 710.0, 1130.0, 1155.0], [470.0, 750.0, 930.0, 1300.0]),
        ("mobility", [448.0, 800.0, 1060.0, 1255.0], [470.0, 1055.0, 980.0, 1380.0]),
    ] {
        bars.push(name, ours.iter().zip(paper).map(|(v, p)| Bar::new(*v).paper(p).interval(spread(*v))));
    }
    bars
}

fn claims() -> Reproduction {
    let claim = |id, text, measured, expected| Claim::judge(id, text, Some(measured), expected);
    Reproduction {
        name: "Claims".into(),
        claims: vec![
            claim("los", "LoS: share of the sum of the single radios", 0.985, Expectation::AtLeast(0.97))
                .paper(1.03),
            claim("silence", "blackout: longest silence, p99", 47.0, Expectation::AtMost(120.0))
                .unit("ms")
                .interval(Some(Interval { low: 26.0, high: 52.0 })),
            claim("worst", "mobility: worst second over kernel MPTCP's", 4.6, Expectation::AtLeast(5.0)),
        ],
        run: RunInfo {
            command: "tributary-lab demo --scenario blackout --seconds 40".into(),
            version: "0.1.0".into(),
            commit: Some("0123abc".into()),
            started: Some("2030-01-01T12:00:00Z".into()),
            seconds: Some(212.0),
            seeds: vec![1, 2, 3],
            kernel: "6.18.0".into(),
            machine: "2 cores".into(),
            congestion: "cubic on both ends of every transport".into(),
            configuration: [
                ("scenario".into(), "blackout".into()),
                ("round-trip times".into(), "5 ms, 20 ms".into()),
            ]
            .into(),
            audit: Some(Audit {
                valid: true,
                detail: "rate −0.3 %, added delay p99 0.21 ms, no overrun".into(),
            }),
        },
    }
}

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "report.html".to_owned());
    let mut rng = Rng::new(1);
    let samples: Vec<Vec<f64>> = (0..NAMES.len()).map(|i| made_up(i, &mut rng)).collect();
    let bands: Vec<Band> =
        (0..16).map(|i| f64::from(i) * 2.5).map(|t| Band::new(t + 1.5, t + 2.5, "WiGig blocked")).collect();
    // As a share of the links' capacity in that second, so that a blockage does not count against a
    // transport.
    let capacity: Vec<f64> = (0..SECONDS).map(|s| 47.0 + 140.0 * (1.0 - blocked(s))).collect();
    let mut strip = Strip::new("Each second", "% of link capacity", 100.0);
    strip.bands.clone_from(&bands);
    let mut cdf = Cdf::new("Distribution over all seconds", "goodput of a second (Mbit/s)");
    for ((name, tone), values) in NAMES.iter().zip(&samples) {
        let worst = stats::minimum(values).unwrap_or(0.0);
        let shares: Vec<f64> = values.iter().zip(&capacity).map(|(v, c)| v / c * 100.0).collect();
        strip.push(name, &format!("worst second {worst:.0} Mbit/s"), &shares);
        cdf.push(name, *tone, values);
    }
    let mut report = HtmlReport::new("demo · made-up numbers");
    report
        .headline("Two radios, one stream: 1.21 × Linux MPTCP on average, 9 × in the worst second.")
        .lead(
            "A live 360° video over WiFi (47 Mbit/s) and a 60 GHz radio (140 Mbit/s) that somebody walks in front of \
             every two and a half seconds. Every transport ran through the same links, one after the other.",
        )
        .card(KeyFigure::new("Goodput", "126", "Mbit/s").note("kernel MPTCP 103").ahead(true))
        .card(KeyFigure::new("GoPs in time", "40", "of 40").note("kernel MPTCP 31").ahead(true))
        .card(KeyFigure::new("Longest silence", "31", "ms").note("kernel MPTCP 488 ms").ahead(true))
        .card(KeyFigure::new("Worst second", "49", "Mbit/s").note("aim: 5 × kernel MPTCP's").ahead(false))
        .section("What a viewer gets")
        .table(&table(&samples), "p10: the worst tenth of all seconds stays under this.")
        .figure(&strip, "One row per transport, one cell per second. Red: seconds with a low share.")
        .figure(&time_plot(&samples, Layout::Stacked, &bands), "Grey is what both links can carry.")
        .figure(&time_plot(&samples, Layout::Overlaid, &bands), "The product, its rival and the better radio.")
        .figure(&cdf, "Further right is better; a steep line is a steady transport.")
        .section("Beside the paper")
        .figure(&bars(), "Diamonds are the paper's values, whiskers the spread over three seeds.")
        .reproduction(&claims(), "A claim is an inequality: it holds or it does not.");
    let page = report.render();
    std::fs::File::create(&path)?.write_all(page.as_bytes())?;
    std::fs::write(format!("{path}.svg"), strip.standalone())?;
    println!("{}", table(&samples).to_text());
    println!("{path}: {} kB", page.len() / 1000);
    Ok(())
}
