//! `record` on the command line, over loopback: a recording that is cut short, and what is refused.

use super::{lab, output, refused};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tributary_link::Scenario;
use tributary_testing::{text, until};

/// Killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn key(directory: &Path) -> String {
    let file = directory.join("key");
    std::fs::write(&file, format!("tributary-key-1:{}\n", "5a".repeat(32))).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    text(&file).to_owned()
}

/// A server, and its address.
fn server(key: &str) -> (Running, String) {
    let mut command = lab(&["record", "--serve", "127.0.0.1:0", "--shared-key", key]);
    let mut server = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap().to_owned();
    (server, address)
}

#[test]
fn a_recording_that_is_killed_or_interrupted_leaves_a_scenario() {
    let directory = TempDir::new().unwrap();
    let key = key(directory.path());
    let (_server, address) = server(&key);
    for signal in ["KILL", "INT"] {
        let out = directory.path().join(format!("{signal}.toml"));
        let path = format!("127.0.0.1={address}");
        let arguments = ["record", "--path", &path, "--shared-key", &key, "--out", text(&out)];
        let mut recording =
            Running(lab(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        until("something is written", || out.exists());
        let seconds = Scenario::load(&out).unwrap().duration;
        let kill = Command::new("kill").args([&format!("-{signal}"), &recording.0.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let status = recording.0.wait().unwrap();
        assert_eq!(status.success(), signal == "INT", "{signal}: {status}");
        let scenario = Scenario::load(&out).unwrap();
        assert_eq!(scenario.path_names(), ["127-0-0-1"]);
        // The end is written after an interruption.
        assert_eq!(scenario.duration > seconds, signal == "INT", "{signal}: {seconds:?}");
        assert!(scenario.duration >= Duration::from_millis(500), "{:?}", scenario.duration);
        let toml = std::fs::read_to_string(&out).unwrap();
        assert!(
            toml.contains("# position: absent (") && toml.contains("signal strength: absent ("),
            "{toml}"
        );
        let samples = std::fs::read_to_string(out.with_extension("samples.csv")).unwrap();
        assert!(
            samples.starts_with("time (s),path,rtt (ms),") && samples.contains("\n0,127-0-0-1,"),
            "{samples}"
        );
    }
}

#[test]
fn a_recording_that_cannot_begin_is_refused_with_the_way_out() {
    let directory = TempDir::new().unwrap();
    let key = key(directory.path());
    let out = directory.path().join("walk.toml");
    let record = |arguments: &[&str]| {
        output(&[&["record", "--shared-key", &key, "--out", text(&out)], arguments].concat())
    };
    refused(&record(&["--path", "127.0.0.1"]), 1, &["--path 127.0.0.1 has no server", "--server"]);
    refused(&record(&["--path", "127.0.0.1=nowhere"]), 1, &["`nowhere` is no SERVER:PORT"]);
    refused(&record(&["--path", "no-such-radio=127.0.0.1:9"]), 1, &["--path no-such-radio: cannot reach"]);
    refused(&record(&[]), 2, &["--path"]);
    refused(&output(&["record", "--serve", "127.0.0.1:0"]), 2, &["--shared-key"]);
    let nowhere =
        ["record", "--path", "127.0.0.1=127.0.0.1:9", "--shared-key", &key, "--out", "/nowhere/walk.toml"];
    refused(&output(&nowhere), 1, &["/nowhere/walk.toml", "choose another --out"]);
    let (_server, address) = server(&key);
    let other = directory.path().join("other");
    std::fs::write(&other, format!("tributary-key-1:{}\n", "77".repeat(32))).unwrap();
    std::fs::set_permissions(&other, PermissionsExt::from_mode(0o600)).unwrap();
    let path = format!("127.0.0.1={address}");
    let stranger = ["record", "--path", &path, "--shared-key", text(&other), "--out", text(&out)];
    refused(&output(&stranger), 1, &["another key", "--shared-key"]);
    assert!(!out.exists());
}
