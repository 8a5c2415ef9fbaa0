//! Both servers as processes, and their use of the system.

use core::any::Any;
use core::time::Duration;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tributary_lab::nginx::Nginx;
use tributary_lab::process::{Process, product_program};

use crate::daemon::memory_kb;
use crate::procfs::Stat;
use crate::{BenchError, failed, version};

/// Time for a server to listen.
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

/// A running server, ended when dropped.
pub(super) struct Server {
    id: u32,
    pub(super) address: SocketAddr,
    _program: Box<dyn Any>,
}

impl Server {
    /// The process and its children.
    fn processes(&self) -> Result<Vec<u32>, BenchError> {
        let id = self.id;
        let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let text = text.map_err(|error| failed("/proc", error))?;
        let children = text.split_whitespace().filter_map(|id| id.parse().ok());
        Ok(std::iter::once(id).chain(children).collect())
    }

    /// Processor seconds of all of them, and the part of it in the kernel.
    pub(super) fn cpu_s(&self) -> Result<(f64, f64), BenchError> {
        let stats = self.processes()?.into_iter().map(Stat::of).collect::<Result<Vec<_>, _>>()?;
        let kernel_s: f64 = stats.iter().map(|stat| stat.kernel_s).sum();
        Ok((stats.iter().map(|stat| stat.user_s).sum::<f64>() + kernel_s, kernel_s))
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
    Ok(Server { id: process.id(), address, _program: Box::new(process) })
}

/// nginx with `sendfile`, and its version.
pub(super) async fn nginx(files: &Path) -> Result<(String, Server), BenchError> {
    let version = version("nginx", "--nginx")?;
    // nginx does not accept port 0, so a free port is looked for just before.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.map_err(|error| failed("nginx", error))?;
    let nginx = Nginx::start_with(Command::new("nginx"), files, address, (WORKERS, CONNECTIONS))?;
    let server = Server { id: nginx.id(), address, _program: Box::new(nginx) };
    let until = Instant::now() + START;
    while let Err(error) = TcpStream::connect(address).await {
        if Instant::now() >= until {
            return Err(failed("nginx", format!("does not listen: {error}")));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok((version, server))
}
