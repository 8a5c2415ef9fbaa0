//! Priorities and deadlines: what is sent first, what is limited, and what is never sent.

use core::time::Duration;

use bytes::Bytes;
use tributary_types::StreamId;

use super::pair::{Pair, Sender, payload, transfer};
use crate::config::{Config, ConfigError};
use crate::event::Event;
use crate::scheduler::{PriorityChoice, Weights};
use crate::session::WriteError;

const MIB: u64 = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

fn started(scheduler: &str, paths: &[(u64, u64)]) -> Pair {
    let mut pair = Pair::new(scheduler, paths);
    pair.run(Duration::from_millis(300));
    pair
}

/// Milliseconds that each of 40 messages of 200 bytes took next to endless bulk.
fn latencies(scheduler: &str, priority: u8) -> Vec<u64> {
    let mut pair = started(scheduler, &[(47, 4), (140, 2)]);
    let mut bulk = Sender::new(&mut pair, 1, 200 * MIB);
    let messages = pair.ends[1].open_stream(priority).unwrap();
    let mut took = Vec::new();
    for i in 0..40 {
        for _ in 0..25 {
            bulk.feed(&mut pair);
            pair.run(Duration::from_millis(1));
        }
        let made = pair.now;
        pair.ends[1].write_message(made, messages, payload(i * 200, 200), None).unwrap();
        while pair.checked(0, messages) < (i + 1) * 200 {
            bulk.feed(&mut pair);
            pair.run(Duration::from_micros(200));
        }
        took.push(pair.now.saturating_since(made).as_millis() as u64);
    }
    took
}

#[test]
fn a_message_does_not_wait_behind_bulk() {
    let first = latencies("avira+fbdt", 7);
    let plain = latencies("fbdt", 0);
    let worst = |took: &[u64]| took.iter().copied().max().unwrap();
    assert!(worst(&first) <= 25, "{first:?}");
    assert!(worst(&first) * 2 < worst(&plain), "{first:?} {plain:?}");
}

#[test]
fn every_decision_is_an_event_with_telemetry_and_none_without() {
    for telemetry in [true, false] {
        let config = Config { scheduler: "avira+fbdt".to_owned(), telemetry, ..Config::default() };
        let mut pair = Pair::with(&config, &[(47, 4), (140, 2)]);
        pair.run(Duration::from_millis(300));
        let stream = pair.ends[1].open_stream(3).unwrap();
        pair.ends[1].write_message(pair.now, stream, payload(0, 500), None).unwrap();
        pair.run(Duration::from_millis(50));
        assert_eq!(pair.checked(0, stream), 500);
        let choices = pair.events[1].iter().filter_map(|event| match event {
            Event::Prioritised(decision) => Some(decision.choice),
            _ => None,
        });
        let choices: Vec<_> = choices.collect();
        assert_eq!(choices.first(), telemetry.then_some(&PriorityChoice::Forecast), "{choices:?}");
    }
}

#[test]
fn what_the_peer_opens_is_bulk_until_this_side_says_otherwise() {
    let mut pair = started("avira+fbdt", &[(47, 4)]);
    // A client requests an answer with the highest priority, beside the server's bulk.
    let claimed = pair.ends[0].open_stream(255).unwrap();
    pair.ends[0].write_message(pair.now, claimed, payload(0, 100), None).unwrap();
    pair.run(Duration::from_millis(50));
    let prioritised =
        |pair: &Pair| pair.events[1].iter().filter(|event| matches!(event, Event::Prioritised(_))).count();
    pair.ends[1].write_message(pair.now, claimed, payload(0, 100), None).unwrap();
    pair.run(Duration::from_millis(50));
    assert_eq!((pair.checked(0, claimed), prioritised(&pair)), (100, 0));
    pair.ends[1].set_priority(claimed, 9);
    pair.ends[1].write_message(pair.now, claimed, payload(100, 100), None).unwrap();
    pair.run(Duration::from_millis(50));
    assert_eq!((pair.checked(0, claimed), prioritised(&pair)), (200, 1));
}

#[test]
fn a_message_past_its_deadline_is_not_sent_and_its_neighbours_are() {
    let mut pair = started("avira+fbdt", &[(47, 4)]);
    let stream = pair.ends[1].open_stream(5).unwrap();
    // No packet can leave: the only path is dead.
    pair.paths.values_mut().for_each(|path| path.dead = true);
    pair.cut(tributary_types::PathId(0));
    let message = |fill: u8| Bytes::from(vec![fill; 300]);
    let soon = Duration::from_millis(20);
    for (fill, within) in [(1, None), (2, Some(soon)), (3, Some(60 * SECOND)), (4, Some(soon))] {
        pair.ends[1].write_message(pair.now, stream, message(fill), within).unwrap();
    }
    pair.ends[1].finish(stream).unwrap();
    pair.run(SECOND);
    pair.paths.values_mut().for_each(|path| path.dead = false);
    pair.run_until(10 * SECOND, |pair| pair.ended[0].contains(&stream));
    let read: Vec<u8> = pair.received[0].iter().flat_map(|(.., chunk)| chunk.to_vec()).collect();
    assert_eq!(read, [vec![1; 300], vec![3; 300]].concat());
    let dropped: (u32, usize) = pair.events[1]
        .iter()
        .filter_map(|event| match event {
            Event::MessageExpired { stream: of, messages, bytes } if *of == stream => {
                Some((*messages, *bytes))
            }
            _ => None,
        })
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!(dropped, (2, 600));
    pair.run(SECOND); // Until the last acknowledgement has arrived.
    assert_eq!(pair.ends[1].stats().send_held, 0);
}

#[test]
fn a_stream_whose_last_message_expires_still_ends() {
    let mut pair = started("fbdt", &[(47, 4)]);
    let stream = pair.ends[1].open_stream(5).unwrap();
    pair.paths.values_mut().for_each(|path| path.dead = true);
    pair.cut(tributary_types::PathId(0));
    pair.ends[1].write_message(pair.now, stream, payload(0, 10), Some(Duration::from_millis(1))).unwrap();
    pair.ends[1].finish(stream).unwrap();
    pair.run(SECOND);
    pair.paths.values_mut().for_each(|path| path.dead = false);
    pair.run_until(10 * SECOND, |pair| pair.ended[0].contains(&stream));
    assert_eq!(pair.checked(0, stream), 0);
}

#[test]
fn deadlines_in_the_past_and_endless_messages_are_refused() {
    let mut pair = started("fbdt", &[(47, 4)]);
    let stream = pair.ends[0].open_stream(1).unwrap();
    let now = pair.now;
    let session = &mut pair.ends[0];
    let write = |session: &mut crate::Session, bytes: usize, within| {
        session.write_message(now, stream, payload(0, bytes), within)
    };
    assert_eq!(write(session, 10, Some(Duration::ZERO)), Err(WriteError::DeadlinePassed));
    let error = write(session, 2 << 20, None).unwrap_err();
    assert_eq!(error, WriteError::MessageTooLong { bytes: 2 << 20, most: 1 << 20 });
    assert_eq!(session.write_message(now, StreamId(77), payload(0, 1), None), Err(WriteError::NotOpen));
    // A message is accepted as a whole or not at all.
    while write(session, 1 << 20, None).is_ok() {}
    assert_eq!(write(session, 1 << 20, None), Err(WriteError::Blocked));
    assert_eq!(session.stats().send_held % MIB, 0);
}

#[test]
fn an_endless_stream_of_the_highest_priority_does_not_starve_bulk() {
    for scheduler in ["avira+fbdt", "fbdt", "linux-default"] {
        let mut pair = started(scheduler, &[(47, 4), (140, 2)]);
        let hog = pair.ends[1].open_stream(255).unwrap();
        let mut bulk = Sender::new(&mut pair, 1, 4 * MIB);
        let end = pair.now + 3 * SECOND;
        while !pair.ended[0].contains(&bulk.stream) {
            assert!(pair.now < end, "{scheduler}: bulk starves at {} bytes", pair.checked(0, bulk.stream));
            bulk.feed(&mut pair);
            let mut more = Bytes::from(vec![0; 256 << 10]);
            while pair.ends[1].write(hog, &mut more).is_ok_and(|_| !more.is_empty()) {}
            pair.run(Duration::from_millis(1));
        }
    }
}

#[test]
fn weights_are_checked_with_the_rest_of_the_configuration() {
    let weights = Weights { latency: 0.0, ..Weights::default() };
    let error = Config { weights, ..Config::default() }.check().unwrap_err();
    assert!(matches!(error, ConfigError::Weights(_)));
    assert!(error.to_string().contains("from 0.001 to 1000"), "{error}");
}

#[test]
fn the_discriminator_delivers_everything_over_every_scheduler() {
    for name in crate::scheduler::names().into_iter().filter(|name| !name.starts_with("avira")) {
        let mut pair = started(&format!("avira+{name}"), &[(47, 2), (140, 5), (30, 20)]);
        let messages = pair.ends[1].open_stream(5).unwrap();
        for i in 0..50 {
            pair.ends[1].write_message(pair.now, messages, payload(i * 999, 999), None).unwrap();
        }
        let mut bulk = Sender::new(&mut pair, 1, 3 * MIB);
        transfer(&mut pair, &mut bulk, 20 * SECOND);
        assert_eq!(pair.checked(0, messages), 50 * 999, "{name}");
    }
}
