//! The process that starts the program and holds the namespace's sockets.

use std::ffi::OsString;
use std::io::{
    self,
    ErrorKind::{BrokenPipe, ConnectionReset},
};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal};
use thiserror::Error;
use tributary_tun::Tun;

use crate::channel;

/// First word of the message with the descriptors: the number of listeners follows, and in the next line why there is no
/// device, or nothing. Other messages are errors.
pub(crate) const READY: &str = "ready";

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

/// Sockets and device of the namespace, made inside it.
#[derive(Debug)]
pub struct Sockets {
    /// Connections to any destination are redirected to them.
    pub listeners: Vec<TcpListener>,
    /// Questions to DNS servers are redirected to them.
    pub names: Vec<UdpSocket>,
    /// The TUN device with all other packets; or why there is none, so that datagrams are refused.
    pub device: Result<Tun, String>,
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
        let (text, descriptors) = match sent.and_then(|()| channel::receive(&program.channel)) {
            // The process has ended without having read that.
            Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => Default::default(),
            answer => answer?,
        };
        let ready = text.strip_prefix(READY).and_then(|ready| ready.split_once('\n'));
        let ready = ready.and_then(|(count, missing)| Some((count.trim().parse::<usize>().ok()?, missing)));
        let Some((count, missing)) = ready else {
            let text =
                if text.is_empty() { "the process ended before it was ready".to_owned() } else { text };
            return Err(StartError::Inside(text));
        };
        let mut descriptors = descriptors.into_iter();
        let listeners = descriptors.by_ref().take(count).map(TcpListener::from).collect();
        let names = descriptors.by_ref().take(count).map(UdpSocket::from).collect();
        let device = descriptors.next().map(Tun::from).ok_or_else(|| missing.to_owned());
        Ok((program, Sockets { listeners, names, device }))
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
