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
use std::collections::BTreeMap;

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
    pub fn encode(&mut self, vectors: &[Vector]) -> Result<Vec<Vec<u8>>, VectorError> {
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
    held: BTreeMap<u16, Bytes>,
    next: u32,
    kernel: Kernel,
}

impl Recoder {
    /// A recoder that numbers its mixes from `first`. Recoders of one generation need disjoint number ranges;
    /// otherwise their mixes of the same vectors are equal.
    #[must_use]
    pub fn new(generation: Generation, first: u32) -> Self {
        Self { generation, held: BTreeMap::new(), next: first, kernel: Kernel::best() }
    }

    /// Adds a received payload. A vector that is already held has no effect.
    ///
    /// # Errors
    /// The vector is a mix or not of this generation.
    pub fn push(&mut self, vector: &Vector, payload: Bytes) -> Result<(), VectorError> {
        let place = self.generation.place(vector)?;
        self.held.entry(place).or_insert(payload);
        Ok(())
    }

    /// Number of vectors that it can mix.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// `count` new mixes of everything held; none if nothing is held.
    pub fn recode(&mut self, count: usize) -> Vec<(Vector, Vec<u8>)> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let over = VectorSet::of(self.held.keys().copied());
        let inputs = padded(self.held.values());
        let inputs: Vec<&[u8]> = inputs.iter().map(AsRef::as_ref).collect();
        let numbers = (0..count as u32).map(|i| self.next.wrapping_add(i));
        let vectors: Vec<Vector> =
            numbers.map(|number| Vector::Recoded { number, over: over.clone() }).collect();
        self.next = self.next.wrapping_add(count as u32);
        let weights = |vector: &Vector| self.generation.weights(vector, inputs.len());
        let matrix: Vec<u8> = vectors.iter().flat_map(weights).collect();
        let payloads = product(self.kernel, &matrix, &inputs, count);
        vectors.into_iter().zip(payloads).collect()
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

fn product(kernel: Kernel, matrix: &[u8], inputs: &[&[u8]], outputs: usize) -> Vec<Vec<u8>> {
    let length = inputs.first().map_or(0, |input| input.len());
    let mut made = vec![vec![0; length]; outputs];
    let mut places: Vec<&mut [u8]> = made.iter_mut().map(Vec::as_mut_slice).collect();
    kernel.multiply(&mut places, matrix, inputs);
    made
}

#[cfg(test)]
mod tests;
