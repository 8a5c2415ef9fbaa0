//! What the experiments ask of the kernel by iproute2: MPTCP's endpoints, and which congestion control
//! every established connection really runs.

use crate::run::LabError;
use tributary_emu::{Network, Side};

/// Allows subflows on every path at both ends, and has the client open one on each.
pub(crate) fn prepare_mptcp(network: &Network) -> Result<(), LabError> {
    let paths = &network.scenario().paths;
    for side in [Side::Client, Side::Server] {
        execute(network, side, "ip mptcp limits set subflows 8 add_addr_accepted 8")?;
    }
    for (index, path) in paths.iter().enumerate().skip(1) {
        let address = Side::Client.address(index);
        execute(
            network,
            Side::Client,
            &format!("ip mptcp endpoint add {address} dev {} subflow", path.name),
        )?;
    }
    Ok(())
}

/// Checks every established TCP connection of one side, the subflows that MPTCP opened by itself
/// included.
pub(crate) fn assert_congestion(network: &Network, side: Side, wanted: &str) -> Result<(), LabError> {
    let known = tributary_net::sockopt::available_congestion();
    let text = execute(network, side, "ss --no-header --tcp --info --numeric --oneline state established")?;
    let side = match side {
        Side::Client => "client",
        Side::Server => "server",
    };
    for connection in text.lines() {
        let actual = connection.split_whitespace().find(|word| known.split(", ").any(|name| name == *word));
        if actual.is_some_and(|actual| actual != wanted) {
            let actual = actual.unwrap_or_default().to_owned();
            return Err(LabError::Congestion { side, wanted: wanted.to_owned(), actual });
        }
    }
    Ok(())
}

fn execute(network: &Network, side: Side, line: &str) -> Result<String, LabError> {
    let failed = |reason| LabError::Program { program: line.to_owned(), package: "iproute2", reason };
    let mut words = line.split(' ');
    let output = network.command(side, words.next().unwrap_or_default()).args(words).output();
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        Err(error) => Err(failed(error.to_string())),
    }
}
