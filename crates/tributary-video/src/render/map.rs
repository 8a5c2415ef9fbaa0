//! Exact position of a viewport's pixel in the panorama.
//!
//! Coordinates are the panorama's samples: (0, 0) is the centre of the first. This is the only trigonometry
//! of rendering; `table` calls it for few points.

use crate::projection::Projection;
use crate::sphere::{Axes, Direction};
use crate::viewport::FieldOfView;

/// A position in the panorama, and the face within which it may be blended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Source {
    /// Columns from the centre of the first sample.
    pub x: f64,
    /// Rows from the centre of the first sample.
    pub y: f64,
    /// The face; 0 for an equirectangular picture, of which the left eye's is taken.
    pub face: usize,
}

/// The map from one viewport to one plane of a panorama.
#[derive(Debug, Clone, Copy)]
pub(super) struct Map {
    projection: Projection,
    /// The plane's size, samples.
    pub size: (usize, usize),
    axes: Axes,
    /// The upper left corner of the picture plane at distance 1, and the width and height of a pixel on it.
    corner: (f64, f64),
    step: (f64, f64),
}

impl Map {
    pub(super) fn new(
        projection: Projection,
        size: (usize, usize),
        (field, viewport): (FieldOfView, (usize, usize)),
        axes: Axes,
    ) -> Self {
        let (across, upwards) = field.half_extent();
        let step = (2.0 * across / viewport.0 as f64, 2.0 * upwards / viewport.1 as f64);
        Self { projection, size, axes, corner: (-across, upwards), step }
    }

    /// The direction of a position in the viewport, whose integers are the corners of pixels; not normalised.
    fn direction(&self, column: f64, row: f64) -> Direction {
        let (x, y) = (self.corner.0 + column * self.step.0, self.corner.1 - row * self.step.1);
        let Axes { right, up, ahead } = self.axes;
        right.scaled(x).plus(up.scaled(y)).plus(ahead)
    }

    /// Position of the centre of a viewport's pixel.
    pub(super) fn source(&self, column: f64, row: f64) -> Source {
        let direction = self.direction(column + 0.5, row + 0.5).normalised();
        let place = self.projection.place_of(direction);
        let (x, y) = (place.u * self.size.0 as f64, place.v * self.size.1 as f64);
        let face = match self.projection {
            Projection::Equirectangular | Projection::TopBottom => 0,
            Projection::Cubemap => {
                let column = ((place.u * 3.0) as usize).min(2);
                column + 3 * ((place.v * 2.0) as usize).min(1)
            }
        };
        Source { x: x - 0.5, y: y - 0.5, face }
    }

    /// Whether columns wrap: the first sample follows the last.
    pub(super) fn goes_round(&self) -> bool {
        self.projection != Projection::Cubemap
    }

    /// A face's first column and row, and one past its last.
    pub(super) fn bounds(&self, face: usize) -> [usize; 4] {
        let (width, height) = self.size;
        match self.projection {
            Projection::Equirectangular => [0, 0, width, height],
            // The left eye's.
            Projection::TopBottom => [0, 0, width, height / 2],
            Projection::Cubemap => {
                let (column, row) = (face % 3, face / 3);
                [column * width / 3, row * height / 2, (column + 1) * width / 3, (row + 1) * height / 2]
            }
        }
    }
}
