//! `tributary-lab emu`: any command in an emulated network.

use crate::cli::{EmuCotagArguments, EmuListArguments, EmuRunArguments, EmuSetArguments, SideArgument};
use anyhow::Result;
use std::io::ErrorKind;
use std::process::ExitCode;
use tributary_cli::output;
use tributary_emu::control::Request;
use tributary_emu::{CommandOptions, Side, run_command};
use tributary_lab::sdn::{Sides, sides};
use tributary_lab::tunnel;
use tributary_link::{Direction, Scenario};
use tributary_nodes::Coding;

pub(crate) fn run(arguments: &EmuRunArguments) -> Result<ExitCode> {
    let scenario = Scenario::find(&arguments.scenario)?;
    let sides = if arguments.sdn {
        sides(&arguments.command, arguments.server.as_deref())?
    } else {
        Sides { client: arguments.command.clone(), server: arguments.server.clone() }
    };
    tributary_emu::isolate()?;
    let side = match arguments.pcap_at {
        SideArgument::Client => Side::Client,
        SideArgument::Server => Side::Server,
    };
    let options = CommandOptions {
        server: sides.server.as_deref(),
        control: arguments.control.as_deref(),
        capture: arguments.pcap.as_deref().map(|file| (file, side)),
    };
    let run = run_command(&scenario, &sides.client, options)?;
    match &run.captured {
        Some(Ok(captured)) if captured.missed > 0 => {
            eprintln!(
                "{} packets captured, and {} missed: the disk was too slow",
                captured.packets, captured.missed
            );
        }
        Some(Ok(captured)) => eprintln!("{} packets captured", captured.packets),
        Some(Err(error)) => eprintln!("tributary-lab: {error}; give --pcap a place with more room"),
        None => {}
    }
    if arguments.json {
        eprintln!("{}", serde_json::to_string(&run.audit)?);
    } else {
        eprintln!("{}", run.audit);
    }
    Ok(ExitCode::from(u8::try_from(run.code).unwrap_or(1)))
}

pub(crate) fn set(arguments: &EmuSetArguments) -> Result<ExitCode> {
    let direction = match (arguments.down, arguments.up) {
        (true, _) => Some(Direction::Down),
        (_, true) => Some(Direction::Up),
        _ => None,
    };
    let request = Request {
        path: arguments.path.clone(),
        direction,
        rate_mbps: arguments.rate,
        loss: arguments.loss,
        blocked: arguments.block,
    };
    let socket = &arguments.socket;
    let state = request.send(socket).map_err(|error| match error.kind() {
        // The network's own answer.
        ErrorKind::InvalidInput => error.into(),
        _ => {
            let way_out = "start the network with `tributary-lab emu run SCENARIO --control FILE`";
            anyhow::Error::from(error).context(format!("{}: {way_out}", socket.display()))
        }
    })?;
    if arguments.json {
        output::line(&serde_json::to_string(&state)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for link in state.links {
        output::line(&format!(
            "{:<12} {:<4} {:>9.2} Mbit/s, loss {:.2} %{}",
            link.path,
            format!("{:?}", link.direction).to_lowercase(),
            link.rate_mbps,
            link.loss * 100.0,
            if link.blocked { ", blocked" } else { "" },
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn cotag(arguments: &EmuCotagArguments) -> Result<ExitCode> {
    let scenario = Scenario::find(&arguments.scenario)?;
    let mut table = toml::Table::new();
    table.insert("mode".to_owned(), arguments.mode.clone().into());
    table.insert("redundancy".to_owned(), arguments.redundancy.into());
    let coding: Coding = tributary_nodes::load(table)?;
    tributary_emu::isolate()?;
    let run = tunnel::run_command(&scenario, &coding, &arguments.command, arguments.server.as_deref())?;
    if arguments.json {
        eprintln!("{}", serde_json::json!({ "nodes": run.nodes, "audit": run.audit }));
    } else {
        run.nodes.iter().for_each(|node| eprintln!("{}", node.summary()));
        eprintln!("{}", run.audit);
    }
    Ok(ExitCode::from(u8::try_from(run.code).unwrap_or(1)))
}

pub(crate) fn list(arguments: &EmuListArguments) -> Result<ExitCode> {
    let mut scenarios = Vec::new();
    for name in Scenario::builtin_names() {
        let scenario = Scenario::builtin(name)?;
        if arguments.json {
            scenarios.push(serde_json::json!({ "name": name, "description": scenario.description }));
        } else {
            output::line(&format!("{name:<14} {}", scenario.description))?;
        }
    }
    if arguments.json {
        output::line(&serde_json::json!({ "scenarios": scenarios }).to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
