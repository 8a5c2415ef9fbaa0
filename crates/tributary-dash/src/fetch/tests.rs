//! Counting a response over a session.

use std::time::Duration;

use tributary_net::{Common, Key};
use tributary_testing::becomes;

use super::*;
use crate::server::{Limits, Server, ServerConfig};

#[tokio::test]
async fn bytes_of_a_body_count_before_they_are_read() {
    const LENGTH: u64 = 300_000;
    let mut config = tributary_net::transport::TransportConfig::new("fbdt".parse().unwrap());
    config.common = Some(Common::new(Key::from_bytes([1; 32])));
    let directory = tempfile::tempdir().unwrap();
    for name in ["first", "second"] {
        std::fs::write(directory.path().join(name), vec![7; LENGTH as usize]).unwrap();
    }
    let listen = vec![(config.clone(), vec!["127.0.0.1:0".parse().unwrap()])];
    let serving = ServerConfig { directory: directory.path().to_owned(), listen, limits: Limits::default() };
    let server = Server::bind(serving).await.unwrap();
    let address = server.addresses()[0][0];
    tokio::spawn(server.run_until(std::future::pending(), Duration::ZERO));
    let paths = [tributary_net::PathConfig::parse(&format!("any={address}"), None).unwrap()];
    let connection = HttpConnection::connect(&config, &paths).await.unwrap();
    let mut line = Line::new(connection, &address.to_string());
    // The second response follows the first one on the same stream.
    for name in ["first", "second"] {
        let response = line.get(&format!("http://{address}/{name}"), &HeaderMap::new()).await.unwrap();
        let counter = line.body_arrivals().unwrap();
        becomes("everything has arrived unread", || counter.bytes() >= LENGTH).await;
        assert_eq!(counter.bytes(), LENGTH, "{name}");
        let mut body = response.into_body();
        let mut read = 0;
        while let Some(piece) = body.next().await {
            read += piece.unwrap().len() as u64;
            assert_eq!(counter.bytes(), LENGTH, "{name}, after {read} bytes");
        }
        assert_eq!(read, LENGTH);
    }
}
