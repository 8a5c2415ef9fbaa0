//! SIGTERM and SIGINT: the first ends a server or client in order, the second at once.

use anyhow::{Context, Result};
use std::future::Future;
use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tributary_net::proxy::Drained;

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// The next signal: its number and name.
    async fn next(&mut self) -> (u8, &'static str) {
        tokio::select! {
            _ = self.terminate.recv() => (15, "SIGTERM"),
            _ = self.interrupt.recv() => (2, "SIGINT"),
        }
    }
}

/// Waits for SIGTERM or SIGINT.
pub(super) async fn asked() -> Result<()> {
    Signals::new()?.next().await;
    Ok(())
}

/// Runs until it ends or is told to stop. Exit code: 0 when everything was delivered, 1 when connections had
/// to be reset, 128 and the signal's number after a second signal.
pub(super) async fn run<F: Future<Output = Drained>>(
    start: impl FnOnce(oneshot::Receiver<()>) -> F,
) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let (stop, stopped) = oneshot::channel();
    let mut work = std::pin::pin!(start(stopped));
    tokio::select! {
        drained = &mut work => return Ok(account(drained)),
        (_, name) = signals.next() => tracing::info!("{name} received; a second one ends at once"),
    }
    let _ = stop.send(());
    tokio::select! {
        drained = work => Ok(account(drained)),
        (number, name) = signals.next() => {
            tracing::warn!("{name} received again; connections that were open are reset");
            Ok(ExitCode::from(128 + number))
        }
    }
}

fn account(drained: Drained) -> ExitCode {
    if drained == Drained::default() {
        tracing::info!("ended; everything was delivered");
        return ExitCode::SUCCESS;
    }
    let Drained { reset, undelivered } = drained;
    tracing::warn!(reset, undelivered, "ended; connections had to be reset, or bytes were not acknowledged");
    ExitCode::from(1)
}
