//! The emulator with the real kernel: every case runs in its own process, isolated first.
//!
//! Not a `#[test]` harness: isolation must come before any thread, and the standard harness starts threads.
//! Arguments select cases by name. A case that may not create namespaces prints the reason and is skipped, or
//! fails when `CI=true`.

#[path = "emulator/kernel.rs"]
mod kernel;
#[path = "emulator/leftovers.rs"]
mod leftovers;
#[path = "emulator/shaping.rs"]
mod shaping;
#[path = "emulator/support.rs"]
mod support;

use std::process::ExitCode;

/// A case by name.
type Case = (&'static str, fn());

const CASES: [Case; 19] = [
    ("tcp_reaches_the_rate", shaping::tcp_reaches_the_rate),
    ("delay_is_as_asked", shaping::delay_is_as_asked),
    ("loss_is_as_asked", shaping::loss_is_as_asked),
    ("a_dead_path_delivers_nothing", shaping::a_dead_path_delivers_nothing),
    ("rewinding_starts_the_scenario_again", shaping::rewinding_starts_the_scenario_again),
    ("ipv6_streams_are_intact_under_loss", kernel::ipv6_streams_are_intact_under_loss),
    ("udp_super_frames_and_ecn_marks_pass", kernel::udp_super_frames_and_ecn_marks_pass),
    ("mptcp_joins_and_uses_both_paths", kernel::mptcp_joins_and_uses_both_paths),
    ("mptcp_with_checksums_is_intact", kernel::mptcp_with_checksums_is_intact),
    ("an_unplugged_interface_comes_back", kernel::an_unplugged_interface_comes_back),
    ("veth_pairs_join_two_namespaces", kernel::veth_pairs_join_two_namespaces),
    ("tun_queues_share_a_devices_packets", kernel::tun_queues_share_a_devices_packets),
    ("commands_find_the_network", kernel::commands_find_the_network),
    (
        "a_capture_has_what_each_side_sends_and_receives",
        kernel::a_capture_has_what_each_side_sends_and_receives,
    ),
    ("a_running_network_is_changed_by_command", kernel::a_running_network_is_changed_by_command),
    ("isolation_refuses_a_second_thread", leftovers::isolation_refuses_a_second_thread),
    ("kill_nine_of_the_parent_leaves_no_process", leftovers::kill_nine_of_the_parent_leaves_no_process),
    ("an_interrupted_emulation_leaves_nothing", leftovers::an_interrupted_emulation_leaves_nothing),
    ("exit_codes_are_passed_on", leftovers::exit_codes_are_passed_on),
];

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(support::CASE) {
        let case = CASES.iter().chain(&leftovers::VICTIMS).find(|(known, _)| *known == name);
        case.expect("a case of this name").1();
        return ExitCode::SUCCESS;
    }
    if std::env::args().any(|word| word == "--list") {
        CASES.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    let mut failures = 0;
    for (name, _) in CASES.iter().filter(|(name, _)| chosen(name)) {
        let status = support::start(name).status().expect("this program can be started again");
        let verdict = match status.code() {
            Some(0) => "ok",
            Some(support::SKIPPED) if !support::in_ci() => "skipped",
            _ => "FAILED",
        };
        failures += usize::from(verdict == "FAILED");
        println!("case {name} ... {verdict}");
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
