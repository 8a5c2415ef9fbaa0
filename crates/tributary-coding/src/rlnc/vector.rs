//! Identifies the combination of a generation's symbols in a payload, in a few bytes.

use crate::erasure::fill_cauchy;
use crate::kernel::Kernel;
use crate::prf::CoefficientKey;

/// Most symbols of a generation. Decoding costs n² products per byte of a symbol.
pub const MAX_SYMBOLS: usize = 1024;
/// Most basis vectors of a generation that a mix can name.
pub const MAX_VECTORS: usize = 2048;
/// This bit of the generator's nonce separates numbers of mixes from those of random vectors.
const MIX: u64 = 1 << 63;

/// What a generation's senders send, before recoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The symbols themselves, then Cauchy rows. Any n of them decode.
    Systematic,
    /// Random combinations only. n of them are singular with probability 0.4 %.
    Random,
}

/// One combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vector {
    /// Symbol `0`, `1`, … itself.
    Original(u16),
    /// Cauchy row `0`, `1`, …: row + n must be at most 255.
    Cauchy(u16),
    /// Random combination number `0`, `1`, … of all symbols.
    Random(u16),
    /// Mix `number` of some basis vectors.
    Recoded {
        /// Which mix: chooses the weights.
        number: u32,
        /// The mixed vectors: places in the basis.
        over: VectorSet,
    },
}

/// A set of places in a generation's basis, as a bitmap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorSet(Vec<u8>);

impl VectorSet {
    /// The set of `places`.
    ///
    /// # Panics
    /// When a place is [`MAX_VECTORS`] or above.
    #[must_use]
    pub fn of(places: impl Iterator<Item = u16>) -> Self {
        let mut bits = Vec::new();
        for place in places.map(usize::from) {
            assert!(place < MAX_VECTORS, "a place in the basis");
            bits.resize(bits.len().max(place / 8 + 1), 0);
            bits[place / 8] |= 1 << (place % 8);
        }
        Self(bits)
    }

    /// The set of a bitmap, least significant bit first; `None` if it is longer than a basis.
    #[must_use]
    pub fn from_bytes(bitmap: &[u8]) -> Option<Self> {
        if bitmap.len() > MAX_VECTORS / 8 {
            return None;
        }
        let end = bitmap.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Some(Self(bitmap[..end].to_vec()))
    }

    /// The bitmap, without zero bytes at the end.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The places, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        let bits = |(at, byte): (usize, &u8)| {
            let byte = *byte;
            (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| (at * 8 + bit) as u16)
        };
        self.0.iter().enumerate().flat_map(bits)
    }
}

/// A vector does not belong to the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// The symbol, row or number does not exist.
    #[error("vector {place} is outside the generation of {symbols} symbols")]
    Outside {
        /// Which vector.
        place: usize,
        /// Symbols of the generation.
        symbols: usize,
    },
    /// A systematic vector in a random generation, or the reverse.
    #[error("the vector is of the other kind of generation (systematic or random)")]
    Basis,
    /// A mix, where a basis vector is needed.
    #[error("a mix cannot be mixed again; decode it or forward it as it is")]
    Mixed,
    /// A mix without vectors.
    #[error("the mix names no vector")]
    Empty,
}

/// What both ends must agree on to interpret vectors: the key, the generation's number, its size and its
/// basis.
#[derive(Clone, Debug)]
pub struct Generation {
    key: CoefficientKey,
    number: u64,
    symbols: usize,
    basis: Basis,
    /// Rows of basis vectors that mixes named, by place; a row is computed once.
    rows: Vec<Option<Box<[u8]>>>,
}

impl Generation {
    /// Generation `number` of `symbols` symbols. `None` if there are no symbols or more than [`MAX_SYMBOLS`],
    /// or if a systematic one has no room for a Cauchy row (more than 255).
    #[must_use]
    pub fn new(key: CoefficientKey, number: u64, symbols: usize, basis: Basis) -> Option<Self> {
        let most = if basis == Basis::Systematic { 255 } else { MAX_SYMBOLS };
        let fits = (1..=most).contains(&symbols);
        fits.then_some(Self { key, number: number & !MIX, symbols, basis, rows: Vec::new() })
    }

    /// Number of symbols.
    #[must_use]
    pub fn symbols(&self) -> usize {
        self.symbols
    }

    /// The basis.
    #[must_use]
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// Number of places in the basis.
    #[must_use]
    pub fn places(&self) -> usize {
        match self.basis {
            Basis::Systematic => crate::erasure::MAX_BLOCKS,
            Basis::Random => MAX_VECTORS,
        }
    }

    /// The place of a basis vector: symbols first, then Cauchy rows.
    ///
    /// # Errors
    /// The vector is a mix or not of this generation.
    pub fn place(&self, vector: &Vector) -> Result<u16, VectorError> {
        let place = match (self.basis, vector) {
            (Basis::Systematic, Vector::Original(index)) if usize::from(*index) >= self.symbols => {
                return Err(self.outside(usize::from(*index)));
            }
            (Basis::Systematic, Vector::Original(index)) => usize::from(*index),
            (Basis::Systematic, Vector::Cauchy(row)) => self.symbols + usize::from(*row),
            (Basis::Random, Vector::Random(number)) => usize::from(*number),
            (_, Vector::Recoded { .. }) => return Err(VectorError::Mixed),
            _ => return Err(VectorError::Basis),
        };
        if place >= self.places() { Err(self.outside(place)) } else { Ok(place as u16) }
    }

    fn outside(&self, place: usize) -> VectorError {
        VectorError::Outside { place, symbols: self.symbols }
    }

    /// The coefficients of `vector` over the symbols.
    ///
    /// # Errors
    /// The vector is not of this generation.
    pub fn coefficients(&mut self, vector: &Vector) -> Result<Vec<u8>, VectorError> {
        let Vector::Recoded { number, over } = vector else {
            let place = self.place(vector)?;
            return Ok(self.compute_row(usize::from(place)));
        };
        let places: Vec<usize> = over.iter().map(usize::from).collect();
        let last = *places.last().ok_or(VectorError::Empty)?;
        if last >= self.places() {
            return Err(self.outside(last));
        }
        let mut weights = vec![0; places.len()];
        self.fill_weights(*number, &mut weights);
        let mut coefficients = vec![0; self.symbols];
        let (mut rows, mut row_weights) = (Vec::new(), Vec::new());
        for (place, weight) in places.into_iter().zip(weights) {
            if self.basis == Basis::Systematic && place < self.symbols {
                coefficients[place] = weight;
                continue;
            }
            self.cache_row(place);
            rows.push(place);
            row_weights.push(weight);
        }
        let inputs: Vec<&[u8]> =
            rows.iter().map(|place| self.rows[*place].as_deref().expect("it is cached")).collect();
        Kernel::best().multiply_add(&mut [&mut coefficients], &row_weights, &inputs);
        Ok(coefficients)
    }

    /// The weights of mix `number`, one for each vector that it mixes.
    pub(crate) fn fill_weights(&self, number: u32, weights: &mut [u8]) {
        self.key.coefficients(self.number | MIX, number).fill(weights);
    }

    fn cache_row(&mut self, place: usize) {
        self.rows.resize(self.rows.len().max(place + 1), None);
        if self.rows[place].is_none() {
            self.rows[place] = Some(self.compute_row(place).into_boxed_slice());
        }
    }

    fn compute_row(&self, place: usize) -> Vec<u8> {
        let mut row = vec![0; self.symbols];
        match self.basis {
            Basis::Random => self.key.coefficients(self.number, place as u32).fill(&mut row),
            Basis::Systematic if place < self.symbols => row[place] = 1,
            Basis::Systematic => {
                fill_cauchy(place - self.symbols, &mut row);
            }
        }
        row
    }
}
