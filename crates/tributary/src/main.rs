//! The `tributary` command: arguments become configuration, libraries do the work. No logic here.

mod cli;
mod commands;
mod paths;
mod quantity;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = commands::Cli::parse();
    if let Some(commit) = option_env!("TRIBUTARY_COMMIT") {
        tributary_report::machine::built_from(commit);
    }
    match commands::dispatch(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tributary: {}", line(&error));
            ExitCode::from(1)
        }
    }
}

/// An error and its causes in one line. A cause that the error's own text contains is left out.
fn line(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |line, cause| match line.as_str() {
        "" => cause,
        known if known.contains(&cause) => line,
        known => format!("{known}: {cause}"),
    })
}
