//! `tributary cc`: eBPF congestion controllers in the kernel.

use anyhow::Result;
use clap::{Args, Subcommand};
use std::process::ExitCode;
use tributary_cli::output;

/// Congestion controllers for the kernel's TCP by eBPF: compound, lia, olia, balia, wvegas.
///
/// Every program on the machine can select a loaded controller by its name. It stays until it is
/// unloaded or the machine restarts. Sockets with the same SO_MARK and user, and subflows of one kernel MPTCP
/// connection, are coupled. Loading needs root; selecting does not.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  tributary doctor --require ebpf
  sudo tributary cc load lia olia
  tributary connect … --congestion lia
  sudo tributary cc unload lia olia")]
pub(crate) enum Cc {
    Load(LoadArguments),
    List(FormArguments),
    Unload(UnloadArguments),
}

/// Load controllers into the kernel; all of them if none is named.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sudo tributary cc load
  sudo tributary cc load lia --prefix test_    # sockets choose it as test_lia")]
pub(crate) struct LoadArguments {
    /// compound, lia, olia, balia, wvegas
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Prefix of each name; names are global to the machine and have at most 15 characters
    #[arg(long, default_value = "")]
    prefix: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Unload controllers. Sockets that use one keep it until they close.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  sudo tributary cc unload --all")]
pub(crate) struct UnloadArguments {
    /// Names from `tributary cc list`
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// All controllers that `tributary cc load` has loaded
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Show the loaded controllers.
#[derive(Debug, Args)]
pub(crate) struct FormArguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Cc) -> Result<ExitCode> {
    match command {
        Cc::Load(arguments) => {
            let loaded = tributary_bpf::load(&arguments.names, &arguments.prefix)?;
            print(&loaded, None, arguments.json)?;
        }
        Cc::List(arguments) => {
            print(&tributary_bpf::list()?, Some(tributary_bpf::groups()?), arguments.json)?;
        }
        Cc::Unload(arguments) => print(&unload(arguments)?, None, arguments.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn unload(arguments: &UnloadArguments) -> Result<Vec<tributary_bpf::Loaded>> {
    let names = if arguments.all {
        let loaded = tributary_bpf::list()?.into_iter().filter(|one| one.selectable);
        loaded.map(|one| one.name).collect()
    } else {
        arguments.names.clone()
    };
    Ok(names.iter().map(|name| tributary_bpf::unload(name)).collect::<Result<_, _>>()?)
}

fn print(controllers: &[tributary_bpf::Loaded], groups: Option<usize>, json: bool) -> Result<()> {
    if json {
        return output::line(
            &serde_json::json!({ "controllers": controllers, "groups": groups }).to_string(),
        );
    }
    output::line(&format!("{:<16} {:<10} {:>7}  state", "name", "controller", "sockets"))?;
    for one in controllers {
        let state = if one.selectable { "loaded" } else { "unloaded, removed with its last socket" };
        output::line(&format!("{:<16} {:<10} {:>7}  {state}", one.name, one.controller, one.sockets))?;
    }
    groups.map_or(Ok(()), |groups| output::line(&format!("groups of sibling subflows: {groups}")))
}
