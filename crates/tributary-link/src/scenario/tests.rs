//! Reading scenarios: all built-in ones, all errors with their places, no panic on any text.

use super::*;
use crate::{LinkConfig, LossSpec, RateSpec};
use proptest::prelude::*;
use tributary_types::{Bitrate, Instant};

mod network;

const GOOD: &str = r#"
name = "two"
duration = "10 s"
seed = 7
rtt = "20 ms"

[[path]]
name = "wifi"
down.rate = "47 Mbit/s"
down.loss = { to_bad = 0.01, to_good = 0.2, loss_good = 0, loss_bad = "50 %" }

[[path]]
name = "wigig"
dead = [["30 %", "8 s"]]
[path.down]
rate = { turns = [["1.5 s", "140 Mbit/s"], ["1 s", "0 Mbit/s"]] }
delay = { base = "2 ms", jitter = "100 us", changes = [["3 s", "502 ms"]] }
queue = { time = "50 ms", floor = "32 KiB" }
[path.up]
rate = { trace = { csv = "0,10\n1,20\n" } }
loss = 0.05
"#;

fn seconds(n: u64) -> Instant {
    Instant::from_millis(1000 * n)
}

#[test]
fn all_built_in_scenarios_load_and_have_the_names_of_their_files() {
    for name in Scenario::builtin_names() {
        let scenario = Scenario::builtin(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(scenario.name, name);
        scenario.check().unwrap();
    }
    let error = Scenario::builtin("lost").unwrap_err().to_string();
    assert!(error.contains("`lost`") && error.contains("deep-fade, blackout"), "{error}");
}

#[test]
fn every_field_of_a_scenario_is_read() {
    let scenario = Scenario::parse(GOOD, "two.toml").unwrap();
    let (index, wigig) = scenario.path("wigig").unwrap();
    assert_eq!(scenario.paths[0].up, scenario.paths[0].down, "up follows down");
    assert_eq!(wigig.up.loss, LossSpec::Bernoulli(0.05));
    assert_eq!(wigig.down.delay.base_at(seconds(3)), Duration::from_millis(502));
    assert_eq!(wigig.down.delay.base_at(seconds(2)), Duration::from_millis(2));
    let config = scenario.link_config(index, Direction::Up);
    assert_eq!(config.extra_delay, Duration::from_millis(10));
    assert_eq!(config.dead, [(seconds(3), seconds(8))]);
    assert_eq!(scenario.capacity(index, Direction::Up, seconds(0), seconds(2)).as_bytes(), 30_000_000 / 8);
    assert_eq!(
        scenario.capacity(index, Direction::Down, seconds(0), seconds(10)).as_bytes(),
        140_000_000 / 8 * 3
    );
    let doubled = scenario.with_duration(Duration::from_secs(20));
    assert_eq!(doubled.link_config(index, Direction::Up).dead, [(seconds(6), seconds(8))]);
}

#[test]
fn both_directions_of_a_radio_are_blocked_together() {
    let scenario = Scenario::builtin("onoff").unwrap().with_seed(9);
    let blocked = |direction| {
        let config = scenario.link_config(1, direction);
        (0..300)
            .map(|i| {
                let (from, to) = (Instant::from_millis(100 * i), Instant::from_millis(100 * (i + 1)));
                config.capacity(from, to)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(blocked(Direction::Down), blocked(Direction::Up));
    assert!(blocked(Direction::Up).contains(&DataSize::ZERO));
    let alone = scenario.clone().only("wigig").unwrap();
    assert_eq!(
        alone.capacity(0, Direction::Down, seconds(0), seconds(9)),
        scenario.capacity(1, Direction::Down, seconds(0), seconds(9)),
        "a radio has the same conditions alone"
    );
}

/// Replaces `from` by `to` in the valid text; the error must name the line and contain `words`.
fn refused(from: &str, to: &str, line: usize, words: &[&str]) {
    assert!(GOOD.contains(from));
    let error = Scenario::parse(&GOOD.replacen(from, to, 1), "two.toml").unwrap_err().to_string();
    assert!(error.starts_with(&format!("two.toml:{line}: ")), "{to}: {error}");
    words.iter().for_each(|word| assert!(error.contains(word), "{to}: {error}"));
}

#[test]
fn errors_name_file_line_and_field() {
    refused("seed = 7", "sede = 7", 4, &["sede", "unknown key", "seed"]);
    refused("seed = 7", "seed = -7", 4, &["seed", "-7"]);
    refused("\"20 ms\"", "\"-20 ms\"", 5, &["rtt", "negative"]);
    refused("\"20 ms\"", "\"20 parsec\"", 5, &["rtt", "parsec", "ms"]);
    refused("\"20 ms\"", "20", 5, &["rtt", "text in quotes", "integer"]);
    refused("\"wifi\"", "\"WiFi!\"", 8, &["name", "a-z"]);
    refused("\"wigig\"", "\"wifi\"", 13, &["name", "two paths"]);
    refused("\"47 Mbit/s\"", "\"0 Mbit/s\"", 9, &["down.rate", "dead"]);
    refused("\"47 Mbit/s\"", "\"470 Gbit/s\"", 9, &["down.rate", "highest"]);
    refused("\"47 Mbit/s\"", "\"fast\"", 9, &["down.rate", "47 Mbit/s"]);
    refused("to_bad = 0.01", "to_bad = 1.01", 10, &["to_bad", "probability"]);
    refused("\"8 s\"", "\"1 s\"", 14, &["dead", "end after"]);
    refused("turns", "turn", 16, &["turn", "turns"]);
    refused("\"32 KiB\"", "\"3 B\"", 18, &["queue", "1500"]);
    refused("0,10\\n1,20", "0,10\\n2,20\\n1,30", 20, &["rate.trace", "line 3", "sort"]);
    refused("[path.up]", "[path.up", 19, &["TOML"]);
}

#[test]
fn a_table_of_measurements_has_the_units_of_its_headings() {
    let read = |time: &str, unit: &str, rate: &str| {
        let trace = format!(
            "rate = {{ trace = {{ text = \"{time},{rate}\\n0,20000\\n500,40000\\n1000,0\\n\", time = \"{time}\", {unit}rate = \"{rate}\" }} }}"
        );
        let text = GOOD.replace("rate = { trace = { csv = \"0,10\\n1,20\\n\" } }", &trace);
        assert_ne!(text, GOOD);
        Scenario::parse(&text.replace("dead = [[\"30 %\", \"8 s\"]]\n", ""), "two.toml")
    };
    let half = Duration::from_millis(500);
    for (time, unit, rate, until) in [
        ("time (ms)", "", "rate (kbit/s)", half),
        ("at_us", "time_unit = \"ms\", ", "kbps", half),
        ("time_min", "", "rate (kbit/s)", 60 * half * 1000),
    ] {
        let scenario = read(time, unit, rate).unwrap();
        let wigig = scenario.path("wigig").unwrap().0;
        let bytes = scenario.capacity(wigig, Direction::Up, seconds(0), seconds(0) + until).as_bytes();
        assert_eq!(bytes, (until.as_secs_f64() * 20e6 / 8.0) as u64, "{time}: 20 Mbit/s in its first part");
    }
    for (time, rate) in [("time (fortnights)", "kbps"), ("time (ms)", "rate (furlongs)")] {
        let error = read(time, "", rate).unwrap_err().to_string();
        let unit = if time == "time (ms)" { "furlongs" } else { "fortnights" };
        assert!(error.contains("two.toml:") && error.contains(unit) && error.contains("unit"), "{error}");
    }
}

#[test]
fn a_byte_order_mark_before_a_scenario_is_no_part_of_it() {
    let marked = Scenario::parse(&format!("\u{feff}{GOOD}"), "two.toml").expect("a scenario");
    assert_eq!(marked, Scenario::parse(GOOD, "two.toml").expect("a scenario"));
}

#[test]
fn traces_follow_their_formats() {
    let mahimahi = crate::Trace::parse_mahimahi("1\n1\n3\n10\n").unwrap();
    assert_eq!(mahimahi.period(), Duration::from_millis(10));
    let spec = LinkSpec::with_rate(RateSpec::Trace(std::sync::Arc::new(mahimahi)));
    let config = LinkConfig::new(spec, 1);
    let bytes = |from, to| config.capacity(Instant::from_millis(from), Instant::from_millis(to)).as_bytes();
    assert_eq!((bytes(0, 1), bytes(1, 2), bytes(2, 3), bytes(3, 9), bytes(9, 10)), (3000, 0, 1500, 0, 1500));
    assert_eq!((bytes(0, 1_000), bytes(500, 1_510)), (600_000, 606_000));
    for (bad, line) in [("", 1), ("1\nx", 2), ("5\n4", 2), ("-1", 1), ("99999999999999", 1)] {
        assert_eq!(crate::Trace::parse_mahimahi(bad).unwrap_err().line, line, "{bad}");
    }
    assert!(crate::Trace::parse_csv("# x\nseconds,mbit/s\n0,1\n0.5,2\n").is_ok());
    for (bad, line) in
        [("", 1), ("1,2,3", 1), ("0,1\n1,2\n0,2", 3), ("0,-1", 1), ("0,1\nab,c", 2), ("0,nan", 1), ("0 1", 1)]
    {
        assert_eq!(crate::Trace::parse_csv(bad).unwrap_err().line, line, "{bad}");
    }
}

#[test]
fn scenarios_made_in_code_are_checked_like_files() {
    let zero = Scenario::new("zero").with_path(PathSpec::symmetric("a", LinkSpec::constant(Bitrate::ZERO)));
    let error = zero.check().unwrap_err().to_string();
    assert!(error.contains("zero") && error.contains("path a: down.rate"), "{error}");
    assert!(Scenario::new("empty").check().is_err());
    let missing = Scenario::find("no/such/file.toml").unwrap_err().to_string();
    assert!(missing.starts_with("no/such/file.toml: "), "{missing}");
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,300}") {
        let _ = Scenario::parse(&text, "any");
        let _ = crate::Trace::parse_csv(&text);
        let _ = crate::Trace::parse_mahimahi(&text);
    }

    #[test]
    fn no_mutation_of_a_good_file_panics(at in 0..GOOD.len(), length in 0..40_usize, insert in "[ -~\n]{0,20}") {
        let end = (at + length).min(GOOD.len());
        let (head, tail) = (GOOD.get(..at).unwrap_or(""), GOOD.get(end..).unwrap_or(""));
        if let Ok(scenario) = Scenario::parse(&format!("{head}{insert}{tail}"), "any") {
            prop_assert!(scenario.check().is_ok());
        }
    }

    #[test]
    fn no_numbers_panic_in_traces(numbers in prop::collection::vec((any::<u32>(), any::<f64>()), 0..50)) {
        let csv: String = numbers.iter().map(|(a, b)| format!("{a},{b}\n")).collect();
        let _ = crate::Trace::parse_csv(&csv);
        let stamps: String = numbers.iter().map(|(a, _)| format!("{a}\n")).collect();
        let _ = crate::Trace::parse_mahimahi(&stamps);
    }
}
