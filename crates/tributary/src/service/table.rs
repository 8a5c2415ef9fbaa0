//! The status of a program as text.

use super::fields::{list, number, word};
use serde_json::Value;

/// The local part of a path.
fn radio(path: &Value) -> &str {
    word(path, "radio").split('=').next().unwrap_or_default()
}

/// A summary of all sessions in one line.
pub(crate) fn summary(snapshot: &Value) -> String {
    let sessions = list(snapshot, "sessions");
    if sessions.is_empty() {
        return "no session".to_owned();
    }
    if sessions.len() > 2 {
        let sum = |name: &str| {
            sessions
                .iter()
                .flat_map(|session| list(session, "paths"))
                .map(|path| number(path, name))
                .sum::<f64>()
        };
        let (sent, received) = (sum("send_mbps"), sum("receive_mbps"));
        return format!("{} sessions, ↑ {sent:.1} ↓ {received:.1} Mbit/s", sessions.len());
    }
    let sessions = sessions.iter().map(|session| {
        let paths = list(session, "paths").iter().map(|path| match word(path, "state") {
            "up" => format!(
                "{} up ↑ {:.1} ↓ {:.1} Mbit/s {:.0} ms",
                radio(path),
                number(path, "send_mbps"),
                number(path, "receive_mbps"),
                number(path, "rtt_ms")
            ),
            state => match path["cause"].as_str() {
                Some(cause) => format!("{} {state}: {cause}", radio(path)),
                None => format!("{} {state} for {:.0} s", radio(path), number(path, "since_s")),
            },
        });
        let connections = count(session["connections"].as_u64().unwrap_or_default(), "connection");
        std::iter::once(connections).chain(paths).collect::<Vec<_>>().join(" | ")
    });
    sessions.collect::<Vec<_>>().join(" || ")
}

/// A program as a table.
pub(crate) fn table(program: &Value) -> String {
    let mut text = format!("{} (pid {})", word(program, "role"), program["pid"]);
    if let Some(name) = program["program"].as_str() {
        text += &format!(" running {name}");
    }
    let listening =
        list(program, "listening").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    if !listening.is_empty() {
        text += &format!(" listening on {listening}");
    }
    text += &format!(", up {:.0} s", number(program, "uptime_s"));
    if program["sessions"].is_array() {
        text += &format!(", {}", count(list(program, "sessions").len() as u64, "session"));
    }
    text.push('\n');
    text += &memory(program);
    list(program, "sessions").iter().for_each(|session| text += &session_table(session));
    for destination in list(program, "destinations") {
        let connections = count(destination["connections"].as_u64().unwrap_or_default(), "connection");
        text += &format!("  to {}: {connections}\n", word(destination, "destination"));
    }
    list(program, "links").iter().for_each(|link| text += &link_line(link));
    if let Some(connections) = program.get("connections").filter(|connections| connections.is_object()) {
        text += &format!(
            "  {} of {}, {} refused, {} ended for others\n",
            number(connections, "open"),
            count(connections["most"].as_u64().unwrap_or_default(), "connection"),
            number(connections, "refused"),
            number(connections, "ended")
        );
    }
    for viewer in list(program, "viewers") {
        text += &format!("  viewer {}: {:.0} s\n", word(viewer, "peer"), number(viewer, "age_s"));
    }
    if let Some(doing) = program["doing"].as_str() {
        text += &format!("  {:.0} %: {doing}\n", number(program, "share") * 100.0);
    }
    text
}

fn memory(program: &Value) -> String {
    let Some(memory) = program.get("memory").filter(|memory| memory.is_object()) else {
        return String::new();
    };
    format!(
        "  memory of all sessions: {} of {}, {} refused, {} given back\n",
        bytes(number(memory, "taken")),
        bytes(number(memory, "bound")),
        count(memory["refused"].as_u64().unwrap_or_default(), "request"),
        count(memory["gave_way"].as_u64().unwrap_or_default(), "window")
    )
}

/// A hop of a COTAG node.
fn link_line(link: &Value) -> String {
    let state = match (link["up"].as_bool(), link["stalled"].as_bool()) {
        (Some(true), Some(true)) => "stalled",
        (Some(true), _) => "up",
        _ => "down",
    };
    let rtt = link["rtt_ms"].as_f64().map_or_else(|| "-".to_owned(), |rtt| format!("{rtt:.1} ms"));
    format!(
        "  hop {} {state}: {}, RTT {rtt}, {} sent, {} received, {}\n",
        word(link, "name"),
        word(link, "remote"),
        bytes(number(link, "sent_bytes")),
        bytes(number(link, "received_bytes")),
        count(link["stalls"].as_u64().unwrap_or_default(), "stall")
    )
}

fn session_table(session: &Value) -> String {
    let from = session["peer"].as_str().map_or_else(String::new, |peer| format!(" from {peer}"));
    let mut text = format!(
        "  session {}{from}: {:.0} s, {}, {} sent, {} received\n",
        word(session, "session"),
        number(session, "age_s"),
        count(session["connections"].as_u64().unwrap_or_default(), "connection"),
        bytes(number(session, "sent")),
        bytes(number(session, "received"))
    );
    text += &format!(
        "    {:<34} {:<11} {:>9} {:>9} {:>8} {:>10} {:>10}\n",
        "path", "state", "send Mb/s", "recv Mb/s", "RTT ms", "sent", "received"
    );
    for path in list(session, "paths") {
        let rtt = path["rtt_ms"].as_f64().map_or_else(|| "-".to_owned(), |rtt| format!("{rtt:.1}"));
        text += &format!(
            "    {:<34} {:<11} {:>9.2} {:>9.2} {rtt:>8} {:>10} {:>10}\n",
            word(path, "radio"),
            word(path, "state"),
            number(path, "send_mbps"),
            number(path, "receive_mbps"),
            bytes(number(path, "sent")),
            bytes(number(path, "received"))
        );
        if path["protocol"] == "quic" {
            text += "      over QUIC\n";
        }
        if let Some(cap) = path["cap_mbps"].as_f64() {
            text += &format!("      sends at most {cap} Mbit/s\n");
        }
        if let Some(cause) = path["cause"].as_str() {
            text += &format!("      for {:.0} s: {cause}\n", number(path, "since_s"));
        }
    }
    text
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn bytes(count: f64) -> String {
    match count {
        0.0..1e3 => format!("{count:.0} B"),
        1e3..1e6 => format!("{:.1} kB", count / 1e3),
        1e6..1e9 => format!("{:.1} MB", count / 1e6),
        _ => format!("{:.2} GB", count / 1e9),
    }
}
