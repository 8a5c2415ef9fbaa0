//! Block erasure code: `data` blocks and `parity` Cauchy rows; any `data` of them restore all.
//!
//! Every square submatrix of a Cauchy matrix is invertible, so any choice of lost blocks can be restored.
//! data + parity ≤ 256, the number of field elements. Not here: when to send what (`cotag`), random rows
//! (`rlnc`). Source: Blömer et al., "An XOR-based erasure-resilient coding scheme", 1995.

use crate::field::inverse;
use crate::kernel::Kernel;
use crate::solve::solve;

/// Most blocks of a code, data and parity together.
pub const MAX_BLOCKS: usize = 256;

/// Why a code cannot be created or a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErasureError {
    /// No data blocks, or more blocks than the field has elements.
    #[error(
        "a code of {data} data and {parity} parity blocks; take 1 or more data blocks and at most 256 in all"
    )]
    Shape {
        /// Data blocks asked for.
        data: usize,
        /// Parity blocks asked for.
        parity: usize,
    },
    /// The number of blocks is not the code's.
    #[error("{given} blocks given, the code has {expected}")]
    Count {
        /// Blocks given.
        given: usize,
        /// Blocks expected.
        expected: usize,
    },
    /// Blocks of one group differ in length.
    #[error("blocks of one group must have one length; pad the shorter ones")]
    Length,
    /// Too many blocks are lost.
    #[error("{present} blocks are there, {needed} are needed")]
    TooFew {
        /// Blocks present.
        present: usize,
        /// Blocks needed.
        needed: usize,
    },
}

/// The element of Cauchy row `row` and column `column`: 1 / (x + y) with x = 255 - row and y = column. `None`
/// if row + column > 254, where the two sets of field elements would overlap.
#[must_use]
pub const fn cauchy(row: usize, column: usize) -> Option<u8> {
    if row + column > MAX_BLOCKS - 2 {
        return None;
    }
    inverse((MAX_BLOCKS - 1 - row) as u8 ^ column as u8)
}

/// Elements of a Cauchy row from column 0 on, all of which must exist.
pub(crate) fn fill_cauchy(row: usize, elements: &mut [u8]) {
    static INVERSES: [u8; MAX_BLOCKS] = {
        let (mut inverses, mut x) = ([0; MAX_BLOCKS], 1);
        while x < MAX_BLOCKS {
            inverses[x] = inverse(x as u8).expect("it is not zero");
            x += 1;
        }
        inverses
    };
    assert!(row + elements.len() < MAX_BLOCKS, "the row has so many columns");
    let x = (MAX_BLOCKS - 1 - row) as u8;
    for (y, element) in elements.iter_mut().enumerate() {
        *element = INVERSES[usize::from(x ^ y as u8)];
    }
}

/// A systematic code with a fixed number of blocks.
///
/// ```
/// use tributary_coding::erasure::Erasure;
///
/// let code = Erasure::new(4, 2)?;
/// let data = [b"some", b"data", b"to p", b"rot."];
/// let mut parity = [[0; 4]; 2];
/// let data: Vec<&[u8]> = data.iter().map(|block| block.as_slice()).collect();
/// code.encode(&data, &mut parity.each_mut().map(|block| block.as_mut_slice()))?;
///
/// let mut blocks: Vec<Option<Vec<u8>>> = data.iter().map(|block| Some(block.to_vec())).collect();
/// blocks.extend(parity.iter().map(|block| Some(block.to_vec())));
/// (blocks[1], blocks[4]) = (None, None);
/// code.reconstruct(&mut blocks)?;
/// assert_eq!(blocks[1].as_deref(), Some(b"data".as_slice()));
/// # Ok::<(), tributary_coding::erasure::ErasureError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Erasure {
    data: usize,
    parity: usize,
    matrix: Vec<u8>,
    kernel: Kernel,
}

impl Erasure {
    /// A code of `data` and `parity` blocks.
    ///
    /// # Errors
    /// [`ErasureError::Shape`] if no such code exists.
    pub fn new(data: usize, parity: usize) -> Result<Self, ErasureError> {
        Self::with_kernel(data, parity, Kernel::best())
    }

    /// As [`new`](Self::new), with a chosen kernel.
    ///
    /// # Errors
    /// [`ErasureError::Shape`] if no such code exists.
    pub fn with_kernel(data: usize, parity: usize, kernel: Kernel) -> Result<Self, ErasureError> {
        let shape = ErasureError::Shape { data, parity };
        if data == 0 || data.checked_add(parity).is_none_or(|all| all > MAX_BLOCKS) {
            return Err(shape);
        }
        let elements = (0..parity).flat_map(|row| (0..data).map(move |column| cauchy(row, column)));
        let matrix = elements.collect::<Option<Vec<u8>>>().ok_or(shape)?;
        Ok(Self { data, parity, matrix, kernel })
    }

    /// Number of data blocks.
    #[must_use]
    pub fn data(&self) -> usize {
        self.data
    }

    /// Number of parity blocks.
    #[must_use]
    pub fn parity(&self) -> usize {
        self.parity
    }

    /// Row `row` of the parity matrix: the factors of the data blocks.
    #[must_use]
    pub fn row(&self, row: usize) -> &[u8] {
        &self.matrix[row * self.data..][..self.data]
    }

    /// Overwrites `parity` with the parity of `data`.
    ///
    /// # Errors
    /// The number or the lengths of the blocks are not the code's.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), ErasureError> {
        count(data.len(), self.data)?;
        count(parity.len(), self.parity)?;
        let length = data[0].len();
        let alike = data.iter().all(|block| block.len() == length)
            && parity.iter().all(|block| block.len() == length);
        if !alike {
            return Err(ErasureError::Length);
        }
        self.kernel.multiply(parity, &self.matrix, data);
        Ok(())
    }

    /// Fills in every `None` of `blocks`: the data blocks, then the parity blocks.
    ///
    /// # Errors
    /// Too few blocks are present, or their number or lengths are not the code's.
    pub fn reconstruct(&self, blocks: &mut [Option<Vec<u8>>]) -> Result<(), ErasureError> {
        count(blocks.len(), self.data + self.parity)?;
        let present = blocks.iter().flatten().count();
        if present < self.data {
            return Err(ErasureError::TooFew { present, needed: self.data });
        }
        let length = blocks.iter().flatten().next().map_or(0, Vec::len);
        if blocks.iter().flatten().any(|block| block.len() != length) {
            return Err(ErasureError::Length);
        }
        let (data, parity) = blocks.split_at_mut(self.data);
        self.restore_data(data, parity, length);
        let sources: Vec<&[u8]> = data.iter().flatten().map(Vec::as_slice).collect();
        let lost: Vec<usize> = (0..self.parity).filter(|row| parity[*row].is_none()).collect();
        let matrix: Vec<u8> = lost.iter().flat_map(|row| self.row(*row)).copied().collect();
        let made = self.product(&matrix, &sources, lost.len(), length);
        for (row, block) in lost.into_iter().zip(made) {
            parity[row] = Some(block);
        }
        Ok(())
    }

    fn restore_data(&self, data: &mut [Option<Vec<u8>>], parity: &[Option<Vec<u8>>], length: usize) {
        let (known, lost): (Vec<usize>, Vec<usize>) = (0..self.data).partition(|i| data[*i].is_some());
        if lost.is_empty() {
            return;
        }
        let rows: Vec<usize> =
            (0..self.parity).filter(|row| parity[*row].is_some()).take(lost.len()).collect();
        let part: Vec<u8> = rows.iter().flat_map(|row| lost.iter().map(|i| self.row(*row)[*i])).collect();
        let solution = solve(self.kernel, &part, lost.len());
        debug_assert_eq!(solution.determined.len(), lost.len(), "a Cauchy part is regular");
        let weights: Vec<&[u8]> = solution.determined.iter().map(|(_, weights)| weights.as_slice()).collect();
        let known_part = |row: &usize| known.iter().map(|i| self.row(*row)[*i]).collect::<Vec<_>>();
        let known_rows: Vec<Vec<u8>> = rows.iter().map(known_part).collect();
        let matrix = fold(self.kernel, &weights, &known_rows, known.len());
        let mut sources: Vec<&[u8]> =
            known.iter().map(|i| data[*i].as_deref().expect("it is known")).collect();
        sources.extend(rows.iter().map(|row| parity[*row].as_deref().expect("it is there")));
        let made = self.product(&matrix, &sources, lost.len(), length);
        for (i, block) in lost.into_iter().zip(made) {
            data[i] = Some(block);
        }
    }

    fn product(&self, matrix: &[u8], sources: &[&[u8]], outputs: usize, length: usize) -> Vec<Vec<u8>> {
        let mut made = vec![vec![0; length]; outputs];
        let mut places: Vec<&mut [u8]> = made.iter_mut().map(Vec::as_mut_slice).collect();
        self.kernel.multiply(&mut places, matrix, sources);
        made
    }
}

/// Rows `[weights · known_rows | weights]`: computes the lost blocks from the known blocks and the equations'
/// payloads in one multiplication, without first subtracting the known blocks from the payloads.
pub(crate) fn fold(kernel: Kernel, weights: &[&[u8]], known_rows: &[Vec<u8>], known: usize) -> Vec<u8> {
    let width = known + known_rows.len();
    let mut matrix = vec![0; weights.len() * width];
    if width == 0 {
        return matrix;
    }
    let (mut left, flat) = (Vec::with_capacity(weights.len()), weights.concat());
    for (row, weights) in matrix.chunks_exact_mut(width).zip(weights) {
        let (known_side, own_side) = row.split_at_mut(known);
        own_side.copy_from_slice(weights);
        left.push(known_side);
    }
    let known_rows: Vec<&[u8]> = known_rows.iter().map(Vec::as_slice).collect();
    kernel.multiply(&mut left, &flat, &known_rows);
    matrix
}

fn count(given: usize, expected: usize) -> Result<(), ErasureError> {
    if given == expected { Ok(()) } else { Err(ErasureError::Count { given, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_without_a_code_are_refused() {
        assert!(Erasure::new(0, 3).is_err());
        assert!(Erasure::new(200, 57).is_err());
        assert!(Erasure::new(usize::MAX, 2).is_err());
        assert!(Erasure::new(192, 63).is_ok());
        assert!(Erasure::new(200, 56).is_ok());
    }

    #[test]
    fn too_much_loss_and_wrong_blocks_are_named() {
        let code = Erasure::new(3, 2).expect("a shape");
        let block = |byte| Some(vec![byte; 8]);
        let mut blocks = vec![block(1), None, None, None, block(2)];
        let few = ErasureError::TooFew { present: 2, needed: 3 };
        assert_eq!(code.reconstruct(&mut blocks), Err(few));
        let mut blocks = vec![block(1), block(2), Some(vec![0; 9]), None, None];
        assert_eq!(code.reconstruct(&mut blocks), Err(ErasureError::Length));
        assert!(matches!(code.reconstruct(&mut [const { None }; 4]), Err(ErasureError::Count { .. })));
    }
}
