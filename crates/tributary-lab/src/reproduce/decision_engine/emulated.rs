//! A playback in real time: the product's server and player at both ends of emulated links, with Open vSwitch
//! switches and the path controller between them ([`crate::sdn`]). Not here: the choice of network and title, and the
//! metrics.

use super::super::matrix::{Cell, CellError, failed};
use super::{BEFORE, title};
use crate::audits;
use crate::error::LabError;
use crate::kernel;
use crate::process::{Process, product_program, write_secret};
use crate::result::AuditNote;
use crate::sdn::{self, Sides};
use core::time::Duration;
use serde::Deserialize;
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use tributary_emu::{Network, Side};
use tributary_link::Scenario;
use tributary_net::Key;
use tributary_player::dash::play::{Qoe, Title};

/// Time limit for switches, controller and programs to start.
const START: Duration = Duration::from_secs(60);
/// A playback fails if it takes longer than twice the title's length plus this.
const GRACE: Duration = Duration::from_secs(60);
/// Congestion control of every socket: the kernel has no wVegas.
pub(super) const CONGESTION: &str = "cubic";
// The server's ports: HTTP over TCP and MPTCP, sessions, HTTP/3, multipath QUIC.
const HTTP: u16 = 8080;
const SESSION: u16 = 7000;
const QUIC: u16 = 7001;
const MPQUIC: u16 = 7002;

/// Runs on the client. `$0`: file for the list of TCP connections; `$1`: seconds to wait; then the player's command.
/// It prints `ready` when everything is up, waits for a line of input, plays, and meanwhile lists the connections of
/// both hosts.
const SCRIPT: &str = r#"
echo ready
read -r begin
sleep "$1"
shift
"$@" &
sleep 2
for host in client server; do
    ip netns exec $host ss --no-header --tcp --info --numeric --oneline state established \
        src 10.77.0.0/16 dst 10.77.0.0/16 > "$0.$host"
done
wait $!
"#;

/// Result of a playback.
pub(super) struct Playback {
    pub(super) qoe: Qoe,
    /// The transports used, in order.
    pub(super) transports: Vec<String>,
    pub(super) audit: AuditNote,
}

/// The part of the player's output that is used.
#[derive(Deserialize)]
struct Played {
    transports: Vec<String>,
    qoe: Qoe,
    given_up: Option<String>,
}

/// Plays the title. Repeats it if the emulator was not exact, up to the cell's number of attempts.
pub(super) fn play(cell: &Cell, network: &Scenario, title: &Title) -> Result<Playback, CellError> {
    let (playback, audit) = audits::exact(cell.attempts, || {
        let playback = once(cell.label("transport"), network, title)?;
        let audit = playback.audit.clone();
        Ok::<_, CellError>((playback, audit))
    })?;
    Ok(Playback { audit, ..playback })
}

fn once(transport: &str, scenario: &Scenario, title: &Title) -> Result<Playback, CellError> {
    let directory = tempfile::tempdir().map_err(failed)?;
    let place = |name: &str| directory.path().join(name);
    title::write(&place("title"), title).map_err(failed)?;
    write_secret(&place("key"), &Key::generate().map_err(failed)?.to_line()).map_err(failed)?;
    let program = product_program().map_err(failed)?;
    let (paths, directory) = (scenario.paths.len(), directory.path());
    let commands = Commands { program: &program, transport, paths, directory };
    let sides = sdn::sides(&commands.client(), Some(&commands.server())).map_err(failed)?;
    let network = Network::start(scenario).map_err(failed)?;
    let log = File::create(place("log")).map_err(failed)?;
    let (_server, mut client) = start(&network, &sides, log).map_err(failed)?;
    let with_log = |error: LabError| failed(format!("{error}; {}", last_words(&place("log"))));
    let played = play_once(&network, &mut client, title).map_err(with_log)?;
    if let Some(why) = &played.given_up {
        return Err(failed(format!("playback was given up: {why}")));
    }
    let audit = AuditNote::new(&network.audit().map_err(failed)?);
    assert_congestion(transport, &place("connections")).map_err(with_log)?;
    // The client removes the switches before the next run.
    client.wait(GRACE);
    Ok(Playback { qoe: played.qoe, transports: played.transports, audit })
}

/// Starts both sides. The server's side is only a process, by which the path controller's laboratory finds the
/// namespace.
fn start(network: &Network, sides: &Sides, log: File) -> Result<(Process, Process), LabError> {
    let environment = tributary_emu::environment(network.scenario());
    let mut server = network.command(Side::Server, "sh");
    server.arg("-c").arg(sides.server.as_deref().unwrap_or_default());
    let server = Process::start("server's side", server)?;
    let mut client = network.command(Side::Client, &sides.client[0]);
    client.args(&sides.client[1..]).envs(environment).stderr(log);
    Ok((server, Process::start("client", client)?))
}

/// Restarts the scenario when everything is up, and plays.
fn play_once(network: &Network, client: &mut Process, title: &Title) -> Result<Played, LabError> {
    let ready = client.line(START)?;
    if ready != "ready" {
        return Err(client.failed(format!("printed `{ready:.200}` instead of `ready`")).into());
    }
    network.rewind()?;
    client.tell(&"begin")?;
    Ok(client.answer(2 * title.segments.iter().sum::<Duration>() + GRACE)?)
}

/// Checks that every TCP connection of both hosts runs [`CONGESTION`], and that transports over TCP have connections.
fn assert_congestion(transport: &str, list: &Path) -> Result<(), LabError> {
    for (side, host) in [(Side::Client, "client"), (Side::Server, "server")] {
        let text = std::fs::read_to_string(list.with_extension(host)).unwrap_or_default();
        kernel::check_congestion(&text, side, CONGESTION)?;
        if text.is_empty() && ["tcp", "mptcp", "engine"].contains(&transport) {
            return Err(LabError::NoConnection { side: host });
        }
    }
    Ok(())
}

fn last_words(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    format!("the log ends with: {}", lines[lines.len().saturating_sub(5)..].join(" | "))
}

/// The commands of both hosts.
struct Commands<'a> {
    /// The product's program.
    program: &'a Path,
    transport: &'a str,
    paths: usize,
    /// Directory with the title, the key and the lists of connections.
    directory: &'a Path,
}

impl Commands<'_> {
    fn place(&self, name: &str) -> String {
        self.directory.join(name).to_string_lossy().into_owned()
    }

    fn program(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// The arguments of [`SCRIPT`], with the player's command.
    fn client(&self) -> Vec<OsString> {
        let server = Side::Server.address(0);
        let (scheme, port) = if self.transport == "quic" { ("https", QUIC) } else { ("http", HTTP) };
        let url = format!("{scheme}://{server}:{port}/manifest.mpd");
        let mut words: Vec<String> = ["sh", "-c", SCRIPT].map(str::to_owned).to_vec();
        words.extend([self.place("connections"), BEFORE.as_secs().to_string(), self.program()]);
        words.extend(["dash", "play", &url, "--transport", self.transport].map(str::to_owned));
        words.extend(["--congestion", CONGESTION, "--json"].map(str::to_owned));
        if !["tcp", "mptcp"].contains(&self.transport) {
            words.extend(["--shared-key".to_owned(), self.place("key")]);
        }
        if self.transport == "engine" {
            words.extend(["--controller", sdn::CONTROLLER, "--quic", &QUIC.to_string()].map(str::to_owned));
        }
        let port = match self.transport {
            "fbdt" => Some(SESSION),
            "mpquic" => Some(MPQUIC),
            _ => None,
        };
        for (path, port) in (0..self.paths).filter_map(|path| Some((path, port?))) {
            let [client, server] = [Side::Client, Side::Server].map(|side| side.address(path));
            words.extend(["--path".to_owned(), format!("{client}={server}:{port}")]);
        }
        words.into_iter().map(OsString::from).collect()
    }

    /// The command of a server for every transport, as shell text.
    fn server(&self) -> String {
        let (title, key) = (self.place("title"), self.place("key"));
        let mut words: Vec<String> = vec![self.program()];
        words.extend(
            ["dash", "serve", &title, "--shared-key", &key, "--congestion", CONGESTION].map(str::to_owned),
        );
        words.extend(["--listen".to_owned(), format!("0.0.0.0:{HTTP}")]);
        words.extend(["--quic".to_owned(), format!("{}:{QUIC}", Side::Server.address(0))]);
        for server in (0..self.paths).map(|path| Side::Server.address(path)) {
            words.extend(["--session".to_owned(), format!("{server}:{SESSION}")]);
            words.extend(["--mpquic".to_owned(), format!("{server}:{MPQUIC}")]);
        }
        let words: Vec<String> = words.iter().map(|word| sdn::quoted(word)).collect();
        // Only the player may write to standard output.
        format!("exec {} >&2", words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_player_has_the_paths_and_the_server_listens_on_them() {
        let commands = |transport, paths| Commands {
            program: Path::new("tributary"),
            transport,
            paths,
            directory: Path::new("/title's"),
        };
        let client = |transport, paths| {
            let words = commands(transport, paths).client();
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()[6..].join(" ")
        };
        assert_eq!(
            client("tcp", 1),
            "dash play http://10.77.1.1:8080/manifest.mpd --transport tcp --congestion cubic --json"
        );
        assert!(client("quic", 1).contains("https://10.77.1.1:7001/manifest.mpd"));
        assert!(client("engine", 2).ends_with("--controller http://127.0.0.1:8181 --quic 7001"));
        assert!(
            client("fbdt", 2).ends_with("--path 10.77.1.2=10.77.1.1:7000 --path 10.77.2.2=10.77.2.1:7000")
        );
        assert!(client("mpquic", 2).ends_with("10.77.2.2=10.77.2.1:7002"));
        let server = commands("tcp", 2).server();
        assert!(server.contains("'/title'\\''s/title'") && server.contains("'10.77.2.1:7000'"), "{server}");
    }
}
