//! Properties of a link: conservation, order, exact rate, loss, repeatability.

use super::*;
use crate::{DelaySpec, LossSpec, QueueSpec, RateSpec};
use proptest::prelude::*;
use tributary_types::Bitrate;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn us(n: u64) -> Instant {
    Instant::from_nanos(n * 1000)
}

fn super_frame(payload: u32, handle: u32) -> Packet<u32> {
    Packet { header: 52, payload, segment: 1448, handle }
}

/// All chunks that come out, with a poll at every timeout.
fn drain(link: &mut Link<u32>) -> Vec<Chunk<u32>> {
    let mut out = Vec::new();
    while let Some(at) = link.poll_timeout() {
        while let Some(chunk) = link.poll(at) {
            out.push(chunk);
        }
    }
    out
}

fn roomy(rate: RateSpec) -> LinkSpec {
    let queue = QueueSpec::Bytes(DataSize::from_bytes(1 << 30));
    LinkSpec { queue, ..LinkSpec::with_rate(rate) }
}

#[test]
fn ten_gigabit_does_not_drift() {
    let rate = Bitrate::from_bps(9_999_999_937); // prime: no packet takes whole nanoseconds
    let mut link = Link::new(LinkConfig::new(roomy(RateSpec::Constant(rate)), 1));
    let packets = 600_000_u64;
    for i in 0..packets {
        link.push(Instant::ZERO, Packet::whole(1500, i as u32));
    }
    let last = drain(&mut link).pop().expect("chunks").due;
    let exact = (u128::from(packets) * 1500 * 8 * 1_000_000_000).div_ceil(u128::from(rate.as_bps()));
    assert_eq!(u128::from(last.as_nanos()), exact);
}

#[test]
fn capacity_equals_the_output_of_a_saturated_link() {
    let turns = vec![(ms(15), Bitrate::from_mbps(140)), (ms(10), Bitrate::from_mbps(3))];
    let mut link = Link::new(LinkConfig::new(roomy(RateSpec::Turns(turns)), 1));
    for _ in 0..2_000 {
        link.push(Instant::ZERO, Packet::whole(1500, 0));
    }
    let end = Instant::from_millis(250);
    while link.poll(end).is_some() {}
    let capacity = link.config().capacity(Instant::ZERO, end).as_bytes();
    assert_eq!(capacity, (140 * 150 + 3 * 100) * 125);
    let delivered = link.stats().delivered.bytes;
    assert!(capacity - delivered < 1500, "{delivered} of {capacity}");
}

#[test]
fn a_dead_path_drops_silently_and_has_no_capacity() {
    let mut config = LinkConfig::new(LinkSpec::constant(Bitrate::from_mbps(12)), 1);
    config.dead = vec![(Instant::from_millis(10), Instant::from_millis(20))];
    assert_eq!(config.capacity(Instant::ZERO, Instant::from_millis(30)).as_bytes(), 30_000);
    assert_eq!(config.capacity(Instant::from_millis(12), Instant::from_millis(15)).as_bytes(), 0);
    let mut link = Link::new(config);
    for at in [0, 9, 10, 15, 20] {
        // One packet takes a millisecond: the one pushed at 9 departs at 10, in the dead window.
        link.push(Instant::from_millis(at), Packet::whole(1500, at as u32));
    }
    let handles: Vec<u32> = drain(&mut link).iter().map(|chunk| chunk.handle).collect();
    assert_eq!(handles, [0, 20]);
    assert_eq!(link.stats().dead.packets, 3);
}

#[test]
fn a_change_takes_the_place_of_the_rate_until_it_is_taken_back() {
    let turns = vec![(ms(10), Bitrate::from_mbps(12)), (ms(10), Bitrate::from_mbps(24))];
    let mut link = Link::new(LinkConfig::new(roomy(RateSpec::Turns(turns)), 1));
    for number in 0..1000 {
        link.push(Instant::ZERO, Packet::whole(1500, number));
    }
    // In the middle of a packet of the first turn, at once; back in the middle of the fourth.
    link.change(us(4500), Change { rate: Some(Bitrate::from_mbps(6)), ..Change::default() });
    link.change(us(34_500), Change::default());
    let end = Instant::from_millis(60);
    while link.poll(end).is_some() {}
    let bits = 12_000.0 * 4.5 + 6000.0 * 30.0 + 24_000.0 * 5.5 + 12_000.0 * 10.0 + 24_000.0 * 10.0;
    let capacity = |from, to| link.config().capacity(us(from), us(to)).as_bytes();
    assert_eq!(capacity(0, 60_000), (bits / 8.0) as u64);
    assert_eq!(capacity(5000, 34_000), 6000 * 29 / 8);
    assert_eq!(capacity(35_000, 36_000), 3000);
    let delivered = link.stats().delivered.bytes;
    assert!(capacity(0, 60_000).abs_diff(delivered) < 1500, "{delivered} bytes");
}

#[test]
fn a_change_blocks_and_loses() {
    let mut link = Link::new(LinkConfig::new(roomy(RateSpec::Constant(Bitrate::from_mbps(12))), 1));
    link.change(Instant::ZERO, Change { blocked: true, ..Change::default() });
    link.push(Instant::ZERO, Packet::whole(1500, 0));
    assert_eq!(link.stats().dead.packets, 1);
    assert_eq!(link.config().capacity(Instant::ZERO, Instant::from_millis(10)).as_bytes(), 0);
    link.change(Instant::from_millis(10), Change { loss: Some(1.0), ..Change::default() });
    link.push(Instant::from_millis(10), Packet::whole(1500, 1));
    assert!(drain(&mut link).is_empty());
    assert_eq!((link.stats().lost.packets, link.changed().loss), (1, Some(1.0)));
    link.change(Instant::from_millis(20), Change::default());
    link.push(Instant::from_millis(20), Packet::whole(1500, 2));
    assert_eq!(drain(&mut link).len(), 1);
}

#[test]
fn a_rate_of_zero_keeps_what_waits() {
    let mut link = Link::new(LinkConfig::new(roomy(RateSpec::Constant(Bitrate::from_mbps(12))), 1));
    link.push(Instant::ZERO, Packet::whole(1500, 0));
    link.change(us(500), Change { rate: Some(Bitrate::ZERO), ..Change::default() });
    assert_eq!(link.poll_timeout(), None);
    link.change(Instant::from_millis(100), Change::default());
    assert_eq!(drain(&mut link)[0].due, us(100_500));
}

#[test]
fn chunks_are_cut_at_two_hundred_microseconds_of_link_time() {
    let at = |mbps| {
        let mut link = Link::new(LinkConfig::new(roomy(RateSpec::Constant(Bitrate::from_mbps(mbps))), 1));
        link.push(Instant::ZERO, super_frame(1448 * 40, 0));
        drain(&mut link).iter().map(|chunk| chunk.count).collect::<Vec<_>>()
    };
    assert_eq!(at(47), [1; 40]); // 255 µs a segment
    assert_eq!(at(1000), [17, 17, 6]); // 12 µs a segment
    assert_eq!(at(10_000), [40]);
}

#[test]
fn only_a_lost_segment_ends_a_chunk() {
    let spec =
        LinkSpec { loss: LossSpec::Bernoulli(0.2), ..roomy(RateSpec::Constant(Bitrate::from_mbps(10_000))) };
    let mut link = Link::new(LinkConfig::new(spec, 3));
    link.push(Instant::ZERO, super_frame(1448 * 40, 0));
    let chunks = drain(&mut link);
    let survivors: u32 = chunks.iter().map(|chunk| chunk.count).sum();
    assert_eq!(u64::from(survivors) + link.stats().lost.packets, 40);
    for pair in chunks.windows(2) {
        assert!(pair[0].first + pair[0].count < pair[1].first, "adjacent segments were not joined: {pair:?}");
    }
}

#[test]
fn losses_have_the_configured_rate_and_burst_length() {
    let run = |loss: LossSpec| {
        let expected = loss.mean();
        let spec = LinkSpec { loss, ..roomy(RateSpec::Constant(Bitrate::from_mbps(10_000))) };
        let mut link = Link::new(LinkConfig::new(spec, 5));
        (0..200_000).for_each(|i| _ = link.push(Instant::ZERO, Packet::whole(1500, i)));
        let got: Vec<u32> = drain(&mut link).iter().map(|chunk| chunk.handle).collect();
        let bursts = got.windows(2).filter(|pair| pair[1] > pair[0] + 1).count();
        let lost = link.stats().lost.packets as f64;
        assert!((lost / 200_000.0 - expected).abs() < 0.1 * expected, "{lost} of 200000, not {expected}");
        lost / bursts as f64
    };
    assert!(run(LossSpec::Bernoulli(0.05)) < 1.1);
    let bursty = LossSpec::GilbertElliott { to_bad: 0.005, to_good: 0.1, loss_good: 0.0, loss_bad: 1.0 };
    assert!((8.0..12.0).contains(&run(bursty)));
}

#[test]
fn losses_change_at_their_steps() {
    // 1500 bytes at 1.2 Gbit/s: a packet every 10 µs.
    let loss = LossSpec::Steps(vec![(ms(0), 0.0), (ms(100), 0.5), (ms(200), 0.1)]);
    let spec = LinkSpec { loss, ..roomy(RateSpec::Constant(Bitrate::from_mbps(1200))) };
    let mut link = Link::new(LinkConfig::new(spec, 5));
    (0..30_000_u32).for_each(|i| _ = link.push(Instant::ZERO, Packet::whole(1500, i)));
    let mut lost = [10_000_i32; 3];
    drain(&mut link).iter().for_each(|chunk| lost[chunk.handle as usize / 10_000] -= 1);
    assert_eq!(lost[0], 0);
    assert!((4800..5200).contains(&lost[1]) && (900..1100).contains(&lost[2]), "{lost:?}");
}

#[test]
fn a_queue_that_follows_the_rate_is_short_when_the_rate_is_low() {
    let turns = vec![(ms(100), Bitrate::from_mbps(100)), (ms(100), Bitrate::from_mbps(1))];
    let floor = DataSize::from_bytes(3_000);
    let queue = QueueSpec::Time { time: ms(50), floor };
    let spec = LinkSpec { queue, ..LinkSpec::with_rate(RateSpec::Turns(turns)) };
    let fill = |at| {
        let mut link = Link::new(LinkConfig::new(spec.clone(), 1));
        (0..1000).for_each(|i| _ = link.push(Instant::from_millis(at), Packet::whole(1500, i)));
        link.stats().queued.bytes
    };
    assert_eq!(fill(0), 625_000 / 1500 * 1500);
    assert_eq!(fill(150), 6_250 / 1500 * 1500);
}

#[test]
fn codel_limits_the_waiting_time_of_unresponsive_traffic_by_dropping_at_the_head() {
    let codel = QueueSpec::Codel {
        target: QueueSpec::CODEL_TARGET,
        interval: QueueSpec::CODEL_INTERVAL,
        limit: QueueSpec::CODEL_LIMIT,
    };
    let run = |queue: QueueSpec| {
        let spec = LinkSpec { queue, ..LinkSpec::constant(Bitrate::from_mbps(12)) };
        let mut link = Link::new(LinkConfig::new(spec, 1));
        let mut waited = Vec::new();
        for i in 0..30_000_u32 {
            // 2 % more than the link's capacity: 12.24 Mbit/s for 29 s.
            let now = Instant::from_nanos(u64::from(i) * 980_392);
            while let Some(chunk) = link.poll(now) {
                waited.push(chunk.due.saturating_since(chunk.arrived));
            }
            link.push(now, Packet::whole(1500, i));
        }
        (waited[waited.len() - 5_000..].iter().sum::<Duration>() / 5_000, *link.stats())
    };
    let (tail, _) = run(QueueSpec::Bytes(QueueSpec::CODEL_LIMIT));
    let (managed, stats) = run(codel);
    assert!(tail > ms(500), "a queue of 1000 packets fills up: {tail:?}");
    assert!(managed < ms(40), "{managed:?}");
    assert!(stats.managed.packets > 300 && stats.overflowed.packets == 0, "{stats:?}");
    assert!(stats.is_conserved());
}

#[test]
fn a_driver_wakes_up_once_for_each_packet() {
    let wake_ups = |delay: DelaySpec, loss: LossSpec, gap: u64| {
        let spec = LinkSpec { delay, loss, ..roomy(RateSpec::Constant(Bitrate::from_mbps(12))) };
        let mut link = Link::new(LinkConfig::new(spec, 1));
        let mut count = 0;
        for i in 0..500_u32 {
            let now = Instant::from_millis(gap * u64::from(i));
            while let Some(at) = link.poll_timeout().filter(|at| *at <= now) {
                while link.poll(at).is_some() {}
                count += 1;
            }
            link.push(now, Packet::whole(1500, i));
        }
        count
    };
    // A packet takes a millisecond: queued one after the other, or alone on the link.
    for gap in [1, 5] {
        assert!((490..=500).contains(&wake_ups(DelaySpec::fixed(ms(7)), LossSpec::None, gap)));
        assert!((490..=500).contains(&wake_ups(DelaySpec::default(), LossSpec::None, gap)));
        let jitter = DelaySpec { base: ms(3), jitter: ms(2), changes: vec![] };
        assert!(wake_ups(jitter.clone(), LossSpec::None, gap) <= 500);
        assert!(wake_ups(jitter, LossSpec::Bernoulli(0.1), gap) <= 500);
    }
}

#[test]
fn only_the_segments_that_fit_are_queued() {
    let queue = QueueSpec::Packets(10);
    let spec = LinkSpec { queue, ..LinkSpec::constant(Bitrate::from_mbps(10)) };
    let mut link = Link::new(LinkConfig::new(spec, 1));
    assert_eq!(link.push(Instant::ZERO, super_frame(1448 * 12, 0)), 2);
    assert_eq!(link.push(Instant::ZERO, super_frame(1448, 1)), 1);
    assert_eq!(drain(&mut link).iter().map(|chunk| chunk.count).sum::<u32>(), 10);
}

#[test]
fn a_shorter_delay_never_reorders() {
    let delay = DelaySpec { base: ms(50), jitter: ms(20), changes: vec![(ms(10), ms(1))] };
    let spec = LinkSpec { delay, ..roomy(RateSpec::Constant(Bitrate::from_mbps(12))) };
    let mut link = Link::new(LinkConfig::new(spec, 1));
    (0..30).for_each(|i| _ = link.push(Instant::ZERO, Packet::whole(1500, i)));
    let out = drain(&mut link);
    assert!(out.windows(2).all(|pair| pair[0].due <= pair[1].due && pair[0].handle < pair[1].handle));
    assert!(out[0].due >= Instant::from_millis(51) && out[29].due <= Instant::from_millis(80));
}

fn any_rate() -> impl Strategy<Value = RateSpec> {
    let mbps = |low| (low..2_000_u64).prop_map(Bitrate::from_mbps);
    let turn = (1..20_u64, mbps(0)).prop_map(|(t, rate)| (ms(t), rate));
    prop_oneof![
        mbps(1).prop_map(RateSpec::Constant),
        prop::collection::vec(turn, 1..5).prop_map(|mut turns| {
            turns.push((ms(5), Bitrate::from_mbps(7)));
            RateSpec::Turns(turns)
        }),
        (mbps(1), mbps(0), 1..9_u64).prop_map(|(mean, deviation, t)| RateSpec::Gaussian {
            mean,
            deviation,
            every: ms(t)
        }),
        (mbps(1), 1..9_u64, 1..9_u64).prop_map(|(clear, mean, shortest)| RateSpec::Blockage {
            clear,
            blocked: Bitrate::ZERO,
            clear_mean: ms(mean),
            shortest: ms(shortest),
            longest: ms(9),
        }),
    ]
}

fn any_spec() -> impl Strategy<Value = LinkSpec> {
    let queue = prop_oneof![
        (1_500..500_000_u64).prop_map(|b| QueueSpec::Bytes(DataSize::from_bytes(b))),
        (1..300_u64).prop_map(QueueSpec::Packets),
        (1..50_u64).prop_map(|t| QueueSpec::Time { time: ms(t), floor: QueueSpec::DEFAULT_FLOOR }),
        (1..5_u64, 5..50_u64).prop_map(|(target, interval)| QueueSpec::Codel {
            target: ms(target),
            interval: ms(interval),
            limit: DataSize::from_bytes(500_000),
        }),
    ];
    let loss = prop_oneof![Just(LossSpec::None), (0.0..0.3).prop_map(LossSpec::Bernoulli)];
    let delay = (0..30_u64, 0..5_u64).prop_map(|(base, jitter)| DelaySpec {
        base: ms(base),
        jitter: ms(jitter),
        changes: vec![],
    });
    (any_rate(), delay, loss, queue).prop_map(|(rate, delay, loss, queue)| LinkSpec {
        rate,
        delay,
        loss,
        queue,
    })
}

/// `(gap before it in µs, payload, segment size)` of each packet pushed.
fn any_traffic() -> impl Strategy<Value = Vec<(u64, u32, u32)>> {
    prop::collection::vec(
        (0..3_000_u64, 1..65_000_u32, prop_oneof![Just(0), Just(1448_u32), Just(100)]),
        1..60,
    )
}

/// Handles from here on are those of packets that are not segmented.
const WHOLE: u32 = 1_000;

type Seen = (u32, u32, u32, Instant);

/// Polls at every timeout up to `end`; checks that chunks are on time, except those due before the first
/// poll.
fn drain_until(link: &mut Link<u32>, end: Instant) -> Vec<Seen> {
    let mut out = Vec::new();
    let start = link.poll_timeout().unwrap_or_default();
    while let Some(at) = link.poll_timeout().filter(|at| *at <= end) {
        while let Some(c) = link.poll(at) {
            // The completion of a chunk with several segments is known at most one span later; whole packets are on
            // time.
            let late = at.saturating_since(c.due);
            let most = if c.handle >= WHOLE { Duration::ZERO } else { CHUNK_SPAN + Duration::from_nanos(1) };
            assert!(late <= most || at == start, "polled at the timeout, {at}, this was due at {}", c.due);
            out.push((c.handle, c.first, c.count, c.due));
        }
    }
    out
}

/// Sends the traffic through the link; `eager` polls at every timeout, otherwise only at each push.
fn run(spec: &LinkSpec, seed: u64, traffic: &[(u64, u32, u32)], eager: bool) -> (Vec<Seen>, LinkStats) {
    let mut link = Link::new(LinkConfig::new(spec.clone(), seed));
    let mut now = Instant::ZERO;
    let mut seen = Vec::new();
    for (i, &(gap, payload, segment)) in traffic.iter().enumerate() {
        let next = now + Duration::from_micros(gap);
        if eager {
            seen.extend(drain_until(&mut link, next));
        }
        now = next;
        let handle = i as u32 + if segment == 0 { WHOLE } else { 0 };
        link.push(now, Packet { header: 52, payload, segment, handle });
        assert!(link.stats().is_conserved(), "{:?}", link.stats());
    }
    seen.extend(drain_until(&mut link, Instant::MAX));
    (seen, *link.stats())
}

proptest! {
    #[test]
    fn everything_is_conserved_ordered_and_independent_of_polling(
        spec in any_spec(), seed in any::<u64>(), traffic in any_traffic()
    ) {
        let (seen, stats) = run(&spec, seed, &traffic, true);
        prop_assert!(stats.is_conserved());
        prop_assert_eq!((stats.queued.packets, stats.in_flight.packets), (0, 0));
        for pair in seen.windows(2) {
            prop_assert!(pair[0].3 <= pair[1].3, "chunks are out of order");
            let (before, after) = (pair[0].0 % WHOLE, pair[1].0 % WHOLE);
            let end = pair[0].1 + pair[0].2;
            prop_assert!(before < after || (before == after && end <= pair[1].1), "reordered");
        }
        // Again, polled lazily: the same bytes at the same times.
        let (lazy, lazy_stats) = run(&spec, seed, &traffic, false);
        prop_assert_eq!(seen, lazy);
        prop_assert_eq!(stats, lazy_stats);
    }

    #[test]
    fn a_link_is_never_faster_than_its_capacity(spec in any_spec(), seed in any::<u64>(), traffic in any_traffic()) {
        let spec = LinkSpec { delay: DelaySpec::default(), ..spec };
        let mut link = Link::new(LinkConfig::new(spec, seed));
        for (i, &(_, payload, segment)) in traffic.iter().enumerate() {
            link.push(Instant::ZERO, Packet { header: 52, payload, segment, handle: i as u32 });
        }
        let mut bytes = 0;
        for chunk in drain(&mut link) {
            bytes += chunk.length;
            let capacity = link.config().capacity(Instant::ZERO, chunk.due).as_bytes();
            prop_assert!(bytes <= capacity + 1, "{bytes} B by {} with capacity {capacity} B", chunk.due);
        }
    }
}
