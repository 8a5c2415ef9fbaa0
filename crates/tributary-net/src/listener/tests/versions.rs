//! Peers of other versions name each other's version.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::handshake::random;

/// A ticket of this moment.
fn ticket(mode: Mode) -> [u8; crate::ticket::TICKET_LENGTH] {
    Ticket::new(SystemTime::now(), random().unwrap(), None).seal(common().keys.shared().unwrap(), mode)
}

/// A client of version 4 learns the server's version from the start of a reply, and the server logs the client's.
#[tokio::test]
async fn an_older_client_and_its_server_name_each_others_version() {
    let (log, _logging) = Log::start();
    let listener = listener(common()).await;
    let mut stream = TcpStream::connect(listener.addresses()[0]).await.unwrap();
    let secured = tls::connect_as(&mut stream, common().keys.shared().unwrap(), &ticket(Mode::Tls), None)
        .await
        .unwrap();
    let mut channel = secured.into_channel(stream, &common().keys).unwrap();
    let binding = channel.binding;
    let mut old = Auth::opening(common().keys.shared().unwrap(), &binding).seal_hello(&hello(Intent::New));
    old[4] = 4;
    channel.send(&old).await.unwrap();
    let reply: [u8; REPLY_LENGTH] = channel.receive().await.unwrap();
    assert_eq!(&reply[..8], b"TRIB\x05\0\0\0");
    log.has("the client speaks wire format 4, this program 5").await;
}

/// A client that names a later version gets the server's version without protection, and nothing else.
#[tokio::test]
async fn a_newer_client_is_told_the_servers_version() {
    let (log, _logging) = Log::start();
    let listener = listener(common()).await;
    let mut stream = TcpStream::connect(listener.addresses()[0]).await.unwrap();
    // For this program the answer says its own version, which is not an answer of TLS.
    let shaken =
        tls::connect_as(&mut stream, common().keys.shared().unwrap(), &ticket(Mode::Tls), Some(9)).await;
    assert!(matches!(shaken, Err(tls::TlsError::NotTls)));
    log.has("the client speaks wire format 9, this program 5").await;
}

/// In plaintext mode the version is in the first bytes, before and after version 5.
#[tokio::test]
async fn a_client_of_another_version_is_told_the_servers_in_plaintext_too() {
    let (log, _logging) = Log::start();
    for version in [4, 6] {
        // One each: a listener logs refusals seldom.
        let plain = listener(Common { plaintext: true, ..common() }).await;
        let mut stream = TcpStream::connect(plain.addresses()[0]).await.unwrap();
        let start = [&b"TRIB"[..], &[version, 0, 0, 0], &ticket(Mode::Plaintext)].concat();
        stream.write_all(&start).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"TRIB\x05\0\0\0");
        log.has(&format!("the client speaks wire format {version}, this program 5")).await;
    }
}

/// A server that speaks another version: `answer` is all that it does on a connection.
async fn refused_by<F: Future<Output = ()> + Send + 'static>(
    common: &Common,
    answer: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> HandshakeError {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let path = PathConfig::new(Local::Any, other.local_addr().unwrap());
    tokio::spawn(async move { answer(other.accept().await.unwrap().0).await });
    let tls = if common.plaintext { Tls::Off } else { Tls::On(tls::client_config(&common.keys).unwrap()) };
    let stream = dial(None, &path, (&Arc::new(common.clone()), None)).await.unwrap().0;
    protect(stream, &tls, common, None).await.err().expect("another version")
}

#[tokio::test]
async fn a_client_names_the_version_of_an_older_and_of_a_newer_server() {
    let (told, heard) = oneshot::channel();
    let ours = common();
    let error = refused_by(&ours, |mut stream| async move {
        let old = tls::Acceptor::of_version_4(common().keys.shared().unwrap());
        let secured = tls::accept(&mut stream, &old, |_| Ok(())).await.unwrap();
        let mut channel = secured.into_channel(stream, &common().keys).unwrap();
        let _ = told.send(channel.receive::<HELLO_LENGTH>().await.unwrap());
    });
    let error = error.await;
    assert_eq!(
        error.to_string(),
        "the server speaks wire format 4, this program 5; install the same release on both"
    );
    assert!(!error.is_fatal(), "the server may be updated");
    assert_eq!(&heard.await.unwrap()[..5], b"TRIB\x05", "the old server's log names this program's version");
    for plaintext in [true, false] {
        let ours = Common { plaintext, ..common() };
        let error = refused_by(&ours, |mut stream| async move {
            let mut first = [0; 80];
            stream.read_exact(&mut first).await.unwrap();
            stream.write_all(b"TRIB\x06\0\0\0").await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        let error = error.await;
        assert!(error.to_string().starts_with("the server speaks wire format 6, this program 5"), "{error}");
        assert!(!error.is_fatal(), "anybody can say so");
    }
}
