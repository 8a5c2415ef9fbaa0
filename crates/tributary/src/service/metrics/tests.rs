//! The text of a scrape against the status that it was made of, and what the endpoint refuses.

use super::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// A scrape as samples by name and labels; every one belongs to a metric with HELP and TYPE above it.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let (mut helped, mut typed, mut samples) = (String::new(), String::new(), BTreeMap::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(!help.is_empty());
            name.clone_into(&mut helped);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(
                (name.ends_with("_total"), kind == "counter"),
                (kind == "counter", name.ends_with("_total"))
            );
            name.clone_into(&mut typed);
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let name = series.split('{').next().unwrap();
            assert_eq!((name, name), (helped.as_str(), typed.as_str()), "{line}");
            let before = samples.insert(series.to_owned(), value.parse().expect("a number"));
            assert!(before.is_none(), "twice: {line}");
        }
    }
    samples
}

fn serve() -> Value {
    let client = |name: &str, rtt: Value| {
        json!({ "client": name, "sessions": 2, "connections": 3, "memory": 8_388_608, "sent": 5_000_000_001_u64,
            "received": 7, "sent_again": 0,
            "paths": [{ "path": "0", "up": 2, "rtt_ms": rtt, "sent": 5, "received": 6 }] })
    };
    json!({ "role": "serve", "pid": 1, "uptime_s": 1.5, "started": 1e9, "sessions": [{}, {}], "destinations": [],
        "memory": { "bound": 1000, "taken": 10, "refused": 1, "gave_way": 2 },
        "clients": [client("laptop", json!(12.5)), client("a\"b\\c\nd", Value::Null)] })
}

#[test]
fn a_servers_clients_and_paths_have_series_of_their_own() {
    let text = text("serve", serve());
    let samples = samples(&text);
    let of = |series: &str| samples.get(series).copied();
    assert_eq!(of("tributary_sessions{role=\"serve\"}"), Some(2.0));
    assert_eq!(of("tributary_memory_refused_total{role=\"serve\"}"), Some(1.0));
    assert_eq!(
        of("tributary_client_sent_bytes_total{role=\"serve\",client=\"laptop\"}"),
        Some(5_000_000_001.0)
    );
    assert_eq!(
        of("tributary_client_path_rtt_seconds{role=\"serve\",client=\"laptop\",path=\"0\"}"),
        Some(0.0125)
    );
    let odd = "{role=\"serve\",client=\"a\\\"b\\\\c\\nd\",path=\"0\"}";
    assert_eq!(of(&format!("tributary_client_paths_up{odd}")), Some(2.0), "{text}");
    assert_eq!(of(&format!("tributary_client_path_rtt_seconds{odd}")), None, "not known");
    assert!(!text.contains("tributary_path_"), "a server's paths belong to clients");
}

#[test]
fn a_clients_paths_have_their_states() {
    let path = |radio: &str, state: &str| json!({ "radio": radio, "state": state, "since_s": 2.0, "rtt_ms": 3.0, "sent": 1, "received": 2 });
    let status = json!({ "role": "connect", "sessions": [
        { "paths": [path("wlan0=h:1", "up"), path("wwan0=h:1", "silent")] }] });
    let samples = samples(&text("connect", status));
    for (name, wlan, wwan) in [("up", 1.0, 0.0), ("silent", 0.0, 1.0), ("state_age_seconds", 2.0, 2.0)] {
        let of =
            |path: &str| samples[&format!("tributary_path_{name}{{role=\"connect\",path=\"{path}=h:1\"}}")];
        assert_eq!((of("wlan0"), of("wwan0")), (wlan, wwan), "{name}");
    }
}

/// Every number that a node shows has a metric.
#[test]
fn every_counter_of_a_node_is_a_metric() {
    let link = tributary_nodes::LinkStatus { rtt_ms: Some(2.5), ..Default::default() };
    let status = tributary_nodes::Status { role: "gateway", links: vec![link], ..Default::default() };
    let status = serde_json::to_value(&status).unwrap();
    let fields: BTreeSet<&str> =
        families::FAMILIES.iter().flat_map(|family| family.metrics).map(families::Metric::field).collect();
    let mut numbers = Vec::new();
    for (group, object) in
        [("/coding", &status["coding"]), ("/inner", &status["inner"]), ("", &status["links"][0])]
    {
        let of_group = object.as_object().expect("an object").iter();
        numbers.extend(
            of_group
                .filter(|(_, v)| v.is_number() || v.is_boolean())
                .map(|(name, _)| format!("{group}/{name}")),
        );
    }
    assert!(numbers.len() > 40, "{numbers:?}");
    let missing: Vec<_> = numbers.iter().filter(|field| !fields.contains(field.as_str())).collect();
    assert!(missing.is_empty(), "without a metric: {missing:?}");
    let text = text("gateway", status);
    assert!(text.contains("tributary_link_rtt_seconds{role=\"gateway\",link=\"\"} 0.0025\n"), "{text}");
}

fn site(status: Value, local: &str) -> Site {
    Site {
        turn: Default::default(),
        local: local.parse().unwrap(),
        role: "serve",
        describe: Arc::new(move || status.clone()),
    }
}

fn ask(site: &Site, method: &str, path: &str, host: &str) -> (u16, String) {
    let request = Request::builder().method(method).uri(path).header("host", host).body(()).unwrap();
    let (status, text) = site.answer_now(&request);
    (status.as_u16(), text)
}

#[test]
fn a_loopback_endpoint_answers_to_its_address_only() {
    let site = site(serve(), "127.0.0.1");
    assert_eq!(ask(&site, "GET", "/metrics", "127.0.0.1:9464").0, 200);
    for own in ["localhost", "[::1]:9464", "127.0.0.1"] {
        assert_eq!(ask(&site, "GET", "/healthz", own), (200, "ok\n".to_owned()), "{own}");
    }
    for foreign in ["evil.example", "evil.example:9464", "localhost.evil.example", ""] {
        assert_eq!(ask(&site, "GET", "/metrics", foreign).0, 421, "{foreign}");
    }
    assert_eq!(ask(&site, "POST", "/metrics", "localhost").0, 405);
    assert_eq!(ask(&site, "GET", "/", "localhost").0, 404);
    let remote = self::site(serve(), "192.0.2.1");
    assert_eq!(ask(&remote, "GET", "/metrics", "metrics.example").0, 200, "others reach it by name");
}

#[test]
fn a_program_is_ready_when_it_can_carry_something() {
    let of = |status: Value| ask(&site(status, "127.0.0.1"), "GET", "/readyz", "localhost");
    let session = |state: &str| json!({ "role": "connect", "sessions": [{ "paths": [{ "state": state }] }] });
    assert_eq!(of(session("up")).0, 200);
    assert_eq!(of(session("down")), (503, "not ready: no path is up\n".to_owned()));
    assert_eq!(of(json!({ "role": "connect", "sessions": [] })).0, 503);
    assert_eq!(of(serve()).0, 200);
    let mut ending = serve();
    ending["draining"] = true.into();
    assert_eq!(of(ending), (503, "not ready: the program is ending\n".to_owned()));
    assert_eq!(of(json!({ "role": "device", "links": [{ "up": false }, { "up": true }] })).0, 200);
    assert_eq!(of(json!({ "role": "device", "links": [{ "up": false }] })).0, 503);
}

#[test]
fn an_address_that_others_reach_needs_a_word() {
    let arguments = |metrics: &str, metrics_remote| MetricsArguments {
        metrics: Some(metrics.parse().unwrap()),
        metrics_remote,
    };
    for reached in ["0.0.0.0:9464", "192.0.2.1:9464", "[::]:9464"] {
        let error = arguments(reached, false).bind(&PassedSockets::default()).unwrap_err().to_string();
        assert!(error.contains("--metrics-remote"), "{error}");
        assert!(arguments(reached, true).check().is_ok());
    }
    assert!(arguments("[::ffff:127.0.0.1]:0", false).check().is_ok());
    let first = arguments("127.0.0.1:0", false).bind(&PassedSockets::default()).unwrap().expect("it listens");
    let error = arguments(&first.address.to_string(), false).bind(&PassedSockets::default()).unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.contains(&first.address.to_string()) && error.contains("in use") && error.contains("free port"),
        "{error}"
    );
}

/// Every query of the Grafana dashboard names metrics that exist.
#[test]
fn the_dashboards_queries_name_metrics() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana/tributary.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let known: BTreeSet<String> = families::FAMILIES
        .iter()
        .flat_map(|family| family.metrics)
        .map(families::Metric::full_name)
        .collect();
    let mut queries = 0;
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().expect("a query");
            let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let mut named = words.filter(|word| word.starts_with("tributary_")).peekable();
            assert!(named.peek().is_some(), "{query}");
            named.for_each(|name| assert!(known.contains(name), "{query}: there is no {name}"));
            queries += 1;
        }
    }
    assert!(queries >= 8, "{queries}");
}

/// What a scrape of a full server costs: 1000 clients with two paths each. The time is printed, not judged.
#[test]
fn a_scrape_of_a_thousand_clients_is_linear() {
    let with = |clients: usize| {
        let mut status = serve();
        let client = |n: usize| {
            let mut client = status["clients"][0].clone();
            client["client"] = format!("client-{n}").into();
            let mut second = client["paths"][0].clone();
            second["path"] = "1".into();
            client["paths"].as_array_mut().unwrap().push(second);
            client
        };
        let all: Vec<Value> = (0..clients).map(client).collect();
        status["clients"] = all.into();
        status
    };
    let status = with(1000);
    let began = std::time::Instant::now();
    let text = text("serve", status);
    // real time: printed for the reader, no bound.
    println!("1000 clients: {} bytes in {:?}", text.len(), began.elapsed());
    let lines =
        |clients| super::text("serve", with(clients)).lines().filter(|line| !line.starts_with('#')).count();
    let (one, two, many) = (lines(1), lines(2), text.lines().filter(|line| !line.starts_with('#')).count());
    assert_eq!(many, one + 999 * (two - one));
    samples(&text);
}
