//! The command line as a user sees it: output, exit codes, and one clear line for every invalid input.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;
use tributary_testing::{not_run, text};

fn tributary(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
    command.args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    tributary(arguments).output().expect("the program starts")
}

fn refused(output: &Output, code: i32, parts: &[&str]) {
    tributary_testing::refused("tributary", output, code, parts);
}

fn key(directory: &TempDir, name: &str) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, output(&["keygen", "--shared"]).stdout).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// A child process that is killed when dropped.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn help_version_and_keys() {
    for arguments in [&["--help"][..], &["dash", "play", "--help"], &["stream", "--help"]] {
        assert!(output(arguments).status.success());
    }
    let version = String::from_utf8(output(&["-V"]).stdout).unwrap();
    assert_eq!(version.trim(), format!("tributary {}", env!("CARGO_PKG_VERSION")));
    let (one, two) = (output(&["keygen"]).stdout, output(&["keygen"]).stdout);
    assert!(one.starts_with(b"tributary-private-1:") && one != two);
    assert!(output(&["keygen", "--shared"]).stdout.starts_with(b"tributary-key-1:"));
}

#[test]
fn key_files_are_private_to_their_owner_and_never_overwritten() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("key");
    let keygen = || output(&["keygen", "--shared", "--out", text(&file)]);
    assert!(keygen().status.success());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let key = std::fs::read(&file).unwrap();
    assert!(key.starts_with(b"tributary-key-1:"));
    refused(&keygen(), 1, &["key", "exists"]);
    assert_eq!(std::fs::read(&file).unwrap(), key);
}

#[test]
fn quantities_may_have_units() {
    // Each of these is parsed, and fails because the file or server does not exist.
    let key = ["--shared-key", "/nowhere/key"];
    for (arguments, missing) in [
        (
            &["serve", "--listen", "127.0.0.1:0", "--forward", "a:1", "--drain", "10s", "--buffer", "0.2s"][..],
            "key",
        ),
        (
            &[
                "connect",
                "--path",
                "lo=127.0.0.1:1",
                "--listen",
                "127.0.0.1:0",
                "--wait",
                "1min",
                "--drain",
                "10s",
            ],
            "key",
        ),
        (&["stream", "play", "--path", "lo=127.0.0.1:1", "--seconds", "20s"], "key"),
    ] {
        refused(&output(&[arguments, &key].concat()), 1, &["/nowhere/", missing]);
    }
    for arguments in [
        &["ingest", "/nowhere/film.mp4", "--seconds", "20s", "--out", "/nowhere/tiles"][..],
        &["dash", "package", "/nowhere/film.mp4", "--seconds", "1min", "--out", "/nowhere/package"],
        &["dash", "serve", "/nowhere/package", "--idle", "1min", "--drain", "10s"],
    ] {
        refused(&output(arguments), 1, &["/nowhere/"]);
    }
    let play = ["dash", "play", "ftp://127.0.0.1/film.mpd", "--seconds", "60s", "--buffer", "30s"];
    refused(&output(&play), 1, &["ftp://"]);
    refused(&output(&["serve", "--drain", "2kg"]), 2, &["--drain", "2min"]);
}

#[test]
fn a_limit_of_memory_is_refused_where_there_are_no_sessions() {
    let serve = ["stream", "serve", "/nowhere/tiles", "--listen", "127.0.0.1:0", "--memory", "1GiB"];
    refused(&output(&[&serve[..], &["--transport", "tcp"]].concat()), 1, &["--memory", "`tcp`", "sessions"]);
    let key = ["--shared-key", "/nowhere/key"];
    refused(&output(&[&serve[..], &key].concat()), 1, &["/nowhere/key"]);
}

#[test]
fn a_live_source_is_checked_before_the_server_begins() {
    let serve = |more: &[&str]| {
        output(&[&["stream", "serve", "--listen", "127.0.0.1:0", "--transport", "tcp"], more].concat())
    };
    refused(&serve(&[]), 2, &["<DIRECTORY>"]);
    refused(&serve(&["tiles", "--source", "srt://127.0.0.1:1"]), 2, &["--source"]);
    refused(&serve(&["tiles", "--gop", "1"]), 2, &["--gop", "DIRECTORY"]);
    refused(&serve(&["--source", "gopher://127.0.0.1/x"]), 1, &["gopher://127.0.0.1/x", "rtmp://", "srt://"]);
    refused(&serve(&["--source", "srt://127.0.0.1:1", "--gop", "9"]), 2, &["0.1 to 2 seconds"]);
    refused(&serve(&["--source", "srt://127.0.0.1:1", "--qps", "0,30"]), 1, &["--qps"]);
    refused(
        &serve(&["--source", "rtmp://127.0.0.1:1/live/a"]),
        1,
        &["rtmp://127.0.0.1:1/live/a failed", "refused"],
    );
}

#[test]
fn usage_errors_exit_with_two() {
    for word in ["dance", "demo", "bench"] {
        refused(&output(&[word]), 2, &[word]);
    }
    refused(
        &output(&["serve", "--listen", "nonsense", "--forward", "a:1", "--shared-key", "k"]),
        2,
        &["nonsense"],
    );
}

#[test]
fn a_page_is_for_this_machine_and_leaves_out_what_only_the_headless_player_does() {
    let play = |more: &[&str]| output(&[&["dash", "play", "http://127.0.0.1:9/m.mpd"], more].concat());
    refused(&play(&["--web", "0.0.0.0:8360"]), 1, &["0.0.0.0:8360", "ssh -L 8360:127.0.0.1:8360"]);
    refused(&play(&["--web", "--rule", "bola"]), 2, &["--web", "--rule"]);
    refused(&play(&["--json-events", "x.jsonl"]), 2, &["--web"]);
    refused(&play(&["--web", "--json-events", "/nowhere/x.jsonl"]), 1, &["/nowhere/x.jsonl"]);
}

#[test]
fn keys_that_cannot_be_used() {
    let directory = TempDir::new().unwrap();
    let serve = |key: &Path| {
        output(&["serve", "--listen", "127.0.0.1:0", "--forward", "localhost:1", "--shared-key", text(key)])
    };
    refused(&serve(&directory.path().join("none")), 1, &["none"]);
    let good = key(&directory, "good");
    std::fs::set_permissions(&good, std::fs::Permissions::from_mode(0o644)).unwrap();
    refused(&serve(&good), 1, &["chmod 600"]);
    let odd = directory.path().join("odd");
    std::fs::write(&odd, "password\n").unwrap();
    std::fs::set_permissions(&odd, std::fs::Permissions::from_mode(0o600)).unwrap();
    refused(&serve(&odd), 1, &["odd", "tributary keygen"]);
}

#[test]
fn a_port_in_use_a_bad_path_and_an_unknown_scheduler() {
    let directory = TempDir::new().unwrap();
    let key = key(&directory, "key");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let serve =
        output(&["serve", "--listen", &address, "--forward", "localhost:1", "--shared-key", text(&key)]);
    refused(&serve, 1, &[&address, "in use"]);
    let connect = |path: &str, more: &[&str]| {
        let fixed = ["connect", "--path", path, "--listen", "127.0.0.1:0", "--shared-key", text(&key)];
        output(&[&fixed, more].concat())
    };
    refused(&connect("wlan77=127.0.0.1:9", &[]), 1, &["wlan77"]);
    refused(&connect("nothing", &[]), 1, &["`nothing`", "LOCAL=SERVER:PORT"]);
    refused(&connect("127.0.0.1=127.0.0.1:9", &["--scheduler", "fdbt"]), 1, &["`fdbt`", "fbdt-paper"]);
    refused(&connect("127.0.0.1=127.0.0.1:9", &["--congestion", "magic"]), 1, &["magic", "cubic"]);
}

#[test]
fn an_address_of_its_own_that_nobody_reaches_is_named_once() {
    for (address, reason) in
        [("rack", "expected HOST:PORT"), ("0.0.0.0:7000", "cannot connect to that address")]
    {
        let output = output(&["serve", "--listen", "127.0.0.1:0", "--allow", "any", "--address", address]);
        refused(&output, 2, &["--address", reason]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(errors.matches(address).count(), 1, "{errors}");
    }
}

#[test]
fn controllers_are_loaded_listed_and_unloaded_or_refused_with_the_reason() {
    refused(&output(&["cc", "load", "warp"]), 1, &["`warp`", "balia, compound, lia"]);
    refused(
        &output(&["cc", "load", "lia", "--prefix", "much_too_long_"]),
        1,
        &["`much_too_long_lia`", "shorter prefix"],
    );
    let doctor = output(&["doctor", "--require", "ebpf"]);
    let findings = String::from_utf8(doctor.stdout).unwrap();
    let missing = doctor.status.code() == Some(1);
    if missing {
        not_run(&format!("controllers are not loaded: {findings}"));
        refused(&output(&["cc", "load", "lia"]), 1, &[]);
        return;
    }
    let prefix = format!("x{}_", std::process::id() % 100_000);
    let name = format!("{prefix}lia");
    let shows = |arguments: &[&str], what: &str| {
        let said = output(arguments);
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said.stderr));
        assert!(text.lines().any(|line| line.starts_with(&name) && line.contains(what)), "{text}");
    };
    shows(&["cc", "load", "lia", "--prefix", &prefix], "loaded");
    shows(&["cc", "list"], "loaded");
    shows(&["cc", "unload", &name], "unloaded");
    refused(&output(&["cc", "unload", &name]), 1, &[&name, "not loaded"]);
}

#[test]
fn invalid_priorities_weights_and_schedulers_are_refused_with_the_valid_ones() {
    let directory = TempDir::new().unwrap();
    let key = key(&directory, "key");
    let connect = |more: &[&str]| {
        let fixed = [
            "connect",
            "--path",
            "127.0.0.1=127.0.0.1:9",
            "--listen",
            "127.0.0.1:0",
            "--shared-key",
            text(&key),
        ];
        output(&[&fixed[..], more].concat())
    };
    refused(&connect(&["--priority", "80"]), 1, &["`80`", "PORT=N", "dscp:EF=7"]);
    refused(&connect(&["--priority", "80=256"]), 1, &["`256`", "from 0 to 255"]);
    refused(&connect(&["--priority", "dscp:XX=7"]), 1, &["`XX`", "AF43"]);
    refused(&connect(&["--priority", "9=7"]), 1, &["no listen address has port 9"]);
    refused(&connect(&["--weights", "0,-0.25"]), 1, &["`latency`", "from 0.001 to 1000"]);
    refused(&connect(&["--weights", "1,0.5"]), 1, &["`throughput`", "from -1000 to 0"]);
    refused(&connect(&["--weights", "1"]), 2, &["1,-0.25"]);
    refused(&connect(&["--scheduler", "avira+fdbt"]), 1, &["`avira+fdbt`", "avira+NAME"]);
}

#[test]
fn a_wrong_key_is_reported_when_the_wait_ends() {
    let directory = TempDir::new().unwrap();
    let (ours, theirs) = (key(&directory, "ours"), key(&directory, "theirs"));
    let arguments =
        ["serve", "--listen", "127.0.0.1:0", "--forward", "localhost:1", "--shared-key", text(&ours)];
    let mut server = Ending(tributary(&arguments).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").expect("it says where it listens");
    let path = format!("127.0.0.1={address}");
    let connect =
        ["connect", "--path", &path, "--listen", "127.0.0.1:0", "--wait", "3", "--shared-key", text(&theirs)];
    refused(&output(&connect), 1, &["key"]);
}

#[test]
fn the_doctor_names_every_check_and_fails_for_what_is_required() {
    let findings: serde_json::Value = serde_json::from_slice(&output(&["doctor", "--json"]).stdout).unwrap();
    for finding in findings["checks"].as_array().unwrap() {
        let name = finding["check"].as_str().unwrap();
        let required = output(&["doctor", "--require", name]);
        let code = i32::from(finding["state"] == "absent");
        assert_eq!(required.status.code(), Some(code), "{finding}");
        assert!(String::from_utf8_lossy(&required.stdout).contains(finding["found"].as_str().unwrap()));
    }
    refused(&output(&["doctor", "--require", "clock,tum"]), 1, &["tum", "no such check", "tun"]);
}

#[test]
fn completions_and_man_pages_come_from_the_command_line() {
    for shell in ["bash", "zsh", "fish"] {
        let script = output(&["completions", shell]).stdout;
        assert!(String::from_utf8_lossy(&script).contains("keygen"), "{shell}");
    }
    let directory = TempDir::new().unwrap();
    let pages = directory.path().join("man");
    assert!(output(&["man", "--out", text(&pages)]).status.success());
    let page = std::fs::read_to_string(pages.join("tributary-serve.1")).unwrap();
    assert!(page.contains(".TH tributary-serve 1") && page.contains("forward"), "{page}");
    assert!(!pages.join("tributary-exec-inside.1").exists(), "hidden");
    let file = key(&directory, "file");
    refused(&output(&["man", "--out", text(&file)]), 1, &["file"]);
}
