//! Settings of a run from the user and the scenario, and the fields of the result.

use super::*;
use crate::request::{Request, RequestError};
use std::time::Duration;
use tributary_link::ScenarioError;
use tributary_types::DataSize;

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, "net.toml").unwrap()
}

const NETWORK: &str = r#"
name = "net"
duration = "3 s"
seed = 9
[[path]]
name = "wifi"
down.rate = "8 Mbit/s"
[[path]]
name = "lte"
down.rate = "4 Mbit/s"
down.loss = "1 %"
[run]
transport = "mptcp"
scheduler = "blest"
congestion = "reno"
workload = { kind = "object", size = "10 kB", count = 4 }
"#;

#[test]
fn settings_not_given_come_from_the_scenario() {
    let simulation = Request::default().simulated(&parse(NETWORK)).unwrap();
    assert_eq!(simulation.cell.transport.name(), "mptcp/blest");
    assert_eq!((simulation.cell.congestion.as_str(), simulation.cell.scenario.seed), ("reno", 9));
    assert_eq!(simulation.cell.scenario.duration, Duration::from_secs(3));
    assert_eq!(simulation.cell.workloads[0].kind(), "object");
    let request = Request {
        transport: Some("lte".to_owned()),
        congestion: Some("cubic".to_owned()),
        seed: Some(2),
        seconds: Some(5),
        rtt: Some(Duration::from_millis(30)),
        ..Request::default()
    };
    let simulation = request.simulated(&parse(NETWORK)).unwrap();
    assert_eq!((simulation.cell.transport.name(), simulation.cell.scenario.seed), ("lte".to_owned(), 2));
    assert_eq!(simulation.cell.scenario.duration, Duration::from_secs(5));
    let plain = Request::default().simulated(&Scenario::builtin("los").unwrap()).unwrap();
    assert_eq!((plain.cell.transport.name(), plain.cell.congestion.as_str()), ("fbdt".to_owned(), "cubic"));
    assert_eq!(plain.cell.scenario.duration, Duration::from_secs(10));
}

#[test]
fn unknown_names_in_a_file_are_refused_with_their_line() {
    for (from, to, place) in [
        ("\"mptcp\"", "\"mptpc\"", "net.toml:13: run.transport"),
        ("\"blest\"", "\"best\"", "net.toml:14: run.scheduler"),
        ("\"reno\"", "\"rhino\"", "net.toml:15: run.congestion"),
    ] {
        let error = Request::default().simulated(&parse(&NETWORK.replace(from, to))).unwrap_err();
        assert!(matches!(error, RequestError::Scenario(ScenarioError::Field { .. })), "{error}");
        assert!(error.to_string().starts_with(place), "{error}");
        assert!(error.to_string().contains("known"), "{error}");
    }
}

#[test]
fn simulated_results_have_the_fields_of_emulated_ones() {
    let mut simulation = Simulation::bulk(
        &parse(NETWORK),
        &TransportName::find("fbdt", None, &parse(NETWORK).path_names()).unwrap(),
        "cubic",
    );
    let (result, _) = simulation.run().unwrap();
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(json["world"], "sim");
    for field in ["scenario", "transport", "congestion", "goodput", "silences", "links", "audit", "record"] {
        assert!(!json[field].is_null(), "{field}");
    }
    assert!(json["record"]["bulk"]["bytes"].as_u64().unwrap() > 1_000_000);
    assert_eq!(json["virtual"]["hash"].as_str().unwrap().len(), 16);
    let text = summary(&result);
    assert!(text.contains("Mbit/s without the first second") && text.contains("event log"), "{text}");
    simulation.cell.workloads = Request::default().simulated(&parse(NETWORK)).unwrap().cell.workloads;
    let (result, _) = simulation.run().unwrap();
    assert!(result.goodput.is_none());
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(json["record"]["object"]["completion_ms"].as_array().unwrap().len(), 4);
    assert_eq!(result.flows[0].complete, 4);
}

#[test]
fn captures_and_logs_are_written_beside_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let scenario = parse(NETWORK);
    let simulation = Simulation::bulk(
        &scenario,
        &TransportName::find("mptcp", None, &scenario.path_names()).unwrap(),
        "cubic",
    );
    let files =
        Files { pcap: Some(directory.path().join("a.pcap")), qlog: Some(directory.path().join("logs")) };
    let mut shares = Vec::new();
    let (result, written) = files.run(&simulation, &mut |share, _| shares.push(share)).unwrap();
    assert_eq!(result.virtual_time.hash, simulation.run().unwrap().0.virtual_time.hash);
    assert_eq!(written.len(), 2);
    assert!(shares.len() > 10 && shares.last() == Some(&1.0));
    let capture = std::fs::read(&written[0]).unwrap();
    assert_eq!(capture[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    let log = std::fs::read_to_string(&written[1]).unwrap();
    let mut names = std::collections::BTreeSet::new();
    for line in log.lines() {
        let record = line.strip_prefix('\u{1e}').expect("a JSON text sequence");
        let value: serde_json::Value = serde_json::from_str(record).unwrap();
        names.extend(value["name"].as_str().map(str::to_owned));
    }
    assert!(
        names.contains("recovery:metrics_updated") && names.contains("tributary:link_losses"),
        "{names:?}"
    );
    let nowhere = Files { pcap: Some(directory.path().join("no/such/a.pcap")), qlog: None };
    assert!(nowhere.run(&simulation, &mut |_, _| ()).unwrap_err().to_string().contains("a.pcap"));
}

#[test]
fn a_transfer_of_known_size_has_its_own_length() {
    let scenario = parse(NETWORK);
    let simulated = |size: u64| {
        let mut simulation = Simulation::bulk(
            &scenario,
            &TransportName::find("wifi", None, &scenario.path_names()).unwrap(),
            "cubic",
        );
        simulation.cell.workloads = vec![WorkloadSpec::Bulk { size: Some(DataSize::from_bytes(size)) }];
        let (result, _) = simulation.run().unwrap();
        let Some(crate::Record::Bulk(record)) = result.record.clone() else { panic!("a bulk record") };
        (result, record)
    };
    let (result, record) = simulated(500_000);
    assert!((0.5..1.0).contains(&record.seconds), "{}", record.seconds);
    assert!((4.0..8.0).contains(&record.goodput_mbps), "{}", record.goodput_mbps);
    assert_eq!((record.end, record.intact), (tributary_stream::End::Complete, None));
    assert_eq!(result.goodput, None, "no second was measured");
    let (result, record) = simulated(50_000_000);
    assert_eq!((record.seconds, record.end), (3.0, tributary_stream::End::TimedOut));
    assert_eq!(result.goodput.unwrap().per_second_mbps.len(), 3);
}

#[test]
fn settings_that_do_not_apply_to_the_transport_are_refused() {
    let with = |transport: &str, scheduler: &str| Request {
        transport: Some(transport.to_owned()),
        scheduler: Some(scheduler.to_owned()),
        ..Request::default()
    };
    for transport in ["fbdt", "mpquic", "lte", "quic"] {
        let error = with(transport, "blest").simulated(&parse(NETWORK)).unwrap_err().to_string();
        assert!(error.starts_with("--scheduler blest") && error.contains(transport), "{error}");
    }
    assert!(with("session", "blest").simulated(&parse(NETWORK)).is_ok());
    for (from, to, place) in [
        ("\"mptcp\"", "\"wifi\"", "net.toml:14: run.scheduler"),
        ("scheduler = \"blest\"", "metrics = [\"godput\"]", "net.toml:14: run.metrics"),
    ] {
        let error = Request::default().simulated(&parse(&NETWORK.replace(from, to))).unwrap_err().to_string();
        assert!(error.starts_with(place), "{error}");
    }
    let single = NETWORK.replace("\"mptcp\"", "\"quic\"").replace("scheduler = \"blest\"", "subflows = 2");
    let error = Request::default().simulated(&parse(&single)).unwrap_err().to_string();
    assert!(error.starts_with("net.toml:14: run.subflows"), "{error}");
}
