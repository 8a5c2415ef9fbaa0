//! The still background: sky, clouds, ground and houses, painted once for every direction.

use super::yuv;
use core::f32::consts::{PI, TAU};
use tributary_types::Rng;

/// Height of the camera over the ground in metres.
const EYE: f32 = 1.7;

/// A house seen from the square: a wall at a distance, from one azimuth to another.
struct House {
    from: f32,
    to: f32,
    distance: f32,
    height: f32,
    wall: [f32; 3],
}

/// Paints planar YUV 4:2:0 of `width` × `height`.
pub(super) fn paint(width: usize, height: usize) -> Vec<u8> {
    let houses = houses();
    let all = width * height;
    let mut out = vec![128; all * 3 / 2];
    for y in 0..height {
        let latitude = (0.5 - (y as f32 + 0.5) / height as f32) * PI;
        for x in 0..width {
            let azimuth = (x as f32 + 0.5) / width as f32 * TAU;
            let [luma, blue, red] = yuv(colour(azimuth, latitude, &houses));
            out[y * width + x] = luma;
            if x % 2 == 0 && y % 2 == 0 {
                let chroma = (y / 2) * (width / 2) + x / 2;
                out[all + chroma] = blue;
                out[all + all / 4 + chroma] = red;
            }
        }
    }
    out
}

fn houses() -> Vec<House> {
    let mut rng = Rng::new(360).child("houses");
    let mut houses = Vec::new();
    let mut from = 0.0;
    while from < TAU {
        let wide = 0.12 + 0.24 * rng.uniform() as f32;
        // Every fifth gap stays open, as a street out of the square.
        if !rng.chance(0.2) {
            let shade = 0.55 + 0.35 * rng.uniform() as f32;
            let warm = rng.uniform() as f32;
            houses.push(House {
                from,
                to: (from + wide).min(TAU),
                distance: 18.0 + 14.0 * rng.uniform() as f32,
                height: 6.0 + 16.0 * rng.uniform() as f32,
                wall: [shade, shade * (0.86 + 0.1 * warm), shade * (0.70 + 0.25 * (1.0 - warm))],
            });
        }
        from += wide;
    }
    houses
}

fn colour(azimuth: f32, latitude: f32, houses: &[House]) -> [f32; 3] {
    let slope = latitude.tan();
    for house in houses.iter().filter(|h| (h.from..h.to).contains(&azimuth)) {
        let up = EYE + house.distance * slope;
        if (0.0..house.height).contains(&up) {
            return wall(house, azimuth, up);
        }
    }
    if latitude >= 0.0 { sky(azimuth, latitude) } else { ground(azimuth, EYE / -slope) }
}

/// A wall with rows of windows and plaster.
fn wall(house: &House, azimuth: f32, up: f32) -> [f32; 3] {
    let along = (azimuth - house.from) * house.distance;
    let (column, row) = ((along / 1.8).floor(), (up / 2.6).floor());
    let (in_column, in_row) = (along / 1.8 - column, up / 2.6 - row);
    let plaster = 0.82 + 0.3 * noise(along * 9.0, up * 9.0) + 0.12 * noise(along * 40.0, up * 40.0);
    if (0.28..0.72).contains(&in_column) && (0.30..0.80).contains(&in_row) {
        let lit = hash(column as i32 + 977 * house.distance as i32, row as i32) > 0.8;
        let frame = !(0.33..0.67).contains(&in_column) || !(0.34..0.76).contains(&in_row);
        return match (frame, lit) {
            (true, _) => [0.92, 0.91, 0.88],
            (false, true) => [0.98, 0.85, 0.52],
            (false, false) => [0.18, 0.25, 0.34].map(|c| c * (0.7 + 0.6 * in_row)),
        };
    }
    house.wall.map(|c| c * plaster * (0.8 + 0.02 * up))
}

/// A gradient with clouds and the sun.
fn sky(azimuth: f32, latitude: f32) -> [f32; 3] {
    let high = (latitude / (PI / 2.0)).clamp(0.0, 1.0);
    // Straight ahead is the middle of the first picture, azimuth π of the town.
    let (sin, cos) = (azimuth - PI).sin_cos();
    // Clouds lie on a plane: they shrink towards the horizon and meet at the zenith.
    let far = 1.4 * latitude.cos() / (latitude.sin() + 0.12);
    let (u, v) = (far * sin, far * cos);
    let cover = (fractal(u * 1.3 + 40.0, v * 1.3 + 40.0) - 0.48).clamp(0.0, 0.3) / 0.3;
    let blue = [0.62 - 0.42 * high, 0.80 - 0.38 * high, 0.97 - 0.20 * high];
    let sun = (cos * latitude.cos() * 0.6 + latitude.sin() * 0.64 + sin * latitude.cos() * 0.48).max(0.0);
    let glow = sun.powi(60) * 0.5 + sun.powi(900) * 2.0;
    core::array::from_fn(|i| (blue[i] * (1.0 - cover) + 0.96 * cover + glow).min(1.0))
}

/// Paving stones, a ring road with a broken white line, and grass beyond.
fn ground(azimuth: f32, far: f32) -> [f32; 3] {
    let far = far.min(400.0);
    let (sin, cos) = azimuth.sin_cos();
    let (x, z) = (far * sin, far * cos);
    // Fine texture fades with distance, where it would cause aliasing.
    let fine = (noise(x * 14.0, z * 14.0) - 0.5) * 0.3 * (1.0 - far / 30.0).max(0.0);
    let rough = fractal(x * 0.9, z * 0.9) * 0.35 + fine + 0.8;
    if (11.0..15.0).contains(&far) {
        let dashed = (azimuth * 24.0 / TAU).fract() < 0.5 && (12.9..13.1).contains(&far);
        return if dashed { [0.93; 3] } else { [0.27, 0.28, 0.30].map(|c| c * rough) };
    }
    if far > 15.0 {
        return [0.33, 0.47, 0.24].map(|c| c * rough);
    }
    let joint = x.rem_euclid(0.8) < 0.05 || z.rem_euclid(0.8) < 0.05;
    let stone = 0.85 + 0.25 * hash((x / 0.8).floor() as i32, (z / 0.8).floor() as i32);
    if joint { [0.34, 0.33, 0.31] } else { [0.66, 0.61, 0.54].map(|c| c * stone * rough) }
}

/// A value in 0 to 1 for a lattice point.
fn hash(x: i32, y: i32) -> f32 {
    let mut h = (x as u32).wrapping_mul(0x9e37_79b1) ^ (y as u32).wrapping_mul(0x85eb_ca77);
    h = (h ^ h >> 15).wrapping_mul(0x2c1b_3c6d);
    h = (h ^ h >> 12).wrapping_mul(0x297a_2d39);
    ((h ^ h >> 15) >> 8) as f32 / (1_u32 << 24) as f32
}

/// Value noise in 0 to 1, smooth between lattice points.
fn noise(x: f32, y: f32) -> f32 {
    let (left, top) = (x.floor(), y.floor());
    let ease = |t: f32| t * t * (3.0 - 2.0 * t);
    let (u, v) = (ease(x - left), ease(y - top));
    let (i, j) = (left as i32, top as i32);
    let (i1, j1) = (i.wrapping_add(1), j.wrapping_add(1));
    let upper = hash(i, j) * (1.0 - u) + hash(i1, j) * u;
    let lower = hash(i, j1) * (1.0 - u) + hash(i1, j1) * u;
    upper * (1.0 - v) + lower * v
}

/// Four octaves of noise in 0 to 1.
fn fractal(x: f32, y: f32) -> f32 {
    (0..4).map(|o| noise(x * f32::powi(2.0, o), y * f32::powi(2.0, o)) * 0.5_f32.powi(o + 1)).sum::<f32>()
        / 0.9375
}
