//! Applications that replace queued data: a session holds little that no subflow has taken, and no subflow lacks
//! data.

use core::time::Duration;

use tributary_types::{Bitrate, Instant, StreamId};

use super::pair::{Pair, goodput, payload};
use crate::config::Config;
use crate::session::WriteError;

/// Two slow radios: Mbit/s and one-way delay in ms. TCP keeps 64 KiB in front of each: 105 and 37 ms.
const SLOW: [(u64, u64); 2] = [(5, 3), (14, 3)];
const MESSAGE: usize = 12 << 10;
const UNSENT: Option<Duration> = Some(Duration::from_millis(10));

fn started(config: Config) -> (Pair, StreamId) {
    let mut pair = Pair::with(&config, &SLOW);
    pair.run(Duration::from_millis(300));
    let stream = pair.ends[1].open_stream(0).unwrap();
    (pair, stream)
}

/// Writes messages as fast as they are accepted. Returns the bytes written, and the most bytes held at any time.
fn stream_for(pair: &mut Pair, stream: StreamId, time: Duration) -> (u64, u64) {
    let until = pair.now + time;
    let (mut written, mut most) = (0, 0);
    while pair.now < until {
        let message = payload(written, MESSAGE);
        match pair.ends[1].write_message(pair.now, stream, message, None) {
            Ok(()) => written += MESSAGE as u64,
            Err(error) => {
                assert_eq!(error, WriteError::Blocked);
                pair.run(Duration::from_micros(200));
            }
        }
        most = most.max(pair.ends[1].stats().send_held);
    }
    (written, most)
}

fn second(at: u64) -> Instant {
    Instant::from_millis(at * 1000)
}

#[test]
fn with_little_unsent_both_radios_are_full_and_nothing_is_sent_twice() {
    let (mut pair, stream) = started(Config { unsent: UNSENT, short_queues: true, ..Config::default() });
    let (_, most) = stream_for(&mut pair, stream, Duration::from_secs(5));
    pair.run(Duration::from_secs(1));
    let rate = goodput(&pair, 0, second(1), second(5));
    assert!(rate > Bitrate::from_bps(17_500_000), "{rate:?} of 19 Mbit/s");
    let stats = pair.ends[1].stats();
    assert!(stats.sent_again * 50 < stats.sent, "{stats:?}");
    // 26 ms of each radio (a queue of 15 ms and its least round trip), the unsent bytes and one message. A filled
    // queue alone would hold 100 ms.
    assert!(most < 160 << 10, "{most}");
    pair.checked(0, stream);
}

#[test]
fn unsent_bytes_follow_the_rate_and_the_queues_stay_short() {
    let (mut pair, stream) = started(Config { unsent: UNSENT, short_queues: true, ..Config::default() });
    stream_for(&mut pair, stream, Duration::from_secs(4));
    let delays: Vec<Duration> = pair.ends[1].subflow_stats().map(|s| s.delivery_delay).collect();
    assert!(delays.iter().all(|delay| *delay < Duration::from_millis(70)), "{delays:?}");
    let under_way: u64 = pair.ends[1].subflow_stats().map(|s| s.in_flight).sum();
    let unsent = pair.ends[1].stats().send_held - under_way;
    assert!(unsent < 24_000 + 2 * MESSAGE as u64, "10 ms of 19 Mbit/s and a message: {unsent}");
}

#[test]
fn a_writer_that_waits_for_room_does_not_count_as_idle() {
    // Most of the time everything that is held is in flight, and more is written as soon as there is room.
    let (mut pair, stream) = started(Config { send_buffer: 128 << 10, ..Config::default() });
    stream_for(&mut pair, stream, Duration::from_secs(4));
    let stats = pair.ends[1].stats();
    assert!(stats.sent_again * 20 < stats.sent, "{stats:?}");
}

#[test]
fn without_a_subflow_a_stream_takes_little_and_a_message_whole() {
    let (mut pair, stream) = started(Config { unsent: UNSENT, short_queues: true, ..Config::default() });
    for path in [0, 1] {
        pair.paths.get_mut(&tributary_types::PathId(path)).unwrap().dead = true;
        pair.cut(tributary_types::PathId(path));
    }
    let (written, _) = stream_for(&mut pair, stream, Duration::from_millis(100));
    assert!((MESSAGE as u64..=24_000 + MESSAGE as u64).contains(&written), "{written}");
    for path in pair.paths.values_mut() {
        path.dead = false;
    }
    pair.run_until(Duration::from_secs(10), |pair| pair.checked(0, stream) == written);
}

/// Writes for this time. Returns the most bytes held that no subflow had taken.
fn most_unsent(pair: &mut Pair, stream: StreamId, time: Duration) -> u64 {
    let until = pair.now + time;
    let mut most = 0;
    while pair.now < until {
        stream_for(pair, stream, Duration::from_millis(5));
        let under_way: u64 = pair.ends[1].subflow_stats().map(|s| s.in_flight).sum();
        most = most.max(pair.ends[1].stats().send_held - under_way);
    }
    most
}

#[test]
fn unsent_bytes_follow_a_falling_rate_and_a_rising_one_is_used_at_once() {
    let unsent = Some(Duration::from_millis(200));
    let mut pair = Pair::with(&Config { unsent, ..Config::default() }, &[(100, 5)]);
    pair.run(Duration::from_millis(300));
    let stream = pair.ends[1].open_stream(0).unwrap();
    most_unsent(&mut pair, stream, Duration::from_secs(2));
    let set = |pair: &mut Pair, mbps| {
        pair.paths.get_mut(&tributary_types::PathId(0)).unwrap().rate = Bitrate::from_mbps(mbps);
    };
    set(&mut pair, 30);
    // The rate is that of the last second, and data that was held before must leave first.
    most_unsent(&mut pair, stream, Duration::from_secs(2));
    let held = most_unsent(&mut pair, stream, Duration::from_secs(1));
    assert!(held < 750_000 + 2 * MESSAGE as u64, "200 ms of 30 Mbit/s and a message: {held}");
    set(&mut pair, 100);
    let (from, until) = (pair.now + Duration::from_millis(200), pair.now + Duration::from_millis(1200));
    most_unsent(&mut pair, stream, Duration::from_millis(1300));
    let rate = goodput(&pair, 0, from, until);
    assert!(rate > Bitrate::from_mbps(95), "{rate:?} of 100 Mbit/s");
}

/// Writes as the proxy does: asks for room, then reads this much from its application, which always has more.
/// Returns the most bytes held after the first second, including those that were read last.
fn read_into(pair: &mut Pair, stream: StreamId, time: Duration) -> u64 {
    const LARGEST_READ: usize = 64 << 10;
    let (from, until) = (pair.now + Duration::from_secs(1), pair.now + time);
    let (mut written, mut most) = (0, 0);
    while pair.now < until {
        match pair.ends[1].writable(stream) {
            Ok(room) => {
                let mut piece = payload(written, room.min(LARGEST_READ));
                let read = piece.len();
                assert_eq!(pair.ends[1].write(stream, &mut piece), Ok(read), "what was promised is taken");
                written += read as u64;
            }
            Err(error) => {
                assert_eq!(error, WriteError::Blocked);
                pair.run(Duration::from_micros(200));
            }
        }
        if pair.now >= from {
            let under_way: u64 = pair.ends[1].subflow_stats().map(|s| s.in_flight).sum();
            most = most.max(pair.ends[1].stats().send_held - under_way);
        }
    }
    most
}

#[test]
fn a_writer_that_reads_only_into_free_room_stays_within_the_limit() {
    let run = |unsent: Duration| {
        let config = Config { unsent: Some(unsent), ..Config::default() };
        let mut pair = Pair::with(&config, &[(20, 10)]);
        pair.run(Duration::from_millis(300));
        let stream = pair.ends[1].open_stream(0).unwrap();
        let most = read_into(&mut pair, stream, Duration::from_secs(5));
        (most, goodput(&pair, 0, second(2), second(5)))
    };
    let (held, rate) = run(Duration::from_millis(75));
    // While a subflow has nothing to send, 16 KiB are accepted regardless of the limit.
    assert!(held <= 187_500 + (16 << 10), "75 ms of 20 Mbit/s: {held}");
    let (_, unlimited) = run(Duration::from_secs(60));
    assert!(rate.as_bps() * 100 >= unlimited.as_bps() * 98, "{rate:?} of {unlimited:?}");
}
