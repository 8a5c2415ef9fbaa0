//! Sessions that share memory with others: bounds that grow with traffic, shrink without it, and hold against
//! peers that only write.

use core::time::Duration;
use std::collections::VecDeque;

use bytes::Bytes;
use tributary_types::{Instant, PathId};

use super::hostile::{ON, data};
use super::pair::{Pair, Sender, transfer};
use crate::config::Config;
use crate::session::{AMPLE, Demand, LEAST_SEND, LEAST_WINDOW, ProtocolError, Session, Side, WriteError};

/// A gigabit path with a round trip of 50 ms.
const FAR: [(u64, u64); 1] = [(1000, 25)];
/// TCP's initial window.
const INITIAL_WINDOW: usize = 10 * 1448;
const UPLOAD: u64 = 32 << 20;

/// `start`: the server shares memory and begins with bounds of this many bytes.
fn pair(start: Option<u64>) -> Pair {
    let mut pair = Pair::with(&Config::default(), &FAR);
    pair.grants = true;
    if let Some(start) = start {
        pair.ends[1].share_memory(start);
    }
    pair.run(Duration::from_millis(300));
    pair
}

/// Sends with TCP in slow start: the bytes in flight are at most those acknowledged so far and the initial window.
/// Acknowledgements take half a round trip. Returns the time.
fn slow_start(pair: &mut Pair, from: usize, bytes: u64) -> Duration {
    let began = pair.now;
    let mut sender = Sender::new(pair, from, bytes);
    let before = pair.ends[1 - from].stats().received;
    let back = pair.paths[&PathId(0)].delay;
    let mut arrived = VecDeque::new();
    let mut acknowledged = 0;
    while !pair.ended[1 - from].contains(&sender.stream) {
        assert!(pair.now < began + Duration::from_secs(20), "{:?}", pair.ends[1].memory());
        sender.feed(pair);
        let delivered = (pair.ends[1 - from].stats().received - before) as usize;
        arrived.push_back((pair.now + back, delivered));
        while let Some(&(at, bytes)) = arrived.front()
            && at <= pair.now
        {
            acknowledged = bytes;
            arrived.pop_front();
        }
        let unacknowledged = delivered - acknowledged;
        // The path's window counts only bytes that have not arrived. At least the first segments of a round trip may
        // always be sent, and so may data in the other direction.
        let cwnd = (INITIAL_WINDOW + acknowledged).saturating_sub(unacknowledged).max(INITIAL_WINDOW);
        pair.paths.get_mut(&PathId(0)).unwrap().cwnd = cwnd;
        pair.run(pair.step);
    }
    pair.now.saturating_since(began)
}

#[test]
fn bounds_that_grow_never_limit_a_slow_start_over_50_ms() {
    for (from, start) in [(0, AMPLE), (1, AMPLE), (0, 0), (1, 0)] {
        let (mut alone, mut shared) = (pair(None), pair(Some(start)));
        let (least, took) = (slow_start(&mut alone, from, UPLOAD), slow_start(&mut shared, from, UPLOAD));
        // The link is full long before the end: 0.27 s at its rate, and the time of slow start.
        assert!(least < Duration::from_millis(1200), "the test's own link is no gigabit: {least:?}");
        let limited = format!("{from} from {start}: {took:?} instead of {least:?}");
        assert!(took <= least + Duration::from_millis(5), "{limited}");
        let memory = shared.ends[1].memory();
        let grown = if from == 0 { memory.receive } else { memory.send };
        assert!(grown > 4 << 20, "{memory:?}");
    }
}

#[test]
fn a_limit_that_is_not_raised_only_limits() {
    let mut pair = pair(Some(0));
    pair.grants = false;
    let took = slow_start(&mut pair, 0, 8 << 20);
    assert!(took > Duration::from_millis(300), "8 MiB at 1 MiB a round trip: {took:?}");
    assert_eq!(pair.ends[1].memory().receive, LEAST_WINDOW);
}

#[test]
fn a_peer_that_never_reads_gets_the_least_memory_in_both_directions() {
    let mut pair = pair(Some(0));
    pair.reading = false;
    // A stream gets only a small part of the window.
    let mut up: Vec<Sender> = (0..12).map(|_| Sender::new(&mut pair, 0, 1 << 30)).collect();
    let mut down = Sender::new(&mut pair, 1, 1 << 30);
    for _ in 0..5000 {
        for up in &mut up {
            if pair.ends[0].writable(up.stream).is_ok() {
                up.feed(&mut pair);
            }
        }
        down.feed(&mut pair);
        pair.run(pair.step);
        let (memory, stats) = (pair.ends[1].memory(), pair.ends[1].stats());
        assert_eq!(memory.receive, LEAST_WINDOW);
        assert!(stats.receive_held <= LEAST_WINDOW);
        // The client's window is its own 64 MiB and accepts data until it is full.
        assert!(memory.send <= 44 << 20);
    }
    // Streams that the server has not read use at most half of it.
    let held = pair.ends[1].stats().receive_held;
    assert!((LEAST_WINDOW / 4..=LEAST_WINDOW / 2 + (4 << 10)).contains(&held), "{held}");
    pair.reading = true;
    pair.ends[1].reset(down.stream, 1);
    up.iter().for_each(|up| pair.ends[0].reset(up.stream, 1));
}

#[test]
fn an_idle_session_and_one_that_gives_memory_back_shrink_and_continue() {
    let mut pair = pair(Some(0));
    slow_start(&mut pair, 1, UPLOAD);
    slow_start(&mut pair, 0, UPLOAD);
    let grown = pair.ends[1].memory();
    assert!(grown.send > 4 << 20 && grown.receive > 4 << 20, "{grown:?}");
    for _ in 0..10 {
        pair.ends[1].give_way();
    }
    let now = pair.ends[1].memory();
    assert_eq!(now.send, LEAST_SEND as u64);
    assert!(now.receive < grown.receive || now.blocks < grown.blocks, "{now:?}");
    // Credit that was given is used up first.
    let mut sender = Sender::new(&mut pair, 0, UPLOAD);
    pair.grants = false;
    transfer(&mut pair, &mut sender, Duration::from_secs(20));
    assert!(pair.ends[1].memory().receive <= grown.receive / 2, "{:?}", pair.ends[1].memory());
    // No data passes. Keep-alives wake the driver, and the bounds fall to the least.
    pair.grants = true;
    slow_start(&mut pair, 1, UPLOAD);
    pair.step = Duration::from_millis(5);
    pair.run(Duration::from_secs(60));
    assert_eq!(pair.ends[1].memory().send, LEAST_SEND as u64);
}

#[test]
fn the_longest_message_fits_the_least_send_limit() {
    for priority in [0, 3] {
        let mut session = Session::new(Side::Server, Config::default(), 1, Instant::ZERO).unwrap();
        session.share_memory(0);
        let stream = session.open_stream(priority).unwrap();
        let other = session.open_stream(7).unwrap();
        let message = Bytes::from(vec![0; 1 << 20]);
        assert_eq!(session.write_message(Instant::ZERO, stream, message.clone(), None), Ok(()));
        let refused = session.write_message(Instant::ZERO, other, message.clone(), None);
        assert_eq!(refused, Err(WriteError::Blocked));
    }
}

#[test]
fn data_beyond_the_credit_is_refused_after_a_shrink_too() {
    let mut session = Session::new(Side::Server, Config::default(), 1, Instant::ZERO).unwrap();
    session.share_memory(0);
    session.handle_subflow_open(Instant::ZERO, ON, PathId(0)).unwrap();
    session.allot(Instant::ZERO, Demand::Window(4 << 20));
    session.give_way();
    session.give_way();
    // All 4 MiB were granted, so the peer may send them: on each stream its initial credit.
    assert_eq!(session.memory().receive, 4 << 20);
    let mut outcome = Ok(());
    let mut arrived = 0;
    for seq in 0..200 {
        outcome =
            session.handle_input(Instant::ZERO, ON, data(seq, seq as u32 / 2 * 2, seq % 2 * 32_768, 32_768));
        if outcome.is_err() {
            break;
        }
        arrived += 32_768;
    }
    assert!(matches!(outcome, Err(ProtocolError::CreditExceeded(_))), "{outcome:?}");
    assert_eq!(arrived, 4 << 20);
}
