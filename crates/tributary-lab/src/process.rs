//! A child process that communicates in lines of JSON. Every wait has a time limit, and the process is ended when
//! dropped. Not here: the meaning of the lines.

use core::fmt::Display;
use core::time::Duration;
use rustix::process::{Pid, Signal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;
use thiserror::Error;
use tributary_report::machine;

/// Time between two checks whether a terminated process has ended.
const LOOK: Duration = Duration::from_millis(2);
/// Time that a dropped process has to end after SIGTERM, for example to remove its socket, before it is killed.
const END: Duration = Duration::from_secs(1);

/// A field of a process's status such as `VmRSS:`, kB. The process is a number, or `self`.
///
/// # Errors
/// The process has ended, or there is no such field.
pub fn status_kb(process: impl Display, field: &str) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let value = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    value.ok_or_else(|| io::Error::other(format!("no {field} has the process ended?")))
}

/// File name of the product's program.
const PRODUCT: &str = "tributary";
/// How the product's program is built, in the directory where this one is.
const BUILD: &str = if cfg!(debug_assertions) {
    "cargo build --locked --package tributary"
} else {
    "cargo build --locked --release --package tributary"
};

/// Why a child process gave no answer.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// It could not be started, or its input could not be written.
    #[error("the {name} process: {source}")]
    System {
        /// The process.
        name: String,
        /// The system's reason.
        source: io::Error,
    },
    /// It reported a failure, ended early or took too long.
    #[error("the {name}: {reason}")]
    Failed {
        /// The process.
        name: String,
        /// Its error message.
        reason: String,
    },
    /// The product's program, which the laboratory starts, cannot be used.
    #[error("{}: {reason}; build it: {BUILD}", program.display())]
    Product {
        /// The program's path.
        program: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A program for the set-up failed.
    #[error("cannot run `{program}` (Debian package {package}): {reason}")]
    Program {
        /// Program and arguments.
        program: String,
        /// Debian package of the program.
        package: &'static str,
        /// Its error message.
        reason: String,
    },
}

/// A running child process.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Process {
    /// Starts it. `name` is for errors: `server`, `sink of mptcp`.
    ///
    /// # Errors
    /// [`ProcessError::System`].
    pub fn start(name: impl Into<String>, mut command: Command) -> Result<Self, ProcessError> {
        let name = name.into();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().map_err(|source| ProcessError::System { name: name.clone(), source })?;
        let lines = lines_of(child.stdout.take().expect("standard output was piped"));
        Ok(Self { name, input: child.stdin.take(), child, lines })
    }

    /// Starts an endpoint: `command` is this program in the endpoint's place, and `kind` says what it does. It reads its task
    /// from the first line of its input and replies in lines.
    ///
    /// # Errors
    /// [`ProcessError::System`].
    pub fn endpoint(
        name: impl Into<String>,
        mut command: Command,
        kind: &str,
        task: &impl Serialize,
    ) -> Result<Self, ProcessError> {
        command.args(["endpoint", kind]);
        let mut endpoint = Self::start(name, command)?;
        endpoint.tell(task)?;
        Ok(endpoint)
    }

    /// The next reply of an endpoint.
    ///
    /// # Errors
    /// [`ProcessError::Failed`] as for [`Self::answer`], and with the reason that the endpoint gives.
    pub fn reply<R: DeserializeOwned>(&self, within: Duration) -> Result<R, ProcessError> {
        match self.answer(within)? {
            Said::Reply(reply) => Ok(reply),
            Said::Failed(reason) => Err(self.failed(reason)),
        }
    }

    /// Sends a line of JSON.
    ///
    /// # Errors
    /// [`ProcessError::System`]: it has ended.
    pub fn tell(&mut self, message: &impl Serialize) -> Result<(), ProcessError> {
        self.say(&serde_json::to_string(message).expect("messages have string keys only"))
    }

    /// Sends a line of text.
    ///
    /// # Errors
    /// [`ProcessError::System`]: it has ended.
    pub fn say(&mut self, line: &str) -> Result<(), ProcessError> {
        let input = self.input.as_mut().expect("the input is not closed yet");
        let told = writeln!(input, "{line}").and_then(|()| input.flush());
        told.map_err(|source| ProcessError::System { name: self.name.clone(), source })
    }

    /// Ends its input.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// The next line that it prints, parsed as JSON.
    ///
    /// # Errors
    /// [`ProcessError::Failed`] if no line came `within` this time, or the line is not a `T`.
    pub fn answer<T: DeserializeOwned>(&self, within: Duration) -> Result<T, ProcessError> {
        let line = self.line(within)?;
        serde_json::from_str(&line).map_err(|error| self.failed(format!("answered `{line:.200}`: {error}")))
    }

    /// The next line that it prints.
    ///
    /// # Errors
    /// [`ProcessError::Failed`] if no line came `within` this time.
    pub fn line(&self, within: Duration) -> Result<String, ProcessError> {
        self.lines.recv_timeout(within).map_err(|error| match error {
            RecvTimeoutError::Timeout => self.failed(format!("no answer within {} s", within.as_secs())),
            RecvTimeoutError::Disconnected => self.failed("ended without an answer"),
        })
    }

    /// Its process identifier.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM and waits for at most this time. Returns the time until the process ended and its exit code.
    /// There is no exit code if the process is still running or was killed by a signal.
    pub fn terminate(&mut self, most: Duration) -> (Duration, Option<i32>) {
        let told = Instant::now();
        self.signal(Signal::TERM);
        let code = self.wait(most);
        (told.elapsed().min(most), code)
    }

    /// Stops it; [`Self::resume`] lets it go on.
    pub fn suspend(&mut self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Sends a signal, unless it has ended.
    fn signal(&mut self, signal: Signal) {
        // A process that was waited for has no number any more; another one may have it.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = rustix::process::kill_process(Pid::from_child(&self.child), signal);
        }
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        // Both fail when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits at most this time for the process to end by itself, and returns its exit code. `None`: it is still
    /// running, or a signal ended it.
    pub fn wait(&mut self, most: Duration) -> Option<i32> {
        let began = Instant::now();
        while began.elapsed() < most {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code();
            }
            std::thread::sleep(LOOK);
        }
        None
    }

    /// The error of this process with this reason.
    #[must_use]
    pub fn failed(&self, reason: impl Into<String>) -> ProcessError {
        ProcessError::Failed { name: self.name.clone(), reason: reason.into() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.terminate(END);
        self.kill();
    }
}

/// A line that an endpoint prints.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Said<R> {
    Reply(R),
    Failed(String),
}

impl<R: Serialize> Said<R> {
    /// Writes it. The error that the program which waits for it has ended is ignored.
    fn print(&self) {
        let mut line = serde_json::to_string(self).expect("replies have string keys only");
        line.push('\n');
        let mut out = io::stdout().lock();
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}

/// An endpoint's side: replies to the program that started it.
pub fn reply<R: Serialize>(reply: &R) {
    Said::Reply(reply).print();
}

/// An endpoint's side: reports a failure.
pub fn fail(reason: String) {
    Said::<()>::Failed(reason).print();
}

/// An endpoint's side: reads the task from standard input and carries it out. Returns whether it succeeded; if not, the
/// reason was reported.
pub fn carry_out<T: DeserializeOwned, E: Display>(work: impl FnOnce(T) -> Result<(), E>) -> bool {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line).map_err(|error| error.to_string());
    let task = read.and_then(|_| {
        let refused = |error| {
            format!("`endpoint` is started by experiments, with a task on its standard input: {error}")
        };
        serde_json::from_str(&line).map_err(refused)
    });
    let done = task.and_then(|task| work(task).map_err(|error| error.to_string()));
    done.map_err(fail).is_ok()
}

/// A channel with the lines that a process prints; it closes at the end of the output.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// Writes or replaces a file that only its owner can read, as the programs require of keys and lists of clients.
///
/// # Errors
/// The system's.
pub fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// Runs a program for the set-up and returns its output. `package` is its Debian package, for errors.
///
/// # Errors
/// [`ProcessError::Program`] with the program's error message.
pub fn output(mut command: Command, package: &'static str) -> Result<String, ProcessError> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let program = words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    let failed = |reason| ProcessError::Program { program, package, reason };
    match command.output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Path of this program, to start it as a child process.
///
/// # Errors
/// [`ProcessError::System`]: its file cannot be named.
pub fn own_program() -> Result<PathBuf, ProcessError> {
    std::env::current_exe().map_err(|source| ProcessError::System { name: "own".to_owned(), source })
}

/// Path of the product's program, `tributary`, to start it as a child process. It stands beside this one and is built
/// from the same commit: reports name only one.
///
/// # Errors
/// [`ProcessError::Product`]: it is missing, or built from another commit.
pub fn product_program() -> Result<PathBuf, ProcessError> {
    product_at(own_program()?.with_file_name(PRODUCT))
}

fn product_at(program: PathBuf) -> Result<PathBuf, ProcessError> {
    let said = Command::new(&program).arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    match said.map_err(|error| error.to_string()).and_then(|said| check_version(&said)) {
        Ok(()) => Ok(program),
        Err(reason) => Err(ProcessError::Product { program, reason }),
    }
}

/// Whether the first line that a program prints about its version is that of the product at this program's commit.
fn check_version(said: &str) -> Result<(), String> {
    let (said, expected) =
        (said.lines().next().unwrap_or_default(), format!("{PRODUCT} {}", machine::version()));
    if said == expected { Ok(()) } else { Err(format!("it is `{said}`, not `{expected}`")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(20);

    #[test]
    fn a_process_answers_a_message() {
        let mut cat = Process::start("cat", Command::new("cat")).unwrap();
        cat.tell(&[1, 2]).unwrap();
        assert_eq!(cat.answer::<Vec<u8>>(WITHIN).unwrap(), [1, 2]);
        cat.tell(&"text").unwrap();
        let error = cat.answer::<u8>(WITHIN).unwrap_err().to_string();
        assert!(error.contains("the cat: answered `\"text\"`"), "{error}");
        cat.close();
        let error = cat.answer::<u8>(WITHIN).unwrap_err().to_string();
        assert_eq!(error, "the cat: ended without an answer");
        let silent = Process::start("cat", Command::new("cat")).unwrap();
        let error = silent.answer::<u8>(Duration::ZERO).unwrap_err().to_string();
        assert_eq!(error, "the cat: no answer within 0 s");
    }

    #[test]
    fn an_endpoint_gets_its_task_and_replies_or_says_why_not() {
        let script = r#"read task; echo "{\"reply\":$task}"; echo "{\"failed\":\"no $2\"}""#;
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]);
        let endpoint = Process::endpoint("end", command, "run", &[1, 2]).unwrap();
        assert_eq!(endpoint.reply::<Vec<u8>>(WITHIN).unwrap(), [1, 2]);
        assert_eq!(endpoint.reply::<u8>(WITHIN).unwrap_err().to_string(), "the end: no run");
    }

    #[test]
    fn the_product_must_be_there_and_of_the_same_commit() {
        let error = product_at("/nowhere/tributary".into()).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/tributary: No such file"), "{error}");
        assert!(error.ends_with("--package tributary"), "{error}");
        let error = product_at("/bin/echo".into()).unwrap_err().to_string();
        assert!(error.starts_with("/bin/echo: it is `echo"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert_eq!(check_version(&format!("tributary {}\n", machine::version())), Ok(()));
        let error = check_version("tributary 0.0.1 (commit 0123456789ab)").unwrap_err();
        assert!(error.starts_with("it is `tributary 0.0.1 (commit 0123456789ab)`, not `"), "{error}");
    }

    #[test]
    fn a_terminated_process_reports_its_exit_code() {
        let script = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            let process = Process::start("script", command).unwrap();
            assert_eq!(process.line(WITHIN).unwrap(), "ready");
            process
        };
        let mut polite = script("trap 'exit 3' TERM; echo ready; read line");
        assert_eq!(polite.terminate(WITHIN).1, Some(3));
        let mut killed = script("echo ready; read line");
        let (took, code) = killed.terminate(WITHIN);
        assert!(took < WITHIN && code.is_none(), "{took:?} {code:?}");
        let mut deaf = script("trap '' TERM; echo ready; read line");
        assert_eq!(deaf.terminate(LOOK), (LOOK, None));
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let mut command = Command::new("/nonexistent/ip");
        command.args(["mptcp", "limits"]);
        let error = output(command, "iproute2").unwrap_err().to_string();
        assert!(error.starts_with("cannot run `/nonexistent/ip mptcp limits` (Debian package iproute2)"));
        assert!(Process::start("none", Command::new("/nonexistent/none")).is_err());
    }
}
