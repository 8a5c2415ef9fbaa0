//! The `tributary-lab` command: arguments become configuration, libraries do the work. No logic here.

mod cli;
mod commands;

use std::process::ExitCode;

fn main() -> ExitCode {
    tributary_cli::main(commands::dispatch)
}
