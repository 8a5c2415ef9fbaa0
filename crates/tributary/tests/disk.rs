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
];

fn main() -> ExitCode {
    run_cases(CASES, prepare, |case, small| case(small.path()))
}

/// A small disk of its own, which is gone with this program's namespaces.
fn prepare() -> Result<TempDir, String> {
    tributary_emu::isolate().map_err(|error| error.to_string())?;
    let small = TempDir::new().map_err(|error| error.to_string())?;
    let mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", text(small.path())];
    for command in [&["ip", "link", "set", "lo", "up"][..], &mount] {
        let status = Command::new(command[0]).args(&command[1..]).status();
        if !status.map_err(|error| format!("{}: {error}", command[0]))?.success() {
            return Err(format!("`{}` fails here", command.join(" ")));
        }
    }
    Ok(small)
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

fn a_full_disk_stops_the_event_log_and_no_connection(small: &Path) {
    let elsewhere = TempDir::new().unwrap();
    let at = |name: &str| elsewhere.path().join(name);
    assert!(run(&["keygen", "--shared", "--out", text(&at("key"))]).status.success());
    let filled = Filled::new(small);
    let key = at("key");
    let events = |name: &str| small.join(name);
    let (of_server, of_client) = (events("server.json"), events("client.json"));
    let target = echo().to_string();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--forward", &target, "--json-events", text(&of_server)];
    let mut server = Program::start(&[&serve[..], &["--shared-key", text(&key)]].concat(), &at("server.log"));
    let path = format!("127.0.0.2={}", server.listening);
    let connect = ["connect", "--path", &path, "--listen", "127.0.0.1:0", "--json-events", text(&of_client)];
    let mut client =
        Program::start(&[&connect[..], &["--shared-key", text(&key)]].concat(), &at("client.log"));
    let mut tcp = TcpStream::connect(&client.listening).unwrap();
    for name in ["server.log", "client.log"] {
        until(&format!("{name} names the full disk"), || {
            let mut answer = [0; 4];
            tcp.write_all(b"echo").and_then(|()| tcp.read_exact(&mut answer)).unwrap();
            assert_eq!(&answer, b"echo");
            std::fs::read_to_string(at(name)).unwrap().contains("event log stopped: No space left on device")
        });
    }
    drop(tcp);
    for program in [&mut client, &mut server] {
        program.signal("TERM");
        assert!(program.wait().success(), "it ends as with room on the disk");
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
    let events = small.join("events.json");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--allow", "any", "--shared-key", text(&key)];
    let refused = run(&[&serve[..], &["--json-events", text(&events)]].concat());
    assert!(!refused.status.success());
    assert!(
        said(&refused).contains(text(&events)) && said(&refused).contains("Read-only"),
        "{}",
        said(&refused)
    );
    // Only the status is missing without a place for its socket: the program says so and runs.
    let log = elsewhere.path().join("server.log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
    command.args(serve).env("TRIBUTARY_RUNTIME_DIR", small.join("status")).env_remove("RUST_LOG");
    let mut child = command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    until("the log names the directory", || {
        let log = std::fs::read_to_string(&log).unwrap();
        log.contains("cannot show this program") && log.contains(text(small))
    });
    assert!(child.try_wait().unwrap().is_none(), "it runs");
    child.kill().unwrap();
    child.wait().unwrap();
    remount("rw");
}
