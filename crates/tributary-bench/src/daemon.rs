//! The product as a separate process, and what `/proc` and `tributary status` report about it.

use super::procfs::status_kb;
use super::{BenchError, failed};
use core::time::Duration;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tributary_lab::process::{Process, output, product_program};

/// Time for a process to listen.
const START: Duration = Duration::from_secs(15);

/// Makes a key file in the directory, unless it has one. Returns its path.
pub(super) fn keygen(directory: &Path) -> Result<String, BenchError> {
    let file = directory.join("key");
    let key = file.to_string_lossy().into_owned();
    if file.exists() {
        return Ok(key);
    }
    let made = Command::new(product_program()?).args(["keygen", "--shared", "--out", &key]).output();
    match made {
        Ok(output) if output.status.success() => Ok(key),
        Ok(output) => Err(failed("tributary keygen", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(failed("tributary keygen", error)),
    }
}

/// Anonymous resident memory of a process, kB.
pub(super) fn memory_kb(id: u32) -> Result<u64, BenchError> {
    status_kb(id, "RssAnon:")
}

/// The resources that a process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Anonymous resident memory, kB: what the process allocated.
    pub memory_kb: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Streams that count against the limit of streams, over all sessions.
    pub streams: u64,
    pub sessions: u64,
}

/// A running `serve` or `connect`, killed when dropped.
pub(super) struct Program {
    process: Process,
    /// Of its status socket.
    folder: PathBuf,
    /// The product, to ask for the status.
    product: PathBuf,
    listening: Vec<SocketAddr>,
}

#[derive(Deserialize)]
struct Announcement {
    listening: Vec<SocketAddr>,
}

/// What `tributary status --json` prints.
#[derive(Deserialize)]
struct Status {
    programs: Vec<ProgramStatus>,
}

#[derive(Deserialize)]
struct ProgramStatus {
    pid: u32,
    #[serde(default)]
    sessions: Vec<SessionStatus>,
}

#[derive(Deserialize)]
struct SessionStatus {
    streams: Option<u64>,
}

impl Program {
    /// Starts the product's program here, with these arguments. Its status socket is in a folder of the directory.
    pub(super) fn here(arguments: &[&str], directory: &Path) -> Result<Self, BenchError> {
        Self::start(Command::new(product_program()?), arguments, directory)
    }

    /// As [`Self::here`], by a command that starts the program elsewhere.
    pub(super) fn start(
        mut command: Command,
        arguments: &[&str],
        directory: &Path,
    ) -> Result<Self, BenchError> {
        let folder = directory.join("status");
        command.args(arguments).arg("--json").env("RUST_LOG", "error").env("TRIBUTARY_RUNTIME_DIR", &folder);
        let process = Process::start(arguments.join(" "), command)?;
        let said: Announcement = process.answer(START)?;
        Ok(Self { process, folder, product: product_program()?, listening: said.listening })
    }

    /// Its process identifier.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The addresses on which it listens.
    pub(super) fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// Sends SIGTERM and waits for at most `most`; returns the time until the program exited, and its exit code.
    pub(super) fn terminate(&mut self, most: Duration) -> (Duration, Option<i32>) {
        self.process.terminate(most)
    }

    /// Its memory, its open descriptors, and the streams and sessions that it reports.
    pub(super) fn usage(&self) -> Result<Usage, BenchError> {
        let process = PathBuf::from(format!("/proc/{}", self.process.id()));
        let descriptors = std::fs::read_dir(process.join("fd")).map_err(|e| failed("/proc", e))?.count();
        let (sessions, streams) = self.streams()?;
        Ok(Usage { memory_kb: self.memory_kb()?, descriptors: descriptors as u64, streams, sessions })
    }

    /// Its memory alone.
    pub(super) fn memory_kb(&self) -> Result<u64, BenchError> {
        memory_kb(self.process.id())
    }

    /// Number of sessions, and number of streams of all sessions.
    fn streams(&self) -> Result<(u64, u64), BenchError> {
        let mut status = Command::new(&self.product);
        status.args(["status", "--json"]).env("TRIBUTARY_RUNTIME_DIR", &self.folder);
        let answer: Status = serde_json::from_str(&output(status, "tributary")?)
            .map_err(|error| failed("tributary status", error))?;
        let own = answer.programs.into_iter().find(|program| program.pid == self.process.id());
        let sessions = own.ok_or_else(|| failed("tributary status", "the program does not answer"))?.sessions;
        Ok((sessions.len() as u64, sessions.iter().filter_map(|session| session.streams).sum()))
    }
}
