//! Every kernel of this processor compared with the field's definition, one byte at a time.

use super::*;
use crate::field::{inverse, mul};
use tributary_types::Rng;

fn random(rng: &mut Rng, length: usize) -> Vec<u8> {
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

/// Outputs computed by definition, added to `outputs`.
fn naive(outputs: &mut [Vec<u8>], matrix: &[u8], inputs: &[Vec<u8>]) {
    for (j, output) in outputs.iter_mut().enumerate() {
        for (i, input) in inputs.iter().enumerate() {
            for (to, from) in output.iter_mut().zip(input) {
                *to ^= mul(matrix[j * inputs.len() + i], *from);
            }
        }
    }
}

fn check(kernel: Kernel, shape: (usize, usize, usize), seed: u64) {
    let (rows, columns, length) = shape;
    let mut rng = Rng::new(seed);
    let matrix = random(&mut rng, rows * columns);
    let inputs: Vec<_> = (0..columns).map(|_| random(&mut rng, length)).collect();
    let before: Vec<_> = (0..rows).map(|_| random(&mut rng, length)).collect();
    let slices: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    for add in [false, true] {
        let mut expected = if add { before.clone() } else { vec![vec![0; length]; rows] };
        naive(&mut expected, &matrix, &inputs);
        let mut outputs = before.clone();
        let mut places: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        if add {
            kernel.multiply_add(&mut places, &matrix, &slices);
        } else {
            kernel.multiply(&mut places, &matrix, &slices);
        }
        assert_eq!(outputs, expected, "{}, {shape:?}, add {add}", kernel.tier().name());
    }
}

#[test]
fn every_kernel_multiplies_every_pair_of_bytes() {
    let all: Vec<u8> = (0..=255).collect();
    for kernel in Kernel::available() {
        for factor in 0..=255 {
            let mut output = [0; 256];
            kernel.multiply(&mut [&mut output], &[factor], &[&all]);
            for (x, product) in output.iter().enumerate() {
                assert_eq!(*product, mul(factor, x as u8), "{} {factor} {x}", kernel.tier().name());
            }
        }
    }
}

#[test]
fn every_kernel_makes_every_shape() {
    let lengths = [0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 200, 257];
    for kernel in Kernel::available() {
        for (seed, length) in lengths.into_iter().enumerate() {
            for rows in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 19] {
                for columns in [0, 1, 2, 3, 10] {
                    check(kernel, (rows, columns, length), seed as u64);
                }
            }
        }
        check(kernel, (0, 3, 40), 1);
        check(kernel, (20, 192, 1410), 2);
    }
}

#[test]
fn every_kernel_eliminates_a_column() {
    for kernel in Kernel::available() {
        for stride in [1, 7, 16, 33, 64, 100, 256] {
            let mut rng = Rng::new(stride as u64);
            let before = random(&mut rng, 9 * stride);
            let (pivot, column) = (4, stride / 2);
            let mut matrix = before.clone();
            matrix[pivot * stride + column] = 7;
            let source = matrix.clone();
            let scale = inverse(7).expect("it is not zero");
            // The column is replaced by that of a unit matrix.
            let scaled = |x: usize| mul(scale, if x == column { 1 } else { source[pivot * stride + x] });
            kernel.eliminate(&mut matrix, stride, pivot, column);
            for (row, (after, old)) in matrix.chunks(stride).zip(source.chunks(stride)).enumerate() {
                for (x, value) in after.iter().enumerate() {
                    let kept = if x == column { 0 } else { old[x] };
                    let expected = if row == pivot { scaled(x) } else { kept ^ mul(old[column], scaled(x)) };
                    assert_eq!(*value, expected, "{}, row {row}, column {x}", kernel.tier().name());
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "one length")]
fn blocks_of_different_length_are_refused() {
    Kernel::best().multiply(&mut [&mut [0; 4]], &[1], &[&[0; 5]]);
}

#[test]
#[should_panic(expected = "one element per output and input")]
fn a_matrix_of_the_wrong_size_is_refused() {
    Kernel::best().multiply(&mut [&mut [0; 4]], &[1, 2], &[&[0; 4]]);
}
