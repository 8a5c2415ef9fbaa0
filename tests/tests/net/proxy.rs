//! The proxy: half-close, many connections at once, reconnection, resets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tributary_net::proxy::{EventLogConfig, EventLogForm, ForwardConfig, Forwarder, ServeConfig, Server};
use tributary_net::{ListenConfig, PathConfig, PathState};
use tributary_testing::HANG;

use crate::common::{becomes, client, echo, in_time, paths, settings, silent};

/// Replies with what it received, reversed, once the client has finished.
async fn reversing_service() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut all = Vec::new();
                tcp.read_to_end(&mut all).await.unwrap();
                all.reverse();
                tcp.write_all(&all).await.unwrap();
            });
        }
    });
    address
}

async fn server(forward: String, listen: &str) -> (SocketAddr, JoinHandle<()>) {
    let listen = ListenConfig::new(vec![listen.parse().unwrap()], settings(false));
    let server = Server::bind(ServeConfig::new(listen, vec![forward.parse().unwrap()])).await.unwrap();
    let address = server.addresses()[0];
    (address, tokio::spawn(server.run()))
}

async fn forwarder(server: SocketAddr) -> (SocketAddr, Forwarder) {
    let config =
        ForwardConfig::new(client(settings(false), paths(2, server)), vec!["127.0.0.1:0".parse().unwrap()]);
    let forwarder = Forwarder::bind(config).await.unwrap();
    (forwarder.addresses()[0], forwarder)
}

async fn reversed_through(address: SocketAddr, data: Vec<u8>) -> bool {
    let mut tcp = TcpStream::connect(address).await.unwrap();
    let (mut read, mut write) = tcp.split();
    let expected: Vec<u8> = data.iter().rev().copied().collect();
    let send = async {
        write.write_all(&data).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut reply = Vec::new();
    let (_, outcome) = tokio::join!(send, read.read_to_end(&mut reply));
    outcome.is_ok() && reply == expected
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_at_once_with_half_close() {
    in_time(async {
        let (server, _task) = server(reversing_service().await.to_string(), "127.0.0.1:0").await;
        let (address, forwarder) = forwarder(server).await;
        tokio::spawn(forwarder.run());
        let connections: Vec<_> = (0..100_u32)
            .map(|n| tokio::spawn(reversed_through(address, vec![n as u8; 1 + n as usize * 5_000])))
            .collect();
        for connection in connections {
            assert!(connection.await.unwrap());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_session_is_replaced() {
    in_time(async {
        let target = reversing_service().await.to_string();
        let (server, _task) = server(target, "127.0.0.1:0").await;
        let (address, forwarder) = forwarder(server).await;
        let first = forwarder.session().unwrap();
        tokio::spawn(forwarder.run());
        assert!(reversed_through(address, b"before".to_vec()).await);
        first.abort(9, "lost for the test");
        first.closed().await;
        assert!(reversed_through(address, b"after".to_vec()).await);
    })
    .await;
}

#[tokio::test]
async fn an_application_beyond_a_sessions_connections_waits_and_is_reset_at_the_end_of_its_time() {
    in_time(async {
        let mut common = settings(false);
        common.session.max_streams = 2;
        let listen = ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], common.clone());
        let targets = vec![echo().await.to_string().parse().unwrap()];
        let server = Server::bind(ServeConfig::new(listen, targets));
        let server = server.await.unwrap();
        let mut connect = client(common, paths(2, server.addresses()[0]));
        connect.timeout = Duration::from_millis(500);
        tokio::spawn(server.run());
        let forwarder = Forwarder::bind(ForwardConfig {
            wait: Some(HANG),
            ..ForwardConfig::new(connect, vec!["127.0.0.1:0".parse().unwrap()])
        });
        let forwarder = forwarder.await.unwrap();
        let address = forwarder.addresses()[0];
        tokio::spawn(forwarder.run());
        // Opens a connection of an application and returns it after its first answer.
        let answered = async || {
            let mut tcp = TcpStream::connect(address).await.unwrap();
            let sent = tcp.write_all(b"hello").await;
            sent.and(tcp.read_exact(&mut [0; 5]).await).map(|_| tcp)
        };
        let first = answered().await.unwrap();
        let _second = answered().await.unwrap();
        let left = TcpStream::connect(address).await.unwrap();
        drop(left);
        let refused = answered().await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionReset);
        // A connection that ends makes room for the next.
        let next = answered();
        drop(first);
        next.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_unreachable_target_resets_the_connection_and_nothing_else() {
    in_time(async {
        let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let (server, _task) = server(unused.to_string(), "127.0.0.1:0").await;
        let (address, forwarder) = forwarder(server).await;
        let session = forwarder.session().unwrap();
        tokio::spawn(forwarder.run());
        let mut tcp = TcpStream::connect(address).await.unwrap();
        assert!(tcp.read_to_end(&mut Vec::new()).await.is_err());
        assert!(!session.is_closed());
    })
    .await;
}

#[tokio::test]
async fn events_are_logged_as_lines_of_json() {
    in_time(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let (server, _task) = server(reversing_service().await.to_string(), "127.0.0.1:0").await;
        let config = ForwardConfig {
            json_events: Some(EventLogConfig {
                path: path.clone(),
                decisions: false,
                form: EventLogForm::Lines,
            }),
            ..ForwardConfig::new(
                client(settings(false), paths(2, server)),
                vec!["127.0.0.1:0".parse().unwrap()],
            )
        };
        let forwarder = Forwarder::bind(config).await.unwrap();
        let address = forwarder.addresses()[0];
        tokio::spawn(forwarder.run());
        assert!(reversed_through(address, vec![1; 100_000]).await);
        let (mut events, mut radios) = (Vec::new(), Vec::new());
        becomes("two radios are up", || {
            let text = std::fs::read_to_string(&path).unwrap();
            events = text.lines().map_while(|line| serde_json::from_str::<Value>(line).ok()).collect();
            let ups = events.iter().filter(|event| event["event"] == "path" && event["state"] == "up");
            radios = ups.filter_map(|event| Some(event["radio"].as_str()?.to_owned())).collect();
            radios.len() >= 2
        })
        .await;
        assert!(radios.iter().any(|radio| radio.starts_with("127.0.0.3=")), "{radios:?}");
        let session = events.last().unwrap()["session"].as_str().unwrap();
        assert_eq!(session.len(), 8);
        assert!(events.iter().all(|event| event["wall"].as_str().unwrap().ends_with('Z')));
        assert!(events.is_sorted_by_key(|event| event["t"].as_f64().unwrap().to_bits()));
        assert!(!events.iter().any(|event| event["event"] == "window_loaded"), "no decisions");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ends_log_the_events_of_a_session_from_its_first_path_to_its_end() {
    in_time(async {
        let directory = tempfile::tempdir().unwrap();
        let log = |role: &str| directory.path().join(role);
        let events_to = |role: &str| {
            Some(EventLogConfig { path: log(role), decisions: false, form: EventLogForm::Lines })
        };
        let listen = ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], settings(false));
        let server = Server::bind(ServeConfig {
            json_events: events_to("serve"),
            ..ServeConfig::new(listen, vec![reversing_service().await.to_string().parse().unwrap()])
        });
        let server = server.await.unwrap();
        let connect = client(settings(false), paths(2, server.addresses()[0]));
        let stop_server = Arc::new(Notify::new());
        let stopped = stop_server.clone();
        let serving = tokio::spawn(async move { server.run_until(stopped.notified(), Duration::ZERO).await });
        let forwarder = Forwarder::bind(ForwardConfig {
            json_events: events_to("connect"),
            ..ForwardConfig::new(connect, vec!["127.0.0.1:0".parse().unwrap()])
        });
        let forwarder = forwarder.await.unwrap();
        let address = forwarder.addresses()[0];
        let stop_client = async { assert!(reversed_through(address, vec![1; 100_000]).await) };
        forwarder.run_until(stop_client, Duration::from_secs(10)).await;
        stop_server.notify_one();
        serving.await.unwrap();
        let guide = include_str!("../../../docs/guide/status.md");
        let sessions = [("connect", "127.0.0.2="), ("serve", "127.0.0.2")].map(|(role, radio)| {
            let text = std::fs::read_to_string(log(role)).unwrap();
            let events: Vec<serde_json::Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            for event in &events {
                let name = event["event"].as_str().unwrap();
                assert!(guide.contains(&format!("| `{name}` |")), "{name} is not in the guide");
                assert!(
                    event["t"].is_f64() && event["session_t"].is_f64() && event["wall"].is_string(),
                    "{event}"
                );
            }
            let is_up = |event: &&serde_json::Value| event["event"] == "path" && event["state"] == "up";
            let up = |event: &serde_json::Value| event["radio"].as_str().unwrap().starts_with(radio);
            assert!(events.iter().filter(is_up).any(up), "{role}: {events:?}");
            let last = events.last().unwrap();
            assert_eq!((&last["event"], &last["code"]), (&"closed".into(), &0.into()), "{role}: {last}");
            last["session"].as_str().unwrap().to_owned()
        });
        assert_eq!(sessions[0], sessions[1]);
    })
    .await;
}

#[tokio::test]
async fn paths_that_cannot_work_are_shown_with_their_reasons() {
    in_time(async {
        let (server, _task) = server(reversing_service().await.to_string(), "127.0.0.1:0").await;
        let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let (_silent, silent) = silent().await;
        let bad = [
            (format!("127.0.0.7={unused}"), "nothing listens"),
            (format!("192.0.2.77={server}"), "does not have the local address"),
            ("127.0.0.8=203.0.113.7:7000".to_owned(), "cannot reach"),
            (format!("127.0.0.9={silent}"), "no answer"),
        ];
        let mut paths = paths(1, server);
        paths.extend(bad.iter().map(|(path, _)| path.parse::<PathConfig>().unwrap()));
        let config = ForwardConfig {
            wait: Some(HANG),
            ..ForwardConfig::new(client(settings(false), paths), vec!["127.0.0.1:0".parse().unwrap()])
        };
        let forwarder = Forwarder::bind(config).await.unwrap();
        let watch = forwarder.watch();
        tokio::spawn(forwarder.run());
        let mut snapshot = watch.snapshot();
        becomes("every bad path is down", || {
            snapshot = watch.snapshot();
            let paths = &snapshot.sessions[0].paths;
            assert_eq!((paths.len(), paths[0].state), (1 + bad.len(), PathState::Up));
            paths[1..].iter().all(|path| path.state == PathState::Down)
        })
        .await;
        let (session, paths) = (&snapshot.sessions[0], &snapshot.sessions[0].paths);
        for (path, (radio, reason)) in paths[1..].iter().zip(&bad) {
            assert_eq!(path.radio, *radio);
            assert!(path.cause.as_ref().unwrap().contains(reason), "{path:?}");
        }
        // A path without an answer is down after 0.7 s, not only when the attempt is abandoned after 3 s.
        let down_at = session.age_s - paths[bad.len()].since_s;
        assert!(down_at < 2.5, "{down_at} s");
    })
    .await;
}

#[tokio::test]
async fn errors_name_their_subject() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let listen = |common| ListenConfig::new(vec![address], common);
    let serve = |forward: &str| ServeConfig::new(listen(settings(false)), vec![forward.parse().unwrap()]);
    let error = Server::bind(serve("127.0.0.1:80")).await.unwrap_err().to_string();
    assert!(error.contains(&address.to_string()) && error.contains("in use"), "{error}");
    let config = ForwardConfig::new(
        client(settings(false), paths(1, address)),
        vec![address.to_string().parse().unwrap()],
    );
    let error = Forwarder::bind(config).await.unwrap_err().to_string();
    assert!(error.contains(&address.to_string()), "{error}");
}
