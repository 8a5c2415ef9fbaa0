//! `tributary-lab soak`: random trials of the session, and single ones from files.

use super::page::{PageArguments, TablesBeside};
use anyhow::{Context, Result, bail};
use clap::Args;
use core::time::Duration;
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tributary_cli::{Progress, output};
use tributary_lab::soak::{Settings, Soaked, soak};
use tributary_report::machine;
use tributary_sim::trial::{self, Trial};

/// Run random trials: networks, two ends of a session and faults on both, checked by rules.
///
/// Every seed is another trial: paths that leave, die in one direction, lose, reorder or fade, connections that are
/// refused, reset or forgotten, programs that are started again, readers that stop, streams that are abandoned. The rules:
/// every byte once and in order, progress of every stream that is read, bounded memory, nothing left at the end, no less
/// than the best path alone. A seed that breaks one is printed with the command that repeats it, and the first of each rule
/// with a shorter trial. Nothing but processor time is needed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab soak --seeds 100000
  tributary-lab soak --seed 4711 --seeds 1
  tributary-lab soak --trial shortened.toml
  tributary-lab soak --seeds 1000000 --out soak --json")]
pub(crate) struct SoakArguments {
    /// Number of seeds
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) seeds: u64,
    /// First seed
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Run the trial of this file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "seed", "out", "jobs"])]
    pub(crate) trial: Option<PathBuf>,
    /// Run one fault at a time in a download of 4 MB instead, and print how long each takes and may take
    #[arg(long, conflicts_with_all = ["seeds", "seed", "out", "jobs", "trial"])]
    pub(crate) cases: bool,
    /// Directory for finished seeds, from which a soak that was stopped goes on [default: none]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Number of seeds at the same time [default: one per core]
    #[arg(long)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) documentation: PageArguments,
}

pub(crate) fn run(arguments: &SoakArguments) -> Result<ExitCode> {
    if let Some(file) = &arguments.trial {
        return one(file, arguments.json);
    }
    let beside = arguments.documentation.open()?;
    if arguments.cases {
        return cases(beside.as_ref(), arguments.json);
    }
    if beside.is_some() {
        bail!("--page takes the table of --cases; add --cases");
    }
    let settings = Settings {
        first: arguments.seed,
        seeds: arguments.seeds,
        directory: arguments.out.clone(),
        jobs: arguments.jobs,
    };
    let mut progress = Progress::new();
    let soaked = soak(&settings, &mut |share, text| progress.at(share, text))?;
    progress.end();
    match arguments.json {
        true => output::line(&serde_json::to_string(&soaked)?)?,
        false => output::line(&text(&soaked))?,
    }
    Ok(ExitCode::from(u8::from(!soaked.broken.is_empty())))
}

/// What a single trial gave.
#[derive(Serialize)]
struct Single {
    name: String,
    /// Seconds until the last byte was read; `None` if it broke a rule.
    took_s: Option<f64>,
    /// Seconds that it may take, if it has a limit.
    limit_s: Option<f64>,
    events: Option<u64>,
    /// The rule that it broke.
    fault: Option<String>,
}

impl Single {
    fn run(name: &str, trial: &Trial, limit: Option<Duration>) -> Self {
        let (outcome, fault) = match trial::run(trial) {
            Ok(outcome) => (Some(outcome), None),
            Err(fault) => (None, Some(fault.to_string())),
        };
        Self {
            name: name.to_owned(),
            took_s: outcome.as_ref().map(|outcome| outcome.last_read.as_secs_f64()),
            limit_s: limit.map(|limit| limit.as_secs_f64()),
            events: outcome.as_ref().map(|outcome| outcome.events),
            fault,
        }
    }

    fn holds(&self) -> bool {
        self.took_s.is_some_and(|took| self.limit_s.is_none_or(|limit| took <= limit))
    }

    /// Its row of the table of single faults.
    fn row(&self) -> String {
        let took =
            self.took_s.map_or_else(|| self.fault.clone().unwrap_or_default(), |took| format!("{took:.2}"));
        format!("| {} | {took} | {:.1} |\n", self.name, self.limit_s.unwrap_or_default())
    }
}

fn one(file: &Path, json: bool) -> Result<ExitCode> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let trial = Trial::parse(&text).with_context(|| file.display().to_string())?;
    let single = Single::run(&file.display().to_string(), &trial, None);
    match (json, single.events, &single.fault) {
        (true, ..) => output::line(&serde_json::to_string(&single)?)?,
        (_, Some(events), _) => output::line(&format!("no rule is broken; {events} events"))?,
        (_, None, fault) => output::line(fault.as_deref().unwrap_or_default())?,
    }
    Ok(ExitCode::from(u8::from(!single.holds())))
}

/// Prints the table of single faults, and writes it beside a page.
fn cases(beside: Option<&TablesBeside>, json: bool) -> Result<ExitCode> {
    let cases: Vec<Single> =
        trial::cases().iter().map(|case| Single::run(case.name, &case.trial, Some(case.within))).collect();
    let run = machine::run_info(&output::command_line());
    let rows: String = cases.iter().map(Single::row).collect();
    let markdown =
        format!("{}\n\n| what happens | took (s) | limit (s) |\n| --- | ---: | ---: |\n{rows}", run.marker());
    match json {
        true => output::line(&serde_json::json!({ "run": run, "cases": cases }).to_string())?,
        false => output::line(markdown.trim_end())?,
    }
    if let Some(beside) = beside {
        beside.write("Single faults", &markdown)?;
    }
    Ok(ExitCode::from(u8::from(!cases.iter().all(Single::holds))))
}

fn text(soaked: &Soaked) -> String {
    let measured = &soaked.measured;
    let mut text = format!(
        "{} trials in {:.0} s, {} events: {} broke a rule\n\
         longest wait of a reader {:.2} of what is allowed; at most {} TCP connections of an end; \
         everything had arrived {:.1} s after the last operation at the latest",
        measured.trials,
        soaked.seconds,
        measured.events,
        soaked.broken.len(),
        measured.longest_wait,
        measured.connections,
        measured.settled,
    );
    for broken in &soaked.broken {
        text += &format!(
            "\n\nseed {}: {}\n  tributary-lab soak --seed {} --seeds 1",
            broken.seed, broken.fault, broken.seed
        );
        let shortened = soaked.shortened.iter().find(|shortened| shortened.broken.seed == broken.seed);
        if let Some(shortened) = shortened {
            text += &format!("\n\n# {}\n{}", shortened.shortened_fault, shortened.trial.trim_end());
        }
    }
    text
}
