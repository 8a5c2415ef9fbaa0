//! One run on real sockets. Every run has new namespaces, so that no cached kernel state is passed from one transport
//! to the next.

use crate::audits;
use crate::cell::Run;
use crate::endpoint::{ClientReport, Reply, Role, Task};
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

/// Makes one run. If the emulator finds it invalid, repeats it, up to [`Run::attempts`] attempts in total.
///
/// # Errors
/// [`LabError`]; bad performance is a result, not an error.
pub fn run(cell: &Run) -> Result<RunResult, LabError> {
    let (result, audit) = audits::exact(cell.attempts, || {
        let result = once(cell)?;
        let audit = result.audit.clone();
        Ok::<_, LabError>((result, audit))
    })?;
    Ok(RunResult { audit, ..result })
}

fn once(cell: &Run) -> Result<RunResult, LabError> {
    let network = Network::start(&cell.network())?;
    if let TransportName::Mptcp { .. } = cell.transport {
        kernel::prepare_emulated(&network)?;
    }
    let key = Key::generate()?.to_line();
    let used = cell.transport.paths(&cell.scenario.path_names());
    let addresses = used.iter().map(|path| Side::Server.address(*path)).collect();
    let role = Role::Server { addresses, video: cell.video.clone() };
    let mut server = start("server", &network, Side::Server, &task(cell, &key, role))?;
    let listening = match server.reply(START)? {
        Reply::Ready(addresses) => addresses,
        other => return Err(unexpected(&server, &other)),
    };
    let client = measure(cell, &network, &key, (&used, &listening))?;
    let report = NetworkReport { audit: network.audit()?, links: network.link_log()? };
    server.close();
    let served = match server.reply(GRACE)? {
        Reply::Served(served) => served,
        other => return Err(unexpected(&server, &other)),
    };
    let cell = Run { scenario: network.scenario().clone(), ..cell.clone() };
    Ok(RunResult::new(&cell, client, &served, &report))
}

fn task(cell: &Run, key: &str, role: Role) -> Task {
    Task {
        transport: cell.transport.clone(),
        session: cell.session.clone(),
        congestion: cell.congestion.clone(),
        inner_quic: cell.inner_quic.clone(),
        key: key.to_owned(),
        limit: (START + cell.workload.duration() + GRACE).as_secs_f64(),
        threads: cell.threads,
        windows: cell.windows,
        messages: cell.messages.iter().map(MessageFlow::bounded).collect(),
        role,
    }
}

/// Starts an endpoint in its namespace and sends it its task.
fn start(name: &str, network: &Network, side: Side, task: &Task) -> Result<Process, ProcessError> {
    Process::endpoint(name, network.command(side, own_program()?), "run", task)
}

/// Connects a client, restarts the scenario, and starts the client at the same moment.
fn measure(
    cell: &Run,
    network: &Network,
    key: &str,
    (used, listening): (&[usize], &[SocketAddr]),
) -> Result<ClientReport, LabError> {
    let paths = used.iter().zip(listening).map(|(path, server)| (Side::Client.address(*path), *server));
    let role = Role::Client { paths: paths.collect(), workload: cell.workload.clone() };
    let mut client = start("client", network, Side::Client, &task(cell, key, role))?;
    match client.reply(START)? {
        Reply::Connected => {}
        other => return Err(unexpected(&client, &other)),
    }
    // The server's connection is established half a round trip after the client's.
    let until = Instant::now() + SHOWN;
    for side in [Side::Client, Side::Server] {
        let command = |side, program: &OsStr| network.command(side, program);
        let connections = || kernel::assert_congestion(&command, side, &cell.congestion);
        if cell.session.quic && connections()? > 0 {
            return Err(client.failed("a subflow is on TCP, although QUIC was asked for").into());
        }
        while !(cell.session.quic || cell.transport.is_quic()) && connections()? == 0 {
            if Instant::now() >= until {
                return Err(client.failed("connected, but the kernel shows no connection").into());
            }
            std::thread::sleep(LOOK);
        }
    }
    network.rewind()?;
    client.tell(&"begin")?;
    match client.reply(cell.workload.duration() + GRACE)? {
        Reply::Measured(report) => Ok(*report),
        other => Err(unexpected(&client, &other)),
    }
}

fn unexpected(endpoint: &Process, reply: &Reply) -> LabError {
    endpoint.failed(format!("unexpected reply: {reply:?}")).into()
}
