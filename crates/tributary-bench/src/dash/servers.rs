//! Both servers as processes, and their use of the system.

use core::time::Duration;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tributary_lab::nginx::configuration;
use tributary_lab::process::{Process, product_program};

use crate::BenchError;
use crate::daemon::memory_kb;
use crate::failed;

/// Time for a server to listen, and to exit.
const START: Duration = Duration::from_secs(15);
/// Worker processes: as many as nginx's documentation recommends for two cores.
const WORKERS: u32 = 2;
/// Connections of each worker.
const CONNECTIONS: u32 = 16_384;

/// Raises the limit of descriptors for this process and its children.
pub(super) fn raise_descriptors(count: u64) -> Result<(), BenchError> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= count) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(count));
    setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum })
        .map_err(|error| failed("ulimit -n", format!("{count} descriptors are needed: {error}")))
}

/// Processor time, seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    pub(super) user_s: f64,
    pub(super) kernel_s: f64,
}

/// A running server, stopped when dropped.
pub(super) struct Server {
    process: Process,
    pub(super) address: SocketAddr,
    /// Clock ticks per second.
    ticks: f64,
    _directory: Option<TempDir>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // nginx stops its workers on SIGTERM, but not on SIGKILL.
        self.process.terminate(START);
    }
}

impl Server {
    fn new(process: Process, address: SocketAddr, directory: Option<TempDir>) -> Self {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        Self { process, address, ticks, _directory: directory }
    }

    /// The process and its children.
    fn processes(&self) -> Result<Vec<u32>, BenchError> {
        let id = self.process.id();
        let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let text = text.map_err(|error| failed("/proc", error))?;
        let children = text.split_whitespace().filter_map(|id| id.parse().ok());
        Ok(std::iter::once(id).chain(children).collect())
    }

    /// Processor time of all of them.
    pub(super) fn cpu(&self) -> Result<Cpu, BenchError> {
        let mut sum = Cpu::default();
        for id in self.processes()? {
            let text = std::fs::read_to_string(format!("/proc/{id}/stat")).map_err(|e| failed("/proc", e))?;
            // Fields 14 and 15; the name before them may contain spaces and ends with the last parenthesis.
            let fields: Vec<&str> =
                text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
            let field = |at: usize| fields.get(at - 3).and_then(|field| field.parse::<f64>().ok());
            let (user, kernel) = field(14)
                .zip(field(15))
                .ok_or_else(|| failed("/proc", format!("unexpected stat: {text}")))?;
            sum.user_s += user / self.ticks;
            sum.kernel_s += kernel / self.ticks;
        }
        Ok(sum)
    }

    /// Anonymous resident memory of all of them, kB.
    pub(super) fn memory_kb(&self) -> Result<u64, BenchError> {
        self.processes()?.into_iter().map(memory_kb).sum()
    }
}

/// `tributary dash serve`, with socket settings like nginx's.
pub(super) fn tributary(files: &Path) -> Result<Server, BenchError> {
    let mut command = Command::new(product_program()?);
    command.args(["dash", "serve"]).arg(files).args(["--listen", "127.0.0.1:0", "--tcp", "--json"]);
    command.args(["--connections", "16384"]).env("RUST_LOG", "error");
    let process = Process::start("tributary dash serve", command)?;
    let said: serde_json::Value = process.answer(START)?;
    let address = said["listening"]["http"][0].as_str().and_then(|address| address.parse().ok());
    let address = address.ok_or_else(|| process.failed(format!("answered `{said}`")))?;
    Ok(Server::new(process, address, None))
}

/// nginx with `sendfile`, and its version.
pub(super) async fn nginx(files: &Path) -> Result<(String, Server), BenchError> {
    let absent = |error: std::io::Error| failed("nginx", format!("{error}; run: scripts/setup --nginx"));
    let output = Command::new("nginx").arg("-v").output().map_err(absent)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let version = said.trim().rsplit(' ').next().unwrap_or("nginx").replace('/', " ");
    let directory = TempDir::new().map_err(|error| failed("temporary directory", error))?;
    // nginx does not accept port 0, so a free port is looked for just before.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.map_err(|error| failed("nginx", error))?;
    let file = directory.path().join("nginx.conf");
    let text = configuration((directory.path(), files), address, (WORKERS, CONNECTIONS));
    std::fs::write(&file, text).map_err(|error| failed("nginx.conf", error))?;
    let mut command = Command::new("nginx");
    command.arg("-c").arg(&file).arg("-p").arg(directory.path()).arg("-e").arg("stderr");
    let server = Server::new(Process::start("nginx", command)?, address, Some(directory));
    let until = Instant::now() + START;
    while let Err(error) = TcpStream::connect(address).await {
        if Instant::now() >= until {
            return Err(failed("nginx", format!("does not listen: {error}")));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok((version, server))
}
