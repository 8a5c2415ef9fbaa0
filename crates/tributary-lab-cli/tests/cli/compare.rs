//! `compare` on the command line: from traces to a ranking, and what is refused. Needs neither namespaces nor root.

use super::{output, refused};
use tempfile::TempDir;
use tributary_testing::text;

#[test]
fn traces_are_ranked_and_finished_runs_are_kept() {
    let directory = TempDir::new().unwrap();
    let (file, out) = (directory.path().join("two.csv"), directory.path().join("out"));
    std::fs::write(&file, "time (s),wifi (Mbit/s),lte (Mbit/s)\n0,6,2\n10,2,3\n20,5,2\n30,1,3\n40,6,2\n")
        .unwrap();
    let arguments = [
        "compare",
        text(&file),
        "--seeds",
        "3",
        "--transports",
        "tcp:wifi,tcp:lte,mptcp,session/fbdt",
        "--out",
        text(&out),
        "--json",
    ];
    let run = || {
        let output = output(&arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("one JSON object")
    };
    let first = run();
    let standings = first["ranking"]["standings"].as_array().unwrap();
    assert_eq!(standings.len(), 4);
    assert_eq!((&first["runs"]["planned"], &first["runs"]["now"]), (&12.into(), &12.into()));
    let best = &standings[0];
    assert!(best["single"] == false && best["against_single"]["verdict"] == "better", "{first}");
    assert_eq!(first["best_single"], "tcp:wifi");
    assert!(first["advice"].as_str().unwrap().starts_with("Take "), "{first}");
    let again = run();
    assert_eq!((&again["runs"]["before"], &again["ranking"]), (&12.into(), &first["ranking"]));
    let page = std::fs::read_to_string(out.join("compare-bulk.html")).unwrap();
    assert!(page.contains("kernel MPTCP") && page.contains("Rate of each path"));
    for file in ["network.toml", "plan.toml", "runs.parquet", "sweep.csv", "compare-bulk.md"] {
        assert!(out.join(file).exists(), "{file}");
    }
}

#[test]
fn what_cannot_be_compared_is_refused_before_any_run() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("out");
    let csv = directory.path().join("bad.csv");
    std::fs::write(&csv, "time,wifi_mbps,lte_mbps\n0,1,2\n1,1,?\n").unwrap();
    let refuse = |arguments: &[&str], code: i32, parts: &[&str]| {
        let all: Vec<&str> =
            ["compare"].iter().chain(arguments).copied().chain(["--out", text(&out)]).collect();
        refused(&output(&all), code, parts);
    };
    refuse(&[text(&csv)], 1, &["bad.csv:3: column `lte_mbps`", "`?`"]);
    refuse(&["mars"], 1, &["mars: "]);
    refuse(&["mobility", "--workload", "bulg"], 2, &["bulg", "bulk, tiles, dash, messages, objects"]);
    refuse(&["mobility", "--transports", "tcp:lte"], 1, &["unknown path `lte`", "wifi"]);
    refuse(&["mobility", "--congestion", "rhino"], 1, &["rhino", "cubic"]);
    refuse(&["mobility", "--workload", "tiles", "--seconds", "90"], 1, &["tiles needs runs of", "90 s"]);
}
