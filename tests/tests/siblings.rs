//! The subflows of one session, and those of one MPTCP connection, are siblings for the coupled controllers; two
//! sessions are not, and two connections are not.
//!
//! Needs root and feature `ebpf`; where it cannot run, it prints the reason, and fails in CI. Groups are
//! counted for the whole machine, so only one of these tests runs at a time.
#![cfg(feature = "ebpf")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tributary_bpf::{doctor, groups, load, unload};
use tributary_net::{
    Common, ConnectConfig, Key, ListenConfig, Listener, Local, PathConfig, Session, connect,
};
use tributary_testing::{becomes, not_run, until};

/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::new(());

/// Set in the child process that a test starts in a network namespace of its own.
const CHILD: &str = "TRIBUTARY_SIBLINGS_CHILD";

/// Whether eBPF works here; prints the reason if not, and fails in CI.
fn possible() -> bool {
    let missing: Vec<_> = doctor().into_iter().filter(|check| !check.passed).collect();
    for check in &missing {
        not_run(&format!("{}: {}", check.need, check.finding));
    }
    missing.is_empty()
}

/// A controller that is unloaded when dropped.
struct Loaded(String);

impl Loaded {
    /// LIA under a name that starts with this letter.
    fn lia(letter: char) -> Self {
        let prefix = format!("{letter}{}_", std::process::id() % 100_000);
        load(&["lia".to_owned()], &prefix).unwrap();
        Self(format!("{prefix}lia"))
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let _ = unload(&self.0);
    }
}

/// Sends data in both directions over a session with two subflows, which stays open.
async fn busy(listener: &mut Listener, common: &Common) -> (Session, Session) {
    let server = listener.addresses()[0];
    let path = |local: &str| {
        let local = Local::Address(local.parse().unwrap());
        PathConfig { local, server: server.into(), metered: false, cap: None }
    };
    let config = ConnectConfig {
        paths: vec![path("127.0.0.1"), path("127.0.0.2")],
        common: common.clone(),
        timeout: Duration::from_secs(10),
    };
    let client = connect(config).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    becomes("both subflows are there", || client.stats().subflows.len() >= 2).await;
    let mut stream = client.open_stream(0).await.unwrap();
    let data = vec![7; 8 << 20];
    let echo = async {
        let mut stream = accepted.accept_stream().await.unwrap();
        let mut received = vec![0; data.len()];
        stream.read_exact(&mut received).await.unwrap();
        stream.write_all(&received).await.unwrap();
        stream.shutdown().await.unwrap();
    };
    let send = async {
        stream.write_all(&data).await.unwrap();
        let mut back = vec![0; data.len()];
        stream.read_exact(&mut back).await.unwrap();
        assert_eq!(back, data);
    };
    tokio::join!(echo, send);
    (client, accepted)
}

/// An MPTCP connection over loopback whose client runs this controller, with two subflows that both carry data.
fn mptcp(controller: &str) -> (Socket, Socket) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    listener.listen(8).unwrap();
    let address = listener.local_addr().unwrap();
    let client = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
    client.set_tcp_congestion(controller.as_bytes()).unwrap();
    client.connect(&address).unwrap();
    let (server, _) = listener.accept().unwrap();
    let both_send = || {
        let sent = subflows(address.as_socket().unwrap(), controller);
        sent.len() == 2 && sent.iter().all(|bytes| *bytes > 100_000)
    };
    let mut data = vec![7; 4 << 20];
    until("both subflows carry data", || {
        let (mut client, mut server) = (&client, &server);
        std::thread::scope(|scope| {
            scope.spawn(move || client.write_all(&vec![7; 4 << 20]).unwrap());
            server.read_exact(&mut data).unwrap();
        });
        both_send()
    });
    (client, server)
}

/// Bytes sent by each subflow to this server that runs the controller.
fn subflows(server: SocketAddr, controller: &str) -> Vec<u64> {
    let port = format!("dport = :{}", server.port());
    let arguments =
        ["--no-header", "--tcp", "--info", "--numeric", "--oneline", "state", "established", &port];
    let output = Command::new("ss").args(arguments).output().expect("ss (Debian package iproute2)");
    let text = String::from_utf8(output.stdout).unwrap();
    let of_controller = text.lines().filter(|line| line.split_whitespace().any(|word| word == controller));
    let sent =
        of_controller.filter_map(|line| line.split_once("bytes_sent:")?.1.split(' ').next()?.parse().ok());
    sent.collect()
}

#[test]
fn the_subflows_of_an_mptcp_connection_form_one_group() {
    let test = "the_subflows_of_an_mptcp_connection_form_one_group";
    if let Ok(controller) = std::env::var(CHILD) {
        for line in [
            "link set lo up",
            "mptcp limits set subflows 2 add_addr_accepted 2",
            "mptcp endpoint add 127.0.0.2 dev lo subflow",
        ] {
            let status =
                Command::new("ip").args(line.split(' ')).status().expect("ip (Debian package iproute2)");
            assert!(status.success(), "ip {line}");
        }
        let before = groups().unwrap();
        let one = mptcp(&controller);
        assert_eq!(groups().unwrap() - before, 1, "one group for both subflows");
        let other = mptcp(&controller);
        assert_eq!(groups().unwrap() - before, 2, "another connection has its own group");
        drop((one, other));
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !possible() {
        return;
    }
    let loaded = Loaded::lia('m');
    let before = groups().unwrap();
    let own = std::env::current_exe().unwrap();
    let mut child = Command::new("unshare");
    child.arg("--net").arg(own).args(["--exact", test, "--nocapture"]).env(CHILD, &loaded.0);
    assert!(child.status().expect("unshare (Debian package util-linux)").success(), "its output is above");
    until("no group is left after the connections", || groups().unwrap() == before);
}

#[test]
fn a_sessions_subflows_form_one_group_at_each_end() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if possible() {
        tokio::runtime::Runtime::new().unwrap().block_on(sessions());
    }
}

async fn sessions() {
    let loaded = Loaded::lia('s');
    let before = groups().unwrap();

    let mut common = Common::new(Key::generate().unwrap());
    common.congestion = Some(loaded.0.clone());
    common.session.scheduler = "round-robin".to_owned();
    let addresses = vec!["127.0.0.1:0".parse().unwrap()];
    let config = ListenConfig::new(addresses, common.clone());
    let mut listener = Listener::bind(config).await.unwrap();

    let one = busy(&mut listener, &common).await;
    assert_eq!(groups().unwrap() - before, 2, "one group for the two subflows of each end");
    let other = busy(&mut listener, &common).await;
    assert_eq!(groups().unwrap() - before, 4, "another session has its own groups");
    drop((one, other, listener));
    becomes("no group is left after the sessions", || groups().unwrap() == before).await;
}
