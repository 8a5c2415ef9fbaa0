//! The rate–distortion table of a tiled video: measured bytes and mean squared error of every tile at every
//! quantisation parameter in every GoP, and the error of concealing a tile.
//!
//! A table is checked when it is made or read, so allocators need no checks. Another crate fills it by
//! encoding and decoding. Source: the OWS paper §4 (tiles, GoPs, QPs).

mod csv;

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::allocation::{Choice, MOST_BYTES, MOST_CHOICES, TileMenu};
use crate::prediction::TileOutlook;
use crate::tiles::TileGrid;

pub use csv::CsvError;

/// Most cells (GoPs × tiles × QPs) of a table: an hour of 144 tiles in 20 qualities.
pub const MOST_CELLS: usize = 12_000_000;

/// What all parts of a table share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableLayout {
    /// The tiles, and the projection.
    pub grid: TileGrid,
    /// The picture's width, pixels.
    pub width: usize,
    /// The picture's height, pixels.
    pub height: usize,
    /// Length of a GoP, seconds.
    pub gop_duration_s: f64,
    /// Quantisation parameters, ascending: the finest quality first.
    pub qps: Vec<u8>,
}

/// One tile of one GoP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TileCells {
    /// Bytes, one per QP.
    pub bytes: Vec<u64>,
    /// Mean squared error of luma against the source over the tile's pixels and pictures, one per QP.
    pub mse: Vec<f64>,
    /// Mean squared error of showing the last picture of the previous GoP throughout this one.
    pub freeze_mse: f64,
    /// Mean squared error of showing black.
    pub black_mse: f64,
}

/// What a player shows for a missing tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Concealment {
    /// The last picture of the previous GoP; black in the first.
    #[default]
    Freeze,
    /// Black.
    Black,
}

/// A checked table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "TableFields", try_from = "TableFields")]
pub struct RdTable {
    layout: TableLayout,
    /// Ordered by GoP, then by tile.
    cells: Vec<TileCells>,
}

/// The table as written: `gops[gop][tile]`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFields {
    format: String,
    #[serde(flatten)]
    layout: LayoutFields,
    gops: Vec<Vec<TileCells>>,
}

/// [`TableLayout`] without `deny_unknown_fields`, which cannot be flattened.
#[derive(Serialize, Deserialize)]
struct LayoutFields {
    grid: TileGrid,
    width: usize,
    height: usize,
    gop_duration_s: f64,
    qps: Vec<u8>,
}

/// The first line of every table.
const FORMAT: &str = "tributary-rd-1";

/// Why a table is invalid.
#[derive(Debug, Error)]
pub enum TableError {
    /// The format is unknown.
    #[error("the table's format is `{0}`; this program reads {FORMAT}")]
    Format(String),
    /// The layout is invalid.
    #[error("{field} is {value}; {range}")]
    Layout {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// The allowed range.
        range: &'static str,
    },
    /// A GoP does not have all its tiles, or a tile not all its QPs.
    #[error("GoP {gop}, tile {tile}: {found} values of {field}, {expected} expected")]
    Missing {
        /// The GoP, from 0.
        gop: usize,
        /// The tile, from 0.
        tile: usize,
        /// The field with the wrong number of values.
        field: &'static str,
        /// Number of values.
        found: usize,
        /// Expected number of values.
        expected: usize,
    },
    /// A number is out of range.
    #[error("GoP {gop}, tile {tile}, {field}: {value} is not {range}")]
    Cell {
        /// The GoP, from 0.
        gop: usize,
        /// The tile, from 0.
        tile: usize,
        /// The field, with its QP if it has one.
        field: String,
        /// Its value.
        value: f64,
        /// The allowed range.
        range: &'static str,
    },
    /// The JSON is not a table; the message contains line and column.
    #[error("the table cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The lines are not a table.
    #[error(transparent)]
    Csv(#[from] CsvError),
}

/// A tile whose finer quality is not better, or whose coarser one is not smaller. Encoders sometimes do this
/// on static content; allocators handle it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotMonotone {
    /// The GoP, from 0.
    pub gop: usize,
    /// The tile, from 0.
    pub tile: usize,
    /// The coarser of the two QPs.
    pub qp: u8,
}

impl RdTable {
    /// A table of cells, ordered by GoP, then by tile.
    ///
    /// # Errors
    /// Missing cells, numbers that are negative, too large or not numbers, QPs that do not increase.
    pub fn new(layout: TableLayout, cells: Vec<TileCells>) -> Result<Self, TableError> {
        check_layout(&layout)?;
        let tiles = layout.grid.tiles();
        if cells.is_empty() || !cells.len().is_multiple_of(tiles) {
            let (gop, found) = (cells.len() / tiles, cells.len() % tiles);
            return Err(TableError::Missing { gop, tile: found, field: "tiles", found, expected: tiles });
        }
        if cells.len().saturating_mul(layout.qps.len()) > MOST_CELLS {
            let value = (cells.len() * layout.qps.len()).to_string();
            return Err(TableError::Layout {
                field: "the number of cells",
                value,
                range: "at most 12 million",
            });
        }
        for (at, cell) in cells.iter().enumerate() {
            check_cell(&layout.qps, (at / tiles, at % tiles), cell)?;
        }
        Ok(Self { layout, cells })
    }

    /// What all parts share.
    #[must_use]
    pub fn layout(&self) -> &TableLayout {
        &self.layout
    }

    /// Number of GoPs.
    #[must_use]
    pub fn gops(&self) -> usize {
        self.cells.len() / self.layout.grid.tiles()
    }

    /// Length of the video, seconds.
    #[must_use]
    pub fn duration_s(&self) -> f64 {
        self.gops() as f64 * self.layout.gop_duration_s
    }

    /// The tiles of one GoP.
    ///
    /// # Panics
    /// The GoP does not exist.
    #[must_use]
    pub fn gop(&self, gop: usize) -> &[TileCells] {
        let tiles = self.layout.grid.tiles();
        &self.cells[gop * tiles..(gop + 1) * tiles]
    }

    /// The tiles of one GoP as input of an allocator; `outlook` has one entry per tile.
    ///
    /// # Panics
    /// If the GoP does not exist, or the outlook has another number of tiles.
    #[must_use]
    pub fn menus(&self, gop: usize, outlook: &[TileOutlook], concealment: Concealment) -> Vec<TileMenu> {
        let cells = self.gop(gop);
        assert_eq!(cells.len(), outlook.len(), "one outlook per tile");
        let menu = |(cell, outlook): (&TileCells, &TileOutlook)| TileMenu {
            seen: outlook.seen,
            weight: outlook.share,
            concealed_mse: match concealment {
                Concealment::Freeze => cell.freeze_mse,
                Concealment::Black => cell.black_mse,
            },
            choices: cell
                .bytes
                .iter()
                .zip(&cell.mse)
                .map(|(bytes, mse)| Choice { bytes: *bytes, mse: *mse })
                .collect(),
        };
        cells.iter().zip(outlook).map(menu).collect()
    }

    /// At most `most` tiles whose quality or size does not fall with QP.
    #[must_use]
    pub fn not_monotone(&self, most: usize) -> Vec<NotMonotone> {
        let tiles = self.layout.grid.tiles();
        let steps = self.cells.iter().enumerate().flat_map(|(at, cell)| {
            let falls = |step: &usize| {
                cell.bytes[*step] > cell.bytes[step - 1] || cell.mse[*step] < cell.mse[step - 1]
            };
            let place = move |step: usize| (at / tiles, at % tiles, step);
            (1..cell.bytes.len()).filter(falls).map(place).collect::<Vec<_>>()
        });
        let name = |(gop, tile, step)| NotMonotone { gop, tile, qp: self.layout.qps[step] };
        steps.take(most).map(name).collect()
    }

    /// Reads JSON written by [`Self::write_json`].
    ///
    /// # Errors
    /// Text that is not such JSON, or a table that [`Self::new`] refuses.
    pub fn read_json(reader: impl Read) -> Result<Self, TableError> {
        // Read as plain fields first, because serde would replace our errors by its own text.
        serde_json::from_reader::<_, TableFields>(std::io::BufReader::new(reader))?.try_into()
    }

    /// Writes JSON: `format`, the layout's fields, and `gops[gop][tile]`.
    ///
    /// # Errors
    /// The writer's.
    pub fn write_json(&self, writer: impl Write) -> Result<(), TableError> {
        let mut writer = std::io::BufWriter::new(writer);
        serde_json::to_writer(&mut writer, self)?;
        writer.flush().map_err(|error| TableError::Json(serde_json::Error::io(error)))
    }

    /// Reads lines `gop,tile,qp,bytes,mse,freeze_mse,black_mse` below a header, ordered by GoP; the order
    /// within a GoP is free.
    ///
    /// # Errors
    /// The first invalid line and field, missing cells, or a table that [`Self::new`] refuses.
    pub fn read_csv(reader: impl Read, layout: TableLayout) -> Result<Self, TableError> {
        check_layout(&layout)?;
        let cells = csv::read(reader, &layout)?;
        Self::new(layout, cells)
    }

    /// Writes lines for [`Self::read_csv`].
    ///
    /// # Errors
    /// The writer's.
    pub fn write_csv(&self, writer: impl Write) -> Result<(), TableError> {
        Ok(csv::write(self, writer)?)
    }
}

fn check_layout(layout: &TableLayout) -> Result<(), TableError> {
    let refuse = |field, value: String, range| Err(TableError::Layout { field, value, range });
    let grid = &layout.grid;
    if !(layout.gop_duration_s > 0.0 && layout.gop_duration_s <= 60.0) {
        let value = layout.gop_duration_s.to_string();
        return refuse("gop_duration_s", value, "a GoP lasts over 0 and up to 60 seconds");
    }
    if layout.width < grid.columns()
        || layout.height < grid.rows()
        || layout.width.max(layout.height) > 65_536
    {
        let value = format!("{}x{}", layout.width, layout.height);
        return refuse("the picture's size", value, "each tile needs a pixel, and no side more than 65536");
    }
    let rises = layout.qps.windows(2).all(|pair| pair[0] < pair[1]);
    if !rises || !(1..=MOST_CHOICES).contains(&layout.qps.len()) {
        return refuse("qps", format!("{:?}", layout.qps), "1 to 64 rising quantisation parameters");
    }
    Ok(())
}

fn check_cell(qps: &[u8], (gop, tile): (usize, usize), cell: &TileCells) -> Result<(), TableError> {
    let expected = qps.len();
    for (field, found) in [("bytes", cell.bytes.len()), ("mse", cell.mse.len())] {
        if found != expected {
            return Err(TableError::Missing { gop, tile, field, found, expected });
        }
    }
    for (qp, bytes) in qps.iter().zip(&cell.bytes) {
        if *bytes > MOST_BYTES {
            let field = format!("bytes at QP {qp}");
            return Err(TableError::Cell { gop, tile, field, value: *bytes as f64, range: "at most 2^40" });
        }
    }
    let errors = qps.iter().zip(&cell.mse).map(|(qp, mse)| (format!("mse at QP {qp}"), *mse));
    let concealed = [("freeze_mse".to_owned(), cell.freeze_mse), ("black_mse".to_owned(), cell.black_mse)];
    for (field, value) in errors.chain(concealed) {
        if !(0.0..=255.0 * 255.0).contains(&value) {
            return Err(TableError::Cell { gop, tile, field, value, range: "in 0…65025" });
        }
    }
    Ok(())
}

impl From<RdTable> for TableFields {
    fn from(table: RdTable) -> Self {
        let TableLayout { grid, width, height, gop_duration_s, qps } = table.layout;
        let gops = table.cells.chunks(grid.tiles()).map(<[_]>::to_vec).collect();
        Self {
            format: FORMAT.to_owned(),
            layout: LayoutFields { grid, width, height, gop_duration_s, qps },
            gops,
        }
    }
}

impl TryFrom<TableFields> for RdTable {
    type Error = TableError;

    fn try_from(fields: TableFields) -> Result<Self, TableError> {
        if fields.format != FORMAT {
            return Err(TableError::Format(fields.format));
        }
        let LayoutFields { grid, width, height, gop_duration_s, qps } = fields.layout;
        let expected = grid.tiles();
        for (gop, tiles) in fields.gops.iter().enumerate() {
            if tiles.len() != expected {
                let found = tiles.len();
                return Err(TableError::Missing { gop, tile: found, field: "tiles", found, expected });
            }
        }
        let layout = TableLayout { grid, width, height, gop_duration_s, qps };
        Self::new(layout, fields.gops.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests;
