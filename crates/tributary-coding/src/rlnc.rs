//! Random linear network coding of one generation: encoder, recoder, decoder.
//!
//! A generation is `n` symbols. A coded symbol is a linear combination of them; a [`Vector`] identifies it in
//! a few bytes. All payload work is matrix times blocks: the decoder eliminates on coefficients only, and
//! then computes all missing symbols in one multiplication. Symbols and payloads of different lengths are
//! treated as padded with zeros; the user stores the true length inside the symbol.
//!
//! Not here: when to send what (`cotag`), and authentication: a forged payload gives wrong symbols, so
//! packets must be authenticated before they are pushed.
//! Source: Ho et al., "A random linear network coding approach to multicast", 2006.

mod decoder;
mod vector;

pub use decoder::{Decoder, Progress};
pub use vector::{Basis, Generation, MAX_SYMBOLS, MAX_VECTORS, Vector, VectorError, VectorSet};

use crate::kernel::Kernel;
use bytes::Bytes;
use std::borrow::Cow;

/// Makes combinations of the symbols of one generation.
#[derive(Debug)]
pub struct Encoder {
    generation: Generation,
    symbols: Vec<Bytes>,
    kernel: Kernel,
}

impl Encoder {
    /// An encoder of `symbols`. Those shorter than the longest count as padded with zeros.
    ///
    /// # Panics
    /// When the number of symbols is not the generation's.
    #[must_use]
    pub fn new(generation: Generation, symbols: Vec<impl Into<Bytes>>) -> Self {
        assert_eq!(symbols.len(), generation.symbols(), "the generation says how many symbols there are");
        let symbols = symbols.into_iter().map(Into::into).collect();
        Self { generation, symbols, kernel: Kernel::best() }
    }

    /// The generation.
    #[must_use]
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// The payloads of `vectors`, computed in one multiplication. Three or more at a time take half the time
    /// per payload.
    ///
    /// # Errors
    /// A vector is not of this generation.
    pub fn encode(&mut self, vectors: &[Vector]) -> Result<Vec<Bytes>, VectorError> {
        let mut matrix = Vec::with_capacity(vectors.len() * self.symbols.len());
        for vector in vectors {
            matrix.extend(self.generation.coefficients(vector)?);
        }
        let inputs = padded(self.symbols.iter());
        let inputs: Vec<&[u8]> = inputs.iter().map(AsRef::as_ref).collect();
        Ok(product(self.kernel, &matrix, &inputs, vectors.len()))
    }
}

/// Makes new combinations of the received packets of one generation, without decoding.
///
/// It mixes only vectors of the generation's basis, so that a number and a bitmap describe a mix. Mixes of
/// mixes are refused: there is one recoding hop.
#[derive(Debug)]
pub struct Recoder {
    generation: Generation,
    /// Payloads with their places in the basis, ascending.
    held: Vec<(u16, Bytes)>,
    next: u32,
    kernel: Kernel,
}

impl Recoder {
    /// A recoder that numbers its mixes from `first`. Recoders of one generation need disjoint number ranges;
    /// otherwise their mixes of the same vectors are equal.
    #[must_use]
    pub fn new(generation: Generation, first: u32) -> Self {
        Self { generation, held: Vec::new(), next: first, kernel: Kernel::best() }
    }

    /// Adds a received payload. A vector that is already held has no effect.
    ///
    /// # Errors
    /// The vector is a mix or not of this generation.
    pub fn push(&mut self, vector: &Vector, payload: Bytes) -> Result<(), VectorError> {
        let place = self.generation.place(vector)?;
        // Packets arrive nearly in order, so a new one usually comes last.
        if let Err(at) = self.held.binary_search_by_key(&place, |(place, _)| *place) {
            self.held.insert(at, (place, payload));
        }
        Ok(())
    }

    /// Number of vectors that it can mix.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// `count` new mixes of everything held; none if nothing is held.
    pub fn recode(&mut self, count: usize) -> Vec<(Vector, Bytes)> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let over = VectorSet::of(self.held.iter().map(|(place, _)| *place));
        let inputs = padded(self.held.iter().map(|(_, payload)| payload));
        let inputs: Vec<&[u8]> = inputs.iter().map(AsRef::as_ref).collect();
        let first = self.next;
        self.next = first.wrapping_add(count as u32);
        let numbers = (0..count as u32).map(|i| first.wrapping_add(i));
        let mut matrix = vec![0; count * inputs.len()];
        for (number, weights) in numbers.clone().zip(matrix.chunks_exact_mut(inputs.len())) {
            self.generation.fill_weights(number, weights);
        }
        let payloads = product(self.kernel, &matrix, &inputs, count);
        let vectors = numbers.map(|number| Vector::Recoded { number, over: over.clone() });
        vectors.zip(payloads).collect()
    }
}

/// `payloads`, each padded to the longest; only the shorter ones are copied.
fn padded<'a>(payloads: impl Iterator<Item = &'a Bytes> + Clone) -> Vec<Cow<'a, [u8]>> {
    let longest = payloads.clone().map(Bytes::len).max().unwrap_or(0);
    let pad = |payload: &'a Bytes| {
        if payload.len() == longest {
            return Cow::Borrowed(payload.as_ref());
        }
        let mut padded = Vec::with_capacity(longest);
        padded.extend_from_slice(payload);
        padded.resize(longest, 0);
        Cow::Owned(padded)
    };
    payloads.map(pad).collect()
}

/// The combinations of `inputs`, which share one allocation.
fn product(kernel: Kernel, matrix: &[u8], inputs: &[&[u8]], outputs: usize) -> Vec<Bytes> {
    let length = inputs.first().map_or(0, |input| input.len());
    if length == 0 {
        return vec![Bytes::new(); outputs];
    }
    let mut made = vec![0; outputs * length];
    let mut places: Vec<&mut [u8]> = made.chunks_exact_mut(length).collect();
    kernel.multiply(&mut places, matrix, inputs);
    let made = Bytes::from(made);
    (0..outputs).map(|at| made.slice(at * length..(at + 1) * length)).collect()
}

#[cfg(test)]
mod tests;
