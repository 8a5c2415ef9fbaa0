//! The kernel's results in a file, one line per run, so that a change of the model can be compared within
//! seconds.

use super::super::super::BenchError;
use super::grid::Probe;
use super::measure::Sample;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

/// One line.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    sample: Sample,
}

/// Known results, and the file for new ones.
#[derive(Debug, Default)]
pub(super) struct Store {
    file: Option<PathBuf>,
    known: BTreeMap<String, Sample>,
}

impl Store {
    /// Reads the file if it exists. Without a file nothing is stored.
    pub fn open(file: Option<PathBuf>) -> Result<Self, BenchError> {
        let mut known = BTreeMap::new();
        if let Some(path) = &file {
            match fs::read_to_string(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(path, &error)),
                Ok(text) => {
                    for (number, line) in text.lines().enumerate() {
                        let line: Line = serde_json::from_str(line)
                            .map_err(|error| failed(path, &format!("line {}: {error}", number + 1)))?;
                        known.insert(line.key, line.sample);
                    }
                }
            }
        }
        Ok(Self { file, known })
    }

    /// The stored result, or that of `measure`, which is then stored. `run` is the seed and the number of the
    /// repetition.
    pub fn take_or(
        &mut self,
        probe: &Probe,
        run: (u64, u32),
        measure: impl FnOnce() -> Result<Sample, BenchError>,
    ) -> Result<Sample, BenchError> {
        let key = format!("{}, {} s, seed {}, run {}", probe.label(), probe.seconds, run.0, run.1);
        if let Some(sample) = self.known.get(&key) {
            return Ok(sample.clone());
        }
        let sample = measure()?;
        self.known.insert(key.clone(), sample.clone());
        if let Some(path) = &self.file {
            let mut line = serde_json::to_string(&Line { key, sample: sample.clone() })
                .map_err(|error| failed(path, &error))?;
            line.push('\n');
            let mut options = OpenOptions::new();
            let file = options.create(true).append(true).open(path);
            file.and_then(|mut file| file.write_all(line.as_bytes()))
                .map_err(|error| failed(path, &error))?;
        }
        Ok(sample)
    }
}

fn failed(path: &std::path::Path, reason: &dyn std::fmt::Display) -> BenchError {
    BenchError::Program {
        program: path.display().to_string(),
        reason: format!("{reason}; name another file, or remove this one"),
    }
}
