//! Schedulers written in Python, in the simulator's MPTCP and sessions: what such a class sees, and its place in the transport.
//!
//! Everything it returns is checked here, because the transport relies on it.

use crate::failure::{Failure, class_name, defines, nonsense, require};
use core::fmt;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use tributary_proto::scheduler::{
    Assignment, AssignmentKind, Load, Scheduler, SchedulerEvent, SubflowView, WindowView,
};
use tributary_sim::own::MakeScheduler;
use tributary_types::{DataSeq, Instant, SubflowId};

/// Name of the base class.
const BASE: &str = "Scheduler";
/// Name of the method that sends a segment again.
const REINJECT: &str = "reinject";
/// Most bytes that are numbered at a time.
const MOST_BATCH: u64 = 1 << 26;
/// Bytes of a segment; MPTCP makes them smaller.
const SEGMENT: usize = 16 << 10;

/// A subflow, as a scheduler sees it. Times are in seconds, rates in bit/s.
#[pyclass(frozen, module = "tributary")]
#[derive(Debug)]
pub(crate) struct Subflow {
    view: SubflowView,
    age_s: Option<f64>,
}

#[pymethods]
impl Subflow {
    /// Identifier; never used twice in a connection.
    #[getter]
    fn id(&self) -> u32 {
        self.view.id.0
    }

    /// Index of its path in the scenario.
    #[getter]
    fn path(&self) -> u8 {
        self.view.path.0
    }

    /// Bytes it can take now; at zero nothing may be assigned to it.
    #[getter]
    fn room(&self) -> usize {
        self.view.room
    }

    /// Smoothed time from handing a segment over to its acknowledgement, seconds.
    #[getter]
    fn srtt(&self) -> f64 {
        self.view.srtt.as_secs_f64()
    }

    /// Mean deviation of it, seconds.
    #[getter]
    fn rttvar(&self) -> f64 {
        self.view.rttvar.as_secs_f64()
    }

    /// Least round-trip time, seconds.
    #[getter]
    fn min_rtt(&self) -> f64 {
        self.view.min_rtt.as_secs_f64()
    }

    /// Congestion window, bytes.
    #[getter]
    fn cwnd(&self) -> u64 {
        self.view.cwnd
    }

    /// Payload bytes handed over and not acknowledged.
    #[getter]
    fn in_flight(&self) -> u64 {
        self.view.in_flight
    }

    /// Payload bytes sent on it that have arrived.
    #[getter]
    fn delivered(&self) -> u64 {
        self.view.delivered
    }

    /// Recent delivery rate in bit/s; ``None`` until known.
    #[getter]
    fn rate(&self) -> Option<f64> {
        self.view.rate.map(|rate| rate.as_bps() as f64)
    }

    /// Seconds since the oldest unacknowledged segment was handed over; ``None`` without one.
    #[getter]
    fn oldest_age(&self) -> Option<f64> {
        self.age_s
    }

    /// Whether nothing has been acknowledged for much longer than usual.
    #[getter]
    fn silent(&self) -> bool {
        self.view.silent
    }

    /// Order of reliability: 0 is the most reliable.
    #[getter]
    fn rank(&self) -> u8 {
        self.view.rank
    }

    /// Expected seconds until ``bytes`` more, handed over now, are acknowledged.
    fn arrival(&self, bytes: u64) -> f64 {
        self.view.arrival(bytes).as_secs_f64()
    }

    fn __repr__(&self) -> String {
        format!("Subflow({}, room {}, srtt {:.4} s)", self.view.id.0, self.view.room, self.srtt())
    }
}

/// The data, as a scheduler sees it.
#[pyclass(frozen, get_all, module = "tributary")]
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Number of the first segment that is to be sent for the first time; ``None`` in ``reinject``.
    next: Option<u64>,
    /// Number of the last such segment.
    last: Option<u64>,
    /// Payload bytes of the segment ``next``, or of ``first`` in ``reinject``.
    bytes: u32,
    /// Lowest number that is not acknowledged.
    first: u64,
    /// One past the highest number.
    end: u64,
    /// Identifiers of the subflows that carry a copy of ``first``.
    first_on: Vec<u32>,
    /// Seconds since its newest copy was handed over; ``None`` without one.
    first_age: Option<f64>,
    /// Written bytes that could be numbered now.
    available: u64,
    /// Payload bytes numbered and not acknowledged.
    unacknowledged: u64,
    /// The transmission window, bytes.
    limit: usize,
}

/// An object of Python in the place of a scheduler.
struct Own {
    object: Py<PyAny>,
    class: String,
    failure: Failure,
    /// Bytes numbered at a time.
    batch: u64,
    reinjects: bool,
    hears: bool,
    /// Numbered and not assigned, ascending.
    fresh: Vec<u64>,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(&self.class).field("fresh", &self.fresh.len()).finish_non_exhaustive()
    }
}

/// A maker of the schedulers that `factory` gives for a seed: a class, or a function.
pub(crate) fn maker(factory: Py<PyAny>, failure: Failure) -> Arc<MakeScheduler> {
    Arc::new(move |seed| {
        let made = failure.guard(|py| Own::new(factory.bind(py), seed, failure.clone()));
        made.map_or_else(|| Box::new(Nothing) as Box<dyn Scheduler>, |own| Box::new(own))
    })
}

impl Own {
    fn new(factory: &Bound<'_, PyAny>, seed: u64, failure: Failure) -> PyResult<Self> {
        let object = factory.call1((seed,))?;
        require(&object, "assign")?;
        let class = class_name(&object);
        let batch = match object.getattr_opt("batch")? {
            Some(batch) => {
                crate::options::Argument(&format!("{class}.batch"), &batch).whole(1..=MOST_BATCH)?
            }
            None => SEGMENT as u64,
        };
        Ok(Self {
            class,
            failure,
            batch,
            reinjects: defines(&object, BASE, REINJECT)?,
            hears: defines(&object, BASE, "on_event")?,
            object: object.unbind(),
            fresh: Vec::new(),
        })
    }

    /// The state of the data with these segments to be sent for the first time.
    fn see(fresh: &[u64], now: Instant, window: &WindowView<'_>, subflows: &[SubflowView]) -> Window {
        let first = window.first();
        let (next, last) = (fresh.first().copied(), fresh.last().copied());
        let oldest = window.segment(first);
        let on = subflows.iter().filter(|subflow| window.is_on(first, subflow.id));
        let copy = oldest.and_then(|segment| segment.last_copy);
        let shown = next.map_or(oldest, |next| window.segment(DataSeq(next)));
        Window {
            next,
            last,
            bytes: shown.map_or(0, |segment| segment.bytes),
            first: first.0,
            end: window.end().0,
            first_on: on.map(|subflow| subflow.id.0).collect(),
            first_age: copy.map(|copy| now.saturating_since(copy.at).as_secs_f64()),
            available: window.available(),
            unacknowledged: window.unacknowledged(),
            limit: window.window(),
        }
    }

    /// What a method returns for the present state.
    fn ask<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        now: Instant,
        (window, subflows): (&WindowView<'_>, &[SubflowView]),
    ) -> PyResult<Bound<'py, PyAny>> {
        let views = subflows.iter().map(|view| Subflow {
            view: *view,
            age_s: view.oldest_sent.map(|at| now.saturating_since(at).as_secs_f64()),
        });
        let views = PyTuple::new(py, views.map(|view| Py::new(py, view)).collect::<PyResult<Vec<_>>>()?)?;
        let fresh: &[u64] = if method == REINJECT { &[] } else { &self.fresh[..] };
        let window = Py::new(py, Self::see(fresh, now, window, subflows))?;
        self.object.bind(py).call_method1(method, (now.as_secs_f64(), window, views))
    }

    /// The subflow that was returned, alone or before a segment's number. It has room.
    fn chosen(
        &self,
        method: &str,
        returned: &Bound<'_, PyAny>,
        subflows: &[SubflowView],
    ) -> PyResult<(SubflowId, Option<u64>)> {
        let known = || {
            let open = subflows.iter().filter(|subflow| subflow.room > 0);
            let open: Vec<String> = open.map(|subflow| subflow.id.0.to_string()).collect();
            format!(
                "a Subflow with room, or its id ({}), alone or before a segment's number",
                open.join(", ")
            )
        };
        let wrong = || nonsense(&self.class, method, returned, &known());
        let (onto, segment) = match returned.cast::<PyTuple>() {
            Ok(pair) if pair.len() == 2 => {
                (pair.get_item(0)?, Some(pair.get_item(1)?.extract().map_err(|_| wrong())?))
            }
            Ok(_) => return Err(wrong()),
            Err(_) => (returned.clone(), None),
        };
        let id = match onto.cast::<Subflow>() {
            Ok(subflow) => subflow.get().view.id.0,
            Err(_) => onto.extract().map_err(|_| wrong())?,
        };
        let subflow = subflows.iter().find(|subflow| subflow.id.0 == id && subflow.room > 0);
        Ok((subflow.ok_or_else(wrong)?.id, segment))
    }

    fn assign_fresh(
        &mut self,
        py: Python<'_>,
        now: Instant,
        seen: (&WindowView<'_>, &[SubflowView]),
    ) -> PyResult<Option<Assignment>> {
        let returned = self.ask(py, "assign", now, seen)?;
        if returned.is_none() {
            return Ok(None);
        }
        let (subflow, segment) = self.chosen("assign", &returned, seen.1)?;
        let at = segment.map_or(Some(0), |number| self.fresh.binary_search(&number).ok());
        let wanted = "a segment from window.next to window.last that was not assigned";
        let at = at.ok_or_else(|| nonsense(&self.class, "assign", &returned, wanted))?;
        let segment = DataSeq(self.fresh.remove(at));
        Ok(Some(Assignment { subflow, segment, kind: AssignmentKind::Fresh }))
    }

    fn reinject(
        &self,
        py: Python<'_>,
        now: Instant,
        seen: (&WindowView<'_>, &[SubflowView]),
    ) -> PyResult<Option<Assignment>> {
        let returned = self.ask(py, REINJECT, now, seen)?;
        if returned.is_none() {
            return Ok(None);
        }
        let (subflow, segment) = self.chosen(REINJECT, &returned, seen.1)?;
        let segment = segment.map_or(seen.0.first(), DataSeq);
        if !seen.0.is_open(segment) || seen.0.is_on(segment, subflow) {
            let wanted = "a segment that is not acknowledged and not on that subflow";
            return Err(nonsense(&self.class, REINJECT, &returned, wanted));
        }
        Ok(Some(Assignment { subflow, segment, kind: AssignmentKind::Reinjection }))
    }
}

impl Scheduler for Own {
    fn name(&self) -> &'static str {
        "own"
    }

    fn load(&mut self, _now: Instant, _window: &WindowView<'_>, subflows: &[SubflowView]) -> Option<Load> {
        let wanted = self.fresh.is_empty() && subflows.iter().any(|subflow| subflow.room > 0);
        wanted.then_some(Load { bytes: self.batch, segment: SEGMENT })
    }

    fn assign(
        &mut self,
        now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment> {
        let seen = (window, subflows);
        if !subflows.iter().any(|subflow| subflow.room > 0) {
            return None;
        }
        let failure = self.failure.clone();
        let idle = self.fresh.is_empty() && window.available() == 0 && window.unacknowledged() > 0;
        if self.reinjects && (idle || stranded(window, subflows)) {
            let again = failure.guard(|py| self.reinject(py, now, seen)).flatten();
            if again.is_some() {
                return again;
            }
        }
        // Without a segment to send, the transport numbers more now, if there is more.
        if self.fresh.is_empty() {
            return None;
        }
        failure.guard(|py| self.assign_fresh(py, now, seen)).flatten()
    }

    fn on_event(&mut self, now: Instant, event: SchedulerEvent) {
        let (kind, id) = match event {
            SchedulerEvent::Loaded { first, end } => {
                self.fresh.extend(first.0..end.0);
                return;
            }
            SchedulerEvent::Acknowledged { .. } => return,
            SchedulerEvent::SubflowUp(id) => ("up", id.0),
            SchedulerEvent::SubflowDown(id) => ("down", id.0),
        };
        if self.hears {
            let arguments = (now.as_secs_f64(), kind, id);
            self.failure.guard(|py| self.object.bind(py).call_method1("on_event", arguments).map(|_| ()));
        }
    }
}

/// Whether only silent subflows carry the oldest segment, so that delivery waits for them although others deliver.
fn stranded(window: &WindowView<'_>, subflows: &[SubflowView]) -> bool {
    let first = window.first();
    let mut on = subflows.iter().filter(|subflow| window.is_on(first, subflow.id)).peekable();
    on.peek().is_some() && on.all(|subflow| subflow.silent) && subflows.iter().any(|subflow| !subflow.silent)
}

/// In the place of a scheduler that could not be made; the run ends at the next look.
#[derive(Debug)]
struct Nothing;

impl Scheduler for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn load(&mut self, _: Instant, _: &WindowView<'_>, _: &[SubflowView]) -> Option<Load> {
        None
    }

    fn assign(&mut self, _: Instant, _: &WindowView<'_>, _: &[SubflowView]) -> Option<Assignment> {
        None
    }

    fn on_event(&mut self, _: Instant, _: SchedulerEvent) {}
}
