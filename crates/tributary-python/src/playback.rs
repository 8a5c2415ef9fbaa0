//! A DASH playback in the simulator, and bitrate rules written in Python.

use crate::errors::{SimulationError, refused, told};
use crate::failure::{Failure, class_name, defines, nonsense, require};
use crate::network::Network;
use crate::options::{Argument, Options};
use crate::table::Table;
use core::time::Duration;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::sync::Arc;
use tributary_lab::Request;
use tributary_lab::store::execute::guarded;
use tributary_player::abr::{Decision, Ladder, Progress, Rule, View};
use tributary_player::dash::play::{Qoe, Settings, Title};
use tributary_sim::own::{MakeRule, Own};
use tributary_sim::run::{DashOutcome, RunError};
use tributary_sim::workload::dash::{Control, DashSpec};
use tributary_types::{Bitrate, Instant};

/// The arguments of a playback.
const ARGUMENTS: [&str; 8] =
    ["transport", "congestion", "ladder_mbps", "segment_s", "rule", "seconds", "seed", "rtt"];
/// Bitrates unless others are given, Mbit/s.
const LADDER: [f64; 6] = [1.0, 2.5, 5.0, 10.0, 20.0, 40.0];
/// Longest delay that a rule may ask for, seconds.
const MOST_DELAY: f64 = 3600.0;

/// The player, as a rule sees it. Times are in seconds, rates in bit/s.
#[pyclass(frozen, get_all, module = "tributary")]
#[derive(Debug)]
pub(crate) struct PlayerView {
    /// Bitrate of each quality, ascending.
    bitrates: Vec<f64>,
    /// Duration of a media segment.
    segment: f64,
    /// Media in the play buffer.
    level: f64,
    /// Capacity of the play buffer.
    capacity: f64,
    /// Index of the media segment whose quality is chosen, from zero.
    next: usize,
    /// Measured throughput; ``None`` before the first download.
    throughput: Option<f64>,
    /// Measured time from a request to its first byte; ``None`` before the first download.
    latency: Option<f64>,
}

/// What a player recorded.
#[pyclass(frozen, module = "tributary")]
#[derive(Debug)]
pub(crate) struct Playback {
    outcome: DashOutcome,
    bitrates: Vec<f64>,
}

/// An object of Python in the place of a rule.
struct OwnRule {
    object: Option<Py<PyAny>>,
    class: String,
    failure: Failure,
    abandons: bool,
}

fn maker(factory: Py<PyAny>, failure: Failure) -> Arc<MakeRule> {
    Arc::new(move || {
        let made = failure.guard(|py| {
            let object = factory.bind(py).call0()?;
            require(&object, "choose")?;
            let abandons = defines(&object, "BitrateRule", "abandon")?;
            let class = class_name(&object);
            Ok(OwnRule { object: Some(object.unbind()), class, failure: failure.clone(), abandons })
        });
        let absent =
            || OwnRule { object: None, class: String::new(), failure: failure.clone(), abandons: false };
        Box::new(made.unwrap_or_else(absent))
    })
}

fn seen(view: &View<'_>) -> PlayerView {
    PlayerView {
        bitrates: (0..view.ladder.len()).map(|quality| view.ladder.bitrate(quality)).collect(),
        segment: view.ladder.segment().as_secs_f64(),
        level: view.level.as_secs_f64(),
        capacity: view.capacity.as_secs_f64(),
        next: view.next,
        throughput: view.estimate.map(|estimate| estimate.throughput),
        latency: view.estimate.map(|estimate| estimate.latency.as_secs_f64()),
    }
}

impl OwnRule {
    fn quality(&self, method: &str, returned: &Bound<'_, PyAny>, view: &View<'_>) -> PyResult<usize> {
        let quality = returned.extract().ok().filter(|quality| *quality <= view.ladder.top());
        let wanted = || format!("a quality from 0 to {}", view.ladder.top());
        quality.ok_or_else(|| nonsense(&self.class, method, returned, &wanted()))
    }

    fn decide(&self, returned: &Bound<'_, PyAny>, view: &View<'_>) -> PyResult<Decision> {
        let Ok(pair) = returned.cast::<PyTuple>() else {
            return Ok(Decision { quality: self.quality("choose", returned, view)?, delay: Duration::ZERO });
        };
        let wanted = "a quality, or a quality and seconds to wait before";
        let (quality, delay): (Bound<'_, PyAny>, f64) =
            pair.extract().map_err(|_| nonsense(&self.class, "choose", returned, wanted))?;
        if !(0.0..=MOST_DELAY).contains(&delay) {
            return Err(nonsense(&self.class, "choose", returned, wanted));
        }
        let quality = self.quality("choose", &quality, view)?;
        Ok(Decision { quality, delay: Duration::from_secs_f64(delay) })
    }
}

impl Rule for OwnRule {
    fn choose(&mut self, view: &View<'_>) -> Decision {
        let decided = self.failure.guard(|py| {
            let Some(object) = &self.object else { return Ok(None) };
            let returned = object.bind(py).call_method1("choose", (Py::new(py, seen(view))?,))?;
            self.decide(&returned, view).map(Some)
        });
        decided.flatten().unwrap_or(Decision { quality: 0, delay: Duration::ZERO })
    }

    fn abandon(&mut self, view: &View<'_>, progress: &Progress) -> Option<usize> {
        let object = self.object.as_ref().filter(|_| self.abandons)?;
        let decided = self.failure.guard(|py| {
            let share = progress.arrived / progress.size.max(1.0);
            let arguments =
                (Py::new(py, seen(view))?, progress.quality, share, progress.elapsed.as_secs_f64());
            let returned = object.bind(py).call_method1("abandon", arguments)?;
            if returned.is_none() { Ok(None) } else { self.quality("abandon", &returned, view).map(Some) }
        });
        decided.flatten()
    }
}

/// Plays a DASH title over a simulated network, as the product's player does.
///
/// Parameters
/// ----------
/// network : Network, str or list of str
///     The network, or what :class:`Network` takes.
/// transport, congestion, seed, rtt : optional
///     As of :class:`Run`, names only; the default transport is ``mptcp``.
/// ladder_mbps : iterable of float, optional
///     Bitrates of the qualities in Mbit/s, ascending; default 1 to 40.
/// segment_s : float, optional
///     Duration of a media segment, 0.5 to 60; default 2.
/// rule : str or type[BitrateRule], optional
///     A rule's name (default ``dynamic``), or a class of your own, which is called without arguments.
/// seconds : int, optional
///     Length of the run in virtual time, 10 to 3600; default 60.
///
/// Raises
/// ------
/// TypeError, ValueError
///     An argument is not possible.
/// SimulationError
///     The run was stopped before its end.
/// Exception
///     Whatever a rule written in Python raised, with a note that names the run and its seed.
///
/// Examples
/// --------
/// >>> playback = tributary.play("los", seconds=20, rule="bola")
/// >>> playback.stalled_s
/// 0.0
#[pyfunction]
#[pyo3(
    signature = (network, **options),
    text_signature = "(network, *, transport='mptcp', congestion='cubic', ladder_mbps=None, segment_s=2, rule='dynamic', \
                      seconds=60, seed=None, rtt=None)"
)]
pub(crate) fn play(network: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Playback> {
    let py = network.py();
    let options = Options::new("play", &ARGUMENTS, options)?;
    let source = Network::of(&Argument("network", network), None)?;
    let request = Request {
        transport: Some(options.text("transport", "a str such as 'mptcp'")?.unwrap_or("mptcp".to_owned())),
        congestion: options.text("congestion", "a str such as 'cubic'")?,
        seconds: Some(options.whole("seconds", 10..=3600)?.unwrap_or(60) as u32),
        seed: options.whole("seed", 0..=u64::MAX)?,
        rtt: options.time("rtt")?,
        ..Request::default()
    };
    let run = request.simulated(source.scenario()).map_err(refused)?.cell;
    let ladder = ladder(&options)?;
    let failure = Failure::default();
    let mut own = Own::default();
    let mut rule = "dynamic".to_owned();
    if let Some(given) = options.any("rule")? {
        match given.cast::<PyString>() {
            Ok(name) => rule = name.to_string(),
            Err(_) if given.is_callable() => own.rule = Some(maker(given.clone().unbind(), failure.clone())),
            Err(_) => return Err(Argument("rule", &given).wrong_type("a name, or a class of your own")),
        }
    }
    let bitrates = (0..ladder.len()).map(|quality| ladder.bitrate(quality)).collect();
    let segments = run.scenario.duration.as_secs_f64() / ladder.segment().as_secs_f64();
    let title = Title { segments: vec![ladder.segment(); segments as usize + 60], ladder, later: Vec::new() };
    let spec =
        DashSpec { title, settings: Settings::default(), rule, from: Instant::ZERO, control: Control::None };
    let told_run = format!("{}, {}, seed {}", run.scenario.name, run.transport, run.scenario.seed);
    let ran = py.detach(|| guarded(|| run.run_dash_own(&spec, &own, &mut |_| failure.watch())));
    if let Some(error) = failure.take() {
        return Err(Failure::told(error, py, &told_run));
    }
    let failed = |problem: String| SimulationError::new_err(format!("{told_run}: {problem}"));
    match ran {
        Ok(Ok(outcome)) => Ok(Playback { outcome, bitrates }),
        Ok(Err(error @ (RunError::World(_) | RunError::Stopped { .. }))) => Err(failed(told(&error))),
        Ok(Err(error)) => Err(refused(error)),
        Err(panic) => Err(failed(panic)),
    }
}

fn ladder(options: &Options<'_>) -> PyResult<Ladder> {
    let rates = match options.any("ladder_mbps")? {
        Some(rates) => {
            Argument("ladder_mbps", &rates).each("a list of Mbit/s", |item| item.number(0.001..=100_000.0))?
        }
        None => LADDER.to_vec(),
    };
    let segment = options.number("segment_s", 0.5..=60.0)?.unwrap_or(2.0);
    let rates = rates.into_iter().map(|mbps| Bitrate::from_bps((mbps * 1e6).round() as u64)).collect();
    Ladder::new(Duration::from_secs_f64(segment), rates)
        .map_err(|error| PyValueError::new_err(format!("ladder_mbps: {error}")))
}

impl Playback {
    fn qoe<T>(&self, read: impl FnOnce(&Qoe) -> T) -> Option<T> {
        self.outcome.qoe.as_ref().map(read)
    }
}

#[pymethods]
impl Playback {
    /// From asking for the first segment to the first picture, seconds; ``None`` when there was none.
    #[getter]
    fn start_up_s(&self) -> Option<f64> {
        self.outcome.start_up.map(|time| time.as_secs_f64())
    }

    /// Total time of all stalls after the first picture, seconds; ``None`` if the manifest did not arrive.
    #[getter]
    fn stalled_s(&self) -> Option<f64> {
        self.qoe(|qoe| qoe.stalled_s)
    }

    /// Number of quality switches; ``None`` if the manifest did not arrive.
    #[getter]
    fn switches(&self) -> Option<usize> {
        self.qoe(|qoe| qoe.switches)
    }

    /// Mean bitrate of the loaded segments, Mbit/s; ``None`` if the manifest did not arrive.
    #[getter]
    fn bitrate_mbps(&self) -> Option<f64> {
        self.qoe(|qoe| qoe.bitrate_bps / 1e6)
    }

    /// Each loaded segment: ``segment``, ``quality``, ``bitrate_mbps``, ``requested_s``, ``complete_s``.
    fn segments(&self) -> Table {
        let segments = self.outcome.qoe.as_ref().map_or(&[][..], |qoe| &qoe.segments);
        let column = |value: &dyn Fn(&tributary_player::dash::play::Loaded) -> f64| {
            segments.iter().map(|loaded| Some(value(loaded))).collect::<Vec<_>>()
        };
        let bitrate = |quality: usize| self.bitrates.get(quality).map_or(f64::NAN, |rate| rate / 1e6);
        Table::of_numbers(vec![
            ("segment", column(&|loaded| loaded.segment as f64)),
            ("quality", column(&|loaded| loaded.quality as f64)),
            ("bitrate_mbps", column(&|loaded| bitrate(loaded.quality))),
            ("requested_s", column(&|loaded| loaded.requested_s)),
            ("complete_s", column(&|loaded| loaded.complete_s)),
        ])
    }
}
