//! Tables as text: separated columns with or without a heading, or a JSON list of flat objects.
//!
//! Finds cells; does not interpret times and rates.

use super::{TraceError, data_lines, refuse};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use tributary_types::file_text::{self, Separator, same_name, shown};

/// The form of a table. Empty lines and lines that begin with `#` are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableLayout {
    /// Separated by commas, semicolons or tabs, whichever the first line has; cells may be in double quotes. If it has
    /// several, the one with which all named columns are found.
    Separated,
    /// Separated by commas.
    Comma,
    /// Separated by semicolons.
    Semicolon,
    /// Separated by tabs.
    Tab,
    /// Separated by blanks or tabs; by tabs alone if only so all named columns are found.
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

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "column `{}`", shown(name)),
            Self::Numbered(number) => write!(f, "column {number}"),
        }
    }
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
    let possible: &[Separator] = match layout {
        TableLayout::Separated => &[Separator::Tab, Separator::Semicolon, Separator::Comma],
        TableLayout::Comma => &[Separator::Comma],
        TableLayout::Semicolon => &[Separator::Semicolon],
        TableLayout::Tab => &[Separator::Tab],
        TableLayout::Blank => &[Separator::Tab, Separator::Blank],
        TableLayout::Json => return json(text, columns),
    };
    separated(text, columns, possible)
}

fn separated<'a>(
    text: &'a str,
    columns: &[&Column],
    possible: &[Separator],
) -> Result<Vec<Row<'a>>, TraceError> {
    let mut lines = data_lines(text).peekable();
    let named = columns.iter().any(|column| matches!(column, Column::Named(_)));
    let Some(&(first_line, first)) = lines.peek() else {
        return refuse(1, if named { "the table has no heading" } else { "the table has no row" });
    };
    let separator = separator(first, columns, possible).or_else(|problem| refuse(first_line, problem))?;
    let heading = if named { separator.split(first) } else { Vec::new() };
    if named {
        lines.next();
    }
    let find = |column: &&Column| place(column, &heading).or_else(|problem| refuse(first_line, problem));
    let indices = columns.iter().map(find).collect::<Result<Vec<usize>, _>>()?;
    let mut rows = Vec::new();
    for (line, content) in lines {
        let all = separator.split(content);
        let mut cells = Vec::with_capacity(indices.len());
        for (&i, column) in indices.iter().zip(columns) {
            match all.get(i) {
                Some(cell) => cells.push(cell.clone()),
                None => return refuse(line, format!("there is no {column} in `{}`", shown(content))),
            }
        }
        rows.push(Row { line, cells });
    }
    Ok(rows)
}

/// The separator of a table that begins with the line `first`.
fn separator(first: &str, columns: &[&Column], possible: &[Separator]) -> Result<Separator, String> {
    let fits = |separator: Separator| {
        let cells = separator.split(first);
        columns.iter().all(|column| match column {
            Column::Named(name) => cells.iter().any(|cell| same_name(name, cell)),
            Column::Numbered(number) => *number <= cells.len(),
        })
    };
    if let [Separator::Tab, Separator::Blank] = possible {
        let named = columns.iter().any(|column| matches!(column, Column::Named(_)));
        let tab = named && first.contains('\t') && fits(Separator::Tab);
        return Ok(if tab { Separator::Tab } else { Separator::Blank });
    }
    file_text::separator(first, possible, fits).map_err(|ambiguous| {
        let layout = ambiguous.first();
        format!(
            "{ambiguous}; say which, as in `layout = \"{layout}\"`, and write numbers with a decimal point"
        )
    })
}

/// The index of a column in the heading.
fn place(column: &Column, heading: &[Cow<'_, str>]) -> Result<usize, String> {
    let name = match column {
        Column::Numbered(0) => return Err("columns are counted from one".to_owned()),
        Column::Numbered(number) => return Ok(number - 1),
        Column::Named(name) => name,
    };
    let all = || heading.iter().map(|cell| format!("`{}`", shown(cell))).collect::<Vec<_>>().join(", ");
    let exact = heading.iter().filter(|cell| *cell == name).count();
    // A heading that is exactly the name goes before those that only look like it.
    let is_it = |cell: &Cow<'_, str>| if exact > 0 { cell == name } else { same_name(name, cell) };
    let mut found = (0..heading.len()).filter(|at| is_it(&heading[*at]));
    match (found.next(), found.next()) {
        (Some(at), None) => Ok(at),
        (None, _) => Err(format!("no column is called `{}`; there are {}", shown(name), all())),
        (Some(one), Some(other)) => Err(format!(
            "columns {} and {} are both called `{}`; rename one of them",
            one + 1,
            other + 1,
            shown(name)
        )),
    }
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
