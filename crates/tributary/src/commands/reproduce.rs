//! `tributary reproduce`.

use super::measure;
use super::output::{self, Form, Progress, Report};
use crate::cli::{FbdtArguments, WorldArgument};
use anyhow::{Result, bail};
use core::time::Duration;
use std::process::ExitCode;
use tributary_lab::reproduce::fbdt::{self, Outcome, Settings};
use tributary_lab::reproduce::fbdt_sim;

pub(crate) fn fbdt(arguments: &FbdtArguments) -> Result<ExitCode> {
    match arguments.world {
        WorldArgument::Emu => emulated(arguments),
        WorldArgument::Sim => simulated(arguments),
    }
}

fn emulated(arguments: &FbdtArguments) -> Result<ExitCode> {
    let congestion = congestion(arguments);
    let (seeds, seconds) = if arguments.quick { (1, 7) } else { (3, 20) };
    let settings = Settings {
        quick: arguments.quick,
        congestion,
        conditions: fbdt::conditions(&arguments.conditions)?,
        transports: arguments.transports.clone(),
        seeds: arguments.seeds.unwrap_or(seeds),
        seconds: arguments.seconds.unwrap_or(seconds),
        rtt: Duration::from_millis(arguments.rtt),
        queue: measure::queue(&arguments.queue),
        command: output::command_line(),
    };
    tributary_emu::isolate()?;
    output::directory(&arguments.out)?;
    let mut progress = Progress::new();
    progress.note(&format!("about {:.0} minutes", (settings.expected_seconds() / 60.0).ceil()));
    let outcome = fbdt::run(&settings, &mut |share, text| progress.at(share, text))?;
    progress.end();
    print(arguments, &outcome)?;
    Ok(ExitCode::SUCCESS)
}

fn congestion(arguments: &FbdtArguments) -> Option<Vec<String>> {
    arguments.congestion.as_deref().map(|name| match name {
        "both" => vec!["cubic".to_owned(), "bbr".to_owned()],
        one => vec![one.to_owned()],
    })
}

fn simulated(arguments: &FbdtArguments) -> Result<ExitCode> {
    if !arguments.conditions.is_empty() || !arguments.transports.is_empty() {
        bail!(
            "--conditions and --transports choose among the emulator's runs; in the simulator `tributary sweep` runs any selection"
        );
    }
    let settings = fbdt_sim::Settings {
        quick: arguments.quick,
        congestion: congestion(arguments).unwrap_or_else(|| vec!["cubic".to_owned()]),
        seeds: arguments.seeds.unwrap_or(20),
        seconds: arguments.seconds.unwrap_or(if arguments.quick { 6 } else { 20 }),
        rtt: Duration::from_millis(arguments.rtt),
        queue: measure::queue(&arguments.queue),
        directory: arguments.out.clone(),
        jobs: arguments.jobs,
        command: output::command_line(),
    };
    output::directory(&arguments.out)?;
    let mut progress = Progress::new();
    let outcome = fbdt_sim::run(&settings, &mut |share, text| progress.at(share, text))?;
    progress.end();
    let (goodput, claims) = (fbdt_sim::goodput(&outcome), outcome.reproduction.table());
    let report = Report {
        name: "fbdt-sim",
        json: serde_json::to_string(&outcome)?,
        markdown: fbdt_sim::markdown(&outcome),
        html: Some(fbdt_sim::render(&outcome)),
        text: format!("{}\n{}", goodput.to_text(), claims.to_text()),
    };
    report.publish(&arguments.out, Form { json: arguments.json, markdown: arguments.markdown })?;
    let failure = outcome.rows.iter().find_map(|row| row.failure.as_deref());
    if let Some(failure) = failure {
        eprintln!("{} runs gave no result; the first: {failure}", outcome.report.failed);
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(arguments: &FbdtArguments, outcome: &Outcome) -> Result<()> {
    let (goodput, claims) = (fbdt::goodput(outcome), outcome.reproduction.table());
    let report = Report {
        name: "fbdt",
        json: serde_json::to_string(outcome)?,
        markdown: fbdt::markdown(outcome),
        html: Some(fbdt::render(outcome)),
        text: format!("{}\n{}", goodput.to_text(), claims.to_text()),
    };
    report.publish(&arguments.out, Form { json: arguments.json, markdown: arguments.markdown })
}
