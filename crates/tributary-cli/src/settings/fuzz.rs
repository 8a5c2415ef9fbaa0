//! Body of the fuzz target `settings`, and the command line that it and the tests use; not part of the public interface.

use super::Document;
use clap::{Args, Parser, Subcommand};
use std::path::{Path, PathBuf};

/// A small command line with every kind of argument.
#[derive(Debug, Parser)]
#[command(name = "x")]
pub enum Cli {
    Serve(Serve),
    #[command(subcommand)]
    Dash(Dash),
}

#[derive(Debug, Subcommand)]
pub enum Dash {
    Serve {
        directory: PathBuf,
        #[arg(long)]
        idle: Option<u8>,
    },
}

#[derive(Debug, Args)]
pub struct Serve {
    #[arg(long, required = true)]
    pub listen: Vec<std::net::SocketAddr>,
    #[arg(long, conflicts_with = "shared_key")]
    pub key: Option<String>,
    #[arg(long)]
    pub shared_key: Option<String>,
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub drain: u32,
    #[arg(long, allow_hyphen_values = true)]
    pub weights: Option<String>,
    #[arg(long, value_parser = ["json", "text"])]
    pub log_format: Option<String>,
    #[arg(long)]
    pub plaintext: bool,
    #[arg(long, hide = true)]
    pub secret: bool,
}

/// A settings file is refused with its name, or gives the same command line each time.
///
/// # Panics
/// If one of these properties does not hold.
pub fn settings(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let read = || {
        let commands = ["serve", "dash serve"];
        let document = Document::of_text::<Cli>(Path::new("fuzz.toml"), text, &commands, Vec::new())?;
        document.parse::<Cli>().map(|command| format!("{command:?}"))
    };
    match (read(), read()) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        (Err(error), Err(_)) => {
            let said = format!("{error:#}");
            assert!(said.starts_with("fuzz.toml:"), "the error names no file: {said}");
        }
        (one, other) => panic!("{one:?}, then {other:?}"),
    }
}
