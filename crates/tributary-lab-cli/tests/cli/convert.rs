//! `convert` on the command line: the same network in other forms.

use super::{output, refused};
use core::time::Duration;
use std::path::Path;
use tempfile::TempDir;
use tributary_link::Trace;
use tributary_testing::text;

#[test]
fn a_trace_keeps_its_rates_in_every_form() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("radio.csv");
    std::fs::write(&file, "time (s),wifi (Mbit/s)\n0,12\n1,24\n2,12\n3,12\n").unwrap();
    let convert = |from: &Path, form: &str, name: &str| {
        let out = directory.path().join(form);
        let output = output(&["convert", text(from), "--to", form, "--out", text(&out)]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read_to_string(out.join(name)).unwrap()
    };
    // 60 Mbit in packets of 1500 bytes; in the second with 24 Mbit/s 2000 of them.
    for from in [file.clone(), directory.path().join("scenario/network.toml")] {
        let packets = convert(&from, "mahimahi", "radio.down");
        let times: Vec<u64> = packets.lines().map(|line| line.parse().unwrap()).collect();
        let second = times.iter().filter(|at| (1001..=2000).contains(*at)).count();
        assert_eq!((times.len(), second, *times.last().unwrap()), (5000, 2000, 4000));
        let csv = convert(&from, "csv", "radio.up.csv");
        assert!(csv.contains("1.000000000,24.000000\n"));
        // The last span of two seconds is as long as it was.
        assert_eq!(Trace::parse_csv(&csv).unwrap().period(), Duration::from_secs(4));
        if from == file {
            convert(&from, "scenario", "network.toml");
        }
    }
    let scenario = directory.path().join("scenario/network.toml");
    let again = output(&["convert", text(&scenario), "--to", "scenario"]);
    refused(&again, 1, &["a scenario file is one already"]);
}
