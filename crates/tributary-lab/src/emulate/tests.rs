//! The same file gives the same experiment as in the simulator; settings that the emulator does not support are
//! refused with file and line.

use super::*;
use crate::transport::SessionSettings;

const FILE: &str =
    "name = \"net\"\nduration = \"3 s\"\n[[path]]\nname = \"wifi\"\ndown.rate = \"8 Mbit/s\"\n[run]\n";

fn scenario(run: &str) -> Scenario {
    Scenario::parse(&format!("{FILE}{run}"), "net.toml").unwrap()
}

fn refused(run: &str, parts: &[&str]) {
    let error = Request::default().emulated(&scenario(run)).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

#[test]
fn a_scenario_file_is_the_same_experiment_as_in_the_simulator() {
    let run = "transport = \"session\"\nscheduler = \"blest\"\ncongestion = \"reno\"\n\
               workload = { kind = \"object\", size = \"10 kB\", count = 4, pause = \"20 ms\" }\n";
    let cell = Request::default().emulated(&scenario(run)).unwrap();
    assert_eq!((cell.transport.name().as_str(), cell.congestion.as_str()), ("blest", "reno"));
    let object = Workload::Object { size: 10_000, count: 4, pause_ms: 20, limit: 3.0 };
    assert_eq!(cell.workload, object);
    let only = Request::default().emulated(&scenario("scheduler = \"ecf\"\n")).unwrap();
    assert_eq!((only.transport.name().as_str(), only.workload), ("ecf", Workload::Bulk { seconds: 3.0 }));
    let kernel = scenario("transport = \"mptcp\"\nscheduler = \"linux-default\"\n");
    assert_eq!(Request::default().emulated(&kernel).unwrap().transport.name(), "mptcp");
    let asked = Request {
        transport: Some("wifi".to_owned()),
        seconds: Some(5),
        workload: Some(Asked::Bulk),
        ..Request::default()
    };
    let cell = asked.emulated(&scenario(run)).unwrap();
    assert_eq!((cell.transport.name().as_str(), cell.workload), ("wifi", Workload::Bulk { seconds: 5.0 }));
    let plain = Request::default().emulated(&Scenario::builtin("los").unwrap()).unwrap();
    assert_eq!((plain.transport.name().as_str(), plain.workload), ("fbdt", Workload::Bulk { seconds: 10.0 }));
}

#[test]
fn every_transport_of_the_registry_can_be_requested() {
    let key = || tributary_net::Key::from_bytes([1; 32]);
    for name in tributary_proto::transport::names() {
        let asked = Request { transport: Some(name.to_owned()), ..Request::default() };
        let cell = asked.emulated(&scenario("")).unwrap();
        assert_eq!(cell.transport.kind(), name);
        let config = crate::transport::config(&cell.transport, &cell.congestion, key(), &cell.session);
        assert_eq!(config.name, cell.transport.without_path());
    }
}

#[test]
fn unsupported_settings_are_refused_with_file_and_line() {
    refused("subflows = 4\n", &["net.toml:7: run.subflows", "--world sim"]);
    refused("connections = 2\n", &["net.toml:7: run.connections", "--world sim"]);
    refused("workload = { kind = \"bulk\", size = \"1 MB\" }\n", &["net.toml:7: run.workload", "given size"]);
    refused("transport = \"mptcp\"\nscheduler = \"blest\"\n", &["net.toml:8: run.scheduler", "session"]);
    refused("transport = \"qick\"\n", &["net.toml:7: run.transport", "`qick`", "quic"]);
    refused("scheduler = \"best\"\n", &["net.toml:7: run.scheduler", "`best`", "blest"]);
    refused("metrics = [\"godput\"]\n", &["net.toml:7: run.metrics", "`godput`", "goodput"]);
}

#[test]
fn options_that_do_not_apply_to_the_transport_are_refused_by_name() {
    let with = |transport: &str, request: Request| {
        let request = Request { transport: Some(transport.to_owned()), ..request };
        request.emulated(&scenario("")).unwrap_err().to_string()
    };
    let scheduler = || Request { scheduler: Some("blest".to_owned()), ..Request::default() };
    for transport in ["wifi", "mptcp", "fbdt"] {
        assert!(with(transport, scheduler()).starts_with("--scheduler blest"), "{transport}");
    }
    let session = SessionSettings { window: Some(65_536), ..SessionSettings::default() };
    assert!(with("mptcp", Request { session, ..Request::default() }).contains("--window"));
}
