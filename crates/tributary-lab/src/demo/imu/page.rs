//! The report about head movement and sound beside live video. All numbers in its sentences are measured.

use tributary_report::plot::Bar;
use tributary_report::{Bars, Cdf, HtmlReport, KeyFigure, RunInfo, Table, Tone};

use crate::messages::MessageRecord;

/// The product's default with priorities, which is compared with the others.
const OURS: &str = "avira+fbdt";
const RIVAL: &str = "mptcp";
const TONES: [Tone; 5] = [Tone::Rival, Tone::Peer, Tone::RadioA, Tone::Cousin, Tone::Hero];

/// Results of one transport.
pub(super) struct Row<'a> {
    /// Its name.
    pub transport: &'a str,
    /// Its name for readers.
    pub label: String,
    /// Messages by kind.
    pub flows: &'a [MessageRecord],
    /// Bitrate of the video as played.
    pub played_mbps: f64,
    /// Number of stalls.
    pub stalls: u32,
}

impl Row<'_> {
    fn flow(&self, name: &str) -> Option<&MessageRecord> {
        self.flows.iter().find(|flow| flow.name == name && flow.arrived > 0)
    }
}

pub(super) fn table(rows: &[Row<'_>]) -> Table {
    let flows = rows.iter().flat_map(|row| row.flows.iter().map(move |flow| (row, flow)));
    let latency = |of: fn(&MessageRecord) -> f64| {
        move |(_, flow): (&Row<'_>, &MessageRecord)| (flow.arrived > 0).then(|| of(flow))
    };
    Table::of("Movement and sound beside live video", flows)
        .text("Transport", |(row, _)| &row.label)
        .text("Flow", |(_, flow)| &flow.name)
        .number(("p50", "ms"), 1, latency(|flow| flow.p50_ms))
        .number(("p95", "ms"), 1, latency(|flow| flow.p95_ms))
        .number(("p99", "ms"), 1, latency(|flow| flow.p99_ms))
        .number(("longest", "ms"), 1, latency(|flow| flow.longest_ms))
        .number(("Arrived", "%"), 1, |(_, flow)| flow.arrived_percent())
        .number(("Video", "Mbit/s"), 1, |(row, _)| row.played_mbps)
        .number("Stalls", 0, |(row, _)| f64::from(row.stalls))
        .highlighted(|(row, _)| row.transport == OURS)
        .table()
}

/// Latencies of head movement with the product and with kernel MPTCP.
fn rivals<'a>(rows: &'a [Row<'_>]) -> Option<[(&'a Row<'a>, &'a MessageRecord); 2]> {
    let find = |name| {
        let row = rows.iter().find(|row| row.transport == name)?;
        Some((row, row.flow("imu")?))
    };
    Some([find(OURS)?, find(RIVAL)?])
}

fn headline(rows: &[Row<'_>]) -> String {
    let Some([(_, ours), (_, theirs)]) = rivals(rows) else {
        return "Movements did not arrive over every transport.".to_owned();
    };
    format!(
        "Of a hundred movements, 99 arrive within {:.0} ms over {OURS} and within {:.0} ms over kernel MPTCP.",
        ours.p99_ms, theirs.p99_ms
    )
}

fn cards(rows: &[Row<'_>]) -> Vec<KeyFigure> {
    let Some([(ours, movement), (rival, theirs)]) = rivals(rows) else { return Vec::new() };
    let card = |label: &str, unit: &str, (mine, other): (f64, f64), higher: bool| {
        let better = if higher { mine >= other } else { mine <= other };
        KeyFigure::new(label, &format!("{mine:.0}"), unit)
            .note(&format!("kernel MPTCP {other:.0}"))
            .ahead(better)
    };
    let mut cards = vec![
        card("Movement, median", "ms", (movement.p50_ms, theirs.p50_ms), false),
        card("Movement, p99", "ms", (movement.p99_ms, theirs.p99_ms), false),
        card("Movement, longest", "ms", (movement.longest_ms, theirs.longest_ms), false),
    ];
    if let (Some(sound), Some(others)) = (ours.flow("audio"), rival.flow("audio")) {
        cards.push(card("Sound, p99", "ms", (sound.p99_ms, others.p99_ms), false));
    }
    cards.push(card("Video played", "Mbit/s", (ours.played_mbps, rival.played_mbps), true));
    cards.push(card("Stalls", "", (f64::from(ours.stalls), f64::from(rival.stalls)), false));
    cards
}

fn distribution(rows: &[Row<'_>], flow: &str, title: &str) -> Cdf {
    let mut cdf = Cdf::new(title, "latency (ms)");
    for (row, tone) in rows.iter().zip(TONES) {
        if let Some(flow) = row.flow(flow) {
            cdf.push(&row.label, tone, &flow.percentiles_ms);
        }
    }
    cdf
}

fn bars(rows: &[Row<'_>]) -> Bars {
    let series: Vec<(&str, Tone)> = rows.iter().map(|row| row.label.as_str()).zip(TONES).collect();
    let mut bars = Bars::new("Movement: latency by transport", "ms", &series);
    let mut push = |name: &str, of: fn(&MessageRecord) -> f64| {
        let values = rows.iter().map(|row| row.flow("imu").map_or_else(Bar::default, |f| Bar::new(of(f))));
        bars.push(name, values);
    };
    push("median", |flow| flow.p50_ms);
    push("p95", |flow| flow.p95_ms);
    push("p99", |flow| flow.p99_ms);
    bars
}

pub(super) fn render(rows: &[Row<'_>], run: &RunInfo) -> String {
    let mut report = HtmlReport::new("demo · head movement and sound");
    report.headline(&headline(rows)).lead(
        "Live 360° video, a thousand samples of head movement a second and sound, one transport after the \
         other through the same emulated radios. Measured is the network's share of motion to photon; \
         sensors, rendering and the display come on top.",
    );
    for card in cards(rows) {
        report.card(card);
    }
    report
        .section("Latency of head movement")
        .figure(&bars(rows), "From the time a message is made to its arrival in order. Messages that had not arrived at the end count with their age. Schedulers without avira+ send movement and sound as bulk.")
        .figure(&distribution(rows, "imu", "Movement: share that has arrived"), "Further left is better.")
        .figure(&distribution(rows, "audio", "Sound: share that has arrived"), "Frames of 20 ms; further left is better.")
        .section("All numbers")
        .table(&table(rows), "Over kernel MPTCP each flow has its own connection; in a session each has its own stream. The columns video and stalls belong to the transport and are the same for both flows.");
    report.made(run);
    report.render()
}

#[cfg(test)]
mod tests;
