//! `tributary serve` and `tributary connect`: the two ends of the proxy.

use super::output;
use crate::cli::{ConnectArguments, ServeArguments, SessionArguments};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tributary_net::proxy::{ForwardConfig, Forwarder, ServeConfig, Server};
use tributary_net::{Common, ConnectConfig, Key, Limits, ListenConfig};

/// Time for the first path to come up.
const CONNECT: Duration = Duration::from_secs(10);

pub(crate) fn serve(arguments: ServeArguments) -> Result<ExitCode> {
    let common = common(&arguments.session)?;
    let listen = ListenConfig { addresses: arguments.listen, common, limits: Limits::default() };
    runtime()?.block_on(async {
        let server = Server::bind(ServeConfig { listen, forward: arguments.forward }).await?;
        announce(server.addresses(), arguments.json)?;
        server.run().await;
        Ok(ExitCode::SUCCESS)
    })
}

pub(crate) fn connect(arguments: ConnectArguments) -> Result<ExitCode> {
    let common = common(&arguments.session)?;
    let paths = arguments.paths.iter().map(|path| path.parse());
    let paths = paths.collect::<Result<Vec<_>, tributary_net::PathError>>()?;
    let connect = ConnectConfig { paths, common, timeout: CONNECT };
    let config = ForwardConfig { connect, listen: arguments.listen, json_events: arguments.json_events };
    runtime()?.block_on(async {
        let forwarder = Forwarder::bind(config).await?;
        announce(forwarder.address().as_slice(), arguments.json)?;
        forwarder.run().await;
        Ok(ExitCode::SUCCESS)
    })
}

fn common(arguments: &SessionArguments) -> Result<Common> {
    let mut common = Common::new(Key::load(&arguments.key)?);
    common.session.scheduler.clone_from(&arguments.scheduler);
    common.congestion.clone_from(&arguments.congestion);
    common.plaintext = arguments.plaintext;
    Ok(common)
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")
}

pub(super) fn announce(addresses: &[SocketAddr], json: bool) -> Result<()> {
    if json {
        return output::line(&serde_json::json!({ "listening": addresses }).to_string());
    }
    for address in addresses {
        output::line(&format!("listening on {address}"))?;
    }
    Ok(())
}
