//! Gauss-Jordan elimination on coefficients only: which unknowns the equations determine, and with which
//! weights of the equations' payloads. Payloads are not used here.

use crate::field::{inverse, mul};
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
    // The coefficients, then the weights of each row over the equations: initially the row itself.
    let stride = unknowns + rows;
    let mut matrix = vec![0; rows * stride];
    for (row, equation) in equations.chunks_exact(unknowns).enumerate() {
        matrix[row * stride..][..unknowns].copy_from_slice(equation);
        matrix[row * stride + unknowns + row] = 1;
    }
    let mut pivots = Vec::with_capacity(rows);
    let mut dependent = Vec::new();
    // Row by row, so that a row that becomes zero depends on the rows before it.
    for row in 0..rows {
        let own = &mut matrix[row * stride..][..stride];
        let Some(column) = own[..unknowns].iter().position(|coefficient| *coefficient != 0) else {
            dependent.push(row);
            continue;
        };
        let scale = inverse(own[column]).expect("a pivot is not zero");
        if scale != 1 {
            own.iter_mut().for_each(|element| *element = mul(scale, *element));
        }
        kernel.eliminate(&mut matrix, stride, row, column);
        pivots.push((column, row));
    }
    pivots.sort_unstable();
    let alone = |&(column, row): &(usize, usize)| {
        let own = &matrix[row * stride..][..unknowns];
        own.iter().enumerate().all(|(at, coefficient)| at == column || *coefficient == 0)
    };
    let weights =
        |(column, row): (usize, usize)| (column, matrix[row * stride + unknowns..][..rows].to_vec());
    Solution { determined: pivots.into_iter().filter(alone).map(weights).collect(), dependent }
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
