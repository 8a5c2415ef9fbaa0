//! From the user's files to a ranking: sources, plans, verdicts and advice.

use super::*;
use crate::reproduce::{Labels, Outcome, Paper, Sample, Selection};
use crate::result::World;
use core::time::Duration;
use std::path::Path;
use tributary_link::Direction;
use tributary_types::Instant;

fn written(directory: &Path, name: &str, contents: impl AsRef<[u8]>) -> String {
    let path = directory.join(name);
    std::fs::write(&path, contents).unwrap();
    path.display().to_string()
}

fn read(files: &[String]) -> Source {
    Source::read(files, None).unwrap_or_else(|error| panic!("{error}"))
}

/// Mean rate of a path towards the client in the first `seconds`, Mbit/s.
fn mbps(source: &Source, path: usize, direction: Direction, seconds: u64) -> f64 {
    let end = Instant::from_millis(seconds * 1000);
    source.scenario().capacity(path, direction, Instant::ZERO, end).as_bytes() as f64 * 8e-6 / seconds as f64
}

#[test]
fn traces_of_several_radios_make_one_network() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| written(directory.path(), name, text);
    let down: String = (1..=4000).map(|ms| format!("{ms}\n")).collect();
    let files = [
        file("LTE Trace.down", &down),
        file("LTE Trace.up", "2\n4\n"),
        file("wifi.csv", "time (s),wifi (Mbit/s),wigig (Mbit/s)\n0,10,100\n1,20,0\n"),
        file("mptcp.json", "[{\"duration_ms\": 1000, \"bandwidth_kbps\": 5000, \"latency_ms\": 80}]"),
    ];
    let source = read(&files);
    let scenario = source.scenario();
    assert_eq!(scenario.path_names(), ["lte-trace", "wifi", "wigig", "path-mptcp"]);
    assert_eq!(scenario.duration, Duration::from_secs(4));
    assert!((mbps(&source, 0, Direction::Down, 4) - 12.0).abs() < 0.01);
    assert!((mbps(&source, 0, Direction::Up, 4) - 6.0).abs() < 0.01);
    assert!((mbps(&source, 2, Direction::Down, 4) - 50.0).abs() < 0.01);
    let delays: Vec<u64> =
        scenario.paths.iter().map(|path| path.down.delay.base.as_millis() as u64).collect();
    assert_eq!(delays, [20, 20, 20, 40]);
    assert!(source.text().unwrap().contains("LTE Trace.down (Mahimahi)"));
    let far = Source::read(&files, Some(Duration::from_millis(100))).unwrap();
    assert_eq!(far.scenario().paths[0].up.delay.base, Duration::from_millis(50));
}

/// Second, microsecond, source, destination and length of an IP packet.
type Sent = (u32, u32, [u8; 4], [u8; 4], u32);

/// A capture as `tcpdump -w` writes it, little-endian, of raw IP packets.
fn capture(packets: &[Sent]) -> Vec<u8> {
    let mut file = Vec::new();
    [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 101].iter().for_each(|word| file.extend(word.to_le_bytes()));
    for (sec, usec, from, to, length) in packets {
        [*sec, *usec, 20, *length].iter().for_each(|word| file.extend(word.to_le_bytes()));
        let mut header = [0_u8; 20];
        header[0] = 0x45;
        header[12..16].copy_from_slice(from);
        header[16..20].copy_from_slice(to);
        file.extend(header);
    }
    file
}

#[test]
fn a_capture_has_a_path_for_each_address_that_receives_data() {
    let (server, wifi, lte) = ([192, 0, 2, 1], [10, 0, 0, 2], [10, 0, 1, 2]);
    let mut packets = Vec::new();
    for ms in 0..2000 {
        let (sec, usec) = (100 + ms / 1000, ms % 1000 * 1000);
        packets.push((sec, usec, server, wifi, 1500));
        packets.push((sec, usec, wifi, server, 40));
        if ms >= 1000 {
            packets.push((sec, usec, server, lte, 500));
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let whole = capture(&packets);
    let source = read(&[written(directory.path(), "walk.pcap", &whole)]);
    assert_eq!(source.scenario().path_names(), ["10-0-0-2", "10-0-1-2"]);
    assert!((mbps(&source, 0, Direction::Down, 2) - 12.0).abs() < 0.1);
    assert!((mbps(&source, 1, Direction::Down, 2) - 2.0).abs() < 0.1);
    assert_eq!(mbps(&source, 1, Direction::Down, 1), 0.0);
    let cut = read(&[written(directory.path(), "cut.pcap", &whole[..whole.len() - 7])]);
    assert_eq!(cut.scenario().path_names().len(), 2);
    for bytes in [&whole[..10], &whole[..24], &[0xd4, 0xc3, 0xb2, 0xa1]] {
        let file = written(directory.path(), "bad.pcap", bytes);
        let error = Source::read(std::slice::from_ref(&file), None).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{file}: ")) && error.contains("capture"), "{error}");
    }
}

#[test]
fn what_is_no_network_is_refused_with_file_line_and_the_way_out() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| written(directory.path(), name, text);
    let toml =
        file("a.toml", "name = \"a\"\nduration = \"1 s\"\n[[path]]\nname = \"x\"\ndown.rate = \"fast\"\n");
    let many = "time,".to_owned()
        + &(0..9).map(|n| format!("r{n}_mbps")).collect::<Vec<_>>().join(",")
        + "\n0,1,1,1,1,1,1,1,1,1\n1,1,1,1,1,1,1,1,1,1\n";
    for (files, parts) in [
        (vec![toml.clone()], vec!["a.toml:5: path[0].down.rate"]),
        (vec![toml, file("b.csv", "0,1\n1,2\n")], vec!["one .toml file alone"]),
        (
            vec![file("c.csv", "time,wifi_mbps,b_mbps\n0,1,2\n1,x,2\n")],
            vec!["c.csv:3: column `wifi_mbps`", "`x`"],
        ),
        (vec![file("many.csv", &many)], vec!["9 paths", "at most 8", "fewer"]),
        (vec!["/nowhere/trace".to_owned()], vec!["/nowhere/trace: ", "No such file"]),
        (vec![directory.path().display().to_string()], vec!["not a regular file"]),
        (vec![file("zero.csv", "0,0\n1,0\n")], vec![]),
    ] {
        match Source::read(&files, None) {
            Err(error) => {
                let error = error.to_string();
                assert!(parts.iter().all(|part| error.contains(part)), "{files:?}: {error}");
            }
            Ok(source) => {
                assert!(parts.is_empty() && !source.scenario().paths[0].dead.is_empty(), "{files:?}")
            }
        }
    }
    let binary = written(directory.path(), "noise", [0xff, 0xd8, 0xff, 0xe0, 0, 1, 2, 3]);
    assert!(Source::read(&[binary], None).unwrap_err().to_string().contains("Mahimahi"));
}

#[test]
fn a_plan_is_a_paper_with_every_transport() {
    let directory = tempfile::tempdir().unwrap();
    let source = read(&[written(directory.path(), "two.csv", "t,a_mbps,b_mbps\n0,1,2\n60,1,2\n")]);
    let choice = Choice {
        workload: Workload::Bulk,
        seeds: 4,
        seconds: None,
        congestion: "cubic".to_owned(),
        transports: Vec::new(),
    };
    std::fs::write(directory.path().join(source.name()), source.text().unwrap()).unwrap();
    let plan = written(directory.path(), "plan.toml", choice.plan(&source, false));
    let paper = Paper::find(&plan).unwrap();
    let cells = paper.cells(&Selection { world: World::Sim, ..Selection::default() }).unwrap();
    let names = transports(source.scenario());
    assert_eq!(cells.len(), 4 * names.len());
    assert!(cells.iter().all(|cell| cell.seconds == 30));
    for name in ["tcp:a", "quic:b", "mptcp", "mptcp/blest", "mpquic", "session/fbdt", "session/min-rtt"] {
        assert!(names.iter().any(|known| known == name), "{names:?}");
    }
    use crate::reproduce::{Experiment, comparison::Comparison};
    cells.iter().for_each(|cell| Comparison::default().check(cell).unwrap());
}

/// An outcome with these goodputs, one for each seed.
fn outcome(metric: &str, values: &[(&str, &[f64])]) -> Outcome {
    let mut outcome = Outcome::default();
    for (transport, values) in values {
        for (seed, value) in values.iter().enumerate() {
            let labels = Labels::from([("transport".to_owned(), (*transport).to_owned())]);
            let mut sample = Sample { labels, seed: seed as u64 + 1, ..Sample::default() };
            sample.set(metric, Some(*value));
            outcome.samples.push(sample);
        }
    }
    outcome
}

#[test]
fn verdicts_come_from_the_intervals_of_the_differences() {
    // Seeds differ much more than transports do: only the differences seed by seed show who is better.
    let runs: [(&str, &[f64]); 4] = [
        ("tcp:wifi", &[10.0, 50.0, 90.0, 30.0]),
        ("mptcp", &[12.0, 52.5, 92.0, 32.5]),
        ("session/fbdt", &[15.0, 55.0, 95.5, 35.0]),
        ("session/random", &[9.0, 55.0, 80.0, 40.0]),
    ];
    let ranking = Ranking::new(&outcome("goodput", &runs), Workload::Bulk);
    let order: Vec<&str> = ranking.standings.iter().map(|ranked| ranked.transport.as_str()).collect();
    assert_eq!(order, ["session/fbdt", "mptcp", "session/random", "tcp:wifi"]);
    let verdict = |at: usize| {
        let ranked = &ranking.standings[at];
        let of = |against: &Option<Against>| against.as_ref().map(|against| against.verdict);
        (of(&ranked.against_single), of(&ranked.against_mptcp))
    };
    use Verdict::{Better, Undecided, Worse};
    assert_eq!(verdict(0), (Some(Better), Some(Better)));
    assert_eq!(verdict(1), (Some(Better), None));
    assert_eq!(verdict(2), (Some(Undecided), Some(Undecided)));
    assert_eq!(verdict(3), (None, Some(Worse)));
    let advice = ranking.advice();
    assert!(
        advice.starts_with("Take a session with fbdt: goodput of 50.1 Mbit/s, 11 % more than WiFi alone"),
        "{advice}"
    );
    assert!(advice.contains("6.1 % more than kernel MPTCP"), "{advice}");
}

#[test]
fn advice_is_against_several_paths_if_they_do_not_help() {
    let of = |single: &[f64], several: &[f64]| {
        let runs = [("tcp:lte", single), ("session/fbdt", several)];
        Ranking::new(&outcome("message_p99", &runs), Workload::Messages).advice()
    };
    let worse = of(&[20.0, 22.0, 21.0], &[40.0, 43.0, 41.0]);
    assert!(worse.starts_with("Take lte alone") && worse.contains("session with fbdt, by 97 %"), "{worse}");
    let undecided = of(&[20.0, 22.0, 21.0], &[19.0, 24.0, 18.0]);
    assert!(undecided.contains("alone, or repeat with more seeds"), "{undecided}");
    let better = of(&[40.0, 43.0, 41.0], &[20.0, 22.0, 21.0]);
    assert!(
        better.starts_with("Take a session with fbdt") && better.contains("49 % less than lte alone"),
        "{better}"
    );
    let none = Ranking::new(&Outcome::default(), Workload::Bulk).advice();
    assert!(none.contains("No transport"), "{none}");
    let alone = Ranking::new(&outcome("goodput", &[("tcp:a", &[1.0])]), Workload::Bulk).advice();
    assert!(alone.starts_with("Take a alone"), "{alone}");
}
