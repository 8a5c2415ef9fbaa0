//! The `tributary` command: arguments become configuration, libraries do the work. No logic here.

mod cli;
mod commands;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = cli::Cli::parse();
    match commands::dispatch(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tributary: {error:#}");
            ExitCode::from(1)
        }
    }
}
