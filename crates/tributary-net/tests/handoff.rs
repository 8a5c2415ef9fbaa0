//! Interfaces that come, go, are renamed and flap under a session, in real network namespaces.
//!
//! The client's namespace is joined to the server's by two veth pairs. Each test changes the client's interfaces
//! with `ip` and waits until the session's paths and data have followed. How long that takes is measured by
//! `tributary-lab bench handoff`, not here.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use tributary_net::{
    Common, ConnectConfig, Key, ListenConfig, Listener, PathState, PathStatus, Session, Stream, connect,
};
use tributary_testing::{HANG, becomes, in_time, not_run};

/// Tells a child process its role in a test. Not set in the test itself.
const ROLE: &str = "TRIBUTARY_HANDOFF";
/// The server's own address, which is reachable through both veth pairs.
const SERVER: &str = "10.9.0.1";
const ENOUGH: usize = 2 << 20;

/// Runs the test's client in a new namespace, with the server in another.
fn play(test: &str, story: impl AsyncFnOnce(String)) {
    match std::env::var(ROLE).as_deref() {
        Ok("client") => client(test, story),
        Ok(_) => server(),
        Err(_) => {
            if let Err(reason) = may_make_namespaces() {
                not_run(&format!("no network namespace (needs root): {reason}"));
                return;
            }
            let played = again(test, "client").status().expect("this program runs again");
            assert!(played.success(), "the client failed; its output is above");
        }
    }
}

fn may_make_namespaces() -> Result<(), String> {
    let output = Command::new("unshare").args(["-n", "true"]).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Runs this test again in a new network namespace, which ends with the process.
fn again(test: &str, role: &str) -> Command {
    let mut command = Command::new("unshare");
    command.arg("-n").arg(std::env::current_exe().expect("this program has a file"));
    command.args(["--exact", test, "--nocapture", "--test-threads", "1"]).env(ROLE, role);
    command
}

fn ip(line: &str) {
    let output = Command::new("ip").args(line.split(' ')).output().expect("ip (Debian package iproute2)");
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

fn common() -> Common {
    Common { congestion: Some("cubic".to_owned()), ..Common::new(Key::from_bytes([42; 32])) }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(in_time(work))
}

/// The server's process, killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn client(test: &str, story: impl AsyncFnOnce(String)) {
    let spawned = again(test, "server").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut server = Server(spawned);
    let mut said = BufReader::new(server.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut hear =
        |word: &str| said.find_map(|line| line.split_once(word).map(|(_, rest)| rest.trim().to_owned()));
    hear("server is there").expect("the server starts");
    // The route of the second veth pair is only in a table that a rule selects, so a socket must be bound to its
    // address.
    let _ = std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "0");
    for (near, far) in [("near1", "far1"), ("near2", "far2")] {
        ip(&format!("link add {near} type veth peer name {far}"));
        ip(&format!("link set {far} netns {}", server.0.id()));
    }
    writeln!(server.0.stdin.take().unwrap(), "go").unwrap();
    let port = hear("listening on ").expect("the server listens");
    ip("address add 10.9.1.2/24 dev near1");
    ip("link set near1 up");
    ip("route add default via 10.9.1.1 dev near1");
    run(story(format!("{SERVER}:{port}")));
}

/// Configures the second interface with this name.
fn second_way(name: &str) {
    ip(&format!("link set {name} up"));
    ip(&format!("address replace 10.9.2.2/24 dev {name}"));
    ip(&format!("route replace default via 10.9.2.1 dev {name} table 102"));
}

/// Sends on every stream until the peer stops reading.
fn server() {
    println!("server is there");
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    ip("link set lo up");
    ip(&format!("address add {SERVER}/32 dev lo"));
    for way in [1, 2] {
        ip(&format!("address add 10.9.{way}.1/24 dev far{way}"));
        ip(&format!("link set far{way} up"));
    }
    run(async {
        let addresses = vec![format!("{SERVER}:0").parse().unwrap()];
        let config = ListenConfig::new(addresses, common());
        let mut listener = Listener::bind(config).await.unwrap();
        println!("listening on {}", listener.addresses()[0].port());
        while let Some((session, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut stream = session.accept_stream().await.ok()?;
                let piece = Bytes::from(vec![7; 32 << 10]);
                while stream.write_chunk(piece.clone()).await.is_ok() {
                    // real time: a rate of 160 Mbit/s, far below the capacity of the veth pair.
                    tokio::time::sleep(Duration::from_micros(1600)).await;
                }
                Some(())
            });
        }
    });
}

async fn session(common: Common, server: &str, paths: &[&str]) -> (Session, Stream) {
    let paths = paths.iter().map(|path| format!("{path}={server}").parse().unwrap()).collect();
    let config = ConnectConfig { paths, common, timeout: HANG };
    let session = connect(config).await.unwrap();
    let stream = session.open_stream(0).await.unwrap();
    stream.announce();
    (session, stream)
}

/// Paths of the session. A removed one stays listed, but is none any more.
fn present(session: &Session) -> impl Iterator<Item = PathStatus> {
    session.stats().paths.into_iter().filter(|path| path.state != PathState::Removed)
}

fn status(session: &Session, name: &str) -> Option<PathStatus> {
    present(session).find(|path| path.name.starts_with(name))
}

/// Waits until `so` is true.
async fn until(session: &Session, what: &str, so: impl Fn(&Session) -> bool) {
    becomes(what, || so(session)).await;
}

async fn read(stream: &mut Stream, bytes: usize) {
    let mut got = 0;
    while got < bytes {
        got += stream.read_chunk().await.unwrap().expect("the server never stops sending").len();
    }
}

/// Reads until this path has carried data.
async fn carries(session: &Session, stream: &mut Stream, name: &str) {
    let before = status(session, name).map_or(0, |path| path.received);
    while status(session, name).is_none_or(|path| path.received <= before) {
        read(stream, 1).await;
    }
}

fn is_up(session: &Session, name: &str) -> bool {
    status(session, name).is_some_and(|path| path.state == PathState::Up)
}

#[test]
fn a_session_follows_interfaces_and_keeps_sending() {
    play("a_session_follows_interfaces_and_keeps_sending", async |server: String| {
        ip("rule add from 10.9.2.2 lookup 102");
        let (session, mut stream) = session(common(), &server, &["auto"]).await;
        read(&mut stream, ENOUGH).await;
        assert_eq!(session.stats().paths.len(), 1);
        second_way("near2");
        until(&session, "the second interface is a path", |s| is_up(s, "near2=")).await;
        carries(&session, &mut stream, "near2=").await;
        ip("link set near1 down");
        until(&session, "the first interface is no longer a path", |s| status(s, "near1=").is_none()).await;
        carries(&session, &mut stream, "near2=").await;
        // The interface is renamed: for a moment there is no path at all.
        ip("link set near2 down");
        ip("link set near2 name usb7");
        until(&session, "no path is left", |s| present(s).next().is_none()).await;
        second_way("usb7");
        until(&session, "the renamed interface is a path", |s| is_up(s, "usb7=")).await;
        carries(&session, &mut stream, "usb7=").await;
        // The interface gets another address: the connection from the old address no longer works.
        let old = status(&session, "usb7=").map(|path| path.path);
        ip("rule add from 10.9.2.3 lookup 102");
        ip("address del 10.9.2.2/24 dev usb7");
        ip("address add 10.9.2.3/24 dev usb7");
        ip("route replace default via 10.9.2.1 dev usb7 table 102");
        until(&session, "the new address is a path", |s| {
            is_up(s, "usb7=") && status(s, "usb7=").map(|path| path.path) != old
        })
        .await;
        carries(&session, &mut stream, "usb7=").await;
    });
}

#[test]
fn a_flapping_interface_leaks_nothing_and_is_used_once_it_is_stable() {
    play("a_flapping_interface_leaks_nothing_and_is_used_once_it_is_stable", async |server: String| {
        ip("rule add from 10.9.2.2 lookup 102");
        let (session, mut stream) = session(common(), &server, &["auto"]).await;
        read(&mut stream, ENOUGH).await;
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = descriptors();
        for _ in 0..40 {
            second_way("near2");
            read(&mut stream, 64 << 10).await;
            ip("link set near2 down");
        }
        until(&session, "the interface is gone", |s| status(s, "near2=").is_none()).await;
        assert!(session.stats().subflows.len() == 1 && is_up(&session, "near1="));
        second_way("near2");
        until(&session, "the interface is used again", |s| is_up(s, "near2=")).await;
        carries(&session, &mut stream, "near2=").await;
        // Ended connections wait a moment for their peer's end.
        until(&session, "ended connections are closed", |_| descriptors() <= before + 4).await;
    });
}

#[test]
fn with_every_path_cut_a_stream_waits_and_resumes_or_ends_as_configured() {
    play("with_every_path_cut_a_stream_waits_and_resumes_or_ends_as_configured", async |server: String| {
        let (patient, mut stream) = session(common(), &server, &["near1"]).await;
        let soon = common().waiting(Duration::from_secs(3));
        let (impatient, mut cut_short) = session(soon, &server, &["auto"]).await;
        read(&mut stream, ENOUGH).await;
        read(&mut cut_short, ENOUGH).await;
        ip("link set near1 down");
        let closed = impatient.closed().await;
        assert!(!closed.by_peer && closed.reason.contains("nothing heard"), "{closed}");
        while let Ok(Some(_)) = cut_short.read_chunk().await {}
        assert!(cut_short.read_chunk().await.is_err());
        assert!(present(&patient).next().is_none() && !patient.is_closed());
        let listed: Vec<_> = patient.stats().paths;
        assert!(listed.iter().all(|path| path.cause.is_some()), "each says why: {listed:?}");
        ip("link set near1 up");
        ip("route replace default via 10.9.1.1 dev near1");
        carries(&patient, &mut stream, "near1=").await;
        read(&mut stream, ENOUGH).await;
    });
}

#[test]
fn a_metered_interface_carries_only_what_the_other_cannot() {
    play("a_metered_interface_carries_only_what_the_other_cannot", async |server: String| {
        ip("rule add from 10.9.2.2 lookup 102");
        second_way("near2");
        let (session, mut stream) = session(common(), &server, &["auto", "near2,metered"]).await;
        until(&session, "both are connected", |s| is_up(s, "near1=") && is_up(s, "near2,metered=")).await;
        // The metered path may have come up first.
        read(&mut stream, ENOUGH).await;
        let cost = |session| status(session, "near2,metered=").unwrap().received;
        let before = cost(&session);
        read(&mut stream, 4 * ENOUGH).await;
        assert_eq!(cost(&session), before, "the free path carries everything");
        ip("link set near1 down");
        carries(&session, &mut stream, "near2,metered=").await;
        read(&mut stream, ENOUGH).await;
        ip("link set near1 up");
        ip("route replace default via 10.9.1.1 dev near1");
        carries(&session, &mut stream, "near1=").await;
    });
}
