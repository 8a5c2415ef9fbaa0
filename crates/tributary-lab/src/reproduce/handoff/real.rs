//! The handoff experiment with real parts: nginx serves a film, VLC or ffplay plays it, the emulator cuts the first
//! path, and a relay carries HTTP over the cell's transport. The simulated cell with the same settings is run, too.
//!
//! The axis `player` is `vlc` or `ffplay`; the optional axis `film` is `synthetic` or a video file. Pictures,
//! discards and underflows are counted by the players ([`crate::players`]).

use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use super::super::matrix::{Cell, CellError, failed};
use super::super::runner::Experiment;
use super::super::sample::Sample;
use super::{CUT, Ending, Handoff, cut, described, ending, mbps, network};
use crate::audits;
use crate::kernel;
use crate::nginx::Nginx;
use crate::players::{Noticed, Player};
use crate::relay;
use crate::result::{AuditNote, World};
use crate::transport::{SessionSettings, config, is_on_sockets};
use tempfile::TempDir;
use tokio::sync::{oneshot, watch};
use tributary_emu::{Network, Side};
use tributary_link::Direction;
use tributary_net::Key;
use tributary_net::transport::{TransportConfig, TransportName};
use tributary_player::progressive;
use tributary_stream::film::{self, Film, Source};

/// Seconds by which the film is longer than the run.
const FILM_MARGIN_S: u32 = 5;
/// Time limit until nginx listens.
const START: Duration = Duration::from_secs(15);
/// Where nginx listens, in the server's own namespace.
const WEB: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
const FILM: &str = "film.ts";
/// Metrics of both worlds.
const BESIDE: [&str; 4] = ["underflows", "discards", "pictures", "second_after"];

/// Parsed settings of a cell.
struct Parts {
    player: Player,
    transport: TransportName,
    config: TransportConfig,
    scenario: tributary_link::Scenario,
}

/// Checks the cell and that its programs are installed.
pub(super) fn check(cell: &Cell) -> Result<(), CellError> {
    let parts = parts(cell)?;
    let needs = ["nginx", "ffmpeg", "ip"].iter().chain(parts.player.needs());
    for program in needs {
        if !installed(program) {
            let missing = format!("`{program}` is not installed; run: scripts/setup --players");
            return Err(failed(missing));
        }
    }
    let known = tributary_net::sockopt::available_congestion();
    let congestion = cell.label("congestion");
    if !known.split(", ").any(|name| name == congestion) {
        let expected =
            format!("one of {known}; `tributary cc load` adds lia, olia, balia, wvegas and compound");
        return Err(cell.refused("congestion", &expected));
    }
    Handoff.check(&twin(cell))
}

/// Whether a program is on the search path.
fn installed(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

fn parts(cell: &Cell) -> Result<Parts, CellError> {
    let player = Player::find(cell.label("player")).ok_or_else(|| cell.refused("player", "vlc or ffplay"))?;
    if ending(cell)? == Ending::Announced {
        return Err(
            cell.refused("handoff", "none or silent: in the emulator a scenario cannot announce a handoff")
        );
    }
    let scenario = network(cell, Duration::from_secs(cell.seconds.into()), CUT)?;
    let transport = TransportName::find(cell.label("transport"), cell.scheduler(), &scenario.path_names());
    let transport = transport.map_err(failed)?;
    if !is_on_sockets(&transport) {
        return Err(
            cell.refused("transport", "a transport on sockets: the kernel's mptcp has no other scheduler")
        );
    }
    let key = Key::generate().map_err(failed)?;
    let config = config(&transport, cell.label("congestion"), key, &SessionSettings::default());
    Ok(Parts { player, transport, config, scenario })
}

/// The same cell in the simulator.
fn twin(cell: &Cell) -> Cell {
    let mut twin = cell.clone();
    twin.world = World::Sim;
    twin
}

/// Plays the film. Repeats it if the emulator was not exact, up to the cell's number of attempts.
pub(super) fn measure(cell: &Cell) -> Result<Sample, CellError> {
    let parts = parts(cell)?;
    let files = TempDir::new().map_err(failed)?;
    let source = match cell.label("film") {
        "" | "synthetic" => Source::Synthetic,
        file => Source::File(Path::new(file)),
    };
    let settings = Film { seconds: cell.seconds + FILM_MARGIN_S, ..Film::default() };
    film::make(source, &settings, &files.path().join(FILM)).map_err(failed)?;
    let (mut sample, audit) = audits::exact(cell.attempts, || once(cell, &parts, files.path()))?;
    sample.audit = Some(audit);
    described(&mut sample, &parts.scenario, &progressive::Film::paper());
    let simulated = Handoff.measure(&twin(cell))?;
    sample.add_simulated(&simulated, &BESIDE);
    Ok(sample)
}

fn once(cell: &Cell, parts: &Parts, files: &Path) -> Result<(Sample, AuditNote), CellError> {
    let network = Network::start(&parts.scenario).map_err(failed)?;
    if let TransportName::Mptcp { .. } = parts.transport {
        kernel::prepare_emulated(&network).map_err(failed)?;
    }
    let nginx = Nginx::start(network.command(Side::Server, "nginx"), files, WEB).map_err(failed)?;
    let listens = || std::net::TcpStream::connect(WEB).is_ok();
    let began = std::time::Instant::now();
    while !network.run(Side::Server, listens).map_err(failed)? {
        if began.elapsed() > START {
            return Err(failed("nginx does not listen"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let noticed = relayed(&network, parts, |address| {
        network.rewind().map_err(failed)?;
        let home = TempDir::new().map_err(failed)?;
        let command = |program: &str| network.command(Side::Client, program);
        let (url, time) = (format!("http://{address}/{FILM}"), Duration::from_secs(cell.seconds.into()));
        parts.player.play(command, &url, home.path(), time).map_err(failed)
    })?;
    drop(nginx);
    let audit = AuditNote::new(&network.audit().map_err(failed)?);
    let mut sample = Sample::default();
    let Noticed { underflows, discards, pictures } = noticed;
    for (name, value) in [("underflows", underflows), ("discards", discards), ("pictures", pictures)] {
        sample.set(name, Some(value as f64));
    }
    carried(&mut sample, cell, &network)?;
    Ok((sample, audit))
}

/// Runs `play` with the address on which the client's end of the relay listens.
fn relayed<T>(
    network: &Network,
    parts: &Parts,
    play: impl FnOnce(SocketAddr) -> Result<T, CellError>,
) -> Result<T, CellError> {
    let used = parts.transport.paths(&parts.scenario.path_names());
    let addresses: Vec<Ipv4Addr> = used.iter().map(|path| Side::Server.address(*path)).collect();
    let (stop, stopped) = watch::channel(());
    std::thread::scope(|scope| {
        let (ready, listening) = oneshot::channel();
        let stopping = stopped.clone();
        let server = scope.spawn(move || {
            let work = relay::serve(&parts.config, &addresses, WEB, ready, stopping);
            network.run(Side::Server, || block_on(work)).map_err(failed)?
        });
        let ended = |_| failed("an end of the relay does not start");
        let listening = listening.blocking_recv().map_err(ended);
        let (ready, near) = oneshot::channel();
        let client = scope.spawn(move || {
            let listening = listening?;
            let paths: Vec<(Ipv4Addr, SocketAddr)> =
                used.iter().map(|path| Side::Client.address(*path)).zip(listening).collect();
            let work = relay::connect(&parts.config, &paths, ready, stopped);
            network.run(Side::Client, || block_on(work)).map_err(failed)?
        });
        let played = near.blocking_recv().map_err(ended).and_then(play);
        drop(stop);
        let crashed = |_| Err(failed("an end of the relay panicked"));
        // The error of one end explains why the other end, or the player, failed.
        server.join().unwrap_or_else(crashed)?;
        client.join().unwrap_or_else(crashed)?;
        played
    })
}

fn block_on(work: impl Future<Output = relay::Outcome>) -> Result<(), CellError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(work).map_err(failed)
}

/// Bytes carried by each flow, from the links' record.
fn carried(sample: &mut Sample, cell: &Cell, network: &Network) -> Result<(), CellError> {
    let length = Duration::from_secs(cell.seconds.into());
    let cut = cut(cell, CUT, length).as_secs_f64();
    let log = network.link_log().map_err(failed)?;
    let names = [["first", "first_after", "first_seconds"], ["second", "second_after", "second_seconds"]];
    for (path, [all, after, seconds]) in network.scenario().paths.iter().zip(names) {
        let here = log.iter().filter(|s| s.path == path.name && s.direction == Direction::Down);
        let here: Vec<_> = here.filter(|s| s.seconds <= length.as_secs_f64()).collect();
        let bytes: Vec<u64> = here.iter().map(|sample| sample.delivered_bytes).collect();
        // As in the simulator, the first incomplete step after the cut is left out.
        let later: Vec<u64> =
            here.iter().filter(|s| s.seconds > cut + 0.2).map(|sample| sample.delivered_bytes).collect();
        sample.set(all, mbps(&bytes));
        sample.set(after, mbps(&later));
        sample.series(seconds, bytes.chunks_exact(10).filter_map(mbps).collect());
    }
    if ending(cell)? != Ending::None {
        sample.set("cut", Some(cut));
    }
    Ok(())
}
