//! Tables as text: separated columns with or without a heading, or a JSON list of flat objects.
//!
//! Finds cells; does not interpret times and rates.

use super::{TraceError, data_lines, refuse};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The form of a table. Empty lines and lines that begin with `#` are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableLayout {
    /// Separated by commas; cells may be in double quotes.
    Comma,
    /// Separated by blanks or tabs.
    Blank,
    /// A JSON list of objects; their keys are the columns.
    Json,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// By its heading in the first line.
    Named(String),
    /// By its number, counted from one. If all columns are numbered, the table has no heading.
    Numbered(usize),
}

/// One row: the cells of the requested columns, in that order.
pub(super) struct Row<'a> {
    pub(super) line: usize,
    pub(super) cells: Vec<Cow<'a, str>>,
}

/// The cells of `columns` in every row.
pub(super) fn rows<'a>(
    text: &'a str,
    layout: TableLayout,
    columns: &[&Column],
) -> Result<Vec<Row<'a>>, TraceError> {
    match layout {
        TableLayout::Comma => separated(text, columns, commas),
        TableLayout::Blank => {
            separated(text, columns, |line| line.split_whitespace().map(Cow::from).collect())
        }
        TableLayout::Json => json(text, columns),
    }
}

fn separated<'a>(
    text: &'a str,
    columns: &[&Column],
    split: fn(&'a str) -> Vec<Cow<'a, str>>,
) -> Result<Vec<Row<'a>>, TraceError> {
    let mut lines = data_lines(text);
    let named = columns.iter().any(|column| matches!(column, Column::Named(_)));
    let (mut heading, mut heading_line) = (Vec::new(), 1);
    if named {
        let Some((line, first)) = lines.next() else { return refuse(1, "the table has no heading") };
        (heading, heading_line) = (split(first), line);
    }
    let index = |column: &&Column| match column {
        Column::Numbered(0) => refuse(heading_line, "columns are counted from one"),
        Column::Numbered(number) => Ok(number - 1),
        Column::Named(name) => heading.iter().position(|cell| cell == name).map_or_else(
            || {
                refuse(
                    heading_line,
                    format!("no column is called `{name}`; there are {}", heading.join(", ")),
                )
            },
            Ok,
        ),
    };
    let indices = columns.iter().map(index).collect::<Result<Vec<usize>, _>>()?;
    let mut rows = Vec::new();
    for (line, content) in lines {
        let mut all = split(content);
        let mut cells = Vec::with_capacity(indices.len());
        for &i in &indices {
            match all.get_mut(i) {
                Some(cell) => cells.push(cell.clone()),
                None => return refuse(line, format!("there is no column {} in `{content}`", i + 1)),
            }
        }
        rows.push(Row { line, cells });
    }
    Ok(rows)
}

/// Splits at commas outside double quotes and removes the quotes; two double quotes stand for one.
fn commas(line: &str) -> Vec<Cow<'_, str>> {
    if !line.contains('"') {
        return line.split(',').map(|cell| Cow::from(cell.trim())).collect();
    }
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        let cell = cells.last_mut().expect("there is always a last cell");
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cell.push(c),
        }
    }
    cells.into_iter().map(|cell| Cow::from(cell.trim().to_owned())).collect()
}

fn json<'a>(text: &'a str, columns: &[&Column]) -> Result<Vec<Row<'a>>, TraceError> {
    let list: Vec<&RawValue> =
        serde_json::from_str(text).or_else(|error| refuse(error.line().max(1), error.to_string()))?;
    let mut rows = Vec::with_capacity(list.len());
    let (mut counted, mut line) = (0, 1);
    for entry in list {
        // The entry borrows from the text, so its address gives its position in the text.
        let at = (entry.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len());
        line += text.as_bytes()[counted..at].iter().filter(|byte| **byte == b'\n').count();
        counted = at;
        let object: BTreeMap<Cow<'_, str>, serde_json::Value> = serde_json::from_str(entry.get())
            .or_else(|error| refuse(line, format!("expected an object: {error}")))?;
        let cell = |column: &&Column| {
            let Column::Named(name) = column else {
                return refuse(line, "the columns of a JSON list have names, not numbers");
            };
            match object.get(name.as_str()) {
                None | Some(serde_json::Value::Null) => Ok(Cow::from("")),
                Some(serde_json::Value::String(text)) => Ok(Cow::from(text.clone())),
                Some(value) => Ok(Cow::from(value.to_string())),
            }
        };
        rows.push(Row { line, cells: columns.iter().map(cell).collect::<Result<_, _>>()? });
    }
    Ok(rows)
}
