//! The only path carries nothing any more from the server to the client, between two network namespaces. The client, which
//! was receiving, notices it although it has nothing to send and no keep-alive is due, and the download goes on when the
//! path works again.
//!
//! A black-hole route at the server drops what it sends to the client. Not here: when the client asks for an answer, and
//! that the rest comes over a new connection (tests of the session in `tributary-proto`): on this short path the old one
//! may recover as soon.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use tributary_net::{Common, ConnectConfig, Key, ListenConfig, Listener, PathState, Session, connect};
use tributary_testing::{in_time, not_run};

/// Tells a child process its role in the test. Not set in the test itself.
const ROLE: &str = "TRIBUTARY_ONE_WAY";
const TEST: &str = "a_download_goes_on_after_a_failure_of_one_direction";
const DOWNLOAD: usize = 24 << 20;

#[test]
fn a_download_goes_on_after_a_failure_of_one_direction() {
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
    let mut common = Common::new(Key::from_bytes([42; 32]));
    // Only the silence of the download can be noticed within the test.
    common.session.idle_timeout = Duration::from_secs(7200);
    common.session.keep_alive = Duration::from_secs(3600);
    common
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(in_time(work))
}

fn client() {
    let mut server = again("server").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut orders = server.stdin.take().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut hear =
        |word: &str| said.find_map(|line| line.split_once(word).map(|(_, rest)| rest.trim().to_owned()));
    hear("server is there").expect("the server starts");
    ip("link add near type veth peer name far");
    ip(&format!("link set far netns {}", server.id()));
    ip("address add 10.9.0.2/24 dev near");
    ip("link set near up");
    writeln!(orders, "go").unwrap();
    let address = hear("listening on ").expect("the server listens");
    let silent = |session: &Session| session.stats().paths[0].state == PathState::Silent;
    run(async {
        let path = format!("10.9.0.2={address}").parse().unwrap();
        let config = ConnectConfig { paths: vec![path], common: common(), timeout: Duration::from_secs(10) };
        let session = connect(config).await.unwrap();
        let mut stream = session.open_stream(0).await.unwrap();
        stream.announce();
        let (mut bytes, mut failed) = (0, false);
        while let Some(chunk) = stream.read_chunk().await.unwrap() {
            bytes += chunk.len();
            if bytes > DOWNLOAD / 8 && !failed {
                failed = true;
                writeln!(orders, "drop").unwrap();
                hear("dropping").expect("the server drops");
                while !silent(&session) {
                    // What is on its way arrives; then nothing does.
                    let next = tokio::time::timeout(Duration::from_millis(10), stream.read_chunk()).await;
                    bytes += next.map_or(0, |chunk| chunk.unwrap().map_or(0, |chunk| chunk.len()));
                }
                writeln!(orders, "pass").unwrap();
            }
        }
        assert_eq!((failed, bytes), (true, DOWNLOAD));
        session.abort(0, "done");
    });
    writeln!(orders, "end").unwrap();
    assert!(server.wait().unwrap().success());
}

fn server() {
    println!("server is there");
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    ip("link set lo up");
    ip("address add 10.9.0.1/24 dev far");
    ip("link set far up");
    run(async {
        let addresses = vec!["10.9.0.1:0".parse().unwrap()];
        let config = ListenConfig::new(addresses, common());
        let mut listener = Listener::bind(config).await.unwrap();
        println!("listening on {}", listener.addresses()[0]);
        let obeying = tokio::task::spawn_blocking(move || {
            for order in std::io::stdin().lines() {
                match order.unwrap().as_str() {
                    "drop" => ip("route add blackhole 10.9.0.2/32"),
                    "pass" => ip("route del blackhole 10.9.0.2/32"),
                    _ => return,
                }
                println!("dropping");
            }
        });
        let (session, _) = listener.accept().await.unwrap();
        let mut stream = session.accept_stream().await.unwrap();
        let piece = Bytes::from(vec![7; 64 << 10]);
        for _ in 0..DOWNLOAD / piece.len() {
            stream.write_chunk(piece.clone()).await.unwrap();
            // real time: the download is slower than the order to drop its rest.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        stream.finish().unwrap();
        obeying.await.unwrap();
    });
}
