//! `serve` and `connect` as programs: signals and what they log.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// More than the kernel's buffers of one connection hold.
const UPLOAD: usize = tributary_net::Limits::AMPLE as usize;

/// A program that ends with its owner.
struct Program {
    child: Child,
    listening: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// Starts it and waits until it says where it listens. Its log goes to the file.
    fn start(arguments: &[&str], log: &std::path::Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.args(arguments).env_remove("RUST_LOG").stdout(Stdio::piped());
        let mut child = command.stderr(std::fs::File::create(log).unwrap()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let listening =
            line.trim().strip_prefix("listening on ").expect("it says where it listens").to_owned();
        Self { child, listening }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// Both ends of the proxy; the test is the target.
struct Proxied {
    directory: TempDir,
    target: TcpListener,
    server: Program,
    client: Program,
}

fn proxied(drain: &str) -> Proxied {
    let directory = TempDir::new().unwrap();
    let at = |name: &str| directory.path().join(name);
    let key = at("key");
    let made = Command::new(env!("CARGO_BIN_EXE_tributary")).args(["keygen", "--out", text(&key)]).status();
    assert!(made.unwrap().success());
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let forward = target.local_addr().unwrap().to_string();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--forward", &forward, "--key", text(&key)];
    let server = Program::start(&serve, &at("server.log"));
    let path = format!("127.0.0.2={}", server.listening);
    let connect =
        ["connect", "--path", &path, "--listen", "127.0.0.1:0", "--key", text(&key), "--drain", drain];
    let client = Program::start(&connect, &at("client.log"));
    Proxied { directory, target, server, client }
}

fn upload(proxied: &Proxied) -> (TcpStream, TcpStream) {
    let mut application = TcpStream::connect(&proxied.client.listening).unwrap();
    application.write_all(&vec![7; UPLOAD]).unwrap();
    application.shutdown(Shutdown::Write).unwrap();
    (application, proxied.target.accept().unwrap().0)
}

#[test]
fn after_sigterm_an_upload_is_finished_and_the_program_ends() {
    let mut proxied = proxied("60");
    let (mut application, mut target) = upload(&proxied);
    proxied.client.signal("TERM");
    let mut received = Vec::new();
    target.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), UPLOAD);
    drop(target);
    application.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(proxied.client.wait().code(), Some(0));
    let log = std::fs::read_to_string(proxied.directory.path().join("client.log")).unwrap();
    assert!(log.contains("SIGTERM") && log.contains("everything was delivered"), "{log}");
}

#[test]
fn what_the_target_does_not_take_ends_with_a_reset_and_the_exit_code_tells() {
    let mut proxied = proxied("1");
    let (mut application, _target) = upload(&proxied);
    let told = Instant::now();
    proxied.client.signal("TERM");
    assert!(application.read_to_end(&mut Vec::new()).is_err());
    assert_eq!(proxied.client.wait().code(), Some(1));
    // The bound of the help text, with room for a busy machine.
    assert!(told.elapsed() < Duration::from_secs(1 + 2 + 20));
}

#[test]
fn a_second_signal_ends_at_once_and_applications_see_a_reset() {
    let mut proxied = proxied("3600");
    let (mut application, _target) = upload(&proxied);
    for signal in ["TERM", "INT"] {
        proxied.client.signal(signal);
        let log = || std::fs::read_to_string(proxied.directory.path().join("client.log")).unwrap();
        // Two signals that arrive together may be seen in any order, and two of a kind as one.
        while !log().contains(&format!("SIG{signal}")) {
            std::thread::yield_now();
        }
    }
    assert!(application.read_to_end(&mut Vec::new()).is_err());
    assert_eq!(proxied.client.wait().code(), Some(128 + 2));
}

#[test]
fn a_killed_client_resets_what_it_had_accepted() {
    let proxied = proxied("10");
    let (mut application, _target) = upload(&proxied);
    proxied.client.signal("KILL");
    assert!(application.read_to_end(&mut Vec::new()).is_err());
}

#[test]
fn a_wrong_key_and_a_dead_target_are_in_the_servers_log() {
    let proxied = proxied("1");
    let log = || std::fs::read_to_string(proxied.directory.path().join("server.log")).unwrap();
    let other = proxied.directory.path().join("other");
    let tributary =
        |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_tributary")).args(arguments).output();
    assert!(tributary(&["keygen", "--out", text(&other)]).unwrap().status.success());
    let path = format!("127.0.0.3={}", proxied.server.listening);
    let connect = ["connect", "--path", &path, "--listen", "127.0.0.1:0", "--key", text(&other)];
    assert!(!tributary(&connect).unwrap().status.success());
    assert!(log().contains("127.0.0.3") && log().contains("wrong key"), "{}", log());
    let target = proxied.target.local_addr().unwrap().to_string();
    drop(proxied.target);
    let mut application = TcpStream::connect(&proxied.client.listening).unwrap();
    assert!(application.read_to_end(&mut Vec::new()).is_err());
    let log = std::fs::read_to_string(proxied.directory.path().join("server.log")).unwrap();
    assert!(log.contains(&target) && log.contains("unreachable"), "{log}");
}
