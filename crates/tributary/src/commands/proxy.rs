//! `tributary serve` and `tributary connect`: the two ends of the proxy.

use super::{status, stop};
use crate::cli::{ConnectArguments, ServeArguments, SessionArguments};
use crate::keys::{self, ClientKeys, ClientList};
use crate::paths::{self, PathArguments};
use anyhow::{Context, Result};
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::EnvFilter;
use tributary_cli::output;
use tributary_net::privileges::{Needs, Privileges};
use tributary_net::proxy::{
    Entrance, EventLogConfig, ForwardConfig, Forwarder, PriorityRule, PriorityRules, ServeConfig, Server,
};
use tributary_net::{Common, ConnectConfig, Keys, ListenConfig, Local, PathConfig};

/// Time for the first path to come up.
const CONNECT: Duration = Duration::from_secs(10);
/// Polls of tasks between two looks at the network, in each of which a session works for 0.2 ms at most. The runtime's default
/// is 61. A round trip through the proxy needs two looks at each end.
const EVENT_INTERVAL: u32 = 11;
/// Log level when `RUST_LOG` is not set.
pub(super) const LOG: &str = "warn,tributary=info,tributary_net=info,tributary_dash=info";
/// Default scheduler, without and with priorities.
const SCHEDULER: &str = "fbdt";
const WITH_PRIORITIES: &str = "avira+fbdt";

pub(crate) fn serve(arguments: ServeArguments) -> Result<ExitCode> {
    let wait = arguments.wait.map(Duration::from_secs);
    let (keys, list) = arguments.keys.required()?;
    let common = paths::with_wait(common(keys, &arguments.session), wait);
    let priorities = priorities(&arguments.session)?;
    let listen = ListenConfig { addresses: arguments.listen, common, limits: arguments.memory.limits() };
    let json_events = json_events(&arguments.session);
    let drain = Duration::from_secs(arguments.session.drain);
    let privileges = Privileges::new(user(&arguments.session), needs(&listen.common))?;
    privileges.begin(Needs::of_ports(&listen.addresses))?;
    until_stopped(&privileges, async {
        keys::say(Some(&listen.common.keys));
        list.map(ClientList::follow).transpose()?;
        let allow = arguments.allow.into_iter().collect();
        let config = ServeConfig { listen, targets: arguments.forward, allow, priorities, json_events };
        let server = Server::bind(config).await?.with_udp(arguments.udp)?;
        privileges.finish()?;
        announce(server.addresses(), arguments.json)?;
        let _shown = status::show_proxy("serve", server.addresses(), server.watch());
        stop::run(|stopped| server.run_until(async { drop(stopped.await) }, drain)).await
    })
}

/// Capabilities that sockets with these settings need while the program runs.
pub(super) fn needs(common: &Common) -> Needs {
    let congestion = common.congestion.as_deref();
    let marks = if common.siblings.is_marking(congestion) { Needs::of_marks() } else { Needs::default() };
    Needs::of_congestion(congestion).and(marks)
}

/// Capabilities that the paths' sockets need while the program runs.
pub(super) fn needs_of_paths(paths: &[PathConfig]) -> Needs {
    let is_bound = paths.iter().any(|path| matches!(path.local, Local::Interface(_) | Local::Auto));
    if is_bound { Needs::of_interfaces() } else { Needs::default() }
}

/// Whether packets to this address have a route. Nothing is sent.
pub(super) fn has_route(address: SocketAddr) -> bool {
    let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    std::net::UdpSocket::bind(any).and_then(|socket| socket.connect(address)).is_ok()
}

fn user(arguments: &SessionArguments) -> Option<&str> {
    arguments.user.user.as_deref()
}

/// Runs `work` on threads with limited privileges. The calling thread, which runs `work` itself, gives up its own when
/// everything is bound. Does not wait at the end for blocked threads, for example the resolver's.
pub(super) fn until_stopped(
    privileges: &Privileges,
    work: impl Future<Output = Result<ExitCode>>,
) -> Result<ExitCode> {
    let runtime = limited_runtime(privileges)?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

pub(crate) fn connect(arguments: ConnectArguments) -> Result<ExitCode> {
    let mut listen = arguments.listen;
    for address in arguments.socks {
        listen.push(Entrance::requested(address, arguments.socks_remote)?);
    }
    let config = forward_config(&arguments.paths, (&arguments.keys, &arguments.session), listen)?;
    let drain = Duration::from_secs(arguments.session.drain);
    let keep = needs(&config.connect.common).and(needs_of_paths(&config.connect.paths));
    let privileges = Privileges::new(user(&arguments.session), keep)?;
    let entrances = config.listen.iter().chain(&arguments.udp);
    privileges.begin(Needs::of_ports(entrances.map(|entrance| &entrance.address)))?;
    until_stopped(&privileges, async {
        keys::say(Some(&config.connect.common.keys));
        let forwarder = Forwarder::bind(config).await?.with_udp(arguments.udp).await?;
        privileges.finish()?;
        announce(&forwarder.addresses(), arguments.json)?;
        let _shown = status::show_proxy("connect", &forwarder.addresses(), forwarder.watch());
        stop::run(|stopped| forwarder.run_until(async { drop(stopped.await) }, drain)).await
    })
}

/// The settings of a client side.
pub(super) fn forward_config(
    paths: &PathArguments,
    (keys, session): (&ClientKeys, &SessionArguments),
    listen: Vec<Entrance>,
) -> Result<ForwardConfig> {
    let wait = paths.wait();
    let common = paths::with_wait(common(keys.required()?, session), wait);
    let connect = ConnectConfig { paths: paths.paths()?, common, timeout: CONNECT };
    Ok(ForwardConfig {
        connect,
        listen,
        priorities: priorities(session)?,
        json_events: json_events(session),
        wait,
    })
}

fn json_events(arguments: &SessionArguments) -> Option<EventLogConfig> {
    let path = arguments.json_events.clone()?;
    Some(EventLogConfig { path, decisions: arguments.json_decisions })
}

fn priorities(arguments: &SessionArguments) -> Result<PriorityRules> {
    let rules = arguments.priority.iter().map(|rule| rule.parse::<PriorityRule>());
    Ok(rules.collect::<Result<_, _>>()?)
}

fn common(keys: Keys, arguments: &SessionArguments) -> Common {
    let mut common = Common::new(keys);
    let default = if arguments.priority.is_empty() { SCHEDULER } else { WITH_PRIORITIES };
    common.session.scheduler = arguments.scheduler.clone().unwrap_or_else(|| default.to_owned());
    if let Some((latency, throughput)) = arguments.weights {
        (common.session.weights.latency, common.session.weights.throughput) = (latency, throughput);
    }
    common.congestion.clone_from(&arguments.congestion);
    common.siblings = arguments.mark;
    common.plaintext = arguments.plaintext;
    common.session.unsent = Some(Duration::from_millis(arguments.buffer));
    common
}

/// A runtime, and the log.
pub(super) fn runtime() -> Result<Runtime> {
    start_log(LOG)?;
    plain_runtime()
}

/// A runtime whose threads have the privileges of the calling one.
pub(super) fn plain_runtime() -> Result<Runtime> {
    builder().build().context("starting the runtime")
}

fn builder() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.event_interval(EVENT_INTERVAL).enable_all();
    builder
}

/// A runtime whose threads have only the privileges that the program keeps.
pub(super) fn limited_runtime(privileges: &Privileges) -> Result<Runtime> {
    start_log(LOG)?;
    let privileges = privileges.clone();
    let limit =
        move || privileges.finish().expect("a thread may give up privileges that another one gave up");
    builder().on_thread_start(limit).build().context("starting the runtime")
}

/// Writes the log to standard error, at this level unless `RUST_LOG` says otherwise.
pub(super) fn start_log(default: &str) -> Result<()> {
    let directives = std::env::var("RUST_LOG").unwrap_or_default();
    let filter = match directives.as_str() {
        "" => EnvFilter::new(default),
        directives => EnvFilter::try_new(directives)
            .with_context(|| format!("RUST_LOG `{directives}`: expected a level, for example info"))?,
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| status::LogWriter);
    log.with_ansi(std::io::stderr().is_terminal()).with_target(false).init();
    Ok(())
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
