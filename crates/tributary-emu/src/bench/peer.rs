//! Comparison with the best peer, rattan 0.1.1: the same iperf3 transfer over the same link.

use super::{BenchError, steady};
use crate::network::{Network, Side};
use core::time::Duration;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tributary_types::Bitrate;

/// Version of the peer.
const VERSION: &str = "0.1.1";

/// Shaped TCP throughput of both, on the same machine in the same run.
#[derive(Clone, Debug, Serialize)]
pub struct PeerComparison {
    /// Name and version of the peer.
    pub peer: String,
    /// Configured rate of both, Mbit/s.
    pub rate_mbps: f64,
    /// Configured base RTT of both, ms.
    pub rtt_ms: f64,
    /// Goodput through the peer in each round, Mbit/s.
    pub peer_mbps: Vec<f64>,
    /// Goodput through this emulator in each round, Mbit/s.
    pub ours_mbps: Vec<f64>,
    /// Whether the audit found every round of this emulator valid.
    pub ours_valid: bool,
    /// Median goodput of this emulator over that of the peer.
    pub ratio: f64,
    /// Median goodput of this emulator over the peer's best round: a bound that noise cannot explain.
    pub ratio_to_best: f64,
}

/// Installs the peer below `folder` with cargo, unless it is installed. Takes minutes the first time.
pub fn install_rattan(folder: &Path) -> Result<PathBuf, BenchError> {
    let program = folder.join("bin").join("rattan");
    if program.exists() {
        return Ok(program);
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["install", "rattan", "--version", VERSION, "--locked", "--quiet", "--root"]).arg(folder);
    let failed = |reason: String| BenchError::PeerInstall {
        command: format!("cargo install rattan --version {VERSION} --locked --root {}", folder.display()),
        reason,
    };
    let output = cargo.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() { Ok(program) } else { Err(failed(last_words(&output))) }
}

fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message").trim().to_owned()
}

/// Compares both alternately, at `rate` with 10 ms base RTT: `rounds` transfers of `time` each.
pub fn compare_with_rattan(
    program: &Path,
    rate: Bitrate,
    (rounds, time): (usize, Duration),
    progress: &mut dyn FnMut(&str),
) -> Result<PeerComparison, BenchError> {
    let seconds = time.as_secs().max(1).to_string();
    let (mut peer_mbps, mut ours_mbps, mut ours_valid) = (Vec::new(), Vec::new(), true);
    for round in 1..=rounds {
        progress(&format!("rattan {VERSION}, round {round} of {rounds}"));
        peer_mbps.push(through_rattan(program, rate, &seconds)?);
        progress(&format!("tributary, round {round} of {rounds}"));
        let network = Network::start(&steady(rate))?;
        let _server = Ending(spawn(network.command(Side::Server, "iperf3").args(["-s", "-1"]))?);
        let mut client = network.command(Side::Client, "sh");
        client.args(["-c", &transfer("10.77.1.1", &seconds)]);
        ours_mbps.push(goodput(&mut client)?);
        ours_valid &= network.audit()?.verdict() == crate::Verdict::Valid;
    }
    let (rate_mbps, rtt_ms) = (rate.as_mbps_f64(), 10.0);
    Ok(PeerComparison {
        peer: format!("rattan {VERSION}"),
        rate_mbps,
        rtt_ms,
        ours_valid,
        ratio: median(&ours_mbps) / median(&peer_mbps),
        ratio_to_best: median(&ours_mbps) / peer_mbps.iter().copied().fold(0.0, f64::max),
        peer_mbps,
        ours_mbps,
    })
}

/// Shell text of the client: waits for the server, then receives with cubic.
fn transfer(server: &str, seconds: &str) -> String {
    format!(
        "for try in 1 2 3 4 5 6 7 8 9; do iperf3 -c {server} -R -C cubic -O 1 -t {seconds} -J && exit; sleep 0.2; done"
    )
}

/// Runs in a separate namespace, with its runtime files on a file system that is removed with it.
fn through_rattan(program: &Path, rate: Bitrate, seconds: &str) -> Result<f64, BenchError> {
    let bandwidth = format!("{}bps", rate.as_bps());
    let link = format!(
        "--uplink-bandwidth {bandwidth} --downlink-bandwidth {bandwidth} --uplink-delay 5ms --downlink-delay 5ms"
    );
    let client = transfer("$RATTAN_BASE", seconds);
    let script = format!(
        "mount -t tmpfs none /run && ip link set lo up && iperf3 -s -D && exec \"$0\" link {link} -- sh -c '{client}'"
    );
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
        &script,
    ]);
    goodput(unshare.arg(program))
}

fn spawn(command: &mut Command) -> Result<Child, BenchError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| BenchError::Program { program, reason: error.to_string() })
}

/// A child process that is killed when dropped.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // Both fail if it has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The received rate in iperf3's JSON, which may be surrounded by log lines.
fn goodput(command: &mut Command) -> Result<f64, BenchError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |reason: String| BenchError::Program { program: program.clone(), reason };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.iter().rposition(|line| *line == "{");
    let end = lines.iter().rposition(|line| *line == "}");
    let (Some(begin), Some(end)) = (begin, end) else {
        return Err(failed(last_words(&output)));
    };
    let json = lines.get(begin..=end).unwrap_or_default().join("\n");
    let report: serde_json::Value = serde_json::from_str(&json).map_err(|error| failed(error.to_string()))?;
    let bits = report.pointer("/end/sum_received/bits_per_second").and_then(serde_json::Value::as_f64);
    bits.map(|bits| bits / 1e6)
        .ok_or_else(|| failed(report["error"].as_str().unwrap_or("no result").to_owned()))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
