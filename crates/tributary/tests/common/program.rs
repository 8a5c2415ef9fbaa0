//! A running `tributary` of a test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use tributary_testing::until;

/// A program that is killed when dropped.
pub struct Program {
    pub child: Child,
    pub listening: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// Starts it and waits until it prints its address. Its log goes to the file, its status socket beside it.
    pub fn start(arguments: &[&str], log: &std::path::Path) -> Self {
        let mut program = Self::start_json(arguments, log);
        let address = program.listening.strip_prefix("listening on ").expect("it says where it listens");
        program.listening = address.to_owned();
        program
    }

    /// The same; `listening` is the line that it prints.
    pub fn start_json(arguments: &[&str], log: &std::path::Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.args(arguments).env_remove("RUST_LOG").stdout(Stdio::piped());
        command.env("TRIBUTARY_RUNTIME_DIR", log.parent().unwrap().join("status"));
        let mut child = command.stderr(std::fs::File::create(log).unwrap()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, listening: line.trim().to_owned() }
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("the program ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.expect("it has ended")
    }
}
