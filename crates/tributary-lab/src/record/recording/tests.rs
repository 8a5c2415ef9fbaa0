//! From slots to a network.

use super::super::carried::Carried;
use super::super::options::Pace;
use super::super::probe::Answered;
use super::*;
use tributary_link::{Direction, Scenario};
use tributary_types::Instant;

const SLOT: Duration = Duration::from_millis(100);
const HEADER: usize = 28;
/// What the server's clock shows at the beginning.
const SERVER: Duration = Duration::from_secs(1_000_000);

/// A slot of a path with these rates and this delay in each direction; the queue holds packets for `waited`.
fn slot(number: u32, mbps: [f64; 2], ways_ms: [u64; 2], waited: Duration) -> Slot {
    let asked = SLOT * (number - 1);
    let [down, up] = ways_ms.map(Duration::from_millis);
    let at = asked + up + down + waited;
    let mut arrivals = Arrivals::default();
    for index in (0..20).filter(|index| number.is_multiple_of(2) || *index != 7) {
        let gap = (1372 + HEADER) as f64 * 8.0 / (mbps[0] * 1e6);
        arrivals.push(at + Duration::from_secs_f64(gap * f64::from(index + 1)), index, 20);
    }
    let (first, rate) = (SERVER + asked + SLOT / 2 + up, (mbps[1] * 1e6) as u64);
    Slot {
        asked: Some(asked),
        epoch: Duration::ZERO,
        reply: Some(Answered {
            at,
            received: SERVER + asked + up,
            rtt: up + down + waited,
            up: up.as_secs_f64(),
            down: (down + waited).as_secs_f64(),
        }),
        down: arrivals,
        up: Some(Train { slot: number, first, rate, counted: 20, lost: 0, room: 0 }),
        carried: None,
    }
}

/// A slot of which nothing came back.
fn silent(number: u32) -> Slot {
    Slot { asked: Some(SLOT * (number - 1)), ..Slot::default() }
}

fn recording(slots: Vec<Slot>, clock: u64) -> Recording {
    let log = PathLog { slots: [Slot::default()].into_iter().chain(slots).collect(), clock: Some(clock) };
    let path = RecordedPath { name: "wlan0".to_owned(), header: HEADER, log };
    let options = Options { pace: Pace::Light, ..Options::default() };
    Recording::new(vec![path], options, (7, true))
}

/// What is written, read back.
fn scenario(recording: &Recording) -> Scenario {
    let text = recording.network("walk", "a walk", &["position: absent".to_owned()]).unwrap().to_toml();
    Scenario::parse(&text, "walk.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn mbps(scenario: &Scenario, direction: Direction, (from, to): (u64, u64)) -> f64 {
    let (from, to) = (Instant::from_millis(from), Instant::from_millis(to));
    scenario.capacity(0, direction, from, to).as_bytes() as f64 * 8e-6
        / to.saturating_since(from).as_secs_f64()
}

#[test]
fn slots_become_rates_delays_and_loss() {
    let ways = |number| if number <= 20 { [20, 10] } else { [30, 10] };
    let slots = (1..=30).map(|number| {
        let rates = if number <= 10 { [20.0, 8.0] } else { [5.0, 8.0] };
        slot(number, rates, ways(number), Duration::ZERO)
    });
    let recording = recording(slots.collect(), 7);
    let scenario = scenario(&recording);
    assert_eq!(scenario.duration, Duration::from_secs(3));
    for (direction, span, wanted) in [
        (Direction::Down, (0, 1000), 20.0),
        (Direction::Down, (1000, 3000), 5.0),
        (Direction::Up, (0, 3000), 8.0),
    ] {
        let found = mbps(&scenario, direction, span);
        assert!((found / wanted - 1.0).abs() < 0.02, "{direction:?} {span:?}: {found} and not {wanted}");
    }
    // The request's own time on the link is no delay.
    let near = |found: Duration, ms: f64| {
        assert!((found.as_secs_f64() * 1e3 - ms).abs() < 0.4, "{found:?}, not {ms} ms")
    };
    let delay = &scenario.paths[0].down.delay;
    near(delay.base, 20.0);
    let last = delay.changes.last().unwrap();
    assert_eq!(last.0, Duration::from_secs(2));
    near(last.1, 30.0);
    near(scenario.paths[0].up.delay.base, 10.0);
    // One packet of nineteen in every second slot.
    assert!((scenario.paths[0].down.loss.mean() - 0.5 / 19.0).abs() < 1e-5);
    assert_eq!(scenario.paths[0].up.loss, LossSpec::None);
    let seconds = recording.seconds(0);
    assert_eq!(seconds.len(), 3);
    assert!((seconds[1].rtt_ms.unwrap() - 30.0).abs() < 1e-6, "{seconds:?}");
    assert_eq!((seconds[0].counted, seconds[0].lost), ([190, 200], [5, 0]));
}

#[test]
fn delays_are_half_of_the_round_trip_where_clocks_differ_and_the_file_says_which() {
    let slots = || (1..=10).map(|number| slot(number, [100.0, 100.0], [25, 5], Duration::ZERO)).collect();
    let of = |clock| {
        let network = recording(slots(), clock).network("a", "", &[]).unwrap();
        (network.paths[0].down.delay.base.as_secs_f64() * 1e3, network.to_toml())
    };
    let ((half, one), (same, other)) = (of(8), of(7));
    assert!((half - 15.0).abs() < 0.1 && (same - 25.0).abs() < 0.1, "{half} and {same} ms");
    assert!(
        one.contains("# wlan0: delays are half") && other.contains("# wlan0: delays are one-way"),
        "{one}{other}"
    );
}

#[test]
fn an_outage_has_no_rate_whether_packets_are_lost_or_wait() {
    let rates = [20.0, 20.0];
    let steady = |number| slot(number, rates, [10, 10], Duration::ZERO);
    // From one second on nothing passes for a second; requests are lost, or wait for its end.
    let lost =
        (1..=30).map(|number| if (11..=20).contains(&number) { silent(number) } else { steady(number) });
    let wait = (1..=30).map(|number| {
        let waited = if (11..=20).contains(&number) { SLOT * (21 - number) } else { Duration::ZERO };
        let mut slot = slot(number, rates, [10, 10], waited);
        if let (Some(reply), Some(train)) = (&mut slot.reply, &mut slot.up) {
            (reply.received, train.first) = (reply.received + waited, train.first + waited);
        }
        slot
    });
    for slots in [lost.collect::<Vec<_>>(), wait.collect()] {
        let scenario = scenario(&recording(slots, 7));
        for direction in [Direction::Down, Direction::Up] {
            let found = [(0, 1000), (1100, 1900), (2100, 3000)].map(|span| mbps(&scenario, direction, span));
            assert!(
                (found[0] - 20.0).abs() < 0.3 && (found[2] - 20.0).abs() < 0.3,
                "{direction:?}: {found:?}"
            );
            assert_eq!(found[1], 0.0, "{direction:?}: {found:?}");
        }
    }
    let dead = scenario(&recording((1..=5).map(silent).collect(), 7));
    assert_eq!(dead.paths[0].dead.len(), 1);
}

#[test]
fn a_slot_in_which_nothing_was_sent_is_no_outage() {
    // The machine slept for a second.
    let slots = (1..=30).map(|number| match number {
        11..=20 => Slot::default(),
        _ => slot(number, [20.0, 20.0], [10, 10], Duration::ZERO),
    });
    let found = mbps(&scenario(&recording(slots.collect(), 7)), Direction::Down, (0, 3000));
    assert!((found - 20.0).abs() < 0.3, "{found}");
}

#[test]
fn a_step_of_the_clock_of_both_ends_is_no_time_in_a_queue() {
    let slots = (1..=20).map(|number| {
        let mut slot = slot(number, [20.0, 20.0], [10, 10], Duration::ZERO);
        if let (true, Some(reply), Some(train)) = (number > 10, &mut slot.reply, &mut slot.up) {
            let step = Duration::from_secs(600);
            (slot.epoch, reply.received, train.first) = (step, reply.received + step, train.first + step);
        }
        slot
    });
    let counted: Vec<u64> =
        recording(slots.collect(), 7).seconds(0).iter().map(|second| second.counted[1]).collect();
    assert_eq!(counted, [200, 200]);
}

#[test]
fn what_others_carry_is_a_lower_bound_of_the_rate() {
    // The trains got half of the link, and another program the rest.
    let slots = (1..=20).map(|number| Slot {
        carried: Some(Carried { over: SLOT, down: 500_000, up: 1_000 }),
        ..slot(number, [20.0, 20.0], [10, 10], Duration::ZERO)
    });
    let scenario = scenario(&recording(slots.collect(), 7));
    assert!((mbps(&scenario, Direction::Down, (0, 1500)) - 40.0).abs() < 0.1);
    assert!((mbps(&scenario, Direction::Up, (0, 1500)) - 20.0).abs() < 0.3);
}

#[test]
fn loss_changes_only_where_it_differs_by_more_than_chance() {
    assert_eq!(steps(&[]), LossSpec::None);
    assert_eq!(steps(&[(1000, 0); 5]), LossSpec::None);
    assert_eq!(steps(&[(1000, 18), (1000, 22), (1000, 20)]), LossSpec::Bernoulli(0.02));
    // Seconds with few packets are compared together.
    assert_eq!(steps(&[(40, 1), (40, 0), (40, 2), (40, 1), (40, 0), (50, 1)]), LossSpec::Bernoulli(0.02));
    let changing = steps(&[(1000, 10), (1000, 10), (1000, 100), (1000, 100), (1000, 0)]);
    let second = Duration::from_secs;
    assert_eq!(changing, LossSpec::Steps(vec![(second(0), 0.01), (second(2), 0.1), (second(4), 0.0)]));
}

#[test]
fn losses_of_a_full_queue_are_not_those_of_the_radio() {
    let slots = (1..=40).map(|number| {
        let queued = Duration::from_millis(if number > 20 { 40 } else { 0 });
        slot(number, [20.0, 20.0], [10, 10], queued)
    });
    let recording = recording(slots.collect(), 7);
    let counted: Vec<u64> = recording.seconds(0).iter().map(|second| second.counted[0]).collect();
    assert_eq!(counted, [190, 190, 0, 0]);
    let silent = Recording::new(Vec::new(), Options::default(), (7, false));
    assert!(silent.network("a", "", &[]).is_none());
}
