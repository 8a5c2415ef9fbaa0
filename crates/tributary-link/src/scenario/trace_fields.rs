//! Reads the `trace` of a rate: a file or text in Mahimahi's format, in CSV, or a table of measurements.

use super::ScenarioError;
use super::quantity::{bitrate, duration};
use super::table::{Table, Value};
use crate::trace::heading::{rate_unit, time_unit};
use crate::{Column, TableLayout, TimeUnit, Trace, TraceTable, TraceTime, TraceValue};
use tributary_types::Bitrate;

/// The `trace` field is a file name, `{ mahimahi = "…" }`, `{ csv = "…" }`, or `{ file = "…", time = "…", rate = "…",
/// … }`. This function returns the text of a trace file named in a scenario.
pub(super) type TraceFiles<'a> = &'a dyn Fn(&str) -> Result<String, String>;

pub(super) fn trace(value: &Value<'_>, files: TraceFiles<'_>) -> Result<Trace, ScenarioError> {
    let parsed = if value.is_text() {
        let (name, text) = file(value, files)?;
        let parsed = if name.to_lowercase().ends_with(".csv") {
            Trace::parse_csv(&text)
        } else {
            Trace::parse_mahimahi(&text)
        };
        return parsed.map_err(|error| value.refuse(format!("{name}: {error}")));
    } else {
        let table = value.table()?;
        if table.optional("file").is_some() || table.optional("text").is_some() {
            return measurements(value, &table, files);
        }
        let (kind, text) = table.choice(&["mahimahi", "csv", "file", "text"])?;
        match kind {
            "csv" => Trace::parse_csv(text.text()?),
            _ => Trace::parse_mahimahi(text.text()?),
        }
    };
    parsed.map_err(|error| value.refuse(error.to_string()))
}

fn file<'a>(value: &Value<'a>, files: TraceFiles<'_>) -> Result<(&'a str, String), ScenarioError> {
    let name = value.text()?;
    let text = files(name).map_err(|problem| value.refuse(format!("{name}: {problem}")))?;
    Ok((name, text))
}

fn measurements(value: &Value<'_>, table: &Table<'_>, files: TraceFiles<'_>) -> Result<Trace, ScenarioError> {
    table.only(&[
        "file",
        "text",
        "layout",
        "time",
        "lasting",
        "every",
        "time_unit",
        "rate",
        "unit",
        "bytes",
        "bin",
        "only",
        "sort",
        "hold",
    ])?;
    let (name, text) = match (table.optional("file"), table.optional("text")) {
        (Some(name), None) => file(&name, files)?,
        (None, Some(text)) => ("", text.text()?.to_owned()),
        _ => return Err(table.refuse("give exactly one of file, text")),
    };
    let described = TraceTable {
        layout: layout(table, name)?,
        time: time(table)?,
        value: rate(table)?,
        only: only(table)?,
        sort: table.optional("sort").map_or(Ok(false), |value| value.truth())?,
        hold: table.optional("hold").map(|value| value.quantity(duration)).transpose()?,
    };
    Trace::parse_table(&text, &described).map_err(|error| {
        value.refuse(if name.is_empty() { error.to_string() } else { format!("{name}: {error}") })
    })
}

/// The given layout, or the one that the file's name implies.
fn layout(table: &Table<'_>, name: &str) -> Result<TableLayout, ScenarioError> {
    const LAYOUTS: [(&str, TableLayout); 5] = [
        ("comma", TableLayout::Comma),
        ("semicolon", TableLayout::Semicolon),
        ("tab", TableLayout::Tab),
        ("blank", TableLayout::Blank),
        ("json", TableLayout::Json),
    ];
    match table.optional("layout") {
        Some(value) => value.one_of(&LAYOUTS),
        None if name.ends_with(".json") => Ok(TableLayout::Json),
        None if name.ends_with(".txt") || name.ends_with(".tsv") => Ok(TableLayout::Blank),
        None => Ok(TableLayout::Separated),
    }
}

fn time(table: &Table<'_>) -> Result<TraceTime, ScenarioError> {
    const UNITS: [(&str, TimeUnit); 6] = [
        ("min", TimeUnit::Minutes),
        ("s", TimeUnit::Seconds),
        ("ms", TimeUnit::Millis),
        ("us", TimeUnit::Micros),
        ("ns", TimeUnit::Nanos),
        ("date", TimeUnit::Date),
    ];
    let given = |key| table.optional(key);
    let unit = |value: &Value<'_>, column: &Column| match (given("time_unit"), column) {
        (Some(unit), _) => unit.one_of(&UNITS),
        (None, Column::Named(heading)) => {
            let unit = time_unit(heading)
                .map_err(|problem| value.refuse(format!("{problem}; or give `time_unit`, such as \"ms\"")))?;
            Ok(unit.unwrap_or(TimeUnit::Seconds))
        }
        (None, Column::Numbered(_)) => Ok(TimeUnit::Seconds),
    };
    match (given("time"), given("lasting"), given("every")) {
        (Some(value), None, None) => {
            let at = column(&value)?;
            let unit = unit(&value, &at)?;
            Ok(TraceTime::At(at, unit))
        }
        (None, Some(value), None) => {
            let length = column(&value)?;
            let unit = unit(&value, &length)?;
            Ok(TraceTime::Lasting(length, unit))
        }
        (None, None, Some(value)) => Ok(TraceTime::Every(value.quantity(duration)?)),
        _ => Err(table.refuse("give exactly one of time, lasting (columns) and every (a time)")),
    }
}

fn rate(table: &Table<'_>) -> Result<TraceValue, ScenarioError> {
    let given = |key| table.optional(key);
    match (given("rate"), given("unit"), given("bytes"), given("bin")) {
        (Some(rate), unit, None, None) => {
            let rate_column = column(&rate)?;
            let unit = match (&rate_column, unit) {
                (_, Some(unit)) => unit.quantity(bitrate)?,
                (Column::Named(heading), None) => {
                    let bits = rate_unit(heading).map_err(|problem| {
                        rate.refuse(format!("{problem}; or give `unit`, such as \"1 kbit/s\""))
                    })?;
                    bits.map_or(Bitrate::from_mbps(1), |bits| Bitrate::from_bps(bits as u64))
                }
                (Column::Numbered(_), None) => Bitrate::from_mbps(1),
            };
            Ok(TraceValue::Rate(rate_column, unit))
        }
        (None, None, Some(bytes), Some(bin)) => {
            Ok(TraceValue::Bytes(column(&bytes)?, bin.quantity(duration)?))
        }
        _ => Err(table.refuse("give rate and perhaps unit, or bytes and bin")),
    }
}

/// `{ carrier = "SPRINT", run_num = "1" }`
fn only(table: &Table<'_>) -> Result<Vec<(Column, String)>, ScenarioError> {
    let Some(value) = table.optional("only") else { return Ok(Vec::new()) };
    let pairs = value.table()?;
    pairs
        .entries()
        .map(|(name, value)| Ok((Column::Named(name.to_owned()), value.text()?.to_owned())))
        .collect()
}

/// A heading, or a number counted from one.
fn column(value: &Value<'_>) -> Result<Column, ScenarioError> {
    if value.is_text() {
        return Ok(Column::Named(value.text()?.to_owned()));
    }
    match value.whole()? {
        n @ 1..=10_000 => Ok(Column::Numbered(n as usize)),
        n => Err(value.refuse(format!("{n} is not a column from 1 to 10000"))),
    }
}
