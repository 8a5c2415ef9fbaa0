//! `tributary reproduce`.

use super::measure;
use super::output::{self, Progress};
use crate::cli::FbdtArguments;
use anyhow::Result;
use core::time::Duration;
use std::process::ExitCode;
use tributary_lab::reproduce::fbdt::{self, Outcome, Settings};

pub(crate) fn fbdt(arguments: &FbdtArguments) -> Result<ExitCode> {
    let congestion = arguments.congestion.as_deref().map(|name| match name {
        "both" => vec!["cubic".to_owned(), "bbr".to_owned()],
        one => vec![one.to_owned()],
    });
    let (seeds, seconds) = if arguments.quick { (1, 7) } else { (3, 20) };
    let settings = Settings {
        quick: arguments.quick,
        congestion,
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

fn print(arguments: &FbdtArguments, outcome: &Outcome) -> Result<()> {
    let json = serde_json::to_string(outcome)?;
    let markdown = fbdt::markdown(outcome);
    output::file(&arguments.out, "fbdt.json", &json)?;
    output::file(&arguments.out, "fbdt.md", &markdown)?;
    let page = output::file(&arguments.out, "fbdt.html", &fbdt::render(outcome))?;
    if arguments.json {
        output::line(&json)?;
    } else if arguments.markdown {
        output::line(&markdown)?;
    } else {
        let (goodput, claims) = (fbdt::goodput(outcome), outcome.reproduction.table());
        output::line(&format!("{}\n{}", goodput.to_text(), claims.to_text()))?;
    }
    eprintln!("report: {}", page.display());
    Ok(())
}
