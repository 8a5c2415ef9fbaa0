//! Random operations on every controller, with ordinary and extreme values: the window stays between a
//! segment and a tebibyte, the pacing rate above zero, nothing panics, and the same operations give the same
//! windows.

use proptest::prelude::*;

use super::super::cwnd::MAX_WINDOW;
use super::*;

/// One operation on subflow `at` of a connection.
#[derive(Clone, Debug)]
enum Operation {
    Sent { at: usize, bytes: u64, in_flight: u64 },
    Acked { at: usize, ack: Ack },
    Lost { at: usize, loss: Loss },
    Recovered { at: usize },
    Spurious { at: usize },
    Penalised { at: usize },
    Wait(Duration),
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..100_000_u64, 1 => Just(u64::MAX / 2), 1 => Just(u64::MAX)]
}

fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        8 => (0..300_000_u64).prop_map(Duration::from_micros),
        1 => Just(Duration::ZERO),
        1 => Just(Duration::from_nanos(1)),
        1 => Just(Duration::MAX),
    ]
}

fn sample() -> impl Strategy<Value = RateSample> {
    let bits = prop_oneof![8 => 0..1_000_000_000_u64, 1 => Just(u64::MAX)];
    (bits, any::<bool>(), bytes(), bytes(), bytes()).prop_map(
        |(bits, app_limited, delivered, prior_delivered, lost)| RateSample {
            rate: Bitrate::from_bps(bits),
            app_limited,
            delivered,
            prior_delivered,
            lost,
        },
    )
}

fn acknowledgement() -> impl Strategy<Value = Ack> {
    let times = (proptest::option::of(time()), time(), time());
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (bytes(), bytes(), bytes(), times, flags, proptest::option::of(sample())).prop_map(
        |(bytes, in_flight_before, in_flight, (rtt, srtt, min_rtt), flags, rate)| Ack {
            now: Instant::ZERO,
            bytes,
            in_flight_before,
            in_flight,
            rtt,
            srtt,
            min_rtt,
            rate,
            cwnd_limited: flags.0,
            in_recovery: flags.1,
            round_ended: flags.2,
        },
    )
}

fn loss() -> impl Strategy<Value = Loss> {
    (any::<bool>(), bytes(), bytes()).prop_map(|(fast, bytes, in_flight)| Loss {
        now: Instant::ZERO,
        kind: if fast { LossKind::Fast } else { LossKind::Timeout },
        bytes,
        in_flight,
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    let at = 0..3_usize;
    prop_oneof![
        4 => (at.clone(), bytes(), bytes())
            .prop_map(|(at, bytes, in_flight)| Operation::Sent { at, bytes, in_flight }),
        12 => (at.clone(), acknowledgement()).prop_map(|(at, ack)| Operation::Acked { at, ack }),
        3 => (at.clone(), loss()).prop_map(|(at, loss)| Operation::Lost { at, loss }),
        1 => at.clone().prop_map(|at| Operation::Recovered { at }),
        1 => at.clone().prop_map(|at| Operation::Spurious { at }),
        1 => at.prop_map(|at| Operation::Penalised { at }),
        4 => time().prop_map(Operation::Wait),
    ]
}

fn setup() -> impl Strategy<Value = Setup> {
    let mss = prop_oneof![8 => 500..9000_u64, 1 => Just(0), 1 => Just(1), 1 => Just(u64::MAX)];
    (mss, any::<u64>(), prop_oneof![4 => Just(None), 1 => bytes().prop_map(Some)]).prop_map(
        |(mss, seed, initial)| {
            let usual = Setup::new(mss).with_seed(seed);
            Setup { initial_window: initial.unwrap_or(usual.initial_window), ..usual }
        },
    )
}

/// Runs `operations` on a connection of `count` subflows and returns the windows on the way.
fn run(name: &str, setup: Setup, count: usize, operations: &[Operation]) -> Vec<u64> {
    let mut connection: Vec<_> = (0..count).map(|_| create(name, setup).unwrap()).collect();
    let (mut now, mut seen) = (Instant::from_millis(1), Vec::new());
    for operation in operations {
        let views: Vec<SiblingView> = connection.iter().map(|subflow| subflow.view()).collect();
        let siblings = |at| Siblings::new(&views, at);
        match operation.clone() {
            Operation::Sent { at, bytes, in_flight } => {
                connection[at % count].on_sent(now, bytes, in_flight);
            }
            Operation::Acked { at, ack } => {
                connection[at % count].on_ack(&Ack { now, ..ack }, siblings(at % count));
            }
            Operation::Lost { at, loss } => {
                connection[at % count].on_loss(&Loss { now, ..loss }, siblings(at % count));
            }
            Operation::Recovered { at } => connection[at % count].on_recovery_end(now),
            Operation::Spurious { at } => connection[at % count].on_spurious_loss(now),
            Operation::Penalised { at } => connection[at % count].on_penalty(now),
            Operation::Wait(time) => now += time,
        }
        for subflow in &connection {
            let (window, mss) = (subflow.window(), subflow.view().mss);
            assert!((1..=1 << 20).contains(&mss));
            assert!((mss..=MAX_WINDOW).contains(&window), "{name}: {window} after {operation:?}");
            assert!(subflow.slow_start_threshold() >= mss, "{name} after {operation:?}");
            assert!(subflow.pacing_rate().is_none_or(|rate| rate.as_bps() > 0), "{name}");
            seen.push(window);
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_controller_survives_everything_and_repeats_itself(
        setup in setup(),
        count in 1..4_usize,
        operations in proptest::collection::vec(operation(), 1..120),
    ) {
        for name in names() {
            prop_assert_eq!(run(name, setup, count, &operations), run(name, setup, count, &operations));
        }
    }

    /// An acknowledgement grows the window at most as slow start would, except for Compound's second window
    /// and for BBR, which restores an earlier window.
    #[test]
    fn no_controller_outruns_slow_start(parts in proptest::collection::vec(1..20_000_u64, 1..80)) {
        for name in names().into_iter().filter(|name| !matches!(*name, "compound" | "bbr" | "wvegas")) {
            let mut controller = create(name, Setup::new(1000)).unwrap();
            for (nth, part) in parts.iter().enumerate() {
                let (view, before) = ([controller.view()], controller.window());
                if nth % 20 == 19 {
                    let loss = Loss { now: Instant::ZERO, kind: LossKind::Fast, bytes: 1, in_flight: 1 };
                    controller.on_loss(&loss, Siblings::new(&view, 0));
                    continue;
                }
                let now = Instant::from_millis(nth as u64);
                let bytes = (*part).min(before);
                controller.on_ack(&Ack { now, ..ack(bytes) }, Siblings::new(&view, 0));
                prop_assert!(controller.window() <= before + bytes.max(1000), "{}", name);
            }
        }
    }
}
