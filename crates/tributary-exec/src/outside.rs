//! The process that starts the program and holds the namespace's sockets.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal};
use thiserror::Error;

use crate::channel;
use crate::sockets::Sockets;

/// Why the program was not started.
#[derive(Debug, Error)]
pub enum StartError {
    /// Something is missing in the namespace; the text says what, and how to get it.
    #[error("{0}")]
    Inside(String),
    /// Another step failed.
    #[error("starting the program: {0}")]
    System(#[from] io::Error),
}

/// A program whose namespace is ready, and that waits to be let go.
#[derive(Debug)]
pub struct Program {
    child: Child,
    channel: OwnedFd,
}

impl Program {
    /// Prepares `program`, a name and arguments. `inside` is the executable, with arguments after which the program is
    /// appended; it calls [`crate::enter`]. The calling thread must live as long as the program: when it ends, the
    /// program gets SIGTERM.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(inside: &mut Command, program: &[OsString]) -> Result<(Self, Sockets), StartError> {
        let kind = SocketType::SEQPACKET;
        let (channel, theirs) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).map_err(io::Error::from)?;
        // Standard input is the only descriptor that can be given without unsafe code; the program's own follows.
        let child = inside.args(program).stdin(theirs).spawn()?;
        // The command keeps its end open, and the end of the process would not be seen.
        inside.stdin(Stdio::null());
        let program = Self { child, channel };
        let sent = channel::send(&program.channel, "stdin", &[rustix::stdio::stdin()]);
        let ended = || "the process ended before it was ready".to_owned();
        let sockets = match sent.and_then(|()| Sockets::receive(&program.channel)) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ended()),
            received => received?,
        };
        let why = |said: String| StartError::Inside(if said.is_empty() { ended() } else { said });
        Ok((program, sockets.map_err(why)?))
    }

    /// Lets the program begin.
    ///
    /// # Errors
    /// The system's, when the process has ended.
    pub fn go(self) -> io::Result<Child> {
        channel::send(&self.channel, "go", &[])?;
        Ok(self.child)
    }
}

/// Whether SIGINT and SIGQUIT must be passed on: the terminal itself sends those of its keys to every process of the
/// foreground group, and so to the program.
#[must_use]
pub fn forward_interrupts() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    let foreground = terminal.ok().and_then(|terminal| rustix::termios::tcgetpgrp(terminal.as_fd()).ok());
    foreground != Some(rustix::process::getpgrp())
}

/// Sends a signal to the program.
///
/// # Errors
/// The system's, when it has ended.
pub fn signal(child: u32, number: i32) -> io::Result<()> {
    let pid = i32::try_from(child).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let signal = Signal::from_named_raw(number).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::kill_process(pid, signal)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ends_at_once_is_an_error() {
        let error = Program::start(&mut Command::new("true"), &["program".into()]).unwrap_err();
        assert!(error.to_string().contains("ended before it was ready"), "{error}");
    }
}
