//! Every wait of a node ends although its neighbour stays silent.

use super::*;
use crate::message::Feedback;
use crate::{Config, Mode};
use core::time::Duration;
use tributary_coding::CoefficientKey;

const MTU: usize = 1500;

/// An end whose messages are kept.
struct End {
    control: HopControl,
    sent: Vec<Vec<u8>>,
}

impl End {
    fn new(is_radio: bool) -> Self {
        let mut control = HopControl::new(is_radio);
        control.begin_session();
        Self { control, sent: Vec::new() }
    }

    /// The neighbour has received everything, and has this room.
    fn hear(&mut self, now: Instant, room: u32) {
        let newest = self.sent.len() as u64;
        let feedback = Feedback { newest, room, capacity: 100_000, ..Feedback::default() };
        self.control.on_received(now, 0);
        self.control.handle_message(now, HopMessage::Feedback(feedback));
    }

    /// Number of messages whose first byte is `kind`, and that are coded packets of kind `coded` if that is given.
    fn count(&self, kind: u8, coded: Option<u8>) -> usize {
        let is = |sent: &&Vec<u8>| sent[0] == kind && coded.is_none_or(|coded| sent[1] == coded);
        self.sent.iter().filter(is).count()
    }
}

impl HopEnd for End {
    fn control(&self) -> &HopControl {
        &self.control
    }

    fn control_mut(&mut self) -> &mut HopControl {
        &mut self.control
    }

    fn send(&mut self, now: Instant, message: &HopMessage<'_>, paced: bool) -> Option<u64> {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        let number = self.sent.len() as u64;
        self.control.on_sent(now, message, (number, bytes.len()), paced);
        self.sent.push(bytes);
        Some(number)
    }
}

fn config(mode: Mode) -> Config {
    Config { mode, ..Config::new(CoefficientKey::new([5; 32])) }
}

const START: Instant = Instant::from_millis(1);
const CODED: u8 = 0xc1;
const FLUSH: u8 = 4;

#[test]
fn a_flush_goes_to_access_points_without_room() {
    for mode in [Mode::Systematic, Mode::Paper] {
        let config = config(mode);
        let mut gateway = GatewayNode::new(config.clone(), 1, 2, MTU);
        let (mut hops, mut now) = ([End::new(false), End::new(false)], START);
        assert!(gateway.handle_packet(now, 0, &[7; 100], &hops));
        now += config.interval;
        gateway.handle_timeout(now, &hops);
        gateway.transmit(now, &mut hops);
        hops.iter_mut().for_each(|hop| hop.hear(now, 0));
        now += config.interval;
        gateway.handle_timeout(now, &hops);
        gateway.transmit(now, &mut hops);
        assert!(hops.iter().all(|hop| hop.count(CODED, Some(FLUSH)) == 1), "{mode:?}");
    }
}

#[test]
fn small_bursts_do_not_shorten_the_queue_for_a_larger_one() {
    for mode in [Mode::Systematic, Mode::Paper] {
        let mut gateway = GatewayNode::new(config(mode), 1, 2, MTU);
        let (mut hops, mut now) = ([End::new(false), End::new(false)], START);
        for burst in [20, 60, 400] {
            let taken = (0..burst).filter(|_| gateway.handle_packet(now, 0, &[7; 100], &hops)).count();
            assert_eq!(taken, burst, "{mode:?}");
            for _ in 0..20 {
                gateway.handle_timeout(now, &hops);
                gateway.transmit(now, &mut hops);
                now += Duration::from_millis(1);
                hops.iter_mut().for_each(|hop| hop.hear(now, 100_000));
            }
        }
    }
}

/// The queue is 30 ms of the links' rate, so its limit is bytes: at least 256 of the largest packets, or more small ones.
#[test]
fn small_packets_count_by_their_bytes() {
    let gateway = |mode| GatewayNode::new(config(mode), 1, 2, MTU);
    let plain = gateway(Mode::Systematic).without_coding();
    for mut gateway in [gateway(Mode::Systematic), gateway(Mode::Paper), plain] {
        let (mut hops, mut now) = ([End::new(false), End::new(false)], START);
        hops.iter_mut().for_each(|hop| hop.hear(now, 50_000));
        // More than both links take, so that their rate is known afterwards: about 5 MB a second.
        for flow in 0..200 {
            gateway.handle_packet(now, flow, &[7; 1300], &hops);
        }
        for _ in 0..20 {
            gateway.handle_timeout(now, &hops);
            gateway.transmit(now, &mut hops);
            now += Duration::from_millis(10);
            hops.iter_mut().for_each(|hop| hop.hear(now, 50_000));
        }
        assert!(hops.iter().any(|hop| hop.control.pace().is_rate_known()), "{gateway:?}");
        let taken = (0..400).filter(|flow| gateway.handle_packet(now, *flow, &[7; 100], &hops)).count();
        assert_eq!(taken, 400, "{gateway:?}");
        // Large ones. What belongs to an open cohort of the paper's mode does not wait yet.
        let mut taken = [0, 0];
        for taken in &mut taken {
            now += Duration::from_millis(10);
            gateway.handle_timeout(now, &hops);
            *taken = (0..500).filter(|_| gateway.handle_packet(now, 1, &[7; 1400], &hops)).count();
        }
        assert!(taken[0] >= 200 && taken[0] + taken[1] <= 500, "{taken:?}: {gateway:?}");
    }
}

#[test]
fn packets_for_which_nobody_has_room_are_dropped_in_the_end() {
    for mode in [Mode::Systematic, Mode::Paper] {
        let mut gateway = GatewayNode::new(config(mode), 1, 2, MTU);
        let mut hops = [End::new(false), End::new(false)];
        hops.iter_mut().for_each(|hop| hop.hear(START, 0));
        gateway.handle_timeout(START, &hops);
        (0..10).for_each(|_| assert!(gateway.handle_packet(START, 0, &[7; 100], &hops)));
        for millis in 1..900 {
            gateway.handle_timeout(START + Duration::from_millis(millis), &hops);
        }
        assert_eq!(gateway.counters().given, 0, "{mode:?}: the radios may be back soon");
        for millis in 900..1100 {
            gateway.handle_timeout(START + Duration::from_millis(millis), &hops);
        }
        assert_eq!(gateway.counters().given, 10, "{mode:?}");
        hops[0].hear(START + Duration::from_secs(2), 100_000);
        gateway.transmit(START + Duration::from_secs(2), &mut hops);
        assert_eq!(hops[0].count(CODED, Some(0)), 0, "{mode:?}: nobody expects them any more");
    }
}

#[test]
fn uncoded_packets_for_a_neighbour_that_is_gone_are_dropped() {
    let later = START + Duration::from_secs(1);
    let mut gateway = GatewayNode::new(config(Mode::Systematic), 1, 1, MTU).without_coding();
    let mut hops = [End::new(false)];
    hops[0].hear(START, 0);
    assert!(gateway.handle_packet(START, 0, &[0x45; 100], &hops));
    gateway.handle_timeout(later, &hops);
    hops[0].hear(later, 100_000);
    gateway.transmit(later, &mut hops);
    assert_eq!(hops[0].count(0x45, None), 0);

    let mut point = AccessPointNode::new(config(Mode::Systematic), 1, MTU);
    let mut down = End::new(true);
    down.hear(START, 0);
    assert!(point.handle_message(START, &HopMessage::Plain(&[0x45; 100])));
    point.handle_timeout(later, &down);
    down.hear(later, 100_000);
    point.transmit(later, &mut down);
    assert_eq!(down.count(0x45, None), 0);
}

#[test]
fn an_access_point_in_paper_mode_sends_a_label_that_no_later_one_follows() {
    let config = config(Mode::Paper);
    let mut gateway = GatewayNode::new(config.clone(), 1, 1, MTU);
    let (mut hops, mut down, mut now) = ([End::new(false)], End::new(true), START);
    (0..8).for_each(|_| assert!(gateway.handle_packet(now, 0, &[7; 100], &hops)));
    now += config.interval;
    gateway.handle_timeout(now, &hops);
    gateway.transmit(now, &mut hops);
    let mut point = AccessPointNode::new(config.clone(), 1, MTU);
    for bytes in &hops[0].sent {
        assert!(point.handle_message(now, &HopMessage::read(bytes).expect("a message")));
    }
    point.transmit(now, &mut down);
    assert_eq!(down.sent.len(), 0, "it waits for a later label");
    let at = point.poll_timeout().expect("it does not wait for ever");
    assert!(at <= now + 2 * config.interval);
    point.handle_timeout(at, &down);
    point.transmit(at, &mut down);
    assert!(down.count(CODED, Some(2)) >= 8, "{} messages", down.sent.len());
}
