//! Files and settings of a server with rules and of its clients, each with a resolv.conf of its own.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::running::succeeds;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tributary");
pub const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Their directory, which is removed when dropped.
pub struct Ends(TempDir);

impl Ends {
    /// Makes a key, and mounts the client's resolv.conf and an empty /run. `server` is the resolver that the server asks.
    pub fn new(client: &str, server: &str) -> Self {
        let ends = Self(TempDir::new().expect("a directory"));
        for (name, resolver) in [("client.conf", client), ("server.conf", server)] {
            let text = format!("nameserver {resolver}\noptions attempts:1 timeout:1\n");
            fs::write(ends.at(name), text).expect("a file");
        }
        succeeds(Command::new("mount").arg("--bind").arg(ends.at("client.conf")).arg(RESOLV_CONF));
        succeeds(Command::new("mount").args(["-t", "tmpfs", "none", "/run"]));
        let mut command = Command::new(PROGRAM);
        succeeds(command.args(["keygen", "--shared", "--out"]).arg(ends.at("key")).stderr(Stdio::null()));
        ends
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The server's command, from one for `unshare` at the server's side. It prints where it listens.
    pub fn serve(&self, unshare: Command) -> Command {
        let mut command = self.serve_without_keys(unshare);
        command.arg("--shared-key").arg(self.at("key"));
        command
    }

    /// The same without its keys.
    pub fn serve_without_keys(&self, mut unshare: Command) -> Command {
        let script = format!("mount --bind $0 {RESOLV_CONF} && exec \"$@\"");
        unshare.args(["-m", "sh", "-c", &script]).arg(self.at("server.conf")).arg(PROGRAM);
        unshare.args(["serve", "--allow", "any"]);
        unshare.env("TRIBUTARY_RUNTIME_DIR", self.at("status")).env_remove("RUST_LOG").stdout(Stdio::piped());
        unshare
    }
}
