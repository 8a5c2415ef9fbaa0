//! The lookup table of one view and one plane: for every pixel the upper left of its four samples, and how
//! far it lies from it.
//!
//! The map is smooth, so it is computed exactly only at the corners of blocks and taken straight in
//! between, wherever the block's middle shows an error under a thirty-second of a sample; blocks at a pole,
//! across a seam of the cube, or otherwise bent are computed pixel by pixel.

use super::lookup;
use super::map::{Map, Source};
use crate::picture::Plane;

/// Pixels per side of a block.
const BLOCK: usize = 8;
/// The error at a block's middle from which on it is computed pixel by pixel, samples.
const BENT: f64 = 1.0 / 32.0;
/// Rows of the viewport whose samples are fetched beforehand.
const AHEAD: usize = 4;
/// Binary digits after the point of a coordinate; weights are the upper seven of them.
const DIGITS: u32 = 14;

/// A table; empty until it is built.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// Per pixel, the index of the upper left sample.
    offsets: Vec<u32>,
    /// Per pixel, how far right and down of it, of 128.
    across: Vec<u8>,
    down: Vec<u8>,
    width: usize,
    /// Samples per row of the plane.
    stride: usize,
    /// Pixels between the plane's last column and its first.
    seam: Vec<Seam>,
}

/// A pixel whose left samples are in the last column and whose right ones in the first.
#[derive(Debug, Clone, Copy)]
struct Seam {
    pixel: u32,
    row: u32,
    across: u8,
}

impl Table {
    /// Computes the table of a map for a viewport of `width` × `height` pixels.
    pub(super) fn build(&mut self, map: &Map, (width, height): (usize, usize)) {
        self.offsets.resize(width * height, 0);
        self.across.resize(width * height, 0);
        self.down.resize(width * height, 0);
        (self.width, self.stride) = (width, map.size.0);
        self.seam.clear();
        pulp::Arch::new().dispatch(Build { table: self, map, height });
    }

    #[inline(always)]
    fn fill(&mut self, map: &Map, height: usize) {
        let columns = self.width.div_ceil(BLOCK);
        let corners_at = |row: usize| -> Vec<Source> {
            (0..=columns).map(|column| map.source((column * BLOCK) as f64, row as f64)).collect()
        };
        let mut above = corners_at(0);
        for top in (0..height).step_by(BLOCK) {
            let below = corners_at(top + BLOCK);
            for column in 0..columns {
                let block = Block {
                    left: column * BLOCK,
                    top,
                    right: (column * BLOCK + BLOCK).min(self.width),
                    bottom: (top + BLOCK).min(height),
                };
                let corners = [above[column], above[column + 1], below[column], below[column + 1]];
                match straight(map, &block, corners) {
                    Some(places) => self.fill_straight(&block, places),
                    None => self.fill_exactly(map, &block),
                }
            }
            above = below;
        }
    }

    /// Looks every pixel up in a plane of the size the table was built for.
    pub(super) fn apply(&self, plane: &Plane<'_>, seen: &mut [u8]) {
        pulp::Arch::new().dispatch(Apply { table: self, plane, seen: &mut *seen });
        for seam in &self.seam {
            let pixel = seam.pixel as usize;
            let row = seam.row as usize;
            let blend = |row: usize| {
                let samples = plane.row(row);
                let (left, right) = (u32::from(samples[self.stride - 1]), u32::from(samples[0]));
                left * (128 - u32::from(seam.across)) + right * u32::from(seam.across)
            };
            let down = u32::from(self.down[pixel]);
            seen[pixel] = ((blend(row) * (128 - down) + blend(row + 1) * down + (1 << 13)) >> 14) as u8;
        }
    }

    #[inline(always)]
    fn rows(&self, plane: &Plane<'_>, seen: &mut [u8]) {
        let rows = seen.chunks_exact_mut(self.width).zip(self.offsets.chunks_exact(self.width));
        let weights = self.across.chunks_exact(self.width).zip(self.down.chunks_exact(self.width));
        for (at, ((seen, offsets), (across, down))) in rows.zip(weights).enumerate() {
            let ahead = (at + AHEAD) * self.width;
            lookup::touch(
                plane.samples(),
                self.stride,
                self.offsets.get(ahead..ahead + self.width).unwrap_or(&[]),
            );
            lookup::row(plane.samples(), self.stride, (offsets, across, down), seen);
        }
    }

    fn fill_exactly(&mut self, map: &Map, block: &Block) {
        for row in block.top..block.bottom {
            for column in block.left..block.right {
                let Source { x, y, face } = map.source(column as f64, row as f64);
                let fixed = |value: f64| libm::floor(value * f64::from(1 << DIGITS)) as i32;
                self.set(map, row * self.width + column, (fixed(x), fixed(y)), map.bounds(face));
            }
        }
    }

    #[inline(always)]
    fn fill_straight(
        &mut self,
        block: &Block,
        [upper_left, upper_right, lower_left, lower_right]: [Place; 4],
    ) {
        let between = |a: i32, b: i32, share: usize| a + ((b - a) >> 3) * share as i32;
        let along = |a: Place, b: Place, share| (between(a.0, b.0, share), between(a.1, b.1, share));
        let stride = self.stride as i32;
        for row in block.top..block.bottom {
            let left = along(upper_left, lower_left, row - block.top);
            let right = along(upper_right, lower_right, row - block.top);
            let step = ((right.0 - left.0) >> 3, (right.1 - left.1) >> 3);
            let pixels = row * self.width + block.left..row * self.width + block.right;
            let weights = self.across[pixels.clone()].iter_mut().zip(&mut self.down[pixels.clone()]);
            for (share, (offset, (across, down))) in (0..).zip(self.offsets[pixels].iter_mut().zip(weights)) {
                let (x, y) = (left.0 + step.0 * share, left.1 + step.1 * share);
                *offset = ((y >> DIGITS) * stride + (x >> DIGITS)) as u32;
                (*across, *down) = (weight(x), weight(y));
            }
        }
    }

    /// Enters one pixel: coordinates with [`DIGITS`] binary digits, blended within `bounds` only.
    #[inline]
    fn set(&mut self, map: &Map, pixel: usize, (x, y): (i32, i32), bounds: [usize; 4]) {
        const LAST: i32 = (1 << DIGITS) - 1;
        let [first_column, first_row, columns_end, rows_end] = bounds.map(|bound| bound as i32);
        // Over a face's edge its outermost samples go on.
        let y = y.clamp(first_row << DIGITS, ((rows_end - 2) << DIGITS) + LAST);
        let (row, down) = (y >> DIGITS, (y >> (DIGITS - 7)) & 127);
        let mut x = x;
        if map.goes_round() {
            let round = columns_end << DIGITS;
            x = if x < 0 { x + round } else { x };
            x = if x >= round { x - round } else { x };
            if x >> DIGITS == columns_end - 1 {
                let across = ((x >> (DIGITS - 7)) & 127) as u8;
                self.seam.push(Seam { pixel: pixel as u32, row: row as u32, across });
            }
        }
        let x = x.clamp(first_column << DIGITS, ((columns_end - 2) << DIGITS) + LAST);
        let (column, across) = (x >> DIGITS, (x >> (DIGITS - 7)) & 127);
        self.offsets[pixel] = row as u32 * self.stride as u32 + column as u32;
        self.across[pixel] = across as u8;
        self.down[pixel] = down as u8;
    }
}

/// The upper seven binary digits after the point.
#[inline(always)]
fn weight(coordinate: i32) -> u8 {
    ((coordinate >> (DIGITS - 7)) & 127) as u8
}

/// Building, to be compiled for each kind of processor. The same whole numbers come of it everywhere.
struct Build<'a> {
    table: &'a mut Table,
    map: &'a Map,
    height: usize,
}

impl pulp::NullaryFnOnce for Build<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.table.fill(self.map, self.height);
    }
}

/// All lookups of a plane, likewise.
struct Apply<'a> {
    table: &'a Table,
    plane: &'a Plane<'a>,
    seen: &'a mut [u8],
}

impl pulp::NullaryFnOnce for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.table.rows(self.plane, self.seen);
    }
}

/// Column and row with [`DIGITS`] binary digits.
type Place = (i32, i32);

/// A block's pixels: from left and top, up to right and bottom.
struct Block {
    left: usize,
    top: usize,
    right: usize,
    bottom: usize,
}

fn place(source: &Source) -> Place {
    let fixed = |value: f64| libm::floor(value * f64::from(1 << DIGITS)) as i32;
    (fixed(source.x), fixed(source.y))
}

fn bounds(map: &Map, face: usize) -> [i32; 4] {
    map.bounds(face).map(|bound| bound as i32)
}

/// A block's corners, if the map is straight enough between its corners, and
/// all four samples of each of its pixels lie within its face.
fn straight(map: &Map, block: &Block, mut corners: [Source; 4]) -> Option<[Place; 4]> {
    if corners.iter().any(|corner| corner.face != corners[0].face) {
        return None;
    }
    let round = if map.goes_round() { map.size.0 as f64 } else { 0.0 };
    let first = corners[0].x;
    let nearest = |x: f64| x - round * libm::floor((x - first) / round.max(1.0) + 0.5);
    for corner in &mut corners[1..] {
        corner.x = nearest(corner.x);
    }
    let mean = |of: fn(&Source) -> f64| corners.iter().map(of).sum::<f64>() / 4.0;
    let half = BLOCK as f64 / 2.0;
    let middle = map.source(block.left as f64 + half, block.top as f64 + half);
    let error =
        (mean(|corner| corner.x) - nearest(middle.x)).abs().max((mean(|corner| corner.y) - middle.y).abs());
    // Next to a pole the middle may look straight by chance; there is a row of samples' distance there.
    let near_pole = map.goes_round() && corners.iter().any(|corner| pole_distance(map, corner) < POLE_ROWS);
    let [first_column, first_row, columns_end, rows_end] = bounds(map, corners[0].face);
    let places = corners.map(|corner| place(&corner));
    // A sample's margin for what the division of the sides loses.
    let within = |at: i32, first: i32, end: i32| (first + 1) << DIGITS <= at && at < (end - 2) << DIGITS;
    let inside = |&(x, y): &Place| within(x, first_column, columns_end) && within(y, first_row, rows_end);
    let fits = places.iter().all(inside);
    (error < BENT && middle.face == corners[0].face && !near_pole && fits).then_some(places)
}

/// Blocks with a corner within this share of the height from a pole are computed exactly: 4.5°.
const POLE_ROWS: f64 = 0.025;

fn pole_distance(map: &Map, corner: &Source) -> f64 {
    let share = (corner.y + 0.5) / map.size.1 as f64;
    share.min(1.0 - share)
}
