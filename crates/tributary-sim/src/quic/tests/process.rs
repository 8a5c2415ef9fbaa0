//! Properties of the process, such as the seeds of its hash maps, have no effect on the events.

use std::process::Command;

use super::*;

/// Set in the child process.
const ASKED: &str = "TRIBUTARY_SIM_QUIC_ASKED";

/// Hashes of a lossy run with either QUIC crate.
fn hashes() -> String {
    let config = QuicConfig { seed: 11, protection: Protection::Tls, ..QuicConfig::default() };
    let ways = [TestPath { loss: 0.01, ..way(20, 10) }, TestPath { dead: Some((300, 900)), ..way(20, 20) }];
    let single = Rig::single(&config, ways[0], &bulk(1_000_000)).run(2_000).world.log().hash();
    let multi = Rig::multi(&config, &ways, &bulk(2_000_000)).run(2_000).world.log().hash();
    format!("hashes {single:016x} {multi:016x}")
}

#[test]
fn another_process_sees_the_same_events() {
    let own = hashes();
    println!("{own}");
    if std::env::var_os(ASKED).is_some() {
        return;
    }
    let test = "quic::tests::process::another_process_sees_the_same_events";
    let asked = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ASKED, "1")
        .output()
        .unwrap();
    let answer = String::from_utf8_lossy(&asked.stdout);
    assert!(answer.contains(&own), "{own} is not in {answer}");
}
