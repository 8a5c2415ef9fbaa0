//! Builds and starts the ns-3 driver; every wait has a limit.

use super::super::BenchError;
use super::bottleneck::{Bottleneck, Measured};
use core::time::Duration;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

/// Path of the program that the Makefile builds, relative to its folder.
const PROGRAM: &str = "../../target/ns3/tributary-ns3";
/// Interval at which a run is checked for its end.
const LOOK: Duration = Duration::from_millis(20);

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
            return Err(BenchError::Program {
                program: format!("make -C {}", folder.display()),
                reason: "there is no ns-3 driver; run from the root of the source tree, or name its folder \
                         with --driver"
                    .to_owned(),
            });
        }
        let failed = |reason: String| BenchError::Program {
            program: format!("make -C {}", folder.display()),
            reason: format!("{reason} (it needs g++, make and Debian's libns3-dev, ns-3 3.37)"),
        };
        let output = Command::new("make").arg("-C").arg(folder).stdin(Stdio::null()).output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let program = folder.join(PROGRAM);
        let program = program.canonicalize().map_err(|error| failed(error.to_string()))?;
        Ok(Self { program })
    }

    /// Runs a cell in ns-3 on any core, for at most `patience`.
    ///
    /// # Errors
    /// [`BenchError::Program`]: it crashed, took too long or printed an invalid answer.
    pub fn run(&self, cell: &Bottleneck, patience: Duration) -> Result<Measured, BenchError> {
        let measured = answer(Command::new(&self.program).args(cell.driver_arguments()), patience)?;
        Ok(from_first_data(cell, measured))
    }

    /// Runs a cell in ns-3 on one core.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_on(&self, core: usize, cell: &Bottleneck, patience: Duration) -> Result<Measured, BenchError> {
        let measured = answer(pinned(core, &self.program).args(cell.driver_arguments()), patience)?;
        Ok(from_first_data(cell, measured))
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

/// Runs a program that prints one [`Measured`].
pub(super) fn answer(command: &mut Command, patience: Duration) -> Result<Measured, BenchError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |reason: String| BenchError::Program { program: program.clone(), reason };
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Running(piped.spawn().map_err(|error| failed(error.to_string()))?);
    let mut output = child.0.stdout.take().expect("standard output was piped");
    // Read on another thread: an answer may be longer than a pipe holds.
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let status = child.wait(patience).map_err(|error| failed(error.to_string()))?;
    let Some(status) = status else {
        return Err(failed(format!("gave up after {} s", patience.as_secs())));
    };
    if !status.success() {
        return Err(failed(format!("ended with {status}")));
    }
    let text =
        reader.join().expect("the reader does not panic").map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(format!("answered `{}`: {error}", text.trim())))
}

/// A child process, killed when dropped.
struct Running(Child);

impl Running {
    fn wait(&mut self, patience: Duration) -> std::io::Result<Option<ExitStatus>> {
        let start = Instant::now();
        while start.elapsed() < patience {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            std::thread::sleep(LOOK);
        }
        Ok(None)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_driver_is_said_with_the_way_out() {
        let error = Driver::build(Path::new("nowhere/at/all")).unwrap_err().to_string();
        assert!(error.contains("--driver"), "{error}");
    }

    #[test]
    fn nonsense_crashes_and_silence_are_told_apart() {
        let ask = |line: &str, patience| {
            let mut command = Command::new("sh");
            answer(command.args(["-c", line]), patience).unwrap_err().to_string()
        };
        let patience = Duration::from_secs(60);
        assert!(ask("echo hello", patience).contains("answered `hello`"));
        assert!(ask("kill -SEGV $$", patience).contains("signal: 11"));
        assert!(ask("while :; do :; done", Duration::ZERO).contains("gave up after 0 s"));
    }
}
