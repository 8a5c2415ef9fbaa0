//! Both ends of the proxy, connected by two paths over loopback.

use super::Sample;
use crate::BenchError;
use crate::daemon::{Program, keygen};
use crate::failed;
use core::time::Duration;
use std::net::SocketAddr;
use tempfile::TempDir;

/// Time until the last streams of ended connections must be gone.
const REST: Duration = Duration::from_secs(10);
/// Local ends of the paths.
const PATHS: [&str; 2] = ["127.0.0.2", "127.0.0.3"];

pub(super) struct Proxy {
    // Dropped in this order: the client first.
    client: Program,
    server: Program,
    _directory: TempDir,
}

fn look(daemon: &Program) -> Result<Sample, BenchError> {
    let usage = daemon.usage()?;
    let (memory_kb, descriptors, streams) = (usage.memory_kb, usage.descriptors, usage.streams);
    Ok(Sample { memory_kb, descriptors, streams, ..Sample::default() })
}

impl Proxy {
    pub(super) fn start(target: SocketAddr) -> Result<Self, BenchError> {
        let directory = TempDir::new().map_err(|error| failed("temporary directory", error))?;
        let at = directory.path();
        let key = keygen(at)?;
        let forward = target.to_string();
        let serve = ["--listen", "127.0.0.1:0", "--forward", &forward, "--shared-key", &key];
        let server = Program::here(&[&["serve"][..], &serve[..]].concat(), at)?;
        let paths = PATHS.map(|local| format!("{local}={}", server.listening()[0]));
        let connect =
            ["--path", &paths[0], "--path", &paths[1], "--listen", "127.0.0.1:0", "--shared-key", &key];
        let client = Program::here(&[&["connect"][..], &connect[..]].concat(), at)?;
        Ok(Self { client, server, _directory: directory })
    }

    /// The address for applications.
    pub(super) fn address(&self) -> SocketAddr {
        self.client.listening()[0]
    }

    /// The state of server and client.
    pub(super) fn look(&self) -> Result<[Sample; 2], BenchError> {
        Ok([look(&self.server)?, look(&self.client)?])
    }

    /// The same as soon as no stream is left, or after [`REST`].
    pub(super) async fn at_rest(&self) -> Result<[Sample; 2], BenchError> {
        let began = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(REST / 5).await;
            let samples = self.look()?;
            if began.elapsed() >= REST || samples.iter().all(|sample| sample.streams == 0) {
                return Ok(samples);
            }
        }
    }
}
