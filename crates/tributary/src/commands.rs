//! The commands: configuration in, a library call, its result out.

pub(crate) mod cc;
pub(crate) mod dash;
mod exec;
pub(crate) mod film;
pub(crate) mod ingest;
pub(crate) mod nodes;
mod proxy;
mod status;
mod stop;
pub(crate) mod stream;

use crate::cli::{
    ConnectArguments, ExecArguments, InsideArguments, KeygenArguments, ServeArguments, StatusArguments,
};
use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use tributary_cli::output;

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
    Status(StatusArguments),
    Keygen(KeygenArguments),
    Gateway(nodes::GatewayArguments),
    Ap(nodes::AccessPointArguments),
    Device(nodes::DeviceArguments),
    #[command(subcommand)]
    Cc(cc::Cc),
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
        Command::Status(arguments) => status::run(&arguments),
        Command::Keygen(arguments) => keygen(&arguments),
        Command::Cc(command) => cc::run(&command),
        Command::Gateway(arguments) => nodes::gateway(&arguments),
        Command::Ap(arguments) => nodes::access_point(&arguments),
        Command::Device(arguments) => nodes::device(&arguments),
    }
}

fn keygen(arguments: &KeygenArguments) -> Result<ExitCode> {
    let key = tributary_net::Key::generate()?.to_line();
    let Some(path) = &arguments.out else {
        let json = || serde_json::json!({ "key": *key }).to_string();
        output::line(&if arguments.json { json() } else { key.to_string() })?;
        return Ok(ExitCode::SUCCESS);
    };
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(key.as_bytes()).and_then(|()| file.write_all(b"\n")))
        .with_context(|| format!("cannot write the key to {}", path.display()))?;
    if arguments.json {
        output::line(&serde_json::json!({ "file": path }).to_string())?;
    } else {
        eprintln!("key written to {}; copy it to the other machine over a secure channel", path.display());
    }
    Ok(ExitCode::SUCCESS)
}
