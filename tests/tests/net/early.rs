//! Data that a client sends directly after its hello: one round trip earlier, and only to a server that has
//! proved that it knows the key. The server reads it only after the hello is accepted.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tributary_net::{Common, Key, Limits, connect, connect_early};

use crate::common::{
    becomes, check_pattern, client, in_time, listen, listen_with, paths, send_pattern, settings,
};

/// Bytes of ticket, challenge and reply of plaintext mode in `docs/wire-handshake.md`.
const TICKET: usize = 80;
const CHALLENGE: usize = 72;
const REPLY: usize = 56;

/// Two ends with different keys: the client gets an error and can write nothing, and the server
/// accepts no session.
#[tokio::test]
async fn an_early_client_with_another_key_is_refused_at_its_ticket() {
    for plaintext in [true, false] {
        let mut listener = listen(settings(plaintext)).await;
        let common = Common { plaintext, ..Common::new(Key::from_bytes([1; 32])) };
        let mut config = client(common, paths(1, listener.addresses()[0]));
        config.timeout = Duration::from_secs(1);
        let refused = in_time(connect_early(config)).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("wrong key"), "{error}");
        // The next client with the right key is the first session that the server accepts.
        let honest = in_time(connect(client(settings(plaintext), paths(1, listener.addresses()[0])))).await;
        let honest = honest.unwrap();
        let mut stream = honest.open_stream(0).await.unwrap();
        stream.write_all(b"honest").await.unwrap();
        stream.shutdown().await.unwrap();
        let (peer, _) = in_time(listener.accept()).await.unwrap();
        let mut read = Vec::new();
        in_time(in_time(peer.accept_stream()).await.unwrap().read_to_end(&mut read)).await.unwrap();
        assert_eq!(read, b"honest");
    }
}

/// A refusal arrives although the server leaves the bytes after the hello unread.
#[tokio::test]
async fn a_full_server_refuses_an_early_client_with_that_reason() {
    for plaintext in [true, false] {
        let limits = Limits { sessions: 1, ..Limits::default() };
        let mut listener = listen_with(settings(plaintext), limits).await;
        let address = listener.addresses()[0];
        let _first = in_time(connect(client(settings(plaintext), paths(1, address)))).await.unwrap();
        let _held = in_time(listener.accept()).await.unwrap();
        let mut config = client(settings(plaintext), paths(1, address));
        config.timeout = Duration::from_secs(2);
        let session = in_time(connect_early(config)).await.unwrap();
        let mut stream = in_time(session.open_stream(0)).await.unwrap();
        let _ = in_time(stream.write_all(&[7; 200_000])).await;
        let closed = in_time(session.closed()).await;
        assert!(closed.reason.contains("limit of sessions"), "{closed:?}");
    }
}

/// Bytes after the hello arrive with it, and both paths are used in the end.
#[tokio::test]
async fn data_sent_right_after_the_hello_arrives_complete_and_once() {
    for plaintext in [true, false] {
        let mut listener = listen(settings(plaintext)).await;
        let config = client(settings(plaintext), paths(2, listener.addresses()[0]));
        let session = in_time(connect_early(config)).await.unwrap();
        let mut stream = session.open_stream(0).await.unwrap();
        let sending = tokio::spawn(async move { send_pattern(&mut stream, 3_000_000).await });
        let (peer, _) = in_time(listener.accept()).await.unwrap();
        let mut accepted = in_time(peer.accept_stream()).await.unwrap();
        assert_eq!(in_time(check_pattern(&mut accepted)).await, 3_000_000);
        in_time(sending).await.unwrap();
        becomes("both subflows are there", || session.stats().subflows.len() >= 2).await;
    }
}

/// The reply may arrive in any pieces, with frames directly after it.
#[tokio::test]
async fn a_reply_in_small_pieces_is_accepted() {
    in_time(async {
        let mut listener = listen(settings(true)).await;
        let server = listener.addresses()[0];
        let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let through = relay.local_addr().unwrap();
        tokio::spawn(async move {
            let (near, _) = relay.accept().await.unwrap();
            near.set_nodelay(true).unwrap();
            let (mut near_in, mut near_out) = near.into_split();
            let (mut far_in, mut far_out) = TcpStream::connect(server).await.unwrap().into_split();
            tokio::spawn(async move { tokio::io::copy(&mut near_in, &mut far_out).await });
            // The reply's last byte arrives with the first frames.
            for length in [CHALLENGE, 1, 7, REPLY - 9] {
                let mut crumb = vec![0; length];
                far_in.read_exact(&mut crumb).await.unwrap();
                near_out.write_all(&crumb).await.unwrap();
            }
            let mut rest = vec![0; 20];
            far_in.read_exact(&mut rest).await.unwrap();
            near_out.write_all(&rest).await.unwrap();
            tokio::io::copy(&mut far_in, &mut near_out).await
        });
        let session = connect_early(client(settings(true), paths(1, through))).await.unwrap();
        let mut stream = session.open_stream(0).await.unwrap();
        let sending = tokio::spawn(async move { send_pattern(&mut stream, 100_000).await });
        let (peer, _) = listener.accept().await.unwrap();
        assert_eq!(check_pattern(&mut peer.accept_stream().await.unwrap()).await, 100_000);
        sending.await.unwrap();
        session.close().await.unwrap();
    })
    .await;
}

/// Before the server has proved that it has the key, the client sends only a ticket, which contains no information.
/// Over TLS: `listener::tests` of the crate.
#[tokio::test]
async fn a_client_sends_nothing_to_a_server_that_does_not_prove_the_key() {
    in_time(async {
        let forger = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = forger.local_addr().unwrap();
        // The client tries again and again: every attempt is answered, and none sends more.
        let (tell, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let forging = tokio::spawn(async move {
            while let Ok((mut near, _)) = forger.accept().await {
                // A challenge with an invalid proof, an acceptance, and a stream of the server's.
                let magic = [b'T', b'R', b'I', b'B', tributary_proto::wire::VERSION];
                let mut start = [0; CHALLENGE];
                start[..5].copy_from_slice(&magic);
                let mut reply = [0; REPLY];
                reply[..5].copy_from_slice(&magic);
                let frames = [0x10, 0, 1, 0, 3, b'e', b'v', b'i'];
                near.write_all(&[&start[..], &reply, &frames].concat()).await.unwrap();
                let (mut count, mut part) = (0, [0; 4096]);
                while let Ok(bytes @ 1..) = near.read(&mut part).await {
                    count += bytes;
                }
                let _ = tell.send(count);
            }
        });
        let mut config = client(settings(true), paths(1, address));
        config.timeout = Duration::from_secs(1);
        let error = connect_early(config).await.unwrap_err().to_string();
        assert!(error.contains("does not know the key"), "{error}");
        assert_eq!(seen.recv().await, Some(TICKET));
        forging.abort();
        while let Some(count) = seen.recv().await {
            assert_eq!(count, TICKET);
        }
    })
    .await;
}
