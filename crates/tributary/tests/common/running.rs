//! A program that a test has started.

use std::process::{Child, Command};

/// A program that is killed when dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    }

    /// Ends it with SIGTERM; its exit code.
    pub fn end(mut self) -> Option<i32> {
        self.terminate();
        self.0.wait().expect("it is a child").code()
    }
}

#[track_caller]
pub fn succeeds(command: &mut Command) {
    assert!(command.status().expect("it starts").success(), "{command:?}");
}
