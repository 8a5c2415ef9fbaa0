//! The stand, for people: the same tiled 360° video over a session and over the kernel's MPTCP, side by side in one page, through
//! emulated radios that the viewer blocks or drags to another rate.
//!
//! Each transport has an emulated network of its own, with the same scenario and seed, so that they do not compete; a change goes
//! to both. In each the product's own `stream serve` and `stream play --web` run. Their pages are frames of the stand's page, and
//! their numbers are those of `tributary status`. Not here: who may read the page (`tributary-site`), and what it looks like
//! (`web/src/stand`).

mod answers;
mod browser;
mod record;
mod side;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;
use thiserror::Error;
use tokio::runtime::Runtime;
use tributary_emu::NetworkError;
use tributary_emu::control::{Request, RequestError};
use tributary_link::Scenario;
use tributary_site::Site;
use tributary_tiles::program::ProgramError;
use tributary_tiles::{TiledError, TiledVideo};

pub use browser::BrowserError;
pub use record::Recording;

use crate::ends::EndsError;
use crate::process::ProcessError;
use side::{Side, Started};

/// The sides, which differ in the transport only.
const SIDES: [Transport; 2] = [
    Transport { name: "tributary", label: "Tributary (FBDT)", transport: "session" },
    Transport { name: "mptcp", label: "Kernel MPTCP", transport: "mptcp" },
];
/// Threads that serve the page and pass the players' pages on.
const THREADS: usize = 2;

/// Settings of a stand.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The network of each side.
    pub scenario: Scenario,
    /// The tiled video.
    pub directory: PathBuf,
    /// Allocator of both players.
    pub allocator: String,
    /// Congestion control of every socket.
    pub congestion: String,
}

/// Why there is no stand.
#[derive(Debug, Error)]
pub enum ShowError {
    /// The tiled video cannot be used.
    #[error(transparent)]
    Video(#[from] TiledError),
    /// An emulated network failed.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The server or client of a side does not run.
    #[error(transparent)]
    Ends(#[from] EndsError),
    /// A process failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The system refused something.
    #[error("{doing}: {source}")]
    System {
        /// The operation.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The recording cannot be written.
    #[error("cannot write {}: {source}", file.display())]
    File {
        /// Its file.
        file: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The browser that is recorded failed.
    #[error(transparent)]
    Browser(#[from] BrowserError),
    /// The recording cannot be encoded.
    #[error(transparent)]
    Encoder(#[from] ProgramError),
}

fn system(doing: &'static str) -> impl FnOnce(io::Error) -> ShowError {
    move |source| ShowError::System { doing, source }
}

/// The transport of a side.
#[derive(Clone, Copy, Debug)]
struct Transport {
    /// Its name in the page's addresses.
    name: &'static str,
    /// Its name for people.
    label: &'static str,
    /// Its name in `stream`.
    transport: &'static str,
}

/// A running stand. Dropping it ends its programs and removes its networks.
#[derive(Debug)]
pub struct Stand {
    started: Vec<Started>,
    shown: Arc<Shown>,
    _files: TempDir,
}

/// What the page shows and changes.
#[derive(Debug)]
struct Shown {
    scenario: Scenario,
    sides: Vec<Arc<Side>>,
    /// The last change of each radio.
    asked: Mutex<BTreeMap<String, Request>>,
}

impl Stand {
    /// Starts both networks and the programs in them. Call [`tributary_emu::isolate`] first.
    ///
    /// # Errors
    /// [`ShowError`].
    pub fn start(settings: &Settings) -> Result<Self, ShowError> {
        // A wrong directory is refused here, with a better reason than a server that has ended.
        TiledVideo::open(&settings.directory)?;
        let files = tempfile::tempdir().map_err(system("making a directory for temporary files"))?;
        let (mut sides, mut started) = (Vec::new(), Vec::new());
        for transport in SIDES {
            let directory = files.path().join(transport.name);
            std::fs::create_dir(&directory).map_err(system("making a side's directory"))?;
            let (side, programs) = side::start(settings, transport, &directory)?;
            sides.push(Arc::new(side));
            started.push(programs);
        }
        let shown = Shown { scenario: settings.scenario.clone(), sides, asked: Mutex::default() };
        Ok(Self { started, shown: Arc::new(shown), _files: files })
    }

    /// Of each side its name, and the directory in which its programs answer `tributary status`.
    pub fn sockets(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.shown.sides.iter().zip(&self.started).map(|(side, started)| (side.over.name, started.sockets()))
    }

    /// Serves the page for ever.
    ///
    /// # Errors
    /// [`ShowError::System`].
    pub fn serve(&self, (site, listener): (Site, TcpListener)) -> Result<Infallible, ShowError> {
        runtime()?.block_on(self.answer(site, listener)).map_err(system("serving the page"))
    }

    /// Shows the page in a browser without a window while its radios are changed, and records it.
    ///
    /// # Errors
    /// [`ShowError`].
    pub fn record(
        &self,
        (site, listener): (Site, TcpListener),
        recording: &Recording,
        progress: &mut (dyn FnMut(f64) + Send),
    ) -> Result<(), ShowError> {
        let runtime = runtime()?;
        let url = site.url();
        runtime.spawn(self.answer(site, listener));
        let recorded = record::record(&self.shown.scenario, &url, recording, progress);
        // The page's connections have no end of their own.
        runtime.shutdown_background();
        recorded
    }

    fn answer(
        &self,
        site: Site,
        listener: TcpListener,
    ) -> impl Future<Output = io::Result<Infallible>> + use<> {
        let shown = self.shown.clone();
        site.serve(listener, move |path, request| answers::answer(shown.clone(), path, request))
    }
}

fn runtime() -> Result<Runtime, ShowError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    runtime.map_err(system("starting the runtime"))
}

impl Shown {
    /// Changes a radio of both networks.
    fn change(&self, request: &Request) -> Result<(), RequestError> {
        // Held meanwhile, so that of two changes the same one is the last in both networks.
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        for side in &self.sides {
            request.carry_out(&side.network)?;
        }
        asked.extend(request.path.clone().map(|path| (path, request.clone())));
        Ok(())
    }
}
