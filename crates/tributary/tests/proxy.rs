//! `serve` and `connect` as programs: signals and log messages.

#[path = "common/program.rs"]
mod program;

use program::Program;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tributary_testing::{text, until};

/// More bytes than the kernel's buffers of one connection can hold.
const UPLOAD: usize = tributary_net::Limits::AMPLE as usize;

/// Both ends of the proxy; the test is the target.
struct Proxied {
    directory: TempDir,
    target: TcpListener,
    server: Program,
    client: Program,
}

fn proxied(drain: &str) -> Proxied {
    proxied_with(drain, &[], &[])
}

/// With further options of each end.
fn proxied_with(drain: &str, of_server: &[&str], of_client: &[&str]) -> Proxied {
    let directory = TempDir::new().unwrap();
    let at = |name: &str| directory.path().join(name);
    let key = at("key");
    let made = Command::new(env!("CARGO_BIN_EXE_tributary"))
        .args(["keygen", "--shared", "--out", text(&key)])
        .status();
    assert!(made.unwrap().success());
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let forward = target.local_addr().unwrap().to_string();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--forward", &forward, "--shared-key", text(&key)];
    let server = Program::start(&[&serve[..], of_server].concat(), &at("server.log"));
    let path = format!("127.0.0.2={}", server.listening);
    let connect =
        ["connect", "--path", &path, "--listen", "127.0.0.1:0", "--shared-key", text(&key), "--drain", drain];
    let client = Program::start(&[&connect[..], of_client].concat(), &at("client.log"));
    Proxied { directory, target, server, client }
}

/// An upload in a thread of its own, because the proxy takes only what the target's window allows.
struct Upload {
    application: TcpStream,
    target: TcpStream,
    writer: std::thread::JoinHandle<std::io::Result<()>>,
}

impl Upload {
    fn start(proxied: &Proxied) -> Self {
        let application = TcpStream::connect(&proxied.client.listening).unwrap();
        let mut end = application.try_clone().unwrap();
        let writer = std::thread::spawn(move || {
            end.write_all(&vec![7; UPLOAD])?;
            end.shutdown(Shutdown::Write)
        });
        Self { application, target: proxied.target.accept().unwrap().0, writer }
    }

    /// Waits for the end. The kernel reports a reset once: to the writer or to the reader.
    fn ends_with_reset(mut self) -> bool {
        let read = self.application.read_to_end(&mut Vec::new());
        self.writer.join().unwrap().is_err() || read.is_err()
    }
}

#[test]
fn after_sigterm_an_upload_is_finished_and_the_program_ends() {
    is_finished_after_sigterm(proxied("60"));
}

#[test]
fn after_sigterm_an_upload_over_quic_is_finished_and_the_program_ends() {
    let log = is_finished_after_sigterm(proxied_with("60", &["--quic"], &["--quic"]));
    assert!(!log.contains("QUIC does not get through"), "{log}");
}

#[test]
fn a_client_says_where_quic_does_not_get_through() {
    let log = is_finished_after_sigterm(proxied_with("60", &[], &["--quic"]));
    assert!(log.contains("QUIC does not get through") && log.contains("TCP is used"), "{log}");
}

/// Returns the client's log.
fn is_finished_after_sigterm(mut proxied: Proxied) -> String {
    let mut upload = Upload::start(&proxied);
    proxied.client.signal("TERM");
    let mut received = Vec::new();
    upload.target.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), UPLOAD);
    upload.writer.join().unwrap().unwrap();
    drop(upload.target);
    upload.application.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(proxied.client.wait().code(), Some(0));
    let log = std::fs::read_to_string(proxied.directory.path().join("client.log")).unwrap();
    assert!(log.contains("SIGTERM") && log.contains("everything was delivered"), "{log}");
    log
}

#[test]
fn undelivered_data_ends_with_a_reset_and_a_nonzero_exit_code() {
    let mut proxied = proxied("1");
    let upload = Upload::start(&proxied);
    proxied.client.signal("TERM");
    assert!(upload.ends_with_reset());
    // The target never reads: without the bound of --drain the program would not end.
    assert_eq!(proxied.client.wait().code(), Some(1));
}

#[test]
fn a_second_signal_ends_at_once_and_applications_see_a_reset() {
    let mut proxied = proxied("3600");
    let upload = Upload::start(&proxied);
    for signal in ["TERM", "INT"] {
        proxied.client.signal(signal);
        let log = || std::fs::read_to_string(proxied.directory.path().join("client.log")).unwrap();
        // Two signals that arrive together may be handled in any order, and two equal ones as one.
        until("the client logs the signal", || log().contains(&format!("SIG{signal}")));
    }
    assert!(upload.ends_with_reset());
    assert_eq!(proxied.client.wait().code(), Some(128 + 2));
}

#[test]
fn a_killed_client_resets_its_accepted_connections() {
    let proxied = proxied("10");
    let upload = Upload::start(&proxied);
    proxied.client.signal("KILL");
    assert!(upload.ends_with_reset());
}

#[test]
fn a_wrong_key_and_a_dead_target_are_in_the_servers_log() {
    let proxied = proxied("1");
    let log = || std::fs::read_to_string(proxied.directory.path().join("server.log")).unwrap();
    let other = proxied.directory.path().join("other");
    let tributary =
        |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_tributary")).args(arguments).output();
    assert!(tributary(&["keygen", "--shared", "--out", text(&other)]).unwrap().status.success());
    let path = format!("127.0.0.3={}", proxied.server.listening);
    let connect =
        ["connect", "--path", &path, "--listen", "127.0.0.1:0", "--shared-key", text(&other), "--wait", "3"];
    assert!(!tributary(&connect).unwrap().status.success());
    assert!(log().contains("127.0.0.3") && log().contains("wrong key"), "{}", log());
    let target = proxied.target.local_addr().unwrap().to_string();
    drop(proxied.target);
    let mut application = TcpStream::connect(&proxied.client.listening).unwrap();
    assert!(application.read_to_end(&mut Vec::new()).is_err());
    let log = std::fs::read_to_string(proxied.directory.path().join("server.log")).unwrap();
    assert!(log.contains(&target) && log.contains("unreachable"), "{log}");
}

/// Output and error output of `tributary status` for the programs with logs in `directory`.
fn status(directory: &std::path::Path, more: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
    let output = command
        .arg("status")
        .args(more)
        .env("TRIBUTARY_RUNTIME_DIR", directory.join("status"))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

#[test]
fn a_failing_path_is_shown_in_status_and_log_with_its_cause() {
    const CAUSE: &str = "does not have the local address";
    let Proxied { directory, target: _target, mut server, mut client } = proxied("1");
    client.signal("TERM");
    client.wait();
    let at = |name: &str| directory.path().join(name);
    let (good, bad) = (format!("127.0.0.2={}", server.listening), format!("192.0.2.77={}", server.listening));
    let key = at("key");
    let connect =
        ["connect", "--path", &good, "--path", &bad, "--listen", "127.0.0.1:0", "--shared-key", text(&key)];
    let mut client = Program::start(&connect, &at("client.log"));
    let mut table = String::new();
    until("the status names the cause", || {
        table = status(directory.path(), &[]).0;
        table.contains(CAUSE)
    });
    let line = table.lines().find(|line| line.contains(&bad)).unwrap_or_else(|| panic!("{table}"));
    assert!(line.contains(" down ") && table.contains(CAUSE), "{table}");
    assert!(table.contains("serve (pid") && table.contains("connect (pid"), "{table}");
    let told: serde_json::Value = serde_json::from_str(&status(directory.path(), &["--json"]).0).unwrap();
    let proxies = told["programs"].as_array().unwrap();
    let connect = proxies.iter().find(|proxy| proxy["role"] == "connect").unwrap();
    let paths = connect["sessions"][0]["paths"].as_array().unwrap();
    let seen = |radio: &str| paths.iter().find(|path| path["radio"] == radio).unwrap();
    assert_eq!((&seen(&good)["state"], &seen(&bad)["state"]), (&"up".into(), &"down".into()), "{told}");
    assert!(seen(&bad)["cause"].as_str().unwrap().contains(CAUSE), "{told}");
    let log = std::fs::read_to_string(at("client.log")).unwrap();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains(CAUSE)).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("WARN") && warnings[0].contains(&bad), "{log}");
    for program in [&mut client, &mut server] {
        program.signal("TERM");
        program.wait();
    }
    let (nothing, complaint) = status(directory.path(), &[]);
    assert!(nothing.is_empty() && complaint.contains("is running"), "{nothing}{complaint}");
}

/// A service has no `XDG_RUNTIME_DIR`, a login shell has one.
#[test]
fn a_service_and_a_login_shell_see_the_same_programs() {
    let directory = TempDir::new().unwrap();
    let (key, shell) = (directory.path().join("key"), directory.path().join("shell"));
    std::fs::create_dir(&shell).unwrap();
    std::fs::set_permissions(&shell, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let program = || Command::new(env!("CARGO_BIN_EXE_tributary"));
    assert!(program().args(["keygen", "--shared", "--out", text(&key)]).status().unwrap().success());
    let within = |mut command: Command, shell: Option<&std::path::Path>| {
        command.env_remove("TRIBUTARY_RUNTIME_DIR").env_remove("XDG_RUNTIME_DIR").env("RUST_LOG", "error");
        if let Some(shell) = shell {
            command.env("XDG_RUNTIME_DIR", shell);
        }
        command
    };
    let start = |shell: Option<&std::path::Path>| {
        let mut command = within(program(), shell);
        command.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--forward",
            "127.0.0.1:1",
            "--shared-key",
            text(&key),
        ]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (lines.next().unwrap().unwrap(), child)
    };
    let mut running = [start(None), start(Some(&shell))];
    for asked in [None, Some(shell.as_path())] {
        // The sockets are opened after the address is announced.
        until("the status shows each program once", || {
            let mut command = within(program(), asked);
            let output = command.arg("status").output().unwrap();
            let table = String::from_utf8(output.stdout).unwrap();
            running.iter().all(|(line, _)| table.matches(&format!("{line},")).count() == 1)
        });
    }
    for (_, child) in &mut running {
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
        child.wait().unwrap();
    }
}

#[test]
fn a_client_without_its_server_reports_it_before_it_listens() {
    let directory = TempDir::new().unwrap();
    let at = |name: &str| directory.path().join(name);
    let key = at("key");
    let made = Command::new(env!("CARGO_BIN_EXE_tributary"))
        .args(["keygen", "--shared", "--out", text(&key)])
        .status();
    assert!(made.unwrap().success());
    // Bound and not listening.
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let path = format!("127.0.0.2={nobody}");
    let connect = ["connect", "--path", &path, "--listen", "127.0.0.1:0", "--shared-key", text(&key)];
    let _client = Program::start(&connect, &at("client.log"));
    let log = std::fs::read_to_string(at("client.log")).unwrap();
    for part in ["no path is up yet", "nothing listens", "applications are refused"] {
        assert!(log.contains(part), "{log}");
    }
}

/// Bytes of a download.
const DOWNLOAD: usize = 300_000;

/// A service that sends a download to every client.
fn source() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        while let Ok((mut tcp, _)) = listener.accept() {
            let _ = tcp.write_all(&vec![7; DOWNLOAD]);
        }
    });
    address
}

#[test]
fn downloads_of_a_prioritised_target_are_sent_first() {
    for (name, prioritised) in [("web", false), ("video", true)] {
        let directory = TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        let (key, events) = (at("key"), at("events.jsonl"));
        let keygen = ["keygen", "--shared", "--out", text(&key)];
        assert!(Command::new(env!("CARGO_BIN_EXE_tributary")).args(keygen).status().unwrap().success());
        let (web, video) = (format!("web={}", source()), format!("video={}", source()));
        let targets = ["serve", "--listen", "127.0.0.1:0", "--forward", &web, "--forward", &video];
        let log = ["--priority", "video=7", "--json-events", text(&events), "--json-decisions"];
        let serve = [&targets[..], &log, &["--shared-key", text(&key)]].concat();
        let mut server = Program::start(&serve, &at("server.log"));
        let (path, listen) = (format!("127.0.0.2={}", server.listening), format!("127.0.0.1:0={name}"));
        let connect = ["connect", "--path", &path, "--listen", &listen, "--shared-key", text(&key)];
        let client = Program::start(&connect, &at("client.log"));
        let mut download = Vec::new();
        TcpStream::connect(&client.listening).unwrap().read_to_end(&mut download).unwrap();
        assert_eq!(download.len(), DOWNLOAD);
        server.signal("TERM");
        server.wait();
        let log = std::fs::read_to_string(&events).unwrap();
        let events: Vec<serde_json::Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
        assert!(of("window_loaded") > 0, "decisions were requested: {log}");
        assert_eq!(of("prioritised") > 0, prioritised, "{name}: {log}");
    }
}
