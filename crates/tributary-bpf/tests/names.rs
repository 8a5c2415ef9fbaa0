//! The names of the controllers are in three crates: the references (`tributary-cc`), the kernel's
//! (`tributary-bpf`), and those that couple the subflows of a session (`tributary-proto`). They must agree.
//!
//! Whether a reference couples its subflows is read from its windows, not from a list.

use std::time::Duration;

use tributary_bpf::CONTROLLERS;
use tributary_cc::{Ack, Loss, LossKind, Setup, SiblingView, Siblings, create, names};
use tributary_proto::coupling::{COUPLED, is_coupled};
use tributary_types::Instant;

const MSS: u64 = 1448;
const RTT: Duration = Duration::from_millis(40);
/// A quarter of the round trip is a queue. Without a queue wVegas does not look at its share of the rate.
const BASE: Duration = Duration::from_millis(30);
/// wVegas ignores rounds with fewer than three samples.
const ACKS_IN_A_ROUND: u32 = 4;
const ROUNDS: u32 = 100;

/// The windows of a subflow after a loss, alone or beside a sibling that has a larger window.
fn windows(name: &str, has_sibling: bool) -> Vec<u64> {
    let mut controller = create(name, Setup::new(MSS)).expect("a known name");
    let start = Instant::ZERO;
    let loss = Loss { now: start, kind: LossKind::Fast, bytes: MSS, in_flight: controller.window() };
    controller.on_loss(&loss, Siblings::new(&[controller.view()], 0));
    controller.on_recovery_end(start);
    let sibling = SiblingView {
        window: 100 * MSS,
        mss: MSS,
        srtt: RTT,
        base_rtt: BASE,
        since_loss: 1 << 24,
        between_losses: 1 << 24,
    };
    let mut after = Vec::new();
    for number in 0..ROUNDS * ACKS_IN_A_ROUND {
        let mut views = vec![controller.view()];
        views.extend(has_sibling.then_some(sibling));
        let in_flight = controller.window();
        let ack = Ack {
            now: start + RTT + RTT / ACKS_IN_A_ROUND * number,
            bytes: (in_flight / u64::from(ACKS_IN_A_ROUND)).max(1),
            in_flight_before: in_flight,
            in_flight,
            rtt: Some(RTT),
            srtt: RTT,
            min_rtt: BASE,
            rate: None,
            cwnd_limited: true,
            in_recovery: false,
            round_ended: number % ACKS_IN_A_ROUND == 0,
        };
        controller.on_ack(&ack, Siblings::new(&views, 0));
        after.push(controller.window());
    }
    after
}

#[test]
fn the_references_that_react_to_a_sibling_are_the_coupled_ones() {
    let reacting: Vec<_> =
        names().into_iter().filter(|name| windows(name, true) != windows(name, false)).collect();
    assert_eq!(reacting, COUPLED);
    assert!(names().into_iter().all(|name| is_coupled(name) == reacting.contains(&name)));
}

#[test]
fn the_kernel_has_every_coupled_controller_and_none_without_a_reference() {
    let unknown: Vec<_> = CONTROLLERS.iter().filter(|name| !names().contains(name)).collect();
    assert!(unknown.is_empty(), "no reference for {unknown:?}");
    let missing: Vec<_> = COUPLED.iter().filter(|name| !CONTROLLERS.contains(name)).collect();
    assert!(missing.is_empty(), "not in the kernel: {missing:?}");
}
