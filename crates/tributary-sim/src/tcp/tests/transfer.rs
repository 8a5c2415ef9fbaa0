//! Clean paths: rates, buffers, acknowledgements.

use super::pair::Plan;

#[test]
fn a_clean_path_is_filled_without_a_retransmission() {
    let mut plan = Plan::new(50, 20);
    plan.queue = tributary_link::QueueSpec::Packets(100_000);
    let pair = plan.run(20_000_000, 20);
    let seconds = pair.expect_complete(20_000_000);
    let ideal = 20_000_000.0 * 8.0 / 50e6 * 1500.0 / 1448.0;
    assert!(seconds > ideal && seconds < ideal + 0.4, "{seconds} against {ideal}");
    assert_eq!(pair.info(pair.client).retransmitted, 0);
}
