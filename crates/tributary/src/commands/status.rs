//! `tributary status`: asks this user's running programs, and shows what they answer.

mod live;
mod web;

use crate::cli::StatusArguments;
use crate::service::{sockets, table};
use anyhow::{Result, bail};
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;
use tributary_cli::output;

/// Time between two tables of `--watch`.
const REFRESH: Duration = Duration::from_secs(1);

pub(super) fn run(arguments: &StatusArguments) -> Result<ExitCode> {
    if let Some(address) = arguments.web {
        return web::run(address, arguments.json);
    }
    if arguments.watch && !arguments.json && io::stdout().is_terminal() {
        return live::run();
    }
    loop {
        let programs = sockets::ask_all();
        if programs.is_empty() {
            bail!("no long-running `tributary` program of this user is running");
        }
        if arguments.json {
            output::line(&serde_json::json!({ "programs": programs }).to_string())?;
        } else {
            output::line(programs.iter().map(table::table).collect::<Vec<_>>().join("\n").trim_end())?;
        }
        if !arguments.watch {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(REFRESH);
    }
}
