//! `tributary run`: one measurement, in the emulator or in the simulator.

use super::output;
use crate::cli::{QueueArguments, RunArguments, WorldArgument};
use anyhow::{Result, bail};
use core::time::Duration;
use std::process::ExitCode;
use tributary_lab::simulate::{Files, Request, summary};
use tributary_lab::{Cell, Contestant, Queue, RunResult, Workload, run as measure};
use tributary_link::{Scenario, WorkloadSpec};
use tributary_types::DataSize;

/// Scenario where nobody names one.
const SCENARIO: &str = "mobility";
/// Length of an emulated run in seconds.
const SECONDS: u32 = 10;

pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode> {
    let name = arguments.network.as_deref().or(arguments.scenario.as_deref()).unwrap_or(SCENARIO);
    let scenario = Scenario::find(name)?;
    match arguments.world {
        WorldArgument::Emu => emulate(arguments, scenario),
        WorldArgument::Sim => simulate(arguments, &scenario),
    }
}

fn simulate(arguments: &RunArguments, scenario: &Scenario) -> Result<ExitCode> {
    for (given, name) in [(arguments.plaintext, "--plaintext"), (arguments.rto_max.is_some(), "--rto-max")] {
        if given {
            bail!("{name} is a setting of real sockets: leave it out, or take --world emu");
        }
    }
    let request = Request {
        transport: arguments.transport.clone(),
        scheduler: arguments.scheduler.clone(),
        congestion: arguments.congestion.clone(),
        workload: simulated_workload(arguments)?,
        seconds: arguments.seconds,
        seed: arguments.seed,
        rtt: arguments.rtt.map(Duration::from_millis),
        queue: queue(&arguments.queue),
        window: arguments.window,
        budget: arguments.budget,
        trace: false,
    };
    let simulation = request.resolve(scenario)?;
    let files = Files { pcap: arguments.pcap.clone(), qlog: arguments.qlog.clone() };
    let (result, written) = files.run(&simulation)?;
    if arguments.json {
        output::line(&serde_json::to_string(&result)?)?;
    } else {
        output::line(summary(&result).trim_end())?;
    }
    written.iter().for_each(|path| eprintln!("written: {}", path.display()));
    Ok(if result.audit.valid { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn simulated_workload(arguments: &RunArguments) -> Result<Option<WorkloadSpec>> {
    Ok(match arguments.workload.as_deref() {
        None => None,
        Some("object") => Some(WorkloadSpec::Object {
            size: DataSize::from_bytes(arguments.size),
            count: arguments.count.into(),
            pause: Duration::from_millis(arguments.pause),
        }),
        Some("live") => {
            bail!("live video runs on real sockets only: take --world emu, or another --workload")
        }
        Some(_) => Some(WorkloadSpec::Bulk { size: None }),
    })
}

fn emulate(arguments: &RunArguments, scenario: Scenario) -> Result<ExitCode> {
    let only_simulated = [
        (arguments.pcap.is_some(), "--pcap"),
        (arguments.qlog.is_some(), "--qlog"),
        (arguments.budget.is_some(), "--budget"),
        (arguments.scheduler.is_some(), "--scheduler"),
    ];
    if let Some((_, name)) = only_simulated.iter().find(|(given, _)| *given) {
        bail!("{name} is for the simulator only: add --world sim, or leave it out");
    }
    if let Some(problem) = scenario.needs_simulator() {
        bail!("{problem} (--world sim)");
    }
    let mut scenario = scenario;
    if let Some(seed) = arguments.seed {
        scenario = scenario.with_seed(seed);
    }
    if let Some(rtt) = arguments.rtt {
        scenario = scenario.with_rtt(Duration::from_millis(rtt));
    }
    let contestant = contestant(arguments, &scenario)?;
    let workload = workload(arguments, &scenario)?;
    let written = scenario.run.congestion.as_ref().map(|name| name.as_str());
    let congestion = arguments.congestion.as_deref().or(written).unwrap_or("cubic");
    tributary_emu::isolate()?;
    let cell = Cell::new(&scenario, &contestant, congestion, &workload);
    let result = measure(&cell.with_queue(queue(&arguments.queue)))?;
    if arguments.json {
        println!("{}", serde_json::to_string(&result)?);
    } else {
        print!("{}", tributary_lab::summary::of(&result));
    }
    Ok(exit(&result))
}

pub(crate) fn queue(arguments: &QueueArguments) -> Queue {
    match (arguments.queue_kb, arguments.queue_ms) {
        (Some(kb), _) => Queue::Bytes(kb * 1000),
        (None, Some(ms)) => Queue::Millis(ms),
        (None, None) => Queue::Scenario,
    }
}

fn contestant(arguments: &RunArguments, scenario: &Scenario) -> Result<Contestant> {
    let mut contestant = match (&arguments.transport, &scenario.run.transport) {
        (Some(name), _) => Contestant::find(name, scenario)?,
        (None, Some(name)) => {
            Contestant::find(name.as_str(), scenario).map_err(|e| name.refuse(&e.to_string()))?
        }
        (None, None) => Contestant::find("fbdt", scenario)?,
    };
    if let Contestant::Tributary(settings) = &mut contestant {
        settings.plaintext = arguments.plaintext;
        settings.window = arguments.window;
        settings.rto_max_ms = arguments.rto_max;
    } else if arguments.plaintext || arguments.window.is_some() || arguments.rto_max.is_some() {
        bail!(
            "--plaintext, --window and --rto-max are settings of a session; `{}` is none",
            contestant.name()
        );
    }
    Ok(contestant)
}

fn workload(arguments: &RunArguments, scenario: &Scenario) -> Result<Workload> {
    let seconds = arguments.seconds.unwrap_or(SECONDS);
    let limit = f64::from(seconds);
    let object = |size, count, pause_ms| Workload::Object { size, count, pause_ms, limit };
    Ok(match (arguments.workload.as_deref(), scenario.run.workloads.as_slice()) {
        (Some("object"), _) => object(arguments.size, arguments.count, arguments.pause),
        (Some("live"), _) => Workload::Live { gops: seconds, start_up_ms: arguments.start_up },
        (Some(_), _) | (None, [] | [WorkloadSpec::Bulk { size: None }]) => Workload::Bulk { seconds: limit },
        (None, [WorkloadSpec::Object { size, count, pause }]) => {
            let count = u32::try_from(*count).unwrap_or(u32::MAX);
            object(size.as_bytes(), count, pause.as_millis() as u64)
        }
        (None, _) => bail!(
            "the workload of scenario {} runs in the simulator only: add --world sim, or give --workload",
            scenario.name
        ),
    })
}

fn exit(result: &RunResult) -> ExitCode {
    if result.audit.valid { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
