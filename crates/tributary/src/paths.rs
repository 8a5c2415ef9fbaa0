//! `--path`, `--server` and `--wait` of the commands that connect over several paths.

use anyhow::Result;
use clap::Args;
use std::time::Duration;
use tributary_cli::quantity;
use tributary_net::{Common, PathConfig, PathError};

/// Paths, and how long to wait for one.
#[derive(Debug, Args)]
pub(crate) struct PathArguments {
    /// One path for each radio; LOCAL is an address, a network interface, `auto` (every interface with a route to the
    /// server, followed as they appear and disappear) or `any` (the routing table's choice). `metered`: used only
    /// when the others cannot carry the data. `cap=20`: carries at most 20 Mbit/s each way. IPv6 servers in brackets
    #[arg(long = "path", required = true, value_name = "LOCAL[,metered][,cap=MBIT][=SERVER:PORT]")]
    paths: Vec<String>,
    /// Server of paths without =SERVER
    #[arg(long, value_name = "SERVER:PORT")]
    server: Option<String>,
    /// Give up when no path is up for this many seconds, but at least three while a session runs [default: at the
    /// start depending on the command, then 30]
    #[arg(long, value_name = "SECONDS", value_parser = quantity::long_seconds_in(1..=86_400))]
    wait: Option<u64>,
}

impl PathArguments {
    /// The parsed paths.
    pub(crate) fn paths(&self) -> Result<Vec<PathConfig>> {
        read(&self.paths, self.server.as_deref())
    }

    /// The server of paths without one.
    pub(crate) fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// The time to wait for a path, if it was given.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait.map(Duration::from_secs)
    }
}

/// Parses paths; `server` is the server of those without one.
pub(crate) fn read(paths: &[String], server: Option<&str>) -> Result<Vec<PathConfig>> {
    let paths = paths.iter().map(|path| PathConfig::parse(path, server));
    Ok(paths.collect::<Result<_, PathError>>()?)
}

/// The settings with the time that a session waits for a path.
pub(crate) fn with_wait(common: Common, wait: Option<Duration>) -> Common {
    match wait {
        Some(wait) => common.waiting(wait),
        None => common,
    }
}
