//! The output of a sweep: tables of runs and of groups, and one JSON object.

use super::execute::Report;
use super::groups::{self, Group, METRICS};
use super::plan::{Plan, Planned};
use super::row::{self, Row};
use super::store::Store;
use parquet::errors::ParquetError;
use serde_json::{Value, json};
use tributary_report::{Cell, Column, Table};

/// The finished runs of a plan, from all shards in the store.
#[derive(Clone, Debug)]
pub struct Tables {
    /// Name of the plan.
    pub plan: String,
    /// Number of runs of the whole plan.
    pub planned: usize,
    /// The counts of this shard.
    pub report: Report,
    /// Finished runs, in the plan's order.
    pub rows: Vec<Row>,
}

impl Tables {
    /// Collects the finished runs of `cells`.
    #[must_use]
    pub fn new(plan: &Plan, cells: &[Planned], store: &Store<Row>, report: Report) -> Self {
        let rows = cells.iter().filter_map(|cell| store.row(&cell.key).cloned()).collect();
        Self { plan: plan.name.clone(), planned: cells.len(), report, rows }
    }

    /// Names and contents of the output files.
    ///
    /// # Errors
    /// When a Parquet file cannot be made.
    pub fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>, ParquetError> {
        let runs = row::frame(&self.rows);
        let groups = groups::frame(&Group::of(&self.rows));
        let parquet = |frame: &super::Frame| -> Result<Vec<u8>, ParquetError> {
            let mut bytes = Vec::new();
            frame.to_parquet(&mut bytes)?;
            Ok(bytes)
        };
        Ok(vec![
            ("runs.csv", runs.to_csv().into_bytes()),
            ("runs.parquet", parquet(&runs)?),
            ("sweep.csv", groups.to_csv().into_bytes()),
            ("sweep.parquet", parquet(&groups)?),
        ])
    }

    /// Everything except the runs themselves as one JSON object.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        let groups: Vec<Value> = Group::of(&self.rows).iter().map(group_json).collect();
        let failures: Vec<Value> = self.failures().map(|row| json!(row)).collect();
        serde_json::to_string(&json!({
            "plan": self.plan,
            "planned": self.planned,
            "finished": self.rows.len(),
            "shard": {
                "cells": self.report.cells, "before": self.report.before, "now": self.report.now,
                "failed": self.report.failed, "left_out": self.report.left_out,
            },
            "groups": groups,
            "failures": failures,
        }))
    }

    fn failures(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.failure.is_some())
    }
}

fn group_json(group: &Group<'_>) -> Value {
    let head = group.head();
    let mut metrics = serde_json::Map::new();
    for metric in METRICS {
        if let Some(spread) = group.spread(metric.of) {
            let interval = spread.interval;
            let value = json!({ "mean": spread.mean, "interval": interval, "seeds": spread.count,
                "minimum": spread.minimum, "maximum": spread.maximum });
            metrics.insert(metric.name.to_owned(), value);
        }
    }
    json!({
        "scenario": head.scenario, "transport": head.transport, "scheduler": head.scheduler,
        "congestion": head.congestion, "rtt": head.rtt, "queue": head.queue, "workload": head.workload,
        "seconds": head.seconds, "seeds": group.rows.len(), "metrics": metrics,
    })
}

/// The groups as a table for the terminal, and the missing runs.
#[must_use]
pub fn text(tables: &Tables) -> String {
    let mut table = Table::new(&format!("{}: means over the seeds, 95 % intervals", tables.plan)).columns([
        Column::left("scenario"),
        Column::left("transport"),
        Column::left("control"),
        Column::left("RTT"),
        Column::left("queue"),
        Column::right("seeds"),
        Column::right("goodput").unit("Mbit/s"),
        Column::right("interval"),
        Column::right("p10").unit("Mbit/s"),
        Column::right("worst second").unit("Mbit/s"),
        Column::right("silence").unit("ms"),
    ]);
    for group in Group::of(&tables.rows) {
        let head = group.head();
        let mean = |metric: usize, decimals| {
            Cell::optional_number(group.spread(METRICS[metric].of).map(|spread| spread.mean), decimals)
        };
        let interval = group.spread(METRICS[0].of).and_then(|spread| spread.interval);
        table.push([
            Cell::text(&head.scenario),
            Cell::text(&head.transport),
            Cell::text(&head.congestion),
            Cell::text(&head.rtt),
            Cell::text(&head.queue),
            Cell::text(&group.rows.len().to_string()),
            mean(0, 1).strong(),
            Cell::optional(interval.map(|i| format!("{:.1} – {:.1}", i.low, i.high))),
            mean(1, 1),
            mean(2, 1),
            mean(4, 0),
        ]);
    }
    let report = tables.report;
    let mut out = table.to_text();
    out.push_str(&format!(
        "\n{} of {} runs finished: {} before, {} now, {} of them without a result\n",
        tables.rows.len(),
        tables.planned,
        report.before,
        report.now,
        report.failed
    ));
    for row in tables.failures().take(10) {
        let failure = row.failure.as_deref().unwrap_or_default();
        out.push_str(&format!(
            "{} {} {} seed {}: {failure}\n",
            row.scenario, row.transport, row.congestion, row.seed
        ));
    }
    out.truncate(out.trim_end().len());
    out
}
