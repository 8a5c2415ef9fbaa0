//! A simulated run as a few lines of text, with the same lines as an emulated one where they mean the same.

use super::SimResult;
use crate::summary;
use std::fmt::Write as _;

/// The results of the run, one per line.
#[must_use]
pub fn summary(result: &SimResult) -> String {
    let mut out = format!(
        "{} · {} · {} · {} · RTT {} ms · queue {} · seed {} · simulated\n",
        result.transport,
        result.scenario,
        result.workload,
        result.congestion,
        result.rtt_ms,
        result.queue,
        result.seed,
    );
    let mut line = |name: &str, value: String| _ = writeln!(out, "  {name:<18} {value}");
    summary::of_delivery(
        (result.goodput.as_ref(), &result.links),
        (result.longest_silence_ms, &result.silences),
        &mut line,
    );
    for flow in result.flows.iter().take(8) {
        if let Some(took) = flow.took_ms {
            line(
                &flow.kind,
                format!(
                    "median {:.1} ms, p95 {:.1} ms, p99 {:.1} ms, worst {:.1} ms; {} complete, {} unfinished, {} late",
                    took.p50, took.p95, took.p99, took.worst, flow.complete, flow.unfinished, flow.late
                ),
            );
        }
    }
    of_virtual_time(result, &mut line);
    out
}

/// Measurements that exist only in virtual time.
fn of_virtual_time(result: &SimResult, line: &mut dyn FnMut(&str, String)) {
    let time = &result.virtual_time;
    line(
        "sent again",
        format!(
            "{:.2} % within a path, {:.2} % on another; {} time-outs",
            time.retransmitted_percent,
            result.duplicates_percent.unwrap_or(0.0),
            time.timeouts
        ),
    );
    let [overflowed, lost, dead] = time.dropped;
    line("dropped", format!("{overflowed} by queues, {lost} at random, {dead} by dead radios"));
    line("paths", result.paths_up.to_string());
    let verdict = if result.audit.valid {
        "valid".to_owned()
    } else {
        format!("INVALID: {}", result.audit.reasons.join("; "))
    };
    line(
        "simulator",
        format!("{verdict}; {} events, {} packets, event log {}", time.events, time.packets, time.hash),
    );
}
