//! Every byte arrives once, in order, in both directions, and the end is orderly.

use crate::common::{check_pattern, in_time, pair, send_pattern, settings};

async fn both_directions(plaintext: bool, paths: u8, bytes: u64) {
    let (client, server, _listener) = pair(settings(plaintext), paths).await;
    let echo = tokio::spawn(async move {
        let mut stream = server.accept_stream().await.unwrap();
        let received = check_pattern(&mut stream).await;
        send_pattern(&mut stream, bytes).await;
        drop(stream);
        (received, server.closed().await)
    });
    let mut stream = client.open_stream(0).await.unwrap();
    send_pattern(&mut stream, bytes).await;
    assert_eq!(check_pattern(&mut stream).await, bytes);
    drop(stream);
    client.close().await.unwrap();
    let (received, closed) = echo.await.unwrap();
    assert_eq!(received, bytes);
    assert!(closed.by_peer && closed.code == 0, "{closed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plaintext_over_one_to_eight_paths() {
    for paths in [1, 2, 8] {
        in_time(both_directions(true, paths, 20_000_000)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_over_one_to_eight_paths() {
    for paths in [1, 2, 8] {
        in_time(both_directions(false, paths, 20_000_000)).await;
    }
}

#[tokio::test]
async fn empty_streams_work_on_a_single_thread() {
    in_time(both_directions(false, 2, 0)).await;
    in_time(both_directions(true, 2, 1)).await;
}
