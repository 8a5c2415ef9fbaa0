//! `tributary-lab soak`: random trials of the session, and single ones from files.

use super::page::{PageArguments, TablesBeside};
use crate::cli::WorldArgument;
use anyhow::{Context, Result};
use clap::Args;
use core::time::Duration;
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tributary_cli::{Progress, output};
use tributary_lab::World;
use tributary_lab::soak::{Settings, Soaked, jobs, soak};
use tributary_lab::store::execute::parallel;
use tributary_lab::trial::{self as real, Tried};
use tributary_report::machine;
use tributary_sim::trial::{self, Case, Trial};

/// Run random trials: networks, two ends of a session and faults on both, checked by rules.
///
/// Every seed is another trial: paths that leave, die in one direction, lose, reorder or fade, connections that are
/// refused, reset or forgotten, programs that are started again, readers that stop, streams that are abandoned. The rules:
/// every byte once and in order, progress of every stream that is read, bounded memory, nothing left at the end, no less
/// than the best path alone. A seed that breaks one is printed with the command that repeats it, and the first of each rule
/// with a shorter trial. Nothing but processor time is needed.
///
/// With --world emu the same trials run on real sockets: two processes in their own network namespaces, joined by the emulator, several
/// trials at the same time. Times that a rule allows are one second longer, memory is that of the processes, and the rule about rest is
/// left out. Not drawn, and refused in a file, is what the emulator cannot do: `reorder`, `duplicate`, `reset` with `guesses`, `metered`.
/// A trial for which the emulator was late is run again, up to three times, and is then reported as unknown. The trial of a seed that
/// breaks a rule is written to seed-N.toml, in the directory of --out or the present one. It needs the programs nft and ss.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab soak --seeds 100000
  tributary-lab soak --seed 4711 --seeds 1
  tributary-lab soak --trial shortened.toml
  tributary-lab soak --seeds 1000000 --out soak --json
  tributary-lab soak --world emu --seeds 100")]
pub(crate) struct SoakArguments {
    /// Where the trials take place
    #[arg(long, value_enum, default_value_t = WorldArgument::Sim)]
    pub(crate) world: WorldArgument,
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
    /// Number of seeds at the same time [default: one per core; with --world emu four for each]
    #[arg(long)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) documentation: PageArguments,
}

pub(crate) fn run(arguments: &SoakArguments) -> Result<ExitCode> {
    let world = World::from(arguments.world);
    let trial = arguments.trial.as_deref().map(|file| read(file, world)).transpose()?;
    let beside = arguments.documentation.open()?;
    if world == World::Emu {
        tributary_emu::isolate()?;
    }
    if let Some((name, trial)) = trial {
        return one(&name, &trial, world, arguments.json);
    }
    if arguments.cases {
        return cases(beside.as_ref(), world, arguments.json);
    }
    let settings = Settings {
        world,
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
    if let Some(beside) = beside {
        beside.write(&format!("Random trials, {}", name_of(world)), &markdown(&soaked, arguments.seed))?;
    }
    Ok(ExitCode::from(u8::from(!soaked.broken.is_empty() || !soaked.unknown.is_empty())))
}

/// What a world is, in a heading.
fn name_of(world: World) -> &'static str {
    match world {
        World::Emu => "real sockets",
        World::Sim => "virtual time",
    }
}

/// Name and trial of a file.
fn read(file: &Path, world: World) -> Result<(String, Trial)> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let name = file.display().to_string();
    let trial = Trial::parse(&text).with_context(|| name.clone())?;
    if world == World::Emu {
        real::check(&trial).with_context(|| name.clone())?;
    }
    Ok((name, trial))
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
    fn run(name: &str, trial: &Trial, limit: Option<Duration>, world: World) -> Self {
        let mut single = Self {
            name: name.to_owned(),
            took_s: None,
            limit_s: limit.map(|limit| limit.as_secs_f64()),
            events: None,
            fault: None,
        };
        match world {
            World::Sim => match trial::run(trial) {
                Ok(outcome) => {
                    single.took_s = Some(outcome.last_read.as_secs_f64());
                    single.events = Some(outcome.events);
                }
                Err(fault) => single.fault = Some(fault.to_string()),
            },
            World::Emu => match real::run(trial) {
                Ok(Tried::Passed(outcome, _)) => single.took_s = Some(outcome.last_read.as_secs_f64()),
                Ok(Tried::Broken(fault)) => single.fault = Some(fault.to_string()),
                Ok(Tried::Inexact(audit)) => {
                    single.fault = Some(format!("the emulator was late: {}", audit.reasons.join(", ")));
                }
                Err(error) => single.fault = Some(error.to_string()),
            },
        }
        single
    }

    fn case(case: &Case, world: World) -> Self {
        let more = if world == World::Emu { real::REAL_TIME } else { Duration::ZERO };
        Self::run(case.name, &case.trial, Some(case.within + more), world)
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

fn one(name: &str, trial: &Trial, world: World, json: bool) -> Result<ExitCode> {
    let single = Single::run(name, trial, None, world);
    match (json, single.took_s, single.events, &single.fault) {
        (true, ..) => output::line(&serde_json::to_string(&single)?)?,
        (_, _, Some(events), _) => output::line(&format!("no rule is broken; {events} events"))?,
        (_, Some(took), ..) => {
            output::line(&format!("no rule is broken; the last byte was read after {took:.2} s"))?;
        }
        (_, _, _, fault) => output::line(fault.as_deref().unwrap_or_default())?,
    }
    Ok(ExitCode::from(u8::from(!single.holds())))
}

/// Prints the table of single faults, and writes it beside a page.
fn cases(beside: Option<&TablesBeside>, world: World, json: bool) -> Result<ExitCode> {
    let all: Vec<Case> = trial::cases()
        .into_iter()
        .filter(|case| world == World::Sim || real::check(&case.trial).is_ok())
        .collect();
    let mut cases: Vec<_> = all.iter().map(|_| None).collect();
    let goes_on = || true;
    parallel(
        (&all, jobs(world)),
        goes_on,
        |_, case| Single::case(case, world),
        |at, single| {
            cases[at] = Some(single);
            true
        },
    );
    let cases: Vec<Single> = cases.into_iter().flatten().collect();
    let run = machine::run_info(&output::command_line());
    let rows: String = cases.iter().map(Single::row).collect();
    let markdown =
        format!("{}\n\n| what happens | took (s) | limit (s) |\n| --- | ---: | ---: |\n{rows}", run.marker());
    match json {
        true => output::line(&serde_json::json!({ "run": run, "cases": cases }).to_string())?,
        false => output::line(markdown.trim_end())?,
    }
    if let Some(beside) = beside {
        let part = if world == World::Emu { "Single faults, real sockets" } else { "Single faults" };
        beside.write(part, &markdown)?;
    }
    Ok(ExitCode::from(u8::from(!cases.iter().all(Single::holds))))
}

/// The figures of a soak as a table.
fn markdown(soaked: &Soaked, first: u64) -> String {
    let measured = &soaked.measured;
    let mut rows = vec![
        ("first seed", first.to_string()),
        ("trials", measured.trials.to_string()),
        ("trials that broke a rule", soaked.broken.len().to_string()),
        ("trials without a result", soaked.unknown.len().to_string()),
        ("bytes and datagrams read", measured.read.to_string()),
        ("longest wait of a reader, of what is allowed", format!("{:.2}", measured.longest_wait)),
        ("most TCP connections of an end", measured.connections.to_string()),
        ("everything had arrived after the last operation (s)", format!("{:.1}", measured.settled)),
    ];
    match soaked.world {
        World::Sim => rows.push(("events", measured.events.to_string())),
        World::Emu => rows.extend([
            ("trials run again, the emulator was late", measured.real.repeated.to_string()),
            (
                "delay error of the emulator, largest p99 (µs)",
                format!("{:.0}", measured.real.delay_error_p99_us),
            ),
            ("most memory that an end took (MB)", format!("{:.1}", measured.real.memory as f64 / 1e6)),
            ("processor time of both ends for a trial (s)", {
                format!("{:.2}", measured.real.cpu_seconds / measured.trials.max(1) as f64)
            }),
        ]),
    }
    let rows: String = rows.into_iter().map(|(name, value)| format!("| {name} | {value} |\n")).collect();
    let run = machine::run_info(&output::command_line());
    format!("{}\n\n| | |\n| --- | ---: |\n{rows}", run.marker())
}

fn text(soaked: &Soaked) -> String {
    let (measured, real) = (&soaked.measured, &soaked.measured.real);
    let world = if soaked.world == World::Emu { " --world emu" } else { "" };
    let events = match soaked.world {
        World::Sim => format!(", {} events", measured.events),
        World::Emu => String::new(),
    };
    let mut text = format!(
        "{} trials in {:.0} s{events}: {} broke a rule\n\
         longest wait of a reader {:.2} of what is allowed; at most {} TCP connections of an end; \
         everything had arrived {:.1} s after the last operation at the latest",
        measured.trials,
        soaked.seconds,
        soaked.broken.len(),
        measured.longest_wait,
        measured.connections,
        measured.settled,
    );
    if soaked.world == World::Emu {
        text += &format!(
            "\nthe processes took at most {:.1} MB each and {:.2} s of processor time for a trial; {} trials were run again, \
             the emulator's delay error was {:.0} µs at most (p99)",
            real.memory as f64 / 1e6,
            real.cpu_seconds / measured.trials.max(1) as f64,
            real.repeated,
            real.delay_error_p99_us,
        );
    }
    for unknown in &soaked.unknown {
        text += &format!(
            "\n\nseed {}: no result, {}\n  tributary-lab soak{world} --seed {} --seeds 1",
            unknown.seed, unknown.reason, unknown.seed
        );
    }
    for broken in &soaked.broken {
        text += &format!(
            "\n\nseed {}: {}\n  tributary-lab soak{world} --seed {} --seeds 1",
            broken.seed, broken.fault, broken.seed
        );
        if let Some(file) = &broken.file {
            text += &format!("\n  tributary-lab soak{world} --trial {}", file.display());
        }
        let shortened = soaked.shortened.iter().find(|shortened| shortened.broken.seed == broken.seed);
        if let Some(shortened) = shortened {
            text += &format!("\n\n# {}\n{}", shortened.shortened_fault, shortened.trial.trim_end());
        }
    }
    text
}
