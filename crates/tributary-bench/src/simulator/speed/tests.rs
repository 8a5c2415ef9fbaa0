//! The aims with invented runs: medians, ratios of rounds, flatness and memory per flow.

use super::*;
use crate::Verdict;

fn measured(packets: u64, cpu_s: f64, peak_rss_kb: u64) -> Measured {
    Measured {
        received_bytes: packets * 1448,
        goodput_bps: 1e9,
        completed: None,
        data_packets: packets,
        dropped_packets: 0,
        wall_s: cpu_s,
        cpu_s,
        base_rss_kb: 1000,
        peak_rss_kb,
        goodput_bps_per_second: Vec::new(),
        cwnd_bytes: Vec::new(),
    }
}

fn pair(flows: u32, our_cpu: f64, peak: u64) -> Row {
    let ours = vec![measured(1_000_000, our_cpu, peak); 5];
    let peers = vec![measured(1_000_000, 25.0, 10 * peak); 5];
    row(cell(AIM_RATE, flows, 1_000), ours, peers)
}

#[test]
fn a_row_has_packets_per_second_and_the_cost_of_one() {
    let row = pair(1, 0.5, 2_000);
    assert_eq!((row.ours_per_second, row.packet_ns, row.ratio.value), (2e6, 500.0, 50.0));
}

#[test]
fn a_peer_without_a_result_leaves_no_ratio() {
    let row = row(cell(AIM_RATE, 1, 1_000), vec![measured(10, 1.0, 1)], Vec::new());
    assert!(row.ratio.value.is_nan() && row.peer_per_second.is_nan());
}

#[test]
fn a_round_that_the_peer_failed_leaves_the_ratio_of_the_medians() {
    let ours = vec![measured(1_000_000, 0.5, 2_000); 3];
    let row = row(cell(AIM_RATE, 1, 1_000), ours, vec![measured(1_000_000, 25.0, 20_000); 2]);
    assert_eq!((row.ratio.value, row.ratio.verdict), (50.0, Verdict::Undecided));
}

#[test]
fn the_text_says_whether_each_aim_is_met() {
    let report = report(vec![pair(1, 0.5, 2_000)], vec![pair(1, 0.5, 2_000), pair(1000, 1.5, 11_990)]);
    assert_eq!(report.flatness_over_rates.value, 1.0);
    assert_eq!(report.flatness_over_flows.value, 3.0);
    assert_eq!(report.bytes_per_flow, 9990.0 * 1024.0 / 999.0);
    let text: String = report.tables().iter().map(Table::to_text).collect();
    assert_eq!(text.matches("fails").count(), 1, "{text}");
    assert_eq!(text.matches("holds").count(), 3, "{text}");
}
