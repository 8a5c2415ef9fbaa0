//! Applications that choose their destination by SOCKS5 or HTTP CONNECT, and what a server allows.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tributary_net::ListenConfig;
use tributary_net::proxy::{AllowRule, Entrance, ForwardConfig, Forwarder, ServeConfig, Server, Watch};

use crate::common::{becomes, client, echo, in_time, paths, settings};

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
