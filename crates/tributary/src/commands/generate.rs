//! `tributary completions` and `tributary man`: files made from the definition of the command line.

use super::Cli;
use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_cli::output;

/// Print the completions of a shell.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary completions bash > ~/.local/share/bash-completion/completions/tributary
  tributary completions fish > ~/.config/fish/completions/tributary.fish")]
pub(crate) struct CompletionsArguments {
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Write a man page for every command into a directory.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  tributary man --out ~/.local/share/man/man1 && man tributary-serve")]
pub(crate) struct ManArguments {
    /// Directory of the pages; it is made if it does not exist
    #[arg(long, value_name = "DIRECTORY")]
    out: PathBuf,
}

pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "tributary", &mut text);
    output::line(String::from_utf8(text).context("completions")?.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(arguments: &ManArguments) -> Result<ExitCode> {
    output::directory(&arguments.out)?;
    clap_mangen::generate_to(Cli::command(), &arguments.out)
        .with_context(|| format!("cannot write the pages into {}", arguments.out.display()))?;
    Ok(ExitCode::SUCCESS)
}
