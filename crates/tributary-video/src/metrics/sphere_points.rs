//! S-PSNR: errors at points spread evenly over the sphere, independent of the projections of the two
//! pictures.
//!
//! Deviates: the points are a Fibonacci lattice of any size instead of the published list of 655 362; both
//! are even, and a lattice needs no file. Source: Yu, Lakshman and Girod, ISMAR 2015; JVET-H1030 (nearest
//! neighbour, S-PSNR-NN).

use crate::picture::Plane;
use crate::projection::Projection;
use crate::sphere::Direction;

/// The length of the published list.
const PUBLISHED: usize = 655_362;

/// Points on the sphere, reusable for many pictures.
#[derive(Debug, Clone)]
pub struct SpherePoints {
    points: Vec<Direction>,
}

impl Default for SpherePoints {
    fn default() -> Self {
        Self::new(PUBLISHED)
    }
}

impl SpherePoints {
    /// A lattice of `count` points, limited to 1 to 16 million.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let count = count.clamp(1, 1 << 24);
        // Each point is turned by the golden angle; heights are evenly spaced.
        let golden = std::f64::consts::PI * (3.0 - 5f64.sqrt());
        let point = |at: usize| {
            let y = 1.0 - (2.0 * at as f64 + 1.0) / count as f64;
            let radius = (1.0 - y * y).sqrt();
            let (sin, cos) = libm::sincos(golden * at as f64);
            Direction { x: radius * sin, y, z: radius * cos }
        };
        Self { points: (0..count).map(point).collect() }
    }

    /// Number of points.
    #[must_use]
    pub fn count(&self) -> usize {
        self.points.len()
    }

    /// The mean squared error over the points, each taken from the nearest sample. The planes may differ in
    /// size and projection.
    #[must_use]
    pub fn mse(&self, a: (&Plane<'_>, Projection), b: (&Plane<'_>, Projection)) -> f64 {
        let sum: u64 = self
            .points
            .iter()
            .map(|point| {
                let difference = u64::from(nearest(a, *point).abs_diff(nearest(b, *point)));
                difference * difference
            })
            .sum();
        sum as f64 / self.points.len() as f64
    }
}

fn nearest((plane, projection): (&Plane<'_>, Projection), direction: Direction) -> u8 {
    let place = projection.place_of(direction);
    let at = |share: f64, size: usize| ((share * size as f64) as usize).min(size - 1);
    plane.row(at(place.v, plane.height()))[at(place.u, plane.width())]
}
