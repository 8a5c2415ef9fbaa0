//! Uses iproute2 to configure MPTCP endpoints and to check which congestion control each connection runs.

use crate::error::LabError;
use crate::process::{ProcessError, output};
use std::ffi::OsStr;
use std::process::Command;
use tributary_emu::{Network, Side};

/// Starts a program in one side's namespace.
pub type InNamespace<'a> = &'a dyn Fn(Side, &OsStr) -> Command;

/// Allows subflows on every path at both ends, and has the client open one on each. `devices` are the paths'
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

/// Checks every established TCP connection of one side, the subflows that MPTCP opened by itself
/// included, and returns how many there are.
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

fn execute(mut command: Command, arguments: &str) -> Result<String, ProcessError> {
    command.args(arguments.split(' '));
    output(command, "iproute2")
}
