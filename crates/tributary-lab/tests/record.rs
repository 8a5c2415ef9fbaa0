//! Recording an emulated network whose rates, delays and loss are known gives them back.
//!
//! Without the right to create namespaces nothing runs: the program prints the reason, and fails when `CI=true`.

use core::time::Duration;
use std::process::{Command, ExitCode};
use std::time::Instant as Wall;
use tributary_emu::traffic::TcpFlow;
use tributary_emu::{Network, Verdict};
use tributary_lab::Simulation;
use tributary_lab::record::{Options, Output, Pace, Recording, Surroundings, emulated, fading, fixed};
use tributary_link::{Direction, Moment, Scenario};
use tributary_report::stats;
use tributary_sim::run::TransportName;
use tributary_types::Instant;

const CASES: [(&str, fn()); 6] = [
    ("a_fixed_network_is_given_back", a_fixed_network_is_given_back),
    ("a_fading_network_is_given_back", a_fading_network_is_given_back),
    ("a_saturating_recording_shows_fades_in_detail", a_saturating_recording_shows_fades_in_detail),
    (
        "a_transfer_beside_the_recording_does_not_lower_the_rate",
        a_transfer_beside_the_recording_does_not_lower_the_rate,
    ),
    ("a_dead_radio_is_recorded_as_without_rate", a_dead_radio_is_recorded_as_without_rate),
    ("a_full_disk_leaves_the_last_recording", a_full_disk_leaves_the_last_recording),
];

fn main() -> ExitCode {
    tributary_testing::run_cases(&CASES, tributary_emu::isolate, |case, ()| case())
}

/// Recordings of one case at most.
const ATTEMPTS: usize = 8;
const LIGHT: Options = Options { pace: Pace::Light, length: None, synchronised: false };

/// Length of a recording.
const LENGTH: Duration = Duration::from_secs(12);

/// What a recording shows wrongly.
type Checked = Result<(), String>;

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Records the network until the recording passes the check. One whose emulator the audit finds valid must pass; where the
/// machine was too busy for the emulator a recording may fail, but one must pass.
fn gives_back(
    truth: &Scenario,
    options: Options,
    beside: impl Fn(&Network) + Sync,
    check: impl Fn(&Scenario) -> Checked,
) {
    for _ in 0..ATTEMPTS {
        let network = Network::start(truth).expect("an isolated process may start a network");
        let recording = std::thread::scope(|scope| {
            scope.spawn(|| beside(&network));
            emulated(&network, options).expect("it is recorded")
        });
        let verdict = network.audit().expect("the network runs").verdict();
        drop(network);
        println!("{}", recording.summary().join("; "));
        let Err(fault) = check(&written(&recording)) else { return };
        assert!(verdict != Verdict::Valid, "{fault}");
        println!("{fault}, but the emulator was not exact: {verdict:?}");
    }
    panic!("none of {ATTEMPTS} recordings passed; the machine was too busy for the emulator");
}

fn written(recording: &Recording) -> Scenario {
    let text = recording.network("recorded", "", &[]).expect("it is complete").to_toml();
    Scenario::parse(&text, "recorded.toml").expect("what is written can be read")
}

/// Mean rate of a path between two times in milliseconds, Mbit/s.
fn mean(scenario: &Scenario, path: usize, direction: Direction, (from, to): (u64, u64)) -> f64 {
    let bytes = scenario.capacity(path, direction, Instant::from_millis(from), Instant::from_millis(to));
    bytes.as_bytes() as f64 * 8e-3 / (to - from) as f64
}

/// Rates in these times within 5 %, delays of each direction within 2 ms.
fn near(truth: &Scenario, recorded: &Scenario, spans: &[(u64, u64)]) -> Checked {
    for (path, direction) in (0..2).flat_map(|path| [(path, Direction::Down), (path, Direction::Up)]) {
        for span in spans {
            let [measured, real] = [recorded, truth].map(|scenario| mean(scenario, path, direction, *span));
            let error = 100.0 * (measured / real - 1.0);
            println!(
                "path {path} {direction:?} {span:?} ms: {measured:.2} of {real:.2} Mbit/s ({error:+.2} %)"
            );
            ensure(error.abs() < 5.0, || {
                format!("path {path} {direction:?} {span:?} ms: {measured} of {real} Mbit/s")
            })?;
        }
        let delay = |scenario: &Scenario, at: u64| {
            let base = scenario.paths[path].link(direction).delay.base_at(Instant::from_millis(at));
            (base + scenario.rtt / 2).as_secs_f64() * 1e3
        };
        for at in [500, 3500, 8500] {
            let (measured, real) = (delay(recorded, at), delay(truth, at));
            println!("path {path} {direction:?} at {at} ms: delay {measured:.2} of {real:.2} ms");
            ensure((measured - real).abs() < 2.0, || {
                format!("path {path} {direction:?}: {measured} of {real} ms")
            })?;
        }
    }
    Ok(())
}

/// Transfers over the recorded network are as fast as over the real one, within 5 %, in the simulator: the interval of the median of
/// transfers of different seeds that begin at different times. A single one depends on where its window meets a fade or a loss, and
/// transfers of one seed meet the same losses.
fn replays(truth: &Scenario, recorded: &Scenario) -> Checked {
    for name in ["wifi", "mptcp", "fbdt"] {
        let transport = TransportName::find(name, None, &truth.path_names()).expect("it is known");
        let goodput = |scenario: &Scenario, n: u64| {
            let network = scenario.clone().with_seed(n).begun_at(Duration::from_millis(300 * n));
            let network = network.with_queue_time(Duration::from_millis(50));
            let (result, _) = Simulation::bulk(&network, &transport, "cubic").run().expect("it can run");
            result.goodput.expect("a transfer has goodput").mean_mbps
        };
        let ratios: Vec<f64> = (0..21).map(|n| goodput(recorded, n) / goodput(truth, n)).collect();
        let median = stats::median(&ratios).expect("there are ratios");
        let interval = stats::bootstrap_interval(&ratios, stats::median, 1000, 1).expect("there are ratios");
        println!("{name}: {median:.3} of the goodput, {interval:?}, {ratios:.3?}");
        ensure(interval.low < 1.05 && interval.high > 0.95, || format!("{name}: {interval:?}, {ratios:?}"))?;
    }
    Ok(())
}

fn a_fixed_network_is_given_back() {
    let truth = fixed(LENGTH);
    gives_back(
        &truth,
        LIGHT,
        |_| (),
        |recorded| {
            near(&truth, recorded, &[(0, 12_000), (2_000, 4_000), (9_000, 11_000)])?;
            let loss =
                |path: usize| [recorded.paths[path].down.loss.mean(), recorded.paths[path].up.loss.mean()];
            println!("loss {:?} and {:?} of 0 and 0.02", loss(0), loss(1));
            ensure(loss(0).iter().all(|share| *share < 0.002), || format!("loss {:?} of 0", loss(0)))?;
            ensure(loss(1).iter().all(|share| (0.014..0.026).contains(share)), || {
                format!("loss {:?} of 0.02", loss(1))
            })?;
            replays(&truth, recorded)
        },
    );
}

fn a_fading_network_is_given_back() {
    let truth = fading(LENGTH);
    gives_back(
        &truth,
        LIGHT,
        |_| (),
        |recorded| {
            near(&truth, recorded, &[(0, 12_000)])?;
            replays(&truth, recorded)
        },
    );
}

fn a_saturating_recording_shows_fades_in_detail() {
    let truth = fading(LENGTH);
    gives_back(
        &truth,
        Options { pace: Pace::Saturating, ..LIGHT },
        |_| (),
        |recorded| {
            near(&truth, recorded, &[(0, 12_000), (0, 4_000), (4_000, 8_000), (8_000, 12_000)])?;
            replays(&truth, recorded)
        },
    );
}

fn a_transfer_beside_the_recording_does_not_lower_the_rate() {
    let truth = fixed(LENGTH);
    let transfer = |network: &Network| {
        let flow = TcpFlow { measured: Duration::from_secs(8), ..TcpFlow::on_path(0) };
        println!("the transfer has {:?}", flow.run(network));
    };
    gives_back(&truth, LIGHT, transfer, |recorded| {
        let [measured, real] = [recorded, &truth].map(|of| mean(of, 0, Direction::Down, (3_000, 9_000)));
        println!("beside a transfer: {measured:.2} of {real:.2} Mbit/s");
        ensure((measured / real - 1.0).abs() < 0.05, || format!("{measured} of {real} Mbit/s"))?;
        // Packets that the transfer's queue dropped are not the radio's loss.
        let loss = recorded.paths[0].down.loss.mean();
        ensure(loss < 0.002, || format!("loss {loss} of 0"))
    });
}

fn a_dead_radio_is_recorded_as_without_rate() {
    let mut truth = fixed(LENGTH);
    let at = |seconds| Moment::At(Duration::from_secs(seconds));
    truth.paths[0].dead = vec![(at(4), at(8))];
    gives_back(
        &truth,
        LIGHT,
        |_| (),
        |recorded| {
            [Direction::Down, Direction::Up].into_iter().try_for_each(|direction| {
                let [before, dead, after] = [(0, 3_900), (4_300, 7_800), (8_300, 12_000)]
                    .map(|span| mean(recorded, 0, direction, span));
                let real = mean(&truth, 0, direction, (0, 3_900));
                let near = |rate: f64| (rate / real - 1.0).abs() < 0.05;
                ensure(near(before) && near(after) && dead == 0.0, || {
                    format!("{before}, {dead}, {after} of {real}, 0, {real} Mbit/s")
                })
            })
        },
    );
}

/// Of a disk of this namespace that is full.
fn a_full_disk_leaves_the_last_recording() {
    let network = Network::start(&fixed(Duration::from_secs(3))).expect("an isolated process may");
    let recording = emulated(&network, LIGHT).expect("it is recorded");
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let disk = directory.path();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(disk).status();
    assert!(mount.expect("mount(8) is there").success());
    let (out, ballast) = (disk.join("walk.toml"), disk.join("ballast"));
    let nowhere = "127.0.0.1:9".parse().expect("an address");
    let surroundings = Surroundings::start(Wall::now(), Vec::new(), nowhere);
    let mut output = Output::create(&out, "a walk").expect("there is room");
    output.write(&recording, &surroundings).expect("there is room");
    let before = std::fs::read_to_string(&out).expect("it was written");
    std::fs::write(&ballast, vec![1; 1 << 20]).expect_err("the disk is smaller");
    let error = output.write(&recording, &surroundings).expect_err("there is no room").to_string();
    assert!(
        error.contains("walk.toml") && error.contains("has the first 3 s") && error.contains("make room"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&out).expect("it is still there"), before);
    Scenario::load(&out).expect("it can be read");
    std::fs::remove_file(&ballast).expect("it is there");
    output.write(&recording, &surroundings).expect("there is room again");
    assert!(std::fs::read_to_string(output.samples()).expect("it was written").lines().count() > 6);
    let inside = disk.join("walk.toml").join("x.toml");
    let error = Output::create(&inside, "").expect_err("walk.toml is a file").to_string();
    assert!(error.contains("choose another --out"), "{error}");
    assert!(Command::new("umount").arg(disk).status().expect("umount(8) is there").success());
}
