//! The table as comma-separated lines, one per (GoP, tile, QP), for spreadsheets and other programs.
//!
//! The layout is not part of the file; the caller provides it.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};

use thiserror::Error;

use super::{MOST_CELLS, RdTable, TableLayout, TileCells};

const COLUMNS: [&str; 7] = ["gop", "tile", "qp", "bytes", "mse", "freeze_mse", "black_mse"];
const HEADER: &str = "gop,tile,qp,bytes,mse,freeze_mse,black_mse";
const LONGEST_LINE: u64 = 4096;

/// Why the lines are not a table.
#[derive(Debug, Error)]
pub enum CsvError {
    /// The reader or the writer failed, or the text is not UTF-8.
    #[error("line {line}: {source}")]
    Io {
        /// Counted from 1; 0 if writing failed.
        line: usize,
        /// The system's error.
        source: std::io::Error,
    },
    /// The header is wrong.
    #[error("line 1 is `{0}`; a table opens with {HEADER}")]
    Header(String),
    /// A line has too many or too few fields, or is too long.
    #[error("line {line} has {found} fields; {} are expected: {HEADER}", COLUMNS.len())]
    Fields {
        /// Counted from 1.
        line: usize,
        /// Fields found.
        found: usize,
    },
    /// A field is invalid.
    #[error("line {line}, field {field}: `{text}` is {wrong}")]
    Field {
        /// Counted from 1.
        line: usize,
        /// The column.
        field: &'static str,
        /// Its text.
        text: String,
        /// What is wrong with it.
        wrong: &'static str,
    },
    /// A cell appears twice.
    #[error("line {line} gives GoP {gop}, tile {tile}, QP {qp} a second time")]
    Repeated {
        /// Counted from 1.
        line: usize,
        /// The GoP, from 0.
        gop: usize,
        /// The tile, from 0.
        tile: usize,
        /// The QP.
        qp: u8,
    },
    /// A cell is missing.
    #[error("GoP {gop}, tile {tile}, QP {qp} is missing")]
    Missing {
        /// The GoP, from 0.
        gop: usize,
        /// The tile, from 0.
        tile: usize,
        /// The QP.
        qp: u8,
    },
}

struct Line {
    gop: usize,
    tile: usize,
    qp: usize,
    bytes: u64,
    mse: [f64; 3],
}

/// Reads all cells.
pub(super) fn read(reader: impl Read, layout: &TableLayout) -> Result<Vec<TileCells>, CsvError> {
    let mut reader = BufReader::new(reader);
    let (tiles, qps) = (layout.grid.tiles(), layout.qps.len());
    let header = next_line(&mut reader, 1)?.unwrap_or_default();
    let header = header.trim_start_matches('\u{feff}').trim();
    if header != HEADER {
        return Err(CsvError::Header(header.chars().take(80).collect()));
    }
    let mut cells: Vec<TileCells> = Vec::new();
    let mut given: Vec<bool> = Vec::new();
    let mut count = 0;
    let mut number = 1;
    while let Some(text) = next_line(&mut reader, number + 1)? {
        number += 1;
        if text.trim().is_empty() {
            continue;
        }
        let line = parse(&text, number, layout)?;
        // A GoP begins only when the previous ones are complete, so that a short file cannot allocate much
        // memory.
        if line.gop > count / (tiles * qps) {
            return Err(missing(&given, layout));
        }
        count += 1;
        let at = line.gop * tiles + line.tile;
        while cells.len() < (line.gop + 1) * tiles {
            let (bytes, mse) = (vec![0; qps], vec![0.0; qps]);
            cells.push(TileCells { bytes, mse, freeze_mse: line.mse[1], black_mse: line.mse[2] });
            given.extend(std::iter::repeat_n(false, qps));
        }
        if std::mem::replace(&mut given[at * qps + line.qp], true) {
            let Line { gop, tile, qp, .. } = line;
            return Err(CsvError::Repeated { line: number, gop, tile, qp: layout.qps[qp] });
        }
        let cell = &mut cells[at];
        (cell.bytes[line.qp], cell.mse[line.qp]) = (line.bytes, line.mse[0]);
        // Every QP of a tile repeats these values; the last line counts.
        (cell.freeze_mse, cell.black_mse) = (line.mse[1], line.mse[2]);
    }
    if given.contains(&false) { Err(missing(&given, layout)) } else { Ok(cells) }
}

/// The first missing cell.
fn missing(given: &[bool], layout: &TableLayout) -> CsvError {
    let (tiles, qps) = (layout.grid.tiles(), layout.qps.len());
    let at = given.iter().position(|given| !given).unwrap_or(given.len());
    let cell = at / qps;
    CsvError::Missing { gop: cell / tiles, tile: cell % tiles, qp: layout.qps[at % qps] }
}

fn next_line(reader: &mut impl BufRead, line: usize) -> Result<Option<String>, CsvError> {
    let mut text = String::new();
    let bytes =
        reader.take(LONGEST_LINE).read_line(&mut text).map_err(|source| CsvError::Io { line, source })?;
    if bytes as u64 == LONGEST_LINE && !text.ends_with('\n') {
        return Err(CsvError::Fields { line, found: text.split(',').count() });
    }
    Ok((bytes > 0).then_some(text))
}

fn parse(text: &str, line: usize, layout: &TableLayout) -> Result<Line, CsvError> {
    let fields: Vec<&str> = text.trim().split(',').map(str::trim).collect();
    if fields.len() != COLUMNS.len() {
        return Err(CsvError::Fields { line, found: fields.len() });
    }
    let fault = |column: usize, wrong| {
        let text = fields[column].chars().take(40).collect();
        CsvError::Field { line, field: COLUMNS[column], text, wrong }
    };
    let whole =
        |column: usize| fields[column].parse::<u64>().map_err(|_| fault(column, "not a whole number"));
    let number = |column: usize| match fields[column].parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        Ok(_) => Err(fault(column, "negative or not finite")),
        Err(_) => Err(fault(column, "not a number")),
    };
    let tiles = layout.grid.tiles();
    let most_gops = MOST_CELLS / (tiles * layout.qps.len());
    let gop = usize::try_from(whole(0)?).ok().filter(|gop| *gop < most_gops);
    let gop = gop.ok_or_else(|| fault(0, "more than a table holds"))?;
    let tile = usize::try_from(whole(1)?).ok().filter(|tile| *tile < tiles);
    let tile = tile.ok_or_else(|| fault(1, "no tile of the grid"))?;
    let qp = whole(2)?;
    let qp = layout.qps.iter().position(|known| u64::from(*known) == qp);
    let qp = qp.ok_or_else(|| fault(2, "no QP of the layout"))?;
    Ok(Line { gop, tile, qp, bytes: whole(3)?, mse: [number(4)?, number(5)?, number(6)?] })
}

/// Writes all cells.
pub(super) fn write(table: &RdTable, writer: impl Write) -> Result<(), CsvError> {
    let io = |source| CsvError::Io { line: 0, source };
    let mut writer = BufWriter::new(writer);
    writeln!(writer, "{HEADER}").map_err(io)?;
    for gop in 0..table.gops() {
        for (tile, cell) in table.gop(gop).iter().enumerate() {
            for (at, qp) in table.layout.qps.iter().enumerate() {
                let TileCells { bytes, mse, freeze_mse, black_mse } = cell;
                let (bytes, mse) = (bytes[at], mse[at]);
                writeln!(writer, "{gop},{tile},{qp},{bytes},{mse},{freeze_mse},{black_mse}").map_err(io)?;
            }
        }
    }
    writer.flush().map_err(io)
}
