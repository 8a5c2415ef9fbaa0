//! The viewport: the part of the sphere that a display shows, and its shares of the tiles.
//!
//! The viewport is a rectilinear picture (a pinhole camera's), as on a headset or a screen. Shares are of the
//! viewport's *solid angle*, computed with rays through its pixels. `render` renders the pixels.

use std::f64::consts::PI;

use thiserror::Error;

use crate::projection::Projection;
use crate::sphere::{Axes, Direction, Orientation};
use crate::tiles::TileGrid;

/// A field of view, horizontal and vertical.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FieldOfView {
    horizontal: f64,
    vertical: f64,
}

/// A field of view that a flat picture cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("a field of view of {horizontal_deg}°×{vertical_deg}°; each side must be over 0° and under 180°")]
pub struct FieldOfViewError {
    /// Horizontal degrees.
    pub horizontal_deg: f64,
    /// Vertical degrees.
    pub vertical_deg: f64,
}

impl Default for FieldOfView {
    /// 110° × 90°, common for headsets.
    fn default() -> Self {
        Self { horizontal: 110f64.to_radians(), vertical: 90f64.to_radians() }
    }
}

impl FieldOfView {
    /// A field of view in degrees.
    ///
    /// # Errors
    /// A side of 0° or less, of 180° or more, or not a number.
    pub fn from_degrees(horizontal_deg: f64, vertical_deg: f64) -> Result<Self, FieldOfViewError> {
        let fits = |side: f64| side > 0.0 && side < 180.0;
        if !fits(horizontal_deg) || !fits(vertical_deg) {
            return Err(FieldOfViewError { horizontal_deg, vertical_deg });
        }
        Ok(Self { horizontal: horizontal_deg.to_radians(), vertical: vertical_deg.to_radians() })
    }

    /// Degrees, horizontal and vertical.
    #[must_use]
    pub fn degrees(&self) -> (f64, f64) {
        (self.horizontal.to_degrees(), self.vertical.to_degrees())
    }

    /// Half the width and height of the picture plane at distance 1.
    #[must_use]
    pub fn half_extent(&self) -> (f64, f64) {
        (libm::tan(self.horizontal / 2.0), libm::tan(self.vertical / 2.0))
    }

    /// The solid angle, steradians.
    #[must_use]
    pub fn solid_angle(&self) -> f64 {
        let (across, upwards) = self.half_extent();
        4.0 * libm::atan(across * upwards / (1.0 + across * across + upwards * upwards).sqrt())
    }
}

/// Finds the tiles in a viewport. Holds the rays of one field of view; a call only rotates them.
#[derive(Debug, Clone)]
pub struct Viewer {
    rays: Vec<(Direction, f64)>,
    grid: TileGrid,
    /// For an equirectangular grid: the sines of the pitches between the rows of one eye, from the top.
    row_edges: Vec<f64>,
}

/// Horizontal and vertical rays: a 110° viewport has one every 3.4°, far finer than any tile.
const RAYS: (usize, usize) = (32, 26);

impl Viewer {
    /// Finds tiles of `grid` in a viewport with this field of view.
    #[must_use]
    pub fn new(field: FieldOfView, grid: TileGrid) -> Self {
        Self::with_rays(field, grid, RAYS)
    }

    /// As [`Self::new`], with this number of horizontal and vertical rays (at least 1 each).
    #[must_use]
    pub fn with_rays(field: FieldOfView, grid: TileGrid, (across, upwards): (usize, usize)) -> Self {
        let (half_width, half_height) = field.half_extent();
        let (across, upwards) = (across.max(1), upwards.max(1));
        let step = |at: usize, of: usize, half: f64| half * ((2 * at + 1) as f64 / of as f64 - 1.0);
        let mut rays = Vec::with_capacity(across * upwards);
        for row in 0..upwards {
            for column in 0..across {
                let ray = Direction {
                    x: step(column, across, half_width),
                    y: step(row, upwards, half_height),
                    z: 1.0,
                };
                // The solid angle of a pixel of the plane is proportional to 1 / distance³.
                let distance = ray.dot(ray);
                rays.push((ray.normalised(), 1.0 / (distance * distance.sqrt())));
            }
        }
        let whole: f64 = rays.iter().map(|(_, weight)| weight).sum();
        rays.iter_mut().for_each(|(_, weight)| *weight /= whole);
        let rows = grid.rows() / grid.projection().eyes();
        let edge = |row: usize| libm::sin(PI * (0.5 - row as f64 / rows as f64));
        Self { rays, grid, row_edges: (1..rows).map(edge).collect() }
    }

    /// The grid.
    #[must_use]
    pub fn grid(&self) -> TileGrid {
        self.grid
    }

    /// Each tile's share of the viewport's solid angle, halved between two eyes; the shares add up to 1. Invisible tiles have 0.
    #[must_use]
    pub fn shares(&self, orientation: Orientation) -> Vec<f64> {
        let mut shares = vec![0.0; self.grid.tiles()];
        self.add_shares(orientation, 1.0, &mut shares);
        shares
    }

    /// Adds the shares times `factor` to `sum`, which has one entry per tile.
    pub fn add_shares(&self, orientation: Orientation, factor: f64, sum: &mut [f64]) {
        let Axes { right, up, ahead } = orientation.axes();
        let eyes = self.grid.projection().eyes();
        let (factor, of_eye) = (factor / eyes as f64, self.grid.tiles() / eyes);
        for (ray, weight) in &self.rays {
            let turned = Direction {
                x: ray.x * right.x + ray.y * up.x + ray.z * ahead.x,
                y: ray.x * right.y + ray.y * up.y + ray.z * ahead.y,
                z: ray.x * right.z + ray.y * up.z + ray.z * ahead.z,
            };
            let tile = self.tile_of(turned);
            for eye in 0..eyes {
                sum[tile + eye * of_eye] += weight * factor;
            }
        }
    }

    /// The left eye's tile of two.
    fn tile_of(&self, direction: Direction) -> usize {
        match self.grid.projection() {
            // Finds the row by comparing sines, which needs half the transcendental functions.
            Projection::Equirectangular | Projection::TopBottom => {
                let row = self.row_edges.partition_point(|edge| direction.y < *edge);
                let columns = self.grid.columns();
                let turn = libm::atan2(direction.x, direction.z) / std::f64::consts::TAU + 0.5;
                row * columns + ((turn * columns as f64) as usize).min(columns - 1)
            }
            Projection::Cubemap => self.grid.tile_at(Projection::Cubemap.place_of(direction)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn viewer(columns: usize, rows: usize) -> Viewer {
        let grid = TileGrid::new(columns, rows, Projection::Equirectangular).expect("a valid grid");
        Viewer::new(FieldOfView::default(), grid)
    }

    #[test]
    fn a_cube_face_is_a_sixth_of_the_sphere() {
        let face = FieldOfView::from_degrees(90.0, 90.0).expect("a valid field of view");
        assert!((face.solid_angle() - 4.0 * PI / 6.0).abs() < 1e-12);
    }

    #[test]
    fn a_face_seen_through_a_square_window_fills_it() {
        let cube = TileGrid::new(3, 2, Projection::Cubemap).expect("a valid grid");
        let window = FieldOfView::from_degrees(90.0, 90.0).expect("a valid field of view");
        let shares = Viewer::new(window, cube).shares(Orientation::default());
        assert!((shares[4] - 1.0).abs() < 1e-12, "{shares:?}");
    }

    #[test]
    fn looking_right_sees_the_right_half() {
        let shares = viewer(2, 1).shares(Orientation::from_degrees(90.0, 0.0, 0.0));
        assert_eq!(shares[0], 0.0);
        assert!((shares[1] - 1.0).abs() < 1e-12);
        let ahead = viewer(2, 1).shares(Orientation::default());
        assert!((ahead[0] - 0.5).abs() < 1e-9);
    }

    #[test]
    fn both_eyes_see_their_tiles_of_the_same_direction() {
        let one = viewer(6, 4);
        let both = Viewer::new(FieldOfView::default(), one.grid().for_both_eyes().expect("a valid grid"));
        let look = Orientation::from_degrees(100.0, 30.0, 0.0);
        let (one, both) = (one.shares(look), both.shares(look));
        for (tile, share) in both.iter().enumerate() {
            assert!((2.0 * share - one[tile % 24]).abs() < 1e-12, "{both:?}");
        }
    }

    #[test]
    fn impossible_fields_of_view_are_refused() {
        for side in [0.0, -1.0, 180.0, f64::NAN, f64::INFINITY] {
            assert!(FieldOfView::from_degrees(side, 90.0).is_err());
            assert!(FieldOfView::from_degrees(90.0, side).is_err());
        }
    }

    #[test]
    fn more_rays_change_little() {
        let fine = Viewer::with_rays(FieldOfView::default(), viewer(8, 4).grid(), (320, 260));
        for pitch in [-60.0, -10.0, 35.0] {
            let at = Orientation::from_degrees(47.0, pitch, 11.0);
            for (a, b) in viewer(8, 4).shares(at).iter().zip(fine.shares(at)) {
                assert!((a - b).abs() < 0.01, "{a} {b}");
            }
        }
    }

    proptest! {
        #[test]
        fn shares_add_up(yaw in -9.0f64..9.0, pitch in -1.6f64..1.6, roll in -3.0f64..3.0) {
            let orientation = Orientation { yaw, pitch, roll };
            let shares = viewer(6, 4).shares(orientation);
            prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let ahead = Projection::Equirectangular.place_of(orientation.ahead());
            prop_assert!(shares[viewer(6, 4).grid().tile_at(ahead)] > 0.0);
        }
    }
}
