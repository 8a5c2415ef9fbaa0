//! Allocation of tiles: which tiles of a GoP to send, in which quality and order.

use crate::errors::refused;
use crate::network::alike;
use crate::options::{Argument, Options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tributary_video::allocation::{
    self, Allocator, ArrivalOrder, Capacity, Choice, GopProblem, MOST_BYTES, Settings, Sharing, TileMenu,
    together,
};

/// Largest mean squared error of samples of eight bits.
const MOST_MSE: f64 = 65_025.0;

/// An allocator's decision for one GoP.
///
/// Attributes
/// ----------
/// choices : list of int or None
///     For each tile the finest quality that is sent, 0 the finest; ``None`` if it is left to concealment.
/// order : list of tuple of int
///     Tile and quality of each message, in the order of sending.
/// misses : list of float
///     For each message the probability of missing the deadline.
/// bytes : int
///     Size of all messages.
/// expected_mse, bound_mse : float
///     Expected mean squared error in the viewport, and a lower bound of it.
#[pyclass(frozen, get_all, module = "tributary")]
#[derive(Debug)]
pub(crate) struct Allocation {
    choices: Vec<Option<usize>>,
    order: Vec<(usize, usize)>,
    misses: Vec<f64>,
    bytes: u64,
    expected_mse: f64,
    bound_mse: f64,
}

#[pymethods]
impl Allocation {
    fn __repr__(&self) -> String {
        let Self { order, bytes, expected_mse, .. } = self;
        format!("Allocation({} messages, {bytes} bytes, expected MSE {expected_mse:.2})", order.len())
    }
}

/// Decides which tiles of one GoP to send, in which quality and order (OWS, Algorithm 1; FIX, §6.3).
///
/// Parameters
/// ----------
/// sizes : array_like of int, shape (tiles, qualities)
///     Bytes of each tile in each quality, the finest first.
/// mse : array_like of float, shape (tiles, qualities)
///     Mean squared error of each, 0 to 65025.
/// seen, weight, concealed_mse : array_like of float, shape (tiles,)
///     Probability that the tile is seen; expected share of the viewport that it fills; error of what is shown when nothing of it arrives.
/// capacity : array_like of float, shape (samples,) or (paths, samples)
///     Bytes that each path may carry before the deadline, equally likely samples.
/// allocator : str, optional
///     One of :func:`allocators`; default ``ows``.
/// both_ends : bool, optional
///     The second path sends from the end of the order (FBDT with the GoP in one window); default in order.
/// exact : bool, optional
///     Choose qualities by exact dynamic programming instead of greedily.
///
/// Returns
/// -------
/// Allocation
///
/// Raises
/// ------
/// TypeError, ValueError
///     A value has another type, shape or range; the text names the argument and its place.
///
/// Examples
/// --------
/// >>> made = tributary.allocate(
/// ...     sizes=[[9000, 3000], [9000, 3000]], mse=[[1.0, 20.0], [1.0, 20.0]],
/// ...     seen=[1.0, 0.1], weight=[0.9, 0.1], concealed_mse=[900.0, 900.0], capacity=[13000.0])
/// >>> made.choices
/// [0, 1]
#[pyfunction]
#[pyo3(
    signature = (**problem),
    text_signature = "(*, sizes, mse, seen, weight, concealed_mse, capacity, allocator='ows', both_ends=False, exact=False)"
)]
pub(crate) fn allocate(problem: Option<&Bound<'_, PyDict>>) -> PyResult<Allocation> {
    const ARGUMENTS: [&str; 9] =
        ["sizes", "mse", "seen", "weight", "concealed_mse", "capacity", "allocator", "both_ends", "exact"];
    let options = Options::new("allocate", &ARGUMENTS, problem)?;
    let (allocator, arrival) = how(&options)?;
    let problem = GopProblem::new(tiles(&options)?, capacity(&options)?, arrival).map_err(refused)?;
    Ok(allocator.allocate(&problem).into())
}

/// Decides one GoP of several viewers who share a capacity (OWS, section 4.1), as if their tiles were one viewer's.
///
/// Parameters
/// ----------
/// viewers : iterable of dict
///     For each viewer ``sizes``, ``mse``, ``seen``, ``weight`` and ``concealed_mse``, as for :func:`allocate`.
/// capacity : array_like of float, shape (samples,) or (paths, samples)
///     Bytes that each path may carry for all viewers before the deadline, equally likely samples.
/// sharing : str, optional
///     What is minimised: ``sum`` (the viewers' errors; the paper's, and the default), ``sum-db`` (their logarithms) or ``max-min`` (the largest).
/// allocator, both_ends, exact : optional
///     As for :func:`allocate`.
///
/// Returns
/// -------
/// list of Allocation
///     One for each viewer. ``bound_mse`` is for a viewer who has the whole capacity.
///
/// Raises
/// ------
/// TypeError, ValueError
///     A value has another type, shape or range; the text names the argument and its place.
///
/// Examples
/// --------
/// >>> ahead, aside = ({"sizes": [[9000, 3000]] * 2, "mse": [[1.0, 20.0]] * 2, "seen": seen, "weight": seen,
/// ...     "concealed_mse": [900.0, 900.0]} for seen in ([0.9, 0.1], [0.2, 0.8]))
/// >>> [made.choices for made in tributary.allocate_together([ahead, aside], capacity=[24000.0])]
/// [[0, 1], [1, 0]]
#[pyfunction]
#[pyo3(
    signature = (viewers, **options),
    text_signature = "(viewers, *, capacity, sharing='sum', allocator='ows', both_ends=False, exact=False)"
)]
pub(crate) fn allocate_together(
    viewers: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<Allocation>> {
    const VIEWER: [&str; 5] = ["sizes", "mse", "seen", "weight", "concealed_mse"];
    let options = Options::new(
        "allocate_together",
        &["capacity", "sharing", "allocator", "both_ends", "exact"],
        options,
    )?;
    let (allocator, arrival) = how(&options)?;
    let sharing = options.text("sharing", "a str such as 'sum'")?.unwrap_or("sum".to_owned());
    let sharing =
        Sharing::find(&sharing).map_err(|error| PyValueError::new_err(format!("sharing: {error}")))?;
    let viewers = Argument("viewers", viewers).each("a list of dicts", |viewer| {
        let given = viewer.1.cast::<PyDict>().map_err(|_| viewer.wrong_type("a dict"))?;
        tiles(&Options::new(viewer.0, &VIEWER, Some(given))?)
    })?;
    let made = together(&viewers, &capacity(&options)?, arrival, (&*allocator, sharing)).map_err(refused)?;
    Ok(made.into_iter().map(Allocation::from).collect())
}

impl From<allocation::Allocation> for Allocation {
    fn from(made: allocation::Allocation) -> Self {
        Self {
            choices: made.choices,
            order: made.order.iter().map(|message| (message.tile, message.choice)).collect(),
            misses: made.misses,
            bytes: made.bytes,
            expected_mse: made.expected_mse,
            bound_mse: made.bound_mse,
        }
    }
}

fn how(options: &Options<'_>) -> PyResult<(Box<dyn Allocator>, ArrivalOrder)> {
    let name = options.text("allocator", "a str such as 'ows'")?.unwrap_or("ows".to_owned());
    let settings = Settings { exact: options.flag("exact")?, ..Settings::default() };
    let allocator = allocation::create(&name, settings)
        .map_err(|error| PyValueError::new_err(format!("allocator: {error}")))?;
    Ok((allocator, if options.flag("both_ends")? { ArrivalOrder::BothEnds } else { ArrivalOrder::InOrder }))
}

fn needed<'py>(options: &Options<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    options
        .any(name)?
        .ok_or_else(|| PyValueError::new_err(format!("{name}: not given, and it has no default")))
}

fn column(options: &Options<'_>, name: &str, most: f64, tiles: usize) -> PyResult<Vec<f64>> {
    let values =
        Argument(name, &needed(options, name)?).each("a list of numbers", |item| item.number(0.0..=most))?;
    alike(("sizes", tiles), (name, values.len()))?;
    Ok(values)
}

fn tiles(options: &Options<'_>) -> PyResult<Vec<TileMenu>> {
    const ROWS: &str = "a list for each tile";
    let row = |item: Argument<'_, '_>| item.each("a list of bytes", |item| item.whole(0..=MOST_BYTES));
    let sizes = Argument("sizes", &needed(options, "sizes")?).each(ROWS, row)?;
    let row = |item: Argument<'_, '_>| item.each("a list of numbers", |item| item.number(0.0..=MOST_MSE));
    let errors = Argument("mse", &needed(options, "mse")?).each(ROWS, row)?;
    alike(("sizes", sizes.len()), ("mse", errors.len()))?;
    let seen = column(options, "seen", 1.0, sizes.len())?;
    let weight = column(options, "weight", 1.0, sizes.len())?;
    let concealed = column(options, "concealed_mse", MOST_MSE, sizes.len())?;
    let tile = |(at, (sizes, errors)): (usize, (&Vec<u64>, &Vec<f64>))| {
        alike((&format!("sizes[{at}]"), sizes.len()), (&format!("mse[{at}]"), errors.len()))?;
        let choice = |(bytes, mse): (&u64, &f64)| Choice { bytes: *bytes, mse: *mse };
        Ok(TileMenu {
            seen: seen[at],
            weight: weight[at],
            concealed_mse: concealed[at],
            choices: sizes.iter().zip(errors).map(choice).collect(),
        })
    };
    sizes.iter().zip(&errors).enumerate().map(tile).collect()
}

fn capacity(options: &Options<'_>) -> PyResult<Capacity> {
    const WANTED: &str = "a list of bytes, or one for each path";
    let given = needed(options, "capacity")?;
    let argument = Argument("capacity", &given);
    let bytes = |item: Argument<'_, '_>| item.number(0.0..=MOST_BYTES as f64);
    let nested = argument.each(WANTED, |item| Ok(item.1.try_iter().is_ok()))?;
    let paths = match nested.first() {
        Some(true) => argument.each(WANTED, |item| item.each(WANTED, bytes))?,
        _ => vec![argument.each(WANTED, bytes)?],
    };
    Capacity::from_paths(&paths).map_err(|error| PyValueError::new_err(format!("capacity: {error}")))
}
