//! Messages with deadlines beside a bulk stream: urgent messages go first, late messages are dropped as a whole.
//!
//! Run it: `cargo run -p tributary-net --example deadlines`

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};
use tributary_net::{Acceptor, Connection, Key, Sent};

/// Bytes of a message.
const LENGTH: usize = 1000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A scheduler with `avira+` in front sends the streams of the highest priority first.
    let (transport, key) = ("session/avira+fbdt", Key::generate()?);
    let mut acceptor =
        Acceptor::server(transport).key(key.clone()).listen("127.0.0.1:0".parse()?).bind().await?;
    let server = acceptor.addresses()[0];
    let receiving = tokio::spawn(async move {
        let (connection, _) = acceptor.accept().await?;
        let mut bulk = connection.accept_stream().await.ok()?;
        tokio::spawn(async move { copy(&mut bulk, &mut sink()).await });
        let mut urgent = connection.accept_stream().await.ok()?;
        let mut all = Vec::new();
        urgent.read_to_end(&mut all).await.ok()?;
        urgent.shutdown().await.ok()?;
        Some(all.len() / LENGTH)
    });

    let connection = Connection::client(transport)
        .key(key)
        .path(format!("127.0.0.2={server}").parse()?)
        .path(format!("127.0.0.3={server}").parse()?)
        .connect()
        .await?;
    let mut bulk = connection.open_stream(0).await?;
    bulk.write_all(&vec![0; 1 << 20]).await?;
    let mut urgent = connection.open_stream(7).await?;
    let mut taken = 0;
    for _ in 0..100 {
        let message = Bytes::from(vec![1; LENGTH]);
        if urgent.send.write_message(message, Some(Duration::from_millis(50))).await? == Sent::Taken {
            taken += 1;
        }
    }
    // A message whose deadline has passed is never sent.
    let late = urgent.send.write_message(Bytes::from_static(&[1; LENGTH]), Some(Duration::ZERO)).await?;
    assert_eq!(late, Sent::Expired);
    urgent.shutdown().await?;
    bulk.shutdown().await?;
    let arrived = receiving.await?.ok_or("the server ended early")?;
    assert!(arrived <= taken, "more messages arrived than were accepted");
    println!("{taken} messages accepted, {arrived} arrived before their deadlines");
    connection.close().await;
    Ok(())
}
