//! What the command lines of `tributary` and `tributary-lab` share: quantities with units, output, progress, arguments of both,
//! settings files, and how a program ends.
//!
//! Not here: any command.

pub mod arguments;
pub mod output;
pub mod private;
pub mod progress;
pub mod quantity;
pub mod settings;

use clap::Parser;
use std::process::ExitCode;
use tributary_report::machine;
use tributary_types::printable;

pub use progress::Progress;

/// The body of a program's `main`: parses the command line, runs the command, and prints an error in one line.
pub fn main<C: Parser>(run: impl FnOnce(C) -> anyhow::Result<ExitCode>) -> ExitCode {
    if let Some(commit) = option_env!("TRIBUTARY_COMMIT") {
        machine::built_from(commit);
    }
    let command = C::command().long_version(machine::version());
    let name = command.get_name().to_owned();
    let arguments = C::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit());
    run(arguments).unwrap_or_else(|error| {
        eprintln!("{name}: {}", error_line(&error));
        ExitCode::from(1)
    })
}

/// An error and its causes in one line. A cause that the error's own text contains is left out. A peer may have written
/// parts of the text.
#[must_use]
pub fn error_line(error: &anyhow::Error) -> String {
    error.chain().map(|cause| printable_lines(&cause.to_string())).fold(String::new(), |line, cause| {
        match line.as_str() {
            "" => cause,
            known if known.contains(&cause) => line,
            known => format!("{known}: {cause}"),
        }
    })
}

/// The text without characters that a terminal obeys, but with its line ends.
fn printable_lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}
