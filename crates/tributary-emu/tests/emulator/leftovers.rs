//! An emulation that is killed or fails leaves no process behind, and one that is interrupted no temporary file.

use crate::support::{isolated, network, start, two_paths};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tributary_emu::{IsolateError, Side, isolate};
use tributary_testing::until;

/// Environment variable that identifies the processes of one emulation.
const MARK: &str = "TRIBUTARY_EMULATOR_MARK";

/// Cases that only other cases start.
pub const VICTIMS: [(&str, fn()); 2] = [("victim", victim), ("victim_exits", victim_exits)];

/// Runs a network with a child on each side, prints the path of a temporary directory, and waits to be killed.
fn victim() {
    let network = network(&two_paths(47, 140));
    let sleeper = |side| network.command(side, "sleep").arg("1000").spawn().unwrap();
    let mut children = [sleeper(Side::Client), sleeper(Side::Server)];
    // An orphan: its parent exits at once, and the namespace's init adopts it.
    network.command(Side::Client, "sh").args(["-c", "sleep 1000 & exit 0"]).status().unwrap();
    let directory = tempfile::tempdir().unwrap();
    println!("{}", directory.path().display());
    children.iter_mut().for_each(|child| _ = child.wait());
}

fn victim_exits() {
    isolated();
    std::process::exit(23);
}

/// Processes with this value of the variable.
fn marked(mark: &str) -> Vec<String> {
    let entry = format!("{MARK}={mark}");
    let carries = |pid: &String| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes())
    };
    let names = std::fs::read_dir("/proc").unwrap();
    let pids = names.map(|name| name.unwrap().file_name().to_string_lossy().into_owned());
    pids.filter(|name| name.bytes().all(|b| b.is_ascii_digit())).filter(carries).collect()
}

fn interfaces() -> String {
    let table = std::fs::read_to_string("/proc/net/dev").unwrap();
    table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned() + " ")).collect()
}

/// A running victim that has started its network, and its temporary directory.
fn running_victim(mark: &str) -> (Child, PathBuf) {
    let mut victim = start("victim").env(MARK, mark).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let directory = PathBuf::from(&first);
    if !directory.is_dir() {
        println!("{first}");
        std::process::exit(victim.wait().unwrap().code().unwrap_or(1));
    }
    // While a process executes a program, it has no environment for a moment, although its parent continues.
    until("outer, init, main and three sleepers run", || marked(mark).len() >= 6);
    (victim, directory)
}

/// Sends the signal to the victim alone and waits until all its processes have ended. Returns its exit code, and the
/// directory of its temporary files.
fn end_with(signal: &str, mark: &str) -> (Option<i32>, PathBuf) {
    let before = interfaces();
    let (mut victim, directory) = running_victim(mark);
    let sent = Command::new("kill").args([signal, &victim.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let status = victim.wait().unwrap();
    until("the kernel has removed the namespace's processes", || marked(mark).is_empty());
    assert_eq!(interfaces(), before);
    let files = directory.parent().unwrap().to_owned();
    assert!(files.file_name().unwrap().to_string_lossy().starts_with("tributary-"), "{}", files.display());
    (status.code(), files)
}

pub fn kill_nine_of_the_parent_leaves_no_process() {
    let (code, files) = end_with("-KILL", &format!("kill-{}", std::process::id()));
    assert_eq!(code, None);
    // No process was left to remove them.
    std::fs::remove_dir_all(files).unwrap();
}

pub fn an_interrupted_emulation_leaves_nothing() {
    for (signal, expected) in [("-INT", 130), ("-TERM", 143)] {
        let (code, files) = end_with(signal, &format!("{signal}{}", std::process::id()));
        assert_eq!(code, Some(expected));
        assert!(!files.exists(), "{} is left", files.display());
    }
}

pub fn exit_codes_are_passed_on() {
    let code = start("victim_exits").status().unwrap().code();
    if code == Some(crate::support::SKIPPED) {
        std::process::exit(crate::support::SKIPPED);
    }
    assert_eq!(code, Some(23));
}

pub fn isolation_refuses_a_second_thread() {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || wait.recv());
    assert!(matches!(isolate(), Err(IsolateError::Threads { threads: 2 })));
    drop(done);
    let _ = other.join();
}
