//! The sender's TCP connections as `ss` shows them, the subflows that MPTCP opened by itself included.

use crate::BenchError;
use std::net::Ipv4Addr;
use tributary_emu::{Network, Side};
use tributary_lab::process::output;

/// Package and arguments of the command.
const PACKAGE: &str = "iproute2";
const ARGUMENTS: &str = "--no-header --tcp --info --numeric --oneline state established";

/// One established connection at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Subflow {
    /// Local address and port.
    pub local: String,
    /// Payload bytes that the receiver has acknowledged.
    pub acked: u64,
    /// Milliseconds with data in flight, and those of them in which the receiver's window or the send buffer was the
    /// limit.
    pub busy_ms: f64,
    pub receiver_ms: f64,
    pub buffer_ms: f64,
    /// Payload bytes sent again.
    pub again: u64,
    /// Bytes that wait to be sent.
    pub unsent: u64,
    /// Segments sent and not acknowledged.
    pub in_flight: f64,
    /// Congestion window in segments.
    pub window: f64,
    /// Words without a value, with the name of the congestion control among them.
    words: Vec<String>,
}

impl Subflow {
    /// Its local address.
    pub(super) fn address(&self) -> Option<Ipv4Addr> {
        // A connection that is bound to an interface is shown as ADDRESS%INTERFACE:PORT.
        self.local.split(['%', ':']).next()?.parse().ok()
    }

    /// Whether its window has room and nothing waits to be sent. Read from the queue itself, because `app_limited` describes
    /// only the last rate sample.
    pub(super) fn lacks_data(&self) -> bool {
        self.unsent == 0 && self.in_flight < self.window
    }

    /// Whether it runs this congestion control.
    pub(super) fn runs(&self, control: &str) -> bool {
        self.words.iter().any(|word| word == control)
    }
}

/// The established connections of the client, which sends.
pub(super) fn snapshot(network: &Network) -> Result<Vec<Subflow>, BenchError> {
    let mut command = network.command(Side::Client, "ss");
    command.args(ARGUMENTS.split(' '));
    Ok(parse(&output(command, PACKAGE)?))
}

/// Reads the lines of `ss`.
pub(super) fn parse(text: &str) -> Vec<Subflow> {
    text.lines().filter_map(parse_line).collect()
}

/// One line: bytes in both queues, local address, peer, then words and `name:value`. A value may be followed by its
/// unit and by a share in brackets: `rwnd_limited:40ms(3.2%)`.
fn parse_line(line: &str) -> Option<Subflow> {
    let mut words = line.split_whitespace().skip(2);
    let (local, _peer) = (words.next()?.to_owned(), words.next()?);
    let mut subflow = Subflow { local, ..Subflow::default() };
    for word in words {
        let Some((name, value)) = word.split_once(':') else {
            subflow.words.push(word.to_owned());
            continue;
        };
        match name {
            "bytes_acked" => subflow.acked = value.parse().ok()?,
            "bytes_retrans" => subflow.again = value.parse().ok()?,
            "notsent" => subflow.unsent = value.parse().ok()?,
            "unacked" => subflow.in_flight = leading(value)?,
            "busy" => subflow.busy_ms = leading(value)?,
            "rwnd_limited" => subflow.receiver_ms = leading(value)?,
            "sndbuf_limited" => subflow.buffer_ms = leading(value)?,
            "cwnd" => subflow.window = leading(value)?,
            _ => {}
        }
    }
    Some(subflow)
}

/// The number at the beginning of a text.
fn leading(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
0      96      10.77.1.2:40000 10.77.1.1:50000 ts sack b12_lia wscale:10,10 rto:231 rtt:30.4/0.5 mss:1448 cwnd:41 \
bytes_sent:2000000 bytes_retrans:2896 bytes_acked:1900001 send 15.6Mbps lastsnd:2 busy:4500ms rwnd_limited:90ms(2.0%) \
sndbuf_limited:12ms(0.3%) unacked:40 rcv_space:14480 tcp-ulp-mptcp flags:Mec token:0000(id:0)/0(id:0)
0      0      10.77.2.2%line:40001 10.77.1.1:50000 b12_lia wscale:10,10 cwnd:10 bytes_acked:77 busy:3ms unacked:4 notsent:1448
";

    #[test]
    fn bytes_and_limits_are_read_from_the_lines() {
        let subflows = parse(LINES);
        let [first, second] = &subflows[..] else { panic!("{subflows:?}") };
        assert_eq!((first.acked, first.busy_ms, first.window), (1_900_001, 4500.0, 41.0));
        assert_eq!((first.receiver_ms, first.buffer_ms, first.again), (90.0, 12.0, 2896));
        assert!(first.lacks_data(), "40 of 41 segments are in flight");
        assert!(first.runs("b12_lia") && !first.runs("lia"));
        assert_eq!(first.address(), Some(Ipv4Addr::new(10, 77, 1, 2)));
        assert_eq!((second.acked, second.receiver_ms, second.lacks_data()), (77, 0.0, false));
        assert_eq!(second.address(), Some(Ipv4Addr::new(10, 77, 2, 2)), "bound to an interface");
    }

    #[test]
    fn a_line_without_a_peer_is_left_out() {
        assert!(parse("0 0 10.77.1.2:40000\n\n").is_empty());
    }
}
