//! `tributary-lab reproduce all`: every paper, one after the other, and a table of their verdicts.

use super::ows::{self, OwsArguments};
use super::page::PageArguments;
use super::paper;
use super::report::Rendered;
use crate::cli::WorldArgument;
use anyhow::Result;
use clap::Args;
use core::time::Duration;
use serde_json::json;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use tributary_bench::Stacks;
use tributary_cli::output;
use tributary_lab::World;
use tributary_lab::reproduce::{Outcome, Paper, Selection, Settings, papers};
use tributary_report::{Column, Reproduced, Table, TableCell, Verdict};

/// Minutes after which the quick reproductions begin no more runs.
const QUICK: u64 = 14;
/// OWS takes more than its name: the user's files, if there are any.
const OWS: &str = "ows";

/// Every paper: fbdt, avira, cotag, decision-engine, handoff, ows, and the simulator's own validation.
///
/// Writes each paper's report, and a table of all verdicts, into the directory. Papers without runs in the world are left out, and
/// so is the comparison with ns-3 where ns-3 is absent.
/// A paper that cannot be run does not stop the others; the exit code is then 1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab reproduce all --quick
  tributary-lab reproduce all --world emu --quick --out book")]
pub(crate) struct AllArguments {
    /// World to run in: emu (kernel stacks, wall time) or sim (models, virtual time)
    #[arg(long, value_enum, default_value_t = WorldArgument::Sim)]
    world: WorldArgument,
    /// The papers' quick matrices, with a limit of 14 minutes for all runs: each paper gets an equal part of the time that is
    /// left, and makes fewer seeds where that is not enough
    #[arg(long)]
    quick: bool,
    /// Begin no run after this time [default: 14 with --quick, else none]
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    minutes: Option<u64>,
    /// Also reuse finished emulated runs from the reports' directory
    #[arg(long)]
    resume: bool,
    /// Simulated runs at the same time [default: one per core]
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Directory for the reports (PAPER-WORLD.html, .json and .md) and the table (all-WORLD.md and .json)
    #[arg(long, default_value = "tributary-reproduction")]
    out: PathBuf,
    /// Print the table as one JSON object
    #[arg(long)]
    json: bool,
}

/// The paper that compares with another simulator.
const NS3: &str = "simulator-ns3";

/// A paper's result, or why there is none.
struct Line {
    paper: &'static str,
    seconds: f64,
    done: Result<Outcome>,
}

pub(crate) fn run(arguments: &AllArguments) -> Result<ExitCode> {
    let world = World::from(arguments.world);
    if world == World::Emu {
        tributary_emu::isolate()?;
    }
    output::directory(&arguments.out)?;
    let names: Vec<&'static str> =
        papers().chain([OWS]).filter(|name| runs_in(name, world, arguments) && has_program(name)).collect();
    let began = Instant::now();
    let minutes = arguments.minutes.or(arguments.quick.then_some(QUICK));
    let whole = minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let mut lines = Vec::new();
    for (number, paper) in names.iter().copied().enumerate() {
        let left = whole.map(|whole| whole.saturating_sub(began.elapsed()) / (names.len() - number) as u32);
        eprintln!("{paper}, {} of {}", number + 1, names.len());
        let started = Instant::now();
        let done = one(paper, arguments, left);
        match &done {
            Ok(outcome) => _ = paper::tell_failures(outcome),
            Err(error) => eprintln!("{paper}: {error:#}"),
        }
        lines.push(Line { paper, seconds: started.elapsed().as_secs_f64(), done });
    }
    let table = table(&lines);
    let report = Rendered {
        name: format!("all-{world}"),
        json: json(&lines).to_string(),
        markdown: table.to_markdown(),
        html: None,
        text: table.to_text(),
    };
    report.publish(&arguments.out, super::report::Form { json: arguments.json, markdown: false }, None)?;
    let complete = |line: &Line| line.done.as_ref().is_ok_and(|outcome| outcome.tally.failed == 0);
    Ok(if lines.iter().all(complete) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Whether a paper has runs of this size in a world.
fn runs_in(paper: &str, world: World, arguments: &AllArguments) -> bool {
    let selection = Selection { world, quick: arguments.quick, ..Selection::default() };
    paper == OWS || Paper::find(paper).is_ok_and(|paper| paper.cells(&selection).is_ok())
}

/// Whether the other simulator that a paper compares with is here; else says what is missing.
fn has_program(paper: &str) -> bool {
    let left_out = |missing: &&str| eprintln!("{paper} is left out: {missing}");
    paper != NS3 || Stacks::ns3().inspect_err(left_out).is_ok()
}

fn one(name: &str, arguments: &AllArguments, limit: Option<Duration>) -> Result<Outcome> {
    let (outcome, report) = if name == OWS {
        ows::measured(&ows_arguments(arguments), limit)?
    } else {
        let world = World::from(arguments.world);
        let settings = Settings {
            selection: Selection { world, quick: arguments.quick, ..Selection::default() },
            directory: arguments.out.clone(),
            resume: arguments.resume,
            jobs: arguments.jobs,
            command: output::command_line(),
            limit,
            ..Settings::default()
        };
        paper::measured(&Paper::find(name)?, &settings)?
    };
    report.write(&arguments.out)?;
    Ok(outcome)
}

fn ows_arguments(arguments: &AllArguments) -> OwsArguments {
    OwsArguments {
        world: arguments.world,
        quick: arguments.quick,
        tiled: Vec::new(),
        heads: None,
        viewings: None,
        gops: 10,
        load: vec![2.0],
        viewers: Vec::new(),
        add_scenarios: Vec::new(),
        jobs: arguments.jobs,
        resume: arguments.resume,
        out: arguments.out.clone(),
        json: false,
        markdown: false,
        documentation: PageArguments { page: None, part: None },
    }
}

/// Claims of a paper with each verdict: on the promise, and on the paper's figure.
fn counts(outcome: &Outcome) -> [usize; 6] {
    let claims = &outcome.reproduction.claims;
    let promise = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
    let figure = |verdict| claims.iter().filter(|claim| claim.reproduced == Some(verdict)).count();
    [
        promise(Verdict::Holds),
        promise(Verdict::Undecided),
        promise(Verdict::Fails),
        figure(Reproduced::Yes),
        figure(Reproduced::Undecided),
        figure(Reproduced::No),
    ]
}

const COUNTS: [&str; 6] =
    ["holds", "undecided", "fails", "paper: reproduced", "paper: undecided", "paper: not reproduced"];

fn table(lines: &[Line]) -> Table {
    let mut columns = vec![Column::left("paper"), Column::right("claims")];
    columns.extend(COUNTS.map(Column::right));
    columns.extend([
        Column::right("runs"),
        Column::right("left out or failed"),
        Column::right("time").unit("s"),
    ]);
    let mut table = Table::new("Every paper: claims by verdict").columns(columns);
    for line in lines {
        let mut cells = vec![TableCell::text(line.paper)];
        match &line.done {
            Ok(outcome) => {
                cells.push(TableCell::number(outcome.reproduction.claims.len() as f64, 0));
                cells.extend(counts(outcome).map(|count| TableCell::number(count as f64, 0)));
                let tally = outcome.tally;
                cells.push(TableCell::number(tally.cells as f64, 0));
                cells.push(TableCell::number((tally.left_out + tally.failed) as f64, 0));
            }
            Err(error) => {
                cells.push(TableCell::text(&format!("{error:#}")).bad());
                cells.extend((0..COUNTS.len() + 2).map(|_| TableCell::text("–")));
            }
        }
        cells.push(TableCell::number(line.seconds, 0));
        table.push(cells);
    }
    table
}

fn json(lines: &[Line]) -> serde_json::Value {
    let all = lines.iter().map(|line| match &line.done {
        Ok(outcome) => {
            let counted: serde_json::Map<_, _> =
                COUNTS.iter().zip(counts(outcome)).map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
            json!({
                "paper": line.paper, "seconds": line.seconds, "claims": outcome.reproduction.claims.len(), "verdicts": counted,
                "runs": outcome.tally.cells, "left_out": outcome.tally.left_out, "failed": outcome.tally.failed,
            })
        }
        Err(error) => json!({ "paper": line.paper, "seconds": line.seconds, "error": format!("{error:#}") }),
    });
    json!({ "papers": all.collect::<Vec<_>>() })
}
