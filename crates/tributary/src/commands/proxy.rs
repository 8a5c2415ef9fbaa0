//! `tributary serve` and `tributary connect`: the two ends of the proxy.

use super::output;
use crate::cli::{ConnectArguments, ServeArguments, SessionArguments};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tributary_net::proxy::{ForwardConfig, Forwarder, PriorityRule, PriorityRules, ServeConfig, Server};
use tributary_net::{Common, ConnectConfig, Key, Limits, ListenConfig};

/// Time for the first path to come up.
const CONNECT: Duration = Duration::from_secs(10);
/// Scheduler where none is named, and where something is to go first.
const SCHEDULER: &str = "fbdt";
const WITH_PRIORITIES: &str = "avira+fbdt";

pub(crate) fn serve(arguments: ServeArguments) -> Result<ExitCode> {
    let common = common(&arguments.session)?;
    let priorities = priorities(&arguments.session)?;
    let listen = ListenConfig { addresses: arguments.listen, common, limits: Limits::default() };
    runtime()?.block_on(async {
        let server = Server::bind(ServeConfig { listen, forward: arguments.forward, priorities }).await?;
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
    let priorities = priorities(&arguments.session)?;
    let (listen, json_events) = (arguments.listen, arguments.json_events);
    let config = ForwardConfig { connect, listen, priorities, json_events };
    runtime()?.block_on(async {
        let forwarder = Forwarder::bind(config).await?;
        announce(&forwarder.addresses(), arguments.json)?;
        forwarder.run().await;
        Ok(ExitCode::SUCCESS)
    })
}

fn priorities(arguments: &SessionArguments) -> Result<PriorityRules> {
    let rules = arguments.priority.iter().map(|rule| rule.parse::<PriorityRule>());
    Ok(rules.collect::<Result<_, _>>()?)
}

fn common(arguments: &SessionArguments) -> Result<Common> {
    let mut common = Common::new(Key::load(&arguments.key)?);
    let default = if arguments.priority.is_empty() { SCHEDULER } else { WITH_PRIORITIES };
    common.session.scheduler = arguments.scheduler.clone().unwrap_or_else(|| default.to_owned());
    if let Some((latency, throughput)) = arguments.weights {
        (common.session.weights.latency, common.session.weights.throughput) = (latency, throughput);
    }
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
