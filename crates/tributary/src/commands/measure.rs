//! `tributary run`: one measurement.

use crate::cli::{QueueArguments, RunArguments};
use anyhow::{Result, bail};
use core::time::Duration;
use std::process::ExitCode;
use tributary_lab::{Cell, Contestant, Queue, RunResult, Workload, run as measure};
use tributary_link::Scenario;

pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode> {
    let mut scenario = Scenario::find(&arguments.scenario)?.with_seed(arguments.seed);
    if let Some(rtt) = arguments.rtt {
        scenario = scenario.with_rtt(Duration::from_millis(rtt));
    }
    let contestant = contestant(arguments, &scenario)?;
    tributary_emu::isolate()?;
    let cell = Cell::new(&scenario, &contestant, &arguments.congestion, &workload(arguments));
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
    let mut contestant = Contestant::find(&arguments.transport, scenario)?;
    if let Contestant::Tributary(settings) = &mut contestant {
        settings.plaintext = arguments.plaintext;
        settings.window = arguments.window;
        settings.rto_max_ms = arguments.rto_max;
    } else if arguments.plaintext || arguments.window.is_some() || arguments.rto_max.is_some() {
        bail!(
            "--plaintext, --window and --rto-max are settings of a session; `{}` is none",
            arguments.transport
        );
    }
    Ok(contestant)
}

fn workload(arguments: &RunArguments) -> Workload {
    let seconds = f64::from(arguments.seconds);
    match arguments.workload.as_str() {
        "object" => Workload::Object {
            size: arguments.size,
            count: arguments.count,
            pause_ms: arguments.pause,
            limit: seconds,
        },
        "live" => Workload::Live { gops: arguments.seconds, start_up_ms: arguments.start_up },
        _ => Workload::Bulk { seconds },
    }
}

fn exit(result: &RunResult) -> ExitCode {
    if result.audit.valid { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
