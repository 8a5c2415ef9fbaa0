//! The near end of a recording: one thread for each path ([`super::probe`]).

use super::auth::Credentials;
use super::options::Options;
use super::probe::{PathLog, Probe};
use super::recording::{RecordedPath, Recording};
use core::time::Duration;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use thiserror::Error;
use tributary_net::Key;

/// Time without any answer after which a path counts as silent at the start.
pub const SILENT: Duration = Duration::from_secs(5);

/// Why nothing can be recorded.
#[derive(Debug, Error)]
pub enum RecordError {
    /// A path's socket cannot be used.
    #[error("path {path}: {source}")]
    Socket {
        /// The path.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// No path answers.
    #[error(
        "no answer from {servers} within {} s: start `tributary-lab record --serve ADDRESS:PORT --shared-key FILE` there, and let \
         UDP to this port pass",
        SILENT.as_secs()
    )]
    Silent {
        /// The servers that were asked.
        servers: String,
    },
    /// A server has another key.
    #[error("path {path}: the server has another key; give both ends the same file as --shared-key")]
    OtherKey {
        /// The path.
        path: String,
    },
}

/// A recording in progress. Dropping it stops its threads.
#[derive(Debug)]
pub struct Recorder {
    options: Options,
    clock: u64,
    began: Instant,
    paths: Vec<RecordingPath>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What a thread and its owner share.
#[derive(Debug)]
struct RecordingPath {
    name: String,
    interface: Option<String>,
    header: usize,
    log: Arc<Mutex<PathLog>>,
}

impl Recorder {
    /// Begins to record over connected sockets, one for each path, with its name. Call it in the network namespace of the sockets:
    /// the counters of their interfaces are read there.
    ///
    /// # Errors
    /// [`RecordError`] when no path answers, or a server refuses the key.
    pub fn start(
        sockets: Vec<(String, UdpSocket)>,
        key: &Key,
        options: Options,
    ) -> Result<Self, RecordError> {
        let servers: Vec<String> =
            sockets.iter().filter_map(|(_, socket)| Some(socket.peer_addr().ok()?.to_string())).collect();
        let mut probes = Vec::new();
        for (path, socket) in sockets {
            let probe = Probe::new(socket, key, options.pace);
            probes.push((path.clone(), probe.map_err(|source| RecordError::Socket { path, source })?));
        }
        let until = Instant::now() + SILENT;
        let greeted: Vec<Option<bool>> = std::thread::scope(|scope| {
            let asked: Vec<_> =
                probes.iter_mut().map(|(_, probe)| scope.spawn(|| probe.greet(until))).collect();
            asked.into_iter().map(|asked| asked.join().unwrap_or_default()).collect()
        });
        if let Some(((path, _), _)) =
            probes.iter().zip(&greeted).find(|(_, accepted)| **accepted == Some(false))
        {
            return Err(RecordError::OtherKey { path: path.clone() });
        }
        if greeted.iter().all(Option::is_none) {
            return Err(RecordError::Silent { servers: servers.join(", ") });
        }
        let (stop, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let (mut paths, mut threads) = (Vec::new(), Vec::new());
        for (name, probe) in probes {
            let (header, interface) = (probe.header(), probe.interface().map(str::to_owned));
            let log = Arc::new(Mutex::new(PathLog::default()));
            paths.push(RecordingPath { name, interface, header, log: log.clone() });
            let stop = stop.clone();
            threads.push(std::thread::spawn(move || probe.run(began, &log, (&stop, options.length))));
        }
        Ok(Self { options, clock: Credentials::new(key).clock(), began, paths, stop, threads })
    }

    /// When the recording began.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// The interface of each path, by its name; `None`: unknown.
    #[must_use]
    pub fn interfaces(&self) -> Vec<(String, Option<String>)> {
        self.paths.iter().map(|path| (path.name.clone(), path.interface.clone())).collect()
    }

    /// What has been recorded so far.
    #[must_use]
    pub fn so_far(&self) -> Recording {
        let copy = |path: &RecordingPath| RecordedPath {
            name: path.name.clone(),
            header: path.header,
            log: path.log.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        };
        let paths = self.paths.iter().map(copy).collect();
        Recording::new(paths, self.options, (self.clock, self.is_finished()))
    }

    /// Whether the recording has ended, late packets included.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Ends the recording; returns what was recorded when late packets have arrived, after a second.
    #[must_use]
    pub fn finish(mut self) -> Recording {
        self.end();
        self.so_far()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
