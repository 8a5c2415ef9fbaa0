//! Status of a running node: a snapshot, its line for a terminal, and its text for Prometheus. Source of the
//! text format: Prometheus exposition format 0.0.4.

use crate::hop::Refusals;
use serde::Serialize;
use std::fmt::Write;
use tributary_cotag::Counters;

/// One hop to another node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkStatus {
    /// The other node's name.
    pub name: String,
    /// Whether it was heard in the last second.
    pub up: bool,
    /// Its address, once known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Sessions begun so far.
    pub sessions: u64,
    /// Messages sent.
    pub sent: u64,
    /// Bytes of messages sent.
    pub sent_bytes: u64,
    /// Messages received.
    pub received: u64,
    /// Bytes of messages received.
    pub received_bytes: u64,
    /// Smallest recent round-trip time, ms, once known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Largest recent delivery rate, Mbit/s.
    pub rate_mbps: f64,
    /// Bytes sent that may still be on the link.
    pub in_flight: u64,
    /// Whether packets were not answered and nothing has arrived since.
    pub stalled: bool,
    /// Number of stalls.
    pub stalls: u64,
    /// Datagrams that were refused.
    #[serde(flatten)]
    pub refused: Refusals,
    /// Messages of no known kind.
    pub unknown: u64,
    /// Datagrams above the link's MTU, which could not be sent.
    pub oversize: u64,
    /// Datagrams that the system refused to send.
    pub unsent: u64,
}

/// The node's TUN device; at an access point, the uncoded packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InnerStatus {
    /// Packets from the TUN device.
    pub packets_in: u64,
    /// Bytes of them.
    pub bytes_in: u64,
    /// Packets to the TUN device.
    pub packets_out: u64,
    /// Bytes of them.
    pub bytes_out: u64,
    /// Dropped because the queue in front of the links was full.
    pub full: u64,
    /// Larger than the tunnel's MTU.
    pub oversize: u64,
    /// Not a packet.
    pub malformed: u64,
    /// From the device, with a source address that it may not use.
    pub forbidden: u64,
    /// Packets of the tunnel itself that were routed into it.
    pub looped: u64,
    /// Already arrived over another access point.
    pub duplicate: u64,
    /// SYNs whose segment size was lowered.
    pub clamped: u64,
    /// Refused by the TUN device.
    pub unwritten: u64,
    /// Coded packets that an access point gave back because its radio was silent.
    pub returned: u64,
}

/// A node's snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    /// `gateway`, `access-point` or `device`.
    pub role: &'static str,
    /// Seconds since it was started.
    pub uptime: f64,
    /// Largest packet through the tunnel.
    pub mtu: usize,
    /// Its hops.
    pub links: Vec<LinkStatus>,
    /// The coding machine.
    pub coding: Counters,
    /// Packets inside the tunnel.
    pub inner: InnerStatus,
}

/// The numbers of a serialisable struct by name, without nested ones.
fn numbers(value: &impl Serialize) -> Vec<(String, f64)> {
    let Ok(toml::Value::Table(table)) = toml::Value::try_from(value) else { return Vec::new() };
    let number = |value: &toml::Value| match value {
        toml::Value::Integer(n) => Some(*n as f64),
        toml::Value::Float(n) => Some(*n),
        toml::Value::Boolean(b) => Some(f64::from(u8::from(*b))),
        _ => None,
    };
    table.iter().filter_map(|(name, value)| Some((name.clone(), number(value)?))).collect()
}

/// Metrics that may decrease; all others are counters.
const GAUGES: [&str; 5] = ["up", "rtt_ms", "rate_mbps", "in_flight", "stalled"];

impl Status {
    /// The text that Prometheus reads.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        let mut metric = |name: String, gauge: bool, samples: &[(String, f64)]| {
            let (name, kind) = if gauge { (name, "gauge") } else { (name + "_total", "counter") };
            let _ = writeln!(text, "# TYPE {name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "{name}{{role=\"{}\"{labels}}} {value}", self.role);
            }
        };
        metric("tributary_uptime_seconds".to_owned(), true, &[(String::new(), self.uptime)]);
        metric("tributary_tunnel_mtu_bytes".to_owned(), true, &[(String::new(), self.mtu as f64)]);
        for (group, numbers) in [("coding", numbers(&self.coding)), ("inner", numbers(&self.inner))] {
            for (name, value) in numbers {
                metric(format!("tributary_{group}_{name}"), false, &[(String::new(), value)]);
            }
        }
        // A metric's samples must be together, so links are the inner loop; a field may be absent in one.
        let links: Vec<(String, Vec<(String, f64)>)> =
            self.links.iter().map(|link| (label(&link.name), numbers(link))).collect();
        let mut names: Vec<&String> =
            links.iter().flat_map(|(_, n)| n.iter().map(|(name, _)| name)).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let of = |(label, numbers): &(String, Vec<(String, f64)>)| {
                let (_, value) = numbers.iter().find(|(own, _)| own == name)?;
                Some((format!(",link=\"{label}\""), *value))
            };
            let samples: Vec<(String, f64)> = links.iter().filter_map(of).collect();
            metric(format!("tributary_link_{name}"), GAUGES.contains(&name.as_str()), &samples);
        }
        text
    }

    /// One line with totals since the start.
    #[must_use]
    pub fn summary(&self) -> String {
        let (c, i) = (&self.coding, &self.inner);
        let mut line = format!(
            "{}: in {} packets, out {}, dropped at a full queue {}; coded {}, redundant {}, given up {}, recovered \
             {}, lost {}",
            self.role, i.packets_in, i.packets_out, i.full, c.sent, c.taken, c.given, c.recovered, c.lost
        );
        for link in &self.links {
            let _ = write!(
                line,
                "; {} {}, stalls {}, refused {}",
                link.name,
                if link.up { "up" } else { "down" },
                link.stalls,
                link.refused.total()
            );
        }
        line
    }

    /// One line with rates since `before`, a snapshot `seconds` ago.
    #[must_use]
    pub fn line(&self, before: &Self, seconds: f64) -> String {
        let mbps = |now: u64, then: u64| now.saturating_sub(then) as f64 * 8e-6 / seconds.max(1e-9);
        let mut line = self.role.to_owned();
        if self.role != "access-point" {
            let _ = write!(
                line,
                "  in {:.1} Mbit/s  out {:.1} Mbit/s",
                mbps(self.inner.bytes_in, before.inner.bytes_in),
                mbps(self.inner.bytes_out, before.inner.bytes_out)
            );
        }
        for link in &self.links {
            let old = before.links.iter().find(|old| old.name == link.name).cloned().unwrap_or_default();
            let (state, down, up) = (
                if !link.up {
                    "down"
                } else if link.stalled {
                    "stalled"
                } else {
                    "up"
                },
                mbps(link.received_bytes, old.received_bytes),
                mbps(link.sent_bytes, old.sent_bytes),
            );
            let _ = write!(line, "  {} {state} ↓{down:.1} ↑{up:.1}", link.name);
        }
        let c = &self.coding;
        let _ = write!(line, "  redundant {}  recovered {}  lost {}", c.taken, c.recovered, c.lost);
        line
    }
}

/// A label's value, escaped according to the format.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        let link = |name: &str, rtt_ms| LinkStatus {
            name: name.to_owned(),
            rtt_ms,
            up: true,
            ..LinkStatus::default()
        };
        let refused = Refusals { forged: 3, ..Refusals::default() };
        Status {
            role: "gateway",
            links: vec![LinkStatus { refused, ..link("ap1", Some(2.5)) }, link("ap\"2", None)],
            ..Status::default()
        }
    }

    #[test]
    fn prometheus_text_has_one_type_line_per_metric_before_its_samples() {
        let text = status().to_prometheus();
        assert!(text.contains("# TYPE tributary_link_forged_total counter\ntributary_link_forged_total{role=\"gateway\",link=\"ap1\"} 3\n"), "{text}");
        assert!(text.contains("tributary_link_rtt_ms{role=\"gateway\",link=\"ap1\"} 2.5\n"));
        assert!(text.contains("link=\"ap\\\"2\""), "{text}");
        let types = text.lines().filter(|line| line.starts_with("# TYPE")).count();
        let unique: std::collections::HashSet<&str> =
            text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        assert_eq!(types, unique.len());
    }

    #[test]
    fn a_line_has_rates() {
        let mut after = status();
        after.inner.bytes_in = 1_000_000;
        let line = after.line(&status(), 2.0);
        assert!(line.starts_with("gateway  in 4.0 Mbit/s  out 0.0 Mbit/s  ap1 up"), "{line}");
    }
}
