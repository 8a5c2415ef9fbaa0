//! The `tributary` command: arguments and settings files become configuration, libraries do the work. Its
//! own are the commands and the service around them: control socket, reload, metrics. Not here: a protocol.

mod cli;
mod commands;
#[cfg(test)]
mod documents;
mod keys;
mod paths;
mod service;

use std::process::ExitCode;

fn main() -> ExitCode {
    tributary_cli::main(commands::dispatch)
}
