//! nginx as a child process that serves a folder. Not here: measurements.

use core::time::Duration;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::process::{Process, ProcessError};

/// Time limit for nginx to end.
const END: Duration = Duration::from_secs(15);

/// Maximum number of connections, enough for players.
const CONNECTIONS: u32 = 256;

/// A running nginx, ended when dropped.
#[derive(Debug)]
pub struct Nginx {
    process: Process,
    _directory: TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // nginx ends its workers on SIGTERM, but not on SIGKILL.
        self.process.terminate(END);
    }
}

impl Nginx {
    /// Process identifier of the master process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Starts `command`, which is nginx without arguments, with one worker. It does not listen yet when this returns.
    ///
    /// # Errors
    /// [`ProcessError::Program`]: it is not installed.
    pub fn start(command: Command, files: &Path, address: SocketAddr) -> Result<Self, ProcessError> {
        Self::start_with(command, files, address, (1, CONNECTIONS))
    }

    /// The same with this many workers and connections of each.
    ///
    /// # Errors
    /// [`ProcessError::Program`]: it is not installed.
    pub fn start_with(
        mut command: Command,
        files: &Path,
        address: SocketAddr,
        workers: (u32, u32),
    ) -> Result<Self, ProcessError> {
        let failed = |error: std::io::Error| ProcessError::Program {
            program: "nginx".to_owned(),
            package: "nginx",
            reason: error.to_string(),
        };
        let directory = TempDir::new().map_err(failed)?;
        let file = directory.path().join("nginx.conf");
        std::fs::write(&file, configuration((directory.path(), files), address, workers)).map_err(failed)?;
        command.arg("-c").arg(&file).arg("-p").arg(directory.path()).args(["-e", "stderr"]);
        Ok(Self { process: Process::start("nginx", command)?, _directory: directory })
    }
}

/// A configuration with `sendfile`, for this number of workers and of connections per worker. All files that nginx
/// writes are in `directory`.
fn configuration(
    (directory, files): (&Path, &Path),
    address: SocketAddr,
    (workers, connections): (u32, u32),
) -> String {
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let at = |name: &str| directory.join(name).display().to_string();
    format!(
        "daemon off; {user} worker_processes {workers}; worker_rlimit_nofile {descriptors}; pid {pid}; error_log stderr warn;
events {{ worker_connections {connections}; }}
http {{
    sendfile on; tcp_nopush on; access_log off; keepalive_requests 1000000; open_file_cache max=1000;
    client_body_temp_path {body}; proxy_temp_path {proxy}; fastcgi_temp_path {fastcgi};
    uwsgi_temp_path {uwsgi}; scgi_temp_path {scgi};
    server {{ listen {address} backlog=4096; root {root}; }}
}}
",
        descriptors = 2 * connections,
        pid = at("pid"),
        body = at("body"),
        proxy = at("proxy"),
        fastcgi = at("fastcgi"),
        uwsgi = at("uwsgi"),
        scgi = at("scgi"),
        root = files.display(),
    )
}
