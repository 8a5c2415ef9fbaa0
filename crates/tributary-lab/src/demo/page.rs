//! The demo's HTML report. All numbers in its sentences are measured.

use super::{Outcome, Transport};
use crate::figures;
use crate::result::RunResult;
use tributary_report::plot::Bar;
use tributary_report::{Bars, HtmlReport, KeyFigure, Layout, Media, Series, TimeSeries};

pub(super) fn render(outcome: &Outcome, stills: &[Media]) -> String {
    let scenario = &outcome.scenario;
    let bulk: Vec<&RunResult> = outcome.transports.iter().map(|t| &t.bulk).collect();
    let mut report = HtmlReport::new(&format!("demo · {}", scenario.name));
    report.headline(&outcome.headline).lead(&lead(outcome));
    for card in cards(outcome) {
        report.card(card);
    }
    report
        .section("Results of the transports")
        .table(&outcome.table(), "The goodput figures leave out the first second; p10: a tenth of the seconds are below this. GoPs, stalls and the bitrate played are those of the live video; all other columns are those of the bulk transfer.")
        .figure(&figures::strip(&bulk, scenario), "One row per transport, one cell per second: goodput as a share of what the links could carry in that second, so that a blockage does not count against a transport.")
        .figure(&figures::goodput(&bulk, scenario, Layout::Stacked), "Grey: capacity of all links together.")
        .figure(&overlay(outcome), "The product, kernel MPTCP and the first radio alone in one figure.")
        .figure(&bars(outcome), "Mean goodput of the bulk transfer, without its first second.")
        .figure(&figures::silences(&bulk, scenario), "Silences: times without bytes arriving in order. Further left is better. A transport without a silence of 20 ms has no line.")
        .section("Bitrate that the viewer got")
        .figure(&quality(outcome), "Bitrate of each second of video; zero if the second was not complete in time.");
    if !stills.is_empty() {
        let second = outcome.worst_gop();
        report
            .text(&format!("Second {second} of the live video, the worst one over kernel MPTCP:"))
            .images(stills);
    }
    report.made(&outcome.run);
    report.render()
}

fn lead(outcome: &Outcome) -> String {
    format!(
        "{}. Every transport ran through the same emulated trace, one after the other, with the same congestion control: \
         first a bulk transfer, then a live 360° video whose bitrate follows what arrives.",
        outcome.scenario.description
    )
}

/// The product's numbers beside those of kernel MPTCP.
fn cards(outcome: &Outcome) -> Vec<KeyFigure> {
    let Some((ours, theirs)) = outcome.rivals() else { return Vec::new() };
    let card = |label: &str, unit: &str, values: (f64, f64), higher: bool| {
        let (mine, other) = values;
        let better = if higher { mine >= other } else { mine <= other };
        KeyFigure::new(label, &format!("{mine:.0}"), unit)
            .note(&format!("kernel MPTCP {other:.0}"))
            .ahead(better)
    };
    let p10 = |t: &Transport| t.bulk.goodput.as_ref().map_or(f64::NAN, |g| g.p10_mbps);
    let in_time = |t: &Transport| f64::from(t.record().in_time);
    let of = format!("of {}", ours.record().gops.len());
    vec![
        card("Goodput", "Mbit/s", (ours.bulk.mean(), theirs.bulk.mean()), true),
        card("Worst second", "Mbit/s", (ours.worst(), theirs.worst()), true),
        card("10th percentile", "Mbit/s", (p10(ours), p10(theirs)), true),
        card("Longest silence", "ms", (ours.silence(), theirs.silence()), false),
        card("GoPs in time", &of, (in_time(ours), in_time(theirs)), true),
        card("Bitrate played", "Mbit/s", (ours.record().played_mbps, theirs.record().played_mbps), true),
    ]
}

/// The three curves that are compared in one figure.
pub(super) fn overlay(outcome: &Outcome) -> TimeSeries {
    let radio = outcome.scenario.paths.first().map_or("", |path| path.name.as_str());
    let few = [radio, "mptcp", "fbdt"].into_iter().filter_map(|name| outcome.transport(name));
    let few: Vec<&RunResult> = few.map(|transport| &transport.bulk).collect();
    figures::goodput(&few, &outcome.scenario, Layout::Overlaid)
}

fn bars(outcome: &Outcome) -> Bars {
    let tones: Vec<_> = outcome
        .transports
        .iter()
        .map(|t| (t.label.as_str(), figures::tone(&t.bulk.transport, &outcome.scenario)))
        .collect();
    let mut bars = Bars::new("Mean goodput", "Mbit/s", &tones);
    bars.push(&outcome.scenario.name, outcome.transports.iter().map(|t| Bar::new(t.bulk.mean())));
    bars
}

fn quality(outcome: &Outcome) -> TimeSeries {
    let mut plot = TimeSeries::per_second("Bitrate played, every second", "Mbit/s");
    plot.layout = Layout::Stacked;
    for transport in &outcome.transports {
        let live = transport.record();
        let note =
            format!("{} of {} in time · {:.0} Mbit/s", live.in_time, live.gops.len(), live.played_mbps);
        let tone = figures::tone(&transport.bulk.transport, &outcome.scenario);
        let series = Series::per_second(&transport.label, tone, &Outcome::quality(transport));
        plot.series.push(series.note(&note));
    }
    plot
}

impl Outcome {
    /// The figure of the goodput in each second, as a separate SVG file.
    #[must_use]
    pub fn figure(&self) -> String {
        let bulk: Vec<&RunResult> = self.transports.iter().map(|t| &t.bulk).collect();
        tributary_report::Plot::standalone(&figures::goodput(&bulk, &self.scenario, Layout::Stacked))
    }
}
