//! The files of a recording: the scenario, and beside it a table of samples. Each is replaced whole, so that there is always one
//! that can be read, whatever happens to the program or the disk.

use super::recording::{Recording, Second};
use super::surroundings::{Sample, Signal, Surroundings};
use core::fmt::Write as _;
use core::time::Duration;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};

/// The first row of the table of samples.
const HEADING: &str = "time (s),path,rtt (ms),down (Mbit/s),up (Mbit/s),down counted,down lost,up counted,up lost,\
                       signal (dBm),signal quality (%),latitude,longitude,altitude (m),speed (m/s)\n";

/// Why a recording cannot be written.
#[derive(Debug, Error)]
pub enum OutputError {
    /// Before anything was recorded.
    #[error("cannot write {}: {source}; choose another --out", file.display())]
    Begin {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Later; what was written before is still there.
    #[error(
        "cannot write {}: {source}; make room, or record again with another --out. {}",
        file.display(),
        kept(*written, scenario)
    )]
    Later {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        source: io::Error,
        /// How much of the recording had been written.
        written: Duration,
        /// The scenario.
        scenario: PathBuf,
    },
}

fn kept(written: Duration, scenario: &Path) -> String {
    match written {
        Duration::ZERO => "Nothing was recorded".to_owned(),
        written => format!("{} has the first {:.0} s", scenario.display(), written.as_secs_f64()),
    }
}

/// Where a recording goes.
#[derive(Debug)]
pub struct Output {
    scenario: PathBuf,
    name: String,
    description: String,
    written: Duration,
}

impl Output {
    /// A scenario file, and `NAME.samples.csv` beside it; what cannot be written is told now and not after the recording.
    ///
    /// # Errors
    /// [`OutputError`] names the file and the way out.
    pub fn create(scenario: &Path, description: &str) -> Result<Self, OutputError> {
        let name = scenario.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
        let output = Self {
            scenario: scenario.to_owned(),
            name: if name.is_empty() { "recording".to_owned() } else { name },
            description: description.to_owned(),
            written: Duration::ZERO,
        };
        for file in [output.scenario.clone(), output.samples()] {
            if file.is_dir() {
                let source = io::Error::other("it is a directory");
                return Err(OutputError::Begin { file, source });
            }
            let part = part(&file);
            let begin = |source| OutputError::Begin { file: file.clone(), source };
            File::create(&part).map_err(begin)?;
            let _ = std::fs::remove_file(part);
        }
        Ok(output)
    }

    /// The table of samples.
    #[must_use]
    pub fn samples(&self) -> PathBuf {
        self.scenario.with_extension("samples.csv")
    }

    /// Time until the files should be written again: two seconds, in a long recording a fiftieth of it, so that writing stays a
    /// small part of the work.
    #[must_use]
    pub fn pause(&self) -> Duration {
        Duration::from_secs(2).max(self.written / 50)
    }

    /// Replaces the files; does nothing before the first slot is complete. The scenario is written last, so that it
    /// never lacks its table.
    ///
    /// # Errors
    /// [`OutputError`]; the files that were there before are unchanged.
    pub fn write(&mut self, recording: &Recording, surroundings: &Surroundings) -> Result<(), OutputError> {
        let notes = surroundings.notes();
        let Some(network) = recording.network(&self.name, &self.description, &notes) else { return Ok(()) };
        let table = table(recording, &surroundings.samples());
        for (file, text) in [(self.samples(), table), (self.scenario.clone(), network.to_toml())] {
            replace(&file, &text).map_err(|source| OutputError::Later {
                file,
                source,
                written: self.written,
                scenario: self.scenario.clone(),
            })?;
        }
        self.written = recording.duration();
        Ok(())
    }
}

fn part(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// Writes beside the file and takes its place, so that a reader finds the old text or the new one.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let part = part(file);
    let write = || {
        let mut to = File::create(&part)?;
        to.write_all(text.as_bytes())?;
        to.sync_data()?; // else a full disk may be noticed after the old file is gone
        std::fs::rename(&part, file)
    };
    write().inspect_err(|_| _ = std::fs::remove_file(&part))
}

/// A row for each second of each path.
fn table(recording: &Recording, samples: &[Sample]) -> String {
    let mut text = HEADING.to_owned();
    for (path, name) in recording.names().enumerate() {
        for (number, second) in recording.seconds(path).iter().enumerate() {
            let sample = samples.iter().rfind(|sample| sample.at.as_secs() == number as u64);
            let _ = writeln!(text, "{number},{name},{}", row(second, (path, sample)));
        }
    }
    text
}

fn row(second: &Second, (path, sample): (usize, Option<&Sample>)) -> String {
    let cell = |value: Option<f64>, decimals: usize| {
        value.map_or(String::new(), |value| format!("{value:.decimals$}"))
    };
    let signal = sample.and_then(|sample| *sample.signals.get(path)?).unwrap_or(Signal::default());
    let position = sample.and_then(|sample| sample.position);
    let ([down_counted, up_counted], [down_lost, up_lost]) = (second.counted, second.lost);
    [
        cell(second.rtt_ms, 3),
        cell(second.down, 3),
        cell(second.up, 3),
        format!("{down_counted},{down_lost},{up_counted},{up_lost}"),
        cell(signal.dbm, 0),
        cell(signal.quality, 0),
        cell(position.map(|at| at.latitude), 7),
        cell(position.map(|at| at.longitude), 7),
        cell(position.and_then(|at| at.altitude), 1),
        cell(position.and_then(|at| at.speed), 2),
    ]
    .join(",")
}

/// Set by SIGINT and SIGTERM from now on; a second one ends the process.
///
/// # Errors
/// The system's reason.
pub fn interrupted() -> io::Result<Arc<AtomicBool>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    drop(entered);
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                let number = tokio::select! {
                    _ = interrupt.recv() => 2,
                    _ = terminate.recv() => 15,
                };
                if set.swap(true, Ordering::Relaxed) {
                    std::process::exit(128 + number);
                }
            }
        });
    });
    Ok(flag)
}
