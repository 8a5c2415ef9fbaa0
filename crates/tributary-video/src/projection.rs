//! Maps directions to positions in the picture, and back.
//!
//! Projections: equirectangular (OMAF, ISO/IEC 23090-2 §5.2.2), the same for two eyes, and a cubemap of 3 × 2 faces (§5.2.3, in
//! ffmpeg's default `c3x2` arrangement: right, left, up over down, front, back). Positions are fractions of
//! the picture's width and height, (0, 0) the upper left corner, so that one formula works for every size.
//! Does not read pixels.

use std::f64::consts::{FRAC_PI_2, PI, TAU};

use serde::{Deserialize, Serialize};

use crate::sphere::{Direction, solid_angle};

/// A position in a picture, as fractions of its width and height in [0, 1].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PicturePoint {
    /// From the left edge.
    pub u: f64,
    /// From the upper edge.
    pub v: f64,
}

/// Projection of the sphere onto the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Projection {
    /// Columns are yaw, rows are pitch; straight ahead is the middle.
    #[default]
    Equirectangular,
    /// Six square faces in two rows of three.
    Cubemap,
    /// Two equirectangular pictures: the left eye's above the right eye's.
    TopBottom,
}

/// One face of the cube: its middle, and the directions of its columns and rows.
struct Face {
    middle: [f64; 3],
    columns: [f64; 3],
    rows: [f64; 3],
}

/// Row by row as in the picture; x right, y up, z ahead.
const FACES: [Face; 6] = [
    // Right, left, up.
    Face { middle: [1.0, 0.0, 0.0], columns: [0.0, 0.0, -1.0], rows: [0.0, -1.0, 0.0] },
    Face { middle: [-1.0, 0.0, 0.0], columns: [0.0, 0.0, 1.0], rows: [0.0, -1.0, 0.0] },
    Face { middle: [0.0, 1.0, 0.0], columns: [1.0, 0.0, 0.0], rows: [0.0, 0.0, 1.0] },
    // Down, front, back.
    Face { middle: [0.0, -1.0, 0.0], columns: [1.0, 0.0, 0.0], rows: [0.0, 0.0, -1.0] },
    Face { middle: [0.0, 0.0, 1.0], columns: [1.0, 0.0, 0.0], rows: [0.0, -1.0, 0.0] },
    Face { middle: [0.0, 0.0, -1.0], columns: [-1.0, 0.0, 0.0], rows: [0.0, -1.0, 0.0] },
];

impl Projection {
    /// Number of eyes that have a picture of their own.
    #[must_use]
    pub fn eyes(self) -> usize {
        match self {
            Self::Equirectangular | Self::Cubemap => 1,
            Self::TopBottom => 2,
        }
    }

    /// Position of a direction; the left eye's of two.
    #[must_use]
    pub fn place_of(self, direction: Direction) -> PicturePoint {
        match self {
            Self::Equirectangular => {
                let (yaw, pitch) = direction.angles();
                PicturePoint { u: yaw / TAU + 0.5, v: 0.5 - pitch / PI }
            }
            Self::TopBottom => {
                let PicturePoint { u, v } = Self::Equirectangular.place_of(direction);
                PicturePoint { u, v: v / 2.0 }
            }
            Self::Cubemap => {
                let (face, across, down) = on_face(direction);
                let (column, row) = ((face % 3) as f64, (face / 3) as f64);
                PicturePoint { u: (column + (across + 1.0) / 2.0) / 3.0, v: (row + (down + 1.0) / 2.0) / 2.0 }
            }
        }
    }

    /// The direction, of length 1, at a position. Positions outside the picture count as on its edge.
    #[must_use]
    pub fn direction_at(self, place: PicturePoint) -> Direction {
        let (u, v) = (place.u.clamp(0.0, 1.0), place.v.clamp(0.0, 1.0));
        match self {
            Self::Equirectangular => Direction::from_angles((u - 0.5) * TAU, (0.5 - v) * PI),
            Self::TopBottom => {
                let eye = if v < 0.5 { 0.0 } else { 1.0 };
                Self::Equirectangular.direction_at(PicturePoint { u, v: 2.0 * v - eye })
            }
            Self::Cubemap => {
                let (column, row) = ((u * 3.0).min(2.999_999_999_9), (v * 2.0).min(1.999_999_999_9));
                let face = &FACES[column as usize + 3 * row as usize];
                let across = 2.0 * (u * 3.0 - libm::floor(column)) - 1.0;
                let down = 2.0 * (v * 2.0 - libm::floor(row)) - 1.0;
                let at =
                    |axis: usize| face.middle[axis] + across * face.columns[axis] + down * face.rows[axis];
                Direction { x: at(0), y: at(1), z: at(2) }.normalised()
            }
        }
    }

    /// The solid angle of the pixel in `column` and `row` of a picture of `width` × `height`, steradians.
    /// For an equirectangular picture it is exact; for a cubemap that of the pixel's middle times its area.
    #[must_use]
    pub fn pixel_solid_angle(self, (column, row): (usize, usize), (width, height): (usize, usize)) -> f64 {
        match self {
            Self::Equirectangular => {
                let step = PI / height as f64;
                let top = FRAC_PI_2 - row as f64 * step;
                solid_angle(top - step, top, TAU / width as f64)
            }
            Self::TopBottom => {
                let eye = (height / 2).max(1);
                Self::Equirectangular.pixel_solid_angle((column, row % eye), (width, eye))
            }
            Self::Cubemap => {
                let u = (column as f64 + 0.5) / width as f64 * 3.0;
                let v = (row as f64 + 0.5) / height as f64 * 2.0;
                let across = 2.0 * (u - libm::floor(u)) - 1.0;
                let down = 2.0 * (v - libm::floor(v)) - 1.0;
                let distance = 1.0 + across * across + down * down;
                24.0 / (width as f64 * height as f64) / (distance * distance.sqrt())
            }
        }
    }
}

/// The face that a direction hits, and the position on it: −1…1 along its columns and rows.
fn on_face(direction: Direction) -> (usize, f64, f64) {
    let Direction { x, y, z } = direction;
    let face = if x.abs() >= y.abs() && x.abs() >= z.abs() {
        usize::from(x < 0.0)
    } else if y.abs() >= z.abs() {
        if y > 0.0 { 2 } else { 3 }
    } else if z > 0.0 {
        4
    } else {
        5
    };
    let Face { middle, columns, rows } = &FACES[face];
    let along = |axis: &[f64; 3]| axis[0] * x + axis[1] * y + axis[2] * z;
    let depth = along(middle).max(f64::MIN_POSITIVE);
    (face, (along(columns) / depth).clamp(-1.0, 1.0), (along(rows) / depth).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ahead_is_the_middle_of_the_panorama() {
        let place = Projection::Equirectangular.place_of(Direction::AHEAD);
        assert_eq!((place.u, place.v), (0.5, 0.5));
        let right = Projection::Equirectangular.place_of(Direction { x: 1.0, y: 0.0, z: 0.0 });
        assert_eq!((right.u, right.v), (0.75, 0.5));
    }

    #[test]
    fn ahead_is_the_middle_of_the_front_face() {
        let place = Projection::Cubemap.place_of(Direction::AHEAD);
        assert_eq!((place.u, place.v), (0.5, 0.75));
    }

    #[test]
    fn both_eyes_see_the_same_directions() {
        let both = Projection::TopBottom;
        assert_eq!(both.place_of(Direction::AHEAD), PicturePoint { u: 0.5, v: 0.25 });
        let left = both.direction_at(PicturePoint { u: 0.6, v: 0.1 });
        assert_eq!(left, Projection::Equirectangular.direction_at(PicturePoint { u: 0.6, v: 0.2 }));
        assert!(left.angle_to(both.direction_at(PicturePoint { u: 0.6, v: 0.6 })) < 1e-7);
    }

    #[test]
    fn pixels_make_up_the_sphere() {
        for (projection, size) in [
            (Projection::Equirectangular, (64, 32)),
            (Projection::Cubemap, (96, 64)),
            (Projection::TopBottom, (64, 64)),
        ] {
            let mut sum = 0.0;
            for row in 0..size.1 {
                for column in 0..size.0 {
                    sum += projection.pixel_solid_angle((column, row), size);
                }
            }
            let error = (sum / (4.0 * PI * projection.eyes() as f64) - 1.0).abs();
            assert!(error < 1e-3, "{projection:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn projections_are_invertible(yaw in -3.1f64..3.1, pitch in -1.5f64..1.5) {
            let direction = Direction::from_angles(yaw, pitch);
            for projection in [Projection::Equirectangular, Projection::Cubemap, Projection::TopBottom] {
                let again = projection.direction_at(projection.place_of(direction));
                prop_assert!(direction.angle_to(again) < 1e-7, "{:?}: {:?} {:?}", projection, direction, again);
            }
        }
    }
}
