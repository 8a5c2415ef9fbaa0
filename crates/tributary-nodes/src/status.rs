//! Status of a running node: a snapshot, and its line for a terminal.

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

impl Status {
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
        Status {
            role: "gateway",
            links: vec![link("ap1", Some(2.5)), link("ap2", None)],
            ..Status::default()
        }
    }

    #[test]
    fn a_line_has_rates() {
        let mut after = status();
        after.inner.bytes_in = 1_000_000;
        let line = after.line(&status(), 2.0);
        assert!(line.starts_with("gateway  in 4.0 Mbit/s  out 0.0 Mbit/s  ap1 up"), "{line}");
    }
}
