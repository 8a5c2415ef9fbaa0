//! The reproduction's HTML report.

use super::{Experiment, Outcome, tables};
use crate::contestant::Contestant;
use crate::figures;
use crate::result::RunResult;
use tributary_link::Scenario;
use tributary_report::plot::Bar;
use tributary_report::{Bars, HtmlReport, Layout, Tone};

const SERIES: [(&str, &str, Tone); 5] = [
    ("wifi", "WiFi alone", Tone::RadioA),
    ("wigig", "WiGig alone", Tone::RadioB),
    ("mptcp", "kernel MPTCP", Tone::Rival),
    ("fbdt-paper", "fbdt-paper", Tone::Cousin),
    ("fbdt", "fbdt", Tone::Hero),
];

/// The report as one HTML file.
#[must_use]
pub fn render(outcome: &Outcome) -> String {
    let claims = &outcome.reproduction.claims;
    let holding = claims.iter().filter(|claim| claim.holds).count();
    let mut report = HtmlReport::new("reproduction · fbdt");
    report
        .headline(&format!("FBDT's experiments at a tenth of the paper's rates: {holding} of {} claims hold.", claims.len()))
        .lead(
            "WiFi and a 60 GHz radio under line of sight, blockage, mobility, loss and delay; real TCP stacks between \
             two network namespaces, joined by emulated links.",
        )
        .section("Paper, this run")
        .table(&tables::goodput(outcome), "Medians over the seeds. Paper: its figures divided by ten, where it states them.");
    for (experiment, title) in
        [(Experiment::First, "First experiment"), (Experiment::Second, "Second experiment")]
    {
        report.figure(&bars(outcome, experiment, title), "Diamonds are the paper's values divided by ten.");
    }
    report
        .section("Claims")
        .reproduction(&outcome.reproduction, "A claim is an inequality: it holds or it does not.")
        .section("Beside the average")
        .table(&tables::detail(outcome), "Medians over the seeds.");
    for (scenario, congestion) in [("mobility", "cubic"), ("blackout", "cubic"), ("dead-wigig", "cubic")] {
        seconds(&mut report, outcome, (scenario, congestion));
    }
    report.render()
}

fn bars(outcome: &Outcome, experiment: Experiment, title: &str) -> Bars {
    let series: Vec<(&str, Tone)> = SERIES.iter().map(|(_, label, tone)| (*label, *tone)).collect();
    let mut bars = Bars::new(title, "Mbit/s", &series);
    for (condition, congestion) in outcome.planned.iter().filter(|(c, _)| c.experiment == experiment) {
        let bar = |name: &str| {
            let key = (condition.scenario, name, congestion.as_str());
            let bar = Bar::new(outcome.runs.goodput(key).unwrap_or(f64::NAN));
            let bar = bar.interval(outcome.runs.interval(key, 1.0));
            match condition.paper(name).filter(|_| name != "fbdt-paper") {
                Some(paper) => bar.paper(paper),
                None => bar,
            }
        };
        let label = match congestion.as_str() {
            "cubic" => condition.scenario.to_owned(),
            other => format!("{} {other}", condition.scenario),
        };
        bars.push(&label, SERIES.iter().map(|(name, _, _)| bar(name)));
    }
    bars
}

/// Every second of the first seed of one condition.
fn seconds(report: &mut HtmlReport, outcome: &Outcome, (scenario, congestion): (&str, &str)) {
    let runs: Vec<&RunResult> = SERIES
        .iter()
        .filter_map(|(name, _, _)| outcome.runs.of((scenario, *name, congestion)).first().copied())
        .collect();
    let (Some(_), Ok(network)) = (runs.first(), Scenario::builtin(scenario)) else { return };
    let hero = |run: &&&RunResult| run.contestant == Contestant::Mptcp || run.transport == "fbdt";
    let few: Vec<&RunResult> = runs.iter().filter(hero).copied().collect();
    report
        .section(&format!("Every second: {scenario}, {congestion}"))
        .figure(
            &figures::strip(&runs, &network),
            "One row a transport, one cell a second, as a share of link capacity.",
        )
        .figure(&figures::goodput(&few, &network, Layout::Overlaid), "Grey is what both links could carry.")
        .figure(&figures::silences(&runs, &network), "How long nothing arrived in order.");
}
