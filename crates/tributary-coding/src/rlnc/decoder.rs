//! The decoder: stores what arrives, solves once there is enough, and finally returns what can be decoded.

use super::padded;
use super::vector::{Generation, Vector, VectorError};
use crate::erasure::fold;
use crate::kernel::Kernel;
use crate::solve::solve;
use bytes::Bytes;

/// Result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It was known already, or the generation is complete.
    Redundant,
    /// It was stored.
    Kept,
    /// Every symbol is known.
    Complete,
}

/// Decodes one generation.
#[derive(Debug)]
pub struct Decoder {
    generation: Generation,
    symbols: Vec<Option<Bytes>>,
    known: usize,
    /// Coefficients and payloads of combinations, linearly independent as far as is known.
    coded: Vec<(Vec<u8>, Bytes)>,
    kernel: Kernel,
}

impl Decoder {
    /// A decoder of `generation`.
    #[must_use]
    pub fn new(generation: Generation) -> Self {
        let symbols = vec![None; generation.symbols()];
        Self { generation, symbols, known: 0, coded: Vec::new(), kernel: Kernel::best() }
    }

    /// The generation.
    #[must_use]
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// Symbol `index`, if it is known; a decoded one is padded to the longest payload.
    #[must_use]
    pub fn symbol(&self, index: usize) -> Option<&Bytes> {
        self.symbols.get(index)?.as_ref()
    }

    /// Whether every symbol is known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.known == self.symbols.len()
    }

    /// Number of further innovative packets needed, as far as is known.
    #[must_use]
    pub fn lacks(&self) -> usize {
        self.symbols.len().saturating_sub(self.known + self.coded.len())
    }

    /// Combinations kept for the solution.
    #[cfg(test)]
    pub(crate) fn combinations(&self) -> usize {
        self.coded.len()
    }

    /// Adds a payload; decodes as soon as there are enough.
    ///
    /// # Errors
    /// The vector is not of this generation.
    pub fn push(&mut self, vector: &Vector, payload: Bytes) -> Result<Progress, VectorError> {
        if let Vector::Original(_) = vector {
            let index = usize::from(self.generation.place(vector)?);
            if self.symbols[index].is_some() {
                return Ok(Progress::Redundant);
            }
            self.symbols[index] = Some(payload);
            self.known += 1;
            if self.is_complete() {
                self.coded.clear();
            }
        } else {
            let coefficients = self.generation.coefficients(vector)?;
            if self.is_complete() {
                return Ok(Progress::Redundant);
            }
            self.coded.push((coefficients, payload));
        }
        if self.lacks() == 0 && !self.is_complete() {
            let before = self.coded.len();
            self.solve(false);
            if !self.is_complete() && self.coded.len() < before {
                return Ok(Progress::Redundant);
            }
        }
        Ok(if self.is_complete() { Progress::Complete } else { Progress::Kept })
    }

    /// Decodes what the packets so far determine, when no more are expected. Returns whether every symbol is
    /// known.
    pub fn finish(&mut self) -> bool {
        if !self.is_complete() && !self.coded.is_empty() {
            self.solve(true);
        }
        self.is_complete()
    }

    fn solve(&mut self, partly: bool) {
        let (known, lost): (Vec<usize>, Vec<usize>) =
            (0..self.symbols.len()).partition(|i| self.symbols[*i].is_some());
        let mut equations = Vec::with_capacity(self.coded.len() * lost.len());
        self.coded.iter().for_each(|(row, _)| equations.extend(lost.iter().map(|i| row[*i])));
        let solution = solve(self.kernel, &equations, lost.len());
        let solved = solution.determined.len();
        if solved == lost.len() || (partly && solved > 0) {
            let pick = |row: &[u8]| known.iter().map(|i| row[*i]).collect::<Vec<u8>>();
            let known_rows: Vec<Vec<u8>> = self.coded.iter().map(|(row, _)| pick(row)).collect();
            let weights: Vec<&[u8]> =
                solution.determined.iter().map(|(_, weights)| weights.as_slice()).collect();
            let matrix = fold(self.kernel, &weights, &known_rows, known.len());
            let payloads = known.iter().filter_map(|i| self.symbols[*i].as_ref());
            let inputs = padded(payloads.chain(self.coded.iter().map(|(_, payload)| payload)));
            let inputs: Vec<&[u8]> = inputs.iter().map(AsRef::as_ref).collect();
            let made = super::product(self.kernel, &matrix, &inputs, solved);
            for ((place, _), symbol) in solution.determined.iter().zip(made) {
                self.symbols[lost[*place]] = Some(symbol);
                self.known += 1;
            }
        }
        if self.is_complete() {
            self.coded.clear();
        } else {
            let mut row = 0;
            self.coded.retain(|_| {
                row += 1;
                solution.dependent.binary_search(&(row - 1)).is_err()
            });
        }
    }
}
