//! Shared links, background traffic, link events and the `run` table: valid and refused values.

use super::super::*;
use super::seconds;
use crate::{BackgroundKind, LinkConfig};
use proptest::prelude::*;
use tributary_types::{Bitrate, Instant};

const GOOD: &str = r#"
name = "city"
duration = "20 s"

[[path]]
name = "wifi"
down.rate = "47 Mbit/s"
via = ["street", "backbone"]

[[path]]
name = "lte"
down.rate = "20 Mbit/s"
via = ["backbone"]
absent = [["2 s", "4 s"], ["4 s", "50 %"], ["18 s", "100 %"]]
dead = [["3 s", "11 s"]]

[[hop]]
name = "street"
down.rate = "60 Mbit/s"
up.rate = "30 Mbit/s"

[[hop]]
name = "backbone"
down.rate = "50 Mbit/s"
down.delay = "10 ms"
down.queue = { codel = { target = "5 ms", limit = "300 kB" } }
dead = [["1 s", "2 s"]]

[[background]]
on = "backbone"
kind = "on-off"
rate = "10 Mbit/s"
on_mean = "1 s"
off_mean = "500 ms"
from = "5 s"

[[background]]
on = "wifi"
direction = "up"
kind = "tcp"
flows = 3
congestion = "bbr"
rtt = "20 ms"

[run]
transport = "tributary"
scheduler = "fbdt"
congestion = "cubic"
subflows = 2
metrics = ["goodput"]
[[run.workload]]
kind = "request"
sizes = [["10 kB", 3], ["2 MB", 1]]
think = "1 s"
[[run.workload]]
kind = "messages"
rate = 50
size = "200 B"
priority = 7
deadline = "50 ms"
"#;

fn city() -> Scenario {
    Scenario::parse(GOOD, "city.toml").unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn chains_are_crossed_client_first_going_up_and_last_coming_down() {
    let (scenario, up) = (city(), Direction::Up);
    let [wifi, lte] = [LinkOwner::Path(0), LinkOwner::Path(1)];
    let [street, backbone] = [LinkOwner::Hop(0), LinkOwner::Hop(1)];
    assert_eq!(scenario.chain(0, up), [wifi, street, backbone]);
    assert_eq!(scenario.chain(0, Direction::Down), [backbone, street, wifi]);
    assert_eq!(scenario.chain(1, Direction::Down), [backbone, lte]);
    assert_eq!(scenario.link_config_at(street, up).spec.rate.max(), Bitrate::from_mbps(30));
    let bytes = |from, to| {
        scenario.capacity_bound(0, Direction::Down, seconds(from), seconds(to)).as_bytes() * 8 / 1_000_000
    };
    assert_eq!((bytes(0, 1), bytes(1, 2), bytes(0, 10)), (47, 0, 450));
    assert_eq!(scenario.hop_link_config(1, Direction::Down).extra_delay, Duration::ZERO);
}

#[test]
fn an_absent_radio_carries_nothing_and_reports_it() {
    let scenario = city();
    let expected = [(2, false), (10, true), (18, false)];
    let expected = expected.map(|(at, up)| LinkEvent { at: seconds(at), path: 1, up });
    assert_eq!(scenario.link_events(), expected);
    let away = scenario.link_config(1, Direction::Up).dead;
    assert_eq!(away, [(seconds(2), seconds(11)), (seconds(18), seconds(20))], "absent or dead");
}

#[test]
fn background_traffic_and_the_run_table_are_read() {
    let scenario = city();
    let [on_off, tcp] = &scenario.background[..] else { panic!("two sources") };
    assert_eq!((on_off.direction, on_off.to), (Direction::Down, Moment::Share(1.0)));
    let source = scenario.background(0).expect("packets");
    assert_eq!(source.poll_timeout(), Some(seconds(5)));
    assert!(scenario.background(1).is_none());
    let BackgroundKind::Tcp { flows: 3, congestion, rtt: Some(_) } = &tcp.kind else { panic!("{tcp:?}") };
    let refusal = congestion.refuse("not built in").to_string();
    assert_eq!(refusal, "city.toml:42: background[1].congestion: `bbr`: not built in");

    let run = &scenario.run;
    assert_eq!((run.scheduler.as_ref().map(Name::as_str), run.subflows), (Some("fbdt"), Some(2)));
    let scheduler = run.scheduler.as_ref().expect("given");
    assert_eq!(scheduler.written_at().map(|at| (at.line, at.field.as_str())), Some((47, "run.scheduler")));
    let [WorkloadSpec::Request { sizes, .. }, WorkloadSpec::Messages { priority: 7, .. }] =
        &run.workloads[..]
    else {
        panic!("{:?}", run.workloads)
    };
    assert_eq!(sizes[1], (DataSize::from_bytes(2_000_000), 1.0));
    assert!(Scenario::builtin("los").unwrap().run.is_empty());
    assert_eq!(Name::new("x").refuse("unknown").to_string(), "`x`: unknown");
}

#[test]
fn every_kind_of_workload_is_read() {
    let head = GOOD.split("[[run.workload]]").next().expect("a head");
    for (text, kind) in [
        ("kind = 'bulk'", "bulk"),
        ("kind = 'bulk'\nsize = '409 MB'", "bulk"),
        ("kind = 'object'\nsize = '100 KiB'\ncount = 20\npause = '1 s'", "object"),
        ("kind = 'request'\nsizes = ['10 kB', '1 GB']", "request"),
        ("kind = 'burst'\nsize = '1 MB'\nevery = '2 s'", "burst"),
        ("kind = 'constant'\nrate = '5 Mbit/s'", "constant"),
        ("kind = 'messages'\nrate = 0.5\nsize = '1 kB'", "messages"),
    ] {
        let text = format!("{head}[run.workload]\n{text}\n");
        let scenario = Scenario::parse(&text, "x").unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(scenario.run.workloads[0].kind(), kind);
    }
}

#[test]
fn one_path_keeps_its_shared_links_and_only_theirs() {
    let alone = city().only("lte").expect("there is one");
    assert_eq!(alone.hops.iter().map(|hop| hop.name.as_str()).collect::<Vec<_>>(), ["backbone"]);
    assert_eq!(alone.background.len(), 1, "the removed path has no background traffic");
    alone.check().unwrap();
    let (mut here, mut there) = (alone.background(0).unwrap(), city().background(0).unwrap());
    for _ in 0..5_000 {
        assert_eq!(here.poll_timeout(), there.poll_timeout(), "the same conditions");
        assert_eq!(here.poll(Instant::MAX), there.poll(Instant::MAX));
    }
}

#[test]
fn parts_the_emulator_does_not_support_are_reported() {
    let why = city().needs_simulator().expect("it has hops");
    assert!(why.contains("city") && why.contains("`street`") && why.contains("simulator"), "{why}");
    let path = PathSpec::symmetric("a", LinkSpec::constant(Bitrate::from_mbps(1)));
    let plain = Scenario::new("plain").with_path(path);
    assert_eq!(plain.needs_simulator(), None);
    let noisy = plain.with_background(city().background[1].clone());
    assert!(noisy.needs_simulator().is_some_and(|why| why.contains("background traffic")));
}

#[test]
fn the_shipped_topologies_and_channels_match_their_names() {
    let shared = Scenario::builtin("shared-bottleneck").unwrap();
    assert!((0..2).all(|path| shared.chain(path, Direction::Up).contains(&LinkOwner::Hop(0))));
    let hops = Scenario::builtin("multi-hop").unwrap();
    assert_eq!((hops.chain(0, Direction::Down).len(), hops.background.len()), (3, 3));
    for name in ["markov", "blockage-short", "blockage-long"] {
        let scenario = Scenario::builtin(name).unwrap();
        assert_eq!(scenario.needs_simulator(), None, "{name} runs in both worlds");
        let worst = (0..20).map(|i| {
            let (from, to) = (Instant::from_millis(1_000 * i), Instant::from_millis(1_000 * (i + 1)));
            scenario.capacity(1, Direction::Down, from, to).as_bytes()
        });
        let best = scenario.capacity(1, Direction::Down, seconds(0), seconds(20)).as_bytes() / 20;
        assert!(worst.min().unwrap() < best, "{name} varies");
    }
}

#[test]
fn the_papers_conditions_can_be_expressed() {
    let say = |text: &str| {
        let text = format!("name = 'x'\nduration = '1200 s'\n{text}");
        Scenario::parse(&text, "x.toml").unwrap_or_else(|error| panic!("{error}"))
    };
    // Handoff: the primary path is cut during playback and does not come back.
    let cut = say("[[path]]\nname = 'wifi'\ndown.rate = '433 Mbit/s'\nabsent = [['300 s', '100 %']]\n\
                   [[path]]\nname = 'lte'\ndown.rate = '24 Mbit/s'\n\
                   [run]\ntransport = 'mptcp'\nscheduler = 'greedy-sticky'\ncongestion = 'olia'\n\
                   workload = { kind = 'bulk', size = '409 MB' }\n");
    assert_eq!(cut.link_events().len(), 1, "it disappears and does not return");
    // Decision engine: 2.6 Mbit/s, 1.3 from 120 s to 240 s, halved over two paths, with loss.
    let halves = ["a", "b"].map(|name| {
        format!(
            "[[path]]\nname = '{name}'\ndown.loss = '3 %'\ndown.rate = {{ steps = [['0 s', '1.3 Mbit/s'], \
             ['120 s', '650 kbit/s'], ['240 s', '1.3 Mbit/s']] }}\n"
        )
    });
    let engine = say(&format!("rtt = '120 ms'\n{}", halves.concat()));
    assert_eq!(engine.capacity(0, Direction::Down, seconds(100), seconds(140)).as_bytes() * 8, 39_000_000);
    // AVIRA: five nodes, two pathways of 1 Mbit/s and 2 ms links, 8 subflows, one packet in 500 urgent.
    let link =
        |name: &str| format!("[[hop]]\nname = '{name}'\ndown.rate = '1 Mbit/s'\ndown.delay = '2 ms'\n");
    let path = |name: &str, hop: &str| {
        format!("[[path]]\nname = '{name}'\ndown.rate = '1 Mbit/s'\ndown.delay = '2 ms'\nvia = ['{hop}']\n")
    };
    let avira = say(&format!(
        "{}{}{}{}[run]\nscheduler = 'avira'\nsubflows = 4\n[[run.workload]]\nkind = 'bulk'\n\
         [[run.workload]]\nkind = 'messages'\nrate = 0.33\nsize = '1400 B'\npriority = 1\n",
        path("upper", "relay-a"),
        path("lower", "relay-b"),
        link("relay-a"),
        link("relay-b"),
    ));
    assert_eq!((avira.run.workloads.len(), avira.chain(1, Direction::Up).len()), (2, 2));
}

#[test]
fn a_shared_radio_moves_both_links_through_the_same_states() {
    let path = |name, link| {
        format!(
            "[[path]]\nname = '{name}'\nradio = 'mmwave'\ndown.rate = {{ cotag = {{ link = {link}, p = 0.2, q = 1.0, \
             high_deviation = '0 bit/s', low_deviation = '0 bit/s' }} }}\n"
        )
    };
    let text = format!("name = 'c'\nduration = '60 s'\n{}{}", path("one", 1), path("two", 2));
    let scenario = Scenario::parse(&text, "c.toml").unwrap_or_else(|error| panic!("{error}"));
    let series = |path| {
        let config: LinkConfig = scenario.link_config(path, Direction::Down);
        let step =
            |i: u64| config.capacity(Instant::from_millis(100 * i), Instant::from_millis(100 * (i + 1)));
        (0..600).map(step).collect::<Vec<_>>()
    };
    assert_eq!(series(0), series(1), "with q = 1 link 2 is link 1");
    assert!(series(0).contains(&DataSize::from_bytes(37_500_000)), "and it is low at times");
}

/// Replaces `from` by `to` in the valid text; the error must name the line and contain `words`.
fn refused(from: &str, to: &str, line: usize, words: &[&str]) {
    assert!(GOOD.contains(from), "{from}");
    let error = Scenario::parse(&GOOD.replacen(from, to, 1), "city.toml").expect_err(to).to_string();
    assert!(error.starts_with(&format!("city.toml:{line}: ")), "{to}: {error}");
    words.iter().for_each(|word| assert!(error.contains(word), "{to}: {error}"));
}

#[test]
fn impossible_networks_are_refused_with_file_line_and_field() {
    refused("\"street\", \"backbone\"", "\"strete\"", 8, &["path[0].via", "`strete`", "street, backbone"]);
    refused("\"street\", \"backbone\"", "\"street\", \"street\"", 8, &["via", "crossed twice"]);
    refused("\"street\", \"backbone\"", "\"backbone\"", 18, &["hop[0].name", "no path crosses"]);
    refused("via = [\"backbone\"]", "via = \"backbone\"", 13, &["via", "a list"]);
    refused(
        "[[background]]",
        "[[hop]]\nname = \"street\"\ndown.rate = \"1 Mbit/s\"\n[[background]]",
        30,
        &["hop[2].name", "another"],
    );
    refused("name = \"street\"", "name = \"wifi\"", 8, &["via", "`street`"]);
    refused("\"60 Mbit/s\"", "\"-60 Mbit/s\"", 19, &["hop[0].down.rate", "negative"]);
    refused("\"60 Mbit/s\"", "\"60 Tbit/s\"", 19, &["hop[0].down.rate", "unit"]);
    refused("\"60 Mbit/s\"", "\"1e99 Mbit/s\"", 19, &["hop[0].down.rate"]);
    refused("\"10 ms\"", "\"-10 ms\"", 25, &["down.delay", "negative"]);
    refused("\"10 ms\"", "\"61 s\"", 25, &["hop[1].down.delay", "60 s"]);
    refused("target = \"5 ms\"", "target = \"5 s\"", 26, &["codel.target", "interval"]);
    refused("limit = \"300 kB\"", "limit = \"3 B\"", 26, &["codel.limit", "1500"]);
    refused("\"4 s\", \"50 %\"", "\"3 s\", \"50 %\"", 14, &["absent", "begin after"]);
    refused("\"20 s\"", "\"200 h\"", 3, &["duration", "week"]);
    let hasty = "name = 'x'\nduration = '1 h'\n[[path]]\nname = 'a'\n\
                 down.rate = { gaussian = { mean = '1 Mbit/s', deviation = '1 bit/s', every = '10 us' } }";
    let error = Scenario::parse(hasty, "x.toml").unwrap_err().to_string();
    assert!(error.starts_with("x.toml:5: path[0].down.rate: changes 360000000 times"), "{error}");
}

#[test]
fn impossible_traffic_is_refused_with_file_line_and_field() {
    refused("on = \"backbone\"", "on = \"spine\"", 30, &["background[0].on", "`spine`", "wifi, lte, street"]);
    refused("\"on-off\"", "\"fractal\"", 31, &["kind", "fractal", "poisson"]);
    refused("\"10 Mbit/s\"", "\"0 Mbit/s\"", 32, &["background[0].rate", "above zero"]);
    refused("on_mean = \"1 s\"", "on_mean = \"1 ns\"", 33, &["on_mean", "at least"]);
    refused("from = \"5 s\"", "from = \"21 s\"", 29, &["background[0].to", "after `from`"]);
    refused("flows = 3", "flows = 0", 41, &["flows", "1 to 10000"]);
    refused("flows = 3", "flow = 3", 41, &["flow", "unknown key"]);
    refused("\"fbdt\"", "\"\"", 47, &["run.scheduler", "1 to 64"]);
    refused("subflows = 2", "subflows = 99999", 49, &["run.subflows"]);
    refused("subflows = 2", "subflows = 17", 49, &["run.subflows", "1 to 16"]);
    refused("[\"2 MB\", 1]", "[\"2 MB\", 0]", 53, &["sizes", "above zero"]);
    refused("\"2 MB\"", "\"2 PB\"", 53, &["sizes", "unit"]);
    refused("rate = 50", "rate = 5e7", 57, &["rate", "1 000 000"]);
    refused("size = \"200 B\"", "size = \"0 B\"", 58, &["run.workload[1].size", "one byte"]);
    refused("priority = 7", "priority = 256", 59, &["priority", "255"]);
}

proptest! {
    #[test]
    fn no_mutation_of_a_good_file_panics(at in 0..GOOD.len(), length in 0..40_usize, insert in "[ -~\n]{0,20}") {
        let end = (at + length).min(GOOD.len());
        let (head, tail) = (GOOD.get(..at).unwrap_or(""), GOOD.get(end..).unwrap_or(""));
        match Scenario::parse(&format!("{head}{insert}{tail}"), "any.toml") {
            Ok(scenario) => {
                prop_assert!(scenario.check().is_ok());
                for path in 0..scenario.paths.len() {
                    let chain = scenario.chain(path, Direction::Down);
                    prop_assert!(chain.len() == 1 + scenario.paths[path].via.len());
                }
            }
            Err(error) => prop_assert!(error.to_string().starts_with("any.toml:"), "{error}"),
        }
    }

    #[test]
    fn windows_of_an_absent_radio_alternate(
        times in prop::collection::btree_set(0..100_u64, 2..20), dead in 0..50_u64
    ) {
        let times: Vec<u64> = times.into_iter().collect();
        let windows = times.chunks_exact(2).map(|pair| (at(pair[0]), at(pair[1])));
        let path = PathSpec {
            absent: windows.collect(),
            dead: vec![(at(dead), at(dead + 50))],
            ..PathSpec::symmetric("a", LinkSpec::constant(Bitrate::from_mbps(8)))
        };
        let scenario = Scenario::new("x").with_duration(Duration::from_secs(100)).with_path(path);
        scenario.check().unwrap();
        let events = scenario.link_events();
        prop_assert!(events.iter().enumerate().all(|(i, event)| event.up == (i % 2 == 1)));
        prop_assert!(events.windows(2).all(|pair| pair[0].at < pair[1].at));
        let away = scenario.link_config(0, Direction::Down).dead;
        prop_assert!(away.windows(2).all(|pair| pair[0].1 < pair[1].0));
        prop_assert!(away.iter().all(|window| window.0 < window.1));
    }
}

fn at(seconds: u64) -> Moment {
    Moment::At(Duration::from_secs(seconds))
}
