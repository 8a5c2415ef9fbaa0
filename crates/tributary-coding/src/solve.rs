//! Gauss-Jordan elimination on coefficients only: which unknowns the equations determine, and with which
//! weights of the equations' payloads. Payloads are not used here.

use crate::kernel::Kernel;

/// The solution.
#[derive(Debug)]
pub(crate) struct Solution {
    /// Determined unknowns in ascending order, each with its weights over the equations.
    pub(crate) determined: Vec<(usize, Vec<u8>)>,
    /// Indices of equations that are combinations of earlier ones.
    pub(crate) dependent: Vec<usize>,
}

/// Solves `equations.len() / unknowns` equations, one after the other in `equations`.
pub(crate) fn solve(kernel: Kernel, equations: &[u8], unknowns: usize) -> Solution {
    if unknowns == 0 {
        return Solution { determined: Vec::new(), dependent: Vec::new() };
    }
    let rows = equations.len() / unknowns;
    // In place: once column c has the pivot of row r, it holds the weights of equation r.
    // Rows are whole vectors of the widest kernel.
    let stride = unknowns.next_multiple_of(64);
    let mut matrix = vec![0; rows * stride];
    for (row, equation) in matrix.chunks_exact_mut(stride).zip(equations.chunks_exact(unknowns)) {
        row[..unknowns].copy_from_slice(equation);
    }
    let mut pivots = vec![None; unknowns];
    let mut dependent = Vec::new();
    // Row by row, so that a row that becomes zero depends on the rows before it.
    for row in 0..rows {
        let own = &matrix[row * stride..][..unknowns];
        let mut left = own.iter().zip(&pivots);
        let Some(column) = left.position(|(coefficient, pivot)| *coefficient != 0 && pivot.is_none()) else {
            dependent.push(row);
            continue;
        };
        kernel.eliminate(&mut matrix, stride, row, column);
        pivots[column] = Some(row);
    }
    let weights = |row: usize| {
        let mut weights = vec![0; rows];
        for (value, pivot) in matrix[row * stride..][..unknowns].iter().zip(&pivots) {
            match pivot {
                Some(equation) => weights[*equation] = *value,
                None if *value != 0 => return None, // Another unknown is left in the row.
                None => {}
            }
        }
        Some(weights)
    };
    let unknowns = pivots.iter().enumerate();
    let determined = unknowns.filter_map(|(unknown, row)| Some((unknown, weights((*row)?)?))).collect();
    Solution { determined, dependent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn determined_unknowns_are_found_among_undetermined_ones() {
        // x0 + x1 = a, x2 = b, x0 + x1 + x2 = c: only x2 is determined, c depends on a and b.
        let equations = [1, 1, 0, 0, 0, 1, 1, 1, 1];
        let solution = solve(Kernel::best(), &equations, 3);
        assert_eq!(solution.determined, vec![(2, vec![0, 1, 0])]);
        assert_eq!(solution.dependent, vec![2]);
    }

    #[test]
    fn no_unknown_and_no_equation_are_fine() {
        assert!(solve(Kernel::best(), &[], 0).determined.is_empty());
        assert!(solve(Kernel::best(), &[], 5).determined.is_empty());
    }
}
