//! One run in a few lines of text.

use crate::result::{Goodput, RunResult, seconds_of};
use crate::workload::Record;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tributary_report::stats;
use tributary_stream::{End, Silence};

/// The results of the run, one per line.
#[must_use]
pub fn of(result: &RunResult) -> String {
    let mut out = format!(
        "{} · {} · {} · {} · RTT {} ms · queue {} · seed {}\n",
        result.label,
        result.scenario,
        result.workload,
        result.congestion,
        result.rtt_ms,
        result.queue,
        result.seed,
    );
    let mut line = |name: &str, value: String| _ = writeln!(out, "  {name:<18} {value}");
    of_delivery(
        (result.goodput.as_ref(), &result.links),
        (result.longest_silence_ms, &result.silences),
        &mut line,
    );
    of_record(&result.record, &mut line);
    line(
        "CPU",
        format!(
            "client {:.2} s, server {:.2} s, {:.1} s/GB",
            result.cpu.client_seconds, result.cpu.server_seconds, result.cpu.seconds_per_gb
        ),
    );
    if let (Some(share), Some(both)) = (result.duplicates_percent, result.session) {
        line("sent again", format!("{share:.2} %, received twice {} kB", both.client.duplicates / 1000));
        line("path silences", format!("client {}, server {}", both.client.silences, both.server.silences));
    }
    line("paths", format!("{}{}", result.paths_up, if result.fallback { ", FELL BACK to TCP" } else { "" }));
    line("ended", ending(&result.record));
    let audit = &result.audit;
    let verdict =
        if audit.valid { "valid".to_owned() } else { format!("INVALID: {}", audit.reasons.join("; ")) };
    line(
        "emulator",
        format!("{verdict} (attempt {}, delay error p99 {:.0} µs)", audit.attempts, audit.delay_error_p99_us),
    );
    out
}

/// How the workload ended.
fn ending(record: &Record) -> String {
    match (record.end(), record) {
        (End::Complete, _) => "as planned".to_owned(),
        (End::TimedOut, Record::Object(object)) => {
            let asked = object.completion_ms.len() as u32 + object.unfinished;
            format!("when the time was over, with {} of {asked} objects", object.completion_ms.len())
        }
        (End::TimedOut, _) => "when the time was over, with data still missing".to_owned(),
        (End::Failed(reason), _) => format!("early: {reason}"),
    }
}

/// The lines that simulator and emulator share: goodput, rate of each path, and silences.
pub(crate) fn of_delivery(
    (goodput, links): (Option<&Goodput>, &BTreeMap<String, Vec<f64>>),
    (longest_silence_ms, silences): (Option<f64>, &[Silence]),
    line: &mut dyn FnMut(&str, String),
) {
    if let Some(goodput) = goodput {
        line("goodput", format!("{:.1} Mbit/s without the first second", goodput.mean_mbps));
        line("of link capacity", format!("{:.1} %", goodput.share_of_capacity * 100.0));
        line("p10 of seconds", format!("{:.1} Mbit/s", goodput.p10_mbps));
        line("worst second", format!("{:.1} Mbit/s", goodput.worst_second_mbps));
        line("every second", numbers(&goodput.per_second_mbps));
        line("links could", numbers(&goodput.capacity_per_second_mbps));
    }
    for (path, tenths) in links {
        line(&format!("{path} carried"), numbers(&seconds_of(tenths)));
    }
    if let Some(silence) = longest_silence_ms {
        line("longest silence", format!("{silence:.0} ms; {} of 20 ms or more", silences.len()));
    }
}

/// The lines of one kind of workload.
fn of_record(record: &Record, line: &mut dyn FnMut(&str, String)) {
    match record {
        Record::Live(live) => {
            let (in_time, all) = (live.in_time, live.gops.len());
            line(
                "GoPs in time",
                format!("{in_time} of {all}, {} stalls, {:.0} ms frozen", live.stalls, live.frozen_ms),
            );
            line("played", format!("{:.1} Mbit/s", live.played_mbps));
        }
        Record::Object(object) => {
            let at = |p| stats::percentile(&object.completion_ms, p).unwrap_or(f64::NAN);
            let (median, p99, worst) = (at(50.0), at(99.0), at(100.0));
            line("object", format!("median {median:.1} ms, p99 {p99:.1} ms, worst {worst:.1} ms"));
            line("finished", format!("{}, {} not", object.completion_ms.len(), object.unfinished));
        }
        Record::Bulk(_) => {}
    }
}

fn numbers(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.0}")).collect::<Vec<_>>().join(" ")
}
