//! A gateway, two access points and a device in virtual time, over links that lose packets.

use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeSet;
use tributary_coding::rlnc::{Encoder, Vector, VectorSet};
use tributary_types::{Instant, Rng};

fn config(mode: Mode) -> Config {
    let (interval, patience) = (Duration::from_millis(5), Duration::from_millis(10));
    Config { mode, interval, patience, redundancy: 300, ..Config::new(CoefficientKey::new([5; 32])) }
}

/// The whole network; one packet per link and step at most.
struct World {
    now: Instant,
    config: Config,
    gateway: Gateway,
    points: Vec<AccessPoint>,
    device: Device,
    rng: Rng,
    loss: f64,
    /// Whether each access point's link to the device works.
    alive: [bool; 2],
    /// Most packets that wait at an access point; the gateway keeps the others back.
    room: usize,
    delivered: Vec<u32>,
}

const STEP: Duration = Duration::from_micros(50);

impl World {
    fn new(mode: Mode, loss: f64, label: u32) -> Self {
        let config = config(mode);
        Self {
            now: Instant::from_millis(1),
            gateway: Gateway::starting_at(config.clone(), 7, label),
            points: (0..2).map(|number| AccessPoint::new(config.clone(), number, 1)).collect(),
            device: Device::new(config.clone(), 2),
            config,
            rng: Rng::new(4),
            loss,
            alive: [true; 2],
            room: usize::MAX,
            delivered: Vec::new(),
        }
    }

    fn is_lost(&mut self) -> bool {
        self.rng.uniform() < self.loss
    }

    /// One step: every link carries up to two packets, redundant ones included.
    fn step(&mut self) {
        self.now += STEP;
        self.gateway.handle_timeout(self.now);
        self.device.handle_timeout(self.now);
        // The link that is served first changes from step to step.
        let parity = (self.now.as_nanos() / STEP.as_nanos() as u64 % 2) as usize;
        if let Some(flush) = self.gateway.poll_flush() {
            self.points.iter_mut().for_each(|point| point.handle_packet(self.now, 0, flush.clone()));
        }
        for first in [parity, 1 - parity, parity, 1 - parity] {
            if self.points[first].waiting() < self.room
                && let Some(bytes) = self.gateway.poll_transmit(true)
                && !self.is_lost()
            {
                self.points[first].handle_packet(self.now, 0, bytes);
            }
        }
        self.points.iter_mut().for_each(|point| point.handle_timeout(self.now));
        for link in [0, 1, 0, 1] {
            if let Some(bytes) = self.points[link].poll_transmit(true)
                && self.alive[link]
                && !self.is_lost()
            {
                self.device.handle_packet(self.now, link, &bytes);
            }
        }
        self.points.iter_mut().for_each(AccessPoint::give);
        if let Some(report) = self.device.poll_report() {
            self.points.iter_mut().for_each(|point| point.handle_report(&report));
            self.gateway.handle_report(&report);
        }
        while let Some(packet) = self.device.poll_delivery() {
            self.delivered.push(u32::from_be_bytes(packet[..4].try_into().expect("a numbered packet")));
        }
    }

    /// Sends `count` numbered packets of different sizes, one per step, then lets all settle.
    fn run(&mut self, numbers: core::ops::Range<u32>) {
        for number in numbers {
            let mut packet = number.to_be_bytes().to_vec();
            packet.resize(20 + (number as usize * 37) % 300, 1);
            self.gateway.handle_packet(self.now, u64::from(number % 3), &packet);
            self.step();
        }
        (0..1000).for_each(|_| self.step());
    }

    fn is_ordered(&self, mode: Mode) -> bool {
        let flows = if mode == Mode::Paper { 3 } else { 1 };
        (0..flows).all(|flow| {
            let of_flow: Vec<u32> = self.delivered.iter().copied().filter(|n| n % flows == flow).collect();
            of_flow.is_sorted()
        })
    }

    fn counters_are_clean(&self) {
        let all = [self.gateway.counters(), self.points[0].counters(), self.device.counters()];
        for counters in all {
            assert_eq!((counters.malformed, counters.mislabelled, counters.ahead), (0, 0, 0), "{counters:?}");
        }
    }
}

#[test]
fn without_loss_every_packet_arrives_once_and_in_order_in_both_modes() {
    for mode in [Mode::Systematic, Mode::Paper] {
        let mut world = World::new(mode, 0.0, 1);
        world.run(0..2000);
        let unique: BTreeSet<u32> = world.delivered.iter().copied().collect();
        assert_eq!(
            (unique.len(), world.delivered.len()),
            (2000, 2000),
            "{mode:?} {:?}",
            world.device.counters()
        );
        assert!(world.is_ordered(mode));
        world.counters_are_clean();
        assert_eq!(world.device.held(), 0);
    }
}

#[test]
fn loss_on_every_link_is_repaired() {
    for mode in [Mode::Systematic, Mode::Paper] {
        let mut world = World::new(mode, 0.05, 1);
        world.run(0..4000);
        let share = world.delivered.len() as f64 / 4000.0;
        assert!(share >= 0.99, "{mode:?} delivers {share}: {:?}", world.device.counters());
        assert!(world.is_ordered(mode));
        assert!(world.device.counters().recovered > 100);
        world.counters_are_clean();
    }
}

#[test]
fn a_lone_packet_is_not_held_longer_than_the_timer() {
    for mode in [Mode::Systematic, Mode::Paper] {
        let mut world = World::new(mode, 0.0, 1);
        world.gateway.handle_packet(world.now, 0, &[0, 0, 0, 9, 1]);
        let begin = world.now;
        while world.delivered.is_empty() {
            world.step();
            let waited = world.now.saturating_since(begin);
            assert!(waited <= 2 * world.config.interval + Duration::from_millis(1), "{mode:?}");
        }
        assert_eq!(world.delivered, [9]);
    }
}

/// Sends `sizes.len()` bursts, each as fast as one cohort allows, the next after the interval, and returns how many packets arrive.
fn deliver_bursts(mode: Mode, room: usize, sizes: &[u32]) -> usize {
    let mut world = World::new(mode, 0.0, 1);
    world.room = room;
    let mut number = 0_u32;
    for size in sizes {
        for _ in 0..*size {
            world.gateway.handle_packet(world.now, 0, &number.to_be_bytes());
            number += 1;
        }
        (0..world.config.interval.as_nanos() / STEP.as_nanos()).for_each(|_| world.step());
    }
    (0..4000).for_each(|_| world.step());
    assert_eq!(world.device.held(), 0);
    world.delivered.len()
}

#[test]
fn a_burst_larger_than_the_room_of_all_access_points_arrives_whole() {
    for mode in [Mode::Systematic, Mode::Paper] {
        for burst in [60, 120, 160, 400, 1000] {
            assert_eq!(deliver_bursts(mode, 60, &[burst]), burst as usize, "{mode:?}");
        }
        assert_eq!(deliver_bursts(mode, 60, &[300, 100]), 400, "{mode:?}: a burst in two cohorts");
        // An access point without room for a whole cohort delays it, and takes what follows.
        assert_eq!(deliver_bursts(mode, 10, &[160, 0, 0, 0, 160]), 320, "{mode:?}");
    }
}

#[test]
fn a_silent_incoming_link_delays_a_label_and_does_not_hold_it() {
    let (mut now, config) = (Instant::from_millis(1), config(Mode::Paper));
    let mut point = AccessPoint::new(config.clone(), 0, 2);
    let mut sent = 0;
    for label in 1..20 {
        let payload = Payload::Coded(Vector::Random(0), Bytes::from_static(&[0, 4, 0, 0, 0, 7]));
        point.handle_packet(now, 0, encode(&Header { symbols: 5, ..header(label) }, &payload));
        now += config.interval / 2;
        point.handle_timeout(now);
        sent += core::iter::from_fn(|| point.poll_transmit(false)).count();
        now += config.interval / 2;
        point.handle_timeout(now);
        sent += core::iter::from_fn(|| point.poll_transmit(false)).count();
    }
    assert!(sent >= 17, "the other link never sends, and {sent} of 19 packets were forwarded");
    assert!(point.poll_timeout().is_none_or(|at| at <= now + 2 * config.interval));
}

#[test]
fn labels_wrap() {
    for mode in [Mode::Systematic, Mode::Paper] {
        let mut world = World::new(mode, 0.0, u32::MAX - 3);
        world.run(0..2000);
        assert!(ahead(world.gateway.label(), u32::MAX) > 0, "the label has wrapped");
        assert_eq!(world.delivered.len(), 2000, "{mode:?} {:?}", world.device.counters());
        assert!(world.is_ordered(mode));
    }
}

#[test]
fn one_access_point_gone_does_not_stall_delivery() {
    let mut world = World::new(Mode::Systematic, 0.0, 1);
    world.alive = [true, false];
    world.run(0..1000);
    // Half of the originals are lost; the others must arrive, and the timeout must end cohorts.
    assert!(world.delivered.len() >= 450, "{}", world.delivered.len());
    assert!(world.is_ordered(Mode::Systematic));
    assert_eq!(world.device.held(), 0);
}

#[test]
fn a_restarted_gateway_begins_anew_and_its_old_packets_are_refused() {
    let mut world = World::new(Mode::Systematic, 0.0, 1);
    world.gateway.handle_packet(world.now, 0, &[0, 0, 0, 1]);
    let Some(old) = world.gateway.poll_transmit(false) else { panic!("an original") };
    world.run(2..500);
    world.gateway = Gateway::new(world.config.clone(), 8);
    world.run(500..1000);
    assert_eq!(world.delivered.len(), 999, "the packet that was taken away is recovered");
    let before = world.device.counters();
    world.device.handle_packet(world.now, 0, &old);
    world.points[0].handle_packet(world.now, 0, old);
    assert_eq!(world.device.counters().stale, before.stale + 1);
    assert_eq!(world.points[0].counters().stale, 1);
    world.run(1000..1200);
    assert_eq!(world.delivered.len(), 1199);
}

#[test]
fn a_gateway_that_restarts_with_its_clock_set_back_is_accepted_in_the_end() {
    let mut world = World::new(Mode::Systematic, 0.0, 1);
    world.run(0..500);
    assert_eq!(world.delivered.len(), 500);
    world.gateway = Gateway::new(world.config.clone(), 3);
    world.run(500..3000);
    let stale = world.device.counters().stale + world.points[0].counters().stale;
    assert!(stale > 0, "an older epoch is refused at first");
    world.run(3000..3100);
    let last: Vec<u32> = (3000..3100).collect();
    assert_eq!(world.delivered[world.delivered.len() - 100..], last, "{:?}", world.device.counters());
}

#[test]
fn a_complete_generation_is_reported_so_that_no_more_of_it_is_sent() {
    let mut world = World::new(Mode::Systematic, 0.0, 1);
    let mut device = Device::new(world.config.clone(), 1);
    for number in 0..200_u32 {
        world.gateway.handle_packet(world.now, 0, &number.to_be_bytes());
    }
    while let Some(bytes) = world.gateway.poll_transmit(false) {
        device.handle_packet(world.now, 0, &bytes);
    }
    let report = device.poll_report().expect("one cohort is complete");
    let (_, Payload::Report(needs)) = decode(&report).expect("a report") else { panic!("a report") };
    assert_eq!(needs, [Need { label: 1, generation: 0, packets: 0 }]);
    world.gateway.handle_report(&report);
    assert_eq!(world.gateway.poll_transmit(true), None, "nothing redundant of a complete cohort");
    assert_eq!(device.poll_report(), None);
}

fn header(label: u32) -> Header {
    Header { high: true, epoch: 7, label, generations: 1, ..Header::default() }
}

fn original(label: u32, index: u16, symbols: u16, previous: u16) -> Bytes {
    let body = Bytes::from_static(&[0, 4, 0, 0, 0, 7]);
    encode(&Header { symbols, previous, ..header(label) }, &Payload::Coded(Vector::Original(index), body))
}

#[test]
fn packets_that_contradict_their_cohort_are_counted_and_spoil_nothing() {
    let mut device = Device::new(config(Mode::Systematic), 1);
    let now = Instant::from_millis(1);
    device.handle_packet(now, 0, &original(1, 0, 0, 0));
    let shape = config(Mode::Systematic).generation(7, 1, 0, 5).expect("a size");
    let mut encoder = Encoder::new(shape, vec![vec![0, 4, 0, 0, 0, 7]; 5]);
    let right = encoder.encode(&[Vector::Cauchy(0)]).expect("a row").remove(0);
    let row = |symbols, row| {
        let payload = Payload::Coded(Vector::Cauchy(row), right.clone());
        encode(&Header { symbols, ..header(1) }, &payload)
    };
    device.handle_packet(now, 0, &row(5, 0));
    let wrong = [
        row(6, 0),
        row(5, 251),
        original(1, 5, 0, 0),
        encode(
            &Header { symbols: 5, ..header(1) },
            &Payload::Coded(Vector::Random(0), Bytes::from_static(b"x")),
        ),
        encode(
            &Header { symbols: 5, generations: 2, ..header(1) },
            &Payload::Coded(Vector::Cauchy(1), Bytes::from_static(b"x")),
        ),
    ];
    for (count, packet) in wrong.iter().enumerate() {
        device.handle_packet(now, 0, packet);
        assert_eq!(device.counters().mislabelled, count as u64 + 1, "packet {count}");
    }
    device.handle_packet(now, 9, &original(1, 1, 0, 0));
    assert_eq!(device.counters().mislabelled, 6, "a link that does not exist");
    // One label far ahead changes nothing.
    device.handle_packet(now, 0, &original(90_000, 0, 0, 0));
    assert_eq!(device.counters().ahead, 1);
    for index in 1..5 {
        device.handle_packet(now, 0, &original(1, index, 0, 0));
    }
    assert_eq!(core::iter::from_fn(|| device.poll_delivery()).count(), 5);
}

#[test]
fn a_device_that_was_disconnected_resumes() {
    let mut device = Device::new(config(Mode::Systematic), 1);
    let now = Instant::from_millis(1);
    device.handle_packet(now, 0, &original(1, 0, 0, 0));
    for index in 0..100 {
        device.handle_packet(now, 0, &original(90_000, index, 0, 0));
    }
    assert_eq!(device.counters().ahead, 31);
    device.handle_timeout(now + Duration::from_secs(1));
    assert_eq!(core::iter::from_fn(|| device.poll_delivery()).count(), 1 + 69);
}

#[test]
fn an_access_point_whose_link_was_blocked_forwards_all_that_follows() {
    let mut point = AccessPoint::new(config(Mode::Systematic), 0, 1);
    point.handle_packet(Instant::ZERO, 0, original(1, 0, 0, 0));
    assert!(point.poll_transmit(false).is_some());
    // Meanwhile another access point carried 200 cohorts.
    let sent: Vec<Bytes> = (0..100).map(|index| original(201, index, 0, 0)).collect();
    sent.iter().for_each(|packet| point.handle_packet(Instant::ZERO, 0, packet.clone()));
    let forwarded: Vec<Bytes> = core::iter::from_fn(|| point.poll_transmit(false)).collect();
    assert_eq!(forwarded, sent);
    assert_eq!(point.counters().ahead, 0);
    // A few wrong labels are dropped by the next right one.
    (0..5).for_each(|index| point.handle_packet(Instant::ZERO, 0, original(90_000, index, 0, 0)));
    point.handle_packet(Instant::ZERO, 0, original(202, 0, 0, 0));
    assert_eq!(core::iter::from_fn(|| point.poll_transmit(false)).count(), 1);
    assert_eq!(point.counters().ahead, 5);
}

/// Redundant packets that a gateway and an access point send for a cohort of 140 packets, at a limit of 30 %.
fn redundant(loss: Option<f64>) -> (usize, usize) {
    let config = config(Mode::Systematic);
    let (mut gateway, mut now) = (Gateway::new(config.clone(), 7), Instant::from_millis(1));
    let mut point = AccessPoint::new(config.clone(), 0, 1);
    gateway.expect_losses([None, loss]);
    point.expect_loss(loss);
    (0..140_u32).for_each(|number| gateway.handle_packet(now, 0, &number.to_be_bytes()));
    now += config.interval;
    gateway.handle_timeout(now);
    while let Some(bytes) = gateway.poll_transmit(true) {
        point.handle_packet(now, 0, bytes);
    }
    let own = gateway.counters().taken as usize;
    while point.poll_transmit(true).is_some() {}
    (own, point.counters().taken as usize - own)
}

#[test]
fn redundancy_follows_the_expected_loss_up_to_the_limit() {
    assert_eq!(redundant(None).0, 42, "30 % while no loss is known");
    assert_eq!(redundant(Some(0.0)), (1, 0));
    // All packets took this access point, so the gateway's redundant packets are enough.
    assert_eq!(redundant(Some(0.001)), (3, 0));
    assert_eq!(redundant(Some(0.05)), (16, 0));
    assert_eq!(redundant(Some(0.9)).0, 42);
}

#[test]
fn redundancy_for_the_expected_loss_repairs_it() {
    let mut world = World::new(Mode::Systematic, 0.02, 1);
    world.gateway.expect_losses([Some(0.04); 2]);
    world.points.iter_mut().for_each(|point| point.expect_loss(Some(0.02)));
    world.run(0..8000);
    let (device, sent) = (world.device.counters(), world.gateway.counters());
    // Before the repair 4 % were lost, on two hops.
    assert!(device.lost < 40, "{device:?}");
    assert!(sent.taken < 8000 / 8, "{sent:?}");
}

#[test]
fn a_full_buffer_drops_low_packets_first() {
    let small = Config { buffer: 4, ..config(Mode::Systematic) };
    let mut point = AccessPoint::new(small, 0, 1);
    for index in 0..3 {
        point.handle_packet(Instant::ZERO, 0, original(1, index, 0, 0));
    }
    let low = |row| {
        let body = Bytes::from_static(&[1; 6]);
        encode(&Header { high: false, symbols: 9, ..header(1) }, &Payload::Coded(Vector::Cauchy(row), body))
    };
    point.handle_packet(Instant::ZERO, 0, low(0));
    point.handle_packet(Instant::ZERO, 0, low(1));
    assert_eq!((point.waiting(), point.counters().full), (4, 1));
    // Two high-priority packets: the first displaces the low-priority one, the second finds only
    // high-priority ones.
    point.handle_packet(Instant::ZERO, 0, original(1, 3, 0, 0));
    point.handle_packet(Instant::ZERO, 0, original(1, 4, 0, 0));
    assert_eq!((point.waiting(), point.counters().full), (4, 3));
    while let Some(packet) = point.poll_transmit(false) {
        assert!(decode(&packet).expect("a packet").0.high);
    }
}

#[test]
fn an_access_point_gives_up_what_two_later_cohorts_overtake() {
    let mut point = AccessPoint::new(config(Mode::Systematic), 0, 1);
    for label in [1, 2] {
        point.handle_packet(Instant::ZERO, 0, original(label, 0, 0, 0));
    }
    let body = Bytes::from_static(&[0, 4, 0, 0, 0, 7]);
    let row = Header { high: false, symbols: 5, ..header(1) };
    point.handle_packet(Instant::ZERO, 0, encode(&row, &Payload::Coded(Vector::Cauchy(0), body)));
    assert_eq!(point.waiting(), 3);
    point.handle_packet(Instant::ZERO, 0, original(3, 0, 0, 0));
    // The redundant packet of cohort 1 is dropped; its original is kept.
    assert_eq!((point.waiting(), point.counters().given), (3, 1));
    let row = Header { high: false, symbols: 5, ..header(1) };
    let body = Bytes::from_static(&[0, 4, 0, 0, 0, 7]);
    point.handle_packet(Instant::ZERO, 0, encode(&row, &Payload::Coded(Vector::Cauchy(1), body)));
    assert_eq!((point.waiting(), point.counters().late), (3, 1));
}

#[test]
fn labels_that_are_read_at_once_are_sent_if_the_link_has_room() {
    let mut point = AccessPoint::new(config(Mode::Paper), 0, 1);
    for label in 1..=4 {
        let payload = Payload::Coded(Vector::Random(0), Bytes::from_static(&[0, 4, 0, 0, 0, 7]));
        point.handle_packet(Instant::ZERO, 0, encode(&Header { symbols: 5, ..header(label) }, &payload));
    }
    let first = point.poll_transmit(false).expect("nothing was given up before the link was asked");
    assert_eq!(decode(&first).expect("a packet").0.label, 1);
    // The link takes no more: what two later cohorts have overtaken is dropped.
    point.give();
    assert_eq!((point.waiting(), point.counters().given), (2, 1));
}

#[test]
fn an_original_that_another_access_point_gave_back_is_forwarded() {
    for (mode, forwarded) in [(Mode::Systematic, 3), (Mode::Paper, 2)] {
        let mut point = AccessPoint::new(config(mode), 0, 1);
        let symbol = |label, symbols| match mode {
            Mode::Systematic => original(label, 0, 0, 0),
            Mode::Paper => {
                let body = Bytes::from_static(&[0, 4, 0, 0, 0, 7]);
                encode(&Header { symbols, ..header(label) }, &Payload::Coded(Vector::Random(0), body))
            }
        };
        for label in [40, 41, 3] {
            point.handle_packet(Instant::ZERO, 0, symbol(label, 5));
        }
        assert_eq!((point.waiting(), point.counters().late), (forwarded, 3 - forwarded as u64), "{mode:?}");
    }
}

#[test]
fn oversize_and_empty_packets_are_refused_by_the_gateway() {
    let mut gateway = Gateway::new(config(Mode::Systematic), 1);
    gateway.handle_packet(Instant::ZERO, 0, &[]);
    gateway.handle_packet(Instant::ZERO, 0, &vec![0; MAX_PACKET + 1]);
    assert_eq!(gateway.counters().oversize, 2);
    assert_eq!(gateway.poll_transmit(true), None);
}

#[test]
fn a_clock_that_jumps_ends_cohorts_and_loses_nothing() {
    let mut world = World::new(Mode::Systematic, 0.0, 1);
    world.run(0..100);
    world.now += Duration::from_secs(86_400);
    world.run(100..200);
    world.now = Instant::from_millis(2);
    world.run(200..300);
    assert_eq!(world.delivered.len(), 300);
}

proptest! {
    #[test]
    fn accepted_packets_are_written_back_unchanged(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..90), kind in 0_u8..7, label: u32,
    ) {
        // Mostly valid heads, so that the code behind the checks is reached.
        let head = [0xc1, kind, bytes.first().copied().unwrap_or(0) & 1, 0];
        bytes.splice(0..head.len().min(bytes.len()), head);
        if bytes.len() > 19 {
            bytes[8..12].copy_from_slice(&label.to_be_bytes());
            bytes[18] = 1;
            bytes[19] &= 3;
        }
        let bytes = Bytes::from(bytes);
        match decode(&bytes) {
            Ok((header, Payload::Report(needs))) => prop_assert_eq!(encode_report(header.epoch, &needs), bytes),
            Ok((header, payload)) => prop_assert_eq!(encode(&header, &payload), bytes),
            Err(_) => {}
        }
    }
}

#[test]
fn every_kind_of_packet_survives_the_bytes() {
    let body = Bytes::from_static(b"payload");
    let over = VectorSet::of([0, 5, 200].into_iter());
    let vectors = [
        Vector::Original(3),
        Vector::Cauchy(62),
        Vector::Random(900),
        Vector::Recoded { number: 1 << 24, over },
    ];
    for vector in vectors {
        let payload = Payload::Coded(vector, body.clone());
        let header = Header { symbols: 192, previous: 17, generation: 2, generations: 3, ..header(u32::MAX) };
        assert_eq!(decode(&encode(&header, &payload)), Ok((header, payload)));
    }
    assert_eq!(decode(&encode(&header(4), &Payload::Flush)), Ok((header(4), Payload::Flush)));
    let needs = vec![Need { label: 9, generation: 1, packets: 3 }];
    assert_eq!(decode(&encode_report(7, &needs)).map(|(_, payload)| payload), Ok(Payload::Report(needs)));
    assert_eq!(decode(&Bytes::new()), Err(PacketError::Truncated(0)));
    assert_eq!(decode(&Bytes::from_static(&[0xc2; 30])), Err(PacketError::Version(0xc2)));
}
