//! The grid of tiles that divides a panorama, and each tile's share of the sphere.
//!
//! Tiles are numbered row by row from the upper left corner, as in MPD spatial relationship descriptions
//! (ISO/IEC 23009-1 annex H). Which tiles are seen is not decided here.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::projection::{PicturePoint, Projection};

/// Most tiles of a grid, so that a hostile file cannot demand unbounded tables.
pub const MOST_TILES: usize = 4096;

/// A grid of tiles over one picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "GridFields")]
pub struct TileGrid {
    columns: usize,
    rows: usize,
    projection: Projection,
}

#[derive(Deserialize)]
struct GridFields {
    columns: usize,
    rows: usize,
    #[serde(default)]
    projection: Projection,
}

impl TryFrom<GridFields> for TileGrid {
    type Error = GridError;

    fn try_from(fields: GridFields) -> Result<Self, GridError> {
        Self::new(fields.columns, fields.rows, fields.projection)
    }
}

/// Why a grid is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GridError {
    /// A grid has no tiles, or too many.
    #[error("a grid of {columns}×{rows} tiles; give at least 1×1 and at most {MOST_TILES} tiles")]
    Size {
        /// Requested columns.
        columns: usize,
        /// Requested rows.
        rows: usize,
    },
    /// A tile would belong to both eyes.
    #[error("a grid of {rows} rows for two eyes; give an even number of rows")]
    Eyes {
        /// Requested rows.
        rows: usize,
    },
    /// The text is not two numbers.
    #[error("grid `{0}` is not COLUMNSxROWS, such as 6x4")]
    Text(String),
}

/// A rectangle of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PixelRectangle {
    /// Left edge.
    pub x: usize,
    /// Upper edge.
    pub y: usize,
    /// Width.
    pub width: usize,
    /// Height.
    pub height: usize,
}

impl TileGrid {
    /// A grid of `columns` × `rows` equal tiles.
    ///
    /// # Errors
    /// No tile, more than [`MOST_TILES`], or a tile of both eyes.
    pub fn new(columns: usize, rows: usize, projection: Projection) -> Result<Self, GridError> {
        let tiles = columns.checked_mul(rows).filter(|tiles| (1..=MOST_TILES).contains(tiles));
        if tiles.is_none() {
            return Err(GridError::Size { columns, rows });
        }
        if !rows.is_multiple_of(projection.eyes()) {
            return Err(GridError::Eyes { rows });
        }
        Ok(Self { columns, rows, projection })
    }

    /// From text such as `6x4`: columns, then rows.
    ///
    /// # Errors
    /// Text of another form, or a size that [`Self::new`] refuses.
    pub fn parse(text: &str, projection: Projection) -> Result<Self, GridError> {
        let numbers = text
            .split_once(['x', '×'])
            .and_then(|(columns, rows)| Some((columns.trim().parse().ok()?, rows.trim().parse().ok()?)));
        let (columns, rows) = numbers.ok_or_else(|| GridError::Text(text.to_owned()))?;
        Self::new(columns, rows, projection)
    }

    /// These tiles of an equirectangular picture for each of two eyes, one picture above the other.
    ///
    /// # Errors
    /// More than [`MOST_TILES`].
    pub fn for_both_eyes(self) -> Result<Self, GridError> {
        Self::new(self.columns, 2 * self.rows, Projection::TopBottom)
    }

    /// Number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The picture's projection.
    #[must_use]
    pub fn projection(&self) -> Projection {
        self.projection
    }

    /// Number of tiles.
    #[must_use]
    pub fn tiles(&self) -> usize {
        self.columns * self.rows
    }

    /// The tile at a position; the right and lower edges belong to the last column and row.
    #[must_use]
    pub fn tile_at(&self, place: PicturePoint) -> usize {
        // Conversion from float to integer saturates, so positions outside count as on the edge.
        let column = ((place.u * self.columns as f64) as usize).min(self.columns - 1);
        let row = ((place.v * self.rows as f64) as usize).min(self.rows - 1);
        row * self.columns + column
    }

    /// The pixels of a tile in a picture of `width` × `height`. If the size is not a multiple of the grid,
    /// tiles differ by a pixel. Together they always cover the picture exactly once.
    #[must_use]
    pub fn pixels(&self, tile: usize, (width, height): (usize, usize)) -> PixelRectangle {
        let (column, row) = (tile % self.columns, tile / self.columns);
        let (x, right) = (column * width / self.columns, (column + 1) * width / self.columns);
        let (y, below) = (row * height / self.rows, (row + 1) * height / self.rows);
        PixelRectangle { x, y, width: right - x, height: below - y }
    }

    /// Each tile's share of the sphere, halved between two eyes; the shares add up to 1. Exact for an equirectangular picture, summed
    /// over 64 × 64 points per tile for a cubemap.
    #[must_use]
    pub fn sphere_shares(&self) -> Vec<f64> {
        let fine = match self.projection {
            Projection::Equirectangular | Projection::TopBottom => 1,
            Projection::Cubemap => 64,
        };
        let size = (self.columns * fine, self.rows * fine);
        let mut shares = vec![0.0; self.tiles()];
        for row in 0..size.1 {
            for column in 0..size.0 {
                let tile = row / fine * self.columns + column / fine;
                shares[tile] += self.projection.pixel_solid_angle((column, row), size);
            }
        }
        let whole: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= whole);
        shares
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grid(columns: usize, rows: usize) -> TileGrid {
        TileGrid::new(columns, rows, Projection::Equirectangular).expect("a valid grid")
    }

    #[test]
    fn shares_of_two_by_four() {
        // Four rows of 45°: the upper one covers (1 − sin 45°) / 2 of the sphere.
        let shares = grid(2, 4).sphere_shares();
        let upper = (1.0 - std::f64::consts::FRAC_1_SQRT_2) / 2.0;
        assert!((shares[0] - upper / 2.0).abs() < 1e-12);
        assert!((shares[2] - (0.5 - upper) / 2.0).abs() < 1e-12);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn both_eyes_have_the_same_shares() {
        let (one, both) =
            (grid(2, 4).sphere_shares(), grid(2, 4).for_both_eyes().expect("a valid grid").sphere_shares());
        for (tile, share) in both.iter().enumerate() {
            assert!((2.0 * share - one[tile % 8]).abs() < 1e-12, "{both:?}");
        }
    }

    #[test]
    fn faces_of_a_cube_are_equal() {
        let cube = TileGrid::new(3, 2, Projection::Cubemap).expect("a valid grid");
        assert!(cube.sphere_shares().iter().all(|share| (share - 1.0 / 6.0).abs() < 1e-9));
    }

    #[test]
    fn bad_grids_are_refused() {
        for text in ["", "6", "x", "0x4", "6x-1", "65536x65536", "99999999999999999999x1"] {
            assert!(TileGrid::parse(text, Projection::Equirectangular).is_err(), "{text}");
        }
        let zero = serde_json::from_str::<TileGrid>(r#"{"columns":0,"rows":1}"#);
        assert!(zero.is_err());
        assert_eq!(TileGrid::new(4, 3, Projection::TopBottom), Err(GridError::Eyes { rows: 3 }));
    }

    proptest! {
        #[test]
        fn tiles_cover_the_picture_once(columns in 1usize..20, rows in 1usize..20, w in 1usize..300, h in 1usize..300) {
            let grid = grid(columns, rows);
            let pixels: usize = (0..grid.tiles()).map(|t| grid.pixels(t, (w, h))).map(|r| r.width * r.height).sum();
            prop_assert_eq!(pixels, w * h);
        }
    }
}
