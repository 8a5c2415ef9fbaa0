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
    Gateway(nodes::GatewayArguments),
    Ap(nodes::AccessPointArguments),
    Device(nodes::DeviceArguments),
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
        Command::Gateway(arguments) => nodes::gateway(&arguments),
        Command::Ap(arguments) => nodes::access_point(&arguments),
        Command::Device(arguments) => nodes::device(&arguments),
    }
}
