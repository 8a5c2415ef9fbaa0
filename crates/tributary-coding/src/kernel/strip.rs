//! The loops that every tier shares, over vectors of the tier's width.
//!
//! A strip is a few vectors' width of all blocks. For each strip, groups of outputs are made one after the
//! other, so that the strip's inputs stay in the first-level cache. Each function here is inlined into one
//! that enables the tier's instructions.

use crate::field::inverse;

/// One multiplication, checked: every block has `length` bytes and there is a factor for each pair.
pub(super) struct Product<'a, 'b> {
    pub(super) outputs: &'a mut [&'b mut [u8]],
    /// Factor of output j and input i at `j · inputs.len() + i`.
    pub(super) matrix: &'a [u8],
    pub(super) inputs: &'a [&'a [u8]],
    pub(super) length: usize,
    /// Whether to add to the outputs' present content.
    pub(super) add: bool,
}

/// One step of Gauss-Jordan elimination in place, checked: whole rows, the pivot inside and not zero.
pub(super) struct Elimination<'a> {
    pub(super) matrix: &'a mut [u8],
    pub(super) stride: usize,
    pub(super) pivot: usize,
    pub(super) column: usize,
}

/// The vectors of one tier.
///
/// # Safety
/// Every function may be called only where the processor has the tier's instructions.
pub(super) trait Vector {
    /// Bytes of a vector.
    const BYTES: usize;
    /// Outputs of one pass, at most 8: as many as fit into the registers.
    const OUTPUTS: usize;
    /// Whether two inputs at a time are faster than one.
    const PAIRS: bool = false;
    /// Bytes, one per lane.
    type Value: Copy;
    /// An input, prepared to be multiplied several times.
    type Split: Copy;
    /// A factor, prepared.
    type Factor: Copy;

    /// All zero.
    unsafe fn zero() -> Self::Value;
    /// Reads `BYTES` bytes.
    unsafe fn load(from: *const u8) -> Self::Value;
    /// Writes `BYTES` bytes.
    unsafe fn store(to: *mut u8, value: Self::Value);
    /// Prepares an input.
    unsafe fn split(value: Self::Value) -> Self::Split;
    /// Prepares a factor.
    unsafe fn factor(factor: u8) -> Self::Factor;
    /// `sum + factor · split`.
    unsafe fn add_product(sum: Self::Value, factor: Self::Factor, split: Self::Split) -> Self::Value;
    /// Prefetches a cache line.
    #[inline(always)]
    unsafe fn prefetch(_from: *const u8) {}
    /// `sum + factors[0] · splits[0] + factors[1] · splits[1]`.
    #[inline(always)]
    unsafe fn add_two(sum: Self::Value, factors: [Self::Factor; 2], splits: [Self::Split; 2]) -> Self::Value {
        // SAFETY: the caller's promise.
        unsafe { Self::add_product(Self::add_product(sum, factors[0], splits[0]), factors[1], splits[1]) }
    }
}

/// Longest vector of any tier.
const LONGEST: usize = 64;

/// Reads `length` bytes, followed by zeros.
///
/// # Safety
/// The tier's instructions, and `length` readable bytes, at most `BYTES`.
#[inline(always)]
unsafe fn load_part<V: Vector>(from: *const u8, length: usize) -> V::Value {
    let mut whole = [0_u8; LONGEST];
    // SAFETY: the caller's promise; `whole` is as long as the longest vector.
    unsafe {
        core::ptr::copy_nonoverlapping(from, whole.as_mut_ptr(), length);
        V::load(whole.as_ptr())
    }
}

/// Reads a vector, or its first `length` bytes when it is not `WHOLE`.
///
/// # Safety
/// As [`load_part`]; `BYTES` readable bytes when it is whole.
#[inline(always)]
unsafe fn load<V: Vector, const WHOLE: bool>(from: *const u8, length: usize) -> V::Value {
    // SAFETY: the caller's promise.
    unsafe { if WHOLE { V::load(from) } else { load_part::<V>(from, length) } }
}

/// Writes the first `length` bytes.
///
/// # Safety
/// The tier's instructions, and `length` writable bytes, at most `BYTES`.
#[inline(always)]
unsafe fn store_part<V: Vector>(to: *mut u8, value: V::Value, length: usize) {
    let mut whole = [0_u8; LONGEST];
    // SAFETY: the caller's promise; `whole` is as long as the longest vector.
    unsafe {
        V::store(whole.as_mut_ptr(), value);
        core::ptr::copy_nonoverlapping(whole.as_ptr(), to, length);
    }
}

/// Outputs of the next pass if `left` remain: two passes of similar size are faster than a full one and a
/// small one.
const fn pass(left: usize, most: usize) -> usize {
    if left <= most {
        left
    } else if left < 2 * most {
        left.div_ceil(2)
    } else {
        most
    }
}

/// Factors in the order in which the passes read them: by pass, then input, then output.
fn in_reading_order(product: &Product<'_, '_>, most: usize) -> Vec<u8> {
    let columns = product.inputs.len();
    let mut factors = vec![0; product.matrix.len()];
    let mut row = 0;
    while row < product.outputs.len() {
        let outputs = pass(product.outputs.len() - row, most);
        let part = row * columns..(row + outputs) * columns;
        let (rows, groups) = (&product.matrix[part.clone()], &mut factors[part]);
        for (m, row) in rows.chunks_exact(columns.max(1)).enumerate() {
            for (group, factor) in groups.chunks_exact_mut(outputs).zip(row) {
                group[m] = *factor;
            }
        }
        row += outputs;
    }
    factors
}

/// The whole product: strips of `C` vectors, then of one, then the rest.
///
/// # Safety
/// The processor has the tier's instructions.
#[inline(always)]
pub(super) unsafe fn product<V: Vector, const C: usize>(product: &mut Product<'_, '_>) {
    let factors = in_reading_order(product, V::OUTPUTS);
    let mut at = 0;
    // SAFETY: the caller's promise; every strip ends within `length`.
    unsafe {
        while at + C * V::BYTES <= product.length {
            strip::<V, C, true>(product, &factors, at, C * V::BYTES);
            at += C * V::BYTES;
        }
        while at + V::BYTES <= product.length {
            strip::<V, 1, true>(product, &factors, at, V::BYTES);
            at += V::BYTES;
        }
        if at < product.length {
            strip::<V, 1, false>(product, &factors, at, product.length - at);
        }
    }
}

/// All outputs of one strip, pass after pass. `WHOLE`: the strip fills its vectors.
///
/// # Safety
/// As [`product`], and `at + length` is within the blocks.
#[inline(always)]
unsafe fn strip<V: Vector, const C: usize, const WHOLE: bool>(
    product: &mut Product<'_, '_>,
    factors: &[u8],
    at: usize,
    length: usize,
) {
    let mut row = 0;
    while row < product.outputs.len() {
        let outputs = pass(product.outputs.len() - row, V::OUTPUTS);
        let place = Pass { row, at, length, factors: &factors[row * product.inputs.len()..] };
        // SAFETY: the caller's promise; `row + outputs` is at most the number of outputs.
        unsafe {
            match outputs {
                1 => group::<V, 1, C, WHOLE>(product, place),
                2 => group::<V, 2, C, WHOLE>(product, place),
                3 => group::<V, 3, C, WHOLE>(product, place),
                4 => group::<V, 4, C, WHOLE>(product, place),
                5 if V::OUTPUTS > 4 => group::<V, 5, C, WHOLE>(product, place),
                6 if V::OUTPUTS > 4 => group::<V, 6, C, WHOLE>(product, place),
                7 if V::OUTPUTS > 6 => group::<V, 7, C, WHOLE>(product, place),
                8 if V::OUTPUTS > 6 => group::<V, 8, C, WHOLE>(product, place),
                _ => unreachable!("a pass makes at most `OUTPUTS` outputs"),
            }
        }
        row += outputs;
    }
}

/// Position of a pass.
#[derive(Clone, Copy)]
struct Pass<'a> {
    /// First output.
    row: usize,
    /// First byte.
    at: usize,
    /// Bytes of the strip.
    length: usize,
    /// Factors of the pass: by input, then output.
    factors: &'a [u8],
}

/// `M` outputs of one strip from all inputs, summed up in registers.
///
/// # Safety
/// As [`strip`]; `row + M` is at most the number of outputs and there are factors for all of them.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "the counts are constants; the loops unroll")]
unsafe fn group<V: Vector, const M: usize, const C: usize, const WHOLE: bool>(
    product: &mut Product<'_, '_>,
    Pass { row, at, length, factors }: Pass<'_>,
) {
    // Loops, not closures: a closure that is not inlined would lack the tier's instructions.
    // SAFETY: the caller's promise covers every pointer: rows below `row + M`, bytes from `at` to
    // `at + length`, factors of every input and output.
    unsafe {
        let mut sums = [[V::zero(); C]; M];
        if product.add {
            for m in 0..M {
                let output = product.outputs.get_unchecked(row + m).as_ptr().add(at);
                for c in 0..C {
                    sums[m][c] = load::<V, WHOLE>(output.add(c * V::BYTES), length);
                }
            }
        }
        let mut factors = factors.as_ptr();
        let (mut input, mut left) = (product.inputs.as_ptr(), product.inputs.len());
        while V::PAIRS && left >= 2 {
            let (first, second) = ((*input).as_ptr().add(at), (*input.add(1)).as_ptr().add(at));
            if row == 0 {
                V::prefetch(first.wrapping_add(C * V::BYTES));
                V::prefetch(second.wrapping_add(C * V::BYTES));
                V::prefetch(first.wrapping_add((2 * C - 1) * V::BYTES));
                V::prefetch(second.wrapping_add((2 * C - 1) * V::BYTES));
            }
            let mut splits = [[V::split(V::zero()); 2]; C];
            for c in 0..C {
                splits[c][0] = V::split(load::<V, WHOLE>(first.add(c * V::BYTES), length));
                splits[c][1] = V::split(load::<V, WHOLE>(second.add(c * V::BYTES), length));
            }
            for m in 0..M {
                let two = [V::factor(*factors.add(m)), V::factor(*factors.add(M + m))];
                for c in 0..C {
                    sums[m][c] = V::add_two(sums[m][c], two, splits[c]);
                }
            }
            (factors, input, left) = (factors.add(2 * M), input.add(2), left - 2);
        }
        while left > 0 {
            let from = (*input).as_ptr().add(at);
            if row == 0 {
                // Prefetch the next strip of this block: the processor cannot predict as many streams as
                // there are blocks.
                V::prefetch(from.wrapping_add(C * V::BYTES));
                V::prefetch(from.wrapping_add((2 * C - 1) * V::BYTES));
            }
            let mut splits = [V::split(V::zero()); C];
            for c in 0..C {
                splits[c] = V::split(load::<V, WHOLE>(from.add(c * V::BYTES), length));
            }
            for m in 0..M {
                let factor = V::factor(*factors.add(m));
                for c in 0..C {
                    sums[m][c] = V::add_product(sums[m][c], factor, splits[c]);
                }
            }
            (factors, input, left) = (factors.add(M), input.add(1), left - 1);
        }
        for (m, sums) in sums.iter().enumerate() {
            let output = product.outputs.get_unchecked_mut(row + m).as_mut_ptr().add(at);
            for (c, sum) in sums.iter().enumerate() {
                if WHOLE {
                    V::store(output.add(c * V::BYTES), *sum);
                } else {
                    store_part::<V>(output, *sum, length);
                }
            }
        }
    }
}

/// Scales the pivot row and subtracts its multiples from every other row; the column becomes that of the inverse.
///
/// # Safety
/// The processor has the tier's instructions.
#[inline(always)]
pub(super) unsafe fn eliminate<V: Vector>(elimination: &mut Elimination<'_>) {
    let Elimination { matrix, stride, pivot, column } = elimination;
    let (stride, pivot, column) = (*stride, *pivot, *column);
    let rows = matrix.len() / stride;
    let scale = inverse(matrix[pivot * stride + column]).expect("a pivot is not zero");
    let base = matrix.as_mut_ptr();
    // SAFETY: `pivot` and every `row` are below `rows`, and `column` within `stride`.
    unsafe {
        let from = base.add(pivot * stride);
        // x + (s + 1) · x = s · x.
        add_row::<V>(from, from, scale ^ 1, stride);
        // With this element, the column of another row, r, becomes r + r · (s + 1) = r · s. Setting its bytes to zero
        // first would make the processor wait for each before it reads the vector around it.
        *from.add(column) = scale ^ 1;
        for row in (0..rows).filter(|row| *row != pivot) {
            let to = base.add(row * stride);
            let factor = *to.add(column);
            if factor != 0 {
                add_row::<V>(to, from, factor, stride);
            }
        }
        *from.add(column) = scale;
    }
}

/// `to += factor · from`, for rows of `length` bytes, which may be the same.
///
/// # Safety
/// The processor has the tier's instructions, and the rows have `length` bytes.
#[inline(always)]
unsafe fn add_row<V: Vector>(to: *mut u8, from: *const u8, factor: u8, length: usize) {
    // SAFETY: the caller's promise; every vector is within `length`, and is read before it is written.
    unsafe {
        let factor = V::factor(factor);
        let mut at = 0;
        while at + V::BYTES <= length {
            let split = V::split(V::load(from.add(at)));
            V::store(to.add(at), V::add_product(V::load(to.add(at)), factor, split));
            at += V::BYTES;
        }
        if at < length {
            let split = V::split(load_part::<V>(from.add(at), length - at));
            let sum = V::add_product(load_part::<V>(to.add(at), length - at), factor, split);
            store_part::<V>(to.add(at), sum, length - at);
        }
    }
}

/// Repeats the inner step with operands in registers and the first-level cache. Returns the product bytes.
///
/// # Safety
/// The processor has the tier's instructions.
#[inline(always)]
pub(super) unsafe fn peak<V: Vector, const C: usize>(repeats: usize) -> usize {
    const M: usize = 4;
    // SAFETY: the caller's promise; each element of `bytes` holds the longest vector.
    unsafe {
        let bytes = [[[0x5a_u8; LONGEST]; 2]; C];
        let mut sums = [[V::zero(); C]; M];
        for _ in 0..repeats {
            // Read again each time and in each place, so that the compiler cannot use a product twice.
            let from = core::hint::black_box(&bytes);
            let mut splits = [[V::split(V::zero()); 2]; C];
            for (splits, from) in splits.iter_mut().zip(from) {
                *splits = [V::split(V::load(from[0].as_ptr())), V::split(V::load(from[1].as_ptr()))];
            }
            for (m, sums) in sums.iter_mut().enumerate() {
                let two = [V::factor(m as u8 + 3), V::factor(m as u8 + 71)];
                for (sum, splits) in sums.iter_mut().zip(splits) {
                    *sum = V::add_two(*sum, two, splits);
                }
            }
        }
        core::hint::black_box(sums);
    }
    repeats * 2 * M * C * V::BYTES
}
