//! Whole runs: rounded results, repeatability, and refused settings.

use core::time::Duration;
use std::sync::Arc;

use tributary_link::{
    BackgroundKind, BackgroundSpec, Direction, HopSpec, LinkSpec, Moment, Name, PathSpec, Scenario,
    WorkloadSpec,
};
use tributary_player::tiled::{Planner, PlayerSettings, SlotRecord, allocator};
use tributary_sim::run::{Options, Outcome, RunError, SimRun, TransportName, model_version};
use tributary_sim::workload::tiled::TiledSpec;
use tributary_types::{Bitrate, DataSize, Instant};
use tributary_video::head::{HeadSample, HeadTrace};
use tributary_video::projection::Projection;
use tributary_video::rd::{Concealment, RdTable, TableLayout, TileCells};
use tributary_video::sphere::Orientation;
use tributary_video::tiles::TileGrid;
use tributary_video::viewport::FieldOfView;

const BULK: WorkloadSpec = WorkloadSpec::Bulk { size: None };

fn shipped(name: &str, seconds: u64) -> Scenario {
    Scenario::builtin(name).unwrap().with_duration(Duration::from_secs(seconds))
}

fn prepared(scenario: &Scenario, transport: &str, congestion: &str) -> SimRun {
    let choice = TransportName::find(transport, None, &scenario.path_names()).unwrap();
    SimRun::new(scenario, &choice, congestion, &BULK)
}

fn run(scenario: &Scenario, transport: &str) -> Outcome {
    let outcome = prepared(scenario, transport, "cubic").run().unwrap();
    assert!(outcome.conserved, "{transport}: packets are unaccounted for");
    outcome
}

/// Mean goodput from the second second on, Mbit/s.
fn goodput(outcome: &Outcome) -> f64 {
    let seconds = outcome.arrivals().mbps_per_second();
    seconds[1..].iter().sum::<f64>() / (seconds.len() - 1) as f64
}

fn slow(mbps: u64) -> LinkSpec {
    LinkSpec::constant(Bitrate::from_mbps(mbps))
}

#[test]
fn goodput_of_every_transport_in_rounded_numbers() {
    let scenario = shipped("nlos", 4);
    let rounded: Vec<String> = ["wifi", "wigig", "mptcp", "fbdt", "min-rtt", "quic", "quic:wigig"]
        .into_iter()
        .map(|name| format!("{name} {:.0}", goodput(&run(&scenario, name))))
        .collect();
    // 47 and 75 Mbit/s of packets; 1448 of 1500 bytes are payload, 1420 with MPTCP's options.
    assert_eq!(rounded.join(", "), SNAPSHOT);
}

const SNAPSHOT: &str = "wifi 45, wigig 72, mptcp 116, fbdt 117, min-rtt 117, quic 45, quic:wigig 72";

/// Event-log hashes of short runs. Every build on every machine must give the same. A change of a model
/// changes them: enter the new ones here, in the commit that explains the change, and increase
/// the version of the models.
const GOLDEN: [(&str, &str, &str, u64); 7] = [
    ("onoff", "wigig", "cubic", 0x90a5_4657_0293_ee77),
    ("onoff", "mptcp", "cubic", 0x3690_c4c8_a9a1_fcbe),
    ("onoff", "fbdt", "cubic", 0x9989_8a97_fc3b_e3c0),
    ("onoff", "fbdt", "bbr", 0xad17_466a_f05f_1ccc),
    ("loss-wigig", "wigig", "reno", 0x60bf_d71e_543f_d948),
    ("onoff", "quic:wigig", "quic-cubic", 0xaead_a311_4206_dc91),
    ("onoff", "mpquic", "cubic", 0xf3f3_2730_152c_1c07),
];

/// The versions of the models of these hashes, without a session and with one. Version 21 changed only sessions on slow links.
const GOLDEN_VERSIONS: [u32; 2] = [14, 21];

#[test]
fn the_same_cell_is_the_same_run_here_and_everywhere() {
    let mut found = Vec::new();
    for (scenario, transport, congestion, _) in GOLDEN {
        let prepared = prepared(&shipped(scenario, 2), transport, congestion);
        let (one, two) = (prepared.run().unwrap(), prepared.run().unwrap());
        assert_eq!(one, two, "{scenario} {transport} {congestion}");
        found.push((scenario, transport, congestion, one.hash));
    }
    let versions = ["mptcp", "fbdt"].map(model_version);
    let alike = ["min-rtt", "session/blest", "mptcp/fbdt", "fbdt-in-order"].map(model_version);
    assert_eq!(alike, [versions[1]; 4]);
    assert_eq!(GOLDEN_VERSIONS, versions, "new hashes and a new number belong together");
    assert_eq!(found, GOLDEN, "hashes as they are now: {found:#x?}");
}

#[test]
fn a_radio_that_fades_neither_ends_nor_stalls_multipath_quic() {
    // WiGig is never abandoned although everything is acknowledged on WiFi, and no stream has more pieces out
    // of order than noq-proto allows.
    let scenario = shipped("deep-fade", 9);
    for congestion in ["quic-cubic", "cubic"] {
        let outcome = prepared(&scenario, "mpquic", congestion).run().unwrap();
        let silence = outcome.arrivals().longest_silence;
        assert!(silence < Duration::from_millis(500), "{congestion}: {silence:?}");
        assert!(goodput(&outcome) > 95.0, "{congestion}: {:.1} Mbit/s", goodput(&outcome));
    }
}

#[test]
fn another_seed_is_another_run() {
    for (name, transport) in [("onoff", "fbdt"), ("loss-wifi", "mptcp"), ("onoff", "mpquic")] {
        let scenario = shipped(name, 2);
        let other = scenario.clone().with_seed(2);
        assert_ne!(run(&scenario, transport).hash, run(&other, transport).hash, "{name} {transport}");
    }
}

#[test]
fn unknown_names_list_the_known_ones() {
    let scenario = shipped("los", 2);
    let find = |name, scheduler| {
        TransportName::find(name, scheduler, &scenario.path_names()).unwrap_err().to_string()
    };
    let error = find("fdbt", None);
    for name in ["`fdbt`", "wifi", "mptcp", "mpquic", "fbdt-paper"] {
        assert!(error.contains(name), "`{name}` is not in: {error}");
    }
    assert!(find("quic:lte", None).contains("wigig"));
    assert!(find("mptcp", Some("best")).contains("linux-default"));
    let refused = |transport: &str, congestion: &str| {
        prepared(&scenario, transport, congestion).run().unwrap_err().to_string()
    };
    assert!(refused("fbdt", "vegas-pro").contains("cubic"));
    assert!(refused("quic", "vegas-pro").contains("quic-cubic"));
    assert!(refused("mptcp", "quic-cubic").contains("`quic-cubic`"));
}

#[test]
fn options_out_of_range_and_impossible_scenarios() {
    let scenario = shipped("los", 2);
    let with = |options: Options| {
        let prepared = SimRun { options, ..prepared(&scenario, "fbdt", "cubic") };
        prepared.run().unwrap_err().to_string()
    };
    let options = Options::default;
    assert!(with(Options { connections: 0, ..options() }).starts_with("connections: 0"));
    assert!(with(Options { subflows: 17, ..options() }).starts_with("subflows: 17"));
    assert!(with(Options { window: Some(1), ..options() }).contains("window"));
    for (transport, options, field) in [
        ("mptcp", Options { window: Some(65_536), ..options() }, "window: "),
        ("quic", Options { window: Some(65_536), ..options() }, "window: "),
        ("wifi", Options { subflows: 2, ..options() }, "subflows: "),
        ("quic", Options { subflows: 2, ..options() }, "subflows: "),
    ] {
        let error =
            SimRun { options, ..prepared(&scenario, transport, "cubic") }.check().unwrap_err().to_string();
        assert!(error.starts_with(field) && error.contains("leave it out"), "{transport}: {error}");
    }
    for workload in [
        WorkloadSpec::Bulk { size: Some(DataSize::ZERO) },
        WorkloadSpec::Object { size: DataSize::from_bytes(1), count: 0, pause: Duration::ZERO },
    ] {
        let impossible = SimRun { workloads: vec![workload], ..prepared(&scenario, "fbdt", "cubic") };
        assert!(impossible.check().unwrap_err().to_string().contains("workload 1"));
    }
    let nothing = SimRun { workloads: Vec::new(), ..prepared(&scenario, "fbdt", "cubic") };
    assert!(nothing.run().unwrap_err().to_string().starts_with("workload"));
    let dead = Scenario::new("dead").with_path(PathSpec::symmetric("wifi", slow(0)));
    let error = prepared(&dead, "wifi", "cubic").run().unwrap_err();
    assert!(matches!(error, RunError::Scenario(_)), "{error}");
}

#[test]
fn a_run_beyond_its_budget_is_stopped_with_a_diagnosis() {
    let options = Options { budget: Some(10_000), ..Options::default() };
    let prepared = SimRun { options, ..prepared(&shipped("los", 2), "fbdt", "cubic") };
    let error = prepared.run().unwrap_err().to_string();
    for part in ["10000 events", "pending", "busiest", "raise the event budget"] {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    let enough = tributary_sim::run::least_budget(&prepared);
    let outcome = self::prepared(&shipped("los", 2), "fbdt", "cubic").run().unwrap();
    assert!(outcome.events * 2 < enough, "{} of {enough} events", outcome.events);
}

#[test]
fn paths_that_share_a_link_share_its_rate() {
    let scenario = Scenario::new("shared")
        .with_hop(HopSpec::symmetric("core", slow(20)))
        .with_path(PathSpec::symmetric("a", slow(50)).with_via(&["core"]))
        .with_path(PathSpec::symmetric("b", slow(50)).with_via(&["core"]))
        .with_rtt(Duration::from_millis(10))
        .with_duration(Duration::from_secs(4));
    let both = goodput(&run(&scenario, "fbdt"));
    assert!((16.0..19.4).contains(&both), "{both}"); // 20 Mbit/s of packets, not 100
    let mut two = prepared(&scenario, "a", "cubic");
    two.options.connections = 2;
    let outcome = two.run().unwrap();
    assert_eq!(outcome.connections.len(), 2);
    let sum = goodput(&outcome);
    assert!((18.0..19.4).contains(&sum), "{sum}");
}

#[test]
fn background_traffic_takes_its_part() {
    let path = PathSpec::symmetric("wifi", slow(20));
    let base = Scenario::new("busy").with_path(path).with_duration(Duration::from_secs(5));
    let base = base.with_rtt(Duration::from_millis(10));
    let with = |kind| {
        let (from, to) = (Moment::Share(0.0), Moment::Share(1.0));
        let on = "wifi".to_owned();
        base.clone().with_background(BackgroundSpec { on, direction: Direction::Down, from, to, kind })
    };
    let packet = DataSize::from_bytes(1500);
    let poisson = BackgroundKind::Poisson { rate: Bitrate::from_mbps(10), packet };
    let left = goodput(&run(&with(poisson), "wifi"));
    assert!((8.0..10.5).contains(&left), "{left} of 10 Mbit/s");
    let flow = BackgroundKind::Tcp { flows: 1, congestion: Name::new("cubic"), rtt: None };
    let half = goodput(&run(&with(flow), "wifi"));
    assert!((5.0..14.5).contains(&half), "{half} of 20 Mbit/s beside one flow");
    let odd = BackgroundKind::Tcp { flows: 1, congestion: Name::new("cubist"), rtt: None };
    assert!(prepared(&with(odd), "wifi", "cubic").run().unwrap_err().to_string().contains("`cubist`"));
}

#[test]
fn transports_are_told_when_a_radio_goes() {
    let mut gone = PathSpec::symmetric("wigig", slow(40));
    gone.absent = vec![(Moment::At(Duration::from_secs(1)), Moment::At(Duration::from_secs(2)))];
    let scenario = Scenario::new("goes")
        .with_path(PathSpec::symmetric("wifi", slow(20)))
        .with_path(gone)
        .with_rtt(Duration::from_millis(10))
        .with_duration(Duration::from_secs(4));
    for transport in ["mptcp", "fbdt"] {
        let mut prepared = prepared(&scenario, transport, "cubic");
        prepared.options.trace = true;
        let outcome = prepared.run().unwrap();
        let seconds = outcome.arrivals().mbps_per_second();
        assert!(seconds[1] > 10.0 && seconds[1] < 25.0, "{transport}: {seconds:?}");
        assert!(seconds[3] > 40.0, "{transport}: {seconds:?}");
        let trace = outcome.trace.unwrap();
        assert_eq!(trace.events.len(), 2);
        let there = |ms: u64| {
            let at = tributary_types::Instant::from_millis(ms);
            let mut paths: Vec<u8> = trace
                .samples
                .iter()
                .filter(|sample| sample.at == at)
                .map(|sample| sample.path.path)
                .collect();
            paths.sort_unstable();
            paths
        };
        assert_eq!(there(900), [0, 1], "{transport}");
    }
}

#[test]
fn small_objects_take_no_longer_than_on_the_faster_radio() {
    let scenario = shipped("los", 5);
    let median = |transport| {
        let mut prepared = prepared(&scenario, transport, "cubic");
        let size = DataSize::from_bytes(100 << 10);
        prepared.workloads = vec![WorkloadSpec::Object { size, count: 30, pause: Duration::from_millis(50) }];
        let flow = prepared.run().unwrap().connections[0].flows[0].clone();
        let mut times: Vec<_> = flow.completions.iter().map(|completion| completion.took).collect();
        assert_eq!(times.len(), 30, "{transport}");
        times.sort_unstable();
        times[15]
    };
    let (ours, faster) = (median("fbdt"), median("wigig"));
    assert!(ours <= faster, "{ours:?}, on WiGig {faster:?}");
}

/// The radio that loses packets is the slower one, but it does not serve the front: what waits there for a retransmission
/// would be sent again on the other radio.
#[test]
fn a_radio_that_loses_data_does_not_serve_the_front() {
    let scenario = shipped("loss-wigig", 8);
    for congestion in ["cubic", "wvegas"] {
        let outcome = prepared(&scenario, "fbdt", congestion).run().unwrap();
        let counters = &outcome.connections[0].server;
        let share = counters.reinjected as f64 / counters.sent as f64;
        assert!(share < 0.01, "{congestion}: {share:.4} of the bytes are copies");
    }
}

#[test]
fn workloads_side_by_side() {
    let scenario = shipped("los", 3);
    let messages = WorkloadSpec::Messages {
        per_second: 100.0,
        size: DataSize::from_bytes(1200),
        priority: 200,
        deadline: Some(Duration::from_millis(100)),
    };
    for (transport, connections) in [("fbdt", 1), ("wigig", 2), ("quic", 1)] {
        let mut prepared = prepared(&scenario, transport, "cubic");
        prepared.workloads.push(messages.clone());
        let outcome = prepared.run().unwrap();
        assert_eq!(outcome.connections.len(), connections, "{transport}");
        let flows: Vec<_> = outcome.flows().collect();
        assert_eq!([flows[0].kind, flows[1].kind], ["bulk", "messages"]);
        assert!((295..=300).contains(&flows[1].made), "{transport}: {} messages", flows[1].made);
        assert!(flows[1].latencies.len() > 280, "{transport}: {} arrived", flows[1].latencies.len());
        assert!(flows[0].bytes > 1_000_000, "{transport}");
    }
    let request = WorkloadSpec::Request {
        sizes: vec![(DataSize::from_bytes(10_000), 1.0), (DataSize::from_bytes(200_000), 1.0)],
        think: Duration::from_millis(20),
    };
    for transport in ["mptcp", "fbdt", "wifi", "mpquic"] {
        let mut prepared = prepared(&scenario, transport, "cubic");
        prepared.workloads = vec![request.clone()];
        let flow = prepared.run().unwrap().connections[0].flows[0].clone();
        assert!(flow.completions.len() > 25, "{transport}: {} requests", flow.completions.len());
    }
}

/// Ten GoPs of a second under mobility, planned eight times each and requested `from` milliseconds after the first
/// packet; mean bytes in time of a GoP from the third on.
fn viewing(from: u64) -> u64 {
    let grid = TileGrid::new(8, 4, Projection::Equirectangular).unwrap();
    let qps = vec![16, 20, 24, 28, 32, 36, 40];
    let steps = || (0..qps.len() as i32).map(|quality| 0.6_f64.powi(quality));
    let cells = TileCells {
        bytes: steps().map(|step| (1.4e6 * step) as u64).collect(),
        mse: steps().map(|step| 1.0 / step).collect(),
        freeze_mse: 600.0,
        black_mse: 9000.0,
    };
    let cells = vec![cells; 3 * grid.tiles()];
    let layout = TableLayout { grid, width: 64, height: 32, gop_duration_s: 1.0, qps };
    let still = |time_s| HeadSample { time_s, orientation: Orientation::default() };
    let planner = Planner {
        allocator: allocator("ows", 8, false).unwrap(),
        field: FieldOfView::default(),
        trace: HeadTrace::from_samples(vec![still(0.0), still(1.0)]).unwrap(),
        crowd: Vec::new(),
        concealment: Concealment::Freeze,
    };
    let mut scenario = shipped("deep-fade", 11);
    scenario.duration += Duration::from_millis(from);
    let settings = PlayerSettings::new(Some(10), Bitrate::from_mbps(100), 8);
    let table = Arc::new(RdTable::new(layout, cells).unwrap());
    let spec = TiledSpec { table, settings, planner, from: Instant::from_millis(from) };
    let slots = prepared(&scenario, "fbdt", "cubic").run_tiled(spec).unwrap().record.slots;
    slots[2..].iter().map(SlotRecord::bytes_in_time).sum::<u64>() / (slots.len() as u64 - 2)
}

#[test]
fn a_radio_is_used_again_after_a_blockage_although_little_waits_for_it() {
    // WiFi carries 5.9 MB a second, WiGig 10.6 MB on average.
    for from in [550, 800, 1300, 1800, 2050] {
        let mean = viewing(from);
        assert!(mean > 9_000_000, "from {from} ms: {mean} bytes in time of each GoP");
    }
}
