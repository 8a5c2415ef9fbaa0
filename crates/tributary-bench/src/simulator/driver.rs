//! Builds and starts the ns-3 driver; every wait has a limit.

use super::super::{BenchError, failed};
use super::bottleneck::{Bottleneck, Measured};
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tributary_lab::process::{Process, ProcessError, output};

/// Path of the program that the Makefile builds, relative to its folder.
const PROGRAM: &str = "../../target/ns3/tributary-ns3";

/// The ns-3 driver, built.
#[derive(Clone, Debug)]
pub struct Driver {
    program: PathBuf,
}

impl Driver {
    /// Builds the driver in `folder`, unless it is up to date.
    ///
    /// # Errors
    /// [`BenchError::Program`] names what is missing.
    pub fn build(folder: &Path) -> Result<Self, BenchError> {
        if !folder.join("Makefile").exists() {
            let reason = "there is no ns-3 driver; run from the root of the source tree, or name its folder with --driver";
            return Err(failed(&format!("make -C {}", folder.display()), reason));
        }
        let mut make = Command::new("make");
        make.arg("-C").arg(folder).stdin(Stdio::null());
        output(make, "libns3-dev, with g++ and make")?;
        let program = folder.join(PROGRAM);
        match program.canonicalize() {
            Ok(program) => Ok(Self { program }),
            Err(error) => Err(failed(&program.display().to_string(), error)),
        }
    }

    /// Runs a cell in ns-3 on any core, for at most `patience`.
    ///
    /// # Errors
    /// [`ProcessError`]: it crashed, took too long or printed an invalid answer.
    pub fn run(&self, cell: &Bottleneck, patience: Duration) -> Result<Measured, ProcessError> {
        let mut command = Command::new(&self.program);
        command.args(cell.driver_arguments());
        let measured = answer(command, patience)?;
        Ok(from_first_data(cell, measured))
    }

    /// Runs a cell in ns-3 on one core.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_on(
        &self,
        core: usize,
        cell: &Bottleneck,
        patience: Duration,
    ) -> Result<Measured, ProcessError> {
        let mut command = pinned(core, &self.program);
        command.args(cell.driver_arguments());
        Ok(from_first_data(cell, answer(command, patience)?))
    }
}

/// The driver counts from the first SYN; the data follows a round trip later.
fn from_first_data(cell: &Bottleneck, measured: Measured) -> Measured {
    let completed = measured.completed.map(|at| at - cell.rtt.as_secs_f64());
    Measured { completed, ..measured }
}

/// A command that runs on one core only (util-linux).
pub(super) fn pinned(core: usize, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.arg("--cpu-list").arg(core.to_string()).arg(program);
    command
}

/// Runs a program that prints one [`Measured`] in a line.
fn answer(mut command: Command, patience: Duration) -> Result<Measured, ProcessError> {
    command.stderr(Stdio::null());
    let name = command.get_program().to_string_lossy().into_owned();
    Process::start(name, command)?.answer(patience)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_driver_is_an_error_that_names_the_remedy() {
        let error = Driver::build(Path::new("nowhere/at/all")).unwrap_err().to_string();
        assert!(error.contains("--driver"), "{error}");
    }

    #[test]
    fn invalid_answers_crashes_and_timeouts_are_distinguished() {
        let ask = |line: &str, patience| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            answer(command, patience).unwrap_err().to_string()
        };
        let patience = Duration::from_secs(60);
        assert!(ask("echo hello", patience).contains("answered `hello`"));
        assert!(ask("kill -SEGV $$", patience).contains("ended without an answer"));
        assert!(ask("while :; do :; done", Duration::ZERO).contains("no answer within 0 s"));
    }
}
