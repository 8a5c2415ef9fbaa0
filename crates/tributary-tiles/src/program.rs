//! Runs ffmpeg and ffprobe: starts, feeds, reads and ends them, and collects their error output.
//!
//! Files are passed as `file:` names, and callers allow no other protocol but pipes, so that neither a file's
//! name nor a playlist inside it can open a connection. The callers choose the arguments.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use thiserror::Error;

/// Most bytes of error output that are kept.
const LONGEST_COMPLAINT: u64 = 1 << 20;

/// Buffer size of a pipe to or from a program: the most that Linux allows every user.
const PIPE: usize = 1 << 20;

/// Why a program failed.
#[derive(Debug, Error)]
pub enum ProgramError {
    /// It is not installed.
    #[error("cannot start {0}: install the Debian package ffmpeg (apt-get install ffmpeg)")]
    Missing(&'static str),
    /// The system could not start it.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: &'static str,
        /// The system's message.
        source: io::Error,
    },
    /// It exited with an error.
    #[error("{program} failed: {reason}")]
    Failed {
        /// The program.
        program: &'static str,
        /// Its message.
        reason: String,
    },
}

/// A running program, killed when dropped, so that no error or panic leaves it behind.
#[derive(Debug)]
pub struct Running {
    child: Child,
    program: &'static str,
}

impl Running {
    /// Waits until it exits.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(&mut self) -> Result<ExitStatus, ProgramError> {
        let failed = |e: io::Error| ProgramError::Failed { program: self.program, reason: e.to_string() };
        self.child.wait().map_err(failed)
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `command`, which runs `program` with its arguments.
///
/// # Errors
/// It is not installed, or the system refuses.
pub fn start(program: &'static str, command: &mut Command) -> Result<Running, ProgramError> {
    let child = command.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ProgramError::Missing(program),
        _ => ProgramError::Start { program, source },
    })?;
    // Through a pipe of 64 KiB, a picture of 4096×2048 needs 192 turns of both sides. A system limit may keep
    // the pipe at that size.
    let (input, output) = (child.stdin.as_ref().map(AsFd::as_fd), child.stdout.as_ref().map(AsFd::as_fd));
    for pipe in [input, output].into_iter().flatten() {
        let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE);
    }
    Ok(Running { child, program })
}

/// Gives `command` its own process group: Ctrl-C in a terminal then reaches only this program, which ends its
/// children in order. For commands that exit by themselves when this program is gone, as those do that read
/// or write a pipe.
pub fn apart(command: &mut Command) -> &mut Command {
    command.process_group(0)
}

/// A file's name for ffmpeg, safe for any first character.
#[must_use]
pub fn name_of(path: &Path) -> OsString {
    let mut name = OsString::from("file:");
    name.push(path);
    name
}

/// The last lines of a program's error output.
#[must_use]
pub fn complaint(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join("; ");
    if last.is_empty() { "it gave no reason".to_owned() } else { last.chars().take(400).collect() }
}

/// Reads the error output on a thread, so that the program never blocks on it.
pub fn hear(errors: Option<ChildStderr>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut errors) = errors {
            let _ = errors.by_ref().take(LONGEST_COMPLAINT).read_to_end(&mut text);
            // The rest is read and discarded.
            let _ = io::copy(&mut errors, &mut io::sink());
        }
        text
    })
}

/// Runs `command` to its end with `input`; returns its output.
///
/// # Errors
/// It is not installed, or ends with an error.
pub fn run(program: &'static str, command: &mut Command, input: &[u8]) -> Result<Vec<u8>, ProgramError> {
    run_fed(program, command, |stdin| stdin.write_all(input))
}

/// Runs `command` to its end; returns its output. `feed` writes its input, on its own thread.
///
/// # Errors
/// It is not installed, or ends with an error.
pub fn run_fed(
    program: &'static str,
    command: &mut Command,
    feed: impl FnOnce(&mut ChildStdin) -> io::Result<()> + Send,
) -> Result<Vec<u8>, ProgramError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = start(program, command)?;
    let (stdin, stdout) = (running.stdin.take(), running.stdout.take());
    let complaints = hear(running.stderr.take());
    let mut written = Vec::new();
    std::thread::scope(|scope| {
        // A program may close its input early; that is not an error.
        scope.spawn(move || stdin.map(|mut stdin| feed(&mut stdin)));
        if let Some(mut stdout) = stdout {
            let _ = stdout.read_to_end(&mut written);
        }
    });
    let status = running.wait()?;
    if status.success() {
        return Ok(written);
    }
    let reason = complaint(&complaints.join().unwrap_or_default());
    Err(ProgramError::Failed { program, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let refused = start("ffmpeg", &mut Command::new("/nonexistent/ffmpeg"));
        let text = refused.map(drop).expect_err("there is no such program").to_string();
        assert!(text.contains("Debian package ffmpeg"), "{text}");
    }

    #[test]
    fn error_output_of_a_program_is_shortened() {
        assert_eq!(complaint(b""), "it gave no reason");
        assert_eq!(complaint(b"a\n\nb\nc\nd\n"), "b; c; d");
        assert_eq!(complaint(&[b'x'; 5000]).len(), 400);
    }

    #[test]
    fn a_program_gets_its_input_and_returns_its_output() {
        let input: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
        assert_eq!(run("cat", &mut Command::new("cat"), &input).expect("cat copies"), input);
    }

    #[test]
    fn a_failure_has_its_reason() {
        let error = run("sh", Command::new("sh").args(["-c", "echo broken >&2; exit 3"]), b"");
        assert_eq!(error.expect_err("it fails").to_string(), "sh failed: broken");
    }
}
