//! Uses iproute2 to configure MPTCP endpoints and to check which congestion control each connection runs, and procfs to read TCP's
//! counters.

use crate::error::LabError;
use crate::process::{ProcessError, output};
use std::ffi::OsStr;
use std::process::Command;
use tributary_emu::{Network, Side};

/// Starts a program in one side's namespace.
pub type InNamespace<'a> = &'a dyn Fn(Side, &OsStr) -> Command;

/// Allows subflows on every path at both ends, and makes the client open one on each. `devices` are the paths'
/// network interfaces.
///
/// # Errors
/// [`ProcessError::Program`].
pub fn prepare_mptcp(command: InNamespace<'_>, devices: &[String]) -> Result<(), ProcessError> {
    for side in [Side::Client, Side::Server] {
        execute(command(side, "ip".as_ref()), "mptcp limits set subflows 8 add_addr_accepted 8")?;
    }
    for (index, device) in devices.iter().enumerate().skip(1) {
        let address = Side::Client.address(index);
        let line = format!("mptcp endpoint add {address} dev {device} subflow");
        execute(command(Side::Client, "ip".as_ref()), &line)?;
    }
    Ok(())
}

/// As [`prepare_mptcp`], on the paths of an emulated network.
///
/// # Errors
/// [`ProcessError::Program`].
pub fn prepare_emulated(network: &Network) -> Result<(), ProcessError> {
    let devices: Vec<String> = network.scenario().paths.iter().map(|path| path.name.clone()).collect();
    prepare_mptcp(&|side, program| network.command(side, program), &devices)
}

/// Checks every established TCP connection of one side, including subflows that MPTCP opened by itself, and returns
/// their number.
pub(crate) fn assert_congestion(
    command: InNamespace<'_>,
    side: Side,
    wanted: &str,
) -> Result<usize, LabError> {
    let line = "--no-header --tcp --info --numeric --oneline state established";
    let text = execute(command(side, "ss".as_ref()), line)?;
    check_congestion(&text, side, wanted)?;
    Ok(text.lines().count())
}

/// Checks the connections that `ss --info --oneline` lists.
pub(crate) fn check_congestion(connections: &str, side: Side, wanted: &str) -> Result<(), LabError> {
    let known = tributary_net::sockopt::available_congestion();
    let side = match side {
        Side::Client => "client",
        Side::Server => "server",
    };
    for connection in connections.lines() {
        let actual = connection.split_whitespace().find(|word| known.split(", ").any(|name| name == *word));
        if actual.is_some_and(|actual| actual != wanted) {
            let actual = actual.unwrap_or_default().to_owned();
            return Err(LabError::Congestion { side, wanted: wanted.to_owned(), actual });
        }
    }
    Ok(())
}

/// TCP counters of a network namespace since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Segments sent, without retransmissions.
    pub sent: u64,
    /// Segments retransmitted.
    pub again: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
}

impl TcpCounters {
    /// The counters of the calling thread's namespace.
    ///
    /// # Errors
    /// procfs cannot be read, or lacks a counter.
    pub fn here() -> std::io::Result<Self> {
        // `/proc/net` is that of the process's first thread, which may be in another namespace.
        let table = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        Self::parse(&table("snmp")?, &table("netstat")?)
    }

    /// Reads two tables that have, for each protocol, a line of names and a line of values.
    fn parse(snmp: &str, netstat: &str) -> std::io::Result<Self> {
        let value = |text: &str, protocol: &str, name: &str| {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
            let (names, values) = lines.next().zip(lines.next())?;
            let at = names.split_whitespace().position(|known| known == name)?;
            values.split_whitespace().nth(at)?.parse().ok()
        };
        let find = |text, protocol, name: &str| {
            let missing = || std::io::Error::other(format!("the kernel has no TCP counter {name}"));
            value(text, protocol, name).ok_or_else(missing)
        };
        Ok(Self {
            sent: find(snmp, "Tcp:", "OutSegs")?,
            again: find(snmp, "Tcp:", "RetransSegs")?,
            timeouts: find(netstat, "TcpExt:", "TCPTimeouts")?,
        })
    }

    /// The increase since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            again: self.again.saturating_sub(before.again),
            timeouts: self.timeouts.saturating_sub(before.timeouts),
        }
    }
}

fn execute(mut command: Command, arguments: &str) -> Result<String, ProcessError> {
    command.args(arguments.split(' '));
    output(command, "iproute2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let snmp = "Ip: A B\nIp: 9 9\nTcp: RtoMin RetransSegs OutSegs\nTcp: 200 3 100\n";
        let netstat = "TcpExt: X TCPTimeouts\nTcpExt: 1 2\nIpExt: A\nIpExt: 7\n";
        let counters = TcpCounters::parse(snmp, netstat).expect("they are there");
        assert_eq!(counters, TcpCounters { sent: 100, again: 3, timeouts: 2 });
        let error = TcpCounters::parse(snmp, "TcpExt: X\nTcpExt: 1\n").unwrap_err();
        assert!(error.to_string().contains("TCPTimeouts"), "{error}");
    }
}
