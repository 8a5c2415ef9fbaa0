//! Captures and logs of a simulated run, written beside it.

use super::{SimResult, Simulation};
use crate::demo::Progress;
use core::ops::ControlFlow;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use thiserror::Error;
use tributary_sim::own::Own;
use tributary_sim::pcap::Capture;
use tributary_sim::qlog;
use tributary_sim::run::{RouteMap, RunError};

/// What to write.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Packet capture, as the server sees it.
    pub pcap: Option<PathBuf>,
    /// Directory for a qlog file.
    pub qlog: Option<PathBuf>,
}

/// Why a run with files gave no result.
#[derive(Debug, Error)]
pub enum FilesError {
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A file cannot be written.
    #[error("{path}")]
    Io {
        /// The file or directory.
        path: String,
        /// The reason.
        source: io::Error,
    },
}

impl Files {
    /// Makes the run and writes the files. Returns the files written. `progress` is called after every per cent.
    ///
    /// # Errors
    /// [`FilesError`]. Files are created before the run, so a missing directory is reported at once.
    pub fn run(
        &self,
        simulation: &Simulation,
        progress: Progress<'_>,
    ) -> Result<(SimResult, Vec<PathBuf>), FilesError> {
        let mut written = Vec::new();
        let mut simulation = simulation.clone();
        let pcap = self.pcap.as_deref().map(|path| create(path).map(|file| (path, file))).transpose()?;
        let qlog = self.qlog.as_deref().map(|directory| log_file(directory, &simulation)).transpose()?;
        simulation.cell.options.trace |= qlog.is_some();
        let mut begun = None;
        let (path, file) = pcap.unzip();
        let (mut last, text) = (0, title(&simulation));
        let mut watch = |share: f64| {
            let hundredth = (share * 100.0) as u32;
            if hundredth > last {
                last = hundredth;
                progress(share, &text);
            }
            ControlFlow::Continue(())
        };
        let begin = |routes: &RouteMap| {
            let capture = file.map(|file| Capture::begin(file, routes));
            let sinks = capture.iter().flatten().map(Capture::sink).collect();
            begun = capture;
            sinks
        };
        let outcome = simulation.cell.run_watched(&Own::default(), begin, &mut watch)?;
        if let (Some(path), Some(capture)) = (path, begun) {
            capture.and_then(|capture| capture.end()).map_err(failed(path))?;
            written.push(path.to_owned());
        }
        if let Some((path, mut file)) = qlog {
            let paths: Vec<String> =
                simulation.cell.scenario.paths.iter().map(|path| path.name.clone()).collect();
            let title = title(&simulation);
            let head = qlog::Head { title: &title, paths: &paths, congestion: &simulation.cell.congestion };
            qlog::write(&mut file, head, &outcome).map_err(failed(&path))?;
            written.push(path);
        }
        Ok((SimResult::new(&simulation, &outcome), written))
    }
}

fn title(simulation: &Simulation) -> String {
    let (scenario, transport) = (&simulation.cell.scenario, simulation.cell.transport.name());
    format!("{} {transport} {} seed {}", scenario.name, simulation.cell.congestion, scenario.seed)
}

/// `SCENARIO-TRANSPORT-CONGESTION-SEED.sqlog`, without characters that a file name cannot have.
fn log_file(directory: &Path, simulation: &Simulation) -> Result<(PathBuf, BufWriter<File>), FilesError> {
    std::fs::create_dir_all(directory).map_err(failed(directory))?;
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let name: String = title(simulation).replace(" seed ", "-").chars().map(plain).collect();
    let path = directory.join(format!("{name}.sqlog"));
    create(&path).map(|file| (path, file))
}

fn create(path: &Path) -> Result<BufWriter<File>, FilesError> {
    File::create(path).map(BufWriter::new).map_err(failed(path))
}

fn failed(path: &Path) -> impl Fn(io::Error) -> FilesError {
    let path = path.display().to_string();
    move |source| FilesError::Io { path: path.clone(), source }
}
