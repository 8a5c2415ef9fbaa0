//! The output of a sweep: tables of runs and of groups, and one JSON object.

use super::frame::Frame;
use super::groups::{self, Group};
use crate::reproduce::Outcome;
use parquet::errors::ParquetError;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use thiserror::Error;
use tributary_report::{Column, Table, TableCell};

/// Why the tables cannot be written.
#[derive(Debug, Error)]
pub enum TablesError {
    /// A table cannot be made.
    #[error("a table of the sweep cannot be made: {0}")]
    Parquet(#[from] ParquetError),
    /// A file cannot be written.
    #[error("cannot write {path}")]
    Io {
        /// The file.
        path: String,
        /// The reason.
        source: io::Error,
    },
}

/// Metrics of the table for the terminal, at most.
const SHOWN: usize = 6;

/// One row per run, without the series.
#[must_use]
pub fn runs(outcome: &Outcome) -> Frame {
    groups::runs(&outcome.samples, &outcome.metrics)
}

/// One row per group of seeds and metric, with confidence intervals.
#[must_use]
pub fn spreads(outcome: &Outcome) -> Frame {
    groups::spreads(&outcome.samples, &outcome.metrics)
}

/// Names and contents of the output files.
///
/// # Errors
/// When a Parquet file cannot be made.
fn files(outcome: &Outcome) -> Result<Vec<(&'static str, Vec<u8>)>, ParquetError> {
    let (runs, spreads) = (runs(outcome), spreads(outcome));
    let parquet = |frame: &Frame| -> Result<Vec<u8>, ParquetError> {
        let mut bytes = Vec::new();
        frame.to_parquet(&mut bytes)?;
        Ok(bytes)
    };
    Ok(vec![
        ("runs.csv", runs.to_csv().into_bytes()),
        ("runs.parquet", parquet(&runs)?),
        ("sweep.csv", spreads.to_csv().into_bytes()),
        ("sweep.parquet", parquet(&spreads)?),
    ])
}

/// Writes the tables into a directory: runs and groups of seeds, as CSV and Parquet.
///
/// # Errors
/// [`TablesError`] names the file.
pub fn write(outcome: &Outcome, directory: &Path) -> Result<(), TablesError> {
    for (name, bytes) in files(outcome)? {
        let path = directory.join(name);
        let failed = |source| TablesError::Io { path: path.display().to_string(), source };
        std::fs::write(&path, bytes).map_err(failed)?;
    }
    Ok(())
}

/// Everything except the runs themselves as one JSON object.
#[must_use]
pub fn json(outcome: &Outcome) -> Value {
    let names = groups::scalars(&outcome.samples, &outcome.metrics);
    let group = |group: &Group<'_>| {
        let spread = |name: &&str| {
            let spread = group.spread(name)?;
            let value = json!({ "mean": spread.mean, "interval": spread.interval, "seeds": spread.count,
                "minimum": spread.minimum, "maximum": spread.maximum });
            Some(((*name).to_owned(), value))
        };
        let metrics: serde_json::Map<String, Value> = names.iter().filter_map(spread).collect();
        json!({ "labels": group.labels(), "seeds": group.runs.len(), "metrics": metrics })
    };
    let groups: Vec<Value> = Group::of(&outcome.samples).iter().map(group).collect();
    let failures: Vec<Value> = outcome
        .samples
        .iter()
        .filter(|sample| sample.failure.is_some())
        .map(|sample| json!(sample))
        .collect();
    let tally = outcome.tally;
    json!({
        "plan": outcome.reproduction.name,
        "planned": outcome.cells,
        "finished": outcome.samples.len(),
        "shard": {
            "cells": tally.cells, "before": tally.before, "now": tally.now,
            "failed": tally.failed, "left_out": tally.left_out,
        },
        "groups": groups,
        "failures": failures,
    })
}

/// The groups as a table for the terminal, and the missing runs.
#[must_use]
pub fn text(outcome: &Outcome) -> String {
    let (samples, name) = (&outcome.samples, &outcome.reproduction.name);
    let groups = Group::of(samples);
    let value = |group: &Group<'_>, axis: &str| group.labels().get(axis).cloned().unwrap_or_default();
    let differs = |axis: &&str| groups.iter().any(|group| value(group, axis) != value(&groups[0], axis));
    let axes = groups::axes(samples).into_iter();
    let axes: Vec<&str> =
        axes.filter(|axis| ["scenario", "transport"].contains(axis) || differs(axis)).collect();
    let mut names = groups::scalars(samples, &outcome.metrics);
    names.truncate(SHOWN);
    let unit = |name: &str| outcome.metrics.iter().find(|m| m.name == name).map_or("", |metric| metric.unit);
    let columns = axes.iter().map(|axis| Column::left(axis)).chain([Column::right("seeds")]);
    let columns = columns.chain(names.iter().map(|name| Column::right(name).unit(unit(name))));
    let mut table = Table::new(&format!("{name}: means over the seeds, 95 % intervals")).columns(columns);
    for group in &groups {
        let number = |name: &&str| {
            TableCell::optional(group.spread(name).map(|spread| match spread.interval {
                Some(interval) => format!("{:.1} [{:.1}, {:.1}]", spread.mean, interval.low, interval.high),
                None => format!("{:.1}", spread.mean),
            }))
        };
        let labels = axes.iter().map(|axis| TableCell::text(&value(group, axis)));
        let seeds = TableCell::text(&group.runs.len().to_string());
        table.push(labels.chain([seeds]).chain(names.iter().map(number)));
    }
    let tally = outcome.tally;
    let mut out = table.to_text();
    out.push_str(&format!(
        "\n{} of {} runs finished: {} before, {} now, {} of them without a result",
        samples.len(),
        outcome.cells,
        tally.before,
        tally.now,
        tally.failed
    ));
    if tally.outdated > 0 {
        out.push_str(&format!(
            "\n{} runs had been finished by another version of the models, or with other contents of a file; they were made again",
            tally.outdated
        ));
    }
    for (sample, failure) in samples.iter().filter_map(|s| Some((s, s.failure.as_ref()?))).take(10) {
        out.push_str(&format!("\n{}: {failure}", sample.title()));
    }
    out
}
