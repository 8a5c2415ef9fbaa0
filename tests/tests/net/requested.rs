//! Applications that choose their destination by SOCKS5 or HTTP CONNECT, and what a server allows.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tributary_net::clients::{Client, Clients};
use tributary_net::flow::FlowConfig;
use tributary_net::proxy::{AllowRule, Entrance, ForwardConfig, Forwarder, ServeConfig, Server, Watch};
use tributary_net::{Common, Keys, ListenConfig, PrivateKey, StreamError};

use crate::common::{becomes, client, echo, in_time, paths, settings};
use crate::udp::udp_echo;

/// A running proxy over two paths.
struct Proxy {
    address: SocketAddr,
    client: Watch,
    server: Watch,
}

async fn proxy(rules: &[String]) -> Proxy {
    let serve = ServeConfig {
        allow: rules.iter().map(|rule| rule.parse::<AllowRule>().unwrap()).collect(),
        ..ServeConfig::new(
            ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], settings(false)),
            vec!["127.0.0.1:1".parse().unwrap()],
        )
    };
    let serving = Server::bind(serve).await.unwrap();
    let config = ForwardConfig::new(
        client(settings(false), paths(2, serving.addresses()[0])),
        vec![Entrance::requested("127.0.0.1:0".parse().unwrap(), false).unwrap()],
    );
    let server = serving.watch();
    tokio::spawn(serving.run());
    let forwarder = Forwarder::bind(config).await.unwrap();
    let (address, client) = (forwarder.addresses()[0], forwarder.watch());
    tokio::spawn(forwarder.run());
    Proxy { address, client, server }
}

/// Sends a request in one piece and returns the first bytes of the answer.
async fn ask(proxy: SocketAddr, request: &[u8], answer: usize) -> (TcpStream, Vec<u8>) {
    let mut tcp = TcpStream::connect(proxy).await.unwrap();
    tcp.write_all(request).await.unwrap();
    let mut bytes = vec![0; answer];
    tcp.read_exact(&mut bytes).await.unwrap();
    (tcp, bytes)
}

fn socks(host: &str, port: u16) -> Vec<u8> {
    let greeting_and_head = [5, 1, 0, 5, 1, 0, 3, host.len() as u8];
    [&greeting_and_head[..], host.as_bytes(), &port.to_be_bytes()].concat()
}

/// A datagram for a relay: an IPv4 address or a name in front.
fn relayed(host: &str, port: u16, payload: &[u8]) -> Vec<u8> {
    let address = match host.parse::<std::net::Ipv4Addr>() {
        Ok(four) => [&[1], &four.octets()[..]].concat(),
        Err(_) => [&[3, host.len() as u8], host.as_bytes()].concat(),
    };
    [&[0, 0, 0], &address[..], &port.to_be_bytes(), payload].concat()
}

/// The code of the SOCKS5 answer.
async fn code(proxy: SocketAddr, host: &str, port: u16) -> u8 {
    ask(proxy, &socks(host, port), 12).await.1[3]
}

#[tokio::test]
async fn applications_reach_allowed_destinations_and_the_status_shows_them() {
    in_time(async {
        let echo = echo().await;
        let proxy = proxy(&[echo.to_string()]).await;
        let requests = [
            (socks("127.0.0.1", echo.port()), 12),
            (socks("localhost", echo.port()), 12),
            (format!("CONNECT {echo} HTTP/1.1\r\nHost: {echo}\r\n\r\n").into_bytes(), 39),
        ];
        for (request, length) in requests {
            let (mut tcp, answer) = ask(proxy.address, &request, length).await;
            assert!(
                answer.starts_with(&[5, 0, 5, 0]) || answer.ends_with(b"established\r\n\r\n"),
                "{answer:?}"
            );
            tcp.write_all(b"over there").await.unwrap();
            let mut text = [0; 10];
            tcp.read_exact(&mut text).await.unwrap();
            assert_eq!(&text, b"over there");
            for watch in [&proxy.client, &proxy.server] {
                let seen = watch.snapshot().destinations;
                assert_eq!(seen.len(), 1, "{seen:?}");
                assert!(
                    seen[0].destination.ends_with(&format!(":{}", echo.port())) && seen[0].connections == 1
                );
            }
            drop(tcp);
            let is_gone = || {
                proxy.client.snapshot().destinations.is_empty()
                    && proxy.server.snapshot().destinations.is_empty()
            };
            becomes("the connection is no longer shown", is_gone).await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_first_bytes_may_come_with_the_request() {
    in_time(async {
        let echo = echo().await;
        let proxy = proxy(&[echo.to_string()]).await;
        let request = [socks("127.0.0.1", echo.port()), b"early".to_vec()].concat();
        let (_tcp, answer) = ask(proxy.address, &request, 12 + 5).await;
        assert!(answer.ends_with(b"early"), "{answer:?}");
    })
    .await;
}

#[tokio::test]
async fn each_failure_has_its_code() {
    in_time(async {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let proxy = proxy(&[free.to_string(), "any".to_owned()]).await;
        let address = proxy.address;
        assert_eq!(code(address, "127.0.0.1", free.port()).await, 5, "refused by the destination");
        assert_eq!(code(address, "127.0.0.1", proxy.address.port()).await, 2, "not allowed");
        assert_eq!(code(address, "localhost", 9).await, 2, "a name that leads to the server itself");
        assert_eq!(code(address, "no-such-name.invalid", 9).await, 4, "no such name");
        let (mut tcp, _) = ask(address, b"CONNECT 127.0.0.1:9 HTTP/1.1\r\n\r\n", 12).await;
        let mut rest = String::new();
        tcp.read_to_string(&mut rest).await.expect("the refusal is no reset");
        assert!(rest.contains("--allow"), "{rest}");
    })
    .await;
}

#[tokio::test]
async fn a_server_without_rules_allows_nothing() {
    in_time(async {
        let echo = echo().await;
        let proxy = proxy(&[]).await;
        assert_eq!(code(proxy.address, "127.0.0.1", echo.port()).await, 2);
        assert_eq!(code(proxy.address, "localhost", echo.port()).await, 2);
    })
    .await;
}

#[tokio::test]
async fn an_application_with_another_protocol_is_told_so() {
    in_time(async {
        let proxy = proxy(&[]).await;
        let cases = [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "HTTP/1.1 405"),
            (b"\x04\x01\0\x50", "\0\x5b"),
            (b"\x16\x03\x01", ""),
        ];
        for (request, answer) in cases {
            let mut tcp = TcpStream::connect(proxy.address).await.unwrap();
            tcp.write_all(request).await.unwrap();
            let mut said = Vec::new();
            tcp.read_to_end(&mut said).await.unwrap();
            assert!(said.starts_with(answer.as_bytes()), "{said:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn half_requests_do_not_keep_others_out() {
    in_time(async {
        let echo = echo().await;
        let proxy = proxy(&[echo.to_string()]).await;
        // More than the places for incomplete requests: those beyond are reset, perhaps before `connect` returns.
        let mut half = Vec::new();
        let mut resets = 0;
        for _ in 0..300 {
            match TcpStream::connect(proxy.address).await {
                Ok(mut tcp) => {
                    let _ = tcp.write_all(&[5]).await;
                    half.push(tcp);
                }
                Err(_) => resets += 1,
            }
        }
        if resets == 0 {
            let mut last = half.pop().unwrap();
            assert!(last.read(&mut [0; 1]).await.is_err(), "reset");
        }
        drop(half);
        let (mut tcp, answer) = loop {
            let Ok(mut tcp) = TcpStream::connect(proxy.address).await else { continue };
            let _ = tcp.write_all(&socks("127.0.0.1", echo.port())).await;
            let mut answer = [0; 12];
            if tcp.read_exact(&mut answer).await.is_ok() {
                break (tcp, answer);
            }
        };
        assert_eq!(answer[3], 0);
        tcp.write_all(b"x").await.unwrap();
        assert_eq!(tcp.read_u8().await.unwrap(), b'x');
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_of_an_application_are_relayed_as_long_as_its_connection_lives() {
    in_time(async {
        let echo = udp_echo().await;
        let proxy = proxy(&[echo.to_string()]).await;
        let request = [5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0];
        let (tcp, answer) = ask(proxy.address, &request, 12).await;
        assert_eq!(answer[..10], [5, 0, 5, 0, 0, 1, 127, 0, 0, 1]);
        let relay = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([answer[10], answer[11]])));
        let application = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut buffer = vec![0; 1 << 16];
        // Neither another host, nor a fragment, nor half a head, nor what is not allowed is carried.
        let other = UdpSocket::bind("127.0.0.9:0").await.unwrap();
        other.send_to(&relayed("127.0.0.1", echo.port(), b"other"), relay).await.unwrap();
        let mut fragment = relayed("127.0.0.1", echo.port(), b"part");
        fragment[2] = 1;
        for dropped in [&fragment[..], b"", b"\0\0\0\x01\x7f", &relayed("10.9.8.7", 9, b"far")] {
            application.send_to(dropped, relay).await.unwrap();
        }
        for host in ["127.0.0.1", "localhost"] {
            for length in [0, 1, 1200, 9000, 65_490] {
                let sent = relayed(host, echo.port(), &vec![length as u8; length]);
                application.send_to(&sent, relay).await.unwrap();
                let (got, from) = application.recv_from(&mut buffer).await.unwrap();
                assert_eq!((&buffer[..got], from), (&sent[..], relay), "{host} {length}");
            }
        }
        let seen = proxy.server.snapshot().destinations;
        assert_eq!(seen.len(), 2, "{seen:?}");
        drop(tcp);
        becomes("its flows end", || proxy.server.snapshot().destinations.is_empty()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_of_a_client_hold_for_its_datagrams_too() {
    in_time(async {
        let (target, key) = (udp_echo().await, |seed| PrivateKey::from_seed([seed; 32]));
        let rules = |rule: &str| Some([rule.parse::<AllowRule>().unwrap()].into_iter().collect());
        let listed = [
            Client { allow: rules(&target.to_string()), ..Client::new("one", key(2).public()) },
            Client { allow: rules("any"), ..Client::new("other", key(3).public()) },
        ];
        let common = Common::new(Keys::Server { own: key(1), clients: Clients::new(listed) });
        let listen = ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], common);
        let server = Server::bind(ServeConfig::new(listen, Vec::new())).await.unwrap();
        let address = server.addresses()[0];
        tokio::spawn(server.run());
        for (seed, is_allowed) in [(2, true), (3, false)] {
            let common = Common::new(Keys::Client { own: key(seed), server: key(1).public() });
            let session = tributary_net::connect(client(common, paths(1, address))).await.unwrap();
            let flow = session.open_flow(FlowConfig::default()).await.unwrap();
            let head = [&b"\x40\x09127.0.0.1"[..], &target.port().to_be_bytes()].concat();
            flow.send_datagram(&head).unwrap();
            flow.send_datagram(b"text").unwrap();
            match flow.recv_datagram().await {
                Ok(Some(back)) => assert!(is_allowed && back.bytes == "text"),
                other => assert!(!is_allowed && other == Err(StreamError::Abandoned(7)), "{other:?}"),
            }
        }
    })
    .await;
}
