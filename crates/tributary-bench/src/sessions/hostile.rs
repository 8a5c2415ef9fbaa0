//! Clients that write and never read, all in one process, so that their memory is separate from the server's.

use super::Settings;
use super::target::DEAF;
use crate::BenchError;
use crate::end::Outcome;
use crate::failed;
use bytes::Bytes;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinSet;
use tributary_lab::process::{self, Process, own_program};
use tributary_net::{Common, ConnectConfig, Key, Session, Stream, connect};

/// Time for all of them to connect and to fill their windows.
const READY: Duration = Duration::from_secs(180);
/// If nothing is accepted from any of them for this time, everything is full.
const FULL: Duration = Duration::from_secs(2);
/// Sessions that connect at once.
const TOGETHER: usize = 32;

/// Instructions for the process.
#[derive(Debug, Serialize, Deserialize)]
struct Orders {
    server: SocketAddr,
    key: PathBuf,
    sessions: u32,
    streams: u32,
}

/// The process, killed when dropped.
pub(super) struct Crowd {
    process: Process,
}

impl Crowd {
    /// Starts them and waits until nothing more is accepted from any.
    pub(super) async fn start(
        settings: &Settings,
        server: SocketAddr,
        key: &Path,
    ) -> Result<Self, BenchError> {
        let orders =
            Orders { server, key: key.to_owned(), sessions: settings.sessions, streams: settings.streams };
        let command = Command::new(own_program()?);
        let process = Process::endpoint("hostile clients", command, "hostile", &orders)?;
        // The target and the honest client run on this runtime.
        let waiting = tokio::task::spawn_blocking(move || (process.reply::<()>(READY), process));
        let (ready, process) = waiting.await.map_err(|error| failed("hostile clients", error))?;
        ready?;
        Ok(Self { process })
    }

    pub(super) fn end(self) {
        drop(self.process);
    }
}

/// The process, as an endpoint. Returns whether it succeeded; a failure was reported.
pub(crate) fn run() -> bool {
    process::carry_out(|orders: Orders| -> Outcome<()> {
        let key = Key::load(&orders.key)?;
        tributary_net::sockopt::raise_descriptor_limit()?;
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(annoy(&orders, key))
    })
}

async fn annoy(orders: &Orders, key: Key) -> Outcome<()> {
    let mut common = Common::new(key);
    // They hold little memory themselves.
    common.session.send_buffer = 256 << 10;
    common.session.receive_credit = 1 << 20;
    let path = |n: u32| format!("127.0.{}.{}={}", 1 + n / 200, 1 + n % 200, orders.server);
    let written = Arc::new(AtomicU64::new(0));
    let (mut connecting, mut sessions, mut writing) = (JoinSet::new(), Vec::new(), JoinSet::new());
    for number in 0..orders.sessions {
        let config = ConnectConfig {
            paths: vec![path(number).parse()?],
            common: common.clone(),
            timeout: Duration::from_secs(30),
        };
        connecting.spawn(connect(config));
        if connecting.len() >= TOGETHER {
            sessions.extend(next(&mut connecting).await?);
        }
    }
    while !connecting.is_empty() {
        sessions.extend(next(&mut connecting).await?);
    }
    for session in &sessions {
        for _ in 0..orders.streams {
            let stream = session.open_stream(0).await?;
            writing.spawn(write_on(stream, written.clone()));
        }
    }
    let mut before = u64::MAX;
    while before != written.load(Ordering::Relaxed) {
        before = written.load(Ordering::Relaxed);
        tokio::time::sleep(FULL).await;
    }
    process::reply(&());
    std::future::pending::<()>().await;
    Ok(())
}

async fn next(
    connecting: &mut JoinSet<Result<Session, tributary_net::ConnectError>>,
) -> Outcome<Option<Session>> {
    Ok(connecting.join_next().await.transpose()?.transpose()?)
}

/// Asks for a target that does not read, and writes without end.
async fn write_on(mut stream: Stream, written: Arc<AtomicU64>) {
    let piece = Bytes::from_static(&[9; 16 << 10]);
    let mut outcome = stream.write_chunk(Bytes::from_static(&[0, DEAF])).await;
    while outcome.is_ok() {
        outcome = stream.write_chunk(piece.clone()).await;
        written.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }
    // Kept open, so that nothing is aborted.
    std::future::pending::<()>().await;
}
