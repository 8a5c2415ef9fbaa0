//! Runs in the simulator, alone or many at a time, as `tributary-lab run --world sim` makes them.

use crate::errors::{SimulationError, refused, told};
use crate::failure::{Failure, class_name};
use crate::network::Network;
use crate::options::{Argument, Options};
use crate::table::Table;
use crate::{congestion, scheduler};
use core::num::NonZeroUsize;
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tributary_lab::request::Asked;
use tributary_lab::simulate::Simulation;
use tributary_lab::store::execute::{guarded, parallel};
use tributary_lab::sweep::Frame;
use tributary_lab::sweep::frame::Column;
use tributary_lab::{Request, SimResult};
use tributary_proto::transport::TransportName;
use tributary_sim::own::Own;
use tributary_sim::run::RunError;

/// The arguments of a run.
const ARGUMENTS: [&str; 11] = [
    "transport",
    "scheduler",
    "congestion",
    "workload",
    "size",
    "count",
    "pause",
    "seconds",
    "seed",
    "rtt",
    "queue",
];
/// Interval at which the calling thread looks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// One run in the simulator: a network, a transport and a workload, checked when it is made.
///
/// Parameters
/// ----------
/// network : Network, str or list of str
///     The network, or what :class:`Network` takes.
/// transport : str, optional
///     ``tcp:PATH``, ``quic:PATH``, ``mptcp``, ``mptcp/SCHEDULER``, ``mpquic``, ``session/SCHEDULER`` or a scheduler's name; default
///     the scenario's, else ``fbdt``; with a scheduler of your own ``mptcp`` or ``session``, default ``mptcp``.
/// scheduler : str or type[Scheduler], optional
///     A scheduler's name, for ``mptcp`` and ``session``; or a class of your own for them. The class, or any function, is called
///     with a seed for each end of a connection.
/// congestion : str or type[CongestionController], optional
///     Name of the congestion control of every subflow (default ``cubic``), or a class of your own, for ``tcp``, ``mptcp`` and sessions. It
///     is called with the segment size, the first window and a seed for each end of a subflow.
/// workload : {'bulk', 'object'}, optional
///     Default the scenario's, else ``bulk``.
/// size, count : int, optional
///     Bytes of each object (default 102400) and the number of objects (default 100).
/// pause : str, optional
///     Pause between two objects; default ``"50 ms"``.
/// seconds : int, optional
///     Length in virtual time, 2 to 3600; default 10, or that of a scenario with settings of a run.
/// seed : int, optional
///     Seed of everything random; default the scenario's.
/// rtt : str, optional
///     Base round-trip time, such as ``"20 ms"``; default the scenario's.
/// queue : str, optional
///     Queue of every link, such as ``"300 kB"`` or ``"20 ms"``; default the scenario's.
///
/// Raises
/// ------
/// TypeError, ValueError
///     An argument is not possible; the text names it, what was given and what is wanted.
///
/// Examples
/// --------
/// >>> run = tributary.Run("los", transport="mptcp", seconds=2, seed=1)
/// >>> run.run().event_log_hash == run.run().event_log_hash
/// True
#[pyclass(frozen, module = "tributary")]
#[derive(Debug)]
pub(crate) struct Run {
    simulation: Simulation,
    scheduler: Option<Py<PyAny>>,
    congestion: Option<Py<PyAny>>,
}

/// What one run measured.
#[pyclass(frozen, name = "Result", module = "tributary")]
#[derive(Debug)]
pub(crate) struct RunResult {
    result: SimResult,
}

/// An algorithm: a name, or something of Python's that makes one.
enum Chosen {
    Named(Option<String>),
    Own(Py<PyAny>, String),
}

fn chosen(options: &Options<'_>, name: &str, wanted: &str) -> PyResult<Chosen> {
    let Some(value) = options.any(name)? else { return Ok(Chosen::Named(None)) };
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Chosen::Named(Some(text.to_string())));
    }
    if !value.is_callable() {
        return Err(Argument(name, &value).wrong_type(wanted));
    }
    let class = value.getattr_opt("__name__")?.map_or_else(|| class_name(&value), |name| name.to_string());
    Ok(Chosen::Own(value.unbind(), format!("own:{class}")))
}

/// The transport that was asked for, with the name of a scheduler of the caller's own.
fn scheduled_by(asked: &str, own: &str) -> PyResult<TransportName> {
    let scheduler = own.to_owned();
    match asked {
        "mptcp" => Ok(TransportName::Mptcp { scheduler }),
        "session" => Ok(TransportName::Session { scheduler }),
        other => Err(PyValueError::new_err(format!(
            "scheduler: `{other}` takes none of your own: take mptcp or session, or a name"
        ))),
    }
}

fn workload(options: &Options<'_>) -> PyResult<Option<Asked>> {
    let name = options.text("workload", "'bulk' or 'object'")?;
    let size = options.whole("size", 1..=1 << 40)?;
    let count = options.whole("count", 1..=u64::from(u32::MAX))?;
    let pause = options.time("pause")?;
    match name.as_deref() {
        Some("object") => {
            let pause = pause.map_or(50, |pause| pause.as_millis() as u64);
            Ok(Some(Asked::Object(size.unwrap_or(102_400), count.unwrap_or(100) as u32, pause)))
        }
        None | Some("bulk") if size.or(count).is_some() || pause.is_some() => Err(PyValueError::new_err(
            "size, count and pause are settings of objects: add workload='object', or leave them out",
        )),
        None => Ok(None),
        Some("bulk") => Ok(Some(Asked::Bulk)),
        Some(other) => {
            Err(PyValueError::new_err(format!("workload: '{other}' given; wanted 'bulk' or 'object'")))
        }
    }
}

impl Run {
    /// The run of a call of `function`.
    fn of(function: &str, network: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = Options::new(function, &ARGUMENTS, options)?;
        let source = Network::of(&Argument("network", network), None)?;
        let (named, scheduler) = match chosen(&options, "scheduler", "a name, or a class of your own")? {
            Chosen::Named(name) => (name, None),
            Chosen::Own(object, name) => (None, Some((object, name))),
        };
        let (control, congestion) = match chosen(&options, "congestion", "a name, or a class of your own")? {
            Chosen::Named(name) => (name, None),
            Chosen::Own(object, name) => (None, Some((object, name))),
        };
        let transport = options.text("transport", "a str such as 'fbdt'")?;
        let transport = transport.or_else(|| scheduler.as_ref().map(|_| "mptcp".to_owned()));
        let request = Request {
            transport: transport.clone(),
            scheduler: named,
            congestion: control,
            workload: workload(&options)?,
            seconds: options.whole("seconds", 2..=3600)?.map(|seconds| seconds as u32),
            seed: options.whole("seed", 0..=u64::MAX)?,
            rtt: options.time("rtt")?,
            queue: options.queue("queue")?,
            ..Request::default()
        };
        let mut simulation = request.simulated(source.scenario()).map_err(refused)?;
        if let (Some((_, name)), Some(asked)) = (&scheduler, &transport) {
            simulation.cell.transport = scheduled_by(asked, name)?;
        }
        if let Some((_, name)) = &congestion {
            simulation.cell.congestion.clone_from(name);
        }
        let run = Self {
            simulation,
            scheduler: scheduler.map(|(object, _)| object),
            congestion: congestion.map(|(object, _)| object),
        };
        run.simulation.cell.check_own(&run.own(network.py(), &Failure::default())).map_err(refused)?;
        Ok(run)
    }

    /// Its algorithms of Python's, which tell their failures.
    fn own(&self, py: Python<'_>, failure: &Failure) -> Own {
        let clone = |object: &Option<Py<PyAny>>| object.as_ref().map(|object| object.clone_ref(py));
        Own {
            scheduler: clone(&self.scheduler).map(|object| scheduler::maker(object, failure.clone())),
            congestion: clone(&self.congestion).map(|object| congestion::maker(object, failure.clone())),
            rule: None,
        }
    }

    fn is_python(&self) -> bool {
        self.scheduler.is_some() || self.congestion.is_some()
    }

    /// Its settings in one line.
    fn title(&self) -> String {
        let cell = &self.simulation.cell;
        let (scenario, transport) = (&cell.scenario.name, cell.transport.to_string());
        format!("{scenario}, {transport}, {}, seed {}", cell.congestion, cell.scenario.seed)
    }

    /// Makes the run on this thread, which lets other threads of Python work meanwhile.
    fn here(&self, py: Python<'_>) -> PyResult<RunResult> {
        let failure = Failure::default();
        let own = self.own(py, &failure);
        let ran = py.detach(|| self.go(&own, &mut |_| failure.watch()));
        match failure.take() {
            Some(error) => Err(Failure::told(error, py, &self.title())),
            None => ran,
        }
    }

    fn go(&self, own: &Own, watch: &mut dyn FnMut(f64) -> ControlFlow<()>) -> PyResult<RunResult> {
        let failed = |problem: String| SimulationError::new_err(format!("{}: {problem}", self.title()));
        match guarded(|| self.simulation.run_watched(own, watch)) {
            Ok(Ok((result, _))) => Ok(RunResult { result }),
            Ok(Err(error @ (RunError::World(_) | RunError::Stopped { .. }))) => Err(failed(told(&error))),
            Ok(Err(error)) => Err(refused(error)),
            Err(panic) => Err(failed(panic)),
        }
    }
}

#[pymethods]
impl Run {
    #[new]
    #[pyo3(
        signature = (network, **options),
        text_signature = "(network, *, transport=None, scheduler=None, congestion=None, workload=None, size=None, count=None, \
                          pause=None, seconds=None, seed=None, rtt=None, queue=None)"
    )]
    fn new(network: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Self::of("Run", network, options)
    }

    /// Makes the run. Other threads of Python work meanwhile, and Ctrl-C ends it.
    ///
    /// Raises
    /// ------
    /// SimulationError
    ///     The run was stopped before its end.
    /// Exception
    ///     Whatever an algorithm written in Python raised, or ValueError if it returned something impossible; with a note that names the
    ///     run and its seed.
    #[pyo3(name = "run")]
    fn make(&self, py: Python<'_>) -> PyResult<RunResult> {
        self.here(py)
    }

    /// All settings as text, with the version of the models: runs with the same text have the same result. ``None`` with an algorithm
    /// written in Python.
    #[getter]
    fn identity(&self) -> Option<String> {
        (!self.is_python()).then(|| self.simulation.identity())
    }

    fn __repr__(&self) -> String {
        format!("Run({})", self.title())
    }
}

/// Makes one run; the arguments are those of :class:`Run`.
///
/// Examples
/// --------
/// >>> result = tributary.run("los", transport="fbdt", seconds=3)
/// >>> result.transport, result.goodput_mbps > 50
/// ('fbdt', True)
#[pyfunction]
#[pyo3(
    signature = (network, **options),
    text_signature = "(network, *, transport=None, scheduler=None, congestion=None, workload=None, size=None, count=None, \
                      pause=None, seconds=None, seed=None, rtt=None, queue=None)"
)]
pub(crate) fn run(network: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<RunResult> {
    Run::of("run", network, options)?.here(network.py())
}

/// Makes many runs, as many at a time as there are cores. Those with an algorithm written in Python follow one after another.
///
/// Parameters
/// ----------
/// runs : iterable of Run
///     The runs.
/// jobs : int, optional
///     Runs at the same time; default one per core.
///
/// Returns
/// -------
/// list of Result
///     In the order of the runs.
///
/// Raises
/// ------
/// Exception
///     As :meth:`Run.run`, of the first run that failed; no run begins after it.
///
/// Examples
/// --------
/// >>> runs = [tributary.Run("los", transport="fbdt", seconds=2, seed=seed) for seed in range(3)]
/// >>> [result.seed for result in tributary.run_all(runs)]
/// [0, 1, 2]
#[pyfunction]
#[pyo3(signature = (runs, jobs=None))]
pub(crate) fn run_all(runs: &Bound<'_, PyAny>, jobs: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<RunResult>> {
    let py = runs.py();
    let read = |argument: Argument<'_, '_>| match argument.1.cast::<Run>() {
        Ok(run) => Ok(run.clone().unbind()),
        Err(_) => Err(argument.wrong_type("a Run")),
    };
    let runs: Vec<Py<Run>> = Argument("runs", runs).each("a list of Run", read)?;
    let jobs = at_once(jobs)?;
    let mut results: Vec<Option<PyResult<RunResult>>> = Vec::new();
    results.resize_with(runs.len(), || None);
    let (own, rust): (Vec<usize>, Vec<usize>) = (0..runs.len()).partition(|at| runs[*at].get().is_python());
    let stop = AtomicBool::new(false);
    interruptible(py, &stop, &|_| Ok(()), || {
        let goes_on = || !stop.load(Ordering::Relaxed);
        let watch = |_: f64| if goes_on() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        let one = |_, at: &usize| runs[*at].get().go(&Own::default(), &mut { watch });
        parallel((&rust, jobs), goes_on, one, |at, result| {
            let whole = result.is_ok();
            results[rust[at]] = Some(result);
            whole
        });
    })?;
    for at in own {
        if results.iter().flatten().all(|result| result.is_ok()) {
            results[at] = Some(runs[at].get().here(py));
        }
    }
    // Runs that were not begun come with a failure of another.
    results.into_iter().flatten().collect()
}

/// The number of runs at the same time.
pub(crate) fn at_once(jobs: Option<&Bound<'_, PyAny>>) -> PyResult<Option<NonZeroUsize>> {
    let jobs = jobs.map(|jobs| Argument("jobs", jobs).whole(1..=1024)).transpose()?;
    Ok(jobs.and_then(|jobs| NonZeroUsize::new(jobs as usize)))
}

/// Does work without the interpreter's lock on another thread, while this one looks for signals. On one, `stop` is set, and `interrupt`
/// called again and again; the exception is the result once the work has ended.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    interrupt: &(dyn Fn(Python<'_>) -> PyResult<()> + Sync),
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let caller = std::thread::current();
    let mut signalled = Ok(());
    let done = py.detach(|| {
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let done = guarded(work);
                caller.unpark();
                done
            });
            while !worker.is_finished() {
                std::thread::park_timeout(LOOK);
                if signalled.is_ok() {
                    signalled = Python::attach(|py| py.check_signals());
                    stop.fetch_or(signalled.is_err(), Ordering::Relaxed);
                } else if let Err(error) = Python::attach(interrupt) {
                    signalled = Err(error);
                }
            }
            worker.join()
        })
    });
    signalled?;
    match done {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(panic)) => Err(SimulationError::new_err(panic)),
        Err(_) => Err(SimulationError::new_err("the program failed")),
    }
}

#[pymethods]
impl RunResult {
    /// Name of the scenario.
    #[getter]
    fn scenario(&self) -> &str {
        &self.result.scenario
    }

    /// Short name of the transport.
    #[getter]
    fn transport(&self) -> &str {
        &self.result.transport
    }

    /// Congestion control of every subflow.
    #[getter]
    fn congestion(&self) -> &str {
        &self.result.congestion
    }

    /// Seed of everything random.
    #[getter]
    fn seed(&self) -> u64 {
        self.result.seed
    }

    /// Mean goodput without the first second, Mbit/s; ``None`` if there are only objects.
    #[getter]
    fn goodput_mbps(&self) -> Option<f64> {
        self.result.goodput.as_ref().map(|goodput| goodput.mean_mbps)
    }

    /// Goodput as a share of what all links could carry, 0 to 1.
    #[getter]
    fn share_of_capacity(&self) -> Option<f64> {
        self.result.goodput.as_ref().map(|goodput| goodput.share_of_capacity)
    }

    /// The longest time without a byte in order while data was outstanding, ms.
    #[getter]
    fn longest_silence_ms(&self) -> Option<f64> {
        self.result.longest_silence_ms
    }

    /// Payload sent again on another path, per cent of the payload sent once; ``None`` for one path.
    #[getter]
    fn duplicates_percent(&self) -> Option<f64> {
        self.result.duplicates_percent
    }

    /// Hash of all events: the same for the same run on every machine.
    #[getter]
    fn event_log_hash(&self) -> &str {
        &self.result.virtual_time.hash
    }

    /// Number of events.
    #[getter]
    fn events(&self) -> u64 {
        self.result.virtual_time.events
    }

    /// Each second of the transfer: ``second``, ``goodput_mbps``, and ``capacity_mbps`` of all links. Empty if there are only objects.
    fn seconds(&self) -> Table {
        let empty = (Vec::new(), Vec::new());
        let (goodput, capacity) = self.result.goodput.as_ref().map_or(empty, |goodput| {
            (goodput.per_second_mbps.clone(), goodput.capacity_per_second_mbps.clone())
        });
        let numbers = |values: Vec<f64>| Column::Number(values.into_iter().map(Some).collect());
        let seconds = Column::Whole((0..goodput.len() as u64).collect());
        let columns =
            [("second", seconds), ("goodput_mbps", numbers(goodput)), ("capacity_mbps", numbers(capacity))];
        Frame { columns: columns.map(|(name, column)| (name.to_owned(), column)).into() }.into()
    }

    /// What each link delivered towards the client: ``time_s``, and one column of Mbit/s for each path, in steps of 0.1 s.
    fn links(&self) -> Table {
        let steps = self.result.links.values().map(Vec::len).max().unwrap_or(0);
        let mut columns = vec![("time_s", (0..steps).map(|at| Some(at as f64 / 10.0)).collect::<Vec<_>>())];
        for (name, rates) in &self.result.links {
            columns.push((name.as_str(), (0..steps).map(|at| rates.get(at).copied()).collect()));
        }
        Table::of_numbers(columns)
    }

    /// Everything, as dicts and lists: what ``tributary-lab run --json`` prints.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.result);
        let text = text.map_err(|error| SimulationError::new_err(error.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    fn __repr__(&self) -> String {
        let result = &self.result;
        let goodput = self.goodput_mbps().map_or(String::new(), |mbps| format!(", {mbps:.1} Mbit/s"));
        format!("Result({}, {}, seed {}{goodput})", result.scenario, result.transport, result.seed)
    }
}
