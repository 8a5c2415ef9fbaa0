//! Codes: the block erasure code, and COTAG's network code with encoder, recoder and decoder.

use crate::errors::refused;
use crate::options::{Argument, Options};
use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tributary_coding::CoefficientKey;
use tributary_coding::erasure;
use tributary_coding::rlnc::{self, Basis, Generation, MAX_SYMBOLS, Vector};

/// Longest block or symbol, bytes.
const MOST_BYTES: usize = 1 << 24;

/// A block erasure code: any ``data`` of the ``data + parity`` blocks restore all (Cauchy rows over GF(2^8)).
///
/// Parameters
/// ----------
/// data, parity : int
///     Numbers of blocks; together at most 256.
///
/// Examples
/// --------
/// >>> code = tributary.Erasure(3, 2)
/// >>> data = [b"some", b"data", b"here"]
/// >>> parity = code.encode(data)
/// >>> code.reconstruct([b"some", None, b"here", parity[0], None])[1]
/// b'data'
#[pyclass(frozen, module = "tributary")]
#[derive(Debug)]
pub(crate) struct Erasure {
    code: erasure::Erasure,
}

fn block(argument: &Argument<'_, '_>) -> PyResult<Vec<u8>> {
    let block: Vec<u8> = argument.1.extract().map_err(|_| argument.wrong_type("bytes"))?;
    if block.len() > MOST_BYTES {
        return Err(PyValueError::new_err(format!("{}: longer than 16 MiB", argument.0)));
    }
    Ok(block)
}

#[pymethods]
impl Erasure {
    #[new]
    fn new(data: &Bound<'_, PyAny>, parity: &Bound<'_, PyAny>) -> PyResult<Self> {
        let data = Argument("data", data).whole(1..=256)? as usize;
        let parity = Argument("parity", parity).whole(0..=255)? as usize;
        Ok(Self { code: erasure::Erasure::new(data, parity).map_err(refused)? })
    }

    /// The parity blocks of ``data`` blocks of one length.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     The number of the blocks is not the code's, or their lengths differ.
    fn encode(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Vec<Py<PyBytes>>> {
        let data = Argument("data", data).each("a list of bytes", |item| block(&item))?;
        let blocks: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let mut parity = vec![vec![0; data.first().map_or(0, Vec::len)]; self.code.parity()];
        let mut places: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        self.code.encode(&blocks, &mut places).map_err(refused)?;
        Ok(parity.iter().map(|block| PyBytes::new(py, block).unbind()).collect())
    }

    /// All blocks, data before parity, from those that are there; ``None`` stands for one that is lost.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     Too few are there, their number is not the code's, or their lengths differ.
    fn reconstruct(&self, py: Python<'_>, blocks: &Bound<'_, PyAny>) -> PyResult<Vec<Py<PyBytes>>> {
        let read = |item: Argument<'_, '_>| if item.1.is_none() { Ok(None) } else { block(&item).map(Some) };
        let mut blocks = Argument("blocks", blocks).each("a list of bytes and None", read)?;
        self.code.reconstruct(&mut blocks).map_err(refused)?;
        Ok(blocks.iter().flatten().map(|block| PyBytes::new(py, block).unbind()).collect())
    }
}

/// A combination of the symbols of a generation, on its way from encoder or recoder to decoder.
#[pyclass(frozen, module = "tributary")]
#[derive(Debug)]
pub(crate) struct CodedSymbol {
    vector: Vector,
    payload: Bytes,
}

#[pymethods]
impl CodedSymbol {
    /// What it is: ``original``, ``cauchy``, ``random`` or ``recoded``.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.vector {
            Vector::Original(_) => "original",
            Vector::Cauchy(_) => "cauchy",
            Vector::Random(_) => "random",
            Vector::Recoded { .. } => "recoded",
        }
    }

    /// Its number among those of its kind.
    #[getter]
    fn number(&self) -> u32 {
        match self.vector {
            Vector::Original(number) | Vector::Cauchy(number) | Vector::Random(number) => number.into(),
            Vector::Recoded { number, .. } => number,
        }
    }

    /// Its bytes.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.payload)
    }

    fn __repr__(&self) -> String {
        format!("CodedSymbol({} {}, {} bytes)", self.kind(), self.number(), self.payload.len())
    }
}

/// What both ends of a code agree on.
fn generation(options: &Options<'_>, symbols: usize) -> PyResult<Generation> {
    let key: [u8; 32] = match options.any("key")? {
        Some(key) => key.extract().map_err(|_| Argument("key", &key).refused("32 bytes"))?,
        None => [0; 32],
    };
    let number = options.whole("generation", 0..=u64::MAX >> 1)?.unwrap_or(0);
    let basis = if options.flag("random")? { Basis::Random } else { Basis::Systematic };
    Generation::new(CoefficientKey::new(key), number, symbols, basis).ok_or_else(|| {
        let most = if basis == Basis::Random { MAX_SYMBOLS } else { 255 };
        PyValueError::new_err(format!("symbols: {symbols} given; wanted 1 to {most}"))
    })
}

/// The arguments of a generation.
const GENERATION: [&str; 3] = ["generation", "key", "random"];

/// Makes combinations of the symbols of one generation: COTAG's gateway.
///
/// Parameters
/// ----------
/// symbols : list of bytes
///     1 to 255 symbols, to 1024 with ``random``; shorter ones count as padded with zeros.
/// generation : int, optional
///     Number of the generation; default 0.
/// key : bytes, optional
///     32 bytes that both ends know; default zeros.
/// random : bool, optional
///     Random combinations only, instead of the symbols themselves and then Cauchy rows.
///
/// Examples
/// --------
/// >>> encoder = tributary.Encoder([b"one", b"two"])
/// >>> decoder = tributary.Decoder(2)
/// >>> for coded in encoder.encode(3)[1:]:
/// ...     decoder.push(coded)
/// False
/// True
/// >>> decoder.symbols()
/// [b'one', b'two']
#[pyclass(module = "tributary")]
#[derive(Debug)]
pub(crate) struct Encoder {
    encoder: rlnc::Encoder,
    next: u16,
}

#[pymethods]
impl Encoder {
    #[new]
    #[pyo3(
        signature = (symbols, **options),
        text_signature = "(symbols, *, generation=0, key=None, random=False)"
    )]
    fn new(symbols: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = Options::new("Encoder", &GENERATION, options)?;
        let symbols = Argument("symbols", symbols).each("a list of bytes", |item| block(&item))?;
        let generation = generation(&options, symbols.len())?;
        Ok(Self { encoder: rlnc::Encoder::new(generation, symbols), next: 0 })
    }

    /// The next ``count`` combinations.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     The generation has no more of them.
    fn encode(&mut self, count: &Bound<'_, PyAny>) -> PyResult<Vec<CodedSymbol>> {
        let count = Argument("count", count).whole(1..=u64::from(u16::MAX))? as u16;
        let symbols = self.encoder.generation().symbols() as u16;
        let systematic = self.encoder.generation().basis() == Basis::Systematic;
        let end = self.next.checked_add(count).ok_or_else(|| PyValueError::new_err("count: too many"))?;
        let vector = |number: u16| match (systematic, number < symbols) {
            (true, true) => Vector::Original(number),
            (true, false) => Vector::Cauchy(number - symbols),
            (false, _) => Vector::Random(number),
        };
        let vectors: Vec<Vector> = (self.next..end).map(vector).collect();
        let payloads = self.encoder.encode(&vectors).map_err(refused)?;
        self.next = end;
        let coded = vectors.into_iter().zip(payloads);
        Ok(coded.map(|(vector, payload)| CodedSymbol { vector, payload }).collect())
    }
}

/// Makes new combinations of received ones without decoding: COTAG's access point.
///
/// Parameters
/// ----------
/// symbols : int
///     Symbols of the generation.
/// first : int, optional
///     Number of the first combination; recoders of one generation need ranges of their own.
/// generation, key, random : optional
///     As of :class:`Encoder`.
#[pyclass(module = "tributary")]
#[derive(Debug)]
pub(crate) struct Recoder {
    recoder: rlnc::Recoder,
}

#[pymethods]
impl Recoder {
    #[new]
    #[pyo3(
        signature = (symbols, **options),
        text_signature = "(symbols, *, first=0, generation=0, key=None, random=False)"
    )]
    fn new(symbols: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = Options::new("Recoder", &["first", "generation", "key", "random"], options)?;
        let symbols = Argument("symbols", symbols).whole(1..=MAX_SYMBOLS as u64)? as usize;
        let first = options.whole("first", 0..=u64::from(u32::MAX))?.unwrap_or(0) as u32;
        Ok(Self { recoder: rlnc::Recoder::new(generation(&options, symbols)?, first) })
    }

    /// Adds a received combination; one that is held already has no effect.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     It is recoded already, or not of this generation.
    fn push(&mut self, coded: &CodedSymbol) -> PyResult<()> {
        self.recoder.push(&coded.vector, coded.payload.clone()).map_err(refused)
    }

    /// ``count`` new combinations of everything held; none if nothing is held.
    fn recode(&mut self, count: &Bound<'_, PyAny>) -> PyResult<Vec<CodedSymbol>> {
        let count = Argument("count", count).whole(1..=u64::from(u16::MAX))? as usize;
        let mixes = self.recoder.recode(count).into_iter();
        Ok(mixes.map(|(vector, payload)| CodedSymbol { vector, payload }).collect())
    }
}

/// Decodes one generation: COTAG's device.
///
/// Parameters
/// ----------
/// symbols : int
///     Symbols of the generation.
/// generation, key, random : optional
///     As of :class:`Encoder`.
#[pyclass(module = "tributary")]
#[derive(Debug)]
pub(crate) struct Decoder {
    decoder: rlnc::Decoder,
}

#[pymethods]
impl Decoder {
    #[new]
    #[pyo3(
        signature = (symbols, **options),
        text_signature = "(symbols, *, generation=0, key=None, random=False)"
    )]
    fn new(symbols: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = Options::new("Decoder", &GENERATION, options)?;
        let symbols = Argument("symbols", symbols).whole(1..=MAX_SYMBOLS as u64)? as usize;
        Ok(Self { decoder: rlnc::Decoder::new(generation(&options, symbols)?) })
    }

    /// Adds a combination; returns whether every symbol is known.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     It is not of this generation.
    fn push(&mut self, coded: &CodedSymbol) -> PyResult<bool> {
        self.decoder.push(&coded.vector, coded.payload.clone()).map_err(refused)?;
        Ok(self.decoder.is_complete())
    }

    /// Number of further combinations needed, as far as is known.
    #[getter]
    fn lacks(&self) -> usize {
        self.decoder.lacks()
    }

    /// The symbols; ``None`` for one that is not known. One that was decoded is padded to the longest payload.
    fn symbols(&self, py: Python<'_>) -> Vec<Option<Py<PyBytes>>> {
        let count = self.decoder.generation().symbols();
        let symbol = |index| self.decoder.symbol(index).map(|symbol| PyBytes::new(py, symbol).unbind());
        (0..count).map(symbol).collect()
    }
}
