//! `tributary-lab run`: one measurement, in the emulator or in the simulator.

use crate::cli::{QueueArguments, RunArguments, WorldArgument};
use anyhow::{Result, bail};
use core::time::Duration;
use serde::Serialize;
use std::io::IsTerminal;
use std::process::ExitCode;
use tributary_cli::{Progress, output};
use tributary_lab::request::{Asked, Request};
use tributary_lab::simulate::{Files, summary};
use tributary_lab::{Queue, RunResult, SessionSettings, run as measure};
use tributary_link::Scenario;
use tributary_report::machine;

/// Default scenario.
const SCENARIO: &str = "mobility";
/// Default distance of the live player to the live edge, in milliseconds.
const START_UP: u64 = 1000;

pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode> {
    let name = arguments.network.as_deref().or(arguments.scenario.as_deref()).unwrap_or(SCENARIO);
    let scenario = Scenario::find(name)?;
    arguments.check_workload()?;
    match arguments.world {
        WorldArgument::Emu => emulate(arguments, &scenario),
        WorldArgument::Sim => simulate(arguments, &scenario),
    }
}

fn simulate(arguments: &RunArguments, scenario: &Scenario) -> Result<ExitCode> {
    let simulation = arguments.request().simulated(scenario)?;
    let files = Files { pcap: arguments.pcap.clone(), qlog: arguments.qlog.clone() };
    let mut progress = Progress::new();
    let shown = std::io::stderr().is_terminal(); // no progress line where there is no terminal
    let ran = files.run(&simulation, &mut |share, text| {
        if shown {
            progress.at(share, text);
        }
    });
    progress.end();
    let (result, written) = ran?;
    if arguments.json {
        output::line(&with_commit(&result)?)?;
    } else {
        output::line(summary(&result).trim_end())?;
    }
    written.iter().for_each(|path| eprintln!("written: {}", path.display()));
    Ok(if result.audit.valid { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// A result as JSON, with the commit of the program.
fn with_commit(result: &impl Serialize) -> Result<String> {
    #[derive(Serialize)]
    struct Measured<'a, T> {
        #[serde(flatten)]
        result: &'a T,
        commit: Option<String>,
    }
    Ok(serde_json::to_string(&Measured { result, commit: machine::commit() })?)
}

fn emulate(arguments: &RunArguments, scenario: &Scenario) -> Result<ExitCode> {
    let only_simulated = [(arguments.pcap.is_some(), "--pcap"), (arguments.qlog.is_some(), "--qlog")];
    if let Some((_, name)) = only_simulated.iter().find(|(given, _)| *given) {
        bail!("only the simulator supports {name}: add --world sim, or leave it out");
    }
    let cell = arguments.request().emulated(scenario)?;
    tributary_emu::isolate()?;
    let result = measure(&cell)?;
    if arguments.json {
        output::line(&with_commit(&result)?)?;
    } else {
        output::line(tributary_lab::summary::of(&result).trim_end())?;
    }
    Ok(exit(&result))
}

impl RunArguments {
    fn request(&self) -> Request {
        Request {
            transport: self.transport.clone(),
            scheduler: self.scheduler.clone(),
            congestion: self.congestion.clone(),
            workload: self.workload.as_deref().map(|name| match name {
                "object" => {
                    let (size, count) = (self.size.unwrap_or(102_400), self.count.unwrap_or(100));
                    Asked::Object(size, count, self.pause.unwrap_or(50))
                }
                "live" => Asked::Live(self.start_up.unwrap_or(START_UP)),
                _ => Asked::Bulk,
            }),
            seconds: self.seconds,
            seed: self.seed,
            rtt: self.rtt.map(Duration::from_millis),
            queue: queue(&self.queue),
            session: SessionSettings {
                plaintext: self.plaintext,
                quic: self.quic,
                window: self.window.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
                rto_max_ms: self.rto_max,
            },
            budget: self.budget,
        }
    }

    /// Refuses options of another workload than the requested one.
    fn check_workload(&self) -> Result<()> {
        for (given, name, workload) in [
            (self.size.is_some(), "--size", "object"),
            (self.count.is_some(), "--count", "object"),
            (self.pause.is_some(), "--pause", "object"),
            (self.start_up.is_some(), "--start-up", "live"),
        ] {
            if given && self.workload.as_deref() != Some(workload) {
                bail!("{name} is a setting of one workload: add --workload {workload}, or leave it out");
            }
        }
        Ok(())
    }
}

pub(crate) fn queue(arguments: &QueueArguments) -> Queue {
    match (arguments.queue_kb, arguments.queue_ms) {
        (Some(bytes), _) => Queue::Bytes(bytes),
        (None, Some(ms)) => Queue::Millis(ms),
        (None, None) => Queue::Scenario,
    }
}

fn exit(result: &RunResult) -> ExitCode {
    if result.audit.valid { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
