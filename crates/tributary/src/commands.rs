//! The commands: configuration in, a library call, its result out.

pub(crate) mod cc;
pub(crate) mod dash;
mod doctor;
mod exec;
pub(crate) mod film;
pub(crate) mod generate;
pub(crate) mod ingest;
pub(crate) mod nodes;
mod proxy;
mod status;
mod stop;
pub(crate) mod stream;
mod tunnel;

use crate::cli::{
    ConnectArguments, ExecArguments, InsideArguments, ServeArguments, StatusArguments, TunnelArguments,
};
use crate::keys::{self, KeygenArguments, PubkeyArguments};
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use tributary_nodes::{AccessPointConfig, DeviceConfig, GatewayConfig};

/// Several radios, one immersive stream.
#[derive(Debug, Parser)]
#[command(name = "tributary", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ingest(ingest::IngestArguments),
    Film(film::FilmArguments),
    #[command(subcommand)]
    Stream(stream::Stream),
    #[command(subcommand)]
    Dash(dash::Dash),
    Serve(ServeArguments),
    Connect(ConnectArguments),
    Exec(ExecArguments),
    #[command(name = exec::INSIDE, hide = true)]
    ExecInside(InsideArguments),
    Tunnel(TunnelArguments),
    /// The session of a tunnel; only for `tunnel`.
    #[command(name = tunnel::SESSION, hide = true)]
    TunnelSession(TunnelArguments),
    Status(StatusArguments),
    Keygen(KeygenArguments),
    Pubkey(PubkeyArguments),
    /// COTAG gateway: packets routed into its TUN device reach the device over all access points, coded.
    ///
    /// Needs root or CAP_NET_ADMIN, and gives up what it no longer needs. Every flag is also a key of the TOML file, with `_` for `-`; a flag replaces the
    /// file's value. SIGINT or SIGTERM ends the program.
    #[command(after_help = "Examples:
  tributary gateway gateway.toml
  tributary gateway --listen 192.0.2.1:7100 --access-point ap1=ap1.key --access-point ap2=ap2.key \\
      --tun cotag0 --address 10.99.0.1/24 --key flows.key --metrics 127.0.0.1:9100")]
    Gateway(nodes::NodeArguments<nodes::GatewayFlags>),
    /// COTAG access point: forwards the gateway's packets, and sends combinations of them when its radio is idle.
    ///
    /// Needs no privilege. Every flag is also a key of the TOML file, with `_` for `-`; a flag replaces the file's
    /// value. SIGINT or SIGTERM ends the program.
    #[command(after_help = "Examples:
  tributary ap ap1.toml
  tributary ap --gateway 192.0.2.1:7100 --gateway-key ap1.key --listen 198.51.100.1:7200 \\
      --device-key radio1.key --number 1 --key flows.key")]
    Ap(nodes::NodeArguments<nodes::AccessPointFlags>),
    /// COTAG device: a TUN device whose traffic goes through all access points.
    ///
    /// Needs root or CAP_NET_ADMIN, and gives up what it no longer needs. Every flag is also a key of the TOML file, with `_` for `-`; a flag replaces the
    /// file's value. SIGINT or SIGTERM ends the program.
    #[command(after_help = "Examples:
  tributary device device.toml
  tributary device --access-point wifi=198.51.100.1:7200,radio1.key,198.51.100.9 \\
      --access-point wigig=203.0.113.1:7200,radio2.key,203.0.113.9 \\
      --tun cotag0 --address 10.99.0.2/24 --route 10.98.0.0/24 --key flows.key")]
    Device(nodes::NodeArguments<nodes::DeviceFlags>),
    #[command(subcommand)]
    Cc(cc::Cc),
    Doctor(doctor::DoctorArguments),
    Completions(generate::CompletionsArguments),
    Man(generate::ManArguments),
}

pub(crate) fn dispatch(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Ingest(arguments) => ingest::run(arguments),
        Command::Film(arguments) => film::run(&arguments),
        Command::Stream(command) => stream::run(command),
        Command::Dash(command) => dash::run(command),
        Command::Serve(arguments) => proxy::serve(arguments),
        Command::Connect(arguments) => proxy::connect(arguments),
        Command::Exec(arguments) => exec::run(arguments),
        Command::ExecInside(arguments) => Ok(exec::inside(&arguments.program)),
        Command::Tunnel(arguments) => tunnel::run(&arguments),
        Command::TunnelSession(arguments) => tunnel::session(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Keygen(arguments) => keys::keygen(&arguments),
        Command::Pubkey(arguments) => keys::pubkey(&arguments),
        Command::Cc(command) => cc::run(&command),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Completions(arguments) => generate::completions(&arguments),
        Command::Man(arguments) => generate::man(&arguments),
        Command::Gateway(arguments) => nodes::run::<GatewayConfig>(&arguments),
        Command::Ap(arguments) => nodes::run::<AccessPointConfig>(&arguments),
        Command::Device(arguments) => nodes::run::<DeviceConfig>(&arguments),
    }
}
