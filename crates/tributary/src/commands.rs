//! The commands: configuration in, a library call, its result out.

pub(crate) mod cc;
mod ctl;
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
    CheckArguments, ConnectArguments, CtlArguments, ExecArguments, InsideArguments, RunArguments,
    ServeArguments, StatusArguments, TunnelArguments,
};
use crate::keys::{self, KeygenArguments, PubkeyArguments};
use crate::service::reload::SettingsFile;
use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use tributary_cli::output;
use tributary_cli::settings::Document;
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
    /// The same with a settings file; only for `run`.
    #[command(name = tunnel::SESSION_OF_FILE, hide = true)]
    TunnelSessionOfFile(RunArguments),
    Run(RunArguments),
    Check(CheckArguments),
    Status(StatusArguments),
    Ctl(CtlArguments),
    Keygen(KeygenArguments),
    Pubkey(PubkeyArguments),
    /// COTAG gateway: packets routed into its TUN device reach the device over all access points, coded.
    ///
    /// Needs root or CAP_NET_ADMIN, and gives up what it no longer needs. SIGINT or SIGTERM ends the program.
    #[command(after_help = "Examples:
  tributary run gateway.toml      # these flags in a file; see `tributary run --help`
  tributary gateway --key gateway.key --listen 192.0.2.1:7100 --access-point ap1=PUBKEY --access-point ap2=PUBKEY \\
      --tun cotag0 --address 10.99.0.1/24 --metrics 127.0.0.1:9100")]
    Gateway(nodes::NodeArguments<nodes::GatewayFlags>),
    /// COTAG access point: forwards the gateway's packets, and sends combinations of them when its radio is idle.
    ///
    /// Needs no privilege. Every flag is also a key of the TOML file, with `_` for `-`; a flag replaces the file's
    /// value. SIGINT or SIGTERM ends the program.
    #[command(after_help = "Examples:
  tributary run ap1.toml
  tributary ap --key ap1.key --gateway 192.0.2.1:7100 --gateway-key PUBKEY --listen 198.51.100.1:7200 \\
      --device-key PUBKEY --number 1
  tributary ap --gateway 192.0.2.1:7100 --gateway-key shared:up.key --listen 198.51.100.1:7200 \\
      --device-key shared:down.key --number 1
      (up.key and down.key are keys that both ends of a hop have)")]
    Ap(nodes::NodeArguments<nodes::AccessPointFlags>),
    /// COTAG device: a TUN device whose traffic goes through all access points.
    ///
    /// Needs root or CAP_NET_ADMIN, and gives up what it no longer needs. SIGINT or SIGTERM ends the program.
    #[command(after_help = "Examples:
  tributary run device.toml
  tributary device --key device.key --access-point wifi=198.51.100.1:7200,PUBKEY,198.51.100.9 \\
      --access-point wigig=203.0.113.1:7200,PUBKEY,203.0.113.9 \\
      --tun cotag0 --address 10.99.0.2/24 --route 10.98.0.0/24")]
    Device(nodes::NodeArguments<nodes::DeviceFlags>),
    #[command(subcommand)]
    Cc(cc::Cc),
    Doctor(doctor::DoctorArguments),
    Completions(generate::CompletionsArguments),
    Man(generate::ManArguments),
}

/// Commands that a settings file may name: those that run for a long time.
const SERVICES: &[&str] = &[
    "serve",
    "connect",
    "stream serve",
    "stream play",
    "dash serve",
    "dash play",
    "gateway",
    "ap",
    "device",
    "tunnel",
];

pub(crate) fn dispatch(cli: Cli) -> Result<ExitCode> {
    start(cli.command, None)
}

/// Carries out a command, which came from `file` if there is one.
fn start(command: Command, file: Option<Document>) -> Result<ExitCode> {
    // Programs of which no setting can be changed while they run.
    let service = |file: Option<Document>| {
        let read = |began: &Document| read_again(began).map(|(newer, _)| (newer, ()));
        file.map(|began| SettingsFile::new(began, read))
    };
    match command {
        Command::Ingest(arguments) => ingest::run(arguments),
        Command::Film(arguments) => film::run(&arguments),
        Command::Stream(command) => stream::run(command, service(file)),
        Command::Dash(command) => dash::run(command, service(file)),
        Command::Serve(arguments) => {
            let read = |began: &Document| match read_again(began)? {
                (newer, Command::Serve(arguments)) => Ok((newer, arguments)),
                _ => unreachable!("the command is the same"),
            };
            proxy::serve(arguments, file.map(|began| SettingsFile::new(began, read)))
        }
        Command::Connect(arguments) => {
            let read = |began: &Document| match read_again(began)? {
                (newer, Command::Connect(arguments)) => Ok((newer, arguments)),
                _ => unreachable!("the command is the same"),
            };
            proxy::connect(arguments, file.map(|began| SettingsFile::new(began, read)))
        }
        Command::Exec(arguments) => exec::run(arguments),
        Command::ExecInside(arguments) => Ok(exec::inside(&arguments.program)),
        Command::Tunnel(arguments) => tunnel::run(&arguments, file.is_some()),
        Command::TunnelSession(arguments) => {
            let read = |began: &Document| match read_again(began)? {
                (newer, Command::Tunnel(arguments)) => Ok((newer, arguments)),
                _ => unreachable!("the command is the same"),
            };
            tunnel::session(arguments, file.map(|began| SettingsFile::new(began, read)))
        }
        Command::TunnelSessionOfFile(arguments) => tunnel_session(arguments),
        Command::Run(arguments) => run(arguments),
        Command::Check(arguments) => check(arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Ctl(arguments) => ctl::run(&arguments),
        Command::Keygen(arguments) => keys::keygen(&arguments),
        Command::Pubkey(arguments) => keys::pubkey(&arguments),
        Command::Cc(command) => cc::run(&command),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Completions(arguments) => generate::completions(&arguments),
        Command::Man(arguments) => generate::man(&arguments),
        Command::Gateway(arguments) => nodes::run::<GatewayConfig>(&arguments, node(file)),
        Command::Ap(arguments) => nodes::run::<AccessPointConfig>(&arguments, node(file)),
        Command::Device(arguments) => nodes::run::<DeviceConfig>(&arguments, node(file)),
    }
}

/// The settings file of a node, of which the access points can be read again.
fn node(file: Option<Document>) -> Option<SettingsFile<Vec<String>>> {
    let read = |began: &Document| {
        let (newer, command) = read_again(began)?;
        let points = match &command {
            Command::Gateway(arguments) => nodes::access_points(arguments)?,
            Command::Device(arguments) => nodes::access_points(arguments)?,
            _ => Vec::new(),
        };
        Ok((newer, points))
    };
    file.map(|began| SettingsFile::new(began, read))
}

/// Runs the command of a settings file, once all its settings are valid.
fn run(arguments: RunArguments) -> Result<ExitCode> {
    let document = Document::read::<Cli>(&arguments.file, SERVICES, arguments.options)?;
    let command = parse(&document)?;
    start(command, Some(document))
}

/// Runs the session of a tunnel that [`run`] started.
fn tunnel_session(arguments: RunArguments) -> Result<ExitCode> {
    let document = Document::read::<Cli>(&arguments.file, &["tunnel"], arguments.options)?;
    match parse(&document)? {
        Command::Tunnel(arguments) => start(Command::TunnelSession(arguments), Some(document)),
        _ => unreachable!("no other command was allowed"),
    }
}

fn check(arguments: CheckArguments) -> Result<ExitCode> {
    let document = Document::read::<Cli>(&arguments.file, SERVICES, arguments.options)?;
    parse(&document)?;
    let (file, command) = (document.file().display(), document.command());
    output::line(&match arguments.json {
        true => serde_json::json!({ "file": document.file(), "command": command }).to_string(),
        false => format!("{file}: valid settings of `{command}`"),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The command of a settings file, checked.
fn parse(document: &Document) -> Result<Command> {
    let command = document.parse::<Cli>()?.command;
    check_command(&command).map_err(|error| document.locate(error))?;
    Ok(command)
}

/// Reads the file of a running program again.
fn read_again(began: &Document) -> Result<(Document, Command)> {
    let newer = began.read_again::<Cli>(SERVICES)?;
    if newer.command() != began.command() {
        bail!("{}: another `command` needs a restart", began.file().display());
    }
    let command = parse(&newer)?;
    Ok((newer, command))
}

/// Checks what can be checked before a command starts: values and their combinations, and the files that they name.
fn check_command(command: &Command) -> Result<()> {
    match command {
        Command::Serve(arguments) => proxy::check_serve(arguments),
        Command::Connect(arguments) => proxy::check_connect(arguments),
        Command::Tunnel(arguments) => tunnel::check(arguments),
        Command::Stream(command) => stream::check(command),
        Command::Dash(command) => dash::check(command),
        Command::Gateway(arguments) => nodes::check::<GatewayConfig>(arguments),
        Command::Ap(arguments) => nodes::check::<AccessPointConfig>(arguments),
        Command::Device(arguments) => nodes::check::<DeviceConfig>(arguments),
        _ => bail!("this command has no settings file"),
    }
}
