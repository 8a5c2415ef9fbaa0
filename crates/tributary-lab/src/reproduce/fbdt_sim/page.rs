//! The simulated reproduction's HTML report, with distributions over all seeds.

use super::{Condition, Outcome, Row, paper, tables};
use crate::reproduce::fbdt::Experiment;
use crate::sweep::Group;
use tributary_report::plot::Bar;
use tributary_report::{Bars, Cdf, HtmlReport, Tone};

const SERIES: [(&str, &str, Tone); 6] = [
    ("wifi", "WiFi alone", Tone::RadioA),
    ("wigig", "WiGig alone", Tone::RadioB),
    ("mptcp", "MPTCP", Tone::Rival),
    ("musher", "MuSher", Tone::Peer),
    ("fbdt-paper", "fbdt-paper", Tone::Cousin),
    ("fbdt", "fbdt", Tone::Hero),
];

/// Conditions whose distributions are shown.
const SHOWN: [&str; 6] = ["los", "nlos", "mobility", "onoff", "blackout", "dead-wigig"];

/// The report as one HTML file.
#[must_use]
pub fn render(outcome: &Outcome) -> String {
    let claims = &outcome.reproduction.claims;
    let holding = claims.iter().filter(|claim| claim.holds).count();
    let mut report = HtmlReport::new("reproduction · fbdt, simulated");
    report
        .headline(&format!("FBDT's experiments at the paper's rates: {holding} of {} claims hold.", claims.len()))
        .lead(
            "WiFi at 470 Mbit/s and a 60 GHz radio at 1.4 Gbit/s under line of sight, blockage, mobility, loss and \
             delay, in virtual time: the product's own session and schedulers over modelled TCP, every scheduler on \
             the same seeds.",
        )
        .section("Paper, this run")
        .table(&tables::goodput(outcome), "Means over the seeds. Paper: its figures, where it states them.");
    for (experiment, title) in
        [(Experiment::First, "First experiment"), (Experiment::Second, "Second experiment")]
    {
        if outcome.planned.iter().any(|(condition, _)| condition.experiment == experiment) {
            let caption = "Diamonds are the paper's values; whiskers are 95 % intervals over the seeds.";
            report.figure(&bars(outcome, experiment, title), caption);
        }
    }
    report
        .section("Claims")
        .reproduction(&outcome.reproduction, "A claim is an inequality: it holds or it does not.");
    for (condition, congestion) in &outcome.planned {
        if SHOWN.contains(&condition.scenario) {
            distributions(&mut report, outcome, (condition, congestion));
        }
    }
    report.section("Beside the average").table(
        &tables::detail(outcome),
        "p10: of all seconds of all seeds. Silences: medians over the seeds.",
    );
    report.render()
}

fn rows<'a>(outcome: &'a Outcome, scenario: &str, transport: &str, congestion: &str) -> Vec<&'a Row> {
    let same =
        |row: &&Row| row.scenario == scenario && row.transport == transport && row.congestion == congestion;
    outcome.rows.iter().filter(same).filter(|row| row.failure.is_none()).collect()
}

fn bars(outcome: &Outcome, experiment: Experiment, title: &str) -> Bars {
    let series: Vec<(&str, Tone)> = SERIES.iter().map(|(_, label, tone)| (*label, *tone)).collect();
    let mut bars = Bars::new(title, "Mbit/s", &series);
    for (condition, congestion) in outcome.planned.iter().filter(|(c, _)| c.experiment == experiment) {
        let bar = |name: &str| {
            let group = Group { rows: rows(outcome, condition.scenario, name, congestion) };
            let spread =
                (!group.rows.is_empty()).then(|| group.spread(|row| row.measured.goodput_mbps)).flatten();
            let bar = Bar::new(spread.map_or(f64::NAN, |spread| spread.mean));
            let bar = bar.interval(spread.and_then(|spread| spread.interval));
            match paper(condition, name).filter(|_| name != "fbdt-paper") {
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

/// Every second and every silence of all seeds of one condition.
fn distributions(report: &mut HtmlReport, outcome: &Outcome, (condition, congestion): (&Condition, &str)) {
    let mut seconds = Cdf::new("Every second of every seed", "goodput (Mbit/s)");
    let mut silences = Cdf::new("Silences of at least 20 ms", "length (ms)");
    for (name, label, tone) in SERIES {
        let rows = rows(outcome, condition.scenario, name, congestion);
        let every: Vec<f64> = rows.iter().flat_map(|row| row.measured_seconds()).copied().collect();
        let silent: Vec<f64> = rows.iter().flat_map(|row| &row.measured.silences_ms).copied().collect();
        if !every.is_empty() {
            seconds.push(label, tone, &every);
        }
        if !silent.is_empty() {
            silences.push(label, tone, &silent);
        }
    }
    report
        .section(&format!("{}, {congestion}", condition.label))
        .figure(
            &seconds,
            "Share of seconds at or below a goodput, over all seeds; the first second of each run left out.",
        )
        .figure(&silences, "How long nothing arrived in order, over all seeds.");
}
