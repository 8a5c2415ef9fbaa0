//! Sweeps of plans and rankings of transports: the laboratory's one runner, its plans and its stores of finished runs.

use crate::errors::{not_compared, not_reproduced, not_written, refused, unusable};
use crate::network::Network;
use crate::options::{Argument, Options};
use crate::own::Class;
use crate::run::{at_once, interruptible};
use crate::table::Table;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, Ordering};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::Arc;
use tributary_lab::World;
use tributary_lab::compare::{self as comparison, Against, Choice, Ranked, SEEDS, Verdict};
use tributary_lab::reproduce::comparison::{Comparison, Workload};
use tributary_lab::reproduce::own::{Given, OWN, OwnScheduler};
use tributary_lab::reproduce::transfer::Transfer;
use tributary_lab::reproduce::{Outcome, Paper, Selection, Settings, experiments_with, measure};
use tributary_lab::store::{Shard, Tally};
use tributary_lab::sweep::frame::Column;
use tributary_lab::sweep::{Frame, tables};
use tributary_report::Interval;

/// Result of a sweep, or of one shard of it.
///
/// Attributes
/// ----------
/// runs : Table
///     One row per finished run of the plan that the directory has.
/// spreads : Table
///     One row per metric and group of runs that differ only in their seed: mean and 95 % interval.
/// cells, before, now, failed, left_out : int
///     Runs of this shard; of them finished earlier, finished now, without a result, not begun.
/// outdated : int
///     Runs of this shard that had been finished by another version of the models, or with other contents of a file or of the
///     scheduler's class; they were not used.
/// planned : int
///     Runs of the whole plan.
#[pyclass(frozen, get_all, module = "tributary")]
#[derive(Debug)]
pub(crate) struct Sweep {
    runs: Py<Table>,
    spreads: Py<Table>,
    planned: usize,
    cells: usize,
    before: usize,
    now: usize,
    failed: usize,
    left_out: usize,
    outdated: usize,
}

#[pymethods]
impl Sweep {
    fn __repr__(&self) -> String {
        let Self { planned, cells, before, now, failed, left_out, outdated, .. } = self;
        let outdated = if *outdated > 0 { format!(", {outdated} outdated") } else { String::new() };
        format!(
            "Sweep({planned} runs planned, {cells} in this shard: {before} before, {now} now, {failed} failed, {left_out} left out{outdated})"
        )
    }
}

impl Sweep {
    fn new(py: Python<'_>, outcome: &Outcome) -> PyResult<Self> {
        let Tally { cells, before, now, failed, left_out, outdated } = outcome.tally;
        Ok(Self {
            runs: Py::new(py, Table::from(tables::runs(outcome)))?,
            spreads: Py::new(py, Table::from(tables::spreads(outcome)))?,
            planned: outcome.cells,
            cells,
            before,
            now,
            failed,
            left_out,
            outdated,
        })
    }
}

/// Makes the simulated runs of a plan, or of one shard of it, on all cores.
///
/// Finished runs are kept in ``out``, as by ``tributary-lab sweep``: a sweep that was stopped, by Ctrl-C too, continues from them, and
/// shards may run in several processes. Writes ``runs`` and ``sweep`` as CSV and Parquet into ``out``.
///
/// Parameters
/// ----------
/// plan : str or os.PathLike
///     A plan (a ``.toml`` file), or the name of a paper of the laboratory.
/// out : str or os.PathLike
///     Directory for finished runs and tables; it is made.
/// shard : str, optional
///     Part of the plan, such as ``"1/4"``; default the whole.
/// merge : iterable of str, optional
///     Directories with finished runs of the same plan to reuse.
/// jobs : int, optional
///     Runs at the same time; default one per core.
/// quick, held_back : bool, optional
///     The plan's quick matrices; the held-back seeds instead of the others.
/// limit : int, optional
///     Refuse a plan with more runs; default 100000.
/// progress : callable, optional
///     Called after each run with the share that is done, 0 to 1, and the run's title. An exception of it ends the sweep.
/// scheduler : tuple, optional
///     A class of schedulers for the transports ``mptcp/own`` and ``session/own``, its name, and a text that changes with what it does.
///
/// Raises
/// ------
/// TypeError, ValueError
///     The plan or an argument is not possible; the text names file and line, or the argument.
/// OSError
///     The directory cannot be used.
///
/// See Also
/// --------
/// tributary.sweep : The same, also on a cluster.
#[pyfunction]
#[pyo3(
    signature = (plan, out, **options),
    text_signature = "(plan, out, *, shard='1/1', merge=(), jobs=None, quick=False, held_back=False, limit=None, progress=None, \
                      scheduler=None)"
)]
pub(crate) fn sweep(
    plan: &Bound<'_, PyAny>,
    out: PathBuf,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Sweep> {
    const ARGUMENTS: [&str; 8] =
        ["shard", "merge", "jobs", "quick", "held_back", "limit", "progress", "scheduler"];
    let options = Options::new("sweep", &ARGUMENTS, options)?;
    let name: PathBuf =
        plan.extract().map_err(|_| Argument("plan", plan).wrong_type("a file, or the name of a paper"))?;
    let shard: Shard = match options.text("shard", "a str such as '1/4'")? {
        Some(text) => text.parse().map_err(|error| PyValueError::new_err(format!("shard: {error}")))?,
        None => Shard::WHOLE,
    };
    let paper = Paper::find(&name.display().to_string()).map_err(refused)?;
    let settings = settings(out, &options)?;
    let selection = Selection {
        quick: options.flag("quick")?,
        held_back: options.flag("held_back")?,
        limit: options.whole("limit", 1..=u64::MAX)?,
        ..settings.selection.clone()
    };
    let merge = options.texts("merge", "a list of directories")?.into_iter().map(PathBuf::from).collect();
    let settings = Settings { selection, shard, merge, ..settings };
    let own = Class::of(&options, &settings.stop)?;
    let is_own = |name: &String| OWN.contains(&name.as_str());
    if own.is_some() && !paper.matrix.iter().any(|matrix| matrix.transports.iter().any(is_own)) {
        let [mptcp, session] = OWN;
        let text = format!(
            "scheduler: the plan does not use it; add \"{mptcp}\" or \"{session}\" to the transports of a matrix"
        );
        return Err(PyValueError::new_err(text));
    }
    let (transfer, comparison) = (Transfer { own: given(&own) }, Comparison { own: given(&own) });
    let experiments = experiments_with(&[&transfer, &comparison]);
    let measured = watched(plan.py(), (&options, &own), &settings, |progress| {
        measure(&paper, &experiments, &settings, progress)
    })?;
    let outcome = measured.map_err(not_reproduced)?;
    tables::write(&outcome, &settings.directory).map_err(not_written)?;
    Sweep::new(plan.py(), &outcome)
}

fn settings(directory: PathBuf, options: &Options<'_>) -> PyResult<Settings> {
    std::fs::create_dir_all(&directory).map_err(|error| {
        unusable(std::io::Error::new(error.kind(), format!("{}: {error}", directory.display())))
    })?;
    // Runs with a scheduler in Python would wait for each other, because the interpreter executes one thread at a time.
    let one = options.any("scheduler")?.and(NonZeroUsize::new(1));
    let jobs = at_once(options.any("jobs")?.as_ref())?.or(one);
    let command = "import tributary".to_owned();
    let selection = Selection { world: World::Sim, ..Selection::default() };
    Ok(Settings { selection, directory, resume: true, jobs, command, ..Settings::default() })
}

fn given(own: &Option<Class>) -> Given<'_> {
    own.as_ref().map(|own| own as &dyn OwnScheduler)
}

/// Does the runs on another thread. A signal, and an exception of `progress` or of a scheduler in Python, stop them.
fn watched<T: Send>(
    py: Python<'_>,
    (options, own): (&Options<'_>, &Option<Class>),
    settings: &Settings,
    work: impl FnOnce(&mut dyn FnMut(f64, &str)) -> T + Send,
) -> PyResult<T> {
    let callback = options.any("progress")?;
    if let Some(callback) = callback.as_ref().filter(|callback| !callback.is_callable()) {
        return Err(Argument("progress", callback).wrong_type("something that can be called"));
    }
    let callback = callback.map(Bound::unbind);
    let mut raised = Ok(());
    let over: Arc<AtomicBool> = settings.stop.clone();
    let interrupt = |py: Python<'_>| own.as_ref().map_or(Ok(()), |own| own.interrupt(py));
    let done = interruptible(py, &over, &interrupt, || {
        work(&mut |share, title| {
            if let (Some(callback), Ok(())) = (&callback, &raised) {
                raised = Python::attach(|py| callback.call1(py, (share, title)).map(|_| ()));
                over.fetch_or(raised.is_err(), Ordering::Relaxed);
            }
        })
    })?;
    raised?;
    own.as_ref().and_then(Class::failed).map_or(Ok(done), Err)
}

/// Transports ranked over one network.
///
/// Attributes
/// ----------
/// advice : str
///     One sentence for somebody who must choose.
/// table : Table
///     One row per transport, the best first: ``transport``, the measure's ``mean`` with its 95 % interval ``low`` and ``high``, the number
///     of ``seeds``, and ``against_single`` and ``against_mptcp``, which are ``better``, ``worse`` or ``undecided``.
/// measure, unit : str
///     By what they are ranked.
/// runs : Table
///     One row per run.
#[pyclass(frozen, get_all, module = "tributary")]
#[derive(Debug)]
pub(crate) struct Ranking {
    advice: String,
    measure: &'static str,
    unit: &'static str,
    table: Py<Table>,
    runs: Py<Table>,
}

#[pymethods]
impl Ranking {
    /// The ranking as a ``pandas.DataFrame``; needs pandas and pyarrow.
    fn to_pandas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Table::to_pandas(self.table.bind(py))
    }

    fn __repr__(&self) -> String {
        format!("Ranking({}: {})", self.measure, self.advice)
    }
}

/// Ranks every transport over a network.
///
/// Its arguments are those of ``tributary.compare``, with the scheduler as a class, its name, and a text that changes with what it does.
///
/// See Also
/// --------
/// tributary.compare : The same with a class alone.
#[pyfunction]
#[pyo3(
    signature = (network, **options),
    text_signature = "(network, *, workload='bulk', seeds=10, seconds=None, congestion='cubic', transports=(), out=None, \
                      jobs=None, progress=None, scheduler=None)"
)]
pub(crate) fn compare(network: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Ranking> {
    const ARGUMENTS: [&str; 9] =
        ["workload", "seeds", "seconds", "congestion", "transports", "out", "jobs", "progress", "scheduler"];
    let options = Options::new("compare", &ARGUMENTS, options)?;
    let source = Network::of(&Argument("network", network), None)?;
    let workload = options.text("workload", "a str such as 'bulk'")?.map_or(Ok(Workload::Bulk), |name| {
        name.parse().map_err(|error| PyValueError::new_err(format!("workload: {error}")))
    })?;
    let choice = Choice {
        workload,
        seeds: options.whole("seeds", 2..=999)?.map_or(SEEDS, |seeds| seeds as u32),
        seconds: options.whole("seconds", 3..=86_400)?.map(|seconds| seconds as u32),
        congestion: options.text("congestion", "a str such as 'cubic'")?.unwrap_or("cubic".to_owned()),
        transports: options.texts("transports", "a list of names")?,
    };
    // Kept to the end of the function.
    let (out, _kept) = match options.path("out")? {
        Some(out) => (out, None),
        None => {
            let kept = tempfile::tempdir().map_err(unusable)?;
            (kept.path().to_owned(), Some(kept))
        }
    };
    let settings = settings(out, &options)?;
    let own = Class::of(&options, &settings.stop)?;
    let compared = watched(network.py(), (&options, &own), &settings, |progress| {
        comparison::run(&choice, &source, given(&own), &settings, progress)
    })?;
    let outcome = compared.map_err(not_compared)?;
    let ranking = comparison::Ranking::new(&outcome, workload);
    Ok(Ranking {
        advice: ranking.advice(),
        measure: ranking.measure.metric,
        unit: ranking.measure.unit,
        table: Py::new(network.py(), Table::from(standings(&ranking.standings)))?,
        runs: Py::new(network.py(), Table::from(tables::runs(&outcome)))?,
    })
}

fn standings(all: &[Ranked]) -> Frame {
    let text = |of: &dyn Fn(&Ranked) -> Option<&str>| {
        Column::Text(all.iter().map(|ranked| of(ranked).map(str::to_owned)).collect())
    };
    let number = |of: &dyn Fn(&Ranked) -> Option<f64>| Column::Number(all.iter().map(of).collect());
    let end = |of: fn(Interval) -> f64| number(&move |ranked| ranked.interval.map(of));
    let verdict = |against: &Option<Against>| {
        against.as_ref().map(|against| match against.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Undecided => "undecided",
        })
    };
    let columns = [
        ("transport", text(&|ranked| Some(&ranked.transport))),
        ("label", text(&|ranked| Some(&ranked.label))),
        ("mean", number(&|ranked| ranked.mean)),
        ("low", end(|interval| interval.low)),
        ("high", end(|interval| interval.high)),
        ("seeds", Column::Whole(all.iter().map(|ranked| ranked.seeds as u64).collect())),
        ("against_single", text(&|ranked| verdict(&ranked.against_single))),
        ("against_mptcp", text(&|ranked| verdict(&ranked.against_mptcp))),
    ];
    Frame { columns: columns.map(|(name, column)| (name.to_owned(), column)).into() }
}
