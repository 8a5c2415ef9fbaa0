//! Reads a head-movement trace from comma-separated text; errors name the line and the field.
//!
//! `format` defines the meaning of the columns.

use std::io::{BufRead, BufReader, Read};

use thiserror::Error;

use super::{Format, HeadSample, HeadTrace, TraceError};

/// Largest file: four times an hour at 1 kHz.
const MOST_BYTES: u64 = 1 << 30;
const LONGEST_LINE: u64 = 4096;

/// Why a file is not a valid trace.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The reader failed, or the text is not UTF-8.
    #[error("line {line} cannot be read: {source}")]
    Read {
        /// Counted from 1.
        line: usize,
        /// The reader's error.
        source: std::io::Error,
    },
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
    #[error("line 1 names a column `{name}`; known are time_s, yaw_deg, pitch_deg, roll_deg")]
    UnknownColumn {
        /// The name.
        name: String,
    },
    /// A header names a column twice.
    #[error("line 1 names column `{name}` twice")]
    RepeatedColumn {
        /// The name.
        name: String,
    },
    /// A header lacks a column.
    #[error(
        "line 1 does not name column `{name}`; a plain trace opens with time_s,yaw_deg,pitch_deg[,roll_deg]"
    )]
    MissingColumn {
        /// The name.
        name: &'static str,
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
    /// A time does not increase.
    #[error("line {line}, field {field}: {time_s} s does not come after {before_s} s; sort the trace")]
    Unsorted {
        /// Counted from 1.
        line: usize,
        /// The column's name.
        field: &'static str,
        /// The time.
        time_s: f64,
        /// The previous time.
        before_s: f64,
    },
    /// The lines are valid but not a trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Reads a trace. Blank lines are skipped; all line endings are accepted.
///
/// # Errors
/// The first error, with its line (counted from 1) and field.
pub fn read(reader: impl Read, format: Format) -> Result<HeadTrace, ReadError> {
    let mut lines = Lines { reader: BufReader::new(reader.take(MOST_BYTES)), number: 0, bytes: 0 };
    let known = format.columns();
    // Index of the known column in each field.
    let mut order: Vec<usize> = (0..known.len()).collect();
    if format == Format::Plain {
        order = header(&lines.next()?.unwrap_or_default(), known)?;
    }
    let mut samples: Vec<HeadSample> = Vec::new();
    let mut row = vec![0.0; known.len()];
    while let Some(text) = lines.next()? {
        let line = lines.number;
        let found = text.split(',').count();
        if found != order.len() {
            let columns = order.iter().map(|column| known[*column]).collect::<Vec<_>>().join(", ");
            return Err(ReadError::Fields { line, found, expected: order.len(), format, columns });
        }
        for (text, column) in text.split(',').zip(&order) {
            row[*column] = number(text.trim(), line, known[*column])?;
        }
        let orientation = format.orientation(&row).map_err(|(column, wrong)| {
            let text = row[column].to_string();
            ReadError::Field { line, field: known[column].to_owned(), text, wrong }
        })?;
        let time_s = row[0];
        if let Some(before) = samples.last()
            && time_s <= before.time_s
        {
            return Err(ReadError::Unsorted { line, field: known[0], time_s, before_s: before.time_s });
        }
        samples.push(HeadSample { time_s, orientation });
    }
    Ok(HeadTrace::from_samples(samples)?)
}

fn header(text: &str, known: &[&'static str]) -> Result<Vec<usize>, ReadError> {
    let mut order = Vec::with_capacity(known.len());
    for name in text.trim_start_matches('\u{feff}').split(',').map(str::trim) {
        let Some(column) = known.iter().position(|known| *known == name) else {
            return Err(ReadError::UnknownColumn { name: shortened(name) });
        };
        if order.contains(&column) {
            return Err(ReadError::RepeatedColumn { name: shortened(name) });
        }
        order.push(column);
    }
    // Roll, the last column, is optional and then 0.
    match (0..known.len() - 1).find(|column| !order.contains(column)) {
        Some(column) => Err(ReadError::MissingColumn { name: known[column] }),
        None => Ok(order),
    }
}

fn number(text: &str, line: usize, field: &'static str) -> Result<f64, ReadError> {
    let wrong = match text.parse::<f64>() {
        Ok(number) if number.is_finite() => return Ok(number),
        Ok(_) => "not finite",
        Err(_) => "not a number",
    };
    Err(ReadError::Field { line, field: field.to_owned(), text: shortened(text), wrong })
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Lines that are not blank, with their numbers, none longer than [`LONGEST_LINE`].
struct Lines<R> {
    reader: BufReader<std::io::Take<R>>,
    number: usize,
    bytes: u64,
}

impl<R: Read> Lines<R> {
    fn next(&mut self) -> Result<Option<String>, ReadError> {
        loop {
            let mut text = String::new();
            let line = self.number + 1;
            let limited = (&mut self.reader).take(LONGEST_LINE).read_line(&mut text);
            let bytes = limited.map_err(|source| ReadError::Read { line, source })? as u64;
            if bytes == 0 {
                return Ok(None);
            }
            self.number = line;
            self.bytes += bytes;
            if (bytes == LONGEST_LINE && !text.ends_with('\n')) || self.bytes >= MOST_BYTES {
                return Err(ReadError::Long { line });
            }
            if !text.trim().is_empty() {
                return Ok(Some(text));
            }
        }
    }
}
