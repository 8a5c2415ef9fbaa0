//! Copies a file over two local addresses and compares the copy with the original.
//!
//! Run it: `cargo run -p tributary-net --example file_copy -- FILE COPY` (without arguments: itself to a
//! temporary file)

use std::path::PathBuf;

use tokio::io::{AsyncWriteExt, copy};
use tributary_net::{Acceptor, Connection, Key};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let from = arguments.next().unwrap_or(std::env::current_exe()?);
    let temporary = std::env::temp_dir().join(format!("tributary-file-copy-{}", std::process::id()));
    let to = arguments.next().unwrap_or_else(|| temporary.clone());

    let key = Key::generate()?;
    let mut acceptor =
        Acceptor::server("session").key(key.clone()).listen("127.0.0.1:0".parse()?).bind().await?;
    let server = acceptor.addresses()[0];
    let writing = to.clone();
    let receiving = tokio::spawn(async move {
        let (connection, _) = acceptor.accept().await.ok_or("the listener ended")?;
        let mut stream = connection.accept_stream().await?;
        let mut file = tokio::fs::File::create(writing).await?;
        let bytes = copy(&mut stream, &mut file).await?;
        file.flush().await?;
        // The answer tells the client that everything is on disk.
        stream.shutdown().await?;
        Ok::<u64, Box<dyn std::error::Error + Send + Sync>>(bytes)
    });

    let connection = Connection::client("session")
        .key(key)
        .path(format!("127.0.0.2={server}").parse()?)
        .path(format!("127.0.0.3={server}").parse()?)
        .connect()
        .await?;
    let mut stream = connection.open_stream(0).await?;
    copy(&mut tokio::fs::File::open(&from).await?, &mut stream).await?;
    stream.shutdown().await?;
    let bytes = receiving.await?.map_err(|error| error.to_string())?;
    connection.close().await;
    let same = std::fs::read(&from)? == std::fs::read(&to)?;
    if to == temporary {
        std::fs::remove_file(&temporary)?;
    }
    assert!(same, "the copy differs");
    println!("{bytes} bytes copied from {}", from.display());
    Ok(())
}
