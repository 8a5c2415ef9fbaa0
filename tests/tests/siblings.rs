//! The subflows of one session are siblings for the coupled controllers; two sessions are not.
//!
//! Needs root and feature `ebpf`; where it cannot run, it prints the reason, and fails in CI. Groups are
//! counted for the whole machine, so this is the only test of its process.
#![cfg(feature = "ebpf")]

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tributary_bpf::{doctor, groups, load, unload};
use tributary_net::{
    Common, ConnectConfig, Key, ListenConfig, Listener, Local, PathConfig, Session, connect,
};

/// Whether eBPF works here; prints the reason if not, and fails in CI.
fn possible() -> bool {
    let missing: Vec<_> = doctor().into_iter().filter(|check| !check.passed).collect();
    for check in &missing {
        println!("not run: {}: {}", check.need, check.finding);
    }
    assert!(missing.is_empty() || std::env::var("CI").as_deref() != Ok("true"), "must run in CI");
    missing.is_empty()
}

/// A controller that is unloaded when dropped.
struct Loaded(String);

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
        PathConfig { local, server: server.into(), metered: false }
    };
    let config = ConnectConfig {
        paths: vec![path("127.0.0.1"), path("127.0.0.2")],
        common: common.clone(),
        timeout: Duration::from_secs(10),
    };
    let client = connect(config).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    while client.stats().subflows.len() < 2 {
        tokio::task::yield_now().await;
    }
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

/// Waits for an effect of a close in the kernel that no system call reports.
async fn soon(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !happened() {
        assert!(Instant::now() < deadline, "{what}: {} groups", groups().unwrap());
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sessions_subflows_form_one_group_at_each_end() {
    if !possible() {
        return;
    }
    let prefix = format!("s{}_", std::process::id() % 100_000);
    load(&["lia".to_owned()], &prefix).unwrap();
    let loaded = Loaded(format!("{prefix}lia"));
    let before = groups().unwrap();

    let mut common = Common::new(Key::generate().unwrap());
    common.congestion = Some(loaded.0.clone());
    common.session.scheduler = "round-robin".to_owned();
    let addresses = vec!["127.0.0.1:0".parse().unwrap()];
    let config = ListenConfig { addresses, common: common.clone(), limits: tributary_net::Limits::default() };
    let mut listener = Listener::bind(config).await.unwrap();

    let one = busy(&mut listener, &common).await;
    assert_eq!(groups().unwrap() - before, 2, "one group for the two subflows of each end");
    let other = busy(&mut listener, &common).await;
    assert_eq!(groups().unwrap() - before, 4, "another session has its own groups");
    drop((one, other, listener));
    soon("no group is left after the sessions", || groups().unwrap() == before).await;
}
