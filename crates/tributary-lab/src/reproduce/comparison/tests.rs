//! Every workload measures its metrics over every kind of transport, and seeds see different parts of a long network.

use super::*;
use crate::reproduce::{Paper, Selection};
use std::path::Path;

const NETWORK: &str = "name = \"two\"\nduration = \"40 s\"\nrtt = \"20 ms\"\n[[path]]\nname = \"a\"\n\
                       down.rate = { steps = [[\"0 s\", \"4 Mbit/s\"], [\"20 s\", \"8 Mbit/s\"]] }\n\
                       [[path]]\nname = \"b\"\ndown.rate = \"3 Mbit/s\"\n";

/// The cells of a plan over [`NETWORK`].
fn cells(directory: &Path, workload: &str, within: &str, transports: &str) -> Vec<Cell> {
    std::fs::write(directory.join("two.toml"), NETWORK).unwrap();
    let plan = format!(
        "name = \"p\"\nworld = \"sim\"\n[[matrix]]\nworld = \"sim\"\nexperiment = \"comparison\"\n\
         scenarios = [\"two.toml\"]\ntransports = [{transports}]\nseeds = 2\nseconds = 12\n\
         axes = {{ workload = [\"{workload}\"]{within} }}\n"
    );
    std::fs::write(directory.join("plan.toml"), plan).unwrap();
    let paper = Paper::find(&directory.join("plan.toml").display().to_string()).unwrap();
    paper.cells(&Selection { world: World::Sim, ..Selection::default() }).unwrap()
}

#[test]
fn every_workload_is_measured_over_every_kind_of_transport() {
    let directory = tempfile::tempdir().unwrap();
    for (workload, metrics) in [
        ("bulk", vec!["goodput", "silence", "seconds"]),
        ("objects", vec!["object_mean", "object_p95"]),
        ("messages", vec!["message_p50", "message_p99", "messages_late"]),
        ("dash", vec!["qoe", "media_rate", "stalled", "start_up"]),
        ("tiles", vec!["quality", "late", "left_out"]),
    ] {
        let transports = "\"a\", \"quic:b\", \"mptcp\", \"mpquic\", \"session/fbdt\"";
        for cell in cells(directory.path(), workload, "", transports).iter().filter(|cell| cell.seed == 1) {
            Comparison::default().check(cell).unwrap();
            let sample =
                Comparison::default().measure(cell).unwrap_or_else(|error| panic!("{workload}: {error}"));
            for metric in &metrics {
                let told = format!("{workload} over {}: {metric}", cell.label("transport"));
                let values = sample.metrics.get(*metric).unwrap_or_else(|| panic!("{told}: {sample:?}"));
                assert!(!values.is_empty() && METRICS.iter().any(|known| known.name == *metric), "{told}");
            }
        }
    }
}

#[test]
fn seeds_begin_at_different_times_of_a_long_network() {
    let directory = tempfile::tempdir().unwrap();
    let of = |within: &str| -> Vec<(f64, String)> {
        let cells = cells(directory.path(), "bulk", within, "\"a\"");
        let goodput = |cell: &Cell| Comparison::default().measure(cell).unwrap().metrics["goodput"][0];
        cells.iter().map(|cell| (goodput(cell), Comparison::default().identity(cell))).collect()
    };
    let same = of("");
    assert!((same[0].0 - same[1].0).abs() < 0.01 && same[0].0 < 4.0, "{same:?}");
    // 0.618 and 0.236 of 28 s: one run begins at 17.3 s, mostly in the faster half, one at 6.6 s.
    let spread = of(", within = [\"40 s\"]");
    assert!(spread[0].0 > 6.0 && spread[1].0 < 4.0, "{spread:?}");
    assert_ne!(spread[0].1, same[0].1);
}

#[test]
fn what_cannot_run_is_refused_with_the_way_out() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |cell: &Cell| Comparison::default().check(cell).unwrap_err().to_string();
    let mut cell = cells(directory.path(), "bulk", "", "\"a\"").remove(0);
    cell.labels.insert("workload".to_owned(), "bulg".to_owned());
    assert!(refused(&cell).contains("`bulg`; known: bulk, tiles"), "{}", refused(&cell));
    cell.labels.insert("workload".to_owned(), "tiles".to_owned());
    cell.seconds = 90;
    assert!(refused(&cell).contains("50 s, not 90 s"), "{}", refused(&cell));
    cell.seconds = 20;
    cell.labels.insert("within".to_owned(), "long".to_owned());
    assert!(refused(&cell).contains("such as 120 s"), "{}", refused(&cell));
    cell.world = World::Emu;
    assert!(refused(&cell).contains("simulator"), "{}", refused(&cell));
}

#[test]
fn waiting_and_switching_reduce_the_quality_of_experience() {
    assert_eq!(linear_qoe(&[2.0, 2.0, 2.0, 2.0], 0.0, 4.0), 2.0);
    assert_eq!(linear_qoe(&[1.0, 3.0, 1.0, 3.0], 0.0, 4.0), 0.5);
    assert_eq!(linear_qoe(&[2.0, 2.0], 1.0, 4.0), 0.0);
    assert_eq!(linear_qoe(&[], 10.0, 4.0), -40.0);
}

#[test]
fn messages_that_never_arrived_count_with_their_age() {
    let mut flow = FlowRecord { made: 100, late: 90, ..FlowRecord::default() };
    flow.latencies = vec![Duration::from_millis(5); 10];
    let mut sample = Sample::default();
    messages(&mut sample, &flow);
    assert!(sample.metrics["message_p99"][0] > 850.0, "{sample:?}");
    assert_eq!(sample.metrics["messages_late"], [90.0]);
}
