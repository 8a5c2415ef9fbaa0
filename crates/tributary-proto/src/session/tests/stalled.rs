//! Streams whose reader reads, beside many whose reader has stopped or is slow, in both directions.

use core::time::Duration;

use bytes::Bytes;
use tributary_types::{Bitrate, StreamId};

use super::pair::{Pair, goodput};
use crate::config::Config;
use crate::session::LEAST_WINDOW;

/// 100 Mbit/s with a round trip of 20 ms.
const PATH: [(u64, u64); 1] = [(100, 10)];
const RTT: Duration = Duration::from_millis(20);
/// A small request and its answer beside other traffic take no longer.
const SMALL: Duration = Duration::from_millis(2 * 20 + 50);
static BYTES: [u8; 64 << 10] = [0; 64 << 10];

/// An application that writes on a stream without end.
struct Writer {
    side: usize,
    stream: StreamId,
    /// The reader stops after this many bytes.
    stalls_after: u64,
}

/// A pair and the applications that write.
struct Load {
    pair: Pair,
    writers: Vec<Writer>,
}

impl Load {
    fn new(mut pair: Pair) -> Self {
        pair.run(Duration::from_millis(200));
        Self { pair, writers: Vec::new() }
    }

    /// Starts a transfer from `side` whose reader stops after so many bytes.
    fn write(&mut self, side: usize, stalls_after: u64) -> StreamId {
        let stream = self.pair.ends[side].open_stream(0).unwrap();
        if stalls_after == 0 {
            self.pair.slow.insert(stream, 0);
        }
        self.writers.push(Writer { side, stream, stalls_after });
        stream
    }

    /// Starts so many transfers in each direction that nobody reads.
    fn stall_at_once(&mut self, count: usize) {
        for side in (0..2 * count).map(|n| n % 2) {
            self.write(side, 0);
        }
    }

    /// The reader of a stream goes on.
    fn read_on(&mut self, stream: StreamId) {
        self.writers.iter_mut().filter(|w| w.stream == stream).for_each(|w| w.stalls_after = u64::MAX);
        self.pair.slow.remove(&stream);
    }

    fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    fn run_until(&mut self, most: Duration, done: impl Fn(&Pair) -> bool) {
        let until = self.pair.now + most;
        while self.pair.now < until && !done(&self.pair) {
            for Writer { side, stream, stalls_after } in &self.writers {
                // Asked again only after it was woken.
                while self.pair.ends[*side].send.streams[stream].blocked.is_none()
                    && let Ok(room) = self.pair.ends[*side].writable(*stream)
                {
                    let mut bytes = Bytes::from_static(&BYTES).slice(..room.min(BYTES.len()));
                    self.pair.ends[*side].write(*stream, &mut bytes).unwrap();
                }
                if *stalls_after < u64::MAX {
                    let reader = self.pair.ends[1 - side].receive.get(stream);
                    if reader.is_some_and(|reader| reader.consumed >= *stalls_after) {
                        self.pair.slow.insert(*stream, 0);
                    }
                }
            }
            self.pair.run(self.pair.step);
        }
    }

    /// Rate of everything that is read at `side` in the next two seconds, after one second of warming up.
    fn rate(&mut self, side: usize) -> Bitrate {
        self.run(Duration::from_secs(1));
        let from = self.pair.now;
        self.run(Duration::from_secs(2));
        goodput(&self.pair, side, from, self.pair.now)
    }

    /// A request of 100 bytes and an answer of 1000; returns the time.
    fn small_request(&mut self) -> Duration {
        let from = self.pair.now;
        let stream = self.pair.ends[0].open_stream(0).unwrap();
        self.pair.ends[0].write_slice(stream, &BYTES[..100]).unwrap();
        self.pair.ends[0].finish(stream).unwrap();
        self.run_until(Duration::from_secs(20), |pair| pair.ended[1].contains(&stream));
        self.pair.ends[1].write_slice(stream, &BYTES[..1000]).unwrap();
        self.pair.ends[1].finish(stream).unwrap();
        self.run_until(Duration::from_secs(20), |pair| pair.ended[0].contains(&stream));
        self.pair.now.saturating_since(from)
    }

    /// Checks that a download and an upload that are read have the rate that they have alone, and that small requests
    /// are quick.
    fn check(&mut self, alone: [Bitrate; 2]) {
        let start = self.writers.len();
        for side in [0, 1] {
            self.write(1 - side, u64::MAX);
            let rate = self.rate(side);
            let least = alone[side].as_bps() * 95 / 100;
            assert!(rate.as_bps() >= least, "side {side}: {rate:?} of {:?}", alone[side]);
            for _ in 0..3 {
                let took = self.small_request();
                assert!(took <= SMALL, "side {side}: {took:?}");
            }
            let ours = self.writers.split_off(start);
            ours.iter().for_each(|writer| self.pair.ends[writer.side].reset(writer.stream, 1));
            self.run(RTT * 4);
        }
    }

    fn end(mut self) {
        for writer in self.writers.drain(..) {
            self.pair.ends[writer.side].reset(writer.stream, 1);
        }
        self.pair.slow.clear();
        self.pair.run(RTT * 4);
    }
}

/// The rates of a download and of an upload without other streams.
fn alone(pair: impl Fn() -> Pair) -> [Bitrate; 2] {
    [0, 1].map(|side| {
        let mut load = Load::new(pair());
        load.write(1 - side, u64::MAX);
        let rate = load.rate(side);
        load.end();
        rate
    })
}

fn pair() -> Pair {
    Pair::new("fbdt", &PATH)
}

#[test]
fn eight_downloads_and_eight_uploads_that_nobody_reads_leave_the_others_their_rate() {
    let mut load = Load::new(pair());
    load.stall_at_once(8);
    load.run(Duration::from_secs(6));
    load.check(alone(pair));
    load.end();
}

#[test]
fn streams_that_stop_after_some_megabytes_one_after_another_leave_the_others_their_rate() {
    let mut load = Load::new(pair());
    for _ in 0..16 {
        // What the kernel's socket buffers behind a proxy take.
        load.write(1, 4 << 20);
        load.run(Duration::from_millis(500));
    }
    load.run(Duration::from_secs(4));
    load.check(alone(pair));
    load.end();
}

#[test]
fn a_thousand_streams_that_nobody_reads_leave_the_others_their_rate() {
    let mut load = Load::new(pair());
    load.pair.step = Duration::from_millis(1);
    load.stall_at_once(500);
    load.run(Duration::from_secs(5));
    let coarse = || {
        let mut pair = pair();
        pair.step = Duration::from_millis(1);
        pair
    };
    load.check(alone(coarse));
    load.end();
}

#[test]
fn small_requests_beside_a_slow_reader_are_quick() {
    let mut load = Load::new(pair());
    let slow = load.write(1, u64::MAX);
    // It reads all for a moment, and then 500 kB/s.
    load.run(Duration::from_millis(300));
    load.pair.slow.insert(slow, 100);
    load.run(Duration::from_secs(4));
    for _ in 0..20 {
        let took = load.small_request();
        assert!(took <= SMALL, "{took:?}");
    }
    load.pair.slow.clear();
    load.end();
}

/// 50 Mbit/s with a round trip of 20 ms, to a server with the least memory.
fn small_server() -> Pair {
    let mut pair = Pair::with(&Config::default(), &[(50, 10)]);
    pair.ends[1].share_memory(0);
    pair
}

#[test]
fn a_server_with_the_least_memory_serves_a_reader_beside_streams_that_nobody_reads() {
    let mut load = Load::new(small_server());
    load.stall_at_once(8);
    load.run(Duration::from_secs(3));
    assert!(load.pair.ends[1].memory().receive <= LEAST_WINDOW);
    load.check(alone(small_server));
    load.end();
}

#[test]
fn a_reader_that_goes_on_after_a_long_rest_gets_everything() {
    let mut load = Load::new(pair());
    let streams: Vec<_> = (0..32).map(|_| load.write(1, 0)).collect();
    load.run(Duration::from_secs(3));
    for stream in streams {
        load.read_on(stream);
        let before = load.pair.ends[0].receive[&stream].consumed;
        load.run(Duration::from_millis(300));
        let read = load.pair.ends[0].receive[&stream].consumed - before;
        assert!(read > 64 << 10, "{stream}: {read}");
    }
    load.end();
}

#[test]
fn a_steady_reader_that_is_slower_than_the_path_has_seconds_of_reserve() {
    let mut load = Load::new(pair());
    let slow = load.write(1, u64::MAX);
    load.pair.slow.insert(slow, 100);
    load.run(Duration::from_secs(10));
    let reserve = |load: &Load| {
        let stream = &load.pair.ends[0].receive[&slow];
        Duration::from_secs_f64((stream.arrived() - stream.consumed) as f64 / 500e3)
    };
    let first = reserve(&load);
    assert!((2.0..=8.0).contains(&first.as_secs_f64()), "{first:?} of its reading");
    // A reader of a fifth of that rate has no more than 16 s, after the window has fallen for some times.
    load.pair.slow.insert(slow, 20);
    load.run(Duration::from_secs(60));
    let window = load.pair.ends[0].receive[&slow].window.limit;
    assert!(window <= 1600 << 10, "{window}");
    load.pair.slow.clear();
    load.end();
}
