//! A full disk and one that cannot be written: programs go on without what they cannot write and say so, and `keygen` leaves no half of a key.

#[path = "common/program.rs"]
mod program;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use program::Program;
use tempfile::TempDir;
use tributary_testing::{echo, run_cases, text, until};

type Case = fn(&Path);
const CASES: &[(&str, Case)] = &[
    ("a_full_disk_stops_the_event_log_and_no_connection", a_full_disk_stops_the_event_log_and_no_connection),
    ("a_key_that_does_not_fit_leaves_no_file", a_key_that_does_not_fit_leaves_no_file),
    ("a_state_directory_that_cannot_be_written_is_named", a_state_directory_that_cannot_be_written_is_named),
    (
        "a_disk_without_a_place_for_a_name_leaves_a_program_without_its_status",
        a_disk_without_a_place_for_a_name_leaves_a_program_without_its_status,
    ),
];

fn main() -> ExitCode {
    run_cases(CASES, prepare, |case, small| case(small.0.path()))
}

/// A small disk. It is unmounted before its directory is removed, which would fail.
struct Small(TempDir);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn prepare() -> Result<Small, String> {
    tributary_emu::isolate().map_err(|error| error.to_string())?;
    let small = TempDir::new().map_err(|error| error.to_string())?;
    let mount = ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=64", "none", text(small.path())];
    for command in [&["ip", "link", "set", "lo", "up"][..], &mount] {
        let status = Command::new(command[0]).args(&command[1..]).status();
        if !status.map_err(|error| format!("{}: {error}", command[0]))?.success() {
            return Err(format!("`{}` fails here", command.join(" ")));
        }
    }
    Ok(Small(small))
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tributary")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Leaves no room on the disk until it is dropped.
struct Filled(PathBuf);

impl Filled {
    fn new(small: &Path) -> Self {
        let file = small.join("fill");
        let full = std::fs::File::create(&file).unwrap().write_all(&vec![0; 1 << 20]).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        Self(file)
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An echo comes back through this client.
fn echoes(tcp: &mut TcpStream) {
    let mut answer = [0; 4];
    tcp.write_all(b"echo").and_then(|()| tcp.read_exact(&mut answer)).unwrap();
    assert_eq!(&answer, b"echo");
}

fn a_full_disk_stops_the_event_log_and_no_connection(small: &Path) {
    for form in ["--json-events", "--qlog"] {
        a_full_disk_stops(form, small);
    }
}

fn a_full_disk_stops(form: &str, small: &Path) {
    let elsewhere = TempDir::new().unwrap();
    let at = |name: &str| elsewhere.path().join(name);
    assert!(run(&["keygen", "--shared", "--out", text(&at("key"))]).status.success());
    let filled = Filled::new(small);
    let key = at("key");
    let events = |name: &str| small.join(name);
    let target = echo().to_string();
    let start = |arguments: &[&str], name: &str| {
        let (file, log) = (events(name), at(&format!("{name}.log")));
        let more = [form, text(&file), "--shared-key", text(&key)];
        Program::start(&[arguments, &more].concat(), &log)
    };
    let mut server = start(&["serve", "--listen", "127.0.0.1:0", "--forward", &target], "server");
    let path = format!("127.0.0.2={}", server.listening);
    let connect = ["connect", "--path", &path, "--listen", "127.0.0.1:0"];
    let mut clients = vec![start(&connect, "client")];
    let mut connections = vec![TcpStream::connect(&clients[0].listening).unwrap()];
    let said = |name: &str| {
        let log = std::fs::read_to_string(at(&format!("{name}.log"))).unwrap();
        log.matches(&format!("event log {} stopped: No space left on device", events(name).display())).count()
    };
    let is_named = |name: &str, tcp: &mut TcpStream| {
        until(&format!("the log of the {name} names the file and the full disk"), || {
            echoes(tcp);
            said(name) > 0
        });
    };
    is_named("server", &mut connections[0]);
    is_named("client", &mut connections[0]);
    // Another session is served, and the file that has stopped is not named again.
    clients.push(start(&connect, "another"));
    connections.push(TcpStream::connect(&clients[1].listening).unwrap());
    is_named("another", &mut connections[1]);
    connections.iter_mut().for_each(echoes);
    drop(connections);
    for program in clients.iter_mut().chain([&mut server]) {
        program.signal("TERM");
        assert!(program.wait().success(), "it ends as with room on the disk");
    }
    for name in ["server", "client", "another"] {
        assert_eq!(said(name), 1, "{form}: {name}");
        std::fs::remove_file(events(name)).unwrap();
    }
    drop(filled);
}

fn a_key_that_does_not_fit_leaves_no_file(small: &Path) {
    let key = small.join("key");
    for form in [&["keygen", "--out", text(&key)][..], &["keygen", "--shared", "--out", text(&key)]] {
        let filled = Filled::new(small);
        let refused = run(form);
        assert!(!refused.status.success());
        let errors = said(&refused);
        assert!(errors.contains(text(&key)) && errors.contains("No space left on device"), "{errors}");
        assert!(!key.exists(), "an empty key file is left");
        drop(filled);
        assert!(run(form).status.success(), "there is room again");
        std::fs::remove_file(&key).unwrap();
    }
}

fn a_state_directory_that_cannot_be_written_is_named(small: &Path) {
    let elsewhere = TempDir::new().unwrap();
    let key = elsewhere.path().join("key");
    assert!(run(&["keygen", "--shared", "--out", text(&key)]).status.success());
    let remount = |how: &str| {
        let options = format!("remount,{how}");
        assert!(Command::new("mount").args(["-o", &options]).arg(small).status().unwrap().success());
    };
    remount("ro");
    let into = small.join("key");
    let refused = run(&["keygen", "--out", text(&into)]);
    assert!(said(&refused).contains(text(&into)) && said(&refused).contains("Read-only file system"));
    let serve = serve(&key);
    for form in ["--json-events", "--qlog"] {
        let events = small.join("events");
        let refused = run(&[&serve[..], &[form, text(&events)]].concat());
        let errors = said(&refused);
        assert_eq!(refused.status.code(), Some(1), "{errors}");
        assert!(errors.contains(text(&events)) && errors.contains("Read-only file system"), "{errors}");
    }
    runs_without_status(&serve, small, "Read-only file system");
    remount("rw");
}

fn serve(key: &Path) -> [&str; 7] {
    ["serve", "--listen", "127.0.0.1:0", "--allow", "any", "--shared-key", text(key)]
}

/// Only the status is missing without a place for its socket: the program says so, and ends in order.
fn runs_without_status(serve: &[&str], small: &Path, reason: &str) {
    let elsewhere = TempDir::new().unwrap();
    let log = elsewhere.path().join("server.log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
    command.args(serve).env("TRIBUTARY_RUNTIME_DIR", small.join("status")).env_remove("RUST_LOG");
    let child = command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    let mut server = Program { child, listening: String::new() };
    until("the log names the directory and the reason", || {
        let log = std::fs::read_to_string(&log).unwrap();
        log.contains("cannot show this program") && log.contains(text(small)) && log.contains(reason)
    });
    assert!(server.child.try_wait().unwrap().is_none(), "it runs");
    server.signal("TERM");
    assert!(server.wait().success());
}

/// A disk is full, too, when it has no place for another name.
fn a_disk_without_a_place_for_a_name_leaves_a_program_without_its_status(small: &Path) {
    let elsewhere = TempDir::new().unwrap();
    let key = elsewhere.path().join("key");
    assert!(run(&["keygen", "--shared", "--out", text(&key)]).status.success());
    let files = small.join("files");
    std::fs::create_dir(&files).unwrap();
    let full = (0..).find_map(|number: u32| std::fs::File::create(files.join(number.to_string())).err());
    assert_eq!(full.expect("the disk has a limit").kind(), std::io::ErrorKind::StorageFull);
    let serve = serve(&key);
    runs_without_status(&serve, small, "No space left on device");
    let events = small.join("events");
    for form in ["--json-events", "--qlog"] {
        let refused = run(&[&serve[..], &[form, text(&events)]].concat());
        let errors = said(&refused);
        assert_eq!(refused.status.code(), Some(1), "{errors}");
        assert!(errors.contains(text(&events)) && errors.contains("No space left on device"), "{errors}");
    }
    std::fs::remove_dir_all(files).unwrap();
}
