//! An event log as qlog: a JSON text sequence (RFC 7464) in the qlog main schema 0.4.
//!
//! `recovery:metrics_updated` is QUIC's event (draft-ietf-quic-qlog-quic-events), with the kernel's numbers of a subflow, written
//! when one of them has changed; `tributary:*` events are those of `docs/guide/status.md`. The group of an event is
//! SESSION/PATH, or the session if it concerns no path. Times are milliseconds since the log began.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};
use tributary_types::SubflowId;

use super::EventLog;
use crate::shared::Shared;
use crate::sockopt::TcpInfo;

/// Begins a record of a JSON text sequence.
const RECORD: char = '\u{1e}';
/// Time between two measurements of a subflow.
const MEASURE: Duration = Duration::from_millis(100);

/// The first record; `began` is the time of day at which the log began.
pub(super) fn head(began: &str) -> String {
    record(&json!({
        "qlog_version": "0.4",
        "qlog_format": "JSON-SEQ",
        "title": "tributary",
        "trace": { "common_fields": { "time_format": "relative", "reference_time": began } },
    }))
}

/// A record of an event, from the object that a line of JSON has.
pub(super) fn event(at: Duration, mut object: Value) -> String {
    let name = format!("tributary:{}", object["event"].as_str().unwrap_or_default());
    let group = group(object["session"].as_str(), object["path"].as_u64());
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|field, _| !matches!(field.as_str(), "event" | "session" | "session_t"));
    }
    record_of(at, &name, &group, object)
}

/// Writes the measurements of a session's subflows until it ends.
pub(super) async fn measure(log: EventLog, session: Weak<Shared>) {
    let mut known: BTreeMap<SubflowId, Value> = BTreeMap::new();
    let mut ticks = interval(MEASURE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let at = log.began.elapsed();
        let records: String = {
            let Some(shared) = session.upgrade() else { return };
            let state = shared.lock();
            if state.closed.is_some() {
                return;
            }
            let name = state.name();
            known.retain(|subflow, _| state.subflows.iter().any(|report| report.subflow == *subflow));
            let mut changed = |report: &crate::stats::SubflowReport| {
                let data = metrics(report.subflow, &report.tcp);
                if known.get(&report.subflow) == Some(&data) {
                    return None;
                }
                known.insert(report.subflow, data.clone());
                let group = group(name.as_deref(), Some(report.path.0.into()));
                Some(record_of(at, "recovery:metrics_updated", &group, data))
            };
            state.subflows.iter().filter_map(&mut changed).collect()
        };
        if !records.is_empty() && !log.put(records, true).await {
            return;
        }
    }
}

/// The kernel's numbers in qlog's units: milliseconds, bytes, bits per second.
fn metrics(subflow: SubflowId, tcp: &TcpInfo) -> Value {
    let millis = |time: Duration| time.as_micros() as f64 / 1e3;
    let bytes = |segments: u32| u64::from(segments) * u64::from(tcp.snd_mss);
    let mut data = json!({
        "subflow": subflow.0,
        "smoothed_rtt": millis(tcp.rtt),
        "rtt_variance": millis(tcp.rttvar),
        "congestion_window": bytes(tcp.snd_cwnd),
        "bytes_in_flight": bytes(tcp.unacked),
        "retransmitted_segments": tcp.total_retrans,
    });
    if let Some(least) = tcp.min_rtt {
        data["min_rtt"] = millis(least).into();
    }
    if tcp.pacing_rate != u64::MAX {
        data["pacing_rate"] = tcp.pacing_rate.saturating_mul(8).into();
    }
    data
}

fn group(session: Option<&str>, path: Option<u64>) -> String {
    let session = session.unwrap_or("connecting");
    path.map_or_else(|| session.to_owned(), |path| format!("{session}/{path}"))
}

fn record_of(at: Duration, name: &str, group: &str, data: Value) -> String {
    let time = at.as_micros() as f64 / 1e3;
    record(&json!({ "time": time, "name": name, "group_id": group, "data": data }))
}

fn record(value: &Value) -> String {
    format!("{RECORD}{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(record: &str) -> Value {
        serde_json::from_str(record.strip_prefix(RECORD).expect("RFC 7464").trim_end()).unwrap()
    }

    #[test]
    fn an_event_has_the_group_of_its_path() {
        let line = json!({ "event": "subflow_up", "session": "18b405f4", "session_t": 1.5, "path": 2, "subflow": 9 });
        let told = read(&event(Duration::from_micros(1500), line));
        assert_eq!(
            told,
            json!({ "time": 1.5, "name": "tributary:subflow_up", "group_id": "18b405f4/2", "data": { "path": 2, "subflow": 9 } })
        );
        let of_session =
            read(&event(Duration::ZERO, json!({ "event": "closed", "session": "18b405f4", "code": 0 })));
        assert_eq!(
            (&of_session["group_id"], &of_session["data"]),
            (&json!("18b405f4"), &json!({ "code": 0 }))
        );
        assert_eq!(
            read(&event(Duration::ZERO, json!({ "event": "connecting", "session": null, "path": 0 })))["group_id"],
            "connecting/0"
        );
        assert_eq!(read(&head("2026-01-01T00:00:00.000Z"))["qlog_version"], "0.4");
    }

    #[test]
    fn the_kernels_numbers_are_in_qlogs_units() {
        let tcp = TcpInfo {
            rtt: Duration::from_micros(12_345),
            snd_mss: 1000,
            snd_cwnd: 10,
            unacked: 3,
            pacing_rate: 125_000,
            min_rtt: Some(Duration::from_millis(12)),
            ..TcpInfo::default()
        };
        let data = metrics(SubflowId(4), &tcp);
        let of = |name: &str| data[name].as_f64().unwrap();
        assert_eq!((of("smoothed_rtt"), of("min_rtt")), (12.345, 12.0));
        assert_eq!(
            (of("congestion_window"), of("bytes_in_flight"), of("pacing_rate")),
            (10_000.0, 3000.0, 1e6)
        );
    }
}
