//! Sends data over each transport and prints the transport's statistics of its paths.
//!
//! Run it: `cargo run -p tributary-net --example live_statistics`

use std::time::Duration;

use tokio::io::{AsyncWriteExt, copy, sink};
use tributary_net::{Acceptor, Connection, Key};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let key = Key::generate()?;
    for name in ["tcp", "session", "quic", "mpquic"] {
        let mut acceptor =
            Acceptor::server(name).key(key.clone()).listen("127.0.0.1:0".parse()?).bind().await?;
        let server = acceptor.addresses()[0];
        tokio::spawn(async move {
            let (connection, _) = acceptor.accept().await?;
            let mut stream = connection.accept_stream().await.ok()?;
            copy(&mut stream, &mut sink()).await.ok()
        });

        let mut client =
            Connection::client(name).key(key.clone()).path(format!("127.0.0.2={server}").parse()?);
        if matches!(name, "session" | "mpquic") {
            client = client.path(format!("127.0.0.3={server}").parse()?);
        }
        let connection = client.connect().await?;
        let mut stream = connection.open_stream(0).await?;
        let mut interval = tokio::time::interval(Duration::from_millis(100));
        for _ in 0..3 {
            stream.write_all(&vec![0; 1 << 20]).await?;
            interval.tick().await;
            for path in connection.stats().paths {
                let milliseconds = path.rtt.as_secs_f64() * 1e3;
                println!("{name:8} {:32} {milliseconds:6.2} ms {:9} bytes", path.name, path.delivered);
            }
        }
        assert!(!connection.stats().paths.is_empty());
        connection.close().await;
    }
    Ok(())
}
