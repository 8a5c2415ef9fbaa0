//! The lookup of one row: four samples per pixel, blended by their distances.
//!
//! Two passes over a short piece at a time, both free of branches: the first gathers (no processor does
//! that faster than plain loads), the second blends, which the compiler does eight or more pixels at a
//! time. Weights have seven bits; the error is below half a step of eight bits.

/// Pixels per piece: its buffers stay in the first-level cache.
const PIECE: usize = 128;

/// Every so many pixels one sample is fetched beforehand: more would disturb the reading of the table.
const TOUCHED: usize = 32;

/// Fills `seen` from `samples` (rows of `stride`); per pixel the index of the upper left sample and how far
/// right and down of it, of 128.
#[inline(always)]
pub(super) fn row(
    samples: &[u8],
    stride: usize,
    (offsets, across, down): (&[u32], &[u8], &[u8]),
    seen: &mut [u8],
) {
    let mut upper = [0u16; PIECE];
    let mut lower = [0u16; PIECE];
    let below = &samples[stride..];
    let above = &samples[..below.len()];
    let pieces = seen.chunks_mut(PIECE).zip(offsets.chunks(PIECE));
    for ((seen, offsets), (across, down)) in pieces.zip(across.chunks(PIECE).zip(down.chunks(PIECE))) {
        gather(above, below, offsets, (&mut upper, &mut lower));
        blend((&upper[..seen.len()], &lower[..seen.len()]), across, down, seen);
    }
}

/// Reads some of a later row's samples, so that they are on their way into the cache while others are
/// blended: these loads wait for nothing and all at once, those of the gathering would wait one by one.
#[inline(always)]
pub(super) fn touch(samples: &[u8], stride: usize, offsets: &[u32]) {
    let mut sum = 0u8;
    for piece in offsets.chunks_exact(TOUCHED) {
        sum ^= samples.get(piece[0] as usize + stride).copied().unwrap_or(0);
    }
    // Without an observer the compiler would leave the loads out.
    std::hint::black_box(sum);
}

/// Two neighbours of the upper and of the lower row per pixel, the left one in the lower byte.
#[inline(always)]
fn gather(above: &[u8], below: &[u8], offsets: &[u32], (upper, lower): (&mut [u16], &mut [u16])) {
    for ((offset, upper), lower) in offsets.iter().zip(upper).zip(lower) {
        let at = *offset as usize;
        // The last row and column are never an upper left one, so this always matches.
        if let (Some([a, b]), Some([c, d])) = (above.get(at..at + 2), below.get(at..at + 2)) {
            *upper = u16::from_le_bytes([*a, *b]);
            *lower = u16::from_le_bytes([*c, *d]);
        }
    }
}

#[inline(always)]
fn blend((upper, lower): (&[u16], &[u16]), across: &[u8], down: &[u8], seen: &mut [u8]) {
    let count = seen.len();
    let (upper, lower, across, down) = (&upper[..count], &lower[..count], &across[..count], &down[..count]);
    for at in 0..count {
        let weight = u16::from(across[at]);
        let blended = |pair: u16| (pair & 255) * (128 - weight) + (pair >> 8) * weight;
        // At most 255 · 128 = 32640: signed sixteen bits hold them and their difference.
        let (upper, lower) = (blended(upper[at]) as i16, blended(lower[at]) as i16);
        let share = i16::from(down[at]) << 8;
        // The upper sixteen bits of a product: half the difference times the share of 32768.
        let moved = ((i32::from(lower - upper) * i32::from(share)) >> 16) as i16;
        seen[at] = (((upper >> 1) + moved + 32) >> 6) as u8;
    }
}
