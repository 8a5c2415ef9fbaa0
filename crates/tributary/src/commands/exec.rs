//! `tributary exec`: one program whose connections go over a session, without root.

use super::proxy;
use crate::cli::ExecArguments;
use crate::keys;
use crate::service::{Control, log};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tributary_exec::{Program, Sockets};
use tributary_net::proxy::{Forwarder, Redirected};

/// Name of the hidden command that becomes the program.
pub(crate) const INSIDE: &str = "exec-inside";
/// Exit code when the program was not started, as env(1) uses it.
const NOT_STARTED: u8 = 125;
/// Log level when `RUST_LOG` is not set: the terminal belongs to the program.
const LOG: &str = "warn";

pub(crate) fn run(arguments: ExecArguments) -> Result<ExitCode> {
    if arguments.session.user.user.is_some() {
        bail!("--user: the program runs as the user who starts it");
    }
    let config = proxy::forward_config(&arguments.paths, (&arguments.keys, &arguments.session), Vec::new())?;
    let drain = Duration::from_secs(arguments.session.drain);
    let service = &arguments.session.service;
    log::start(LOG, service.log_format)?;
    let runtime = proxy::plain_runtime()?;
    let outcome = runtime.block_on(async {
        keys::say(Some(&config.connect.common.keys));
        let service = service.begin()?;
        let mut forwarder = Forwarder::bind(config).await?;
        // After the session is up, because the program waits for nothing else.
        let executable = std::env::current_exe().context("finding this program")?;
        let (program, sockets) = Program::start(&mut inside_command(&executable), &arguments.program)?;
        let Sockets { listeners, names, device } = sockets;
        if let Err(missing) = &device {
            tracing::warn!("only TCP and names are carried: {missing}");
        }
        forwarder.serve_redirected(Redirected { listeners, names, device: device.ok() })?;
        let watch = forwarder.watch();
        let name = arguments.program[0].to_string_lossy().into_owned();
        let _shown = service.show("exec", &[] as &[String], Control::none(), move || {
            let mut state = serde_json::to_value(watch.snapshot()).unwrap_or_default();
            state["program"] = name.clone().into();
            state
        });
        let mut signals = Signals::new()?;
        let (ended, stop) = tokio::sync::oneshot::channel();
        let work = forwarder.run_until(async { drop(stop.await) }, drain);
        let waiting = async {
            let status = signals.until_ended(program.go()?).await;
            // What the program has written is still delivered.
            let _ = ended.send(());
            status
        };
        let (status, _) = tokio::join!(waiting, work);
        status
    });
    runtime.shutdown_timeout(Duration::from_millis(100));
    Ok(ExitCode::from(match outcome {
        Ok(status) => code(status),
        Err(error) => {
            eprintln!("tributary exec: {}", tributary_cli::error_line(&error));
            NOT_STARTED
        }
    }))
}

/// The command that becomes a program in a namespace; the program's name and arguments follow.
pub(crate) fn inside_command(executable: &Path) -> Command {
    let mut command = Command::new(executable);
    command.arg(INSIDE).arg("--");
    command
}

/// The hidden command: becomes the program.
pub(crate) fn inside(program: &[OsString]) -> ExitCode {
    let Err(error) = tributary_exec::enter(program);
    // The other process reports everything else.
    if error.exit_code() != NOT_STARTED {
        eprintln!("tributary exec: {error}");
    }
    ExitCode::from(error.exit_code())
}

/// As a shell reports it: the exit code, or 128 plus the signal's number.
pub(super) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Signals that are passed on to a program.
pub(super) struct Signals(Vec<Signal>);

impl Signals {
    const PASSED: [SignalKind; 6] = [
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        SignalKind::interrupt(),
        SignalKind::quit(),
    ];

    pub(super) fn new() -> Result<Self> {
        let signals = Self::PASSED.into_iter().map(signal).collect::<Result<_, _>>();
        Ok(Self(signals.context("cannot listen for signals")?))
    }

    /// The next signal's number.
    async fn next(&mut self) -> i32 {
        std::future::poll_fn(|cx| {
            let mut kinds = self.0.iter_mut().zip(Self::PASSED);
            let ready = kinds.find_map(|(signal, kind)| signal.poll_recv(cx).is_ready().then_some(kind));
            ready.map_or(std::task::Poll::Pending, |kind| std::task::Poll::Ready(kind.as_raw_value()))
        })
        .await
    }

    /// Passes signals on until the program has ended.
    pub(super) async fn until_ended(&mut self, mut child: Child) -> Result<ExitStatus> {
        let mut ends = signal(SignalKind::child()).context("cannot listen for signals")?;
        loop {
            if let Some(status) = child.try_wait().context("waiting for the program")? {
                return Ok(status);
            }
            tokio::select! {
                _ = ends.recv() => {}
                number = self.next() => {
                    let of_keys = [SignalKind::interrupt(), SignalKind::quit()];
                    let is_of_keys = of_keys.iter().any(|kind| kind.as_raw_value() == number);
                    if !is_of_keys || tributary_exec::forward_interrupts() {
                        // It may have ended just now.
                        let _ = tributary_exec::signal(child.id(), number);
                    }
                }
            }
        }
    }
}
