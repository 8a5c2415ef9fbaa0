//! Starts the two ends of a transfer and collects what they measured; never waits without limit.

use super::end::{Carrier, EndPlan, EndReply, EndResult, EndRole, Until};
use super::{BenchError, own_program};
use core::time::Duration;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use tributary_emu::Side;

/// Time for an end to start.
const START: Duration = Duration::from_secs(15);
/// Time beyond the transfer's own. A transfer of known size may take a second for 20 MB.
const GRACE: Duration = Duration::from_secs(20);

/// One transfer between two namespaces.
pub(super) struct Transfer<'a> {
    /// Makes a command of one side.
    pub command: &'a dyn Fn(Side, &std::path::Path) -> Command,
    /// Paths to use.
    pub paths: usize,
    pub carrier: Carrier,
    pub until: Until,
    pub window: Option<usize>,
}

impl Transfer<'_> {
    /// Carries it out; the client is the source. Returns what source and sink measured.
    pub(super) fn run(&self) -> Result<(EndResult, EndResult), BenchError> {
        let servers = (0..self.paths).map(|path| Side::Server.address(path)).collect();
        let sink = self.start(Side::Server, EndRole::Sink(servers))?;
        let listening = match sink.answer(START)? {
            EndReply::Ready(addresses) => addresses,
            other => return Err(sink.failed(format!("answered out of turn: {other:?}"))),
        };
        let paths = listening.iter().enumerate().map(|(path, server)| (Side::Client.address(path), *server));
        let paths: Vec<(std::net::Ipv4Addr, SocketAddr)> = paths.collect();
        let source = self.start(Side::Client, EndRole::Source(paths))?;
        let within = GRACE + self.longest();
        Ok((source.result(within)?, sink.result(within)?))
    }

    fn longest(&self) -> Duration {
        match self.until {
            Until::Seconds(seconds) | Until::Idle(seconds) => Duration::from_secs_f64(seconds),
            Until::Bytes(bytes) => Duration::from_secs(bytes / 20_000_000),
        }
    }

    fn start(&self, side: Side, role: EndRole) -> Result<End, BenchError> {
        let program = own_program()?;
        let plan = EndPlan { carrier: self.carrier, until: self.until, window: self.window, role };
        let mut command = (self.command)(side, &program);
        command.args(["bench", "end", &serde_json::to_string(&plan).expect("plans have string keys only")]);
        let side = if side == Side::Server { "sink" } else { "source" };
        let carrier = self.carrier.label();
        let failed = |error: std::io::Error| BenchError::End { side, carrier, reason: error.to_string() };
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let output = child.stdout.take().expect("standard output was piped");
        let lines = tributary_lab::process::lines_of(output);
        Ok(End { child, lines, side, carrier })
    }
}

/// A running end, killed when dropped.
struct End {
    child: Child,
    lines: Receiver<String>,
    side: &'static str,
    carrier: &'static str,
}

impl End {
    fn failed(&self, reason: String) -> BenchError {
        BenchError::End { side: self.side, carrier: self.carrier, reason }
    }

    fn answer(&self, within: Duration) -> Result<EndReply, BenchError> {
        let line = self.lines.recv_timeout(within);
        let line = line.map_err(|error| self.failed(format!("no answer within {within:?}: {error}")))?;
        match serde_json::from_str(&line) {
            Ok(EndReply::Failed(reason)) => Err(self.failed(reason)),
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.failed(format!("answered `{line}`: {error}"))),
        }
    }

    fn result(&self, within: Duration) -> Result<EndResult, BenchError> {
        match self.answer(within)? {
            EndReply::Done(result) => Ok(result),
            other => Err(self.failed(format!("answered out of turn: {other:?}"))),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Allows MPTCP subflows on every path of a veth network and has the client open them.
pub(super) fn prepare_mptcp(network: &tributary_emu::VethNetwork) -> Result<(), BenchError> {
    let names: Vec<String> = (0..network.paths()).map(tributary_emu::VethNetwork::interface).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    prepare_mptcp_on(&|side, program| network.command(side, program), &names)
}

/// The same on any network, whose client has these interfaces.
pub(super) fn prepare_mptcp_on(command: Commands<'_>, interfaces: &[&str]) -> Result<(), BenchError> {
    for side in [Side::Client, Side::Server] {
        ip(command(side, "ip"), "mptcp limits set subflows 8 add_addr_accepted 8")?;
    }
    for (path, device) in interfaces.iter().enumerate().skip(1) {
        let address = Side::Client.address(path);
        ip(command(Side::Client, "ip"), &format!("mptcp endpoint add {address} dev {device} subflow"))?;
    }
    Ok(())
}

/// Makes a command of one side.
type Commands<'a> = &'a dyn Fn(Side, &str) -> Command;

/// Runs `ip` with the words of a line.
pub(super) fn ip(mut command: Command, line: &str) -> Result<(), BenchError> {
    let program = || format!("ip {line} (Debian package iproute2)");
    let failed = |reason: String| BenchError::Program { program: program(), reason };
    let output = command.args(line.split(' ')).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
