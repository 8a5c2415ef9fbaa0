//! The commands: configuration in, a library call, its result out.

mod all;
pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod convert;
mod demo;
mod emulate;
pub(crate) mod export;
mod measure;
pub(crate) mod ows;
mod page;
mod paper;
pub(crate) mod record;
mod report;
pub(crate) mod reproduce;
mod show;
pub(crate) mod soak;
pub(crate) mod sweep;

use crate::cli::{DemoArguments, Emu, RunArguments};
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use tributary_bench::Endpoint;

/// Tributary's laboratory: the same video and transfers over several transports, emulated or simulated.
#[derive(Debug, Parser)]
#[command(name = "tributary-lab", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(DemoArguments),
    Show(show::ShowArguments),
    Run(Box<RunArguments>),
    Sweep(sweep::SweepArguments),
    Compare(compare::CompareArguments),
    Record(record::RecordArguments),
    Convert(convert::ConvertArguments),
    #[command(subcommand)]
    Export(export::Export),
    Reproduce(reproduce::ReproduceArguments),
    Soak(soak::SoakArguments),
    #[command(subcommand)]
    Emu(Emu),
    Bench(bench::BenchArguments),
    /// One process of an experiment or a benchmark; started by them.
    #[command(hide = true)]
    Endpoint {
        /// What it does
        kind: Endpoint,
    },
}

/// Runs the command. Isolation must come before any thread is started, so each command that emulates a network begins
/// with it.
pub(crate) fn dispatch(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Show(arguments) => show::run(&arguments),
        Command::Run(arguments) => measure::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Record(arguments) => record::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Export(export) => export::run(&export),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Emu(Emu::Run(arguments)) => emulate::run(&arguments),
        Command::Emu(Emu::Set(arguments)) => emulate::set(&arguments),
        Command::Emu(Emu::Cotag(arguments)) => emulate::cotag(&arguments),
        Command::Emu(Emu::List(arguments)) => emulate::list(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        // The endpoint has already reported a failure to the program that started it.
        Command::Endpoint { kind } => Ok(ExitCode::from(u8::from(!kind.run()))),
    }
}
