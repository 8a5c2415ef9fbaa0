//! Which value of a program's status becomes which metric, with its help text and labels.
//!
//! Labels are bounded: names of the list of clients, paths by their number (server) or as they were given (client), names of
//! hops. Addresses of peers and names of sessions are none, because each new one would be another time series.

use crate::service::fields::list;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use serde_json::Value;

/// Labels of a sample.
pub(super) type Labels = Vec<(&'static str, String)>;

/// One metric. Its name gets the prefix `tributary_`, the unit, and `_total` if it is a counter.
#[derive(Clone, Copy)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    kind: Kind,
    unit: Option<Base>,
    /// JSON pointer (RFC 6901) to the value within a row.
    field: &'static str,
    /// What the value is multiplied by.
    factor: f64,
}

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    /// 1 if the value is this word, else 0.
    State(&'static str),
}

/// A base unit of Prometheus.
#[derive(Clone, Copy)]
enum Base {
    Bytes,
    Seconds,
}

/// Metrics with the same labels.
pub(super) struct Family {
    rows: Rows,
    pub(super) metrics: &'static [Metric],
}

/// The objects of a status that have a family's metrics.
enum Rows {
    /// The program itself.
    Program,
    /// A server's clients.
    Clients,
    /// A server's paths, of each client.
    ClientPaths,
    /// A client's own paths.
    OwnPaths,
    /// Hops of a COTAG node.
    Links,
}

impl Family {
    /// The objects and their labels.
    pub(super) fn rows<'a>(&self, status: &'a Value) -> Vec<(Labels, &'a Value)> {
        match self.rows {
            Rows::Program => vec![(Vec::new(), status)],
            Rows::Clients => {
                list(status, "clients").iter().map(|client| (vec![label("client", client)], client)).collect()
            }
            Rows::ClientPaths => list(status, "clients")
                .iter()
                .flat_map(|client| {
                    list(client, "paths")
                        .iter()
                        .map(move |path| (vec![label("client", client), label("path", path)], path))
                })
                .collect(),
            // A server's sessions are counted for their clients.
            Rows::OwnPaths if status["clients"].is_array() => Vec::new(),
            Rows::OwnPaths => list(status, "sessions")
                .iter()
                .flat_map(|session| list(session, "paths"))
                .map(|path| (vec![("path", word(&path["radio"]))], path))
                .collect(),
            Rows::Links => {
                list(status, "links").iter().map(|link| (vec![("link", word(&link["name"]))], link)).collect()
            }
        }
    }
}

impl Metric {
    pub(super) fn kind(&self) -> MetricType {
        match self.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge | Kind::State(_) => MetricType::Gauge,
        }
    }

    pub(super) fn unit(&self) -> Option<Unit> {
        Some(match self.unit? {
            Base::Bytes => Unit::Bytes,
            Base::Seconds => Unit::Seconds,
        })
    }

    /// The name in a scrape.
    #[cfg(test)]
    pub(super) fn full_name(&self) -> String {
        let unit = self.unit().map_or_else(String::new, |unit| format!("_{}", unit.as_str()));
        let total = if matches!(self.kind, Kind::Counter) { "_total" } else { "" };
        format!("tributary_{}{unit}{total}", self.name)
    }

    #[cfg(test)]
    pub(super) fn field(&self) -> &'static str {
        self.field
    }

    /// The value in a row; `None` if the row has none. A truth value is 1 or 0, and a list its length.
    pub(super) fn value(&self, row: &Value) -> Option<f64> {
        let value = match (row.pointer(self.field)?, self.kind) {
            (Value::String(state), Kind::State(wanted)) => f64::from(u8::from(state == wanted)),
            (Value::Number(number), _) => number.as_f64()?,
            (Value::Bool(set), _) => f64::from(u8::from(*set)),
            (Value::Array(list), _) => list.len() as f64,
            _ => return None,
        };
        Some(value * self.factor)
    }
}

fn label(name: &'static str, row: &Value) -> (&'static str, String) {
    (name, word(&row[name]))
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

const fn gauge(name: &'static str, field: &'static str, help: &'static str) -> Metric {
    Metric { name, help, kind: Kind::Gauge, unit: None, field, factor: 1.0 }
}

const fn counter(name: &'static str, field: &'static str, help: &'static str) -> Metric {
    Metric { kind: Kind::Counter, ..gauge(name, field, help) }
}

const fn state(name: &'static str, word: &'static str, help: &'static str) -> Metric {
    Metric { kind: Kind::State(word), ..gauge(name, "/state", help) }
}

const fn bytes(metric: Metric) -> Metric {
    Metric { unit: Some(Base::Bytes), ..metric }
}

const fn seconds(name: &'static str, field: &'static str, help: &'static str) -> Metric {
    Metric { unit: Some(Base::Seconds), ..gauge(name, field, help) }
}

/// A time that the status has in milliseconds.
const fn millis(name: &'static str, field: &'static str, help: &'static str) -> Metric {
    Metric { factor: 1e-3, ..seconds(name, field, help) }
}

/// All metrics.
pub(super) const FAMILIES: &[Family] = &[
    Family { rows: Rows::Program, metrics: PROGRAM },
    Family { rows: Rows::Program, metrics: CODING },
    Family { rows: Rows::Program, metrics: INNER },
    Family { rows: Rows::Clients, metrics: CLIENT },
    Family { rows: Rows::ClientPaths, metrics: CLIENT_PATH },
    Family { rows: Rows::OwnPaths, metrics: PATH },
    Family { rows: Rows::Links, metrics: LINK },
];

const PROGRAM: &[Metric] = &[
    seconds("uptime", "/uptime_s", "Time since the program began"),
    seconds("start_time", "/started", "When the program began, as Unix time"),
    gauge("sessions", "/sessions", "Open sessions"),
    gauge("destinations", "/destinations", "Destinations with open connections, at most 32 of them"),
    bytes(gauge("memory_bound", "/memory/bound", "Limit of --memory")),
    bytes(gauge("memory_taken", "/memory/taken", "Memory reserved by all sessions together")),
    counter("memory_refused", "/memory/refused", "Requests for more memory that were refused"),
    counter("memory_given_back", "/memory/gave_way", "How often a session gave back half of a window"),
    gauge("viewers", "/viewers", "Viewers that are served"),
    gauge("connections", "/connections/open", "Open HTTP connections"),
    gauge("connections_limit", "/connections/most", "Limit of --connections"),
    counter("connections_refused", "/connections/refused", "HTTP connections refused at the limit"),
    counter("connections_ended", "/connections/ended", "Idle HTTP connections ended to make room for others"),
    gauge("progress", "/share", "Share of the work done, 0 to 1"),
    bytes(gauge("tunnel_mtu", "/mtu", "Largest packet through the tunnel")),
];

const CODING: &[Metric] = &[
    counter("coding_received", "/coding/received", "Coded packets received"),
    counter("coding_sent", "/coding/sent", "Coded packets sent or delivered"),
    counter("coding_taken", "/coding/taken", "Redundant packets among those sent"),
    counter("coding_given", "/coding/given", "Packets dropped because a later cohort needed the link"),
    counter("coding_full", "/coding/full", "Packets dropped because the buffer was full"),
    counter("coding_malformed", "/coding/malformed", "Packets of no known form or version"),
    counter(
        "coding_mislabelled",
        "/coding/mislabelled",
        "Packets that contradict their cohort, or of the other mode",
    ),
    counter("coding_late", "/coding/late", "Packets of a cohort that was over"),
    counter("coding_ahead", "/coding/ahead", "Packets of a cohort too far ahead"),
    counter("coding_stale", "/coding/stale", "Packets of an earlier start of the gateway"),
    counter("coding_oversize", "/coding/oversize", "Packets too large for a cohort"),
    counter("coding_recovered", "/coding/recovered", "Packets delivered that were decoded, not received"),
    counter("coding_lost", "/coding/lost", "Packets of finished cohorts that could not be decoded"),
];

const INNER: &[Metric] = &[
    counter("inner_packets_in", "/inner/packets_in", "Packets from the TUN device"),
    bytes(counter("inner_in", "/inner/bytes_in", "Payload from the TUN device")),
    counter("inner_packets_out", "/inner/packets_out", "Packets to the TUN device"),
    bytes(counter("inner_out", "/inner/bytes_out", "Payload to the TUN device")),
    counter("inner_full", "/inner/full", "Packets dropped because the queue in front of the links was full"),
    counter("inner_oversize", "/inner/oversize", "Packets larger than the tunnel's MTU"),
    counter("inner_malformed", "/inner/malformed", "What came from the TUN device and was no packet"),
    counter(
        "inner_forbidden",
        "/inner/forbidden",
        "Packets with a source address that the device may not use",
    ),
    counter("inner_looped", "/inner/looped", "Packets of the tunnel itself that were routed into it"),
    counter("inner_duplicate", "/inner/duplicate", "Packets that had arrived over another access point"),
    counter("inner_clamped", "/inner/clamped", "SYNs whose segment size was lowered"),
    counter("inner_unwritten", "/inner/unwritten", "Packets refused by the TUN device"),
    counter("inner_returned", "/inner/returned", "Coded packets given back because a radio was silent"),
];

const CLIENT: &[Metric] = &[
    gauge("client_sessions", "/sessions", "Open sessions of the client"),
    gauge("client_connections", "/connections", "Open connections of the client"),
    bytes(gauge("client_memory", "/memory", "Memory reserved by the client's sessions")),
    bytes(counter("client_sent", "/sent", "Payload sent to the client, copies not counted")),
    bytes(counter("client_received", "/received", "Payload received from the client, copies not counted")),
    bytes(counter("client_sent_again", "/sent_again", "Payload sent to the client again")),
];

const CLIENT_PATH: &[Metric] = &[
    gauge("client_paths_up", "/up", "Sessions of the client in which the path is up"),
    millis("client_path_rtt", "/rtt_ms", "Smoothed round-trip time, the smallest of the client's sessions"),
    bytes(counter("client_path_sent", "/sent", "Payload sent on the path, copies included")),
    bytes(counter("client_path_received", "/received", "Payload received on the path, copies included")),
];

const PATH: &[Metric] = &[
    state("path_up", "up", "Whether the path carries data"),
    state("path_silent", "silent", "Whether the path is connected, and data sent on it is not acknowledged"),
    seconds("path_state_age", "/since_s", "Time since the path's state changed"),
    millis("path_rtt", "/rtt_ms", "Smoothed round-trip time of the path's newest connection"),
    bytes(counter("path_sent", "/sent", "Payload sent on the path, copies included")),
    bytes(counter("path_received", "/received", "Payload received on the path, copies included")),
];

const LINK: &[Metric] = &[
    gauge("link_up", "/up", "Whether the other node was heard in the last second"),
    gauge("link_stalled", "/stalled", "Whether packets were not answered and nothing has arrived since"),
    counter("link_stalls", "/stalls", "How often the hop was stalled"),
    counter("link_sessions", "/sessions", "Sessions begun with the other node"),
    millis("link_rtt", "/rtt_ms", "Smallest recent round-trip time"),
    Metric {
        factor: 1e6,
        ..gauge("link_rate_bits_per_second", "/rate_mbps", "Largest recent delivery rate")
    },
    bytes(gauge("link_in_flight", "/in_flight", "Bytes sent that may still be on the link")),
    counter("link_messages_sent", "/sent", "Messages sent"),
    bytes(counter("link_sent", "/sent_bytes", "Bytes of messages sent")),
    counter("link_messages_received", "/received", "Messages received"),
    bytes(counter("link_received", "/received_bytes", "Bytes of messages received")),
    counter("link_malformed", "/malformed", "Datagrams that are none of a hop"),
    counter("link_version", "/version", "Datagrams of another version of the hop"),
    counter("link_forged", "/forged", "Datagrams that do not verify with the hop's key"),
    counter("link_replayed", "/replayed", "Datagrams seen before, or too old to tell"),
    counter("link_throttled", "/throttled", "Handshakes dropped unread because too many arrived at once"),
    counter("link_unknown", "/unknown", "Messages of no known kind"),
    counter("link_oversize", "/oversize", "Datagrams above the link's MTU, not sent"),
    counter("link_unsent", "/unsent", "Datagrams that the system refused to send"),
];
