//! Runs one command in an emulated network, for `tributary-lab emu run`.

use crate::audit::Audit;
use crate::capture::Captured;
use crate::control::Control;
use crate::network::{Network, NetworkError, Side};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;
use tributary_link::Scenario;

/// Result of a run.
#[derive(Debug)]
pub struct CommandRun {
    /// The client command's exit code; 128 + n after signal n.
    pub code: i32,
    /// The audit of the run.
    pub audit: Audit,
    /// What was captured, or why it is not complete; `None` without a capture.
    pub captured: Option<Result<Captured, NetworkError>>,
}

/// What goes on beside the client's command.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandOptions<'a> {
    /// A shell command on the server side.
    pub server: Option<&'a str>,
    /// A socket that takes [requests](crate::control) to change the network.
    pub control: Option<&'a Path>,
    /// A pcapng file, and the side whose packets it has.
    pub capture: Option<(&'a Path, Side)>,
}

/// Why a command could not be run.
#[derive(Debug, Error)]
pub enum RunError {
    /// The network could not be started.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// No command was given.
    #[error("no command was given: write it after `--`")]
    NoCommand,
    /// The command could not be started.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// The program.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
}

/// Runs `client` on the client side of the scenario, and meanwhile what the options say. Waits for the client, then ends the
/// server. Call [`crate::isolate`] first.
///
/// Both commands find the network in their environment: `TRIBUTARY_PATHS` (names in order) and, for each path,
/// `TRIBUTARY_CLIENT_<NAME>` and `TRIBUTARY_SERVER_<NAME>`. The IPv6 variables are `TRIBUTARY_CLIENT6_<NAME>` and
/// `TRIBUTARY_SERVER6_<NAME>`. A name is in upper case, with `_` instead of `-`: `TRIBUTARY_SERVER6_WIFI`.
pub fn run_command(
    scenario: &Scenario,
    client: &[OsString],
    options: CommandOptions<'_>,
) -> Result<CommandRun, RunError> {
    let (program, arguments) = client.split_first().ok_or(RunError::NoCommand)?;
    let network = Network::start(scenario)?;
    let capture = options.capture.map(|(file, side)| network.capture(file, side)).transpose()?;
    let control = options.control.map(Control::bind).transpose()?;
    let start = |command: &mut Command| {
        let program = command.get_program().to_string_lossy().into_owned();
        command.envs(environment(scenario)).spawn().map_err(|source| RunError::Start { program, source })
    };
    let server = match options.server {
        Some(line) => Some(Ending(start(network.command(Side::Server, "sh").args(["-c", line]))?)),
        None => None,
    };
    let mut child = Ending(start(network.command(Side::Client, program).args(arguments))?);
    let end = AtomicBool::new(false);
    let status = std::thread::scope(|scope| {
        let _ending = EndWhenDropped(&end);
        if let Some(control) = &control {
            scope.spawn(|| control.serve(&network, &end));
        }
        child.0.wait()
    });
    let status = status
        .map_err(|source| RunError::Start { program: program.to_string_lossy().into_owned(), source })?;
    let audit = network.audit()?;
    let captured = capture.map(|capture| network.end_capture(capture));
    drop(server);
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    let code = status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0));
    Ok(CommandRun { code, audit, captured })
}

/// Sets its flag when dropped, also by a panic.
struct EndWhenDropped<'a>(&'a AtomicBool);

impl Drop for EndWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A child process that is killed when dropped.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // Both fail if it has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Environment variables for commands in the network, as [`run_command`] lists them.
#[must_use]
pub fn environment(scenario: &Scenario) -> Vec<(String, String)> {
    let names: Vec<&str> = scenario.paths.iter().map(|path| path.name.as_str()).collect();
    let mut out = vec![
        ("TRIBUTARY_SCENARIO".to_owned(), scenario.name.clone()),
        ("TRIBUTARY_PATHS".to_owned(), names.join(" ")),
    ];
    for (i, name) in names.iter().enumerate() {
        let name = name.to_uppercase().replace('-', "_");
        for (label, side) in [("CLIENT", Side::Client), ("SERVER", Side::Server)] {
            out.push((format!("TRIBUTARY_{label}_{name}"), side.address(i).to_string()));
            out.push((format!("TRIBUTARY_{label}6_{name}"), side.address6(i).to_string()));
        }
    }
    out
}
