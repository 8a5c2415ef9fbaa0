//! Reads a head-movement trace from comma-separated text; errors name the line and the field.
//!
//! `format` defines the meaning of the columns.

use std::io::Read;

use thiserror::Error;
use tributary_types::file_text::{self, Ambiguous, NotText, Separator, same_name, shown};

use super::{Format, HeadSample, HeadTrace, TraceError};

/// Largest file: four times an hour at 1 kHz.
const MOST_BYTES: u64 = 1 << 30;
const LONGEST_LINE: usize = 4096;

/// Why a file is not a valid trace.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The reader failed.
    #[error("line {line} cannot be read: {source}")]
    Read {
        /// Counted from 1.
        line: usize,
        /// The reader's error.
        source: std::io::Error,
    },
    /// The bytes are not text.
    #[error(transparent)]
    Text(#[from] NotText),
    /// It is unclear what separates the columns.
    #[error("line 1: {0}; write all columns with one separator, and numbers with a decimal point")]
    Separator(#[from] Ambiguous),
    /// A line or the file is too long.
    #[error("line {line} makes the file longer than a trace can be; is this the right file?")]
    Long {
        /// Counted from 1.
        line: usize,
    },
    /// A line has too many or too few fields.
    #[error("line {line} has {found} fields; {format} has {expected}: {columns}")]
    Fields {
        /// Counted from 1.
        line: usize,
        /// Fields found.
        found: usize,
        /// Fields expected.
        expected: usize,
        /// The format read.
        format: Format,
        /// The columns expected.
        columns: String,
    },
    /// The header names an unknown column.
    #[error(
        "line {line} names a column `{name}`; known are time_s, yaw_deg, pitch_deg, roll_deg; for other names give the \
         format plain:time_s=NAME,yaw_deg=NAME,pitch_deg=NAME"
    )]
    UnknownColumn {
        /// Counted from 1.
        line: usize,
        /// The name.
        name: String,
    },
    /// A header names a column twice.
    #[error("line {line} names column `{name}` twice; rename one of them")]
    RepeatedColumn {
        /// Counted from 1.
        line: usize,
        /// The name.
        name: String,
    },
    /// A header lacks a column.
    #[error(
        "line {line} does not name column `{name}`; it names {found}; a plain trace opens with \
         time_s,yaw_deg,pitch_deg[,roll_deg], and the format plain:time_s=NAME,… says other names"
    )]
    MissingColumn {
        /// Counted from 1.
        line: usize,
        /// The name.
        name: String,
        /// The names in the file.
        found: String,
    },
    /// A field is invalid.
    #[error("line {line}, field {field}: `{text}` is {wrong}")]
    Field {
        /// Counted from 1.
        line: usize,
        /// The column's name.
        field: String,
        /// Its text, at most forty characters.
        text: String,
        /// What is wrong with it.
        wrong: &'static str,
    },
    /// A time goes backwards.
    #[error(
        "line {line}, field {field}: {time_s} s comes before the {before_s} s of the line above; sort the trace"
    )]
    Unsorted {
        /// Counted from 1.
        line: usize,
        /// The column's name.
        field: String,
        /// The time.
        time_s: f64,
        /// The previous time.
        before_s: f64,
    },
    /// The lines are valid but not a trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Reads a trace: UTF-8 or UTF-16 text with or without a byte order mark, columns separated by commas, semicolons or
/// tabs. Blank lines are skipped; all line endings are accepted. The trace begins with the first time, and lines with the
/// same time are replaced by their mean.
///
/// # Errors
/// The first error, with its line (counted from 1) and field.
pub fn read(reader: impl Read, format: Format) -> Result<HeadTrace, ReadError> {
    let mut bytes = Vec::new();
    let limited = reader.take(MOST_BYTES).read_to_end(&mut bytes);
    limited.map_err(|source| ReadError::Read { line: 1, source })?;
    if bytes.len() as u64 == MOST_BYTES {
        return Err(ReadError::Long { line: bytes.iter().filter(|byte| **byte == b'\n').count() + 1 });
    }
    let text = file_text::decode(&bytes)?;
    let mut lines = file_text::lines(&text).filter(|(_, line)| !line.trim().is_empty()).peekable();
    let first = lines.peek().copied();
    let separator = separator(first.map_or("", |(_, line)| line), &format)?;
    let mut fields = format.columns().iter().enumerate().map(|(at, _)| Some(at)).collect();
    if format.has_header() {
        lines.next();
        fields = header(first.unwrap_or((1, "")), separator, &format)?;
    }
    let mut samples = Samples::default();
    for (line, text) in lines {
        if text.len() > LONGEST_LINE {
            return Err(ReadError::Long { line });
        }
        samples.add(sample(line, text, (&format, separator, &fields))?).map_err(|(time_s, before_s)| {
            ReadError::Unsorted { line, field: format.name(0).to_owned(), time_s, before_s }
        })?;
    }
    Ok(HeadTrace::from_samples(samples.all)?)
}

/// The separator of a file with the first line `first`.
fn separator(first: &str, format: &Format) -> Result<Separator, ReadError> {
    let possible = [Separator::Comma, Separator::Semicolon, Separator::Tab];
    let fits = |separator: Separator| {
        let cells = separator.split(first);
        match format.has_header() {
            true => cells.iter().any(|cell| same_name(cell, format.name(0))),
            false => cells.len() == format.columns().len(),
        }
    };
    Ok(file_text::separator(first, &possible, fits)?)
}

/// Reads a line. `fields` has the index of the known column in each field; `None`: a field that is ignored.
fn sample(
    line: usize,
    text: &str,
    (format, separator, fields): (&Format, Separator, &[Option<usize>]),
) -> Result<HeadSample, ReadError> {
    let known = format.columns();
    let cells = separator.split(text);
    if cells.len() != fields.len() {
        let named = |field: &Option<usize>| field.map_or("(ignored)", |column| format.name(column));
        let columns = fields.iter().map(named).collect::<Vec<_>>().join(", ");
        let (found, expected, format) = (cells.len(), fields.len(), format.clone());
        return Err(ReadError::Fields { line, found, expected, format, columns });
    }
    let mut row = vec![0.0; known.len()];
    for (cell, field) in cells.iter().zip(fields) {
        if let Some(column) = *field {
            row[column] = number(cell, line, format.name(column))?;
        }
    }
    let orientation = format.orientation(&row).map_err(|(column, wrong)| {
        let text = row[column].to_string();
        ReadError::Field { line, field: format.name(column).to_owned(), text, wrong }
    })?;
    Ok(HeadSample { time_s: row[0], orientation })
}

/// Samples in order, those with the same time as one.
#[derive(Default)]
struct Samples {
    all: Vec<HeadSample>,
    /// Number of lines with the last sample's time.
    same: u32,
}

impl Samples {
    /// Fails with the sample's time and the last one if it goes backwards.
    fn add(&mut self, sample: HeadSample) -> Result<(), (f64, f64)> {
        let time_s = sample.time_s;
        match self.all.last_mut() {
            Some(last) if time_s < last.time_s => {
                return Err((time_s, last.time_s));
            }
            Some(last) if time_s == last.time_s => {
                self.same += 1;
                last.orientation = last.orientation.towards(sample.orientation, 1.0 / f64::from(self.same));
            }
            _ => {
                self.same = 1;
                self.all.push(sample);
            }
        }
        Ok(())
    }
}

/// The known column in each field of a header.
fn header(
    (line, text): (usize, &str),
    separator: Separator,
    format: &Format,
) -> Result<Vec<Option<usize>>, ReadError> {
    let known = format.columns().len();
    let mut order = Vec::with_capacity(known);
    for name in separator.split(text) {
        let column = (0..known).find(|column| same_name(format.name(*column), &name));
        if column.is_none() && *format == Format::Plain {
            return Err(ReadError::UnknownColumn { line, name: shortened(&name) });
        }
        if column.is_some() && order.contains(&column) {
            return Err(ReadError::RepeatedColumn { line, name: shortened(&name) });
        }
        order.push(column);
    }
    // Roll, the last column, is optional and then 0.
    match (0..known - 1).find(|column| !order.contains(&Some(*column))) {
        Some(column) => {
            let names = separator.split(text);
            let found =
                names.iter().map(|name| format!("`{}`", shortened(name))).collect::<Vec<_>>().join(", ");
            Err(ReadError::MissingColumn { line, name: shortened(format.name(column)), found })
        }
        None => Ok(order),
    }
}

fn number(text: &str, line: usize, field: &str) -> Result<f64, ReadError> {
    let wrong = match text.parse::<f64>() {
        Ok(number) if number.is_finite() => return Ok(number),
        Ok(_) => "not finite",
        Err(_) if text.contains(',') => "not a number; write a decimal point",
        Err(_) => "not a number",
    };
    Err(ReadError::Field { line, field: field.to_owned(), text: shortened(text), wrong })
}

fn shortened(text: &str) -> String {
    shown(text.get(..text.char_indices().nth(40).map_or(text.len(), |(at, _)| at)).unwrap_or_default())
}
