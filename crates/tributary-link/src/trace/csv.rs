//! The short form of a table: two columns, time and rate, with or without a heading that names their units.
//!
//! Read as every other table ([`super::table`]), so that the same numbers are the same trace in both forms.

use super::rows::{Column, Row};
use super::table::{TimeUnit, TraceTable, TraceTime, TraceValue};
use super::{Trace, TraceError, data_lines, heading, refuse};
use tributary_types::Bitrate;
use tributary_types::file_text::{self, Separator, shown, without_mark};

/// Shown in errors about the number of columns.
const CHOOSE: &str = "{ file = \"…\", time = 1, rate = 2 }";

impl Trace {
    /// Reads `seconds,mbit/s` lines; semicolons and tabs also separate. A heading may name other units, such as
    /// `time (ms),rate (kbit/s)`. Each rate lasts until the next line's time; the last rate lasts as long as the one
    /// before it. The trace begins with the first time, and lines with the same time are replaced by their mean.
    pub fn parse_csv(text: &str) -> Result<Self, TraceError> {
        let text = without_mark(text);
        let Some((first_line, first)) = data_lines(text).next() else {
            return refuse(1, "the trace has no line `seconds,mbit/s`");
        };
        let possible = [Separator::Comma, Separator::Semicolon, Separator::Tab];
        let separator = file_text::separator(first, &possible, |separator| separator.split(first).len() == 2);
        let separator = separator.or_else(|ambiguous| {
            let layout = ambiguous.first();
            let way = format!("{{ file = \"…\", layout = \"{layout}\", time = 1, rate = 2 }}");
            refuse(
                first_line,
                format!("{ambiguous}; say which: {way}, and write numbers with a decimal point"),
            )
        })?;
        let mut table = TraceTable::new(Column::Numbered(1), Column::Numbered(2));
        let mut rows = Vec::new();
        for (line, content) in data_lines(text) {
            let cells = separator.split(content);
            if cells.len() != 2 {
                let (content, count) = (shown(content), cells.len());
                let problem = format!(
                    "`{content}` has {count} columns and not the two `seconds,mbit/s`; name the columns: {CHOOSE}"
                );
                return refuse(line, problem);
            }
            if line == first_line && is_heading(content, &cells[0], &cells[1]) {
                units(&cells[0], &cells[1], &mut table).or_else(|problem| refuse(line, problem))?;
                continue;
            }
            rows.push(Row { line, cells: vec![cells[1].clone(), cells[0].clone()] });
        }
        if let Some(last) = rows.last().filter(|row| !text.ends_with(['\n', '\r']) && row.cells[0].is_empty())
        {
            return refuse(
                last.line,
                "the last line ends before its rate: the file was cut short; remove the line",
            );
        }
        Self::of_rows(rows, &table)
    }
}

fn is_heading(content: &str, time: &str, rate: &str) -> bool {
    let numbers = time.parse::<f64>().is_ok() && rate.parse::<f64>().is_ok();
    !numbers && content.starts_with(|c: char| c.is_alphabetic() || c == '"')
}

/// Takes the units of a heading.
fn units(time: &str, rate: &str, table: &mut TraceTable) -> Result<(), String> {
    if let Some(unit) = heading::time_unit(time)?.filter(|unit| *unit != TimeUnit::Date) {
        table.time = TraceTime::At(Column::Numbered(1), unit);
    }
    if let Some(bits) = heading::rate_unit(rate)? {
        table.value = TraceValue::Rate(Column::Numbered(2), Bitrate::from_bps(bits as u64));
    }
    Ok(())
}
