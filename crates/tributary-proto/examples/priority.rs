//! Measures the time of a decision about a prioritised segment, and shows that a decision allocates no memory.
//!
//! `cargo run --release -p tributary-proto --example priority`

use core::time::Duration;
use std::hint::black_box;
use std::time::Instant as Clock;

use tributary_proto::scheduler::{NumberedStream, Scheduler, SchedulerEvent, SubflowView, create};
use tributary_types::{Bitrate, Instant, PathId, Rng, SubflowId};

const SUBFLOWS: u32 = 8;
const ROUNDS: u32 = 4;
/// Number of measurements; the smallest result is reported, because it is the least disturbed by other load.
const TRIES: u32 = 200;
/// Segments in one measurement. Each needs one decision.
const SEGMENTS: u32 = 2_000;

fn view(id: u32, rng: &mut Rng) -> SubflowView {
    let rtt = Duration::from_micros(5_000 + rng.below(50_000));
    SubflowView {
        id: SubflowId(id),
        path: PathId(id as u8),
        room: 1 << 20,
        srtt: rtt,
        rttvar: rtt / 8,
        min_rtt: rtt,
        least_delay: rtt,
        usual_blockage: Duration::ZERO,
        cwnd: 1 << 16,
        in_flight: rng.below(1 << 18),
        delivered: 0,
        rate: Some(Bitrate::from_mbps(10 + rng.below(400))),
        long_rate: None,
        sustained_rate: None,
        oldest_sent: None,
        silent: false,
        rank: id as u8,
    }
}

/// Which data is prioritised.
#[derive(Clone, Copy, PartialEq)]
enum First {
    Nothing,
    /// Every segment is prioritised, as in the paper.
    Segment,
    /// The stream has a priority, as in the product.
    Stream,
}

/// Mean time of an assignment in nanoseconds when assignments are `apart` from each other. A history is extended
/// at most every 5 ms.
#[expect(clippy::disallowed_methods, reason = "an example that measures reads the clock")]
fn cost(name: &str, first: First, apart: Duration) -> f64 {
    let mut rng = Rng::new(1);
    let mut scheduler: Box<dyn Scheduler> = create(name, rng.child("scheduler")).expect("it is known");
    let mut now = Instant::from_millis(1);
    for id in 0..SUBFLOWS {
        scheduler.on_event(now, SchedulerEvent::SubflowUp(SubflowId(id)));
    }
    let mut stream = NumberedStream::new(64 << 20);
    stream.prioritise_every(u64::from(first == First::Segment));
    stream.prioritise(u8::from(first == First::Stream));
    stream.allow(u64::MAX / 4);
    let mut views: Vec<_> = (0..SUBFLOWS).map(|id| view(id, &mut rng)).collect();
    // Fills the histories.
    for _ in 0..200 {
        now += Duration::from_millis(6);
        views = (0..SUBFLOWS).map(|id| view(id, &mut rng)).collect();
        let _ = scheduler.assign(now, &stream.view(1 << 20), &views);
    }
    let (mut spent, mut count) = (Duration::ZERO, 0_u32);
    let mut acknowledged = 0;
    for _ in 0..ROUNDS {
        stream.write(u64::from(SEGMENTS) * 1448);
        for _ in 0..SEGMENTS {
            now += apart;
            let assignment = loop {
                let window = stream.view(1 << 20);
                let began = Clock::now();
                let assignment = black_box(scheduler.assign(now, &window, &views));
                spent += began.elapsed();
                if assignment.is_some() {
                    count += 1;
                    break assignment;
                }
                let Some(load) = scheduler.load(now, &window, &views) else { break None };
                let (first, end) = stream.load(load, 1448);
                if first == end {
                    break None;
                }
                scheduler.on_event(now, SchedulerEvent::Loaded { first, end });
            };
            let Some(assignment) = assignment else { break };
            let extent = stream.extent(assignment.segment).expect("it is held");
            stream.sent(now, assignment.segment, assignment.subflow, 0);
            acknowledged = acknowledged.max(extent.0 + u64::from(extent.1));
        }
        stream.acknowledge(acknowledged);
    }
    spent.as_nanos() as f64 / f64::from(count.max(1))
}

/// Time to read the clock. Every result below includes it.
#[expect(clippy::disallowed_methods, reason = "an example that measures reads the clock")]
fn clock() -> f64 {
    let mut spent = Duration::ZERO;
    for _ in 0..10_000 {
        let began = Clock::now();
        spent += began.elapsed();
    }
    spent.as_nanos() as f64 / 1e4
}

fn main() {
    let least = |of: &dyn Fn() -> f64| (0..TRIES).map(|_| of()).fold(f64::MAX, f64::min);
    let clock = least(&clock);
    let (together, often, seldom) = (Duration::ZERO, Duration::from_millis(1), Duration::from_millis(6));
    let bulk = least(&|| cost("round-robin", First::Nothing, together));
    let decided = least(&|| cost("avira", First::Segment, together));
    let rhythm = least(&|| cost("avira", First::Segment, often));
    let observed = least(&|| cost("avira", First::Segment, seldom));
    let product = least(&|| cost("avira+round-robin", First::Stream, together));
    let product_rhythm = least(&|| cost("avira+round-robin", First::Stream, often));
    println!(
        "{SUBFLOWS} subflows, 64 samples each; ns per assignment, least of {TRIES}, clock of {clock:.0} ns included"
    );
    println!("round-robin alone                        {bulk:6.0}");
    println!("avira, every segment decided by forecast {decided:6.0}");
    println!("  a decision                             {:6.0}", decided - bulk);
    println!("  one a millisecond                      {rhythm:6.0}");
    println!("  all histories extended each time       {observed:6.0}");
    println!("  extending one history and fitting it   {:6.0}", (observed - decided) / f64::from(SUBFLOWS));
    println!("avira+round-robin, with copies           {product:6.0}");
    println!("  one a millisecond                      {product_rhythm:6.0}");
}
