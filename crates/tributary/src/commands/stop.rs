//! SIGTERM and SIGINT: the first signal stops a server, client or long piece of work gracefully, the second at once. The control
//! socket can ask for the same as the first signal.

use crate::service::ending::Ending;
use anyhow::{Context, Result};
use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tributary_net::proxy::Drained;

/// The signals that end a program.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for a signal and returns its number and name.
    pub(super) async fn next(&mut self) -> (u8, &'static str) {
        tokio::select! {
            _ = self.terminate.recv() => (15, "SIGTERM"),
            _ = self.interrupt.recv() => (2, "SIGINT"),
        }
    }
}

/// Runs until it ends or is stopped. Exit code: 0 when everything was delivered, 1 when connections had
/// to be reset, 128 plus the signal's number after a second signal.
pub(super) async fn run<F: Future<Output = Drained>>(
    ending: &Ending,
    start: impl FnOnce(oneshot::Receiver<()>) -> F,
) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let (stop, stopped) = oneshot::channel();
    let mut work = std::pin::pin!(start(stopped));
    tokio::select! {
        drained = &mut work => return Ok(account(drained)),
        (_, name) = signals.next() => tracing::info!("{name} received; a second one ends at once"),
        () = ending.requested() => tracing::info!("asked to end; SIGTERM ends at once"),
    }
    ending.begin();
    let _ = stop.send(());
    tokio::select! {
        drained = work => Ok(account(drained)),
        (number, name) = signals.next() => {
            tracing::warn!("{name} received again; connections that were open are reset");
            Ok(ExitCode::from(128 + number))
        }
    }
}

/// Number of the first signal, 0 before; for work without an async runtime. A second signal ends the process.
pub(super) fn flag() -> Result<Arc<AtomicU8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::new()?
    };
    let flag = Arc::new(AtomicU8::new(0));
    let set = flag.clone();
    std::thread::spawn(move || {
        runtime.block_on(async {
            let (number, name) = signals.next().await;
            set.store(number, Ordering::Relaxed);
            eprintln!("{name} received; stopping, a second one ends at once");
            let (number, _) = signals.next().await;
            std::process::exit(128 + i32::from(number));
        });
    });
    Ok(flag)
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
