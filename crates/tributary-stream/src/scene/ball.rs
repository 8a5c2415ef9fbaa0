//! Moving objects: spheres drawn by ray casting, and their paths.

use super::{Canvas, yuv};
use core::f32::consts::{PI, TAU};

/// Direction of the sun, unit length.
const SUN: [f32; 3] = [0.48, 0.64, 0.6];

/// A sphere on a circle around the camera.
#[derive(Clone, Debug)]
pub(super) struct Ball {
    /// Distance from the camera and radius, in metres.
    distance: f32,
    radius: f32,
    /// Azimuth in radians at the start, and its change in radians per second.
    azimuth: f32,
    orbit: f32,
    /// Height of the centre over the camera in metres; `bounce` is the height of its jumps above that.
    height: f32,
    bounce: f32,
    /// Turns per second about its own axis.
    spin: f32,
    colours: [[f32; 3]; 2],
    /// Number of stripes around it, and of rings from pole to pole.
    stripes: f32,
    rings: f32,
}

/// The globe in the square and the balls.
pub(super) fn all() -> Vec<Ball> {
    let globe = Ball {
        distance: 9.0,
        radius: 2.6,
        azimuth: 0.9,
        orbit: 0.0,
        height: 2.4,
        bounce: 0.0,
        spin: 0.2,
        colours: [[0.95, 0.93, 0.86], [0.10, 0.38, 0.72]],
        stripes: 12.0,
        rings: 8.0,
    };
    let palette =
        [[0.90, 0.22, 0.18], [0.98, 0.72, 0.12], [0.15, 0.62, 0.38], [0.55, 0.25, 0.75], [0.1, 0.6, 0.7]];
    let balls = palette.iter().enumerate().map(|(i, colour)| {
        let i = i as f32;
        Ball {
            distance: 4.0 + i * 1.1,
            radius: 0.55 + 0.1 * i,
            azimuth: i * TAU / 5.0,
            orbit: if (i as u32).is_multiple_of(2) { 0.9 - 0.1 * i } else { -0.5 - 0.1 * i },
            height: -0.9,
            bounce: 1.2 + 0.4 * i,
            spin: 0.7,
            colours: [*colour, [0.96, 0.96, 0.94]],
            stripes: 6.0,
            rings: 2.0,
        }
    });
    core::iter::once(globe).chain(balls).collect()
}

fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

impl Ball {
    /// The centre `seconds` after the start, for a camera turned by `heading`; x right, y up, z ahead.
    fn centre(&self, seconds: f32, heading: f32) -> [f32; 3] {
        let azimuth = self.azimuth + self.orbit * seconds - heading;
        let up = self.height + self.bounce * (seconds * 2.2 + self.azimuth).sin().abs();
        [self.distance * azimuth.sin(), up, self.distance * azimuth.cos()]
    }

    pub(super) fn draw(&self, canvas: &mut Canvas<'_>, seconds: f32, heading: f32) {
        let centre = self.centre(seconds, heading);
        let away = dot(centre, centre).sqrt();
        let size = (self.radius / away).min(0.99).asin();
        let latitude = (centre[1] / away).asin();
        let (width, height) = (canvas.width as f32, canvas.height as f32);
        let row_of = |latitude: f32| ((0.5 - latitude / PI) * height).clamp(0.0, height) as usize;
        // The largest half angle of a circle at this latitude; the whole circle when it covers a pole.
        let sine = size.sin() / latitude.cos().max(1e-3);
        let reach = if sine >= 1.0 { PI } else { sine.asin() };
        let columns = (reach / TAU * width) as i32 + 1;
        let middle = ((centre[0].atan2(centre[2]) / TAU + 0.5) * width) as i32;
        for y in row_of(latitude + size)..(row_of(latitude - size) + 1).min(canvas.height) {
            let (sin_row, cos_row) = ((0.5 - (y as f32 + 0.5) / height) * PI).sin_cos();
            for column in middle - columns..=middle + columns {
                let x = column.rem_euclid(canvas.width as i32) as usize;
                let (sin, cos) = (((x as f32 + 0.5) / width - 0.5) * TAU).sin_cos();
                let ray = [cos_row * sin, sin_row, cos_row * cos];
                if let Some(normal) = self.hit(ray, centre) {
                    canvas.set(x, y, yuv(self.colour(normal, seconds, heading)));
                }
            }
        }
    }

    /// The outward normal where `ray` meets the sphere.
    fn hit(&self, ray: [f32; 3], centre: [f32; 3]) -> Option<[f32; 3]> {
        let along = dot(ray, centre);
        let inside = along * along - (dot(centre, centre) - self.radius * self.radius);
        if inside < 0.0 || along < 0.0 {
            return None;
        }
        let far = along - inside.sqrt();
        Some(core::array::from_fn(|i| (ray[i] * far - centre[i]) / self.radius))
    }

    fn colour(&self, normal: [f32; 3], seconds: f32, heading: f32) -> [f32; 3] {
        let round = normal[0].atan2(normal[2]) + heading + self.spin * seconds * TAU;
        let over = normal[1].clamp(-1.0, 1.0).asin();
        let field = (round * self.stripes / TAU).floor() + (over * self.rings / PI).floor();
        let paint = self.colours[(field.rem_euclid(2.0)) as usize % 2];
        let sun = {
            let (sin, cos) = heading.sin_cos();
            [SUN[0] * cos - SUN[2] * sin, SUN[1], SUN[0] * sin + SUN[2] * cos]
        };
        let light = 0.34 + 0.72 * dot(normal, sun).max(0.0);
        let gloss = dot(normal, sun).max(0.0).powi(24) * 0.35;
        paint.map(|c| (c * light + gloss).min(1.0))
    }
}
