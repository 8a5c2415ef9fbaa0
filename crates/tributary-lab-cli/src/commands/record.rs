//! `tributary-lab record`: this machine's radios as a scenario.

use anyhow::{Context, Result, bail};
use clap::Args;
use core::time::Duration;
use std::io::IsTerminal;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tributary_cli::{output, quantity};
use tributary_lab::compare::path_name;
use tributary_lab::record::{Options, Output, Pace, Recorder, Surroundings, interrupted, path_socket, serve};
use tributary_net::Key;

/// Time between two looks at whether the recording ends.
const LOOK: Duration = Duration::from_millis(100);

/// Record this machine's radios as a scenario that simulator and emulator replay: rate in both directions, delay and loss over time.
///
/// Each path is probed beside other traffic, ten times a second, with about a tenth of its rate in each direction; --saturate
/// takes two fifths, forty times a second. Both ends have a shared key (`tributary keygen --shared --out key`); nobody else gets
/// an answer that is longer than the question. FILE is replaced whole every two seconds, so a recording that is cut short leaves
/// what was recorded; FILE's name with .samples.csv is a table of every second, with position (gpsd) and signal strength (WiFi,
/// ModemManager) where the system has them. Needs Linux 5.7 or root to bind to an interface.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab record --serve 0.0.0.0:7100 --shared-key key       # on a machine with a public address
  tributary-lab record --path wlan0 --path wwan0 --server 203.0.113.5:7100 --shared-key key --out walk.toml
  tributary-lab record --path wlan0=203.0.113.5:7100 --path 10.0.0.2=198.51.100.7:7100 --shared-key key \\
      --seconds 300 --saturate --out walk.toml
  tributary-lab compare walk.toml
  tributary-lab run walk.toml --world sim --transport fbdt")]
pub(crate) struct RecordArguments {
    /// A radio: its interface or local address, and its server if it differs
    #[arg(long = "path", value_name = "LOCAL[=SERVER:PORT]", required_unless_present = "serve")]
    paths: Vec<String>,
    /// Server of paths that name none
    #[arg(long, value_name = "SERVER:PORT")]
    server: Option<String>,
    /// The shared key of both ends
    #[arg(long, value_name = "FILE")]
    shared_key: PathBuf,
    /// The scenario file to write
    #[arg(long, value_name = "FILE", required_unless_present = "serve")]
    out: Option<PathBuf>,
    /// End after so many seconds [default: record until interrupted]
    #[arg(long, value_parser = quantity::seconds_in(1..=86_400))]
    seconds: Option<u32>,
    /// Take two fifths of each path in each direction, for finer rates; without other traffic beside it
    #[arg(long)]
    saturate: bool,
    /// The clocks of both ends differ by less than a millisecond (PTP, GPS): measure the delay of each direction
    #[arg(long)]
    synchronised: bool,
    /// Where gpsd listens
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:2947")]
    gpsd: SocketAddr,
    /// Be the server of recordings on this address, until interrupted
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["paths", "server", "out", "seconds", "saturate", "synchronised"])]
    serve: Option<SocketAddr>,
}

pub(crate) fn run(arguments: &RecordArguments) -> Result<ExitCode> {
    let key = Key::load(&arguments.shared_key)?;
    let stop = interrupted().context("cannot listen for signals")?;
    if let Some(address) = arguments.serve {
        let socket = UdpSocket::bind(address).with_context(|| format!("cannot listen on UDP {address}"))?;
        eprintln!("serving recordings on UDP {}", socket.local_addr()?);
        serve(&socket, &key, &stop).with_context(|| format!("UDP {address}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let out = arguments.out.as_deref().context("--out FILE is missing")?;
    record(arguments, (&key, out), sockets(arguments)?, &stop)
}

fn sockets(arguments: &RecordArguments) -> Result<Vec<(String, UdpSocket)>> {
    let (mut sockets, mut names) = (Vec::new(), std::collections::BTreeSet::new());
    for path in &arguments.paths {
        let (local, server) = match path.split_once('=') {
            Some((local, server)) => (local, Some(server)),
            None => (path.as_str(), arguments.server.as_deref()),
        };
        let Some(server) = server else {
            bail!("--path {path} has no server: add --server SERVER:PORT, or give --path {path}=SERVER:PORT");
        };
        let failed = || format!("--path {local}: cannot reach {server} from it");
        let socket = path_socket(local, resolve(server)?).with_context(failed)?;
        sockets.push((path_name(local, &mut names), socket));
    }
    Ok(sockets)
}

fn resolve(server: &str) -> Result<SocketAddr> {
    let mut found = server
        .to_socket_addrs()
        .with_context(|| format!("`{server}` is no SERVER:PORT that is known here"))?;
    found.next().with_context(|| format!("`{server}` has no address"))
}

fn record(
    arguments: &RecordArguments,
    (key, out): (&Key, &Path),
    sockets: Vec<(String, UdpSocket)>,
    stop: &AtomicBool,
) -> Result<ExitCode> {
    let mut output = Output::create(out, &format!("Recorded by {}", output::command_line()))?;
    let options = Options {
        pace: if arguments.saturate { Pace::Saturating } else { Pace::Light },
        length: arguments.seconds.map(|seconds| Duration::from_secs(seconds.into())),
        synchronised: arguments.synchronised,
    };
    let recorder = Recorder::start(sockets, key, options)?;
    let surroundings = Surroundings::start(recorder.began(), recorder.interfaces(), arguments.gpsd);
    let mut next = Instant::now() + output.pause();
    while !recorder.is_finished() && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        if Instant::now() < next {
            continue;
        }
        let recording = recorder.so_far();
        output.write(&recording, &surroundings)?;
        next = Instant::now() + output.pause();
        if std::io::stderr().is_terminal() {
            eprintln!("{:.0} s  {}", recording.duration().as_secs_f64(), recording.summary().join("  "));
        }
    }
    let recording = recorder.finish();
    if recording.duration().is_zero() {
        bail!("interrupted before anything was recorded; {} is not written", out.display());
    }
    output.write(&recording, &surroundings)?;
    recording.summary().iter().try_for_each(|line| output::line(line))?;
    surroundings.notes().iter().for_each(|note| eprintln!("{note}"));
    eprintln!(
        "{:.1} s recorded: {} and {}",
        recording.duration().as_secs_f64(),
        out.display(),
        output.samples().display()
    );
    Ok(ExitCode::SUCCESS)
}
