//! Caps of paths on real sockets: both ends keep them, they change while data flows, and the connection stays.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tributary_net::{
    Bitrate, Common, ConnectConfig, Key, ListenConfig, Listener, PathId, Session, UnknownPath, connect,
};
use tributary_testing::in_time;

const BYTES: usize = 4 << 20;
const PATH: PathId = PathId(0);

/// A client with this path, and its server.
async fn pair(path: &str) -> (Session, Session) {
    let common = || Common::new(Key::from_bytes([42; 32]));
    let config = ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], common());
    let mut listener = Listener::bind(config).await.unwrap();
    let path = format!("{path}={}", listener.addresses()[0]).parse().unwrap();
    let config = ConnectConfig { paths: vec![path], common: common(), timeout: Duration::from_secs(10) };
    let (client, accepted) = tokio::join!(connect(config), listener.accept());
    let (server, _) = accepted.unwrap();
    // Later subflows need it.
    tokio::spawn(async move { while listener.accept().await.is_some() {} });
    (client.unwrap(), server)
}

/// How long [`BYTES`] take from one end to the other.
async fn transfer(from: &Session, to: &Session) -> Duration {
    let began = Instant::now();
    let writing = async {
        let mut stream = from.open_stream(0).await.unwrap();
        let piece = Bytes::from(vec![7; 64 << 10]);
        for _ in 0..BYTES / piece.len() {
            stream.write_chunk(piece.clone()).await.unwrap();
        }
        stream.finish().unwrap();
        stream
    };
    let reading = async {
        let mut stream = to.accept_stream().await.unwrap();
        let mut read = 0;
        while let Some(chunk) = stream.read_chunk().await.unwrap() {
            read += chunk.len();
        }
        assert_eq!(read, BYTES);
        stream
    };
    let _ = tokio::join!(writing, reading);
    // real time: a cap is a rate. 4 MiB take 2.1 s at 16 Mbit/s, and about 0.05 s over loopback without a cap.
    began.elapsed()
}

/// Waits until the server shows this cap.
async fn told(server: &Session, cap: Option<u64>) {
    let shown = || server.stats().paths.first().and_then(|path| path.cap);
    tributary_testing::becomes("the server knows the cap", || shown() == cap.map(Bitrate::from_mbps)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ends_keep_the_cap_of_a_path_and_its_changes() {
    in_time(async {
        let (client, server) = pair("127.0.0.2,cap=16").await;
        told(&server, Some(16)).await;
        let (kept, free) = (Duration::from_millis(1950), Duration::from_millis(1000));
        for (from, to) in [(&client, &server), (&server, &client)] {
            let time = transfer(from, to).await;
            assert!(time > kept, "{time:?}");
        }
        client.set_cap(PATH, None).unwrap();
        told(&server, None).await;
        for (from, to) in [(&client, &server), (&server, &client)] {
            let time = transfer(from, to).await;
            assert!(time < free, "{time:?}");
        }
        client.set_cap(PATH, Some(Bitrate::from_mbps(16))).unwrap();
        told(&server, Some(16)).await;
        let time = transfer(&server, &client).await;
        assert!(time > kept, "{time:?}");
        assert_eq!(client.stats().subflows.len(), 1);
        assert_eq!(client.stats().subflows[0].subflow, server.stats().subflows[0].subflow);
        assert_eq!(client.set_cap(PathId(7), None), Err(UnknownPath(PathId(7))));
        client.abort(0, "done");
    })
    .await;
}
