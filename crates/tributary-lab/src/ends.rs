//! Both ends of a viewing in an emulated network, as the product's own commands: `stream serve` at the server, `stream play` at
//! the client. Not here: how the client plays, and what becomes of what it has seen.

use core::time::Duration;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use thiserror::Error;
use tributary_emu::{Network, Side};
use tributary_net::{Key, KeyError};

use crate::kernel;
use crate::process::{Process, ProcessError, product_program, write_secret};

/// Time for a program to be ready.
const READY: Duration = Duration::from_secs(30);
/// The transport that is given every path. The others begin on one; the kernel finds the other paths of MPTCP itself.
const SESSION: &str = "session";
/// The transport that needs settings of both namespaces.
const MPTCP: &str = "mptcp";

/// Why the ends do not run.
#[derive(Debug, Error)]
pub enum EndsError {
    /// A program failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The key cannot be made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Their files cannot be written.
    #[error("cannot write the ends' files: {0}")]
    Files(#[from] io::Error),
}

/// A running server, and how its client is started.
#[derive(Debug)]
pub(crate) struct Ends {
    program: PathBuf,
    /// Directory of their sockets: process numbers repeat between namespaces, and with them the sockets' names.
    run: PathBuf,
    client: Vec<OsString>,
    _server: Process,
}

impl Ends {
    /// Starts `stream serve` of a tiled video over a transport, named as in `stream`, with a congestion control. The folder
    /// `files` keeps the key and the sockets of both ends.
    pub(crate) fn start(
        network: &Network,
        (transport, congestion): (&str, &str),
        video: &Path,
        files: &Path,
    ) -> Result<Self, EndsError> {
        if transport == MPTCP {
            kernel::prepare_emulated(network)?;
        }
        let (program, key) = (product_program()?, files.join("key"));
        write_secret(&key, &Key::generate()?.to_line())?;
        let mut common: Vec<OsString> =
            ["--transport", transport, "--congestion", congestion, "--shared-key"].map(OsString::from).into();
        common.push(key.into());
        let run = files.join("run");
        let mut serve = network.command(Side::Server, &program);
        serve.args(["stream", "serve", "--json"]).arg(video).args(&common);
        let paths = if transport == SESSION { network.scenario().paths.len() } else { 1 };
        for path in 0..paths {
            serve.arg("--listen").arg(format!("{}:0", Side::Server.address(path)));
        }
        let server = Process::start("server", with_sockets(serve, &run))?;
        let Listening { listening } = server.answer(READY)?;
        let mut client = common;
        for (path, server) in listening.iter().enumerate() {
            client.extend(
                ["--path".to_owned(), format!("{}={server}", Side::Client.address(path))].map(OsString::from),
            );
        }
        Ok(Self { program, run, client, _server: server })
    }

    /// `stream play` with its transport, key and paths.
    pub(crate) fn player(&self, network: &Network) -> Command {
        let mut play = network.command(Side::Client, &self.program);
        play.args(["stream", "play"]).args(&self.client);
        with_sockets(play, &self.run)
    }

    /// `tributary status` of both ends, one JSON object a second.
    pub(crate) fn status(&self) -> Command {
        let mut status = Command::new(&self.program);
        // When both ends have ended it complains that there is no program.
        status.args(["status", "--watch", "--json"]).stderr(Stdio::null());
        with_sockets(status, &self.run)
    }

    /// Directory of the sockets on which both ends answer `tributary status`.
    pub(crate) fn sockets(&self) -> &Path {
        &self.run
    }
}

#[derive(Deserialize)]
struct Listening {
    listening: Vec<SocketAddr>,
}

fn with_sockets(mut command: Command, run: &Path) -> Command {
    command.env("TRIBUTARY_RUNTIME_DIR", run);
    command
}
