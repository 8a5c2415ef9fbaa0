//! `tributary-lab bench hop`: its arguments.

use super::Measured;
use anyhow::Result;
use clap::Args;
use tributary_bench::hop::Plan;
use tributary_cli::quantity;

/// A COTAG gateway with 32 keys under attack: pings through the tunnel beside junk, sessions beside a recorded handshake.
#[derive(Debug, Args)]
pub(crate) struct HopArguments {
    /// Rounds; each has every attack once
    #[arg(long, default_value_t = Plan::default().rounds)]
    rounds: u32,
    /// Seconds of pings beside each kind of junk
    #[arg(long, default_value_t = Plan::default().seconds, value_parser = quantity::seconds)]
    seconds: f64,
    /// Datagrams of junk each second
    #[arg(long, default_value_t = Plan::default().junk)]
    junk: u32,
    /// Copies of a recorded handshake each second
    #[arg(long, default_value_t = Plan::default().replays)]
    replays: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &HopArguments, progress: &mut dyn FnMut(&str)) -> Result<Measured> {
    tributary_emu::isolate()?;
    let HopArguments { rounds, seconds, junk, replays, json } = *arguments;
    let report = tributary_bench::hop::run(&Plan { rounds, seconds, junk, replays }, progress)?;
    Measured::new("hop", report.tables(), json, &report)
}
