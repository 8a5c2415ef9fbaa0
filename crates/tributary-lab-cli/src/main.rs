//! The `tributary-lab` command: arguments become configuration, libraries do the work. No logic here.

mod cli;
mod commands;
#[cfg(test)]
mod documents;

use std::process::ExitCode;

fn main() -> ExitCode {
    tributary_cli::main(commands::dispatch)
}
