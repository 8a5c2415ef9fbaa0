//! An emulation that is killed or fails leaves no process behind.

use crate::support::{isolated, network, start, two_paths};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tributary_emu::{IsolateError, Side, isolate};

/// Environment variable that identifies the processes of one emulation.
const MARK: &str = "TRIBUTARY_EMULATOR_MARK";

/// Cases that only other cases start.
pub const VICTIMS: [(&str, fn()); 2] = [("victim", victim), ("victim_exits", victim_exits)];

/// Runs a network with a child on each side, prints `ready`, and waits to be killed.
fn victim() {
    let network = network(&two_paths(47, 140));
    let sleeper = |side| network.command(side, "sleep").arg("1000").spawn().unwrap();
    let mut children = [sleeper(Side::Client), sleeper(Side::Server)];
    // An orphan: its parent exits at once, and the namespace's init adopts it.
    network.command(Side::Client, "sh").args(["-c", "sleep 1000 & exit 0"]).status().unwrap();
    println!("ready");
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

/// A running victim that has started its network.
fn running_victim(mark: &str) -> Child {
    let mut victim = start("victim").env(MARK, mark).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    if first != "ready" {
        println!("{first}");
        std::process::exit(victim.wait().unwrap().code().unwrap_or(1));
    }
    // While a process executes a program, it has no environment for a moment, although its parent continues.
    let began = Instant::now();
    while marked(mark).len() < 6 {
        assert!(began.elapsed() < Duration::from_secs(30), "outer, init, main and three sleepers");
        std::thread::yield_now();
    }
    victim
}

/// Sends the signal to the victim alone and waits until all its processes have ended.
fn end_with(signal: &str, mark: &str) -> Option<i32> {
    let before = interfaces();
    let mut victim = running_victim(mark);
    let sent = Command::new("kill").args([signal, &victim.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let status = victim.wait().unwrap();
    // The kernel removes the namespace's processes by itself; the loop ends when it has.
    while !marked(mark).is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(interfaces(), before);
    status.code()
}

pub fn kill_nine_of_the_parent_leaves_nothing() {
    assert_eq!(end_with("-KILL", &format!("kill-{}", std::process::id())), None);
}

pub fn ctrl_c_ends_everything() {
    assert_eq!(end_with("-INT", &format!("int-{}", std::process::id())), Some(130));
    assert_eq!(end_with("-TERM", &format!("term-{}", std::process::id())), Some(143));
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
