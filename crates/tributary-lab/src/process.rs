//! An endpoint process seen from the lab: started in a namespace, talked to in JSON lines, never waited
//! for longer than it may take, killed when dropped.

use crate::endpoint::{Plan, Reply};
use crate::run::LabError;
use core::time::Duration;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

/// What a process prints, line by line as it comes; the end of it closes the channel.
#[must_use]
pub fn lines_of(output: ChildStdout) -> Receiver<String> {
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

/// A running endpoint.
pub(crate) struct Endpoint {
    name: &'static str,
    child: Child,
    input: Option<ChildStdin>,
    replies: Receiver<String>,
}

impl Endpoint {
    /// Starts it and gives it its plan.
    pub(crate) fn start(name: &'static str, mut command: Command, plan: &Plan) -> Result<Self, LabError> {
        let failed = |source| LabError::Process { name, source };
        command.arg("endpoint").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().map_err(failed)?;
        let output = child.stdout.take().expect("standard output was piped");
        let replies = lines_of(output);
        let mut endpoint = Self { name, input: child.stdin.take(), child, replies };
        let line = serde_json::to_string(plan).expect("plans have string keys only");
        endpoint.tell(&line)?;
        Ok(endpoint)
    }

    /// Sends a line.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), LabError> {
        let name = self.name;
        let input = self.input.as_mut().expect("told only before its input is closed");
        writeln!(input, "{line}")
            .and_then(|()| input.flush())
            .map_err(|source| LabError::Process { name, source })
    }

    /// Ends its input, which asks a server for its report.
    pub(crate) fn close(&mut self) {
        self.input = None;
    }

    /// The next answer.
    pub(crate) fn answer(&self, within: Duration) -> Result<Reply, LabError> {
        let failed = |reason: String| LabError::Endpoint { name: self.name, reason };
        let line = self.replies.recv_timeout(within).map_err(|error| match error {
            RecvTimeoutError::Timeout => failed(format!("no answer within {} s", within.as_secs())),
            RecvTimeoutError::Disconnected => failed("ended without an answer".to_owned()),
        })?;
        match serde_json::from_str(&line) {
            Ok(Reply::Failed(reason)) => Err(failed(reason)),
            Ok(reply) => Ok(reply),
            Err(error) => Err(failed(format!("answered `{line}`: {error}"))),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
