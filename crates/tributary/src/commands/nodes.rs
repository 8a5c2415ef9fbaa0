//! `tributary gateway`, `tributary ap`, `tributary device`: flags, the settings file, the node and its status.

use super::{proxy, status, stop};
use crate::cli::UserArguments;
use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tributary_cli::output;
use tributary_net::privileges::{Needs, Privileges};
use tributary_nodes::{
    AccessPointConfig, DeviceConfig, GatewayConfig, NodeError, Running, Settings, Status, load,
};

/// Time between two status lines.
const REFRESH: Duration = Duration::from_secs(1);

/// Flags of every node. Each flag is also a key of the TOML file, with `_` for `-`.
#[derive(Debug, Args, Serialize)]
pub(crate) struct CommonFlags {
    /// Key file of the flow set, the same at all nodes (see `tributary keygen --shared`)
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<PathBuf>,
    /// Serve Prometheus metrics on this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<String>,
    /// Coding: systematic, paper or off, the same at all nodes [default: systematic]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    /// Length of a cohort in milliseconds, the same at all nodes [default: 2]
    #[arg(long, value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_ms: Option<i64>,
    /// How long the device waits for a cohort in milliseconds [default: 30]
    #[arg(long, value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    patience_ms: Option<i64>,
    /// Upper limit of redundant packets per packet, the same at all nodes [default: 0.1]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    redundancy: Option<f64>,
    /// Largest IP packet on any link between the nodes, the same at all nodes [default: 1500]
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    link_mtu: Option<i64>,
}

/// A TUN device's flags.
#[derive(Debug, Args, Serialize)]
pub(crate) struct InnerFlags {
    /// Name of the TUN device
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    tun: Option<String>,
    /// Address of the TUN device with its prefix length; repeatable
    #[arg(long, value_name = "ADDRESS/BITS")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    address: Vec<String>,
    /// Network reached through the tunnel; repeatable
    #[arg(long, value_name = "ADDRESS/BITS")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    route: Vec<String>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct GatewayFlags {
    /// Address and port for the access points
    #[arg(long, value_name = "ADDRESS:PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<String>,
    /// An access point and the key shared with it; repeatable
    #[arg(long, value_name = "NAME=KEYFILE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    access_point: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    inner: InnerFlags,
    /// Network that packets of the device may come from; repeatable [default: the networks routed to the device]
    #[arg(long, value_name = "ADDRESS/BITS")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    common: CommonFlags,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct AccessPointFlags {
    /// Address and port of the gateway
    #[arg(long, value_name = "ADDRESS:PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<String>,
    /// Key file shared with the gateway
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway_key: Option<PathBuf>,
    /// Address and port for the device
    #[arg(long, value_name = "ADDRESS:PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<String>,
    /// Key file shared with the device
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    device_key: Option<PathBuf>,
    /// Number of this access point; every access point needs a different one
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u8>,
    /// Network that packets of the device may come from; repeatable [default: the gateway alone decides]
    #[arg(long, value_name = "ADDRESS/BITS")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    common: CommonFlags,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct DeviceFlags {
    /// An access point, the address it listens on, the key shared with it, and the own address to use; repeatable
    #[arg(long, value_name = "NAME=ADDRESS:PORT,KEYFILE[,LOCAL]")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    access_point: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    inner: InnerFlags,
    #[command(flatten)]
    #[serde(flatten)]
    common: CommonFlags,
}

/// COTAG gateway: packets routed into its TUN device reach the device over all access points, coded.
///
/// Needs root or CAP_NET_ADMIN, and gives up what it no longer needs. Every flag is also a key of the TOML file, with `_` for `-`; a flag replaces the
/// file's value. SIGINT or SIGTERM ends the program.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary gateway gateway.toml
  tributary gateway --listen 192.0.2.1:7100 --access-point ap1=ap1.key --access-point ap2=ap2.key \\
      --tun cotag0 --address 10.99.0.1/24 --key flows.key --metrics 127.0.0.1:9100")]
pub(crate) struct GatewayArguments {
    /// Settings in TOML
    file: Option<PathBuf>,
    #[command(flatten)]
    flags: GatewayFlags,
    #[command(flatten)]
    user: UserArguments,
    /// Print a JSON object with every counter each second
    #[arg(long)]
    json: bool,
}

/// COTAG access point: forwards the gateway's packets, and sends combinations of them when its radio is idle.
///
/// Needs no privilege. Every flag is also a key of the TOML file, with `_` for `-`; a flag replaces the file's
/// value. SIGINT or SIGTERM ends the program.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary ap ap1.toml
  tributary ap --gateway 192.0.2.1:7100 --gateway-key ap1.key --listen 198.51.100.1:7200 \\
      --device-key radio1.key --number 1 --key flows.key")]
pub(crate) struct AccessPointArguments {
    /// Settings in TOML
    file: Option<PathBuf>,
    #[command(flatten)]
    flags: AccessPointFlags,
    #[command(flatten)]
    user: UserArguments,
    /// Print a JSON object with every counter each second
    #[arg(long)]
    json: bool,
}

/// COTAG device: a TUN device whose traffic goes through all access points.
///
/// Needs root or CAP_NET_ADMIN, and gives up what it no longer needs. Every flag is also a key of the TOML file, with `_` for `-`; a flag replaces the
/// file's value. SIGINT or SIGTERM ends the program.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary device device.toml
  tributary device --access-point wifi=198.51.100.1:7200,radio1.key,198.51.100.9 \\
      --access-point wigig=203.0.113.1:7200,radio2.key,203.0.113.9 \\
      --tun cotag0 --address 10.99.0.2/24 --route 10.98.0.0/24 --key flows.key")]
pub(crate) struct DeviceArguments {
    /// Settings in TOML
    file: Option<PathBuf>,
    #[command(flatten)]
    flags: DeviceFlags,
    #[command(flatten)]
    user: UserArguments,
    /// Print a JSON object with every counter each second
    #[arg(long)]
    json: bool,
}

pub(crate) fn gateway(arguments: &GatewayArguments) -> Result<ExitCode> {
    let GatewayArguments { file, flags, user, json } = arguments;
    run(file, flags, (user, *json), |config: &GatewayConfig, limits| config.start_with(Some(limits)))
}

pub(crate) fn access_point(arguments: &AccessPointArguments) -> Result<ExitCode> {
    let AccessPointArguments { file, flags, user, json } = arguments;
    run(file, flags, (user, *json), |config: &AccessPointConfig, limits| config.start_with(Some(limits)))
}

pub(crate) fn device(arguments: &DeviceArguments) -> Result<ExitCode> {
    let DeviceArguments { file, flags, user, json } = arguments;
    run(file, flags, (user, *json), |config: &DeviceConfig, limits| config.start_with(Some(limits)))
}

fn run<T: Settings>(
    file: &Option<PathBuf>,
    flags: &impl Serialize,
    (user, json): (&UserArguments, bool),
    start: impl FnOnce(&T, &Privileges) -> Result<Running, NodeError>,
) -> Result<ExitCode> {
    let flags = toml::Table::try_from(flags).context("the flags")?;
    let config: T = load(file.as_deref(), flags)?;
    proxy::start_log(proxy::LOG)?;
    // The node's devices and sockets are made with the program's privileges, every thread after them without.
    let privileges = Privileges::new(user.user.as_deref(), Needs::default())?;
    let node = start(&config, &privileges)?;
    let runtime = proxy::plain_runtime()?;
    if let Some(address) = node.metrics() {
        tracing::info!("metrics on http://{address}/metrics");
    }
    runtime.block_on(watch(&node, json))
}

/// Shows the node's status each second until a signal ends it.
async fn watch(node: &Running, json: bool) -> Result<ExitCode> {
    let mut signals = stop::Signals::new()?;
    let mut ticks = tokio::time::interval(REFRESH);
    let is_terminal = std::io::stderr().is_terminal();
    let mut before: Option<Status> = None;
    let first = node.status()?;
    let seen = Arc::new(Mutex::new(serde_json::to_value(&first)?));
    let shown = seen.clone();
    let describe = move || shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let _shown = status::show(first.role, &[] as &[String], describe);
    loop {
        tokio::select! {
            (_, name) = signals.next() => {
                tracing::info!("{name} received; ended");
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
            status::show_line(status.line(before, status.uptime - before.uptime));
        }
        before = Some(status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, CommandFactory, Parser};

    #[derive(Parser)]
    enum All {
        Gateway(GatewayArguments),
        Ap(AccessPointArguments),
        Device(DeviceArguments),
    }

    fn flags(command: &Command) -> Vec<String> {
        let names = command.get_arguments().filter_map(|argument| argument.get_long());
        let mut names: Vec<String> = names
            .filter(|name| !["json", "help", "user"].contains(name))
            .map(|name| name.replace('-', "_"))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn flags_and_keys_of_the_file_are_the_same() {
        let sorted = |keys: &[&str]| {
            let mut keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            keys.sort();
            keys
        };
        let of = |name: &str| flags(All::command().find_subcommand(name).expect("it is there"));
        assert_eq!(of("gateway"), sorted(GatewayConfig::KEYS));
        assert_eq!(of("ap"), sorted(AccessPointConfig::KEYS));
        assert_eq!(of("device"), sorted(DeviceConfig::KEYS));
    }

    #[test]
    fn flags_make_the_same_settings_as_a_file() {
        let line = "x gateway --listen 192.0.2.1:7100 --access-point a=k --tun t0 --address 10.0.0.1/24 --key f \
             --redundancy 0.2 --link-mtu 2000";
        let All::Gateway(arguments) = All::parse_from(line.split_whitespace()) else { panic!("gateway") };
        let table = toml::Table::try_from(&arguments.flags).expect("strings and numbers");
        let config: GatewayConfig = load(None, table).expect("it is complete");
        assert_eq!((config.coding.redundancy, config.coding.link_mtu), (0.2, 2000));
        assert!(arguments.file.is_none() && !arguments.json);
    }
}
