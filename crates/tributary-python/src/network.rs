//! Networks and traces: reading every form that the laboratory knows, writing, the rates of a path over time, and packets over one link.

use crate::errors::{refused, told};
use crate::options::{Argument, Options};
use crate::table::Table;
use core::time::Duration;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tributary_lab::compare::{self, Source};
use tributary_lab::result::path_capacity_mbps;
use tributary_link::{Direction, Packet, Scenario, Trace as LinkTrace, TraceError};
use tributary_types::Instant;

/// Longest trace, in seconds.
const WEEK: f64 = 604_800.0;
/// Most rows of a table of capacity: each is an integral from the beginning.
const MOST_ROWS: usize = 10_000;
/// Largest packet of a link, in bytes.
const MOST_PACKET: u64 = 1 << 20;

/// A network: a scenario, or the measured traces of its paths.
///
/// Parameters
/// ----------
/// source : str or os.PathLike, or a list of them
///     A built-in scenario's name, a scenario file (``.toml``), or the traces of the paths in any form that
///     ``tributary-lab compare`` reads: Mahimahi (``NAME.down`` with ``NAME.up``), CSV with units in the heading, pcap,
///     pcapng, Sabre, E3PO, Lumos5G, 5Gophers, UCC 5G, Starlink.
/// rtt : str, optional
///     Base round-trip time with its unit, such as ``"20 ms"``: of traces without one (default 40 ms), or instead of the scenario's.
///
/// Raises
/// ------
/// ValueError
///     The source is unknown or damaged; the text names file, line and column, and what to do.
///
/// Examples
/// --------
/// >>> network = tributary.Network("mobility")
/// >>> network.paths
/// ['wifi', 'wigig']
#[pyclass(frozen, module = "tributary")]
#[derive(Debug)]
pub(crate) struct Network {
    source: Source,
}

/// A rate over time, which repeats without end.
///
/// Parameters
/// ----------
/// times_s : iterable of float
///     When each rate begins, in seconds, ascending; a table that does not begin at zero is shifted. The last rate lasts as long as the one
///     before it.
/// rates_mbps : iterable of float
///     The rates in Mbit/s, as many.
///
/// Raises
/// ------
/// ValueError
///     The numbers make no trace.
///
/// Examples
/// --------
/// >>> trace = tributary.Trace([0, 1], [10, 30])
/// >>> trace.period_s, trace.mean_mbps
/// (2.0, 20.0)
#[pyclass(frozen, module = "tributary")]
#[derive(Debug)]
pub(crate) struct Trace {
    trace: LinkTrace,
}

impl Network {
    /// A network from an argument: one, or what its constructor takes.
    pub fn of(argument: &Argument<'_, '_>, rtt: Option<Duration>) -> PyResult<Source> {
        const WANTED: &str = "a Network, a scenario's name, a file, or a list of files";
        if let Ok(network) = argument.1.cast::<Self>() {
            return Ok(network.get().source.clone());
        }
        let place = |argument: Argument<'_, '_>| {
            let path: std::path::PathBuf = argument.1.extract().map_err(|_| argument.wrong_type(WANTED))?;
            path.into_os_string().into_string().map_err(|_| argument.refused("a name in UTF-8"))
        };
        let names = match place(Argument(argument.0, argument.1)) {
            Ok(one) => vec![one],
            Err(_) => argument.each(WANTED, place)?,
        };
        if names.is_empty() {
            return Err(argument.refused("at least one file"));
        }
        Source::read(&names, rtt).map_err(refused)
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        self.source.scenario()
    }

    fn path_index(&self, path: &str) -> PyResult<usize> {
        let index = self.scenario().path(path).map(|(index, _)| index);
        index.ok_or_else(|| {
            let known = self.scenario().path_names().join(", ");
            PyValueError::new_err(format!("path: there is no `{path}`; known: {known}"))
        })
    }
}

fn direction(options: &Options<'_>) -> PyResult<Direction> {
    match options.text("direction", "'down' or 'up'")?.as_deref() {
        None | Some("down") => Ok(Direction::Down),
        Some("up") => Ok(Direction::Up),
        Some(other) => {
            Err(PyValueError::new_err(format!("direction: '{other}' given; wanted 'down' or 'up'")))
        }
    }
}

fn seconds(value: f64) -> Duration {
    Duration::from_nanos((value * 1e9).round() as u64)
}

#[pymethods]
impl Network {
    #[new]
    #[pyo3(signature = (source, *, rtt=None))]
    fn new(source: &Bound<'_, PyAny>, rtt: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let rtt = rtt.map(|rtt| Argument("rtt", rtt).time()).transpose()?;
        Ok(Self { source: Self::of(&Argument("source", source), rtt)? })
    }

    /// Name of the scenario.
    #[getter]
    fn name(&self) -> &str {
        &self.scenario().name
    }

    /// Names of the paths.
    #[getter]
    fn paths(&self) -> Vec<String> {
        self.scenario().path_names().into_iter().map(str::to_owned).collect()
    }

    /// Length of the scenario in seconds.
    #[getter]
    fn duration_s(&self) -> f64 {
        self.scenario().duration.as_secs_f64()
    }

    /// The scenario file of a network that was made from traces; ``None`` for a scenario.
    #[getter]
    fn toml(&self) -> Option<&str> {
        self.source.text()
    }

    fn __repr__(&self) -> String {
        format!("Network({}: {})", self.name(), self.paths().join(", "))
    }

    /// Capacity of a path towards the client over time.
    ///
    /// Parameters
    /// ----------
    /// path : str
    ///     Name of the path.
    /// bin_s : float, optional
    ///     Length of a row in seconds, 0.001 to 3600; default 1. At most 10000 rows.
    ///
    /// Returns
    /// -------
    /// Table
    ///     ``time_s``, the begin of each bin, and ``capacity_mbps``.
    #[pyo3(signature = (path, bin_s=None))]
    fn capacity(&self, path: &str, bin_s: Option<&Bound<'_, PyAny>>) -> PyResult<Table> {
        let path = self.path_index(path)?;
        let bin = bin_s.map_or(Ok(1.0), |bin| Argument("bin_s", bin).number(0.001..=3600.0))?;
        let bins = ((self.duration_s() / bin).ceil() as usize).max(1);
        if bins > MOST_ROWS {
            let problem = format!("bin_s: {bin} makes {bins} rows; wanted at most {MOST_ROWS}");
            return Err(PyValueError::new_err(problem));
        }
        let begin = |at: usize| at as f64 * bin;
        let rate = |at: usize| Some(path_capacity_mbps(self.scenario(), path, begin(at), bin));
        Ok(Table::of_numbers(vec![
            ("time_s", (0..bins).map(|at| Some(begin(at))).collect()),
            ("capacity_mbps", (0..bins).map(rate).collect()),
        ]))
    }

    /// The rate of a path's link as a trace; a random one is that of the scenario's seed.
    ///
    /// Parameters
    /// ----------
    /// path : str
    ///     Name of the path.
    /// direction : {'down', 'up'}, optional
    ///     Towards the client (default), or the server.
    /// seconds : float, optional
    ///     Length; default the scenario's.
    #[pyo3(signature = (path, **options), text_signature = "($self, path, *, direction='down', seconds=None)")]
    fn trace(&self, path: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Trace> {
        let options = Options::new("trace", &["direction", "seconds"], options)?;
        let length = options.number("seconds", 1e-5..=WEEK)?.map_or(self.scenario().duration, seconds);
        let link = self.scenario().paths[self.path_index(path)?].link(direction(&options)?);
        let trace = LinkTrace::generate(&link.rate, self.scenario().seed, length);
        let trace =
            trace.ok_or_else(|| PyValueError::new_err("seconds: a trace lasts from 10 µs to a week"))?;
        Ok(Trace { trace })
    }

    /// Sends packets over one path's link: its rate, queue, loss and delay.
    ///
    /// Parameters
    /// ----------
    /// path : str
    ///     Name of the path.
    /// times_s : iterable of float
    ///     When each packet is sent, in seconds, ascending.
    /// sizes : iterable of int
    ///     Bytes of each, as IP packets; as many.
    /// direction : {'down', 'up'}, optional
    ///     Towards the client (default), or the server.
    /// seed : int, optional
    ///     Seed of rates, losses and delays; default the scenario's.
    ///
    /// Returns
    /// -------
    /// Table
    ///     ``sent_s`` and ``arrived_s``, which is missing for a packet that was lost.
    ///
    /// Examples
    /// --------
    /// >>> network = tributary.Network("los")
    /// >>> table = network.transmit("wifi", [0.0, 0.5], [1500, 1500])
    /// >>> all(arrived > sent for sent, arrived in zip(table["sent_s"], table["arrived_s"]))
    /// True
    #[pyo3(
        signature = (path, times_s, sizes, **options),
        text_signature = "($self, path, times_s, sizes, *, direction='down', seed=None)"
    )]
    fn transmit(
        &self,
        path: &str,
        times_s: &Bound<'_, PyAny>,
        sizes: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Table> {
        let options = Options::new("transmit", &["direction", "seed"], options)?;
        let path = self.path_index(path)?;
        let times = Argument("times_s", times_s).each("numbers", |item| item.number(0.0..=WEEK))?;
        let sizes = Argument("sizes", sizes).each("whole numbers", |item| item.whole(1..=MOST_PACKET))?;
        alike(("times_s", times.len()), ("sizes", sizes.len()))?;
        if let Some(at) = times.windows(2).position(|pair| pair[1] < pair[0]) {
            let (before, time) = (times[at], times[at + 1]);
            let problem = format!("times_s[{}]: {time} is before {before}; sort the packets", at + 1);
            return Err(PyValueError::new_err(problem));
        }
        let mut scenario = self.scenario().clone();
        if let Some(seed) = options.whole("seed", 0..=u64::MAX)? {
            scenario = scenario.with_seed(seed);
        }
        let mut link = scenario.link::<usize>(path, direction(&options)?);
        for (number, (time, size)) in times.iter().zip(&sizes).enumerate() {
            let at = Instant::ZERO + seconds(*time);
            link.push(at, Packet::whole(*size as u32, number));
        }
        let mut arrived = vec![None; times.len()];
        // A link that is dead at its end keeps what it has.
        let end = Instant::ZERO + seconds(WEEK * 2.0);
        while let Some(at) = link.poll_timeout().filter(|at| *at <= end) {
            while let Some(chunk) = link.poll(at) {
                arrived[chunk.handle] = Some(chunk.due.as_secs_f64());
            }
        }
        let sent = times.into_iter().map(Some).collect();
        Ok(Table::of_numbers(vec![("sent_s", sent), ("arrived_s", arrived)]))
    }
}

/// Refuses lists of different lengths.
pub(crate) fn alike(one: (&str, usize), other: (&str, usize)) -> PyResult<()> {
    if one.1 == other.1 {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{}: {} values given; wanted {}, as many as {}",
        other.0, other.1, one.1, one.0
    )))
}

fn bad(argument: &str) -> impl Fn(TraceError) -> PyErr {
    move |error| PyValueError::new_err(format!("{argument}: {}", told(&error)))
}

#[pymethods]
impl Trace {
    #[new]
    fn new(times_s: &Bound<'_, PyAny>, rates_mbps: &Bound<'_, PyAny>) -> PyResult<Self> {
        let times = Argument("times_s", times_s).each("numbers", |item| item.number(0.0..=WEEK))?;
        let rates =
            Argument("rates_mbps", rates_mbps).each("numbers", |item| item.number(0.0..=100_000.0))?;
        alike(("times_s", times.len()), ("rates_mbps", rates.len()))?;
        let lines = times.iter().zip(&rates).map(|(time, rate)| format!("{time:.9},{rate:.6}\n"));
        Self::from_csv(&lines.collect::<String>())
    }

    /// Reads a file in any form that the laboratory knows, with one path in it.
    ///
    /// Parameters
    /// ----------
    /// path : str or os.PathLike
    ///     The file.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     The file cannot be used; the text names file, line and column, and what to do.
    #[staticmethod]
    fn read(path: std::path::PathBuf) -> PyResult<Self> {
        let trace = compare::trace(&path.display().to_string()).map_err(refused)?;
        Ok(Self { trace })
    }

    /// A trace from CSV: ``seconds,mbit/s`` lines, or other units in a heading.
    #[staticmethod]
    fn from_csv(text: &str) -> PyResult<Self> {
        Ok(Self { trace: LinkTrace::parse_csv(text).map_err(bad("text"))? })
    }

    /// A trace in Mahimahi's form: a whole number of milliseconds per line, each an opportunity to send 1500 bytes.
    #[staticmethod]
    fn from_mahimahi(text: &str) -> PyResult<Self> {
        Ok(Self { trace: LinkTrace::parse_mahimahi(text).map_err(bad("text"))? })
    }

    /// After this time it repeats, seconds.
    #[getter]
    fn period_s(&self) -> f64 {
        self.trace.period().as_secs_f64()
    }

    /// Mean rate, Mbit/s.
    #[getter]
    fn mean_mbps(&self) -> f64 {
        self.trace.mean().as_mbps_f64()
    }

    /// Highest rate, Mbit/s.
    #[getter]
    fn max_mbps(&self) -> f64 {
        self.trace.max().as_mbps_f64()
    }

    fn __repr__(&self) -> String {
        format!("Trace({} s, mean {:.1} Mbit/s)", self.period_s(), self.mean_mbps())
    }

    /// As CSV, exact to the nanosecond and the bit per second.
    fn to_csv(&self) -> String {
        self.trace.to_csv()
    }

    /// In Mahimahi's form.
    ///
    /// Examples
    /// --------
    /// >>> print(tributary.Trace([0, 0.002], [12, 6]).to_mahimahi().replace("\n", " "))
    /// 1 2 4
    fn to_mahimahi(&self) -> String {
        self.trace.to_mahimahi()
    }

    /// One row for each span of constant rate: ``until_s``, its end, and ``rate_bps``.
    fn table(&self) -> Table {
        let (ends, rates) = self
            .trace
            .iter()
            .map(|(end, rate)| (Some(end.as_secs_f64()), Some(rate.as_bps() as f64)))
            .unzip();
        Table::of_numbers(vec![("until_s", ends), ("rate_bps", rates)])
    }
}
