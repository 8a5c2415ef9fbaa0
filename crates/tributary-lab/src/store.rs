//! Finished cells on disk: append-only files with one JSON object per line, one file per shard.
//!
//! An interrupted process leaves at most one incomplete line, the last of its file. It is ignored when
//! reading and removed before the next line is written. Damage anywhere else is an error.

pub mod execute;
pub mod key;

pub use execute::{Effort, Tally, execute};

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

/// Prefix of every file of finished cells.
const STEM: &str = "cells";
const EXTENSION: &str = "jsonl";

/// Part `index` of `count` of a plan, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u32,
    count: u32,
}

/// The shard is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a shard: give it as i/n with 1 ≤ i ≤ n ≤ 10000, such as 1/4")]
pub struct BadShard(String);

/// Why a store cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A file cannot be read or written.
    #[error("{path}")]
    Io {
        /// The file or directory.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// A line, other than the last, is not a finished cell.
    #[error("{path}:{line}: not a finished cell ({problem}); remove the line, and its cell runs again")]
    Damaged {
        /// The file.
        path: String,
        /// Line, counted from one.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}

/// A finished cell that can be stored.
pub trait Finished: Serialize + DeserializeOwned {
    /// Key of all settings that decide the run.
    fn key(&self) -> &str;
    /// Why the run has no result.
    fn failure(&self) -> Option<&str>;
    /// Description of the cell.
    fn title(&self) -> String;
}

/// The finished cells of a directory.
#[derive(Debug)]
pub struct Store<R> {
    file: File,
    path: PathBuf,
    rows: BTreeMap<String, R>,
}

impl Default for Shard {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Shard {
    /// The whole plan.
    pub const WHOLE: Self = Self { index: 1, count: 1 };

    /// Whether the cell at this position of the plan belongs to the shard.
    #[must_use]
    pub fn has(self, place: usize) -> bool {
        place as u64 % u64::from(self.count) == u64::from(self.index) - 1
    }

    fn file(self) -> String {
        match self {
            Self::WHOLE => format!("{STEM}.{EXTENSION}"),
            Self { index, count } => format!("{STEM}-{index}-of-{count}.{EXTENSION}"),
        }
    }
}

impl FromStr for Shard {
    type Err = BadShard;

    fn from_str(text: &str) -> Result<Self, BadShard> {
        let bad = || BadShard(text.to_owned());
        let (index, count) = text.split_once('/').ok_or_else(bad)?;
        let (index, count) = (index.parse().map_err(|_| bad())?, count.parse().map_err(|_| bad())?);
        if (1..=10_000).contains(&count) && (1..=count).contains(&index) {
            Ok(Self { index, count })
        } else {
            Err(bad())
        }
    }
}

impl<R: Finished> Store<R> {
    /// Deletes the finished cells of a directory.
    ///
    /// # Errors
    /// [`StoreError::Io`] names the file.
    pub fn forget(directory: &Path) -> Result<(), StoreError> {
        let path = directory.join(Shard::WHOLE.file());
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&path)(error)),
            _ => Ok(()),
        }
    }

    /// Opens a directory for one shard; reads all files of finished cells in it.
    ///
    /// # Errors
    /// [`StoreError`] names the file, and the line when it is damaged.
    pub fn open(directory: &Path, shard: Shard) -> Result<Self, StoreError> {
        std::fs::create_dir_all(directory).map_err(failed(directory))?;
        let path = directory.join(shard.file());
        let file = OpenOptions::new().create(true).append(true).read(true).open(&path);
        let file = file.map_err(failed(&path))?;
        let mut store = Self { file, path, rows: BTreeMap::new() };
        store.add(directory)?;
        store.cut_half_line()?;
        Ok(store)
    }

    /// Also reads the finished cells of another directory.
    ///
    /// # Errors
    /// [`StoreError`] names the file, and the line when it is damaged.
    pub fn add(&mut self, directory: &Path) -> Result<(), StoreError> {
        let entries = std::fs::read_dir(directory).map_err(failed(directory))?;
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with(STEM) && path.extension().is_some_and(|e| e == EXTENSION)
        });
        files.sort();
        files.iter().try_for_each(|path| self.read(path))
    }

    fn read(&mut self, path: &Path) -> Result<(), StoreError> {
        let bytes = std::fs::read(path).map_err(failed(path))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for (number, line) in bytes[..whole].split(|byte| *byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let row: R = serde_json::from_slice(line).map_err(|error| StoreError::Damaged {
                path: path.display().to_string(),
                line: number + 1,
                problem: error.to_string(),
            })?;
            self.keep(row);
        }
        Ok(())
    }

    fn cut_half_line(&mut self) -> Result<(), StoreError> {
        let bytes = std::fs::read(&self.path).map_err(failed(&self.path))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < bytes.len() {
            self.file.set_len(whole as u64).map_err(failed(&self.path))?;
        }
        Ok(())
    }

    /// All finished cells.
    pub fn rows(&self) -> impl Iterator<Item = &R> {
        self.rows.values()
    }

    /// The finished cell with this key.
    #[must_use]
    pub fn row(&self, key: &str) -> Option<&R> {
        self.rows.get(key)
    }

    /// Whether there is a successful result with this key.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.row(key).is_some_and(|row| row.failure().is_none())
    }

    /// Stores a finished cell.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be written.
    pub fn push(&mut self, row: R) -> Result<(), StoreError> {
        let mut line = serde_json::to_vec(&row).map_err(|error| StoreError::Io {
            path: self.path.display().to_string(),
            source: error.into(),
        })?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(failed(&self.path))?; // one write: lines of two writers stay whole
        self.keep(row);
        Ok(())
    }

    /// Keeps a row, except that a failure never replaces a result.
    fn keep(&mut self, row: R) {
        if row.failure().is_none() || !self.has(row.key()) {
            self.rows.insert(row.key().to_owned(), row);
        }
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> StoreError {
    let path = path.display().to_string();
    move |source| StoreError::Io { path: path.clone(), source }
}

#[cfg(test)]
mod tests;
