//! Messages with a priority beside bulk, and proxy rules that derive priorities from ports and code points.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Notify;
use tributary_net::proxy::{
    EventLogConfig, EventLogForm, ForwardConfig, Forwarder, PriorityRule, PriorityRules, ServeConfig, Server,
};
use tributary_net::{Common, ListenConfig, Session, SessionEventKind, StreamError, connect};
use tributary_proto::Event;

use crate::common::{check_pattern, client, echo, in_time, listen, pair, paths, send_pattern, settings};

const MESSAGE: usize = 64;

fn first_things_first() -> Common {
    let mut common = settings(false);
    common.session.scheduler = "avira+fbdt".to_owned();
    common.session.telemetry = true;
    common
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_beside_bulk_arrive_whole_and_before_it() {
    in_time(async {
        let (session, peer, _listener) = pair(first_things_first(), 2).await;
        let (mut bulk, mut messages) =
            (session.open_stream(0).await.unwrap(), session.open_stream(7).await.unwrap());
        let count = 50;
        // The peer reads no bulk before it has all messages: the messages pass the bulk although it fills every buffer.
        let reading = tokio::spawn(async move {
            let first = peer.accept_stream().await.unwrap();
            let second = peer.accept_stream().await.unwrap();
            let (mut bulk, mut messages) =
                if first.id() < second.id() { (first, second) } else { (second, first) };
            let mut got = Vec::new();
            while got.len() < count * MESSAGE {
                got.extend_from_slice(&messages.read_chunk().await.unwrap().expect("more is written"));
            }
            (got, check_pattern(&mut bulk).await)
        });
        let bytes = 60_000_000;
        let sending = tokio::spawn(async move {
            send_pattern(&mut bulk, bytes).await;
            bulk
        });
        for number in 0..count {
            messages.write_message(Bytes::from(vec![number as u8; MESSAGE]), None).await.unwrap();
        }
        let (got, bulk) = reading.await.unwrap();
        let numbers = (0..count).flat_map(|number| [number as u8; MESSAGE]);
        assert!(got.into_iter().eq(numbers), "in order and whole");
        assert_eq!(bulk, bytes);
        sending.await.unwrap();
        session.abort(0, "done");
    })
    .await;
}

#[tokio::test]
async fn invalid_values_are_refused_with_their_bounds() {
    in_time(async {
        let (session, _peer, _listener) = pair(first_things_first(), 1).await;
        let mut messages = session.open_stream(7).await.unwrap();
        let past = messages.write_message(Bytes::from_static(b"late"), Some(Duration::ZERO)).await;
        assert_eq!(past, Err(StreamError::DeadlinePassed));
        let long = messages.write_message(Bytes::from(vec![0; (1 << 20) + 1]), None).await;
        assert_eq!(long, Err(StreamError::MessageTooLong { bytes: (1 << 20) + 1, most: 1 << 20 }));
        messages.write_message(Bytes::from_static(b"fine"), Some(Duration::from_secs(5))).await.unwrap();

        let listener = listen(settings(false)).await;
        let mut wrong = settings(false);
        wrong.session.weights.latency = 0.0;
        let error = connect(client(wrong, paths(1, listener.addresses()[0]))).await.unwrap_err().to_string();
        assert!(error.contains("from 0.001 to 1000"), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_opened_by_the_peer_is_bulk_on_this_side() {
    in_time(async {
        let (session, peer, _listener) = pair(first_things_first(), 2).await;
        let mut claimed = session.open_stream(255).await.unwrap();
        claimed.write_message(Bytes::from_static(b"me first"), None).await.unwrap();
        let mut events = peer.events();
        let mut answer = peer.accept_stream().await.unwrap();
        send_pattern(&mut answer, 300_000).await;
        assert_eq!(check_pattern(&mut claimed).await, 300_000);
        assert_eq!(prioritised(&mut events), 0);
    })
    .await;
}

fn prioritised(events: &mut tokio::sync::broadcast::Receiver<tributary_net::SessionEvent>) -> usize {
    let events = std::iter::from_fn(|| events.try_recv().ok());
    events.filter(|event| matches!(event.kind, SessionEventKind::Session(Event::Prioritised(_)))).count()
}

fn rules(of: &[String]) -> PriorityRules {
    of.iter().map(|rule| rule.parse::<PriorityRule>().unwrap()).collect()
}

async fn proxy(listen: Vec<SocketAddr>, priorities: PriorityRules) -> (Vec<SocketAddr>, Session) {
    let server = server(settings(false), PriorityRules::default(), None).await;
    let connect = client(first_things_first(), paths(2, server.addresses()[0]));
    tokio::spawn(server.run());
    let listen = listen.into_iter().map(|address| format!("{address}").parse().unwrap()).collect();
    let config = ForwardConfig { priorities, ..ForwardConfig::new(connect, listen) };
    let forwarder = Forwarder::bind(config).await.unwrap();
    let (addresses, session) = (forwarder.addresses(), forwarder.session().unwrap());
    tokio::spawn(forwarder.run());
    (addresses, session)
}

/// A server that forwards to an echo.
async fn server(session: Common, priorities: PriorityRules, json_events: Option<EventLogConfig>) -> Server {
    let listen = ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], session);
    let target = echo().await.to_string().parse().unwrap();
    let config = ServeConfig { priorities, json_events, ..ServeConfig::new(listen, vec![target]) };
    Server::bind(config).await.unwrap()
}

/// Sends data through the proxy with this code point and waits for its return.
async fn exchange(address: SocketAddr, dscp: u32) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_tos_v4(dscp << 2).unwrap();
    let mut tcp = socket.connect(address).await.unwrap();
    tcp.write_all(&[7; 20_000]).await.unwrap();
    tcp.shutdown().await.unwrap();
    let mut got = Vec::new();
    tcp.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, [7; 20_000]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proxy_sends_connections_named_by_its_rules_first() {
    in_time(async {
        // A free port: a rule must contain it before anything listens on it.
        let named = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let listen = vec!["127.0.0.1:0".parse().unwrap(), named];
        let rules = rules(&[format!("{}=7", named.port()), "dscp:EF=5".to_owned()]);
        let (addresses, session) = proxy(listen, rules).await;
        // Bulk first: a message with a priority may be sent again after its answer has arrived.
        for (address, dscp, first) in [
            (addresses[0], 0, false),
            (addresses[0], 10, false),
            (addresses[1], 0, true),
            (addresses[0], 46, true),
        ] {
            let mut events = session.events();
            exchange(address, dscp).await;
            let decisions = prioritised(&mut events);
            assert_eq!(decisions > 0, first, "{address}, code point {dscp}: {decisions} decisions");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_sends_first_what_answers_packets_with_a_code_point() {
    in_time(async {
        for (dscp, first) in [(0, false), (10, false), (46, true)] {
            let directory = tempfile::tempdir().unwrap();
            let log = directory.path().join("events.jsonl");
            let events = EventLogConfig { path: log.clone(), decisions: true, form: EventLogForm::Lines };
            let rules = rules(&["dscp:EF=5:latency".to_owned()]);
            let server = server(first_things_first(), rules, Some(events)).await;
            let connect = client(settings(false), paths(2, server.addresses()[0]));
            let stop = Arc::new(Notify::new());
            let stopped = stop.clone();
            let serving =
                tokio::spawn(async move { server.run_until(stopped.notified(), Duration::ZERO).await });
            let listen = vec!["127.0.0.1:0".parse().unwrap()];
            let forwarder = Forwarder::bind(ForwardConfig::new(connect, listen)).await.unwrap();
            let address = forwarder.addresses()[0];
            let forwarding = tokio::spawn(forwarder.run());
            exchange(address, dscp).await;
            stop.notify_one();
            serving.await.unwrap();
            forwarding.abort();
            let told = std::fs::read_to_string(&log).unwrap();
            assert!(told.contains("\"window_loaded\""), "{told}");
            assert_eq!(told.contains("\"prioritised\""), first, "code point {dscp}: {told}");
        }
    })
    .await;
}

#[tokio::test]
async fn rules_that_could_never_fit_are_refused() {
    in_time(async {
        let target: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let serve = |rule: &str| ServeConfig {
            priorities: rules(&[rule.to_owned()]),
            ..ServeConfig::new(
                ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], settings(false)),
                vec![target.to_string().parse().unwrap()],
            )
        };
        let error = Server::bind(serve("10=7")).await.unwrap_err().to_string();
        assert!(error.contains("10") && error.contains("only to [9]"), "{error}");
        assert!(Server::bind(serve("dscp:EF=7")).await.is_ok() && Server::bind(serve("9=7")).await.is_ok());
        let config = ForwardConfig {
            priorities: rules(&["9=7".to_owned()]),
            ..ForwardConfig::new(
                client(settings(false), paths(1, target)),
                vec!["127.0.0.1:0".parse().unwrap()],
            )
        };
        let error = Forwarder::bind(config).await.unwrap_err().to_string();
        assert!(error.contains("no listen address has port 9"), "{error}");
    })
    .await;
}
