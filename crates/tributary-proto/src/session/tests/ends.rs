//! How streams and sessions end, and that they leave no state behind.

use core::time::Duration;

use bytes::Bytes;
use tributary_types::{Instant, PathId, StreamId};

use super::pair::{Pair, Sender, payload, rng};
use crate::config::Config;
use crate::event::Event;
use crate::session::{OpenStreamError, ReadError};

const MS: Duration = Duration::from_millis(1);

fn few_streams() -> Pair {
    let config = Config { max_streams: 4, ..Config::default() };
    let mut pair = Pair::with(&config, &[(100, 10), (40, 25)]);
    pair.run(300 * MS);
    pair
}

/// Opens a stream as soon as the peer allows it. The test fails when that takes longer than all streams in flight
/// need to end.
pub(super) fn open(pair: &mut Pair, side: usize) -> StreamId {
    for _ in 0..3000 {
        match pair.ends[side].open_stream(0) {
            Ok(id) => return id,
            Err(OpenStreamError::TooMany(_)) => pair.run(MS),
            Err(OpenStreamError::Closed | OpenStreamError::UsedUp) => {
                panic!("the session ended: {:?}", pair.events[side].last())
            }
        }
    }
    panic!("no room for a stream: {:?}", pair.ends.each_ref().map(|end| end.streams()));
}

/// The reader stops a stream after the writer has numbered its end. Bytes in flight then arrive without a reader.
#[test]
fn streams_stopped_after_their_end_was_numbered_are_collected() {
    for (writer, opener) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut pair = few_streams();
        pair.reading = false;
        for round in 0..40 {
            let id = open(&mut pair, opener);
            pair.ends[opener].announce(id);
            if writer != opener {
                pair.run(60 * MS);
            }
            let mut bytes = payload(0, 200_000);
            while !bytes.is_empty() {
                pair.ends[writer].write(id, &mut bytes).unwrap();
            }
            pair.ends[writer].finish(id).unwrap();
            pair.run(Duration::from_millis(round % 40));
            let reader = 1 - writer;
            pair.ends[reader].stop(id, 7);
            pair.ends[reader].reset(id, 7);
            // The reader may stop a stream that it has not received yet only if it opened the stream itself.
            pair.run(80 * MS);
            pair.ends[reader].stop(id, 7);
            pair.ends[reader].reset(id, 7);
            pair.ends[writer].stop(id, 0);
        }
        assert!(pair.ends.iter().all(|end| !end.is_closed()), "{writer} {opener}");
    }
}

/// One path dies after a part of every segment has arrived. The bytes arrive again, for streams that were stopped
/// or reset in between, and must count once against the session's credit.
#[test]
fn pieces_that_come_again_for_a_stream_nobody_reads_count_once() {
    for stop in [true, false] {
        let config = Config { receive_credit: 1 << 20, max_streams: 64, ..Config::default() };
        let mut pair = Pair::with(&config, &[(20, 10), (20, 12)]);
        pair.run(300 * MS);
        pair.reading = false;
        for round in 0..60 {
            let id = open(&mut pair, 1);
            let mut bytes = payload(0, 150_000);
            while !bytes.is_empty() && pair.ends[1].write(id, &mut bytes).is_ok() {}
            pair.run(Duration::from_millis(15 + round % 9));
            if stop {
                pair.ends[0].stop(id, 1);
            } else {
                pair.ends[1].reset(id, 1);
            }
            pair.cut(PathId((round % 2) as u8));
            pair.run(120 * MS);
            let _ = pair.ends[0].read(id);
            pair.ends[0].stop(id, 1);
            pair.ends[0].reset(id, 1);
            pair.ends[1].stop(id, 1);
            pair.ends[1].reset(id, 1);
        }
        pair.run(Duration::from_secs(2));
        let [client, server] = &pair.ends;
        assert!(!client.is_closed() && !server.is_closed(), "{:?}", pair.events[0].last());
        // Both sides agree on the number of bytes used.
        assert_eq!(client.granted.used, client.granted.consumed);
        assert_eq!(server.send.credit(), client.granted.max_data - client.granted.used);
    }
}

/// When an application closes its session, everything that it has written is delivered. A stream that it had not
/// finished is incomplete, and its reader gets an error.
#[test]
fn closing_a_session_does_not_make_a_cut_stream_look_whole() {
    let mut pair = few_streams();
    let (cut, whole) = (open(&mut pair, 0), open(&mut pair, 0));
    for id in [cut, whole] {
        let mut bytes = payload(0, 70_000);
        assert_eq!(pair.ends[0].write(id, &mut bytes), Ok(70_000));
    }
    pair.ends[0].finish(whole).unwrap();
    let now = pair.now;
    pair.ends[0].close(now, 0, "done");
    pair.run_until(Duration::from_secs(5), |pair| pair.ends[1].is_closed());
    assert!(pair.events[1].iter().any(|e| matches!(e, Event::Closed { code: 0, by_peer: true, .. })));
    pair.run(10 * MS);
    assert_eq!((pair.checked(1, cut), pair.checked(1, whole)), (70_000, 70_000));
    assert_eq!(pair.ended[1], [whole]);
    assert_eq!(pair.ends[1].read(cut), Err(ReadError::Closed));
}

/// The reader gets the reset, whether all written data has arrived and is unread or none has arrived.
#[test]
fn a_reset_after_all_written_data_is_reported() {
    for bytes in [0, 1000] {
        let mut pair = few_streams();
        pair.reading = false;
        let id = open(&mut pair, 1);
        if bytes > 0 {
            pair.ends[1].write(id, &mut payload(0, bytes)).unwrap();
            pair.run(50 * MS);
        }
        pair.ends[1].reset(id, 3);
        pair.run(50 * MS);
        assert_eq!(pair.ends[0].read(id), Err(ReadError::Reset(3)), "{bytes}");
        pair.ends[0].reset(id, 0);
        pair.ends[1].stop(id, 0);
    }
}

/// An operation of an application on a stream in use.
fn abort(pair: &mut Pair, side: usize, id: StreamId, how: u64) {
    let end = &mut pair.ends[side];
    match how {
        0 => end.reset(id, 1),
        1 => end.stop(id, 2),
        2 => {
            let _ = end.finish(id);
        }
        _ => {}
    }
    if how < 3 {
        // As when a handle is dropped.
        end.reset(id, 0);
        end.stop(id, 0);
    }
}

/// One connection per second for an hour. Half of them are aborted by either side at a random time, and a path is
/// lost now and then. The debug output of a session shows every entry of every collection, so its length measures
/// the session's size.
#[test]
fn an_hour_of_connections_half_of_them_aborted_leaves_a_session_as_it_was() {
    let mut pair = Pair::with(&Config::default(), &[(40, 15), (20, 30)]);
    pair.step = 5 * MS;
    pair.run(Duration::from_secs(1));
    let mut rng = rng(5);
    let mut sizes = Vec::new();
    for second in 0..3600_u64 {
        let side = rng.below(2) as usize;
        let mut sender = Sender::new(&mut pair, side, 1 + rng.below(400_000));
        let id = sender.stream;
        let aborted = (rng.below(2) == 0).then(|| (rng.below(600), rng.below(2) as usize, rng.below(3)));
        for tick in 0..200 {
            if tick < 150 {
                sender.feed_open(&mut pair);
            }
            if let Some((at, end, how)) = aborted
                && at / 5 == tick
            {
                abort(&mut pair, end, id, how);
            }
            pair.run(5 * MS);
        }
        // Both applications drop the stream.
        for end in [0, 1] {
            abort(&mut pair, end, id, 1);
        }
        if second % 61 == 7 {
            pair.cut(PathId(rng.below(2) as u8));
        }
        pair.received.iter_mut().for_each(Vec::clear);
        pair.events.iter_mut().for_each(Vec::clear);
        pair.ended.iter_mut().for_each(Vec::clear);
        if second % 60 == 59 {
            pair.run(Duration::from_secs(1));
            let counts = pair.ends.each_ref().map(|end| end.streams());
            assert!(counts.iter().all(|c| c.own + c.peers == 0), "after {second} s: {counts:?}");
            sizes.push(pair.ends.each_ref().map(|end| format!("{end:?}").len()));
        }
    }
    for end in [0, 1] {
        let early = sizes[..10].iter().map(|size| size[end]).max().unwrap();
        let late = sizes[50..].iter().map(|size| size[end]).max().unwrap();
        // Numbers get longer, but collections do not grow. The collection of used subflow identifiers is limited
        // to 1024.
        assert!(late < early + 16_384, "{early} bytes in the first ten minutes, {late} in the last");
    }
}

/// A session that knows the end of a stream gets a second end that contradicts it, in either order.
#[test]
fn an_end_below_what_has_arrived_is_refused() {
    use super::hostile::{data, end_moved, segment, server};
    use crate::wire::SegmentKind;
    let fin = |seq, offset, length| segment(seq, 0, SegmentKind::Data { offset, length, fin: true });
    let reset = |seq, end| segment(seq, 0, SegmentKind::Reset { code: 1, end });
    let cases: [&[Bytes]; 5] = [
        &[data(0, 0, 100, 10), fin(1, 0, 50)],
        &[data(0, 0, 0, 10), fin(1, 0, 5)],
        &[data(0, 0, 100, 10), reset(1, 109)],
        &[fin(0, 10, 10), reset(1, 19)],
        &[reset(0, 30), data(1, 0, 25, 10)],
    ];
    for inputs in cases {
        assert_eq!(end_moved(inputs), Some(StreamId(0)), "{inputs:?}");
    }
    // An end beyond all received data is not a moved end.
    let mut session = server();
    for input in [data(0, 0, 100, 10), fin(1, 110, 0), data(2, 0, 0, 100)] {
        session.handle_input(Instant::from_millis(5), super::hostile::ON, input).unwrap();
    }
}
