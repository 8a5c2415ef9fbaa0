//! A multipath stream in ten lines: an echo server, and a client with two paths.
//!
//! Run it: `cargo run -p tributary-net --example echo`

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};
use tributary_net::{Acceptor, Connection, Key};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let key = Key::generate()?;
    let mut acceptor =
        Acceptor::server("session").key(key.clone()).listen("127.0.0.1:0".parse()?).bind().await?;
    let server = acceptor.addresses()[0];
    tokio::spawn(async move {
        while let Some((connection, _)) = acceptor.accept().await {
            while let Ok(stream) = connection.accept_stream().await {
                let (mut recv, mut send) = split(stream);
                if copy(&mut recv, &mut send).await.is_ok() {
                    // The client may have closed the stream already.
                    let _ = send.shutdown().await;
                }
            }
        }
    });

    let connection = Connection::client("session")
        .key(key)
        .path(format!("127.0.0.2={server}").parse()?)
        .path(format!("127.0.0.3={server}").parse()?)
        .connect()
        .await?;
    let mut stream = connection.open_stream(0).await?;
    stream.write_all(b"over all radios at once").await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    assert_eq!(answer, "over all radios at once");
    println!("{answer}");
    connection.close().await;
    Ok(())
}
