//! The three workloads over an in-memory pipe and over loopback TCP, and how they end after failures.

use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tributary_stream::wire::{Answer, HEADER, Request};
use tributary_stream::*;
use tributary_types::Bitrate;

const SECOND: Duration = Duration::from_secs(1);

fn ladder(gop: Duration) -> Arc<Ladder> {
    Arc::new(Ladder::synthetic(&[2, 4, 8].map(Bitrate::from_mbps), 2, gop))
}

/// A pipe to a server of 1-second GoPs.
fn served() -> DuplexStream {
    let (client, server) = duplex(1 << 20);
    tokio::spawn(serve(server, Some(ladder(SECOND))));
    client
}

async fn tcp() -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream, Some(ladder(Duration::from_millis(50)))).await
    });
    TcpStream::connect(address).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn live_over_a_perfect_pipe_is_always_in_time_and_climbs_to_the_top() {
    let (mut seen, params) = (Vec::new(), LiveParams { gops: 6, start_up: SECOND });
    let record =
        fetch_live(served(), &params, |gop, bytes| seen.push((gop.index, bytes.len()))).await.unwrap();
    assert_eq!((record.in_time, record.stalls, record.end.clone()), (6, 0, End::Complete));
    assert_eq!(record.frozen_ms, 0.0);
    assert_eq!(seen.len(), 6);
    assert_eq!(record.gops[0].representation, Some(0));
    assert_eq!(record.arrivals.total(), seen.iter().map(|s| s.1 as u64).sum::<u64>());
    // GoPs are produced in real time: GoP 5 cannot be complete before 5 s.
    assert!(record.gops[5].complete_ms.unwrap() >= 4999.0);
    // Waiting for a GoP that is not yet produced is not a silence.
    assert!(record.arrivals.longest_silence_ms < 50.0, "{}", record.arrivals.longest_silence_ms);
}

/// Forwards the server's bytes, except in `[from, to)`, counted from the start.
async fn blackout(mut from_client: DuplexStream, server: DuplexStream, from: Duration, to: Duration) {
    let began = tokio::time::Instant::now();
    let (mut reader, mut writer) = tokio::io::split(server);
    let (mut back, mut forth) = tokio::io::split(&mut from_client);
    let up = tokio::io::copy(&mut back, &mut writer);
    let down = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = reader.read(&mut buffer).await?;
            if count == 0 {
                return Ok::<_, std::io::Error>(());
            }
            if (from..to).contains(&began.elapsed()) {
                tokio::time::sleep_until(began + to).await;
            }
            forth.write_all(&buffer[..count]).await?;
        }
    };
    let _ = tokio::join!(up, down);
}

#[tokio::test(start_paused = true)]
async fn a_blackout_freezes_the_picture_for_as_long_as_it_says() {
    let (client, relay) = duplex(1 << 20);
    // GoP 3 is produced at 3 s and due at 4 s; no bytes pass from 2.5 s to 5.25 s.
    tokio::spawn(blackout(relay, served(), Duration::from_millis(2500), Duration::from_millis(5250)));
    let record = fetch_live(client, &LiveParams { gops: 8, start_up: SECOND }, |_, _| {}).await.unwrap();
    let frozen: Vec<f64> = record.gops.iter().map(|g| g.frozen_ms.round()).collect();
    // The slot of GoP 3 (4–5 s) is frozen entirely, that of GoP 4 (5–6 s) until a little after 5.25 s; all others are
    // not frozen.
    assert_eq!(frozen[3], 1000.0);
    assert!((250.0..300.0).contains(&frozen[4]), "{frozen:?}");
    assert_eq!((record.stalls, record.in_time, record.end.clone()), (1, 6, End::Complete));
    let silence = record.arrivals.longest_silence_ms;
    assert!((2240.0..2300.0).contains(&silence), "outstanding from 3 s to 5.25 s, not {silence}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_transport_ends_the_run_on_time_with_every_gop_missed_after() {
    let (client, relay) = duplex(1 << 20);
    tokio::spawn(blackout(relay, served(), Duration::from_millis(1500), Duration::from_secs(10_000)));
    let began = tokio::time::Instant::now();
    let record = fetch_live(client, &LiveParams { gops: 10, start_up: SECOND }, |_, _| {}).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(13));
    assert_eq!((record.in_time, record.gops.len(), record.stalls, record.end), (2, 10, 1, End::TimedOut));
    assert_eq!(record.frozen_ms, 8000.0);
}

#[tokio::test]
async fn bulk_and_objects_are_intact_over_tcp() {
    let params = BulkParams { duration: Duration::from_millis(300), verify: Verify::Full };
    let bulk = fetch_bulk(tcp().await, &params).await.unwrap();
    assert!(bulk.intact == Some(true) && bulk.bytes > 0 && bulk.end == End::Complete, "{:?}", bulk.end);
    assert_eq!(bulk.arrivals.bytes.len(), 30);
    let params =
        ObjectParams { size: 2_500_000, count: 5, pause: Duration::ZERO, limit: Duration::from_secs(60) };
    let objects = fetch_object(tcp().await, &params).await.unwrap();
    assert!(objects.intact == Some(true) && objects.unfinished == 0 && objects.completion_ms.len() == 5);
    let params = LiveParams { gops: 4, start_up: Duration::from_millis(50) };
    let live = fetch_live(tcp().await, &params, |_, _| {}).await.unwrap();
    assert_eq!(live.gops.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_request_sent_byte_by_byte_times_out_like_a_missing_one() {
    let (mut client, server) = duplex(1 << 16);
    let began = tokio::time::Instant::now();
    let serving = tokio::spawn(serve(server, None));
    for byte in (Request::Object { size: 1 }).encode() {
        tokio::time::sleep(50 * SECOND).await;
        if client.write_all(&[byte]).await.is_err() {
            break;
        }
    }
    assert!(matches!(serving.await.unwrap(), Err(ServeError::Idle(_))));
    assert!(began.elapsed() < 200 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_bulk_transfer_over_a_slow_link_ends_as_planned_though_its_buffers_do_not_run_empty() {
    for (bytes_per_s, end) in [(10_000, End::Complete), (0, End::TimedOut)] {
        let (client, mut relay) = duplex(1 << 16);
        // A server that never ends the stream, behind a link that is slow or that fails after the request is granted.
        tokio::spawn(async move {
            let mut request = [0; HEADER];
            relay.read_exact(&mut request).await.unwrap();
            relay.write_all(&Answer::granted(0, 0, 0).encode()).await.unwrap();
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                if relay.write_all(&vec![0; bytes_per_s / 10]).await.is_err() {
                    return;
                }
            }
        });
        let record =
            fetch_bulk(client, &BulkParams { duration: SECOND, verify: Verify::None }).await.unwrap();
        assert_eq!(record.end, end, "{bytes_per_s} bytes a second");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_dies_leaves_a_record() {
    let (client, relay) = duplex(1 << 16);
    tokio::spawn(blackout(relay, served(), Duration::from_millis(0), Duration::from_secs(10_000)));
    let params = ObjectParams { size: 100, count: 3, pause: Duration::ZERO, limit: 5 * SECOND };
    let record = fetch_object(client, &params).await.unwrap();
    assert_eq!((record.unfinished, record.end, record.pending_ms), (3, End::TimedOut, Some(5000.0)));
    let (client, server) = duplex(1 << 16);
    drop(server);
    let record = fetch_bulk(client, &BulkParams { duration: SECOND, verify: Verify::Stamps }).await.unwrap();
    assert!(matches!(record.end, End::Failed(_)) && record.first_byte_ms.is_none());
    let (client, server) = duplex(1 << 16);
    drop(server);
    let record = fetch_live(client, &LiveParams { gops: 3, start_up: SECOND }, |_, _| {}).await.unwrap();
    assert!(matches!(record.end, End::Failed(_)) && record.gops.len() == 3 && record.in_time == 0);
}

#[tokio::test]
async fn a_server_refuses_requests_beyond_its_limits_and_keeps_serving() {
    let (mut client, server) = duplex(1 << 16);
    let serving = tokio::spawn(serve(server, None));
    let beyond = [
        Request::Bulk { millis: 0 },
        Request::Bulk { millis: u64::MAX },
        Request::Object { size: u64::MAX },
        Request::LiveStart,
        Request::Gop { index: u64::MAX, representation: u64::MAX },
    ];
    for request in beyond {
        client.write_all(&request.encode()).await.unwrap();
        let mut header = [0; HEADER];
        client.read_exact(&mut header).await.unwrap();
        assert_ne!(Answer::decode(&header).unwrap().status, tributary_stream::wire::Status::Granted);
    }
    client.write_all(&[7; HEADER]).await.unwrap();
    assert!(matches!(serving.await.unwrap(), Err(ServeError::Wire(_))));
}

#[tokio::test]
async fn a_gop_out_of_range_is_refused() {
    let mut client = served();
    client.write_all(&Request::LiveStart.encode()).await.unwrap();
    let mut start = [0; HEADER + 3 * 8];
    client.read_exact(&mut start).await.unwrap();
    for (index, representation) in [(0, 3), (0, u64::MAX), (u64::MAX, 0), (1_000_000, 0)] {
        client.write_all(&Request::Gop { index, representation }.encode()).await.unwrap();
        let mut header = [0; HEADER];
        client.read_exact(&mut header).await.unwrap();
        assert_eq!(Answer::decode(&header).unwrap().status, tributary_stream::wire::Status::Refused);
    }
}

/// A server that answers every request with `reply`.
fn lying(reply: Vec<u8>) -> DuplexStream {
    let (client, mut server) = duplex(1 << 16);
    tokio::spawn(async move {
        let mut request = [0; HEADER];
        server.read_exact(&mut request).await?;
        server.write_all(&reply).await?;
        server.shutdown().await
    });
    client
}

#[tokio::test]
async fn false_announcements_of_a_server_are_errors_and_reserve_no_memory() {
    let live = LiveParams { gops: 1, start_up: SECOND };
    let refused = fetch_live(lying(vec![9; 64]), &live, |_, _| {}).await;
    assert!(matches!(refused, Err(FetchError::Wire(_))));
    for answer in
        [Answer::granted(1_000_000, u64::MAX, 0), Answer::granted(0, 1, 0), Answer::granted(u64::MAX, 1, 0)]
    {
        let refused = fetch_live(lying(answer.encode().to_vec()), &live, |_, _| {}).await;
        assert!(matches!(refused, Err(FetchError::Excess { .. })), "{refused:?}");
    }
    let object = ObjectParams { size: 100, count: 1, pause: Duration::ZERO, limit: SECOND };
    let huge = Answer::granted(u64::MAX, 0, 0).encode().to_vec();
    assert!(matches!(fetch_object(lying(huge), &object).await, Err(FetchError::Excess { .. })));
    // A GoP that announces more bytes than it sends: the buffer grows with arriving bytes, not with the announcement.
    let mut start = Answer::granted(1_000_000, 1, 0).encode().to_vec();
    start.extend_from_slice(&8_000_000_u64.to_be_bytes());
    start.extend_from_slice(&Answer::granted(1 << 30, u64::MAX, 0).encode());
    let record = fetch_live(lying(start), &live, |_, _| {}).await.unwrap();
    assert!(matches!(record.end, End::Failed(_)), "{:?}", record.end);
}

#[tokio::test]
async fn a_server_without_video_refuses_live_streams() {
    let (client, server) = duplex(1 << 16);
    tokio::spawn(serve(server, None));
    let refused = fetch_live(client, &LiveParams { gops: 1, start_up: SECOND }, |_, _| {}).await;
    assert!(matches!(refused, Err(FetchError::NoVideo)));
}
