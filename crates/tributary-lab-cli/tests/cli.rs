//! The command line as a user sees it: output, exit codes, and one clear line for every invalid input.

#[path = "cli/compare.rs"]
mod compare;
#[path = "cli/convert.rs"]
mod convert;
#[path = "cli/record.rs"]
mod record;
#[path = "cli/simulator.rs"]
mod simulator;

use std::collections::BTreeSet;
use std::process::{Command, Output};
use tempfile::TempDir;
use tributary_testing::{not_run, text};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tributary-lab");

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    lab(arguments).output().expect("the program starts")
}

fn refused(output: &Output, code: i32, parts: &[&str]) {
    tributary_testing::refused("tributary-lab", output, code, parts);
}

/// Whether emulated networks can be made on this machine. If not, prints the reason, and fails in CI.
fn networks() -> bool {
    let output = output(&["emu", "run", "los", "--", "true"]);
    if output.status.success() {
        return true;
    }
    let reason = String::from_utf8_lossy(&output.stderr).into_owned();
    not_run(&format!("no emulated networks here: {reason}"));
    false
}

#[test]
fn help_version_and_scenarios() {
    for arguments in
        [&["--help"][..], &["demo", "--help"], &["reproduce", "fbdt", "--help"], &["emu", "--help"]]
    {
        assert!(output(arguments).status.success());
    }
    let version = String::from_utf8(output(&["-V"]).stdout).unwrap();
    assert_eq!(version.trim(), format!("tributary-lab {}", env!("CARGO_PKG_VERSION")));
    let listed = String::from_utf8(output(&["emu", "list"]).stdout).unwrap();
    assert!(listed.contains("blackout") && listed.contains("mobility"), "{listed}");
}

#[test]
fn churn_sees_the_streams_of_both_ends() {
    let output = output(&["bench", "churn", "--seconds", "10", "--rate", "5", "--every", "1", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    for end in report["ends"].as_array().unwrap() {
        let samples = end["samples"].as_array().unwrap();
        assert!(samples.iter().any(|sample| sample["streams"].as_u64() > Some(0)), "{end:#}");
    }
}

#[test]
fn changes_of_a_network_that_does_not_run_are_refused() {
    refused(&output(&["emu", "set", "nowhere", "wifi", "--block"]), 1, &["nowhere", "--control"]);
    refused(&output(&["emu", "set", "nowhere", "--rate", "5"]), 2, &["PATH"]);
    refused(&output(&["emu", "set", "nowhere", "wifi", "--loss", "2"]), 2, &["--loss"]);
}

#[test]
fn quantities_may_have_units() {
    refused(&output(&["run", "mars", "--rtt", "5ms", "--seconds", "10s"]), 1, &["`mars`"]);
    refused(&output(&["run", "mars", "--rtt", "5kg"]), 2, &["--rtt", "5ms"]);
    let times = [
        "unshaped", "idle", "memory", "churn", "coupled", "dash", "flood", "proxy", "sessions", "emulator",
        "tunnel",
    ];
    for benchmark in times {
        refused(&output(&["bench", benchmark, "--seconds", "5kg"]), 2, &["--seconds", "with a unit"]);
    }
}

/// Default output folders are in .gitignore, so that they are not committed by accident.
#[test]
fn default_output_folders_are_ignored_by_git() {
    let ignored = include_str!("../../../.gitignore");
    let mut folders = BTreeSet::new();
    for arguments in [&["demo"][..], &["reproduce"], &["reproduce", "ows"], &["sweep"], &["run"]] {
        let help = String::from_utf8(output(&[arguments, &["--help"]].concat()).stdout).unwrap();
        let defaults = help.split("[default: tributary-").skip(1).filter_map(|rest| rest.split(']').next());
        folders.extend(defaults.map(|name| format!("/tributary-{name}")));
    }
    assert!(folders.contains("/tributary-sweep") && folders.len() >= 3, "{folders:?}");
    for folder in folders {
        assert!(ignored.lines().any(|line| line == folder), "{folder} is not in .gitignore");
    }
}

#[test]
fn a_result_carries_the_commit_that_is_checked_out() {
    let mut git = Command::new("git");
    git.args(["rev-parse", "--short=12", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let commit = match git.output() {
        Ok(said) if said.status.success() => String::from_utf8(said.stdout).unwrap(),
        other => {
            not_run(&format!("this is not a clone: {other:?}"));
            return;
        }
    };
    let arguments = ["run", "los", "--world", "sim", "--transport", "wifi", "--seconds", "2", "--json"];
    let result: serde_json::Value = serde_json::from_slice(&output(&arguments).stdout).unwrap();
    assert_eq!(result["commit"].as_str(), Some(commit.trim()), "{result}");
}

#[test]
fn usage_errors_exit_with_two() {
    for word in ["dance", "serve"] {
        refused(&output(&[word]), 2, &[word]);
    }
    refused(&output(&["run", "--seconds", "0"]), 2, &["--seconds"]);
    refused(&output(&["run", "--workload", "poetry"]), 2, &["poetry", "bulk"]);
    refused(&output(&["run", "--queue-kb", "1", "--queue-ms", "1"]), 2, &["--queue-ms"]);
}

#[test]
fn unknown_names_list_the_known_ones() {
    refused(&output(&["run", "--scenario", "mars"]), 1, &["`mars`", "blackout"]);
    refused(&output(&["run", "--transport", "fdbt"]), 1, &["`fdbt`", "fbdt-paper", "mptcp", "wifi"]);
    refused(&output(&["emu", "run", "mars", "--", "true"]), 1, &["`mars`"]);
    refused(&output(&["demo", "--scenario", "mars"]), 1, &["`mars`"]);
    refused(&output(&["show", "mars"]), 1, &["`mars`", "blackout"]);
    refused(
        &output(&["run", "mobility", "--transport", "mptcp", "--scheduler", "min-rtt"]),
        1,
        &["--scheduler min-rtt", "`mptcp`", "--world sim"],
    );
    refused(&output(&["run", "--transport", "mptcp", "--plaintext"]), 1, &["--plaintext", "`mptcp`"]);
    for world in ["sim", "emu"] {
        let run = output(&["run", "mobility", "--world", world, "--transport", "avira+fdbt"]);
        refused(&run, 1, &["`avira+fdbt`", "avira+SCHEDULER"]);
    }
    let reproduce = output(&["reproduce", "fbdt", "--world", "sim", "--scenarios", "nowhere"]);
    refused(&reproduce, 1, &["`nowhere`", "known: ", " los,"]);
    refused(
        &output(&["reproduce", "fdbt"]),
        1,
        &[
            "`fdbt`",
            "known: fbdt, fbdt-ablation, fbdt-published, avira, cotag, decision-engine, handoff",
            ".toml",
        ],
    );
}

#[test]
fn a_broken_scenario_file_is_named_with_its_line() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("odd.toml");
    std::fs::write(&file, "name = \"odd\"\ncolour = \"blue\"\n").unwrap();
    refused(&output(&["run", "--scenario", text(&file)]), 1, &["odd.toml:2", "colour"]);
}

#[test]
fn the_page_of_the_stand_is_for_this_machine() {
    refused(
        &output(&["show", "--listen", "0.0.0.0:8360"]),
        1,
        &["0.0.0.0:8360", "ssh -L 8360:127.0.0.1:8360"],
    );
    refused(&output(&["show", "--seconds", "10"]), 2, &["--record"]);
}

#[test]
fn files_that_are_not_videos_are_refused_by_name() {
    refused(&output(&["demo", "--video", "/nowhere/film.mp4"]), 1, &["/nowhere/film.mp4"]);
    refused(&output(&["show", "--video", "/nowhere/film.mp4"]), 1, &["/nowhere/film.mp4"]);
    refused(&output(&["show", "--record", "/nowhere/stand.mp4"]), 1, &["/nowhere/stand.mp4"]);
    if !networks() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let (file, out) = (directory.path().join("notes.mp4"), directory.path().join("out"));
    std::fs::write(&file, "no film").unwrap();
    let arguments = ["demo", "--video", text(&file), "--out", text(&out)];
    let cache = |command: &mut Command| command.env("XDG_CACHE_HOME", directory.path()).output().unwrap();
    refused(&cache(&mut lab(&arguments)), 1, &["notes.mp4", "not a video"]);
    let without = cache(lab(&arguments).env("PATH", "/nowhere"));
    refused(&without, 1, &["ffmpeg", "apt-get install ffmpeg"]);
}

#[test]
fn a_reproduction_writes_its_report_and_prints_its_claims() {
    let directory = TempDir::new().unwrap();
    let mut arguments = vec!["reproduce", "handoff", "--quick", "--json", "--out", text(directory.path())];
    arguments.extend(["--scenarios", "wifi-wifi-limited", "--transports", "mptcp/min-rtt,fbdt"]);
    arguments.extend(["--congestion", "olia", "--seeds", "2", "--seconds", "6"]);
    let output = output(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["samples"].as_array().unwrap().len(), 2 * 2 * 2);
    let claims = outcome["claims"].as_array().unwrap();
    assert!(claims.iter().any(|claim| claim["id"] == "fbdt-discards"), "{claims:?}");
    for name in ["html", "json", "md"] {
        assert!(directory.path().join(format!("handoff-sim.{name}")).is_file(), "{name}");
    }
}

#[test]
fn a_missing_permission_names_what_to_allow() {
    for command in ["run --seconds 2", "show"] {
        let script = format!("echo 0 > /proc/sys/user/max_net_namespaces && exec {PROGRAM} {command}");
        let output = Command::new("unshare").args(["-Ur", "sh", "-c", &script]).output();
        match output {
            Ok(output) if !String::from_utf8_lossy(&output.stderr).contains("unshare") => {
                refused(&output, 1, &["namespaces"]);
            }
            other => return not_run(&format!("no user namespaces here: {other:?}")),
        }
    }
}

#[test]
fn emulated_commands_keep_their_exit_codes_and_runs_write_their_files() {
    if !networks() {
        return;
    }
    assert_eq!(output(&["emu", "run", "los", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    refused(&output(&["emu", "run", "los", "--", "no-such-program"]), 1, &["`no-such-program`"]);
    refused(&output(&["run", "--congestion", "magic", "--seconds", "2"]), 1, &["magic", "cubic"]);
    for transport in ["wifi", "mptcp", "fbdt"] {
        let run = output(&["run", "--scenario", "los", "--transport", transport, "--seconds", "2", "--json"]);
        let json = String::from_utf8(run.stdout).unwrap();
        assert_eq!(json.lines().count(), 1, "{json}");
        let result: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(result["congestion"], "cubic");
        assert_eq!(result["record"]["bulk"]["intact"], true);
        assert!(result["goodput"]["mean_mbps"].as_f64().unwrap() > 1.0, "{json}");
    }
}

#[test]
fn a_quic_connection_is_measured_inside_a_session_and_beside_it() {
    if !networks() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let paper = directory.path().join("inner.toml");
    let text_of_paper = "name = \"inner\"\n[[matrix]]\nworld = \"emu\"\nscenarios = [\"normal\"]\n\
                         transports = [\"quic:wifi\", \"fbdt\"]\naxes = { inner = [\"bbr\"] }\nseeds = 1\nseconds = 3\n";
    std::fs::write(&paper, text_of_paper).unwrap();
    let output =
        output(&["reproduce", text(&paper), "--world", "emu", "--json", "--out", text(directory.path())]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let samples = outcome["samples"].as_array().unwrap();
    let value = |transport: &str, metric: &str| {
        let of =
            samples.iter().find(|sample| sample["labels"]["transport"] == transport).expect("it was run");
        of["metrics"][metric][0].as_f64().unwrap_or_else(|| panic!("no {metric}: {of}"))
    };
    for transport in ["quic:wifi", "fbdt"] {
        assert!(value(transport, "bulk") > 1.0 && value(transport, "srtt") > 0.0, "{samples:?}");
    }
    // Both radios carry the one connection.
    let share = value("fbdt", "share");
    assert!(share > 0.0 && share < 100.0, "{samples:?}");
}
