//! What each command does: configuration in, a library call, its result out.

mod measure;

use crate::cli::{Cli, Command};
use anyhow::Result;
use std::process::ExitCode;

/// Runs the command. Isolation must come before any thread, so each command that emulates begins with it.
pub(crate) fn dispatch(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Run(arguments) => measure::run(&arguments),
        // The failure has already gone to the experiment that started the endpoint.
        Command::Endpoint => Ok(match tributary_lab::endpoint::run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(1),
        }),
    }
}
