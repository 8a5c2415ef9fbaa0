//! The lookup table of one view and one plane: for every pixel the upper left of its four samples, and the
//! distance from it.
//!
//! The map is smooth, so it is computed exactly only at the corners of blocks and interpolated linearly
//! inside a block if the error at its middle is below 1/32 sample. Blocks at a pole, across a seam of the
//! cube, or otherwise curved are computed pixel by pixel.

use super::lookup::{self, GROUP, Row, WINDOW};
use super::map::{Map, Source};
use crate::picture::Plane;

/// Pixels per side of a block; each of its rows is a group.
const BLOCK: usize = GROUP;
/// Largest error at a block's middle, in samples; above it the block is computed pixel by pixel.
const MOST_DEVIATION: f64 = 1.0 / 32.0;
/// Rows of the viewport that are prefetched.
const AHEAD: usize = 4;
/// Fractional binary digits of a coordinate; weights are the upper four of them, rounded.
const DIGITS: u32 = 14;
/// Binary digits of a weight.
const WEIGHT: u32 = 4;

/// A table; empty until it is built.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// As in [`Row`], row by row.
    bases: Vec<u32>,
    steps: Vec<u16>,
    weights: Vec<u8>,
    /// Groups per row of the viewport.
    groups: usize,
    /// Pixels per row of the viewport.
    width: usize,
    /// Samples per row of the plane.
    stride: usize,
    /// The largest base, so that the window's samples also exist in its lower row.
    last_base: u32,
    /// Pixels that do not fit into the table.
    apart: Vec<Apart>,
}

/// A pixel that is looked up separately: between the plane's last column and its first, or too far from its
/// group's base.
#[derive(Debug, Clone, Copy)]
struct Apart {
    pixel: u32,
    entry: Entry,
}

/// The positions of one pixel's samples: the upper left and the upper right one.
#[derive(Debug, Clone, Copy)]
struct Entry {
    left: u32,
    right: u32,
    weights: u8,
}

impl Table {
    /// Computes the table of a map for a viewport of `width` × `height` pixels.
    pub(super) fn build(&mut self, map: &Map, (width, height): (usize, usize)) {
        (self.width, self.stride) = (width, map.size.0);
        self.groups = width.div_ceil(GROUP);
        let groups = self.groups * height;
        self.bases.resize(groups, 0);
        self.steps.resize(groups * GROUP, 0);
        self.weights.resize(groups * GROUP, 0);
        self.last_base = (map.size.0 * map.size.1).saturating_sub(map.size.0 + WINDOW) as u32;
        self.apart.clear();
        pulp::Arch::new().dispatch(Build { table: self, map, height });
    }

    #[inline(always)]
    fn fill(&mut self, map: &Map, height: usize) {
        let groups = self.groups;
        let corners_at = |row: usize| -> Vec<Source> {
            (0..=groups).map(|column| map.source((column * BLOCK) as f64, row as f64)).collect()
        };
        let mut above = corners_at(0);
        for top in (0..height).step_by(BLOCK) {
            let below = corners_at(top + BLOCK);
            for column in 0..groups {
                let block = Block { left: column * BLOCK, top, bottom: (top + BLOCK).min(height) };
                let corners = [above[column], above[column + 1], below[column], below[column + 1]];
                match straight(map, &block, corners) {
                    Some(places) => self.fill_straight(&block, places),
                    None => self.fill_exactly(map, &block),
                }
            }
            above = below;
        }
    }

    /// Looks up every pixel in planes of the table's size.
    pub(super) fn apply<const N: usize>(&self, planes: [&Plane<'_>; N], mut seen: [&mut [u8]; N]) {
        pulp::Arch::new().dispatch(Apply { table: self, planes, seen: seen.each_mut() });
        for (plane, seen) in planes.into_iter().zip(seen) {
            for Apart { pixel, entry: Entry { left, right, weights } } in &self.apart {
                let (across, down) = (u16::from(weights & 15), u16::from(weights >> WEIGHT));
                let blend = |below: usize| {
                    let sample = |at: u32| u16::from(plane.samples()[at as usize + below]);
                    sample(*left) * (16 - across) + sample(*right) * across
                };
                let both = blend(0) * (16 - down) + blend(self.stride) * down;
                seen[*pixel as usize] = ((both + 128) >> 8) as u8;
            }
        }
    }

    /// Processes the planes alternately row by row, so that a row of the table is read from memory once.
    #[inline(always)]
    fn rows<const N: usize>(&self, planes: [&Plane<'_>; N], mut seen: [&mut [u8]; N]) {
        let (groups, pixels) = (self.groups, self.groups * GROUP);
        for at in 0..self.bases.len() / groups {
            let row = Row {
                bases: &self.bases[at * groups..][..groups],
                steps: &self.steps[at * pixels..][..pixels],
                weights: &self.weights[at * pixels..][..pixels],
            };
            let ahead = self.bases.get((at + AHEAD) * groups..).and_then(|bases| bases.get(..groups));
            for (plane, seen) in planes.iter().zip(&mut seen) {
                lookup::touch(plane.samples(), self.stride, ahead.unwrap_or(&[]));
                let seen = &mut seen[at * self.width..][..self.width];
                lookup::row(plane.samples(), self.stride, row, seen);
            }
        }
    }

    fn fill_exactly(&mut self, map: &Map, block: &Block) {
        for row in block.top..block.bottom {
            let entries = std::array::from_fn(|at| {
                let source = map.source((block.left + at) as f64, row as f64);
                entry(map, place(&source), map.bounds(source.face))
            });
            self.enter(row, block.left, &entries);
        }
    }

    #[inline(always)]
    fn fill_straight(
        &mut self,
        block: &Block,
        [upper_left, upper_right, lower_left, lower_right]: [PicturePoint; 4],
    ) {
        let between = |a: i32, b: i32, share: usize| a + ((b - a) >> 3) * share as i32;
        let along =
            |a: PicturePoint, b: PicturePoint, share| (between(a.0, b.0, share), between(a.1, b.1, share));
        let stride = self.stride as i32;
        for row in block.top..block.bottom {
            let left = along(upper_left, lower_left, row - block.top);
            let right = along(upper_right, lower_right, row - block.top);
            let step = ((right.0 - left.0) >> 3, (right.1 - left.1) >> 3);
            let (mut places, mut weights) = ([0; GROUP], [0; GROUP]);
            for (share, (place, weight)) in (0..).zip(places.iter_mut().zip(&mut weights)) {
                let (x, y) = (left.0 + step.0 * share, left.1 + step.1 * share);
                *place = ((y >> DIGITS) * stride + (x >> DIGITS)) as u32;
                *weight = weights_of(x, y);
            }
            let base = places.iter().fold(self.last_base, |least, place| least.min(*place));
            let most = places.iter().fold(0, |most, place| most.max(*place));
            if most - base > u32::from(u16::MAX) {
                let entry =
                    |at: usize| Entry { left: places[at], right: places[at] + 1, weights: weights[at] };
                self.enter(row, block.left, &std::array::from_fn(entry));
                continue;
            }
            let group = row * self.groups + block.left / GROUP;
            self.bases[group] = base;
            for (step, place) in self.steps[group * GROUP..][..GROUP].iter_mut().zip(places) {
                *step = (place - base) as u16;
            }
            self.weights[group * GROUP..][..GROUP].copy_from_slice(&weights);
        }
    }

    /// Stores one group; pixels that do not fit are stored separately.
    fn enter(&mut self, row: usize, left: usize, entries: &[Entry; GROUP]) {
        let group = row * self.groups + left / GROUP;
        let base = entries.iter().fold(self.last_base, |least, entry| least.min(entry.left));
        self.bases[group] = base;
        for (at, entry) in entries.iter().enumerate() {
            let step = u16::try_from(entry.left - base);
            self.steps[group * GROUP + at] = step.unwrap_or(0);
            self.weights[group * GROUP + at] = entry.weights;
            let column = left + at;
            if column < self.width && (step.is_err() || entry.right != entry.left + 1) {
                self.apart.push(Apart { pixel: (row * self.width + column) as u32, entry: *entry });
            }
        }
    }
}

/// One pixel's entry, with samples only within `bounds`.
fn entry(map: &Map, (x, y): PicturePoint, bounds: [usize; 4]) -> Entry {
    const LAST: i32 = (1 << DIGITS) - 1;
    let [first_column, first_row, columns_end, rows_end] = bounds.map(|bound| bound as i32);
    // Beyond a face's edge its outermost samples are repeated.
    let y = y.clamp(first_row << DIGITS, ((rows_end - 2) << DIGITS) + LAST);
    let row = (y >> DIGITS) as u32 * map.size.0 as u32;
    if map.goes_round() {
        let x = x.rem_euclid(columns_end << DIGITS);
        let left = x >> DIGITS;
        let right = if left == columns_end - 1 { 0 } else { left + 1 };
        return Entry { left: row + left as u32, right: row + right as u32, weights: weights_of(x, y) };
    }
    let x = x.clamp(first_column << DIGITS, ((columns_end - 2) << DIGITS) + LAST);
    let left = row + (x >> DIGITS) as u32;
    Entry { left, right: left + 1, weights: weights_of(x, y) }
}

/// Packs both weights of a pixel.
#[inline(always)]
fn weights_of(x: i32, y: i32) -> u8 {
    let digits = |coordinate: i32| (coordinate >> (DIGITS - WEIGHT)) & 15;
    (digits(x) | digits(y) << WEIGHT) as u8
}

/// Building, compiled for each kind of processor. The results are the same integers everywhere.
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

/// The lookups of planes of one size, compiled in the same way.
struct Apply<'a, 'p, 's, const N: usize> {
    table: &'a Table,
    planes: [&'a Plane<'p>; N],
    seen: [&'a mut &'s mut [u8]; N],
}

impl<const N: usize> pulp::NullaryFnOnce for Apply<'_, '_, '_, N> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.table.rows(self.planes, self.seen.map(|seen| &mut **seen));
    }
}

/// Column and row with [`DIGITS`] binary digits.
type PicturePoint = (i32, i32);

/// A block's pixels: from left and top, down to bottom; the last block of a row may extend beyond the edge.
struct Block {
    left: usize,
    top: usize,
    bottom: usize,
}

fn place(source: &Source) -> PicturePoint {
    // Half a weight step is added, so that truncation rounds.
    let half = f64::from(1 << (DIGITS - WEIGHT - 1));
    let fixed = |value: f64| libm::floor(value * f64::from(1 << DIGITS) + half) as i32;
    (fixed(source.x), fixed(source.y))
}

fn bounds(map: &Map, face: usize) -> [i32; 4] {
    map.bounds(face).map(|bound| bound as i32)
}

/// A block's entries by interpolation between its corners, if the map is linear enough and all samples are
/// within its face.
fn straight(map: &Map, block: &Block, mut corners: [Source; 4]) -> Option<[PicturePoint; 4]> {
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
    // Close to a pole the error at the middle may be small by chance, so a distance in rows of samples is
    // required.
    let near_pole = map.goes_round() && corners.iter().any(|corner| pole_distance(map, corner) < POLE_ROWS);
    let [first_column, first_row, columns_end, rows_end] = bounds(map, corners[0].face);
    let places = corners.map(|corner| place(&corner));
    // A margin of one sample for the rounding of the division.
    let within = |at: i32, first: i32, end: i32| (first + 1) << DIGITS <= at && at < (end - 2) << DIGITS;
    let inside =
        |&(x, y): &PicturePoint| within(x, first_column, columns_end) && within(y, first_row, rows_end);
    let fits = places.iter().all(inside);
    (error < MOST_DEVIATION && middle.face == corners[0].face && !near_pole && fits).then_some(places)
}

/// Blocks with a corner within this share of the height from a pole (4.5°) are computed exactly.
const POLE_ROWS: f64 = 0.025;

fn pole_distance(map: &Map, corner: &Source) -> f64 {
    let share = (corner.y + 0.5) / map.bounds(corner.face)[3] as f64;
    share.min(1.0 - share)
}
