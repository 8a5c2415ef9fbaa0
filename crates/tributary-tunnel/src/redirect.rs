//! The rules of nftables: TCP that leaves by the device, and questions to DNS servers, are redirected to sockets.
//!
//! Not here: which packets leave by the device (`routes`).

use std::fmt::Write;

use crate::selection::{SelectionError, group};
use crate::settings::{GROUP_MARK, MARK, Settings};

const TABLE: &str = "tributary_tunnel";

/// Rules that replace those of a predecessor.
pub(crate) fn rules(settings: &Settings, (tcp, udp): (u16, u16)) -> Result<String, SelectionError> {
    let device = &settings.device;
    let mut rules = none();
    let _ = writeln!(rules, "table inet {TABLE} {{");
    if settings.routes && !settings.selection.groups.is_empty() {
        // Before the route is chosen again: a packet with another mark gets another route.
        let _ =
            writeln!(rules, " chain selected {{\n  type route hook output priority mangle; policy accept;");
        for path in &settings.selection.groups {
            let path = group(path)?;
            let level = path.split('/').count();
            let _ = writeln!(
                rules,
                "  meta mark 0 socket cgroupv2 level {level} \"{path}\" meta mark set {GROUP_MARK:#x}"
            );
        }
        let _ = writeln!(rules, " }}");
    }
    let _ = writeln!(rules, " chain output {{\n  type nat hook output priority -100; policy accept;");
    let _ = writeln!(rules, "  meta mark {MARK:#x} accept\n  oifname \"lo\" accept");
    if settings.names && settings.routes && settings.selection.is_everything() {
        // Servers in the machine's own networks would be asked directly.
        let _ = writeln!(rules, "  udp dport 53 redirect to :{udp}\n  tcp dport 53 redirect to :{tcp}");
    }
    // A packet that was routed again because of its mark still has its first device here.
    for of_the_device in [format!("oifname \"{device}\""), format!("meta mark {GROUP_MARK:#x}")] {
        let _ = writeln!(rules, "  {of_the_device} udp dport 53 redirect to :{udp}");
        let _ = writeln!(rules, "  {of_the_device} meta l4proto tcp redirect to :{tcp}");
    }
    let _ = writeln!(rules, " }}\n}}");
    Ok(rules)
}

/// Rules that take all others back, if there are any.
pub(crate) fn none() -> String {
    format!("table inet {TABLE}\ndelete table inet {TABLE}\n")
}
