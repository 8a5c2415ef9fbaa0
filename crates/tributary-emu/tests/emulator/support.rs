//! Shared by the cases: starting themselves, isolation, small scenarios.

use core::fmt::Debug;
use core::time::Duration;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;
use tributary_emu::{Network, Verdict, isolate};
use tributary_link::{LinkSpec, PathSpec, Scenario};
use tributary_types::Bitrate;

/// Environment variable with the name of the case to run.
pub const CASE: &str = "TRIBUTARY_EMULATOR_CASE";
/// Exit code of a case that could not run.
pub const SKIPPED: i32 = 77;

/// A command that runs one case in this program.
pub fn start(case: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.env(CASE, case);
    // A shell starts background programs with Ctrl-C ignored, and children inherit that; undo it.
    // SAFETY: signal(2) is safe between fork and exec, and nothing else is called there.
    unsafe { command.pre_exec(|| Ok(_ = libc::signal(libc::SIGINT, libc::SIG_DFL))) };
    command
}

/// Whether a case that cannot run is a failure.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// Isolates this process; if this is not possible, prints why and exits as skipped.
pub fn isolated() {
    if let Err(error) = isolate() {
        println!("cannot run here: {error}");
        std::process::exit(SKIPPED);
    }
}

/// Two paths with constant rates in Mbit/s, wifi and wigig, with 10 ms base RTT.
pub fn two_paths(wifi: u64, wigig: u64) -> Scenario {
    let steady = |name, mbps| PathSpec::symmetric(name, LinkSpec::constant(Bitrate::from_mbps(mbps)));
    Scenario::new("two")
        .with_path(steady("wifi", wifi))
        .with_path(steady("wigig", wigig))
        .with_rtt(Duration::from_millis(10))
        .with_queue_time(Duration::from_millis(50))
}

/// An isolated, running network.
pub fn network(scenario: &Scenario) -> Network {
    isolated();
    Network::start(scenario).expect("an isolated process may start a network")
}

/// Whether the run is valid. If the machine was too busy for the emulator, the audit reports it, and measured times
/// prove nothing.
fn is_valid(network: &Network) -> bool {
    let audit = network.audit().expect("a running network reports");
    match audit.verdict() {
        Verdict::Valid => true,
        Verdict::Invalid { reasons } => {
            println!(
                "the audit found this run invalid, so its times are not checked: {}",
                reasons.join("; ")
            );
            false
        }
    }
}

/// How long to go on measuring while every run is invalid.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time before the sixth and each later measurement.
const PAUSE: Duration = Duration::from_secs(5);

/// Measures until the bound is met, each time from the scenario's beginning: five times without a pause, then with pauses
/// until [`PATIENCE`] has passed. A run that the audit finds valid must meet the bound. An invalid run may miss it, but one
/// run must meet it.
///
/// Repeating is right here only because the audit, and not the bound, says that a run proves nothing.
pub fn meets<T: Debug>(network: &Network, measure: impl Fn() -> T, bound: impl Fn(&T) -> bool) {
    let begin = Instant::now();
    let mut runs = 0;
    // real time: the machine's other work has to pass
    while runs < 5 || begin.elapsed() < PATIENCE {
        if runs >= 5 {
            std::thread::sleep(PAUSE); // real time: as above
        }
        runs += 1;
        network.rewind().expect("a running network starts again");
        let (started, before) = (Instant::now(), stolen());
        let measured = measure();
        if bound(&measured) {
            return;
        }
        assert!(!is_valid(network), "{measured:?} in a valid run");
        // real time: printed only
        let share = (stolen() - before).as_secs_f64() / started.elapsed().as_secs_f64();
        println!("the hypervisor withheld {share:.2} processors in this run");
    }
    panic!("none of {runs} runs met the bound; the machine was too busy for the emulator");
}

/// Processor time that the hypervisor has withheld from this machine since it started: `steal` in proc_stat(5), in
/// ticks of 10 ms.
fn stolen() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").expect("Linux counts processor time");
    let ticks = stat.split_whitespace().nth(8).and_then(|word| word.parse().ok());
    Duration::from_millis(10 * ticks.unwrap_or(0))
}
