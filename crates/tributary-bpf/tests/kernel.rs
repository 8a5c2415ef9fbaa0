//! The controllers in the running kernel: loading, names, unloading in use, groups that come and go.
//!
//! Needs root and feature `ebpf`; where it cannot run, it prints the reason, and fails in CI. Names are
//! global
//! on a machine, so each test uses its own prefix and unloads its controllers even when it fails.
#![cfg(feature = "ebpf")]

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tributary_bpf::{CONTROLLERS, CcError, doctor, groups, list, load, unload};
use tributary_testing::{not_run, until};

/// Set in a child process that a test starts from this program.
const CHILD: &str = "TRIBUTARY_BPF_TEST_CHILD";

/// Whether eBPF works here; prints the reason if not, and fails in CI.
fn possible() -> bool {
    let missing: Vec<_> = doctor().into_iter().filter(|check| !check.passed).collect();
    for check in &missing {
        not_run(&format!("{}: {}", check.need, check.finding));
    }
    missing.is_empty()
}

/// Controllers under a unique prefix, unloaded when dropped.
struct Loaded(String);

impl Loaded {
    fn new(letter: char, controllers: &[&str]) -> Self {
        let prefix = format!("{letter}{}_", std::process::id() % 100_000);
        let controllers: Vec<String> = controllers.iter().map(ToString::to_string).collect();
        let loaded = Self(prefix);
        load(&controllers, &loaded.0).unwrap();
        loaded
    }

    fn name(&self, controller: &str) -> String {
        format!("{}{controller}", self.0)
    }

    fn ours(&self) -> Vec<tributary_bpf::Loaded> {
        list().unwrap().into_iter().filter(|one| one.name.starts_with(&self.0)).collect()
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        for one in self.ours().iter().filter(|one| one.selectable) {
            let _ = unload(&one.name);
        }
    }
}

fn socket(congestion: &str, mark: u32) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_mark(mark).unwrap();
    socket.set_tcp_congestion(congestion.as_bytes()).unwrap();
    socket
}

fn listener(congestion: &str, mark: u32) -> (Socket, SocketAddr) {
    let listener = socket(congestion, mark);
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(128).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    (listener, address)
}

#[test]
fn every_controller_carries_data_and_is_listed_until_unloaded() {
    if !possible() {
        return;
    }
    let loaded = Loaded::new('a', &[]);
    assert_eq!(loaded.ours().len(), CONTROLLERS.len());
    for controller in CONTROLLERS {
        let name = loaded.name(controller);
        let (listener, address) = listener(&name, 0);
        let mut client = socket(&name, 0);
        client.connect(&address.into()).unwrap();
        assert_eq!(client.tcp_congestion().unwrap().split(|b| *b == 0).next().unwrap(), name.as_bytes());
        let (mut server, _) = listener.accept().unwrap();
        let sender = std::thread::spawn(move || client.write_all(&vec![7; 4 << 20]));
        let mut received = Vec::new();
        server.read_to_end(&mut received).unwrap();
        sender.join().unwrap().unwrap();
        assert_eq!(received.len(), 4 << 20, "{controller}");
    }
    for one in loaded.ours() {
        assert!(!unload(&one.name).unwrap().selectable);
    }
    until("all are gone after the last socket", || loaded.ours().is_empty());
}

#[test]
fn names_that_are_unknown_or_taken_are_refused() {
    if !possible() {
        return;
    }
    let loaded = Loaded::new('b', &["lia"]);
    let again = load(&["lia".to_owned()], &loaded.0).unwrap_err();
    assert!(matches!(&again, CcError::Loaded(name) if *name == loaded.name("lia")), "{again}");
    let absent = unload("cubic").unwrap_err().to_string();
    assert!(absent.contains("`cubic` is not loaded") && absent.contains(&loaded.name("lia")), "{absent}");
    assert_eq!(loaded.ours().len(), 1, "a refused load changes nothing");
}

#[test]
fn unloading_in_use_leaves_the_sockets_their_controller() {
    if !possible() {
        return;
    }
    let loaded = Loaded::new('c', &["olia"]);
    let name = loaded.name("olia");
    let before = loaded.ours()[0].sockets;
    let (listener, address) = listener(&name, 0);
    let mut client = socket(&name, 0);
    client.connect(&address.into()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    assert!(loaded.ours()[0].sockets > before, "sockets in use are counted");
    unload(&name).unwrap();
    assert!(matches!(unload(&name), Err(CcError::NotLoaded(..))), "not twice");
    let late = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    assert!(late.set_tcp_congestion(name.as_bytes()).is_err(), "nobody can choose it any more");
    client.write_all(b"still here").unwrap();
    let mut text = [0; 10];
    server.read_exact(&mut text).unwrap();
    assert!(loaded.ours().iter().all(|one| !one.selectable));
    drop((client, server, listener));
    until("it goes with its last socket", || loaded.ours().is_empty());
}

/// Four threads open and close connections, two of them with each of two marks, so that the last member of a
/// group often leaves while another one joins. Each thread holds at most one connection.
#[test]
fn ten_thousand_connections_leave_no_group_behind() {
    if !possible() {
        return;
    }
    let loaded = Loaded::new('d', &["lia"]);
    let name = loaded.name("lia");
    let others = groups().unwrap();
    let mut most = 0;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4_u32)
            .map(|worker| {
                let name = &name;
                scope.spawn(move || {
                    (0..2500).for_each(|round| exchange(name, 7 + worker % 2, (worker + round) % 2 == 0));
                })
            })
            .collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            most = most.max(groups().unwrap());
        }
    });
    assert!(most > others, "the sockets did form a group");
    until("no group is left", || groups().unwrap() == others);
    unload(&name).unwrap();
    until("the controller is gone", || loaded.ours().is_empty());
}

/// One connection with data in both directions; `reset` closes it without TIME-WAIT.
fn exchange(name: &str, mark: u32, reset: bool) {
    let (listener, address) = listener(name, mark);
    let mut client = socket(name, mark);
    client.connect(&address.into()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut buffer = [0; 2000];
    for _ in 0..2 {
        client.write_all(&buffer).unwrap();
        server.read_exact(&mut buffer).unwrap();
        server.write_all(&buffer).unwrap();
        client.read_exact(&mut buffer).unwrap();
    }
    if reset {
        client.set_linger(Some(Duration::ZERO)).unwrap();
    }
}

/// This program as a child process, see `CHILD`.
fn child(test: &str, role: &str, wrapper: &[&str]) -> Command {
    let own = std::env::current_exe().unwrap();
    let mut words: Vec<std::ffi::OsString> = wrapper.iter().map(Into::into).collect();
    words.push(own.into());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args([test, "--exact", "--nocapture"]).env(CHILD, role);
    command
}

#[test]
fn inside_a_user_namespace_loading_says_what_is_missing() {
    let test = "inside_a_user_namespace_loading_says_what_is_missing";
    if std::env::var(CHILD).is_ok() {
        assert!(matches!(load(&[], "x_"), Err(CcError::Permission)));
        println!("refused");
        return;
    }
    if !possible() {
        return;
    }
    let output = child(test, "namespace", &["unshare", "--user", "--map-root-user"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("refused"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_killed_loader_leaves_controllers_that_can_be_unloaded() {
    let test = "a_killed_loader_leaves_controllers_that_can_be_unloaded";
    if let Ok(prefix) = std::env::var(CHILD) {
        load(&["balia".to_owned()], &prefix).unwrap();
        println!("loaded");
        std::thread::park();
    }
    if !possible() {
        return;
    }
    let loaded = Loaded(format!("e{}_", std::process::id() % 100_000));
    let mut loader = child(test, &loaded.0, &["env"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = String::new();
    let mut byte = [0];
    while !output.contains("loaded") {
        assert_eq!(loader.stdout.as_mut().unwrap().read(&mut byte).unwrap(), 1, "the loader ended: {output}");
        output.push(byte[0] as char);
    }
    loader.kill().unwrap();
    assert_eq!(loader.wait().unwrap().signal(), Some(9));
    assert_eq!(loaded.ours().len(), 1, "it stays without its loader");
    unload(&loaded.name("balia")).unwrap();
    until("it is gone", || loaded.ours().is_empty());
}
