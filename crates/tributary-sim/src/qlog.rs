//! qlog of a run: windows, round-trip times, losses and link events over time, as a JSON text sequence (RFC
//! 7464) in the qlog main schema 0.4. Written from a run's [`crate::run::Trace`] after the run.
//!
//! `recovery:metrics_updated` is QUIC's event (draft-ietf-quic-qlog-quic-events), written whenever one of its
//! numbers changes; `tributary:*` events are our own. Times are milliseconds since the beginning.

use std::io::{self, Write};

use tributary_types::Instant;

use crate::run::{LinkLosses, Outcome, Trace, TraceSample};
use crate::transport::PathSample;

/// Begins a record of a JSON text sequence.
const RECORD: char = '\u{1e}';

/// The head of a file.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Title of the run.
    pub title: &'a str,
    /// Names of the scenario's paths.
    pub paths: &'a [String],
    /// Congestion control.
    pub congestion: &'a str,
}

/// Writes the log; an outcome without a trace gives only a head.
///
/// # Errors
/// When `to` cannot be written.
pub fn write(to: &mut dyn Write, head: Head<'_>, outcome: &Outcome) -> io::Result<()> {
    writeln!(
        to,
        "{RECORD}{{\"qlog_version\":\"0.4\",\"qlog_format\":\"JSON-SEQ\",\"title\":{},\"trace\":{{\
         \"vantage_point\":{{\"name\":\"server\",\"type\":\"server\"}},\
         \"common_fields\":{{\"time_format\":\"relative\",\"reference_time\":0,\"congestion_control\":{},\
         \"event_log_hash\":\"{:016x}\"}}}}}}",
        quoted(head.title),
        quoted(head.congestion),
        outcome.hash
    )?;
    let Some(trace) = &outcome.trace else { return Ok(()) };
    let mut lines = Vec::new();
    link_events(trace, head, &mut lines);
    let names: Vec<&str> = outcome.links.iter().map(|link| link.name.as_str()).collect();
    losses(trace, &names, outcome, &mut lines);
    metrics(trace, head, &mut lines);
    lines.sort_by_key(|(at, _)| *at); // stable: within a moment, links before metrics
    for (at, line) in lines {
        let millis = at.as_nanos() as f64 / 1e6;
        writeln!(to, "{RECORD}{{\"time\":{millis:.3},{line}}}")?;
    }
    to.flush()
}

fn link_events(trace: &Trace, head: Head<'_>, lines: &mut Vec<(Instant, String)>) {
    for event in &trace.events {
        let state = if event.up { "up" } else { "down" };
        let path = name(head, event.path);
        let line = format!("\"name\":\"tributary:path_{state}\",\"data\":{{\"path\":{path}}}");
        lines.push((event.at, line));
    }
}

fn losses(trace: &Trace, names: &[&str], outcome: &Outcome, lines: &mut Vec<(Instant, String)>) {
    for LinkLosses { at, link, overflowed, lost, dead } in &trace.losses {
        let direction = match outcome.links[*link].direction {
            tributary_link::Direction::Down => "down",
            tributary_link::Direction::Up => "up",
        };
        let line = format!(
            "\"name\":\"tributary:link_losses\",\"data\":{{\"link\":{},\"direction\":\"{direction}\",\
             \"overflowed\":{overflowed},\"lost\":{lost},\"dead\":{dead}}}",
            quoted(names[*link])
        );
        lines.push((*at, line));
    }
}

/// One event whenever a subflow's numbers change; subflows of a path are distinguished by their order.
fn metrics(trace: &Trace, head: Head<'_>, lines: &mut Vec<(Instant, String)>) {
    let mut last: Vec<((u32, u8, usize), PathSample)> = Vec::new();
    let mut moment = None;
    let mut seen: Vec<(u32, u8)> = Vec::new();
    for TraceSample { at, connection, path } in &trace.samples {
        if moment != Some(*at) {
            moment = Some(*at);
            seen.clear();
        }
        let number = seen.iter().filter(|key| **key == (*connection, path.path)).count();
        seen.push((*connection, path.path));
        let key = (*connection, path.path, number);
        match last.iter_mut().find(|(known, _)| *known == key) {
            Some((_, before)) if before == path => continue,
            Some((_, before)) => *before = *path,
            None => last.push((key, *path)),
        }
        // No number for a threshold that was never set; the QUIC crates do not report bytes in flight.
        let threshold = match path.threshold {
            u64::MAX => String::new(),
            bytes => format!("\"ssthresh\":{bytes},"),
        };
        let in_flight = path.in_flight.map_or(String::new(), |bytes| format!("\"bytes_in_flight\":{bytes},"));
        let line = format!(
            "\"name\":\"recovery:metrics_updated\",\"data\":{{\"congestion_window\":{},{threshold}\
             {in_flight}\"smoothed_rtt\":{:.3},\"path\":{},\"connection\":{connection},\
             \"subflow\":{number}}}",
            path.window,
            path.srtt.as_nanos() as f64 / 1e6,
            name(head, usize::from(path.path)),
        );
        lines.push((*at, line));
    }
}

fn name(head: Head<'_>, path: usize) -> String {
    quoted(head.paths.get(path).map_or("?", String::as_str))
}

/// A JSON string (RFC 8259 §7).
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_a_transport_does_not_report_are_left_out() {
        let head = Head { title: "", paths: &["wifi".to_owned()], congestion: "cubic" };
        let line = |in_flight| {
            let path = PathSample { in_flight, ..PathSample::default() };
            let samples = vec![TraceSample { at: Instant::ZERO, connection: 0, path }];
            let mut lines = Vec::new();
            metrics(&Trace { samples, ..Trace::default() }, head, &mut lines);
            lines.remove(0).1
        };
        assert!(line(Some(0)).contains("\"bytes_in_flight\":0,\"smoothed_rtt\""));
        assert!(line(None).contains("\"ssthresh\":0,\"smoothed_rtt\""));
    }
}
