//! One side of the stand: a transport's network with both ends in it, and what the client's program says of itself.

use core::time::Duration;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Deserialize;
use serde_json::Value;
use tributary_emu::{ForwardOptions, Network, NetworkError, Side as End, Verdict};

use super::{Settings, ShowError, Transport};
use crate::ends::Ends;
use crate::process::{Process, ProcessError};

/// Time for a player to say where its page is.
const READY: Duration = Duration::from_secs(30);
/// Time after which a program that says nothing is thought to be gone; it speaks each second.
const SILENCE: Duration = Duration::from_secs(30);
/// Time between two audits.
const AUDIT: Duration = Duration::from_secs(5);

/// A side, as the page shows it.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) over: Transport,
    pub(super) network: Network,
    /// Address of the player's page in the client's namespace, and its token.
    pub(super) page: (SocketAddr, String),
    status: Arc<Mutex<Option<Value>>>,
    audit: Mutex<Option<(Instant, Vec<String>)>>,
}

/// Programs of a side, ended when dropped.
#[derive(Debug)]
pub(super) struct Started {
    _player: Process,
    ends: Ends,
}

impl Started {
    pub(super) fn sockets(&self) -> &Path {
        self.ends.sockets()
    }
}

/// Starts a side. Its files are in `directory`.
pub(super) fn start(
    settings: &Settings,
    over: Transport,
    directory: &Path,
) -> Result<(Side, Started), ShowError> {
    // Nobody knows how long the stand will run, and nobody asks for the whole series.
    let options = ForwardOptions { log: false, ..ForwardOptions::default() };
    let network = Network::start_with(&settings.scenario, options)?;
    let ends = Ends::start(&network, (over.transport, &settings.congestion), &settings.directory, directory)?;
    let mut play = ends.player(&network);
    play.args(["--allocator", &settings.allocator, "--web", "127.0.0.1:0", "--json"]);
    play.arg("--reference").arg(&settings.directory);
    let player = Process::start(format!("player over {}", over.label), play)?;
    let Announced { url } = player.answer(READY)?;
    let page = address(&url).ok_or_else(|| player.failed(format!("has no page at `{url}`")))?;
    let status = follow(ends.status(), over.label)?;
    let side = Side { over, network, page, status, audit: Mutex::default() };
    Ok((side, Started { _player: player, ends }))
}

#[derive(Deserialize)]
struct Announced {
    url: String,
}

/// Address and token of a page.
fn address(url: &str) -> Option<(SocketAddr, String)> {
    let (address, token) = url.strip_prefix("http://")?.split_once('/')?;
    Some((address.parse().ok()?, token.trim_end_matches('/').to_owned()))
}

/// Keeps what the player said last. Ends when the programs of the side have ended, of which one is always asked.
fn follow(status: Command, name: &str) -> Result<Arc<Mutex<Option<Value>>>, ProcessError> {
    let process = Process::start(format!("status of {name}"), status)?;
    let last = Arc::new(Mutex::new(None));
    let kept = last.clone();
    let keep = move |player| *kept.lock().unwrap_or_else(PoisonError::into_inner) = player;
    std::thread::spawn(move || {
        while let Ok(Programs { programs }) = process.answer::<Programs>(SILENCE) {
            keep(programs.into_iter().find(|program| program["role"] == "stream play"));
        }
        keep(None);
    });
    Ok(last)
}

#[derive(Deserialize)]
struct Programs {
    programs: Vec<Value>,
}

impl Side {
    /// What the player said of itself last; `None`: it does not run.
    pub(super) fn status(&self) -> Option<Value> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why the network does not match the scenario since the start, if it does not. At most some seconds old.
    pub(super) fn inexact(&self) -> Result<Vec<String>, NetworkError> {
        let mut known = self.audit.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, reasons)) = &*known
            && at.elapsed() < AUDIT
        {
            return Ok(reasons.clone());
        }
        let reasons = match self.network.audit()?.verdict() {
            Verdict::Valid => Vec::new(),
            Verdict::Invalid { reasons } => reasons,
        };
        *known = Some((Instant::now(), reasons.clone()));
        Ok(reasons)
    }

    /// A connection to the player's page, as made in the client's namespace. Blocks.
    pub(super) fn connect(&self) -> io::Result<TcpStream> {
        let connect = || -> io::Result<TcpStream> {
            let stream = TcpStream::connect(self.page.0)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        self.network.run(End::Client, connect).map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_an_address_and_a_token() {
        let (at, token) = address("http://127.0.0.1:4711/abc/").unwrap();
        assert_eq!((at.port(), token.as_str()), (4711, "abc"));
        for url in ["", "http://127.0.0.1:4711", "https://127.0.0.1:4711/abc/", "http://example/abc/"] {
            assert!(address(url).is_none(), "{url}");
        }
    }
}
