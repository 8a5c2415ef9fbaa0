//! `tributary gateway`, `tributary ap`, `tributary device`: flags, the node and its status. Help: `commands.rs`.

use super::{proxy, stop};
use crate::cli::UserArguments;
use crate::service::ending::Ending;
use crate::service::reload::{Apply, Reload, SettingsFile};
use crate::service::{Control, Service, ServiceArguments, log};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use std::cell::RefCell;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tributary_cli::output;
use tributary_net::privileges::{Needs, Privileges};
use tributary_nodes::{Neighbour, NeighbourKey, Neighbourhood, Role, Running, Status, load};

/// Time between two status lines.
const REFRESH: Duration = Duration::from_secs(1);

/// Said at every start with a shared key.
const SHARED: &str = "whoever has it can pose as either end of the hop, and read and change its traffic. Use it between your own \
                      nodes only; for others: tributary keygen at each node, `key`, and the public keys of the neighbours";

/// Flags of every node.
#[derive(Debug, Args, Serialize)]
pub(crate) struct CommonFlags {
    /// File with this node's own private key (see `tributary keygen`); its neighbours name the public one
    ///
    /// Not needed if every neighbour has a shared key, `shared:FILE`: a file of `tributary keygen --shared` that both ends of a
    /// hop have, for nodes of one person only. Whoever has it can pose as either end.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Coding: systematic, paper or off, the same at all nodes [default: systematic]
    #[arg(long)]
    mode: Option<String>,
    /// Length of a cohort in milliseconds, the same at all nodes [default: 2]
    #[arg(long, value_name = "MS")]
    interval_ms: Option<i64>,
    /// How long the device waits for a cohort in milliseconds [default: 30]
    #[arg(long, value_name = "MS")]
    patience_ms: Option<i64>,
    /// Upper limit of redundant packets per packet, the same at all nodes [default: 0.1]
    #[arg(long)]
    redundancy: Option<f64>,
    /// Largest IP packet on any link between the nodes, the same at all nodes [default: 1500]
    #[arg(long, value_name = "BYTES")]
    link_mtu: Option<i64>,
}

/// A TUN device's flags.
#[derive(Debug, Args, Serialize)]
pub(crate) struct InnerFlags {
    /// Name of the TUN device
    #[arg(long, value_name = "NAME")]
    tun: Option<String>,
    /// Address of the TUN device with its prefix length; repeatable
    #[arg(long, value_name = "ADDRESS/BITS")]
    address: Vec<String>,
    /// Network reached through the tunnel; repeatable
    #[arg(long, value_name = "ADDRESS/BITS")]
    route: Vec<String>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct GatewayFlags {
    /// Address and port for the access points
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// An access point and its public key, as `tributary pubkey` prints it there, or shared:FILE; repeatable
    #[arg(long, value_name = "NAME=PUBKEY")]
    access_point: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    inner: InnerFlags,
    /// Network that packets of the device may come from; repeatable [default: the networks routed to the device]
    #[arg(long, value_name = "ADDRESS/BITS")]
    allowed: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    common: CommonFlags,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct AccessPointFlags {
    /// Address and port of the gateway
    #[arg(long, value_name = "ADDRESS:PORT")]
    gateway: Option<String>,
    /// The gateway's public key, as `tributary pubkey` prints it there, or shared:FILE
    #[arg(long, value_name = "PUBKEY")]
    gateway_key: Option<String>,
    /// Address and port for the device
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// The device's public key, as `tributary pubkey` prints it there, or shared:FILE
    #[arg(long, value_name = "PUBKEY")]
    device_key: Option<String>,
    /// Number of this access point; every access point needs a different one
    #[arg(long)]
    number: Option<u8>,
    /// Network that packets of the device may come from; repeatable [default: the gateway alone decides]
    #[arg(long, value_name = "ADDRESS/BITS")]
    allowed: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    common: CommonFlags,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct DeviceFlags {
    /// An access point, the address it listens on, its public key (or shared:FILE), and the own address to use; repeatable
    #[arg(long, value_name = "NAME=ADDRESS:PORT,PUBKEY[,LOCAL]")]
    access_point: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    inner: InnerFlags,
    #[command(flatten)]
    #[serde(flatten)]
    common: CommonFlags,
}

/// Arguments of a node.
#[derive(Debug, Args)]
pub(crate) struct NodeArguments<F: Args> {
    #[command(flatten)]
    flags: F,
    #[command(flatten)]
    user: UserArguments,
    #[command(flatten)]
    service: ServiceArguments,
    /// Print a JSON object with every counter each second
    #[arg(long)]
    json: bool,
}

/// The flags that were given, as a table. A flag without a value is no key of it.
fn given(flags: &impl Serialize) -> Result<toml::Table> {
    let mut table = toml::Table::try_from(flags).context("the flags")?;
    table.retain(|_, value| value.as_array().is_none_or(|values| !values.is_empty()));
    Ok(table)
}

/// The settings that the flags stand for.
fn settings<R: Role>(flags: &impl Serialize) -> Result<R> {
    Ok(load(given(flags)?)?)
}

/// Checks what can be checked before a node starts.
pub(super) fn check<R: Role>(arguments: &NodeArguments<impl Args + Serialize>) -> Result<()> {
    arguments.service.check()?;
    let config: R = settings(&arguments.flags)?;
    Ok(config.check_keys()?)
}

/// Says what shared keys mean, if there are any. Call it when the log has begun.
fn say_shared(config: &impl Role) {
    let is_shared = |neighbour: &Neighbour<'_>| matches!(neighbour.key, NeighbourKey::Shared(_));
    let neighbours = config.neighbours();
    let names: Vec<&str> =
        neighbours.iter().filter(|neighbour| is_shared(neighbour)).map(|neighbour| neighbour.name).collect();
    if !names.is_empty() {
        tracing::warn!("shared key of {}: {SHARED}", names.join(", "));
    }
}

/// What a running node can change: access points can be taken out.
const LIVE: &[&str] = &["access_point"];

/// The values of `access_point` in a node's flags; an access point has none.
pub(super) fn access_points(arguments: &NodeArguments<impl Args + Serialize>) -> Result<Vec<String>> {
    let table = given(&arguments.flags)?;
    let values = table.get("access_point").and_then(toml::Value::as_array).into_iter().flatten();
    Ok(values.filter_map(|value| value.as_str().map(str::to_owned)).collect())
}

/// The name in a value of `access_point`.
fn name(value: &str) -> &str {
    value.split_once('=').map_or(value, |(name, _)| name)
}

/// Takes out access points that are no longer in the settings. Others can only come with a restart, because the node codes
/// for a fixed number of them.
fn take_out(known: Vec<String>, node: Neighbourhood) -> Apply<Vec<String>> {
    let known = RefCell::new(known);
    Box::new(move |newer| {
        let mut known = known.borrow_mut();
        if let Some(value) = newer.iter().find(|value| !known.contains(value)) {
            bail!(
                "`{}` of `access_point` is new or has another key or address, which needs a restart; nothing was changed",
                name(value)
            );
        }
        let (stay, gone): (Vec<_>, Vec<_>) = known.drain(..).partition(|value| newer.contains(value));
        *known = stay;
        Ok(node.forget(gone.iter().map(|value| name(value).to_owned()).collect())?)
    })
}

/// Runs a node. Of its settings file only `access_point` can be changed while it runs.
pub(crate) fn run<R: Role>(
    arguments: &NodeArguments<impl Args + Serialize>,
    file: Option<SettingsFile<Vec<String>>>,
) -> Result<ExitCode> {
    let known = access_points(arguments)?;
    let NodeArguments { flags, user, service, json } = arguments;
    let config: R = settings(flags)?;
    log::start(log::LEVEL, service.log_format)?;
    say_shared(&config);
    // The node's devices and sockets are made with the program's privileges, every thread after them without.
    let privileges = Privileges::new(user.user.as_deref(), Needs::default())?;
    let service = service.begin()?;
    let node = config.start_with(Some(&privileges))?;
    let reload = file.map(|file| Reload::new(file, LIVE, take_out(known, node.neighbourhood())));
    proxy::plain_runtime()?.block_on(watch(&node, (service, reload), *json))
}

/// Shows the node's status each second until a signal ends it.
async fn watch(node: &Running, (service, reload): (Service, Option<Reload>), json: bool) -> Result<ExitCode> {
    let mut signals = stop::Signals::new()?;
    let mut ticks = tokio::time::interval(REFRESH);
    let is_terminal = std::io::stderr().is_terminal();
    let mut before: Option<Status> = None;
    let first = node.status()?;
    let seen = Arc::new(Mutex::new(serde_json::to_value(&first)?));
    let shown = seen.clone();
    let describe = move || shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let ending = Ending::default();
    reload.as_ref().map(Reload::follow).transpose()?;
    let _shown = service.show(first.role, &[] as &[String], Control::new(&ending, reload), describe);
    loop {
        tokio::select! {
            (_, name) = signals.next() => {
                tracing::info!("{name} received; ended");
                return Ok(ExitCode::SUCCESS);
            }
            () = ending.requested() => {
                tracing::info!("asked to end; ended");
                return Ok(ExitCode::SUCCESS);
            }
            _ = ticks.tick() => {}
        }
        let status = node.status()?;
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = serde_json::to_value(&status)?;
        if json {
            output::line(&serde_json::to_string(&status)?)?;
        } else if is_terminal {
            let before = before.as_ref().unwrap_or(&status);
            log::show_line(status.line(before, status.uptime - before.uptime));
        }
        before = Some(status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Cli, Command::Gateway};
    use clap::{Command, CommandFactory, Parser};
    use tributary_nodes::{AccessPointConfig, DeviceConfig, GatewayConfig, Settings};

    /// Flags of every program.
    const OF_ALL: [&str; 6] = ["json", "help", "user", "metrics", "metrics-remote", "log-format"];

    fn flags(command: &Command) -> Vec<String> {
        let names = command.get_arguments().filter_map(|argument| argument.get_long());
        let mut names: Vec<String> =
            names.filter(|name| !OF_ALL.contains(name)).map(|name| name.replace('-', "_")).collect();
        names.sort();
        names
    }

    #[test]
    fn flags_and_keys_of_the_settings_are_the_same() {
        let sorted = |keys: &[&str]| {
            let mut keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            keys.sort();
            keys
        };
        let of = |name: &str| flags(Cli::command().find_subcommand(name).expect("it is there"));
        assert_eq!(of("gateway"), sorted(GatewayConfig::KEYS));
        assert_eq!(of("ap"), sorted(AccessPointConfig::KEYS));
        assert_eq!(of("device"), sorted(DeviceConfig::KEYS));
    }

    #[test]
    fn flags_make_settings() {
        let line = "x gateway --listen 192.0.2.1:7100 --access-point a=shared:k --tun t0 --address 10.0.0.1/24 \
             --redundancy 0.2 --link-mtu 2000";
        let Gateway(arguments) = Cli::parse_from(line.split_whitespace()).command else { panic!("gateway") };
        let config: GatewayConfig = settings(&arguments.flags).expect("it is complete");
        assert_eq!((config.coding.redundancy, config.coding.link_mtu), (0.2, 2000));
        assert!(!arguments.json);
    }
}
