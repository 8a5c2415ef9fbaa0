//! The lookup of one row: four samples per pixel, blended by their distances.
//!
//! Works on short pieces in two passes. The first gathers samples (no processor does that faster than plain
//! loads); the second blends, and the compiler vectorises it to sixteen or more pixels at a time. Tables are
//! read once per picture and exceed the caches, so they are compact: three and a half bytes per pixel.

/// Number of pixels that share a base.
pub(super) const GROUP: usize = 8;

/// Pixels per piece; its buffers fit into the first-level cache.
const PIECE: usize = 128;

/// Samples that a group can reach from its base: any 16-bit offset, and its right neighbour.
pub(super) const WINDOW: usize = u16::MAX as usize + 2;

/// One sample is prefetched per this many groups; more would disturb reading the table.
const TOUCHED: usize = 4;

/// The table of one row, in groups of [`GROUP`] pixels, the last one padded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    /// Per group, the sample from which its pixels' offsets count.
    pub bases: &'a [u32],
    /// Per pixel, the offset of the upper left of its four samples.
    pub steps: &'a [u16],
    /// Per pixel, the distance to the right in the lower four bits and downwards in the upper four, in
    /// sixteenths.
    pub weights: &'a [u8],
}

/// Fills `seen` from `samples` (rows of `stride`).
#[inline(always)]
pub(super) fn row(samples: &[u8], stride: usize, table: Row<'_>, seen: &mut [u8]) {
    let mut upper = [0u16; PIECE];
    let mut lower = [0u16; PIECE];
    let Some(below) = samples.get(stride..) else { return };
    let above = &samples[..below.len()];
    let places = table.bases.chunks(PIECE / GROUP).zip(table.steps.chunks(PIECE));
    let pieces = seen.chunks_mut(PIECE).zip(table.weights.chunks(PIECE));
    for ((bases, steps), (seen, weights)) in places.zip(pieces) {
        gather((above, below), (bases, steps), (&mut upper, &mut lower));
        blend((&upper, &lower), weights, seen);
    }
}

/// Loads some of a later row's samples into the cache while others are blended. These loads are independent
/// and run in parallel; those of the gathering pass would wait one by one.
#[inline(always)]
pub(super) fn touch(samples: &[u8], stride: usize, bases: &[u32]) {
    let mut sum = 0u8;
    for base in bases.iter().step_by(TOUCHED) {
        sum ^= samples.get(*base as usize + stride).copied().unwrap_or(0);
    }
    // Keeps the compiler from removing the loads.
    std::hint::black_box(sum);
}

/// Per pixel, two neighbours of the upper and two of the lower row, the left one in the lower byte.
#[inline(always)]
fn gather(
    (above, below): (&[u8], &[u8]),
    (bases, steps): (&[u32], &[u16]),
    (upper, lower): (&mut [u16; PIECE], &mut [u16; PIECE]),
) {
    let pairs = upper.chunks_exact_mut(GROUP).zip(lower.chunks_exact_mut(GROUP));
    for ((base, steps), (upper, lower)) in bases.iter().zip(steps.chunks_exact(GROUP)).zip(pairs) {
        let from = *base as usize;
        let (above, below) = (above.get(from..).unwrap_or(&[]), below.get(from..).unwrap_or(&[]));
        let pixels = steps.iter().zip(upper.iter_mut().zip(lower));
        if let (Some(above), Some(below)) = (above.first_chunk::<WINDOW>(), below.first_chunk::<WINDOW>()) {
            // No offset leaves the window, so nothing is checked here.
            for (step, (upper, lower)) in pixels {
                let at = usize::from(*step);
                *upper = u16::from_le_bytes([above[at], above[at + 1]]);
                *lower = u16::from_le_bytes([below[at], below[at + 1]]);
            }
        } else {
            // A plane that is smaller than a window.
            let pair = |row: &[u8], at: usize| {
                row.get(at..at + 2).map_or(0, |pair| u16::from_le_bytes([pair[0], pair[1]]))
            };
            for (step, (upper, lower)) in pixels {
                (*upper, *lower) = (pair(above, usize::from(*step)), pair(below, usize::from(*step)));
            }
        }
    }
}

/// 16 bits are enough: 255 · 16 · 16 plus rounding is 65408.
#[inline(always)]
fn blend((upper, lower): (&[u16; PIECE], &[u16; PIECE]), weights: &[u8], seen: &mut [u8]) {
    let count = seen.len();
    let (upper, lower, weights) = (&upper[..count], &lower[..count], &weights[..count]);
    for at in 0..count {
        let (across, down) = (u16::from(weights[at]) & 15, u16::from(weights[at]) >> 4);
        let blended = |pair: u16| (pair & 255) * (16 - across) + (pair >> 8) * across;
        seen[at] = ((blended(upper[at]) * (16 - down) + blended(lower[at]) * down + 128) >> 8) as u8;
    }
}
