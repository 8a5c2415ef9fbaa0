//! Both ends of a proxy as processes, and what the system and `tributary status` say of them.

use super::Sample;
use crate::{BenchError, own_program};
use core::time::Duration;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use tributary_lab::process::lines_of;

/// Time for a process to listen, and for an answer to come.
const START: Duration = Duration::from_secs(15);
/// Time for the last streams of ended connections to be forgotten.
const REST: Duration = Duration::from_secs(10);
/// Local ends of the paths.
const PATHS: [&str; 2] = ["127.0.0.2", "127.0.0.3"];

fn failed(program: &str, reason: impl ToString) -> BenchError {
    BenchError::Program { program: program.to_owned(), reason: reason.to_string() }
}

/// One end, killed when dropped.
struct End {
    child: Child,
    status: PathBuf,
    listening: SocketAddr,
}

impl Drop for End {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl End {
    fn start(role: &'static str, arguments: &[&str], directory: &Path) -> Result<Self, BenchError> {
        let program = own_program()?;
        let mut command = Command::new(program);
        command.arg(role).args(arguments).env("XDG_RUNTIME_DIR", directory).env("RUST_LOG", "error");
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| failed(role, error))?;
        let lines = lines_of(child.stdout.take().expect("standard output was piped"));
        let status = directory.join("tributary").join(format!("{role}-{}.sock", child.id()));
        let mut end = Self { child, status, listening: SocketAddr::from(([0, 0, 0, 0], 0)) };
        let line = lines.recv_timeout(START).map_err(|error| failed(role, error))?;
        let address = line.strip_prefix("listening on ").and_then(|address| address.parse().ok());
        end.listening = address.ok_or_else(|| failed(role, format!("answered `{line}`")))?;
        Ok(end)
    }

    fn look(&self) -> Result<Sample, BenchError> {
        let process = PathBuf::from(format!("/proc/{}", self.child.id()));
        let text = std::fs::read_to_string(process.join("status")).map_err(|e| failed("/proc", e))?;
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let memory_kb = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        let memory_kb = memory_kb.ok_or_else(|| failed("/proc", "no RssAnon: has the process ended?"))?;
        let descriptors = std::fs::read_dir(process.join("fd")).map_err(|e| failed("/proc", e))?.count();
        let streams = self.streams()?;
        Ok(Sample { memory_kb, descriptors: descriptors as u64, streams, ..Sample::default() })
    }

    /// Streams of all sessions.
    fn streams(&self) -> Result<u64, BenchError> {
        let ask = || {
            let mut socket = UnixStream::connect(&self.status)?;
            socket.set_read_timeout(Some(START))?;
            let mut text = String::new();
            socket.read_to_string(&mut text)?;
            std::io::Result::Ok(text)
        };
        let answer = ask().map_err(|error| failed("tributary status", error))?;
        let answer: serde_json::Value =
            serde_json::from_str(&answer).map_err(|error| failed("tributary status", error))?;
        let sessions = answer["sessions"].as_array().map_or(&[][..], Vec::as_slice);
        Ok(sessions.iter().filter_map(|session| session["streams"].as_u64()).sum())
    }
}

/// Both ends.
pub(super) struct Proxy {
    // In this order they are dropped: the client first.
    client: End,
    server: End,
    _directory: TempDir,
}

impl Proxy {
    /// Starts them over two paths.
    pub(super) async fn start(target: SocketAddr) -> Result<Self, BenchError> {
        let directory = TempDir::new().map_err(|error| failed("temporary directory", error))?;
        let at = directory.path();
        let key = at.join("key").to_string_lossy().into_owned();
        let made = Command::new(own_program()?).args(["keygen", "--out", &key]).status();
        made.map_err(|error| failed("tributary keygen", error))?;
        let forward = target.to_string();
        let serve = ["--listen", "127.0.0.1:0", "--forward", &forward, "--key", &key];
        let server = End::start("serve", &serve, at)?;
        let paths = PATHS.map(|local| format!("{local}={}", server.listening));
        let connect = ["--path", &paths[0], "--path", &paths[1], "--listen", "127.0.0.1:0", "--key", &key];
        let client = End::start("connect", &connect, at)?;
        Ok(Self { client, server, _directory: directory })
    }

    /// Where applications connect.
    pub(super) fn address(&self) -> SocketAddr {
        self.client.listening
    }

    /// The server's and the client's state.
    pub(super) async fn look(&self) -> Result<[Sample; 2], BenchError> {
        Ok([self.server.look()?, self.client.look()?])
    }

    /// The same once no stream is left, or after [`REST`].
    pub(super) async fn at_rest(&self) -> Result<[Sample; 2], BenchError> {
        let began = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(REST / 5).await;
            let samples = self.look().await?;
            if began.elapsed() >= REST || samples.iter().all(|sample| sample.streams == 0) {
                return Ok(samples);
            }
        }
    }
}
