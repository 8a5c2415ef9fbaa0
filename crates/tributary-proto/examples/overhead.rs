//! Cost of the session machine itself: two sessions hand segments to each other in memory, over
//! two subflows, without sockets. Prints nanoseconds per segment, sending and receiving together.
//!
//! `cargo run --release -p tributary-proto --example overhead`

use core::time::Duration;
use std::time::Instant as Clock;

use bytes::{Bytes, BytesMut};
use tributary_proto::{Config, Event, Session, Side, SubflowInfo};
use tributary_types::{Bitrate, Instant, PathId, SubflowId};

const TOTAL: u64 = 8 << 30;

fn main() {
    for scheduler in tributary_proto::scheduler::names() {
        run(scheduler);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an example that measures reads the clock; the state machine itself does not"
)]
fn run(scheduler: &str) {
    let config = Config { scheduler: scheduler.to_owned(), ..Config::default() };
    let mut client = Session::new(Side::Client, config.clone(), 1, Instant::ZERO).expect("valid");
    let mut server = Session::new(Side::Server, config, 1, Instant::ZERO).expect("valid");
    let mut now = Instant::from_millis(1);
    for id in 0..2 {
        for end in [&mut client, &mut server] {
            end.handle_subflow_open(now, SubflowId(id), PathId(id as u8)).expect("fresh");
        }
    }
    let stream = server.open_stream(0).expect("allowed");
    let chunk = Bytes::from(vec![0_u8; 1 << 20]);
    let (mut written, mut read, mut segments) = (0_u64, 0_u64, 0_u64);
    let started = Clock::now();
    while read < TOTAL / 8 {
        now += Duration::from_micros(100);
        while written < TOTAL / 8 {
            let mut data = chunk.clone();
            match server.write(stream, &mut data) {
                Ok(taken) => written += taken as u64,
                Err(_) => break,
            }
        }
        for from_server in [true, false] {
            let (from, to) =
                if from_server { (&mut server, &mut client) } else { (&mut client, &mut server) };
            for id in 0..2 {
                from.handle_subflow_info(SubflowId(id), info());
                from.handle_room(SubflowId(id), 256 << 10);
            }
            from.handle_timeout(now);
            while let Some(transmit) = from.poll_transmit(now) {
                segments += 1;
                if !transmit.head.as_slice().is_empty() {
                    let head = BytesMut::from(transmit.head.as_slice()).freeze();
                    to.handle_input(now, transmit.subflow, head).expect("valid");
                }
                to.handle_input(now, transmit.subflow, transmit.payload).expect("valid");
            }
            while from.poll_event().is_some() {}
            while let Some(event) = to.poll_event() {
                if let Event::StreamReadable(id) = event {
                    while let Ok(Some(piece)) = to.read(id) {
                        read += piece.len() as u64;
                    }
                }
            }
        }
    }
    let spent = started.elapsed();
    println!(
        "{scheduler:>14}: {:6.0} ns a segment, {:5.1} GB/s",
        spent.as_nanos() as f64 / segments as f64,
        read as f64 / spent.as_secs_f64() / 1e9
    );
}

fn info() -> SubflowInfo {
    SubflowInfo {
        srtt: Duration::from_micros(200),
        rttvar: Duration::from_micros(20),
        min_rtt: Duration::from_micros(100),
        cwnd: 1 << 20,
        in_flight: 0,
        unsent: 0,
        delivery_rate: Some(Bitrate::from_mbps(10_000)),
        mss: 1448,
        ..SubflowInfo::default()
    }
}
