//! Reads every set of measured network traces beside the checkout through a scenario file.
//!
//! The sets are in `../shared/data`, beside the repository, and not part of it. Without them the test prints that
//! nothing was read.

use core::time::Duration;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tributary_link::{Direction, RateSpec, Scenario, Trace};
use tributary_types::Instant;

/// How some files of a set are read.
struct Reading {
    /// Folder below the data folder.
    folder: &'static str,
    /// Part of the files' names.
    files: &'static str,
    /// Fields of the trace in a scenario file, without `file`.
    fields: &'static str,
    /// Expected range of the mean of all files' mean rates in Mbit/s, from the set's description.
    mean: (f64, f64),
}

const fn reading(
    folder: &'static str,
    files: &'static str,
    fields: &'static str,
    mean: (f64, f64),
) -> Reading {
    Reading { folder, files, fields, mean }
}

const EACH_SECOND: &str = "every = '1 s', rate = 'throughput_mbps'";
const PAM_X: &str = "sort = true, time = 'TIME_STAMP_x', rate = 'DLtput_x'";
const PAM_Y: &str = "sort = true, time = 'TIME_STAMP_y', rate = 'DLtput_y'";
const PAM_UP: &str = "sort = true, time = 'TIME_STAMP_x', rate = 'ULtput_x'";
const PAM_UP_Y: &str = "sort = true, time = 'TIME_STAMP_y', rate = 'ULtput_y'";
const UCC_DOWN: &str = "time = 'Timestamp', time_unit = 'date', rate = 'DL_bitrate', unit = '1 kbit/s'";
const UCC_UP: &str = "time = 'Timestamp', time_unit = 'date', rate = 'UL_bitrate', unit = '1 kbit/s'";
const GHENT: &str = "lasting = 'duration_ms', time_unit = 'ms', rate = 'bandwidth_kbps', unit = '1 kbit/s'";
const MOUSE: &str = "sort = true, time = 'frame.time_epoch', bytes = 'tcp.len', bin = '100 ms', \
                     only = { 'tcp.srcport' = '8000' }";
const PORTO: &str = "sort = true, hold = '3 s', time = 'interval-start', rate = 'data-rate', \
                     unit = '1 bit/s', only = { client-id = 'm1' }";
const PORTO_SLOW: &str = "sort = true, hold = '3 s', time = 'interval-start', rate = 'data-rate', \
                          unit = '1 bit/s', only = { client-id = 'w3' }";
const STATIC: &str = "every = '1 s', rate = 'throughput_mbps', \
                      only = { carrier = 'VERIZON', num_tcp_conn = '8', server_location = 'US-West' }";
const TCP: &str = "every = '1 s', rate = 'throughput_mbps', only = { protocol = 'TCP', radio_type = '5G' }";
const RECONNECT: &str = "time = 'timestamp', rate = 'status_los', unit = '300 Mbit/s'";

const READINGS: [Reading; 29] = [
    reading("net-4g-ghent16", ".json", GHENT, (23.0, 34.0)),
    reading("net-5g-ucc20", "Static", UCC_DOWN, (30.0, 90.0)),
    reading("net-5g-ucc20", "Driving", UCC_DOWN, (15.0, 40.0)),
    reading("net-5g-ucc20", "Static", UCC_UP, (0.1, 20.0)),
    reading(
        "net-5gophers20/All-Carriers",
        "car-driving",
        "every = '1 s', rate = 'Sprint_throughput_mbps'",
        (260.0, 270.0),
    ),
    reading(
        "net-5gophers20/All-Carriers",
        "car-driving",
        "every = '1 s', rate = 'TMobile_throughput_mbps'",
        (95.0, 99.0),
    ),
    reading(
        "net-5gophers20/All-Carriers",
        "car-driving",
        "every = '1 s', rate = 'Verizon_throughput_mbps'",
        (272.0, 278.0),
    ),
    reading("net-5gophers20/All-Carriers", "walking", EACH_SECOND, (330.0, 336.0)),
    reading("net-5gophers20/All-Carriers", "01-Throughput", STATIC, (997.0, 999.0)),
    reading("net-5gophers20/mmWave-only", "05-NLoS", EACH_SECOND, (1590.0, 1604.0)),
    reading("net-5gophers20/mmWave-only", "03-UE-Panel_LoS", TCP, (100.0, 3000.0)),
    reading("net-5gophers20/mmWave-only", "06-UE-Panel", TCP, (100.0, 3000.0)),
    reading("net-5gophers20/mmWave-only", "07-UE-Panel", TCP, (100.0, 3000.0)),
    reading("net-hsr-mptcp18", "elephant", "time = 'time_epoch_s', rate = 'rx_mbps'", (1.1, 1.6)),
    reading("net-hsr-mptcp18/mouse", ".csv", MOUSE, (1.0, 2.0)),
    reading("net-lte-mahimahi", "Verizon-LTE-short.down", "", (4.9, 5.1)),
    reading("net-lte-mahimahi", "Verizon-LTE-short.up", "", (5.9, 6.1)),
    reading("net-lte-mahimahi", "ATT-LTE-driving-2016.down", "", (4.5, 4.7)),
    reading("net-lte-mahimahi", "ATT-LTE-driving-2016.up", "", (1.8, 2.0)),
    reading("net-mmwave-nyu20", "stationary", "", (190.0, 193.0)),
    reading("net-mmwave-nyu20", "walkandturn", "", (150.0, 161.0)),
    reading("net-pam25-multicarrier/atnt_verizon_DL", ".csv", PAM_X, (65.0, 78.0)),
    reading("net-pam25-multicarrier/atnt_verizon_DL", ".csv", PAM_Y, (75.0, 132.0)),
    reading("net-pam25-multicarrier/atnt_verizon_UL", ".csv", PAM_UP, (17.0, 21.0)),
    reading("net-pam25-multicarrier/atnt_verizon_UL", ".csv", PAM_UP_Y, (15.0, 19.0)),
    reading("net-solis-wifi23", "campus", "layout = 'blank', time = 1, rate = 2", (50.0, 77.0)),
    reading("net-solis-wifi23", "cafe", "layout = 'blank', time = 1, rate = 2", (6.5, 9.5)),
    reading("net-wifi4-feup19/trace-082", "iperf3", PORTO, (15.0, 30.0)),
    reading("net-wifi4-feup19/trace-082", "iperf3", PORTO_SLOW, (0.5, 2.0)),
];

const WIGIG: [Reading; 3] = [
    reading(
        "net-wigig-feup19",
        "blocks_moving",
        "lasting = 'duration_s', rate = 'ad_mean_mbps'",
        (265.0, 267.0),
    ),
    reading(
        "net-wigig-feup19",
        "blocks_stopped",
        "lasting = 'duration_s', rate = 'ac_mean_mbps'",
        (146.0, 147.0),
    ),
    reading("net-wigig-feup19", "lab_reconnect", RECONNECT, (64.0, 66.0)),
];

fn files(data: &Path, reading: &Reading) -> Vec<PathBuf> {
    let folder = data.join(reading.folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let wanted = |path: &PathBuf| {
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        path.is_file()
            && name.contains(reading.files)
            && !name.contains("README")
            && !name.contains("LICENSE")
    };
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("a readable folder").path()).filter(wanted).collect();
    files.sort();
    files
}

/// The scenario's only trace, read through a scenario file.
fn load(file: &Path, fields: &str) -> Scenario {
    let name = file.display();
    let trace =
        if fields.is_empty() { format!("'{name}'") } else { format!("{{ file = '{name}', {fields} }}") };
    let text = format!(
        "name = 'measured'\nduration = '10 s'\n[[path]]\nname = 'radio'\ndown.rate = {{ trace = {trace} }}\n"
    );
    let scenario = Path::new(env!("CARGO_TARGET_TMPDIR")).join("measured.toml");
    fs::write(&scenario, text).expect("the target folder can be written");
    Scenario::load(&scenario).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn trace(scenario: &Scenario) -> &Trace {
    match &scenario.paths[0].down.rate {
        RateSpec::Trace(trace) => trace,
        other => panic!("not a trace: {other:?}"),
    }
}

/// Reads all files of a reading; returns their number and the mean of their mean rates.
fn read(data: &Path, reading: &Reading) -> (usize, f64) {
    let files = files(data, reading);
    assert!(!files.is_empty(), "no file `{}` in {}", reading.files, reading.folder);
    let mut sum = 0.0;
    for file in &files {
        let scenario = load(file, reading.fields);
        let trace = trace(&scenario);
        assert!(trace.period() > Duration::from_millis(200), "{}", file.display());
        let end = Instant::ZERO + trace.period();
        let carried = scenario.capacity(0, Direction::Down, Instant::ZERO, end).as_bytes() as f64 * 8.0;
        let mean = trace.mean().as_mbps_f64();
        let from_capacity = carried / end.as_secs_f64() / 1e6;
        assert!((mean - from_capacity).abs() < 1e-3, "{}: {mean} or {from_capacity}?", file.display());
        sum += mean;
    }
    (files.len(), sum / files.len() as f64)
}

#[test]
fn every_measured_set_loads_with_the_mean_its_description_states() {
    let Some(data) = tributary_testing::data("") else { return };
    let mut all = BTreeSet::new();
    for reading in READINGS.iter().chain(&WIGIG) {
        all.extend(files(&data, reading));
        let (files, mean) = read(&data, reading);
        println!("{:<42} {:<26} {files:>3} files, mean {mean:>8.2} Mbit/s", reading.folder, reading.files);
        let (least, most) = reading.mean;
        assert!((least..=most).contains(&mean), "{} {}: mean {mean}", reading.folder, reading.files);
    }
    println!("{} files in {} readings", all.len(), READINGS.len() + WIGIG.len());
    let sets = fs::read_dir(&data)
        .expect("it is a folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    for set in sets.filter(|name| name.starts_with("net-")) {
        let known =
            READINGS.iter().chain(&WIGIG).any(|reading| reading.folder.split('/').next() == Some(&set));
        if !known {
            println!("{set}: this test does not describe the set");
        }
    }
}
