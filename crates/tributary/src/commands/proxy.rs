//! `tributary serve` and `tributary connect`: the two ends of the proxy.

pub(super) mod control;

use super::stop;
use crate::cli::{ConnectArguments, ServeArguments, SessionArguments};
use crate::keys::{self, ClientKeys, ClientList};
use crate::paths::{self, PathArguments};
use crate::service::ending::Ending;
use crate::service::reload::{Reload, SettingsFile};
use crate::service::{Control, log, manager};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tributary_cli::output;
use tributary_net::privileges::{Needs, Privileges};
use tributary_net::proxy::{
    Entrance, EventLogConfig, EventLogForm, ForwardConfig, Forwarder, PriorityRule, PriorityRules,
    ServeConfig, Server,
};
use tributary_net::{Common, ConnectConfig, Keys, ListenConfig, Local, PathConfig};

/// Time for the first path to come up.
const CONNECT: Duration = Duration::from_secs(10);
/// Polls of tasks between two looks at the network, in each of which a session works for 0.2 ms at most. The runtime's default
/// is 61. A round trip through the proxy needs two looks at each end.
const EVENT_INTERVAL: u32 = 11;
/// Default scheduler, without and with priorities.
const SCHEDULER: &str = "fbdt";
const WITH_PRIORITIES: &str = "avira+fbdt";

/// What `serve` starts with.
struct Serving {
    config: ServeConfig,
    list: Option<ClientList>,
    drain: Duration,
}

impl Serving {
    fn new(arguments: &ServeArguments) -> Result<Self> {
        let wait = arguments.wait.map(Duration::from_secs);
        let (keys, list) = arguments.keys.required()?;
        let session = &arguments.session;
        let common = paths::with_wait(common(keys, session), wait);
        let (addresses, limits) = (arguments.listen.clone(), arguments.memory.limits());
        let config = ServeConfig {
            listen: ListenConfig {
                own: arguments.address.clone(),
                limits,
                ..ListenConfig::new(addresses, common)
            },
            targets: arguments.forward.clone(),
            udp: arguments.udp.clone(),
            allow: arguments.allow.iter().cloned().collect(),
            priorities: priorities(session)?,
            json_events: json_events(session),
        };
        config.check()?;
        Ok(Self { config, list, drain: Duration::from_secs(session.drain) })
    }
}

/// Checks what can be checked before `serve` starts.
pub(super) fn check_serve(arguments: &ServeArguments) -> Result<()> {
    arguments.session.service.check()?;
    Serving::new(arguments).map(drop)
}

pub(crate) fn serve(
    arguments: ServeArguments,
    file: Option<SettingsFile<ServeArguments>>,
) -> Result<ExitCode> {
    let Serving { mut config, list, drain } = Serving::new(&arguments)?;
    let passed = manager::passed(config.listen.ports(), arguments.session.service.metrics())?;
    config.listen.passed = passed.clone();
    let ServeArguments { session, json, .. } = arguments;
    let listen = &config.listen;
    let privileges = Privileges::new(user(&session), needs(&listen.common))?;
    privileges.begin(Needs::of_ports(listen.addresses.iter().chain(&session.service.metrics())))?;
    until_stopped(&privileges, session.service.log_format, async {
        keys::say(Some(&config.listen.common.keys));
        list.map(ClientList::follow).transpose()?;
        let service = session.service.begin_with(&passed)?;
        let server = Server::bind(config).await?;
        let reload =
            file.map(|file| Reload::new(file, control::SERVE, control::apply_serve(server.control())));
        reload.as_ref().map(Reload::follow).transpose()?;
        privileges.finish()?;
        announce(server.addresses(), json)?;
        let ending = Ending::default();
        let methods = Box::new(control::ServeMethods(server.control()));
        let control = Control { methods, ..Control::new(&ending, reload) };
        let _shown = service.show_proxy("serve", server.addresses(), control, server.watch());
        stop::run(&ending, |stopped| server.run_until(async { drop(stopped.await) }, drain)).await
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
    format: log::Format,
    work: impl Future<Output = Result<ExitCode>>,
) -> Result<ExitCode> {
    let runtime = limited_runtime(privileges, format)?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

/// Checks what can be checked before `connect` starts.
pub(super) fn check_connect(arguments: &ConnectArguments) -> Result<()> {
    arguments.session.service.check()?;
    connect_config(arguments).map(drop)
}

fn connect_config(arguments: &ConnectArguments) -> Result<ForwardConfig> {
    let mut listen = arguments.listen.clone();
    for address in &arguments.socks {
        listen.push(Entrance::requested(*address, arguments.socks_remote)?);
    }
    let config = ForwardConfig {
        udp: arguments.udp.clone(),
        ..forward_config(&arguments.paths, (&arguments.keys, &arguments.session), listen)?
    };
    config.check()?;
    Ok(config)
}

pub(crate) fn connect(
    arguments: ConnectArguments,
    file: Option<SettingsFile<ConnectArguments>>,
) -> Result<ExitCode> {
    let config = connect_config(&arguments)?;
    let drain = Duration::from_secs(arguments.session.drain);
    let keep = needs(&config.connect.common).and(needs_of_paths(&config.connect.paths));
    let privileges = Privileges::new(user(&arguments.session), keep)?;
    let service = &arguments.session.service;
    let entrances = config.listen.iter().chain(&config.udp).map(|entrance| &entrance.address);
    privileges.begin(Needs::of_ports(entrances.chain(&service.metrics())))?;
    until_stopped(&privileges, service.log_format, async {
        keys::say(Some(&config.connect.common.keys));
        let service = service.begin()?;
        let forwarder = Forwarder::bind(config).await?;
        let reload =
            file.map(|file| Reload::new(file, control::CLIENT, control::apply_connect(forwarder.control())));
        reload.as_ref().map(Reload::follow).transpose()?;
        privileges.finish()?;
        announce_all(&forwarder.addresses(), &forwarder.udp_addresses(), arguments.json)?;
        let ending = Ending::default();
        let control = client_control(&forwarder, &arguments.paths, (&ending, reload));
        let _shown = service.show_proxy("connect", &forwarder.addresses(), control, forwarder.watch());
        stop::run(&ending, |stopped| forwarder.run_until(async { drop(stopped.await) }, drain)).await
    })
}

/// How a running client can be changed.
pub(super) fn client_control(
    forwarder: &Forwarder,
    paths: &PathArguments,
    (ending, reload): (&Ending, Option<Reload>),
) -> Control {
    let server = paths.server().map(str::to_owned);
    let methods = Box::new(control::ClientMethods { control: forwarder.control(), server });
    Control { methods, ..Control::new(ending, reload) }
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
        udp: Vec::new(),
        priorities: priorities(session)?,
        json_events: json_events(session),
        wait,
    })
}

fn json_events(arguments: &SessionArguments) -> Option<EventLogConfig> {
    if let Some(path) = arguments.qlog.clone() {
        return Some(EventLogConfig { path, decisions: true, form: EventLogForm::Qlog });
    }
    let path = arguments.json_events.clone()?;
    Some(EventLogConfig { path, decisions: arguments.json_decisions, form: EventLogForm::Lines })
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
    common.quic = arguments.quic;
    common.siblings = arguments.mark;
    common.plaintext = arguments.plaintext;
    common.session.unsent = Some(Duration::from_millis(arguments.buffer));
    common
}

/// A runtime, and the log.
pub(super) fn runtime(format: log::Format) -> Result<Runtime> {
    log::start(log::LEVEL, format)?;
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
pub(super) fn limited_runtime(privileges: &Privileges, format: log::Format) -> Result<Runtime> {
    log::start(log::LEVEL, format)?;
    let privileges = privileges.clone();
    let limit =
        move || privileges.finish().expect("a thread may give up privileges that another one gave up");
    builder().on_thread_start(limit).build().context("starting the runtime")
}

pub(super) fn announce(addresses: &[SocketAddr], json: bool) -> Result<()> {
    announce_all(addresses, &[], json)
}

/// `udp`: the addresses for datagrams.
fn announce_all(addresses: &[SocketAddr], udp: &[SocketAddr], json: bool) -> Result<()> {
    if json {
        let mut all = serde_json::json!({ "listening": addresses });
        if !udp.is_empty() {
            all["udp"] = serde_json::json!(udp);
        }
        return output::line(&all.to_string());
    }
    let lines = addresses.iter().map(ToString::to_string);
    for address in lines.chain(udp.iter().map(|address| format!("{address} (UDP)"))) {
        output::line(&format!("listening on {address}"))?;
    }
    Ok(())
}
