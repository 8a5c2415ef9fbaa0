//! The cases that the path controller's prober is tested with, too (`controller/tests/data/probes.toml`).

use super::*;

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    probes: Vec<Part>,
    random: Option<f64>,
}

#[derive(Deserialize)]
struct Part {
    repeat: usize,
    delays: Vec<u64>,
}

#[test]
fn loss_beside_a_long_queue_is_told_from_the_paths_own_as_in_the_path_controller() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../controller/tests/data/probes.toml");
    let cases: Cases = toml::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert!(cases.case.len() >= 9);
    for Case { name, probes, random } in cases.case {
        let delays = probes.iter().flat_map(|part| part.delays.repeat(part.repeat));
        let mut events = Vec::new();
        for (number, delay) in delays.enumerate() {
            let sent = number as u64 * 100;
            events.push((sent, false, number as u64));
            if delay > 0 {
                events.push((sent + delay, true, number as u64));
            }
        }
        events.sort_unstable();
        let mut answers = Answers::new(Probing::load());
        for (millis, is_answer, number) in events {
            let now = Instant::from_millis(millis);
            answers.handle_time(now);
            if is_answer {
                answers.handle_answer(number, now);
            } else {
                answers.handle_sent(number, now);
            }
        }
        match (answers.lost_beside_short_queue(), random) {
            (Some(share), Some(wanted)) => assert!((share - wanted).abs() < 0.021, "{name}: {share}"),
            (share, wanted) => assert_eq!(share, wanted, "{name}"),
        }
    }
}
