//! Tables and the HTML report.

use tributary_report::plot::Bar;
use tributary_report::{Bars, Cdf, Cell, Column, HtmlReport, Interval, Table, Tone, stats};

use super::claims::{packet_ms, series};
use super::messages::{SCENARIOS, TRANSPORTS};
use super::{Form, Messages, Outcome, Run};

const TONES: [Tone; 4] = [Tone::Rival, Tone::Peer, Tone::Cousin, Tone::Hero];

fn with_interval(values: &[f64], decimals: usize) -> String {
    match (stats::mean(values), stats::mean_interval(values)) {
        (Some(mean), Some(Interval { low, high })) => {
            format!("{mean:.decimals$} [{low:.decimals$}, {high:.decimals$}]")
        }
        (Some(mean), None) => format!("{mean:.decimals$}"),
        _ => "–".to_owned(),
    }
}

fn of<'a>(outcome: &'a Outcome, scheduler: &'a str) -> impl Iterator<Item = &'a Run> + Clone {
    outcome.runs.iter().filter(move |run| run.form == Form::Printed && run.scheduler == scheduler)
}

/// Table II, the traffic of each subflow, the other readings of the paper, the prioritised packets' own
/// latency in each, and the messages.
#[must_use]
pub fn tables(outcome: &Outcome) -> [Table; 5] {
    [second(outcome), fifth(outcome), readings(outcome), packets(outcome), messages(outcome)]
}

fn second(outcome: &Outcome) -> Table {
    let mut table = Table::new("Table II: means over the seeds and their 95 % intervals").columns([
        Column::left("Scheduler"),
        Column::right("RTT").unit("ms"),
        Column::right("SD").unit("ms"),
        Column::right("paper RTT").unit("ms"),
        Column::right("paper SD").unit("ms"),
        Column::right("Throughput").unit("Mbit/s"),
        Column::right("Sent again").unit("%"),
        Column::right("Prioritised, mean").unit("ms"),
        Column::right("p99").unit("ms"),
    ]);
    for compared in Form::Printed.compared() {
        let (scheduler, name) = (compared.scheduler, compared.name);
        let values = |number: fn(&Run) -> f64| of(outcome, scheduler).map(number).collect::<Vec<_>>();
        let text = |number: fn(&Run) -> f64, decimals| Cell::text(&with_interval(&values(number), decimals));
        let prioritised: Vec<f64> =
            of(outcome, scheduler).flat_map(|run| &run.measured.prioritised_ms).copied().collect();
        let row = [
            Cell::text(&format!("{name} ({scheduler})")),
            text(|run| run.measured.rtt_ms, 1),
            Cell::optional_number(stats::mean(&values(|run| run.measured.rtt_deviation_ms)), 1),
            Cell::number(compared.rtt_ms, 0),
            Cell::number(compared.deviation_ms, 1),
            text(|run| run.measured.throughput_mbps, 3),
            text(|run| run.measured.retransmitted_percent, 3),
            Cell::optional_number(stats::mean(&prioritised), 0),
            Cell::optional_number(stats::percentile(&prioritised, 99.0), 0),
        ];
        if scheduler == "avira" { table.push_highlighted(row) } else { table.push(row) }
    }
    table
}

fn fifth(outcome: &Outcome) -> Table {
    let columns = core::iter::once(Column::left("Scheduler"))
        .chain((0..8).map(|subflow| Column::right(&subflow.to_string()).unit("MB")));
    let mut table = Table::new("Figure 5: bytes of each subflow, means over the seeds").columns(columns);
    for (scheduler, name) in Form::Printed.compared().map(|c| (c.scheduler, c.name)) {
        let cells = (0..8).map(|subflow| {
            let bytes = of(outcome, scheduler).filter_map(|run| run.measured.subflow_bytes.get(subflow));
            let bytes: Vec<f64> = bytes.map(|bytes| *bytes as f64 / 1e6).collect();
            Cell::optional_number(stats::mean(&bytes), 1)
        });
        table.push(core::iter::once(Cell::text(name)).chain(cells));
    }
    table
}

fn readings(outcome: &Outcome) -> Table {
    let columns = ["Default", "Random", "Lowest", "AVIRA"].map(|name| Column::right(name).unit("ms"));
    let columns = core::iter::once(Column::left("Reading")).chain(columns);
    let columns = columns.chain([Column::right("Throughput: AVIRA over Default")]);
    let mut table = Table::new("Mean RTT in other readings of the paper").columns(columns);
    for form in Form::ALL {
        let names = form.compared().map(|compared| compared.scheduler);
        let rtt = names.map(|name| {
            let values = series(&outcome.runs, form, name, |run| run.measured.rtt_ms);
            Cell::text(&with_interval(&values, 1))
        });
        let throughput = |name| series(&outcome.runs, form, name, |run| run.measured.throughput_mbps);
        let (ours, default) = (throughput(names[3]), throughput(names[0]));
        let gain: Vec<f64> = ours.iter().zip(&default).map(|(ours, default)| ours / default).collect();
        let cells = core::iter::once(Cell::text(form.label())).chain(rtt);
        table.push(cells.chain([Cell::text(&with_interval(&gain, 4))]));
    }
    table
}

fn packets(outcome: &Outcome) -> Table {
    let columns = ["Default", "Random", "Lowest", "AVIRA"].map(|name| Column::right(name).unit("ms"));
    let columns = core::iter::once(Column::left("Reading")).chain(columns);
    let columns = columns.chain([Column::right("AVIRA over Default")]);
    let mut table = Table::new("Mean latency of prioritised packets").columns(columns);
    for form in Form::ALL {
        let names = form.compared().map(|compared| compared.scheduler);
        let latency = names.map(|name| series(&outcome.runs, form, name, packet_ms));
        let ratios: Vec<f64> =
            latency[3].iter().zip(&latency[0]).map(|(ours, theirs)| ours / theirs).collect();
        let cells = core::iter::once(Cell::text(form.label()));
        let cells = cells.chain(latency.map(|values| Cell::text(&with_interval(&values, 1))));
        table.push(cells.chain([Cell::text(&with_interval(&ratios, 3))]));
    }
    table
}

fn messages(outcome: &Outcome) -> Table {
    let mut table = Table::new("Messages beside bulk: means over the seeds").columns([
        Column::left("Network"),
        Column::left("Transport"),
        Column::right("p50").unit("ms"),
        Column::right("p95").unit("ms"),
        Column::right("p99").unit("ms"),
        Column::right("p99, first 2 s").unit("ms"),
        Column::right("p99, after").unit("ms"),
        Column::right("Bulk").unit("Mbit/s"),
        Column::right("Arrived").unit("%"),
    ]);
    for (scenario, transport) in SCENARIOS.iter().flat_map(|s| TRANSPORTS.iter().map(move |t| (*s, *t))) {
        let these = |m: &&Messages| m.scenario == scenario && m.transport == transport;
        let runs: Vec<&Messages> = outcome.messages.iter().filter(these).collect();
        let text = |number: fn(&Messages) -> f64, decimals| {
            let values: Vec<f64> = runs.iter().map(|run| number(run)).collect();
            Cell::text(&with_interval(&values, decimals))
        };
        let row = [
            Cell::text(scenario),
            Cell::text(transport),
            text(|m| m.all.p50_ms, 1),
            text(|m| m.all.p95_ms, 1),
            text(|m| m.all.p99_ms, 1),
            text(|m| m.start.p99_ms, 1),
            text(|m| m.steady.p99_ms, 1),
            text(|m| m.bulk_mbps, 1),
            text(|m| 100.0 * m.arrived as f64 / m.made.max(1) as f64, 2),
        ];
        if transport == "avira+fbdt" { table.push_highlighted(row) } else { table.push(row) }
    }
    table
}

/// All tables as Markdown, with how they were made.
#[must_use]
pub fn markdown(outcome: &Outcome) -> String {
    let run = &outcome.reproduction.run;
    let mut text = format!("`{}`, version {}; {} seeds.", run.command, run.version, run.seeds.len());
    for (name, value) in &run.configuration {
        text.push_str(&format!(" {name}: {value}."));
    }
    text.push_str("\n\n");
    for table in tables(outcome) {
        text.push_str(&format!("{}\n", table.to_markdown()));
    }
    text + &outcome.reproduction.table().to_markdown()
}

/// The report as one HTML file.
#[must_use]
pub fn render(outcome: &Outcome) -> String {
    let claims = &outcome.reproduction.claims;
    let holding = claims.iter().filter(|claim| claim.holds).count();
    let [second, fifth, readings, packets, messages] = tables(outcome);
    let compared = Form::Printed.compared();
    let mut rtt = Cdf::new("Figure 6: mean RTT of every second of every seed", "RTT (ms)");
    let mut prioritised = Cdf::new("Every prioritised packet of every seed", "latency (ms)");
    let series: Vec<(&str, Tone)> =
        compared.iter().zip(TONES).map(|(compared, tone)| (compared.name, tone)).collect();
    let mut traffic = Bars::new("Figure 5: traffic of each subflow", "MB", &series);
    for (compared, tone) in compared.iter().zip(TONES) {
        let (scheduler, name) = (compared.scheduler, compared.name);
        // The first ten seconds fill the queues.
        let seconds: Vec<f64> = of(outcome, scheduler)
            .flat_map(|run| run.measured.rtt_series_ms.iter().skip(10))
            .copied()
            .collect();
        let packets: Vec<f64> =
            of(outcome, scheduler).flat_map(|run| &run.measured.prioritised_ms).copied().collect();
        rtt.push(name, tone, &seconds);
        prioritised.push(name, tone, &packets);
    }
    for subflow in 0..8 {
        let bars = compared.iter().map(|compared| {
            let bytes =
                of(outcome, compared.scheduler).filter_map(|run| run.measured.subflow_bytes.get(subflow));
            let bytes: Vec<f64> = bytes.map(|bytes| *bytes as f64 / 1e6).collect();
            Bar::new(stats::mean(&bytes).unwrap_or(f64::NAN)).interval(stats::mean_interval(&bytes))
        });
        traffic.push(&subflow.to_string(), bars);
    }
    let mut report = HtmlReport::new("reproduction · avira");
    report
        .headline(&format!("AVIRA's experiment: {holding} of {} claims hold.", claims.len()))
        .lead("Eight subflows on two pathways of 1 Mbit/s, one packet in 500 prioritised, in virtual time; and a thousand messages a second beside bulk while the radios change.")
        .section("Table II")
        .table(&second, "Paper: its table II. Prioritised: from being handed to a subflow to its acknowledgement.")
        .section("Claims")
        .reproduction(&outcome.reproduction, "A claim is an inequality: it holds or it does not.")
        .section("Figures 5 and 6")
        .figure(&traffic, "Whiskers are 95 % intervals over the seeds.")
        .table(&fifth, "The same as numbers.")
        .figure(&rtt, "Share of seconds at or below a mean RTT.")
        .figure(&prioritised, "The paper does not report these.")
        .section("Other readings")
        .table(&readings, "What the paper leaves open, decided otherwise.")
        .table(&packets, "From being handed to a subflow to its acknowledgement: what AVIRA does for the packets it is for.")
        .section("Messages")
        .table(&messages, "From making a message to its arrival in order.");
    report.render()
}
