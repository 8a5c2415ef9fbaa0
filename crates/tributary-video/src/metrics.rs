//! Picture quality: PSNR, and its variants for panoramas.
//!
//! All functions take luma planes and return mean squared errors. [`psnr_db`] converts to decibels, and
//! [`Summary`] gives both common means, which can differ by several decibels. The quality that a viewer saw
//! is the error of two rendered viewports ([`mse`] of `render`'s pictures). Sources: WS-PSNR, Sun, Lu and Yu,
//! IEEE SPL 24(9), 2017, and JVET-H1030; S-PSNR, Yu, Lakshman and Girod, ISMAR 2015.

mod sphere_points;
mod summary;

use crate::picture::{PictureError, Plane};
use crate::projection::Projection;

pub use sphere_points::SpherePoints;
pub use summary::{MOST_DB, Summary};

/// Peak signal-to-noise ratio of a mean squared error of eight-bit samples, dB; infinite for 0.
#[must_use]
pub fn psnr_db(mse: f64) -> f64 {
    if mse > 0.0 { 10.0 * libm::log10(255.0 * 255.0 / mse) } else { f64::INFINITY }
}

/// The mean squared error of two planes.
///
/// # Errors
/// They differ in size.
pub fn mse(a: &Plane<'_>, b: &Plane<'_>) -> Result<f64, PictureError> {
    a.require_size_of(b)?;
    let sum: u64 = (0..a.height()).map(|row| squared_error(a.row(row), b.row(row))).sum();
    Ok(sum as f64 / a.samples().len() as f64)
}

/// The mean squared error over the sphere: each pixel is weighted with its solid angle (WS-PSNR).
///
/// # Errors
/// They differ in size.
pub fn ws_mse(a: &Plane<'_>, b: &Plane<'_>, projection: Projection) -> Result<f64, PictureError> {
    a.require_size_of(b)?;
    let (width, height) = (a.width(), a.height());
    let (mut errors, mut weights) = (0.0, 0.0);
    match projection {
        Projection::Equirectangular => {
            for row in 0..height {
                // JVET-H1030: the cosine of the latitude of the row's middle.
                let latitude =
                    (row as f64 + 0.5 - height as f64 / 2.0) * std::f64::consts::PI / height as f64;
                let weight = libm::cos(latitude);
                errors += weight * squared_error(a.row(row), b.row(row)) as f64;
                weights += weight * width as f64;
            }
        }
        Projection::Cubemap | Projection::TopBottom => {
            for row in 0..height {
                for (column, (a, b)) in a.row(row).iter().zip(b.row(row)).enumerate() {
                    let weight = projection.pixel_solid_angle((column, row), (width, height));
                    errors += weight * f64::from(a.abs_diff(*b)) * f64::from(a.abs_diff(*b));
                    weights += weight;
                }
            }
        }
    }
    Ok(errors / weights)
}

/// Squared differences added in 32 bits at once: 8192 · 255² is a quarter of 2³¹.
const ADDED_AT_ONCE: usize = 8192;

/// The sum of squared differences of two rows of equal length.
fn squared_error(a: &[u8], b: &[u8]) -> u64 {
    // Products of 16-bit differences, added in pairs, are one SSE2 instruction: twice as fast as 32-bit
    // products.
    let square = |(a, b): (&u8, &u8)| {
        let difference = i32::from(i16::from(*a) - i16::from(*b));
        difference * difference
    };
    let part = |(a, b): (&[u8], &[u8])| u64::from(a.iter().zip(b).map(square).sum::<i32>().unsigned_abs());
    a.chunks(ADDED_AT_ONCE).zip(b.chunks(ADDED_AT_ONCE)).map(part).sum()
}

#[cfg(test)]
mod tests;
