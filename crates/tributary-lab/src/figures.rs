//! Figures that the demo and the reproductions share.

use crate::result::{RAMP_UP, RunResult, capacity_mbps, path_capacity_mbps};
use crate::transport::radio;
use tributary_link::Scenario;
use tributary_report::{Band, Cdf, Layout, Series, Strip, TimeSeries, Tone, stats};

/// The colour of a transport, by its short name; the same in every figure.
#[must_use]
pub fn tone(transport: &str, scenario: &Scenario) -> Tone {
    match (transport, scenario.path(transport).map(|(index, _)| index)) {
        (_, Some(0)) => Tone::RadioA,
        (_, Some(1)) => Tone::RadioB,
        (_, Some(_)) => Tone::RadioC,
        ("mptcp", _) => Tone::Rival,
        ("fbdt", _) => Tone::Hero,
        ("fbdt-paper", _) => Tone::Cousin,
        _ => Tone::Peer,
    }
}

/// Intervals of at least 100 ms in which a path carries less than a third of its highest rate.
#[must_use]
pub fn blockages(scenario: &Scenario, seconds: f64) -> Vec<Band> {
    let steps = (seconds * 10.0).round() as usize;
    let mut bands = Vec::new();
    for (index, path) in scenario.paths.iter().enumerate() {
        let rates: Vec<f64> =
            (0..steps).map(|step| path_capacity_mbps(scenario, index, step as f64 / 10.0, 0.1)).collect();
        let best = stats::maximum(&rates).unwrap_or(0.0);
        let label = format!("{} blocked", radio(&path.name));
        let mut since = None;
        for (step, rate) in rates.iter().chain([&best]).enumerate() {
            let blocked = step < steps && *rate < best / 3.0;
            match (blocked, since) {
                (true, None) => since = Some(step),
                (false, Some(from)) => {
                    bands.push(Band::new(from as f64 / 10.0, step as f64 / 10.0, &label));
                    since = None;
                }
                _ => {}
            }
        }
    }
    bands
}

/// Goodput of every second, drawn over the links' capacity.
#[must_use]
pub fn goodput(results: &[&RunResult], scenario: &Scenario, layout: Layout) -> TimeSeries {
    let seconds = whole_seconds(results);
    let mut plot = TimeSeries::per_second("Goodput, every second", "Mbit/s");
    plot.description = format!("Goodput of {} transports over {seconds} seconds.", results.len());
    let capacity: Vec<f64> = (0..seconds).map(|s| capacity_mbps(scenario, s as f64, 1.0)).collect();
    plot.capacity = Some(Series::per_second("capacity of all links", Tone::Neutral, &capacity));
    plot.bands = blockages(scenario, seconds as f64);
    plot.layout = layout;
    for result in results {
        let Some(goodput) = &result.goodput else { continue };
        let note = format!("mean {:.0} · p10 {:.0}", goodput.mean_mbps, goodput.p10_mbps);
        let note = if layout == Layout::Stacked { note } else { String::new() };
        let tone = tone(&result.transport, scenario);
        let series = Series::per_second(&result.label, tone, &goodput.per_second_mbps);
        plot.series.push(series.note(&note));
    }
    plot
}

/// One row per transport, one cell per second: goodput as a share of what the links could carry.
#[must_use]
pub fn strip(results: &[&RunResult], scenario: &Scenario) -> Strip {
    let mut strip = Strip::new("Each second", "% of link capacity", 100.0);
    strip.description = "Share of link capacity that each transport delivered in every second.".to_owned();
    strip.bands = blockages(scenario, whole_seconds(results) as f64);
    for result in results {
        let Some(goodput) = &result.goodput else { continue };
        let pairs = goodput.per_second_mbps.iter().zip(&goodput.capacity_per_second_mbps);
        let shares: Vec<f64> = pairs.map(|(got, could)| got / could.max(1e-9) * 100.0).collect();
        let note = format!("worst second {:.0} Mbit/s", goodput.worst_second_mbps);
        strip.push(&result.label, &note, &shares);
    }
    strip
}

/// Distribution of the silences of at least 20 ms.
#[must_use]
pub fn silences(results: &[&RunResult], scenario: &Scenario) -> Cdf {
    let mut cdf = Cdf::new("Silences of at least 20 ms", "length (ms)");
    for result in results {
        let lengths: Vec<f64> = result.silences.iter().map(|silence| silence.length_ms).collect();
        if !lengths.is_empty() {
            cdf.push(&result.label, tone(&result.transport, scenario), &lengths);
        }
    }
    cdf
}

fn whole_seconds(results: &[&RunResult]) -> usize {
    let of = |result: &&RunResult| result.goodput.as_ref().map_or(0, |g| g.per_second_mbps.len());
    results.iter().map(of).max().unwrap_or(0).max(RAMP_UP)
}
