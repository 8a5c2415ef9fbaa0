//! A path MTU black hole between two network namespaces: connections are established, but long packets are dropped
//! without an ICMP message. An upload completes with small segments.
//!
//! The receiving end of a veth pair drops packets that are longer than its MTU. Its route announces the MSS of a
//! larger MTU, so the sender's kernel does not know the limit. Not here: the decision to use small segments (tests of
//! the session in `tributary-proto`).

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use tributary_net::{Common, ConnectConfig, Key, ListenConfig, Listener, connect};
use tributary_testing::{becomes, in_time, not_run};

/// Tells a child process its role in the test. Not set in the test itself.
const ROLE: &str = "TRIBUTARY_BLACK_HOLE";
const TEST: &str = "an_upload_gets_through_a_path_mtu_black_hole";
const UPLOAD: usize = 3 << 20;

#[test]
fn an_upload_gets_through_a_path_mtu_black_hole() {
    match std::env::var(ROLE).as_deref() {
        Ok("client") => client(),
        Ok(_) => server(),
        Err(_) => {
            if let Err(reason) = may_make_namespaces() {
                not_run(&format!("no network namespace (needs root): {reason}"));
                return;
            }
            let played = again("client").status().expect("this program runs again");
            assert!(played.success(), "the client failed; its output is above");
        }
    }
}

fn may_make_namespaces() -> Result<(), String> {
    let output = Command::new("unshare").args(["-n", "true"]).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Runs this test again in a new network namespace, which ends with the process.
fn again(role: &str) -> Command {
    let mut command = Command::new("unshare");
    command.arg("-n").arg(std::env::current_exe().expect("this program has a file"));
    command.args(["--exact", TEST, "--nocapture", "--test-threads", "1"]).env(ROLE, role);
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(in_time(work))
}

fn client() {
    let mut server = again("server").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut hear =
        |word: &str| said.find_map(|line| line.split_once(word).map(|(_, rest)| rest.trim().to_owned()));
    hear("server is there").expect("the server starts");
    ip("link add near type veth peer name far");
    ip(&format!("link set far netns {}", server.id()));
    ip("address add 10.9.0.2/24 dev near");
    // With segmentation offload the kernel would hand over several segments as one packet, which is not dropped.
    ip("link set near gso_max_segs 1 up");
    writeln!(server.stdin.take().unwrap(), "go").unwrap();
    let address = hear("listening on ").expect("the server listens");
    let segments = run(async {
        let path = format!("10.9.0.2={address}").parse().unwrap();
        let config = ConnectConfig { paths: vec![path], common: common(), timeout: Duration::from_secs(10) };
        let session = connect(config).await.unwrap();
        let segment = |session: &tributary_net::Session| {
            session.stats().kernel.iter().map(|report| report.tcp.snd_mss).max().unwrap_or(0)
        };
        // The kernel's counters are read when the connection next moves data.
        becomes("the kernel's counters are read", || segment(&session) > 0).await;
        let first = segment(&session);
        let mut stream = session.open_stream(0).await.unwrap();
        let piece = Bytes::from(vec![7; 64 << 10]);
        for _ in 0..UPLOAD / piece.len() {
            stream.write_chunk(piece.clone()).await.unwrap();
        }
        stream.finish().unwrap();
        // The server answers after it has read everything.
        assert_eq!(stream.read_chunk().await.unwrap().as_deref(), Some(&b"all"[..]));
        let last = segment(&session);
        session.close().await.unwrap();
        (first, last)
    });
    assert_eq!(hear("bytes read: "), Some(UPLOAD.to_string()));
    assert!(server.wait().unwrap().success());
    let (first, last) = segments;
    assert!(first > 1400, "segments of {first} bytes are not dropped by the black hole");
    assert!((1000..=1200).contains(&last), "{last}");
}

fn server() {
    println!("server is there");
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    ip("link set lo up");
    ip("address add 10.9.0.1/24 dev far");
    ip("link set far mtu 1280 up");
    ip("route replace 10.9.0.0/24 dev far src 10.9.0.1 advmss 1460");
    run(async {
        let addresses = vec!["10.9.0.1:0".parse().unwrap()];
        let config = ListenConfig::new(addresses, common());
        let mut listener = Listener::bind(config).await.unwrap();
        println!("listening on {}", listener.addresses()[0]);
        let (session, _) = listener.accept().await.unwrap();
        let mut stream = session.accept_stream().await.unwrap();
        let mut bytes = 0;
        while let Some(chunk) = stream.read_chunk().await.unwrap() {
            bytes += chunk.len();
        }
        println!("bytes read: {bytes}");
        stream.write_chunk(Bytes::from_static(b"all")).await.unwrap();
        stream.finish().unwrap();
        session.closed().await;
    });
}
