//! A server with several targets: the client's local address selects the target.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tributary_net::ListenConfig;
use tributary_net::proxy::{ForwardConfig, Forwarder, PriorityRule, ServeConfig, Server};

use crate::common::{client, in_time, paths, settings};

/// A service that sends its name to each connection.
async fn service(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tcp.write_all(name.as_bytes()).await.unwrap();
        }
    });
    address
}

fn config(targets: &[String], rules: &[&str]) -> ServeConfig {
    ServeConfig {
        priorities: rules.iter().map(|rule| rule.parse::<PriorityRule>().unwrap()).collect(),
        ..ServeConfig::new(
            ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], settings(false)),
            targets.iter().map(|target| target.parse().unwrap()).collect(),
        )
    }
}

/// What the service behind each of the client's local addresses sends; `None` after a reset.
async fn said(targets: &[String], listen: &[&str]) -> Vec<Option<String>> {
    let server = Server::bind(config(targets, &[])).await.unwrap();
    let connect = client(settings(false), paths(1, server.addresses()[0]));
    tokio::spawn(server.run());
    let listen = listen.iter().map(|listen| listen.parse().unwrap()).collect();
    let config = ForwardConfig::new(connect, listen);
    let forwarder = Forwarder::bind(config).await.unwrap();
    let addresses = forwarder.addresses();
    tokio::spawn(forwarder.run());
    let mut said = Vec::new();
    for address in addresses {
        let mut text = String::new();
        let outcome = TcpStream::connect(address).await.unwrap().read_to_string(&mut text).await;
        said.push(outcome.ok().map(|_| text));
    }
    said
}

#[tokio::test]
async fn the_local_address_chooses_the_target() {
    in_time(async {
        let targets = [
            service("plain").await.to_string(),
            format!("web={}", service("web").await),
            format!("video={}", service("video").await),
        ];
        let listen = ["127.0.0.1:0=video", "127.0.0.1:0", "127.0.0.1:0=web", "127.0.0.1:0=mail"];
        let expected = [Some("video"), Some("plain"), Some("web"), None];
        assert_eq!(said(&targets, &listen).await, expected.map(|name| name.map(str::to_owned)));
    })
    .await;
}

#[tokio::test]
async fn the_only_target_needs_no_name_and_several_named_ones_do() {
    in_time(async {
        let only = [format!("web={}", service("web").await)];
        assert_eq!(said(&only, &["127.0.0.1:0"]).await, [Some("web".to_owned())]);
        let two = ["a=127.0.0.1:1".to_owned(), "b=127.0.0.1:1".to_owned()];
        assert_eq!(said(&two, &["127.0.0.1:0"]).await, [None]);
    })
    .await;
}

#[tokio::test]
async fn targets_that_cannot_be_told_apart_and_rules_for_none_are_refused() {
    for (targets, rules, part) in [
        (&[][..], &[][..], "none was given"),
        (&["a:1", "b:1"], &[], "without a name"),
        (&["x=a:1", "x=b:1"], &[], "`x` is given twice"),
        (&["x=a:1"], &["y=3"], "no target `y`"),
        (&["x=a:1"], &["2=3"], "port 2"),
    ] {
        let targets: Vec<String> = targets.iter().map(|&target| target.to_owned()).collect();
        let error = Server::bind(config(&targets, rules)).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    Server::bind(config(&["x=a:1".to_owned(), "y=b:1".to_owned()], &["y=3"])).await.unwrap();
}
