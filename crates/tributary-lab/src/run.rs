//! One run on real sockets. Every run has new namespaces, so that no cached kernel state is passed from one transport
//! to the next.

use crate::cell::Cell;
use crate::endpoint::{ClientReport, Plan, Reply, Role};
use crate::error::LabError;
use crate::kernel;
use crate::messages::MessageFlow;
use crate::process::{Process, ProcessError, own_program};
use crate::result::{NetworkReport, RunResult};
use core::time::Duration;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::time::Instant;
use tributary_emu::{Network, Side};
use tributary_net::Key;
use tributary_proto::transport::TransportName;

/// Time limit for an endpoint to start and connect, including loading the video from the cache.
const START: Duration = Duration::from_secs(60);
/// Time limit for the kernel to show the connections at both ends after the client is connected, and interval of looks.
const SHOWN: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);
/// Time limit for the client's answer, in addition to the workload's duration.
const GRACE: Duration = Duration::from_secs(10);

/// Makes one run. If the emulator finds it invalid, repeats it, up to [`Cell::attempts`] attempts in total.
///
/// # Errors
/// [`LabError`]; bad performance is a result, not an error.
pub fn run(cell: &Cell) -> Result<RunResult, LabError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let mut result = once(cell)?;
        result.audit.attempts = attempts;
        if result.audit.valid || attempts >= cell.attempts {
            return Ok(result);
        }
        tracing::info!("repeated, the emulator was not exact: {}", result.audit.reasons.join("; "));
    }
}

fn once(cell: &Cell) -> Result<RunResult, LabError> {
    let network = Network::start(&cell.network())?;
    if let TransportName::Mptcp { .. } = cell.transport {
        kernel::prepare_emulated(&network)?;
    }
    let key = Key::generate()?.to_line();
    let used = cell.transport.paths(&cell.scenario.path_names());
    let addresses = used.iter().map(|path| Side::Server.address(*path)).collect();
    let role = Role::Server { addresses, video: cell.video.clone() };
    let mut server = start("server", &network, Side::Server, &plan(cell, &key, role))?;
    let listening = match answer(&server, START)? {
        Reply::Ready(addresses) => addresses,
        other => return Err(unexpected(&server, &other)),
    };
    let client = measure(cell, &network, &key, (&used, &listening))?;
    let report = NetworkReport { audit: network.audit()?, links: network.link_log()? };
    server.close();
    let served = match answer(&server, GRACE)? {
        Reply::Served(served) => served,
        other => return Err(unexpected(&server, &other)),
    };
    let cell = Cell { scenario: network.scenario().clone(), ..cell.clone() };
    Ok(RunResult::new(&cell, client, &served, &report))
}

fn plan(cell: &Cell, key: &str, role: Role) -> Plan {
    Plan {
        transport: cell.transport.clone(),
        session: cell.session.clone(),
        congestion: cell.congestion.clone(),
        key: key.to_owned(),
        limit: (START + cell.workload.duration() + GRACE).as_secs_f64(),
        threads: cell.threads,
        windows: cell.windows,
        messages: cell.messages.iter().map(MessageFlow::bounded).collect(),
        role,
    }
}

/// Starts an endpoint in its namespace and sends it its plan.
fn start(name: &str, network: &Network, side: Side, plan: &Plan) -> Result<Process, ProcessError> {
    let mut command = network.command(side, own_program()?);
    command.arg("endpoint");
    let mut endpoint = Process::start(name, command)?;
    endpoint.tell(plan)?;
    Ok(endpoint)
}

/// Connects a client, restarts the scenario, and starts the client at the same moment.
fn measure(
    cell: &Cell,
    network: &Network,
    key: &str,
    (used, listening): (&[usize], &[SocketAddr]),
) -> Result<ClientReport, LabError> {
    let paths = used.iter().zip(listening).map(|(path, server)| (Side::Client.address(*path), *server));
    let role = Role::Client { paths: paths.collect(), workload: cell.workload.clone() };
    let mut client = start("client", network, Side::Client, &plan(cell, key, role))?;
    match answer(&client, START)? {
        Reply::Connected => {}
        other => return Err(unexpected(&client, &other)),
    }
    // The server's connection is established half a round trip after the client's.
    let until = Instant::now() + SHOWN;
    for side in [Side::Client, Side::Server] {
        let command = |side, program: &OsStr| network.command(side, program);
        while kernel::assert_congestion(&command, side, &cell.congestion)? == 0 && !cell.transport.is_quic() {
            if Instant::now() >= until {
                return Err(client.failed("connected, but the kernel shows no connection").into());
            }
            std::thread::sleep(LOOK);
        }
    }
    network.rewind()?;
    client.tell(&"begin")?;
    match answer(&client, cell.workload.duration() + GRACE)? {
        Reply::Measured(report) => Ok(*report),
        other => Err(unexpected(&client, &other)),
    }
}

/// The endpoint's next answer; a failure that it reports is an error.
fn answer(endpoint: &Process, within: Duration) -> Result<Reply, ProcessError> {
    match endpoint.answer(within)? {
        Reply::Failed(reason) => Err(endpoint.failed(reason)),
        reply => Ok(reply),
    }
}

fn unexpected(endpoint: &Process, reply: &Reply) -> LabError {
    endpoint.failed(format!("unexpected reply: {reply:?}")).into()
}
