//! `tributary-lab bench`: the benchmarks, each beside its peer in the same run.

use super::page::PageArguments;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_bench::Benchmark;
use tributary_cli::output;
use tributary_report::{Table, machine};

/// Benchmarks: each prints the ratio with its peer, measured in the same run.
///
/// A promise holds or fails if the whole 95 % interval is on one side of its bound, else it is undecided; the exit code is 0
/// in each case. Run benchmarks on a machine that does nothing else. They need root or user namespaces.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab bench unshaped --rounds 5 --json
  tributary-lab bench memory --page docs/benchmarks.md")]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    bench: Benchmark,
    /// Print one JSON object, with every round
    #[arg(long, global = true)]
    json: bool,
    /// Also write the tables into the file of tables beside this page: --page docs/benchmarks.md writes
    /// docs/benchmarks.tables.md
    #[arg(long, value_name = "PAGE.md", global = true)]
    page: Option<PathBuf>,
    /// Heading of this run in that file, without it the name of the benchmark
    #[arg(long, value_name = "HEADING", global = true)]
    part: Option<String>,
}

pub(crate) fn run(arguments: &BenchArguments) -> Result<ExitCode> {
    let documentation = PageArguments { page: arguments.page.clone(), part: arguments.part.clone() };
    let beside = documentation.open()?;
    let measured = arguments.bench.run(&mut |what| eprintln!("{what}"))?;
    match arguments.json {
        true => println!("{}", measured.json),
        false => measured.tables.iter().for_each(|table| println!("{}", table.to_text())),
    }
    if let Some(beside) = beside {
        let run = machine::run_info(&output::command_line());
        let made = format!("{}\nLinux {}, {}.\n", run.marker(), run.kernel, run.machine);
        let tables = measured.tables.iter().map(Table::to_section);
        let markdown = std::iter::once(made).chain(tables).collect::<Vec<_>>().join("\n");
        beside.write(measured.name, &markdown)?;
    }
    Ok(ExitCode::SUCCESS)
}
