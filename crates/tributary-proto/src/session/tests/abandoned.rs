//! Abandoned streams: what no subflow has taken is not sent, and both ends agree on the credit.

use core::time::Duration;

use tributary_types::{PathId, StreamId};

use super::ends::open;
use super::pair::{Pair, payload, rng};
use crate::config::Config;
use crate::scheduler::names;

const MS: Duration = Duration::from_millis(1);
/// Mbit/s and milliseconds; in front of each path TCP takes 96 KiB.
const SLOW: [(u64, u64); 2] = [(2, 10), (3, 20)];

/// How a stream of the server is abandoned.
#[derive(Clone, Copy, Debug)]
struct Abandonment {
    /// The client stops it; otherwise the server resets it.
    by_reader: bool,
    /// The server has finished it before.
    finished: bool,
    /// A path is lost just after it.
    cut: bool,
}

/// Payload that the server has given to subflows.
fn given(pair: &Pair) -> u64 {
    let stats = pair.ends[1].stats();
    stats.sent + stats.sent_again
}

/// The server's remaining credit equals the client's remaining limit, to the byte.
fn assert_same_credit(pair: &Pair, story: &str) {
    let [client, server] = &pair.ends;
    assert!(!client.is_closed() && !server.is_closed(), "{story}: {:?}", pair.events[0].last());
    assert_eq!(client.granted.used, client.granted.consumed, "{story}");
    assert_eq!(server.send.credit(), client.granted.max_data - client.granted.used, "{story}");
}

/// The server numbers half a megabyte, and the stream is abandoned when its paths have taken two fifths.
fn abandon_half_a_megabyte(scheduler: &str, how: Abandonment) {
    let story = format!("{scheduler} {how:?}");
    let mut pair = Pair::new(scheduler, &SLOW);
    pair.run(300 * MS);
    let id = pair.ends[1].open_stream(0).unwrap();
    assert_eq!(pair.ends[1].write(id, &mut payload(0, 500_000)), Ok(500_000));
    if how.finished {
        pair.ends[1].finish(id).unwrap();
    }
    pair.run(120 * MS);
    // `fbdt` numbers little more than what its paths have taken.
    let numbered = if scheduler.ends_with("fbdt") { 200_000 } else { 400_000 };
    assert!(pair.ends[1].send.unacknowledged() > numbered, "{story}: it is numbered");
    if how.finished && scheduler == "fbdt-paper" {
        assert!(pair.ends[0].receive[&id].end.is_some(), "the end arrives before the middle");
    }
    let before = given(&pair);
    match how.by_reader {
        true => pair.ends[0].stop(id, 7),
        false => pair.ends[1].reset(id, 7),
    }
    pair.run(5 * MS);
    if how.cut {
        pair.cut(PathId(0));
    }
    // What the paths have taken needs 0.4 s to arrive; all of it would need 0.8 s.
    pair.run_until(1000 * MS, |pair| pair.ends[1].send.segments() == 0);
    pair.run(500 * MS);
    let more = given(&pair) - before;
    // A STOP needs time to arrive, in which each path may take one more segment.
    let most = if how.by_reader { 2 * (64 << 10) } else { 0 };
    assert!(more <= most, "{story}: {more} bytes left for nobody");
    assert_eq!(pair.ends[1].stats().send_held, 0, "{story}");
    assert_same_credit(&pair, &story);
}

#[test]
fn numbered_data_of_an_abandoned_stream_is_not_sent() {
    for scheduler in ["fbdt", "fbdt-paper", "fbdt-release", "avira+fbdt"] {
        for at in 0..8 {
            let how = Abandonment { by_reader: at & 1 > 0, finished: at & 2 > 0, cut: at & 4 > 0 };
            abandon_half_a_megabyte(scheduler, how);
        }
    }
}

/// Streams are finished, reset by the writer, stopped by the reader or both, at any time, while paths are lost.
#[test]
fn both_ends_agree_on_the_credit_for_any_end_of_streams() {
    for (seed, scheduler) in names().into_iter().enumerate() {
        let config = Config { scheduler: scheduler.to_owned(), receive_credit: 1 << 20, ..Config::default() };
        let mut pair = Pair::with(&config, &[(20, 10), (8, 30)]);
        pair.step = MS;
        pair.run(300 * MS);
        let mut rng = rng(seed as u64);
        let mut streams: Vec<(StreamId, Option<usize>)> = Vec::new();
        for _ in 0..24 {
            let id = open(&mut pair, 1);
            let mut bytes = payload(0, 1 + rng.below(250_000) as usize);
            let length = bytes.len();
            while !bytes.is_empty() && pair.ends[1].write(id, &mut bytes).is_ok() {}
            let written = length - bytes.len();
            if rng.below(2) == 0 {
                pair.ends[1].finish(id).unwrap();
            }
            pair.run(rng.below(120) as u32 * MS);
            let (reset, stop) = (rng.below(2) == 0, rng.below(2) == 0);
            if reset {
                pair.ends[1].reset(id, 1);
            }
            if stop {
                pair.ends[0].stop(id, 1);
            }
            streams.push((id, (!reset && !stop).then_some(written)));
            if rng.below(3) == 0 {
                pair.cut(PathId(rng.below(2) as u8));
            }
            pair.run(rng.below(150) as u32 * MS);
        }
        for &(id, whole) in &streams {
            // Refused if it is finished already.
            let _ = pair.ends[1].finish(id);
            if whole.is_none() {
                pair.ends[1].reset(id, 1);
            }
        }
        pair.run_until(20_000 * MS, |pair| {
            streams.iter().all(|(id, whole)| whole.is_none() || pair.ended[0].contains(id))
        });
        for &(id, whole) in &streams {
            if let Some(length) = whole {
                assert_eq!(pair.checked(0, id), length as u64, "{scheduler}");
            }
            pair.ends[0].stop(id, 1);
            pair.ends[0].reset(id, 0);
            pair.ends[1].stop(id, 0);
        }
        let left = |pair: &Pair| -> u32 {
            pair.ends.iter().map(|end| end.streams().own + end.streams().peers).sum()
        };
        pair.run_until(20_000 * MS, |pair| left(pair) == 0);
        pair.run(500 * MS);
        assert_same_credit(&pair, scheduler);
    }
}

/// A session that closes refuses new streams. It counts what they were to carry, whether it was sent or not.
#[test]
fn a_closing_session_counts_abandoned_streams_that_it_refuses() {
    // This scheduler numbers all that the credit allows, before it is sent.
    let scheduler = "fbdt-paper".to_owned();
    let config = Config { scheduler, receive_credit: 1 << 20, ..Config::default() };
    let mut pair = Pair::with(&config, &SLOW);
    pair.run(300 * MS);
    // The server does not read, so the client does not get to the end of its closing.
    pair.reading = false;
    let id = pair.ends[0].open_stream(0).unwrap();
    assert_eq!(pair.ends[0].write(id, &mut payload(0, 1_000_000)), Ok(1_000_000));
    let now = pair.now;
    pair.ends[0].close(now, 0, "done");
    for _ in 0..6 {
        let before = pair.ends[0].granted.used;
        let id = pair.ends[1].open_stream(0).unwrap();
        assert_eq!(pair.ends[1].write(id, &mut payload(0, 300_000)), Ok(300_000));
        pair.run(30 * MS);
        pair.ends[1].reset(id, 1);
        pair.run(1500 * MS);
        // What a stream may send before it is read: a little less than its initial credit of 64 KiB.
        let counted = pair.ends[0].granted.used - before;
        assert!((48 << 10..=64 << 10).contains(&counted), "{counted}");
        assert_same_credit(&pair, "closing");
    }
}
